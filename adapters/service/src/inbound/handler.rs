//! Handlers: functions with the parameters that they can have.

use std::future::Future;

use mcp_proto::{schema::Map, wire::RawJson};
use serde_core::de::DeserializeOwned;

use super::{context::Context, failure::Failure};
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
}

impl Arguments<'_> {
    fn read<T: DeserializeOwned>(self) -> Result<T, BadArguments> {
        match self {
            Self::Json(object) => object.decode().map_err(|error| BadArguments(error.to_string())),
            Self::Texts(texts) => text_arguments::read(texts).map_err(|error| BadArguments(error.to_string())),
        }
    }
}

/// The error of arguments that a handler cannot take. The text says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadArguments(pub String);

/// A function that handles requests: of nothing, of arguments, of a [`Context`], or of both.
///
/// It is implemented for `Fn() -> R`, `Fn(A) -> R`, `Fn(Context) -> R` and `Fn(A, Context) -> R`, where `A` is any type
/// that serde can deserialize. `Signature` distinguishes them. If `R` is a future, the handler is asynchronous.
pub trait Handler<Signature>: Send + Sync + 'static {
    /// The return type of the function.
    type Output;

    /// Deserializes the arguments, and calls the function.
    ///
    /// # Errors
    /// If the arguments cannot be deserialized. The function was not called then.
    fn call(&self, arguments: Arguments<'_>, context: &Context) -> Result<Self::Output, BadArguments>;
}

/// Marker types for the parameters of handlers.
pub mod signature {
    use std::marker::PhantomData;

    /// `Fn()`
    #[derive(Debug)]
    pub enum NoInput {}
    /// `Fn(Context)`
    #[derive(Debug)]
    pub enum ContextOnly {}
    /// `Fn(A)`
    #[derive(Debug)]
    pub struct ArgumentsOnly<A>(PhantomData<A>);
    /// `Fn(A, Context)`
    #[derive(Debug)]
    pub struct ArgumentsAndContext<A>(PhantomData<A>);
}

impl<F, R> Handler<signature::NoInput> for F
where
    F: Fn() -> R + Send + Sync + 'static,
{
    type Output = R;

    fn call(&self, _: Arguments<'_>, _: &Context) -> Result<R, BadArguments> {
        Ok(self())
    }
}

impl<F, R> Handler<signature::ContextOnly> for F
where
    F: Fn(Context) -> R + Send + Sync + 'static,
{
    type Output = R;

    fn call(&self, _: Arguments<'_>, context: &Context) -> Result<R, BadArguments> {
        Ok(self(context.clone()))
    }
}

impl<F, A, R> Handler<signature::ArgumentsOnly<A>> for F
where
    F: Fn(A) -> R + Send + Sync + 'static,
    A: DeserializeOwned,
{
    type Output = R;

    fn call(&self, arguments: Arguments<'_>, _: &Context) -> Result<R, BadArguments> {
        arguments.read().map(self)
    }
}

impl<F, A, R> Handler<signature::ArgumentsAndContext<A>> for F
where
    F: Fn(A, Context) -> R + Send + Sync + 'static,
    A: DeserializeOwned,
{
    type Output = R;

    fn call(&self, arguments: Arguments<'_>, context: &Context) -> Result<R, BadArguments> {
        Ok(self(arguments.read()?, context.clone()))
    }
}

/// A handler whose arguments have a schema.
///
/// It is implemented for handlers without arguments, and with the feature `schemas` for arguments that implement
/// `schemars::JsonSchema`.
pub trait DescribedHandler<Signature>: Handler<Signature> {
    /// Returns the JSON Schema of the arguments.
    fn schema() -> serde_json::Value;
}

impl<F: Handler<signature::NoInput>> DescribedHandler<signature::NoInput> for F {
    fn schema() -> serde_json::Value {
        nothing()
    }
}

impl<F: Handler<signature::ContextOnly>> DescribedHandler<signature::ContextOnly> for F {
    fn schema() -> serde_json::Value {
        nothing()
    }
}

fn nothing() -> serde_json::Value {
    serde_json::json!({ "type": "object", "additionalProperties": false })
}

#[cfg(feature = "schemas")]
impl<F: Handler<signature::ArgumentsOnly<A>>, A: schemars::JsonSchema> DescribedHandler<signature::ArgumentsOnly<A>>
    for F
{
    fn schema() -> serde_json::Value {
        crate::json_schema::derive::input_schema::<A>()
    }
}

#[cfg(feature = "schemas")]
impl<F: Handler<signature::ArgumentsAndContext<A>>, A: schemars::JsonSchema>
    DescribedHandler<signature::ArgumentsAndContext<A>> for F
{
    fn schema() -> serde_json::Value {
        crate::json_schema::derive::input_schema::<A>()
    }
}

/// The code of a handler with arguments.
pub(crate) type Call<T> = BoxedHandler<dyn Fn(Arguments<'_>, &Context) -> CallResult<T> + Send + Sync>;

/// The future of a call, or the error of its arguments.
pub(crate) type CallResult<T> = Result<Deferred<Result<T, Failure>>, BadArguments>;

impl<T: 'static> Call<T> {
    pub(crate) fn new<S, H: Handler<S, Output: 'static>>(
        handler: H,
        into: fn(H::Output) -> Result<T, Failure>,
    ) -> Self {
        let run = move |arguments: Arguments<'_>, context: &Context| {
            Ok(Deferred::ready(into(handler.call(arguments, context)?)))
        };
        Self { kind: HandlerKind::Blocking, run: Box::new(run) }
    }

    pub(crate) fn new_async<S, R: 'static, H>(handler: H, into: fn(R) -> Result<T, Failure>) -> Self
    where
        H: Handler<S, Output: Future<Output = R> + Send + 'static>,
    {
        let slot = FutureSlot::default();
        let run = move |arguments: Arguments<'_>, context: &Context| {
            let future = handler.call(arguments, context)?;
            Ok(slot.poll_once(async move { into(future.await) }))
        };
        Self { kind: HandlerKind::Async, run: Box::new(run) }
    }

    pub(crate) fn call(&self, arguments: Arguments<'_>, context: &Context) -> CallResult<T> {
        (self.run)(arguments, context)
    }
}
