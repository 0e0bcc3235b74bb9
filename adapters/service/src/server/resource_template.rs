//! Families of resources, and the templates that their URIs come from.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use mcp_proto::schema::{CacheHints, CacheScope, Map, ReadResourceResult};

use super::{
    completion::{Completable, Completers, Completing, IntoCompletion},
    register_error::RegisterError,
    resource::{IntoResource, addressed, hinted, hints},
};
use crate::{
    driver_api::{deferred::Later, job::Kind},
    inbound::{
        answer::Answer,
        context::Context,
        failure::resource_not_found,
        handler::{Arguments, Call, Handler},
    },
    util::uri_template::UriTemplate,
};

/// A family of resources: the template of their URIs, and the code that reads them.
///
/// The code is a function of nothing, of the variables of the template, of a [`Context`], or of both, and returns anything
/// that [can be contents](IntoResource), or a future of that if it is registered with [`new_async`](Self::new_async). Variables are texts without escapes; where the function wants numbers or the like,
/// they are read as such, and a URI where that is not possible is not found. A text can hold anything, `../` for example:
/// check it before it becomes the name of a file.
pub struct ResourceTemplate {
    pub(crate) about: mcp_proto::schema::ResourceTemplate,
    pub(super) completers: Completers,
    template: Option<UriTemplate>,
    read: Call<ReadResourceResult>,
    hints: Option<CacheHints>,
}

impl ResourceTemplate {
    /// The resources that `uri_template` describes. See [`UriTemplate`].
    #[must_use]
    pub fn new<S, H: Handler<S, Output: IntoResource + 'static>>(
        uri_template: impl Into<String>,
        name: impl Into<String>,
        handler: H,
    ) -> Self {
        Self::with_read(uri_template.into(), name.into(), Call::new(handler, IntoResource::into_resource))
    }

    /// As [`new`](Self::new), for code that hands back a future.
    #[must_use]
    pub fn new_async<S, H>(uri_template: impl Into<String>, name: impl Into<String>, handler: H) -> Self
    where
        H: Handler<S, Output: Future<Output: IntoResource + 'static> + Send + 'static>,
    {
        Self::with_read(uri_template.into(), name.into(), Call::new_async(handler, IntoResource::into_resource))
    }

    fn with_read(uri_template: String, name: String, read: Call<ReadResourceResult>) -> Self {
        let about = mcp_proto::schema::ResourceTemplate::new(uri_template, name);
        Self { about, completers: Completers::default(), template: None, read, hints: None }
    }

    /// The name for people (2025-06-18).
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.about.title = Some(title.into());
        self
    }

    /// What the resources are, for models.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.about.description = Some(description.into());
        self
    }

    /// The type of their contents, if it is the same for all.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.about.mime_type = Some(mime_type.into());
        self
    }

    /// Makes proposals for a variable.
    #[must_use]
    pub fn complete<R: IntoCompletion>(
        mut self,
        variable: impl Into<String>,
        f: impl Fn(Completing) -> R + Send + Sync + 'static,
    ) -> Self {
        self.completers.insert(variable.into(), f);
        self
    }

    /// Makes proposals for a variable, with code that hands back a future.
    #[must_use]
    pub fn complete_async<R>(
        mut self,
        variable: impl Into<String>,
        f: impl Fn(Completing) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output: IntoCompletion + 'static> + Send + 'static,
    {
        self.completers.insert_async(variable.into(), f);
        self
    }

    /// For how long clients may use what they have read again, and whether for everybody (2026-07-28). They are told of
    /// changes all the same. Default: not at all. A result that says so itself comes before this.
    #[must_use]
    pub fn good_for(mut self, time: Duration, scope: CacheScope) -> Self {
        self.hints = Some(hints(time, scope));
        self
    }

    /// Whatever else is to be said of them: annotations, icons, metadata.
    #[must_use]
    pub fn about(mut self, f: impl FnOnce(&mut mcp_proto::schema::ResourceTemplate)) -> Self {
        f(&mut self.about);
        self
    }

    pub(super) fn prepare(&mut self) -> Result<(), RegisterError> {
        let template = &self.about.uri_template;
        let parsed = UriTemplate::parse(template)
            .map_err(|why| RegisterError::Template { template: template.clone(), why: why.to_string() })?;
        self.template = Some(parsed);
        Ok(())
    }

    /// What a URI was filled in with, if it comes from this template.
    pub(super) fn matches(&self, uri: &str) -> Option<Map<String>> {
        self.template.as_ref()?.matches(uri)
    }

    pub(super) const fn kind(&self) -> Kind {
        self.read.kind
    }

    /// Reads one of the resources.
    pub(super) fn run(
        self: &Arc<Self>,
        uri: String,
        variables: &Map<String>,
        context: &Context,
    ) -> Later<Answer<ReadResourceResult>> {
        let (template, request) = (self.clone(), context.clone());
        match self.read.call(Arguments::Texts(variables), context) {
            // A URI with a text where a number should be names nothing that there is.
            Err(_) => Later::ready(Err(resource_not_found(&uri, request.version()))),
            Ok(read) => read.map(move |read| match read {
                Ok(result) => {
                    let mime_type = template.about.mime_type.as_deref();
                    Ok(hinted(addressed(result, &uri, mime_type), template.hints.as_ref()))
                }
                Err(failure) => Err(failure.into_error(request.version())),
            }),
        }
    }
}

impl Completable for ResourceTemplate {
    fn has(&self, argument: &str) -> bool {
        self.template.as_ref().is_some_and(|template| template.variables().any(|variable| variable == argument))
    }

    fn completers(&self) -> &Completers {
        &self.completers
    }
}

impl fmt::Debug for ResourceTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceTemplate").field("about", &self.about).finish_non_exhaustive()
    }
}
