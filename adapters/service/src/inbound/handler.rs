//! Functions that answer, in the shapes in which they can be written.

use std::future::Future;

use mcp_proto::{schema::Map, wire::RawJson};
use serde_core::de::DeserializeOwned;

use super::{context::Context, failure::Failure};
use crate::{
    driver_api::{
        deferred::{Deferred, FutureSlot},
        job::{Code, HandlerKind},
    },
    util::text_arguments as texts,
};

/// What the arguments of a call are read from.
#[derive(Clone, Copy, Debug)]
pub enum Arguments<'a> {
    /// A JSON object.
    Json(&'a RawJson<'a>),
    /// Texts by name, as prompts and templates have them. Where numbers, booleans or the like are wanted, the texts are read as
    /// such.
    Texts(&'a Map<String>),
}

impl Arguments<'_> {
    fn read<T: DeserializeOwned>(self) -> Result<T, BadArguments> {
        match self {
            Self::Json(object) => object.decode().map_err(|error| BadArguments(error.to_string())),
            Self::Texts(texts) => texts::read(texts).map_err(|error| BadArguments(error.to_string())),
        }
    }
}

/// The arguments are not those that a handler takes. The text says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadArguments(pub String);

/// A function that answers: of nothing, of arguments, of a [`Context`], or of both.
///
/// Implemented for `Fn() -> R`, `Fn(A) -> R`, `Fn(Context) -> R` and `Fn(A, Context) -> R`, where `A` is anything that
/// serde can read. `Signature` tells them apart. An asynchronous handler is one whose `R` is a future.
pub trait Handler<Signature>: Send + Sync + 'static {
    /// What it answers.
    type Output;

    /// Reads the arguments, and answers.
    ///
    /// # Errors
    /// If the arguments do not fit; then it has not run.
    fn call(&self, arguments: Arguments<'_>, context: &Context) -> Result<Self::Output, BadArguments>;
}

/// The shapes of handlers.
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

/// A handler whose arguments say themselves what they look like.
///
/// Without arguments they do; with the feature `schemas`, so does everything that is `schemars::JsonSchema`.
pub trait DescribedHandler<Signature>: Handler<Signature> {
    /// The JSON Schema of the arguments.
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
        crate::json_schema::derive::of::<A>()
    }
}

#[cfg(feature = "schemas")]
impl<F: Handler<signature::ArgumentsAndContext<A>>, A: schemars::JsonSchema>
    DescribedHandler<signature::ArgumentsAndContext<A>> for F
{
    fn schema() -> serde_json::Value {
        crate::json_schema::derive::of::<A>()
    }
}

/// Code that works on arguments.
pub(crate) type Call<T> = Code<dyn Fn(Arguments<'_>, &Context) -> Called<T> + Send + Sync>;

/// What comes of a call, if the arguments are such that it is made.
pub(crate) type Called<T> = Result<Deferred<Result<T, Failure>>, BadArguments>;

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

    pub(crate) fn call(&self, arguments: Arguments<'_>, context: &Context) -> Called<T> {
        (self.run)(arguments, context)
    }
}
