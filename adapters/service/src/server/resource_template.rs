//! Families of resources, and the templates of their URIs.

use std::{fmt, sync::Arc, time::Duration};

use mcp_proto::schema::{CacheHints, CacheScope, Map, ReadResourceResult};

use super::{
    completion::{Completable, Completers, ForwardCompletion, IntoCompletion},
    register_error::RegisterError,
    resource::{IntoResource, Origin, addressed, hinted, hints},
    scopes::check_scopes,
};
use crate::{
    driver_api::{deferred::Deferred, job::HandlerKind},
    inbound::{
        context::Context,
        failure::resource_not_found,
        handler::{
            Arguments, AsyncHandler, BadArguments, Call, Handler,
            signature::{CompletionOnly, Signature},
        },
        rpc_result::RpcResult,
        shared_state::{HandlerState, JoinState, State},
    },
    util::{uri::normalized, uri_template::UriTemplate},
};

/// A family of resources: the template of their URIs, and their handler.
///
/// The handler is a function of nothing, of the variables of the template, of a [`Context`], or of both. It returns
/// anything that [can be contents](IntoResource), or a future of that if it is registered with
/// [`new_async`](Self::new_async). Variables are texts without escapes; numbers and booleans are parsed from them, and
/// a URI for which that fails is not found. A text can contain anything, `../` for example: check it before it becomes
/// the name of a file.
pub struct ResourceTemplate<S: HandlerState = ()> {
    pub(crate) about: mcp_proto::schema::ResourceTemplate,
    pub(super) completers: Completers<S>,
    template: Option<UriTemplate>,
    /// The template with normalized text, if it has scopes.
    normalized: Option<UriTemplate>,
    read: Call<ReadResourceResult, S>,
    hints: Option<CacheHints>,
    /// The server to which its resources belong, if that is another one.
    pub(super) origin: Option<Arc<dyn Origin>>,
    /// The scopes that a request for one of the resources needs.
    pub(super) scopes: Vec<String>,
}

impl<S: HandlerState> ResourceTemplate<S> {
    /// Creates the resources that `uri_template` describes. See [`UriTemplate`].
    #[must_use]
    pub fn new<G, H>(uri_template: impl Into<String>, name: impl Into<String>, handler: H) -> Self
    where
        H: Handler<G, State = S, Output: IntoResource + 'static>,
    {
        Self::with_read(uri_template.into(), name.into(), Call::new(handler, IntoResource::into_resource))
    }

    /// Creates a template as [`new`](Self::new) does, from a function that returns a future.
    #[must_use]
    pub fn new_async<G, H>(uri_template: impl Into<String>, name: impl Into<String>, handler: H) -> Self
    where
        H: AsyncHandler<G, State = S, Output: IntoResource + 'static>,
    {
        Self::with_read(uri_template.into(), name.into(), Call::new_async(handler, IntoResource::into_resource))
    }

    fn with_read(uri_template: String, name: String, read: Call<ReadResourceResult, S>) -> Self {
        Self::of(mcp_proto::schema::ResourceTemplate::new(uri_template, name), Completers::default(), read)
    }

    fn of(
        about: mcp_proto::schema::ResourceTemplate,
        completers: Completers<S>,
        read: Call<ReadResourceResult, S>,
    ) -> Self {
        let (template, normalized, hints, origin, scopes) = (None, None, None, None, Vec::new());
        Self { about, completers, template, normalized, read, hints, origin, scopes }
    }

    /// Sets the title, which is the name for users (2025-06-18).
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.about.title = Some(title.into());
        self
    }

    /// Sets the description for models.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.about.description = Some(description.into());
        self
    }

    /// Sets the media type of the contents, if it is the same for all resources.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.about.mime_type = Some(mime_type.into());
        self
    }

    /// Requires a scope of the sender, such as `files:read`. Requests to read a resource of the template or to
    /// subscribe to it, and for completions of its variables, fail without it before a handler runs, as for
    /// [resources](crate::Resource::scope). The template stays in lists. A URI that other items match as well needs the
    /// scopes of all of them.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scopes.push(scope.into());
        self
    }

    /// Sets the function that proposes values for a variable.
    #[must_use]
    pub fn complete<G, H>(self, variable: impl Into<String>, handler: H) -> ResourceTemplate<S::Joined>
    where
        H: Handler<Signature<G, CompletionOnly>, Output: IntoCompletion + 'static>,
        S: JoinState<H::State>,
    {
        let mut joined = self.of_state(S::first);
        let completer = Call::new(handler, IntoCompletion::into_completion).of_state(S::second);
        joined.completers.insert(variable.into(), completer);
        joined
    }

    /// Sets the function that returns a future of proposed values for a variable.
    #[must_use]
    pub fn complete_async<G, H>(self, variable: impl Into<String>, handler: H) -> ResourceTemplate<S::Joined>
    where
        H: AsyncHandler<Signature<G, CompletionOnly>, Output: IntoCompletion + 'static>,
        S: JoinState<H::State>,
    {
        let mut joined = self.of_state(S::first);
        let completer = Call::new_async(handler, IntoCompletion::into_completion).of_state(S::second);
        joined.completers.insert(variable.into(), completer);
        joined
    }

    /// Sets how long clients may cache contents, and whether caches may share them between users (2026-07-28). Clients
    /// that subscribe to changes are still notified. Default: no caching. Hints in a result take precedence.
    #[must_use]
    #[doc(alias = "ttl")]
    pub fn cache_for(mut self, time: Duration, scope: CacheScope) -> Self {
        self.hints = Some(hints(time, scope));
        self
    }

    /// Changes further members of the definition that clients get, such as annotations, icons and metadata.
    #[must_use]
    pub fn about(mut self, f: impl FnOnce(&mut mcp_proto::schema::ResourceTemplate)) -> Self {
        f(&mut self.about);
        self
    }

    /// Returns the template with handlers that get their state out of another one.
    fn of_state<T: HandlerState>(self, part: fn(&T) -> &S) -> ResourceTemplate<T> {
        let Self { about, completers, template, normalized, read, hints, origin, scopes } = self;
        let (completers, read) = (completers.of_state(part), read.of_state(part));
        ResourceTemplate { about, completers, template, normalized, read, hints, origin, scopes }
    }

    /// Returns the template with the state of its handlers.
    pub(super) fn bind(self, state: S) -> ResourceTemplate {
        let Self { about, completers, template, normalized, read, hints, origin, scopes } = self;
        let (completers, read) = (completers.with_state(&state), read.with_state(state));
        ResourceTemplate { about, completers, template, normalized, read, hints, origin, scopes }
    }
}

impl<S: Send + Sync + 'static> ResourceTemplate<State<S>> {
    /// Sets the state of the handlers: an `S` or an `Arc<S>`. Then the template can be registered in any service.
    #[must_use]
    pub fn with_state(self, state: impl Into<State<S>>) -> ResourceTemplate {
        self.bind(state.into())
    }
}

impl ResourceTemplate {
    /// Creates a template of resources of another server, which knows their URIs.
    pub(crate) fn forwarded(
        about: mcp_proto::schema::ResourceTemplate,
        origin: Arc<dyn Origin>,
        complete: ForwardCompletion,
    ) -> Self {
        let unread = |(): &(), _: Arguments<'_>, _: &Context| Err(BadArguments("it is read by its URI".into()));
        let read = Call { kind: HandlerKind::Async, run: Box::new(unread) };
        Self { origin: Some(origin), ..Self::of(about, Completers::forwarded(complete), read) }
    }

    /// Returns the same template with another definition, and with a function that is applied to its results.
    pub(super) fn mounted(
        self: &Arc<Self>,
        about: mcp_proto::schema::ResourceTemplate,
        origin: Arc<dyn Origin>,
        after: impl Fn(ReadResourceResult) -> ReadResourceResult + Send + Sync + 'static,
    ) -> Self {
        let (template, after) = (self.clone(), Arc::new(after));
        let run = move |(): &(), arguments: Arguments<'_>, context: &Context| {
            let after = after.clone();
            Ok(template.read.call(arguments, context)?.map(move |read| read.map(|result| after(result))))
        };
        let read = Call { kind: self.kind(), run: Box::new(run) };
        let (hints, scopes) = (self.hints.clone(), self.scopes.clone());
        Self { hints, origin: Some(origin), scopes, ..Self::of(about, Completers::mounted(self), read) }
    }

    /// Returns whether its resources belong to the server at this address.
    pub(crate) fn is_of(&self, server: usize) -> bool {
        self.origin.as_ref().is_some_and(|origin| Arc::as_ptr(origin).addr() == server)
    }

    pub(super) fn prepare(&mut self) -> Result<(), RegisterError> {
        let template = &self.about.uri_template;
        check_scopes(template, &self.scopes)?;
        if !self.scopes.is_empty() {
            self.normalized = UriTemplate::parse(&normalized(template)).ok();
        }
        if self.completers.are_forwarded() {
            // The other server matches URIs, also with templates that cannot be matched here.
            self.template = UriTemplate::parse(template).ok();
            return Ok(());
        }
        let parsed = UriTemplate::parse(template)
            .map_err(|why| RegisterError::Template { template: template.clone(), why: why.to_string() })?;
        self.template = Some(parsed);
        Ok(())
    }

    /// Returns the values of the variables if a URI matches the template.
    pub(super) fn matches(&self, uri: &str) -> Option<Map<String>> {
        self.template.as_ref()?.matches(uri)
    }

    /// Returns whether a URI matches the template, as it was sent or normalized.
    pub(super) fn covers(&self, uri: &str, normalized: &str) -> bool {
        self.matches(uri).is_some()
            || self.normalized.as_ref().is_some_and(|template| template.matches(normalized).is_some())
    }

    pub(super) const fn kind(&self) -> HandlerKind {
        self.read.kind
    }

    /// Runs the handler for one of the resources.
    pub(super) fn run(
        self: &Arc<Self>,
        uri: String,
        variables: &Map<String>,
        context: &Context,
    ) -> Deferred<RpcResult<ReadResourceResult>> {
        let (template, request) = (self.clone(), context.clone());
        if let Some(origin) = self.origin.as_ref().filter(|_| self.completers.are_forwarded()) {
            return origin.read(uri, context).map(move |read| read.map_err(|failure| request.explain(failure)));
        }
        match self.read.call(Arguments::Texts(variables), context) {
            // A URI with a text in place of a number names no resource.
            Err(_) => Deferred::ready(Err(resource_not_found(&uri, request.version()))),
            Ok(read) => read.map(move |read| match read {
                Ok(result) => {
                    let mime_type = template.about.mime_type.as_deref();
                    Ok(hinted(addressed(result, &uri, mime_type), template.hints.as_ref()))
                }
                Err(failure) => Err(request.explain(failure)),
            }),
        }
    }
}

impl Completable for ResourceTemplate {
    fn has(&self, argument: &str) -> bool {
        self.completers.are_forwarded()
            || self.template.as_ref().is_some_and(|template| template.variables().any(|variable| variable == argument))
    }

    fn completers(&self) -> &Completers {
        &self.completers
    }

    fn scopes(&self) -> &[String] {
        &self.scopes
    }
}

impl<S: HandlerState> fmt::Debug for ResourceTemplate<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceTemplate").field("about", &self.about).finish_non_exhaustive()
    }
}
