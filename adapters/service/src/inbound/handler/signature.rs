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

/// A signature whose arguments have a JSON Schema: one without arguments, and with the feature `schemas` one with
/// arguments that implement `schemars::JsonSchema`.
#[diagnostic::on_unimplemented(
    message = "the arguments of the handler have no JSON Schema",
    note = "with the feature `schemas`, arguments that implement `schemars::JsonSchema` have one; \
            `Tool::with_schema` and `Prompt::with_arguments` do without it"
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

fn nothing() -> serde_json::Value {
    serde_json::json!({ "type": "object", "additionalProperties": false })
}

#[cfg(feature = "schemas")]
impl<S, A: schemars::JsonSchema> Described for Signature<S, ArgumentsOnly<A>> {
    fn schema() -> serde_json::Value {
        crate::json_schema::derive::input_schema::<A>()
    }
}

#[cfg(feature = "schemas")]
impl<S, A: schemars::JsonSchema> Described for Signature<S, ArgumentsAndContext<A>> {
    fn schema() -> serde_json::Value {
        crate::json_schema::derive::input_schema::<A>()
    }
}
