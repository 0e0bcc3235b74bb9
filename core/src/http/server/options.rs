//! The configuration of an endpoint.

use alloc::string::String;

use super::target::TransportKind;
use crate::http::{Limits, Policy};

/// What an endpoint answers, to whom, and how much it may hold.
#[derive(Clone, Debug)]
pub struct Options {
    /// Under which names it is reached, and by which web pages.
    pub policy: Policy,
    /// Where in the space of paths it is.
    pub paths: Paths,
    /// How much it may hold.
    pub limits: Limits,
}

impl Options {
    /// An endpoint on all paths, without the old transport.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { policy, paths: Paths::any(), limits: Limits::default() }
    }
}

/// Where an endpoint is.
#[derive(Clone, Debug)]
pub struct Paths {
    /// `None`: everywhere that is not taken otherwise.
    mcp: Option<String>,
    old: Option<Old>,
}

/// The two paths of the transport of 2024-11-05.
#[derive(Clone, Debug)]
pub(super) struct Old {
    pub(super) stream: String,
    pub(super) messages: String,
}

impl Paths {
    /// Any path: a server in front of this one checks it.
    #[must_use]
    pub const fn any() -> Self {
        Self { mcp: None, old: None }
    }

    /// On this path, such as `/mcp`.
    #[must_use]
    pub fn at(path: impl Into<String>) -> Self {
        Self { mcp: Some(path.into()), old: None }
    }

    /// The transport of 2024-11-05 as well: its stream on one path, such as `/sse`, and what clients say on another,
    /// such as `/message`. Clients are told of the latter, so it is the path as they see it.
    #[must_use]
    pub fn with_old_transport(mut self, stream: impl Into<String>, messages: impl Into<String>) -> Self {
        self.old = Some(Old { stream: stream.into(), messages: messages.into() });
        self
    }

    pub(super) fn surface(&self, path: &str) -> Option<TransportKind> {
        match (&self.old, &self.mcp) {
            (Some(old), _) if old.stream == path => Some(TransportKind::OldStream),
            (Some(old), _) if old.messages == path => Some(TransportKind::OldMessages),
            (_, None) => Some(TransportKind::Mcp),
            (_, Some(mcp)) => (mcp == path).then_some(TransportKind::Mcp),
        }
    }

    pub(super) const fn old(&self) -> Option<&Old> {
        self.old.as_ref()
    }
}
