//! A request as its peer has sent it, for middleware.

use std::sync::OnceLock;

use mcp_proto::{
    protocol::Method,
    wire::{RawJson, RawJsonBuffer, RequestId},
};

use super::request::{InboundRequest, subject};

/// The largest buffer for params that is kept for the next request, in bytes.
const MAX_KEPT: usize = 1 << 10;

/// A request as its peer has sent it. It is recorded only if the application has middleware.
///
/// The params are there once: the handler reads its arguments here. All else is read when it is needed.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// The method, if it is in the specification.
    known: Option<Method>,
    /// The method, if it is not.
    custom: String,
    params: RawJsonBuffer,
    /// Whether the application has a handler for it. Lists have none, nor requests that are refused.
    has_handler: bool,
    id: OnceLock<Option<RequestId>>,
    name: OnceLock<Option<String>>,
}

impl Received {
    /// Records a request. `arguments` are those in its params, if their place is known.
    pub(crate) fn record<E>(
        &mut self,
        inbound: &InboundRequest<'_, E>,
        arguments: Option<&RawJson<'_>>,
        has_handler: bool,
    ) {
        self.known = inbound.method.known();
        self.has_handler = has_handler;
        if self.known.is_none() {
            self.set_custom(inbound.method.as_str());
        }
        if let Some(params) = &inbound.params {
            self.params.set(params, arguments);
        }
    }

    #[cold]
    fn set_custom(&mut self, method: &str) {
        method.clone_into(&mut self.custom);
    }

    /// Removes all data, so that another request can take its place.
    pub(super) fn clear(&mut self) {
        self.params.clear(MAX_KEPT);
        if self.custom.capacity() > MAX_KEPT {
            self.custom = String::new();
        }
        drop(self.id.take());
        drop(self.name.take());
    }

    pub(crate) const fn known(&self) -> Option<Method> {
        self.known
    }

    pub(crate) fn method(&self) -> &str {
        match self.known {
            Some(known) => known.as_str(),
            None => &self.custom,
        }
    }

    pub(crate) const fn has_handler(&self) -> bool {
        self.has_handler
    }

    /// Returns the id, which `read` reads from the connection once.
    pub(crate) fn id(&self, read: impl FnOnce() -> Option<RequestId>) -> Option<&RequestId> {
        self.id.get_or_init(read).as_ref()
    }

    /// Returns the subject of the request.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.get_or_init(|| subject(self.known?, &self.params.get()?)).as_deref()
    }

    pub(crate) fn params(&self) -> Option<RawJson<'_>> {
        self.params.get()
    }

    /// Returns the member `arguments` of the params. Null means none.
    pub(crate) fn arguments(&self) -> Option<RawJson<'_>> {
        self.placed_arguments().or_else(|| self.params.member("arguments").filter(|it| !it.is_null()))
    }

    /// Returns the member `arguments` of the params if its place is known.
    pub(crate) fn placed_arguments(&self) -> Option<RawJson<'_>> {
        self.params.part()
    }
}
