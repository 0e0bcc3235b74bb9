//! Prompts and their handlers.

use std::{fmt, sync::Arc};

use mcp_proto::{
    schema::{ContentBlock, GetPromptResult, Map, PromptArgument, PromptMessage, ResourceContents},
    wire::{ErrorObject, RawJson},
};

use super::{
    completion::{Completable, Completers, ForwardCompletion, IntoCompletion},
    register_error::RegisterError,
    scopes::check_scopes,
};
use crate::{
    driver_api::{deferred::Deferred, job::HandlerKind},
    inbound::{
        context::Context,
        failure::Failure,
        handler::{
            Arguments, AsyncHandler, BadArguments, Call, Handler,
            signature::{CompletionOnly, Described, Signature},
        },
        request::params,
        rpc_result::RpcResult,
        shared_state::{HandlerState, JoinState, State},
    },
    util::text_arguments::excerpt,
};

/// A prompt and its handler.
///
/// The parameters of the handler are a [shared state](crate::State), arguments, and a [`Context`], in this order and
/// each of them optional. It returns anything that [can be a
/// prompt](IntoPrompt), or a future of that with one of the constructors whose names end in `_async`. Arguments are
/// texts; numbers and booleans are parsed from them. The handler does not run if a required argument is missing.
pub struct Prompt<S: HandlerState = ()> {
    pub(crate) about: mcp_proto::schema::Prompt,
    pub(super) completers: Completers<S>,
    /// The scopes that a request for the prompt needs.
    pub(super) scopes: Vec<String>,
    fill: Call<GetPromptResult, S>,
    /// Whether another server fills it, which checks the arguments itself.
    is_forwarded: bool,
}

impl<S: HandlerState> Prompt<S> {
    /// Creates a prompt whose arguments are generated from those of its handler. This works for a handler without
    /// arguments, and with the feature `schemas` for every type with a schema. The names, titles and descriptions of
    /// the arguments are those of the fields.
    #[must_use]
    pub fn new<G, H>(name: impl Into<String>, handler: H) -> Self
    where
        G: Described,
        H: Handler<G, State = S, Output: IntoPrompt + 'static>,
    {
        Self::with_arguments(name, arguments(&G::schema()), handler)
    }

    /// Creates a prompt as [`new`](Self::new) does, from a function that returns a future.
    #[must_use]
    pub fn new_async<G, H>(name: impl Into<String>, handler: H) -> Self
    where
        G: Described,
        H: AsyncHandler<G, State = S, Output: IntoPrompt + 'static>,
    {
        Self::with_arguments_async(name, arguments(&G::schema()), handler)
    }

    /// Creates a prompt with these arguments.
    #[must_use]
    pub fn with_arguments<G, H>(name: impl Into<String>, arguments: impl Into<Vec<PromptArgument>>, handler: H) -> Self
    where
        H: Handler<G, State = S, Output: IntoPrompt + 'static>,
    {
        Self::with_fill(name.into(), arguments.into(), Call::new(handler, IntoPrompt::into_prompt))
    }

    /// Creates a prompt as [`with_arguments`](Self::with_arguments) does, from a function that returns a future.
    #[must_use]
    pub fn with_arguments_async<G, H>(
        name: impl Into<String>,
        arguments: impl Into<Vec<PromptArgument>>,
        handler: H,
    ) -> Self
    where
        H: AsyncHandler<G, State = S, Output: IntoPrompt + 'static>,
    {
        Self::with_fill(name.into(), arguments.into(), Call::new_async(handler, IntoPrompt::into_prompt))
    }

    fn with_fill(name: String, arguments: Vec<PromptArgument>, fill: Call<GetPromptResult, S>) -> Self {
        let arguments = Some(arguments).filter(|arguments| !arguments.is_empty());
        let about = mcp_proto::schema::Prompt { arguments, ..mcp_proto::schema::Prompt::new(name) };
        Self { about, completers: Completers::default(), scopes: Vec::new(), fill, is_forwarded: false }
    }

    /// Sets the title, which is the name for users (2025-06-18).
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.about.title = Some(title.into());
        self
    }

    /// Sets the description of the prompt's purpose.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.about.description = Some(description.into());
        self
    }

    /// Requires a scope of the sender, such as `reviews:read`. Requests for the prompt, and for completions of its
    /// arguments, fail without it before a handler runs: over HTTP with the status 403 and a challenge that names all
    /// scopes of the prompt, as for [tools](crate::Tool::scope). The prompt stays in lists.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scopes.push(scope.into());
        self
    }

    /// Sets the function that proposes values for an argument.
    #[must_use]
    pub fn complete<G, H>(self, argument: impl Into<String>, handler: H) -> Prompt<S::Joined>
    where
        H: Handler<Signature<G, CompletionOnly>, Output: IntoCompletion + 'static>,
        S: JoinState<H::State>,
    {
        let mut joined = self.of_state(S::first);
        let completer = Call::new(handler, IntoCompletion::into_completion).of_state(S::second);
        joined.completers.insert(argument.into(), completer);
        joined
    }

    /// Sets the function that returns a future of proposed values for an argument.
    #[must_use]
    pub fn complete_async<G, H>(self, argument: impl Into<String>, handler: H) -> Prompt<S::Joined>
    where
        H: AsyncHandler<Signature<G, CompletionOnly>, Output: IntoCompletion + 'static>,
        S: JoinState<H::State>,
    {
        let mut joined = self.of_state(S::first);
        let completer = Call::new_async(handler, IntoCompletion::into_completion).of_state(S::second);
        joined.completers.insert(argument.into(), completer);
        joined
    }

    /// Changes further members of the definition that clients get, such as icons and metadata.
    #[must_use]
    pub fn about(mut self, f: impl FnOnce(&mut mcp_proto::schema::Prompt)) -> Self {
        f(&mut self.about);
        self
    }

    /// Returns the prompt with handlers that get their state out of another one.
    fn of_state<T: HandlerState>(self, part: fn(&T) -> &S) -> Prompt<T> {
        let Self { about, completers, scopes, fill, is_forwarded } = self;
        Prompt { about, completers: completers.of_state(part), scopes, fill: fill.of_state(part), is_forwarded }
    }

    /// Returns the prompt with the state of its handlers.
    pub(super) fn bind(self, state: S) -> Prompt {
        let Self { about, completers, scopes, fill, is_forwarded } = self;
        let (completers, fill) = (completers.with_state(&state), fill.with_state(state));
        Prompt { about, completers, scopes, fill, is_forwarded }
    }
}

impl<S: Send + Sync + 'static> Prompt<State<S>> {
    /// Sets the state of the handlers: an `S` or an `Arc<S>`. Then the prompt can be registered in any service.
    #[must_use]
    pub fn with_state(self, state: impl Into<State<S>>) -> Prompt {
        self.bind(state.into())
    }
}

impl Prompt {
    /// Creates a prompt that another server fills. Its definition, arguments and results pass as they are.
    pub(crate) fn forwarded(
        about: mcp_proto::schema::Prompt,
        fill: Call<GetPromptResult>,
        complete: ForwardCompletion,
    ) -> Self {
        Self { about, completers: Completers::forwarded(complete), scopes: Vec::new(), fill, is_forwarded: true }
    }

    /// Returns the same prompt with another definition, and with a function that is applied to its results.
    pub(super) fn mounted(
        self: &Arc<Self>,
        about: mcp_proto::schema::Prompt,
        after: impl Fn(GetPromptResult) -> GetPromptResult + Send + Sync + 'static,
    ) -> Self {
        let (prompt, after) = (self.clone(), Arc::new(after));
        let run = move |(): &(), arguments: Arguments<'_>, context: &Context| {
            let after = after.clone();
            Ok(prompt.fill.call(arguments, context)?.map(move |filled| filled.map(|result| after(result))))
        };
        Self {
            about,
            completers: Completers::mounted(self),
            scopes: self.scopes.clone(),
            fill: Call { kind: self.kind(), run: Box::new(run) },
            is_forwarded: self.is_forwarded,
        }
    }

    pub(super) fn check(&self) -> Result<(), RegisterError> {
        check_scopes(&self.about.name, &self.scopes)?;
        let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_control);
        let names = self.about.arguments.iter().flatten().map(|argument| &argument.name);
        match names.chain([&self.about.name]).find(|name| !is_name(name)) {
            Some(name) => Err(RegisterError::Name(name.clone())),
            None => Ok(()),
        }
    }

    pub(super) const fn kind(&self) -> HandlerKind {
        self.fill.kind
    }

    /// Runs the handler.
    pub(super) fn run(
        self: &Arc<Self>,
        arguments: &Map<String>,
        context: &Context,
    ) -> Deferred<RpcResult<GetPromptResult>> {
        match context.in_flight.arguments.get().map(|replaced| params(Some(&RawJson::from(&**replaced)))) {
            Some(Ok(replaced)) => self.run_with(&replaced, context),
            Some(Err(error)) => Deferred::ready(Err(error)),
            None => self.run_with(arguments, context),
        }
    }

    fn run_with(self: &Arc<Self>, arguments: &Map<String>, context: &Context) -> Deferred<RpcResult<GetPromptResult>> {
        let required = self.about.arguments.iter().flatten().filter(|argument| argument.required == Some(true));
        if !self.is_forwarded
            && let Some(missing) = required.map(|argument| &argument.name).find(|name| arguments.get(name).is_none())
        {
            return Deferred::ready(Err(ErrorObject::invalid_params(excerpt(&format_args!(
                "Missing required argument: {missing}"
            )))));
        }
        let (prompt, request) = (self.clone(), context.clone());
        match self.fill.call(Arguments::Texts(arguments), context) {
            Err(BadArguments(why)) => {
                Deferred::ready(Err(ErrorObject::invalid_params(excerpt(&format_args!("Invalid arguments: {why}")))))
            }
            Ok(filled) => filled.map(move |filled| {
                let mut result = filled.map_err(|failure| request.explain(failure))?;
                if prompt.is_forwarded {
                    return Ok(result);
                }
                result.description = result.description.or_else(|| prompt.about.description.clone());
                result.messages.iter_mut().for_each(|message| name_type(&mut message.content));
                Ok(result)
            }),
        }
    }
}

impl Completable for Prompt {
    fn has(&self, argument: &str) -> bool {
        self.completers.are_forwarded() || self.about.arguments.iter().flatten().any(|known| known.name == argument)
    }

    fn completers(&self) -> &Completers {
        &self.completers
    }

    fn scopes(&self) -> &[String] {
        &self.scopes
    }
}

/// Sets the media type of an embedded resource without one: that of text, or of bytes.
fn name_type(content: &mut ContentBlock) {
    let ContentBlock::Resource(embedded) = content else { return };
    let (kind, fallback) = match &mut embedded.resource {
        ResourceContents::Text(text) => (&mut text.mime_type, "text/plain"),
        ResourceContents::Blob(blob) => (&mut blob.mime_type, "application/octet-stream"),
    };
    kind.get_or_insert_with(|| fallback.to_owned());
}

/// Returns the arguments that a schema describes, the required ones first.
fn arguments(schema: &serde_json::Value) -> Vec<PromptArgument> {
    let text = |schema: &serde_json::Value, name| schema.get(name).and_then(|text| text.as_str()).map(str::to_owned);
    let required = schema.get("required").and_then(|names| names.as_array());
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
    let properties = schema.get("properties").and_then(|properties| properties.as_object());
    let mut arguments: Vec<_> = properties
        .into_iter()
        .flatten()
        .map(|(name, schema)| PromptArgument {
            title: text(schema, "title"),
            description: text(schema, "description"),
            required: is_required(name).then_some(true),
            ..PromptArgument::new(name.as_str())
        })
        .collect();
    let place =
        |name: &str| required.and_then(|names| names.iter().position(|known| known == name)).unwrap_or(usize::MAX);
    arguments.sort_by_key(|argument| place(&argument.name));
    arguments
}

impl<S: HandlerState> fmt::Debug for Prompt<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("about", &self.about).finish_non_exhaustive()
    }
}

/// A type that can be the result of a prompt: a text of the user, a message or several, a whole [`GetPromptResult`], or
/// a `Result` of these whose error is anything that becomes a [`Failure`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a prompt",
    label = "its handler returns `{Self}`",
    note = "a result is a text, `PromptMessage`, several of them, `GetPromptResult`, or a `Result` of these",
    note = "a handler that is an `async fn` or returns a future takes the constructor whose name ends in `_async`"
)]
pub trait IntoPrompt {
    /// Converts it into the result of a prompt.
    ///
    /// # Errors
    /// The failure of the handler.
    fn into_prompt(self) -> Result<GetPromptResult, Failure>;
}

impl IntoPrompt for GetPromptResult {
    fn into_prompt(self) -> Result<GetPromptResult, Failure> {
        Ok(self)
    }
}

impl IntoPrompt for Vec<PromptMessage> {
    fn into_prompt(self) -> Result<GetPromptResult, Failure> {
        Ok(GetPromptResult::new(self))
    }
}

impl<const N: usize> IntoPrompt for [PromptMessage; N] {
    fn into_prompt(self) -> Result<GetPromptResult, Failure> {
        Ok(GetPromptResult::new(self))
    }
}

impl IntoPrompt for PromptMessage {
    fn into_prompt(self) -> Result<GetPromptResult, Failure> {
        Ok(GetPromptResult::new([self]))
    }
}

macro_rules! one_text {
    ($($Type:ty),*) => {
        $(impl IntoPrompt for $Type {
            fn into_prompt(self) -> Result<GetPromptResult, Failure> {
                PromptMessage::user(self).into_prompt()
            }
        })*
    };
}

one_text!(String, &'static str);

impl<T: IntoPrompt, E: Into<Failure>> IntoPrompt for Result<T, E> {
    fn into_prompt(self) -> Result<GetPromptResult, Failure> {
        self.map_err(Into::into)?.into_prompt()
    }
}
