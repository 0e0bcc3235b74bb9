//! The application's handlers for notifications, and for methods of its own.

use std::{collections::HashMap, fmt, future::Future, sync::Arc};

use mcp_proto::wire::{ErrorObject, JsonObject, RawJson, decode_params};
use serde_core::{Serialize, de::DeserializeOwned};

use super::{
    context::Context,
    failure::Failure,
    fault::Critic,
    middleware::{Layer, Layers},
    state::Role,
};
use crate::{
    driver_api::{
        deferred::Deferred,
        job::{Code, HandlerKind},
    },
    outbound::{calls::Tracer, peer::Peer},
    util::text_arguments::excerpt,
};

/// The params of a request, not parsed yet.
type Params = Option<RawJson<'static>>;

/// A handler of a request.
pub(crate) type Answerer<E> = Code<dyn Fn(Params, Context<E>) -> Deferred<Result<JsonObject, Failure>> + Send + Sync>;

/// A handler of a notification. It returns `None` if the params are invalid.
pub(crate) type Listener<E> = Code<dyn Fn(&Params, Peer<E>) -> Option<Deferred<()>> + Send + Sync>;

/// The handlers and middleware that an application has registered in addition to the features of the specification.
pub struct Custom<E: Role> {
    answerers: HashMap<String, Arc<Answerer<E>>>,
    listeners: HashMap<String, Arc<Listener<E>>>,
    pub(crate) critic: Option<Critic>,
    /// Returns the trace of requests of this side.
    pub(crate) tracer: Option<Tracer>,
    /// The middleware.
    pub(crate) layers: Layers<E>,
}

/// A role whose applications have handlers and middleware of their own.
pub trait Dispatch: Role {
    /// Returns the handlers for methods that are not in the specification.
    #[doc(hidden)]
    fn custom(home: &Self::Home) -> &Custom<Self>;
}

impl<E: Role> Default for Custom<E> {
    fn default() -> Self {
        Self {
            answerers: HashMap::new(),
            listeners: HashMap::new(),
            critic: None,
            tracer: None,
            layers: Layers::default(),
        }
    }
}

impl<E: Role> Custom<E> {
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
        self.answerers.insert(method.to_owned(), Arc::new(Code { kind: HandlerKind::Blocking, run: Box::new(run) }));
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
        self.answerers.insert(method.to_owned(), Arc::new(Code { kind: HandlerKind::Async, run: Box::new(run) }));
    }

    /// Registers the handler of the notifications called `method`. The last one counts.
    pub(crate) fn listen<P: DeserializeOwned>(&mut self, method: &str, f: impl Fn(P, Peer<E>) + Send + Sync + 'static) {
        let run = move |params: &Params, peer| {
            f(decode_params(params.as_ref()).ok()?, peer);
            Some(Deferred::ready(()))
        };
        self.listeners.insert(method.to_owned(), Arc::new(Code { kind: HandlerKind::Blocking, run: Box::new(run) }));
    }

    pub(crate) fn listen_async<P, T>(&mut self, method: &str, f: impl Fn(P, Peer<E>) -> T + Send + Sync + 'static)
    where
        P: DeserializeOwned,
        T: Future<Output = ()> + Send + 'static,
    {
        let run = move |params: &Params, peer| Some(Deferred::new(f(decode_params(params.as_ref()).ok()?, peer)));
        self.listeners.insert(method.to_owned(), Arc::new(Code { kind: HandlerKind::Async, run: Box::new(run) }));
    }

    /// Adds a middleware inside of all others.
    pub(crate) fn wrap(&mut self, layer: Layer<E>) {
        Arc::make_mut(&mut self.layers).push(layer);
    }

    pub(crate) fn has_layers(&self) -> bool {
        !self.layers.is_empty()
    }

    pub(crate) fn answerer(&self, method: &str) -> Option<&Arc<Answerer<E>>> {
        self.answerers.get(method)
    }

    pub(crate) fn listener(&self, method: &str) -> Option<&Arc<Listener<E>>> {
        self.listeners.get(method)
    }
}

fn read<P: DeserializeOwned>(params: &Params) -> Result<P, Failure> {
    let params = decode_params(params.as_ref());
    params.map_err(|error| Failure::rpc(ErrorObject::invalid_params(excerpt(&format_args!("Invalid params: {error}")))))
}

fn written<R: Serialize, F: Into<Failure>>(result: Result<R, F>) -> Result<JsonObject, Failure> {
    JsonObject::new(&result.map_err(Into::into)?).map_err(Failure::from)
}

impl<E: Role> fmt::Debug for Custom<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Custom")
            .field("requests", &self.answerers.len())
            .field("notifications", &self.listeners.len())
            .finish_non_exhaustive()
    }
}
