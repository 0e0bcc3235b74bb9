//! Prompts and the code that fills them in.

use std::{fmt, future::Future, sync::Arc};

use mcp_proto::{
    schema::{ContentBlock, GetPromptResult, Map, PromptArgument, PromptMessage, ResourceContents},
    wire::ErrorObject,
};

use super::{
    completion::{Completable, Completers, Completing, IntoCompletion},
    register_error::RegisterError,
};
use crate::{
    driver_api::{deferred::Later, job::Kind},
    inbound::{
        answer::Answer,
        context::Context,
        failure::Failure,
        handler::{Arguments, BadArguments, Call, Described, Handler},
    },
    util::text_arguments::excerpt,
};

/// A prompt and the code that fills it in.
///
/// The code is a function of nothing, of arguments, of a [`Context`], or of both, and returns anything that
/// [can be a prompt](IntoPrompt), or a future of that if it is registered with one of the constructors whose names end in
/// `_async`. Arguments are texts; where the function wants numbers or booleans, they are read as such. It does not run
/// without the arguments that are required.
pub struct Prompt {
    pub(crate) about: mcp_proto::schema::Prompt,
    pub(super) completers: Completers,
    fill: Call<GetPromptResult>,
}

impl Prompt {
    /// A prompt whose arguments describe themselves. Those that have none always do; others do with the feature `schemas`:
    /// the names, titles and descriptions are those of the fields.
    #[must_use]
    pub fn new<S, H: Described<S, Output: IntoPrompt + 'static>>(name: impl Into<String>, handler: H) -> Self {
        Self::with_arguments(name, arguments(&H::schema()), handler)
    }

    /// As [`new`](Self::new), for code that hands back a future.
    #[must_use]
    pub fn new_async<S, H>(name: impl Into<String>, handler: H) -> Self
    where
        H: Described<S, Output: Future<Output: IntoPrompt + 'static> + Send + 'static>,
    {
        Self::with_arguments_async(name, arguments(&H::schema()), handler)
    }

    /// A prompt with these arguments.
    #[must_use]
    pub fn with_arguments<S, H: Handler<S, Output: IntoPrompt + 'static>>(
        name: impl Into<String>,
        arguments: impl Into<Vec<PromptArgument>>,
        handler: H,
    ) -> Self {
        Self::with_fill(name.into(), arguments.into(), Call::new(handler, IntoPrompt::into_prompt))
    }

    /// As [`with_arguments`](Self::with_arguments), for code that hands back a future.
    #[must_use]
    pub fn with_arguments_async<S, H>(
        name: impl Into<String>,
        arguments: impl Into<Vec<PromptArgument>>,
        handler: H,
    ) -> Self
    where
        H: Handler<S, Output: Future<Output: IntoPrompt + 'static> + Send + 'static>,
    {
        Self::with_fill(name.into(), arguments.into(), Call::new_async(handler, IntoPrompt::into_prompt))
    }

    fn with_fill(name: String, arguments: Vec<PromptArgument>, fill: Call<GetPromptResult>) -> Self {
        let arguments = Some(arguments).filter(|arguments| !arguments.is_empty());
        let about = mcp_proto::schema::Prompt { arguments, ..mcp_proto::schema::Prompt::new(name) };
        Self { about, completers: Completers::default(), fill }
    }

    /// The name for people (2025-06-18).
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.about.title = Some(title.into());
        self
    }

    /// What it is for.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.about.description = Some(description.into());
        self
    }

    /// Makes proposals for an argument.
    #[must_use]
    pub fn complete<R: IntoCompletion>(
        mut self,
        argument: impl Into<String>,
        f: impl Fn(Completing) -> R + Send + Sync + 'static,
    ) -> Self {
        self.completers.insert(argument.into(), f);
        self
    }

    /// Makes proposals for an argument, with code that hands back a future.
    #[must_use]
    pub fn complete_async<R>(
        mut self,
        argument: impl Into<String>,
        f: impl Fn(Completing) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output: IntoCompletion + 'static> + Send + 'static,
    {
        self.completers.insert_async(argument.into(), f);
        self
    }

    /// Whatever else is to be said of it: icons, metadata.
    #[must_use]
    pub fn about(mut self, f: impl FnOnce(&mut mcp_proto::schema::Prompt)) -> Self {
        f(&mut self.about);
        self
    }

    pub(super) fn check(&self) -> Result<(), RegisterError> {
        let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_control);
        let names = self.about.arguments.iter().flatten().map(|argument| &argument.name);
        match names.chain([&self.about.name]).find(|name| !is_name(name)) {
            Some(name) => Err(RegisterError::Name(name.clone())),
            None => Ok(()),
        }
    }

    pub(super) const fn kind(&self) -> Kind {
        self.fill.kind
    }

    /// Fills it in.
    pub(super) fn run(self: &Arc<Self>, arguments: &Map<String>, context: &Context) -> Later<Answer<GetPromptResult>> {
        let required = self.about.arguments.iter().flatten().filter(|argument| argument.required == Some(true));
        if let Some(missing) = required.map(|argument| &argument.name).find(|name| arguments.get(name).is_none()) {
            return Later::ready(Err(ErrorObject::invalid_params(excerpt(&format_args!(
                "Missing required argument: {missing}"
            )))));
        }
        let (prompt, request) = (self.clone(), context.clone());
        match self.fill.call(Arguments::Texts(arguments), context) {
            Err(BadArguments(why)) => {
                Later::ready(Err(ErrorObject::invalid_params(excerpt(&format_args!("Invalid arguments: {why}")))))
            }
            Ok(filled) => filled.map(move |filled| {
                let mut result = filled.map_err(|failure| failure.into_error(request.version()))?;
                result.description = result.description.or_else(|| prompt.about.description.clone());
                result.messages.iter_mut().for_each(|message| name_type(&mut message.content));
                Ok(result)
            }),
        }
    }
}

impl Completable for Prompt {
    fn has(&self, argument: &str) -> bool {
        self.about.arguments.iter().flatten().any(|known| known.name == argument)
    }

    fn completers(&self) -> &Completers {
        &self.completers
    }
}

/// An embedded resource says what it is. Where it does not, it is text, or bytes.
fn name_type(content: &mut ContentBlock) {
    let ContentBlock::Resource(embedded) = content else { return };
    let (kind, fallback) = match &mut embedded.resource {
        ResourceContents::Text(text) => (&mut text.mime_type, "text/plain"),
        ResourceContents::Blob(blob) => (&mut blob.mime_type, "application/octet-stream"),
    };
    kind.get_or_insert_with(|| fallback.to_owned());
}

/// The arguments that a schema describes, the required ones first.
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

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("about", &self.about).finish_non_exhaustive()
    }
}

/// What can be a prompt that is filled in: a text of the user, a message or several, a whole [`GetPromptResult`], or a
/// `Result` of these whose error is anything that becomes a [`Failure`].
pub trait IntoPrompt {
    /// The prompt.
    ///
    /// # Errors
    /// Why there is none.
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
