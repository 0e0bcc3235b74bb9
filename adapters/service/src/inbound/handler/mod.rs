//! Handlers: functions with the parameters that they can have.

mod functions;
pub mod signature;

use std::{future::Future, sync::Arc};

use mcp_proto::{schema::Map, wire::RawJson};
use serde_core::de::DeserializeOwned;

use super::{completion_request::CompletionRequest, context::Context, failure::Failure, shared_state::HandlerState};
use crate::{
    driver_api::{
        deferred::{Deferred, FutureSlot},
        job::{BoxedHandler, HandlerKind},
    },
    util::text_arguments,
};

/// The source of the arguments of a call.
#[derive(Clone, Copy, Debug)]
pub enum Arguments<'a> {
    /// A JSON object.
    Json(&'a RawJson<'a>),
    /// Texts by name, as prompts and templates have them. Numbers and booleans are parsed from the texts.
    Texts(&'a Map<String>),
    /// A request for completion.
    Completion(&'a CompletionRequest),
}

impl Arguments<'_> {
    fn read<T: DeserializeOwned>(self) -> Result<T, BadArguments> {
        match self {
            Self::Json(object) => object.decode().map_err(|error| BadArguments(error.to_string())),
            Self::Texts(texts) => text_arguments::read(texts).map_err(|error| BadArguments(error.to_string())),
            Self::Completion(_) => Err(BadArguments("a request for completion has no arguments".into())),
        }
    }

    fn completion(self) -> Result<CompletionRequest, BadArguments> {
        match self {
            Self::Completion(request) => Ok(request.clone()),
            _ => Err(BadArguments("the request is not for completion".into())),
        }
    }
}

/// The error of arguments that a handler cannot take. The text says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadArguments(pub String);

/// A function that handles requests.
///
/// Its parameters are, in this order, and each of them optional: the [shared state](crate::State) as `&S`, `State<S>`
/// or `Arc<S>`; the arguments, as one type that serde can deserialize; and a [`Context`]. The handler of a completion
/// has a [`CompletionRequest`] in place of arguments and context. `Signature` distinguishes them.
///
/// It is implemented for closures, functions and methods that have these parameters. A function that returns a future
/// is an [`AsyncHandler`], for the constructors whose names end in `_async`.
///
/// The trait is sealed: no other type can implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "not a handler",
    note = "a handler is a function with at most these parameters, in this order: the shared state, the arguments, and \
            a `Context`",
    note = "the shared state is `&S`, `State<S>` or `Arc<S>`, also that of a method, and not `S` or `&mut S`",
    note = "the arguments are one type that implements `serde::Deserialize` and owns its data: several arguments are \
            the fields of one struct",
    note = "the handler of a completion has a `CompletionRequest` in place of the arguments and the `Context`",
    note = "a method that is an `async fn` takes the constructor whose name ends in `_async`"
)]
pub trait Handler<Signature>: Send + Sync + 'static {
    /// The state of the service that the handler needs.
    type State: HandlerState;
    /// The return type of the function.
    type Output;

    /// Whether a [`Context`] is among its parameters.
    #[doc(hidden)]
    const TAKES_CONTEXT: bool;

    /// Deserializes the arguments, and calls the function.
    ///
    /// # Errors
    /// If the arguments cannot be deserialized. The function was not called then.
    fn call(
        &self,
        state: &Self::State,
        arguments: Arguments<'_>,
        context: &Context,
    ) -> Result<Self::Output, BadArguments>;

    /// Seals the trait, since other crates cannot name the type.
    #[doc(hidden)]
    fn sealed() -> sealed::Sealed
    where
        Self: Sized;
}

/// A function that handles requests and returns a future: an `async fn`, also a method, or an `async` closure.
///
/// Its parameters are those of a [`Handler`]. The future is [`Send`]; it may borrow from a shared state that is `&S`.
///
/// The trait is sealed: no other type can implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an asynchronous handler",
    label = "not an asynchronous handler",
    note = "an asynchronous handler is a function that returns a future, with at most these parameters, in this order: \
            the shared state, the arguments, and a `Context`",
    note = "a function that returns no future takes the constructor without `_async`",
    note = "the future is `Send`: it holds no `Rc`, and no guard of a lock of `std`, across an `.await`",
    note = "the shared state is `&S`, `State<S>` or `Arc<S>`, also that of a method, and not `S` or `&mut S`",
    note = "the arguments are one type that implements `serde::Deserialize` and owns its data: several arguments are \
            the fields of one struct",
    note = "the handler of a completion has a `CompletionRequest` in place of the arguments and the `Context`"
)]
pub trait AsyncHandler<Signature>: Send + Sync + 'static {
    /// The state of the service that the handler needs.
    type State: HandlerState;
    /// The output of the future.
    type Output;

    /// Whether a [`Context`] is among its parameters.
    #[doc(hidden)]
    const TAKES_CONTEXT: bool;

    /// Deserializes the arguments, and calls the function.
    ///
    /// # Errors
    /// If the arguments cannot be deserialized. The function was not called then.
    fn call(
        self: &Arc<Self>,
        state: &Self::State,
        arguments: Arguments<'_>,
        context: &Context,
    ) -> Result<impl Future<Output = Self::Output> + Send + 'static + use<Self, Signature>, BadArguments>;

    /// Seals the trait, since other crates cannot name the type.
    #[doc(hidden)]
    fn sealed() -> sealed::Sealed
    where
        Self: Sized;
}

mod sealed {
    /// The type that only this crate can name.
    #[derive(Debug)]
    pub struct Sealed;
}

/// The code of a handler, which needs `S` of the state of the service.
pub(crate) type Call<T, S = ()> = BoxedHandler<dyn Fn(&S, Arguments<'_>, &Context) -> CallResult<T> + Send + Sync>;

/// The future of a call, or the error of its arguments.
pub(crate) type CallResult<T> = Result<Deferred<Result<T, Failure>>, BadArguments>;

impl<T: 'static, S: HandlerState> Call<T, S> {
    pub(crate) fn new<G, H: Handler<G, State = S, Output: 'static>>(
        handler: H,
        into: fn(H::Output) -> Result<T, Failure>,
    ) -> Self {
        let run = move |state: &S, arguments: Arguments<'_>, context: &Context| {
            Ok(Deferred::ready(into(handler.call(state, arguments, context)?)))
        };
        Self { kind: HandlerKind::Blocking, run: Box::new(run) }
    }

    pub(crate) fn new_async<G, H: AsyncHandler<G, State = S, Output: 'static>>(
        handler: H,
        into: fn(H::Output) -> Result<T, Failure>,
    ) -> Self {
        let (handler, slot) = (Arc::new(handler), FutureSlot::default());
        let run = move |state: &S, arguments: Arguments<'_>, context: &Context| {
            let future = handler.call(state, arguments, context)?;
            Ok(slot.poll_once(|| async move { into(future.await) }))
        };
        Self { kind: HandlerKind::Async, run: Box::new(run) }
    }

    /// Returns a handler that gets its state out of another one.
    pub(crate) fn of_state<U: HandlerState>(self, part: fn(&U) -> &S) -> Call<T, U> {
        let run =
            move |state: &U, arguments: Arguments<'_>, context: &Context| (self.run)(part(state), arguments, context);
        Call { kind: self.kind, run: Box::new(run) }
    }

    /// Returns a handler that has its state.
    pub(crate) fn with_state(self, state: S) -> Call<T> {
        let run = move |(): &(), arguments: Arguments<'_>, context: &Context| (self.run)(&state, arguments, context);
        Call { kind: self.kind, run: Box::new(run) }
    }
}

impl<T> Call<T> {
    pub(crate) fn call(&self, arguments: Arguments<'_>, context: &Context) -> CallResult<T> {
        (self.run)(&(), arguments, context)
    }
}
