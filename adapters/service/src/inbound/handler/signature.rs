//! Marker types for the parameters of handlers.

use std::marker::PhantomData;

/// The parameters of a handler: the shared state as `S`, and then `I`.
#[derive(Debug)]
pub struct Signature<S, I>(PhantomData<fn() -> (S, I)>);

/// No state.
#[derive(Debug)]
pub enum NoState {}
/// [`State<S>`](crate::State)
#[derive(Debug)]
pub struct ExtractedState<S>(PhantomData<fn() -> S>);
/// `&S`
#[derive(Debug)]
pub struct BorrowedState<S>(PhantomData<fn() -> S>);
/// `Arc<S>`
#[derive(Debug)]
pub struct SharedState<S>(PhantomData<fn() -> S>);

/// Nothing.
#[derive(Debug)]
pub enum NoInput {}
/// `Context`
#[derive(Debug)]
pub enum ContextOnly {}
/// `A`
#[derive(Debug)]
pub struct ArgumentsOnly<A>(PhantomData<fn() -> A>);
/// `A, Context`
#[derive(Debug)]
pub struct ArgumentsAndContext<A>(PhantomData<fn() -> A>);
/// [`CompletionRequest`](crate::CompletionRequest)
#[derive(Debug)]
pub enum CompletionOnly {}

/// The parameters of a handler beside the shared state.
pub(super) trait Input {
    /// Whether a `Context` is among them.
    const HAS_CONTEXT: bool;
}

impl Input for NoInput {
    const HAS_CONTEXT: bool = false;
}

impl Input for ContextOnly {
    const HAS_CONTEXT: bool = true;
}

impl<A> Input for ArgumentsOnly<A> {
    const HAS_CONTEXT: bool = false;
}

impl<A> Input for ArgumentsAndContext<A> {
    const HAS_CONTEXT: bool = true;
}

impl Input for CompletionOnly {
    const HAS_CONTEXT: bool = false;
}

/// A signature whose arguments have a JSON Schema: one without arguments, and with the feature `schemas` one with
/// arguments that implement `schemars::JsonSchema`.
#[diagnostic::on_unimplemented(
    message = "the arguments of the handler have no JSON Schema",
    label = "its handler has arguments without a JSON Schema",
    note = "with the feature `schemas`, arguments that implement `schemars::JsonSchema` have one; \
            `Tool::with_schema` and `Prompt::with_arguments` do without it",
    note = "a `CompletionRequest` is the parameter of a completion, and not that of a tool or a prompt"
)]
pub trait Described {
    /// Returns the JSON Schema of the arguments.
    fn schema() -> serde_json::Value;
}

impl<S> Described for Signature<S, NoInput> {
    fn schema() -> serde_json::Value {
        nothing()
    }
}

impl<S> Described for Signature<S, ContextOnly> {
    fn schema() -> serde_json::Value {
        nothing()
    }
}

/// A signature without arguments, which is that of the handler of a resource.
#[diagnostic::on_unimplemented(
    message = "the handler of a resource takes no arguments",
    label = "its handler takes arguments",
    note = "its parameters are the shared state and a `Context`, in this order and each of them optional",
    note = "resources with variables in their URIs are a `ResourceTemplate`, whose handler takes the variables as the \
            fields of one struct"
)]
pub trait WithoutArguments {}

impl<S> WithoutArguments for Signature<S, NoInput> {}
impl<S> WithoutArguments for Signature<S, ContextOnly> {}

fn nothing() -> serde_json::Value {
    serde_json::json!({ "type": "object", "additionalProperties": false })
}

/// A type with a JSON Schema: every type that implements `schemars::JsonSchema`. It has its own name so that the
/// compiler explains how a type gets a schema.
#[cfg(feature = "schemas")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no JSON Schema",
    label = "`{Self}` does not implement `schemars::JsonSchema`",
    note = "a type with `#[derive(schemars::JsonSchema)]` has one, with version 1 of `schemars`, which is also \
            `mcp_service::schemars`",
    note = "`Tool::with_schema` and `Prompt::with_arguments` take arguments without a schema, and a result without one \
            is a `serde_json::Value`"
)]
pub trait HasSchema: schemars::JsonSchema {}

#[cfg(feature = "schemas")]
#[diagnostic::do_not_recommend]
impl<T: schemars::JsonSchema> HasSchema for T {}

#[cfg(feature = "schemas")]
impl<S, A: HasSchema> Described for Signature<S, ArgumentsOnly<A>> {
    fn schema() -> serde_json::Value {
        crate::json_schema::derive::input_schema::<A>()
    }
}

#[cfg(feature = "schemas")]
impl<S, A: HasSchema> Described for Signature<S, ArgumentsAndContext<A>> {
    fn schema() -> serde_json::Value {
        crate::json_schema::derive::input_schema::<A>()
    }
}
