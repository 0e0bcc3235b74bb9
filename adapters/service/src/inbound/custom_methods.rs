//! The application's handlers for notifications and for custom methods.

use std::{collections::HashMap, fmt, future::Future, sync::Arc};

use mcp_proto::wire::{ErrorObject, JsonObject, RawJson, decode_params};
use serde_core::{Serialize, de::DeserializeOwned};

use super::{
    context::Context,
    failure::Failure,
    fault::FaultHandler,
    middleware::{Layer, Layers},
    state::Role,
};
use crate::{
    driver_api::{
        deferred::Deferred,
        job::{BoxedHandler, HandlerKind},
    },
    outbound::{calls::Tracer, peer::Peer},
    util::text_arguments::excerpt,
};

/// The params of a request, not parsed yet.
type Params = Option<RawJson<'static>>;

/// A handler of a request.
pub(crate) type RequestHandler<E> =
    BoxedHandler<dyn Fn(Params, Context<E>) -> Deferred<Result<JsonObject, Failure>> + Send + Sync>;

/// A handler of a notification. It returns `None` if the params are invalid.
pub(crate) type NotificationHandler<E> = BoxedHandler<dyn Fn(&Params, Peer<E>) -> Option<Deferred<()>> + Send + Sync>;

/// The handlers and middleware that an application has registered in addition to the features of the specification.
pub struct CustomMethods<E: Role> {
    request_handlers: HashMap<String, Arc<RequestHandler<E>>>,
    notification_handlers: HashMap<String, Arc<NotificationHandler<E>>>,
    pub(crate) fault_handler: Option<FaultHandler>,
    /// Returns the trace of requests of this side.
    pub(crate) tracer: Option<Tracer>,
    /// The middleware.
    pub(crate) layers: Layers<E>,
}

/// A role whose applications have handlers and middleware of their own.
pub trait Dispatch: Role {
    /// Returns the handlers for methods that are not in the specification.
    #[doc(hidden)]
    fn custom(app: &Self::App) -> &CustomMethods<Self>;
}

impl<E: Role> Default for CustomMethods<E> {
    fn default() -> Self {
        Self {
            request_handlers: HashMap::new(),
            notification_handlers: HashMap::new(),
            fault_handler: None,
            tracer: None,
            layers: Layers::default(),
        }
    }
}

impl<E: Role> CustomMethods<E> {
    /// Registers the handler of the requests called `method`. The last one counts.
    pub(crate) fn answer<P, R, F>(
        &mut self,
        method: &str,
        f: impl Fn(P, Context<E>) -> Result<R, F> + Send + Sync + 'static,
    ) where
        P: DeserializeOwned,
        R: Serialize,
        F: Into<Failure>,
    {
        let run = move |params: Params, context| {
            Deferred::ready(read(&params).and_then(|params| written(f(params, context))))
        };
        self.request_handlers
            .insert(method.to_owned(), Arc::new(BoxedHandler { kind: HandlerKind::Blocking, run: Box::new(run) }));
    }

    pub(crate) fn answer_async<P, R, F, T>(
        &mut self,
        method: &str,
        f: impl Fn(P, Context<E>) -> T + Send + Sync + 'static,
    ) where
        P: DeserializeOwned,
        R: Serialize,
        F: Into<Failure>,
        T: Future<Output = Result<R, F>> + Send + 'static,
    {
        let run = move |params: Params, context| match read(&params) {
            Ok(params) => {
                let future = f(params, context);
                Deferred::poll_once(async move { written(future.await) })
            }
            Err(failure) => Deferred::ready(Err(failure)),
        };
        self.request_handlers
            .insert(method.to_owned(), Arc::new(BoxedHandler { kind: HandlerKind::Async, run: Box::new(run) }));
    }

    /// Registers the handler of the notifications called `method`. The last one counts.
    pub(crate) fn listen<P: DeserializeOwned>(&mut self, method: &str, f: impl Fn(P, Peer<E>) + Send + Sync + 'static) {
        let run = move |params: &Params, peer| {
            f(decode_params(params.as_ref()).ok()?, peer);
            Some(Deferred::ready(()))
        };
        self.notification_handlers
            .insert(method.to_owned(), Arc::new(BoxedHandler { kind: HandlerKind::Blocking, run: Box::new(run) }));
    }

    pub(crate) fn listen_async<P, T>(&mut self, method: &str, f: impl Fn(P, Peer<E>) -> T + Send + Sync + 'static)
    where
        P: DeserializeOwned,
        T: Future<Output = ()> + Send + 'static,
    {
        let run = move |params: &Params, peer| Some(Deferred::new(f(decode_params(params.as_ref()).ok()?, peer)));
        self.notification_handlers
            .insert(method.to_owned(), Arc::new(BoxedHandler { kind: HandlerKind::Async, run: Box::new(run) }));
    }

    /// Adds a middleware inside of all others.
    pub(crate) fn wrap(&mut self, layer: impl Layer<E> + 'static) {
        self.layers.push(Box::new(layer));
    }

    pub(crate) fn has_layers(&self) -> bool {
        !self.layers.is_empty()
    }

    pub(crate) fn request_handler(&self, method: &str) -> Option<&Arc<RequestHandler<E>>> {
        self.request_handlers.get(method)
    }

    pub(crate) fn notification_handler(&self, method: &str) -> Option<&Arc<NotificationHandler<E>>> {
        self.notification_handlers.get(method)
    }
}

fn read<P: DeserializeOwned>(params: &Params) -> Result<P, Failure> {
    let params = decode_params(params.as_ref());
    params.map_err(|error| Failure::rpc(ErrorObject::invalid_params(excerpt(&format_args!("Invalid params: {error}")))))
}

fn written<R: Serialize, F: Into<Failure>>(result: Result<R, F>) -> Result<JsonObject, Failure> {
    JsonObject::new(&result.map_err(Into::into)?).map_err(Failure::from)
}

impl<E: Role> fmt::Debug for CustomMethods<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomMethods")
            .field("requests", &self.request_handlers.len())
            .field("notifications", &self.notification_handlers.len())
            .finish_non_exhaustive()
    }
}
