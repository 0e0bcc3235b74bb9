//! The configuration of an endpoint.

use alloc::string::String;

use super::{request_head::ExposedHeads, target::TransportKind};
use crate::http::{Limits, Policy};

/// The configuration of an endpoint: policy, paths and limits.
#[derive(Clone, Debug)]
pub struct EndpointOptions {
    /// The host names and origins from which the endpoint may be reached.
    pub policy: Policy,
    /// The paths of the endpoint.
    pub paths: Paths,
    /// Resource limits of the endpoint and its sessions.
    pub limits: Limits,
    /// The parts of request heads that handlers get: of the headers, and of the values that layers in front of
    /// the endpoint have put into their extensions. Handlers get them as a [`RequestHead`](super::RequestHead), an
    /// [extension](crate::connection::RequestContext::extension) of the request. Default: nothing, at no cost.
    pub heads: Option<ExposedHeads>,
}

impl EndpointOptions {
    /// Creates the configuration of an endpoint on all paths, without the old transport.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { policy, paths: Paths::any(), limits: Limits::default(), heads: None }
    }
}

/// The paths of an endpoint.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The path of the endpoint; `None` for all paths that are not those of the old transport.
    mcp: Option<String>,
    old: Option<HttpSsePaths>,
}

/// The two paths of the transport of 2024-11-05.
#[derive(Clone, Debug)]
pub(super) struct HttpSsePaths {
    pub(super) stream: String,
    pub(super) messages: String,
}

impl Paths {
    /// Accepts any path: a server in front of this one checks it.
    #[must_use]
    pub const fn any() -> Self {
        Self { mcp: None, old: None }
    }

    /// Accepts requests on this path, such as `/mcp`.
    #[must_use]
    pub fn at(path: impl Into<String>) -> Self {
        Self { mcp: Some(path.into()), old: None }
    }

    /// Adds the transport of 2024-11-05: its stream on one path, such as `/sse`, and the messages of clients on
    /// another, such as `/message`. The stream sends the latter to clients, so it is the path from their point of view.
    #[must_use]
    pub fn with_http_sse(mut self, stream: impl Into<String>, messages: impl Into<String>) -> Self {
        self.old = Some(HttpSsePaths { stream: stream.into(), messages: messages.into() });
        self
    }

    pub(super) fn transport(&self, path: &str) -> Option<TransportKind> {
        match (&self.old, &self.mcp) {
            (Some(old), _) if old.stream == path => Some(TransportKind::OldStream),
            (Some(old), _) if old.messages == path => Some(TransportKind::OldMessages),
            (_, None) => Some(TransportKind::Mcp),
            (_, Some(mcp)) => (mcp == path).then_some(TransportKind::Mcp),
        }
    }

    pub(super) const fn old(&self) -> Option<&HttpSsePaths> {
        self.old.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_select_a_transport() {
        use TransportKind::{Mcp, OldMessages, OldStream};
        let both = |paths: Paths| paths.with_http_sse("/sse", "/message");
        for (paths, expected) in [
            (Paths::any(), [Some(Mcp); 4]),
            (Paths::at("/mcp"), [Some(Mcp), None, None, None]),
            (both(Paths::any()), [Some(Mcp), Some(OldStream), Some(OldMessages), Some(Mcp)]),
            (both(Paths::at("/mcp")), [Some(Mcp), Some(OldStream), Some(OldMessages), None]),
        ] {
            assert_eq!(["/mcp", "/sse", "/message", "/other"].map(|path| paths.transport(path)), expected);
        }
        assert!(Paths::any().old().is_none());
        let paths = both(Paths::any());
        let old = paths.old().map(|old| (&*old.stream, &*old.messages));
        assert_eq!(old, Some(("/sse", "/message")));
    }
}
