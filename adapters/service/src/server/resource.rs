//! Resources and their handlers.

use std::{fmt, sync::Arc, time::Duration};

use mcp_proto::schema::{
    BlobResourceContents, CacheHints, CacheScope, Map, ReadResourceResult, ResourceContents, TextResourceContents,
};

use super::{client_key::ClientKey, register_error::RegisterError, scopes::check_scopes};
use crate::{
    driver_api::{deferred::Deferred, job::HandlerKind},
    inbound::{
        context::Context,
        failure::Failure,
        handler::{Arguments, AsyncHandler, Call, Handler, signature::WithoutArguments},
        rpc_result::RpcResult,
        shared_state::{HandlerState, State},
    },
    util::uri::is_uri,
};

/// A resource and its handler.
///
/// The parameters of the handler are a [shared state](crate::State) and a [`Context`], in this order and each of them
/// optional. It returns anything that [can be contents](IntoResource),
/// or a future of that if it is registered with [`new_async`](Self::new_async).
pub struct Resource<S: HandlerState = ()> {
    pub(crate) about: mcp_proto::schema::Resource,
    read: Call<ReadResourceResult, S>,
    hints: Option<CacheHints>,
    /// The server to which it belongs, if that is another one.
    pub(super) origin: Option<Arc<dyn Origin>>,
    /// The scopes that a request for the resource needs.
    pub(super) scopes: Vec<String>,
    /// The skill to which the file belongs. A client that cannot see the skill cannot see the file.
    #[cfg(feature = "skills")]
    pub(super) skill: Option<Arc<mcp_proto::schema::Skill>>,
}

impl<S: HandlerState> Resource<S> {
    /// Creates the resource at `uri`.
    #[must_use]
    pub fn new<G, H>(uri: impl Into<String>, name: impl Into<String>, handler: H) -> Self
    where
        G: WithoutArguments,
        H: Handler<G, State = S, Output: IntoResource + 'static>,
    {
        Self::with_read(uri.into(), name.into(), Call::new(handler, IntoResource::into_resource))
    }

    /// Creates a resource as [`new`](Self::new) does, from a function that returns a future.
    #[must_use]
    pub fn new_async<G, H>(uri: impl Into<String>, name: impl Into<String>, handler: H) -> Self
    where
        G: WithoutArguments,
        H: AsyncHandler<G, State = S, Output: IntoResource + 'static>,
    {
        Self::with_read(uri.into(), name.into(), Call::new_async(handler, IntoResource::into_resource))
    }

    fn with_read(uri: String, name: String, read: Call<ReadResourceResult, S>) -> Self {
        Self {
            about: mcp_proto::schema::Resource::new(uri, name),
            read,
            hints: None,
            origin: None,
            scopes: Vec::new(),
            #[cfg(feature = "skills")]
            skill: None,
        }
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

    /// Sets the media type of the contents, for example `text/plain`.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.about.mime_type = Some(mime_type.into());
        self
    }

    /// Sets the size of the contents in bytes, before any encoding.
    #[must_use]
    pub fn size(mut self, size: u64) -> Self {
        self.about.size = Some(size);
        self
    }

    /// Sets how long clients may cache contents, and whether caches may share them between users (2026-07-28). Clients
    /// that subscribe to changes are still notified. Default: no caching. Hints in a result take precedence.
    #[must_use]
    #[doc(alias = "ttl")]
    pub fn cache_for(mut self, time: Duration, scope: CacheScope) -> Self {
        self.hints = Some(hints(time, scope));
        self
    }

    /// Requires a scope of the sender, such as `files:read`. Requests to read the resource or to subscribe to it fail
    /// without it before the handler runs: over HTTP with the status 403 and a challenge that names all scopes of the
    /// resource, as for [tools](crate::Tool::scope). In 2026-07-28 a subscription without it gets no notifications
    /// about the resource. The resource stays in lists. Only private caches may keep its contents.
    ///
    /// If several registered items match a URI, a request for it needs the scopes of all of them, in any order of
    /// registration, and also of those that are [hidden](crate::ServiceBuilder::visible) from its sender. For that,
    /// URIs are compared as sent, and with the escapes of unreserved characters decoded. Other spellings, such as a
    /// scheme in upper case, are other URIs: a template such as `{+uri}` gets all of them and checks them itself.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scopes.push(scope.into());
        self
    }

    /// Changes further members of the definition that clients get, such as annotations, icons and metadata.
    #[must_use]
    pub fn about(mut self, f: impl FnOnce(&mut mcp_proto::schema::Resource)) -> Self {
        f(&mut self.about);
        self
    }

    /// Returns the resource with the state of its handler.
    pub(super) fn bind(self, state: S) -> Resource {
        Resource {
            about: self.about,
            read: self.read.with_state(state),
            hints: self.hints,
            origin: self.origin,
            scopes: self.scopes,
            #[cfg(feature = "skills")]
            skill: self.skill,
        }
    }
}

impl<S: Send + Sync + 'static> Resource<State<S>> {
    /// Sets the state of the handler: an `S` or an `Arc<S>`. Then the resource can be registered in any service.
    #[must_use]
    pub fn with_state(self, state: impl Into<State<S>>) -> Resource {
        self.bind(state.into())
    }
}

/// The server to which a forwarded resource belongs.
pub(crate) trait Origin: Send + Sync {
    /// Reads a resource, by its URI in this service.
    fn read(&self, uri: String, context: &Context) -> Deferred<Result<ReadResourceResult, Failure>>;

    /// Subscribes to a resource, by its URI in this service, if the server offers that. The result is held as long as
    /// the client is subscribed.
    fn subscribe(&self, uri: &str, client: &ClientKey) -> Deferred<Result<Begun, Failure>>;
}

/// Keeps a subscription at another server: the last one that is dropped ends it.
pub(crate) type Begun = Option<Box<dyn Send>>;

impl Resource {
    /// Creates a resource of another server.
    pub(crate) fn forwarded(about: mcp_proto::schema::Resource, origin: Arc<dyn Origin>) -> Self {
        let (uri, of) = (about.uri.clone(), origin.clone());
        let run = move |(): &(), _: Arguments<'_>, context: &Context| Ok(of.read(uri.clone(), context));
        let read = Call { kind: HandlerKind::Async, run: Box::new(run) };
        Self { about, origin: Some(origin), ..Self::with_read(String::new(), String::new(), read) }
    }

    /// Returns the same resource with another definition, and with a function that is applied to its results.
    pub(super) fn mounted(
        self: &Arc<Self>,
        about: mcp_proto::schema::Resource,
        origin: Arc<dyn Origin>,
        after: impl Fn(ReadResourceResult) -> ReadResourceResult + Send + Sync + 'static,
    ) -> Self {
        let (resource, after) = (self.clone(), Arc::new(after));
        let run = move |(): &(), arguments: Arguments<'_>, context: &Context| {
            let after = after.clone();
            Ok(resource.read.call(arguments, context)?.map(move |read| read.map(|result| after(result))))
        };
        let read = Call { kind: self.kind(), run: Box::new(run) };
        let (hints, origin, scopes) = (self.hints.clone(), Some(origin), self.scopes.clone());
        Self { about, hints, origin, scopes, ..Self::with_read(String::new(), String::new(), read) }
    }

    /// Makes it a file of this skill.
    #[cfg(feature = "skills")]
    pub(super) fn of_skill(mut self, skill: Arc<mcp_proto::schema::Skill>, hints: Option<CacheHints>) -> Self {
        (self.skill, self.hints) = (Some(skill), hints);
        self
    }

    pub(super) fn check(&self) -> Result<(), RegisterError> {
        check_scopes(&self.about.uri, &self.scopes)?;
        if is_uri(&self.about.uri) { Ok(()) } else { Err(RegisterError::Uri(self.about.uri.clone())) }
    }

    pub(super) const fn kind(&self) -> HandlerKind {
        self.read.kind
    }

    /// Runs the handler.
    pub(super) fn run(self: &Arc<Self>, context: &Context) -> Deferred<RpcResult<ReadResourceResult>> {
        let (resource, request) = (self.clone(), context.clone());
        let read = self.read.call(Arguments::Texts(&Map::new()), context);
        let read = read.unwrap_or_else(|bad| Deferred::ready(Err(Failure::new(bad.0))));
        read.map(move |read| match read {
            Ok(result) => {
                let about = &resource.about;
                Ok(hinted(addressed(result, &about.uri, about.mime_type.as_deref()), resource.hints.as_ref()))
            }
            Err(failure) => Err(request.explain(failure)),
        })
    }
}

impl<S: HandlerState> fmt::Debug for Resource<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource").field("about", &self.about).finish_non_exhaustive()
    }
}

/// Returns the cache hints of results.
pub(super) fn hints(time: Duration, scope: CacheScope) -> CacheHints {
    CacheHints { ttl_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX), scope }
}

/// Adds cache hints to a result that has none.
pub(super) fn hinted(mut result: ReadResourceResult, hints: Option<&CacheHints>) -> ReadResourceResult {
    if let Some(CacheHints { ttl_ms, scope }) = hints {
        result.ttl_ms.get_or_insert(*ttl_ms);
        result.cache_scope.get_or_insert_with(|| scope.clone());
    }
    result
}

/// Adds the URI and the media type to contents without a URI.
pub(super) fn addressed(mut result: ReadResourceResult, uri: &str, mime_type: Option<&str>) -> ReadResourceResult {
    for contents in &mut result.contents {
        let (its_uri, its_mime_type) = match contents {
            ResourceContents::Text(text) => (&mut text.uri, &mut text.mime_type),
            ResourceContents::Blob(blob) => (&mut blob.uri, &mut blob.mime_type),
        };
        if its_uri.is_empty() {
            uri.clone_into(its_uri);
            if its_mime_type.is_none() {
                *its_mime_type = mime_type.map(str::to_owned);
            }
        }
    }
    result
}

/// A type that can be the contents of a resource: text, bytes, a [`File`](crate::File), [`ResourceContents`], or a
/// `Result` of these whose error is anything that becomes a [`Failure`].
///
/// Contents without a URI get that of the resource, and its media type unless they have one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the contents of a resource",
    label = "its handler returns `{Self}`",
    note = "contents are a text, bytes, `ResourceContents`, several of them, `ReadResourceResult`, or a `Result` of these",
    note = "a handler that is an `async fn` or returns a future takes the constructor whose name ends in `_async`"
)]
pub trait IntoResource {
    /// Converts it into the result of a read.
    ///
    /// # Errors
    /// The failure of the handler.
    fn into_resource(self) -> Result<ReadResourceResult, Failure>;
}

impl IntoResource for ReadResourceResult {
    fn into_resource(self) -> Result<ReadResourceResult, Failure> {
        Ok(self)
    }
}

impl IntoResource for Vec<ResourceContents> {
    fn into_resource(self) -> Result<ReadResourceResult, Failure> {
        Ok(ReadResourceResult::new(self))
    }
}

impl IntoResource for ResourceContents {
    fn into_resource(self) -> Result<ReadResourceResult, Failure> {
        Ok(ReadResourceResult::new([self]))
    }
}

macro_rules! one_text {
    ($($Type:ty),*) => {
        $(impl IntoResource for $Type {
            fn into_resource(self) -> Result<ReadResourceResult, Failure> {
                ResourceContents::from(TextResourceContents::new("", self)).into_resource()
            }
        })*
    };
}

one_text!(String, &'static str);

macro_rules! bytes {
    ($($Type:ty),*) => {
        $(impl IntoResource for $Type {
            fn into_resource(self) -> Result<ReadResourceResult, Failure> {
                ResourceContents::from(BlobResourceContents::from_bytes("", &self)).into_resource()
            }
        })*
    };
}

bytes!(Vec<u8>, &'static [u8]);

impl<T: IntoResource, E: Into<Failure>> IntoResource for Result<T, E> {
    fn into_resource(self) -> Result<ReadResourceResult, Failure> {
        self.map_err(Into::into)?.into_resource()
    }
}
