//! Faults of the peer.

use std::{fmt, sync::Arc};

use mcp_proto::{connection::Violation, wire::ErrorObject};

/// The application's handler of faults.
pub(crate) type FaultHandler = Arc<dyn Fn(Fault) + Send + Sync>;

/// A protocol violation of the peer, or one that the peer reports of this side. The connection stays open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The peer has violated the protocol.
    Violation(Violation<'static>),
    /// The peer has sent an error response without the id of a request.
    PeerError(ErrorObject),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Violation(violation) => violation.fmt(f),
            Self::PeerError(error) => write!(f, "the peer complains: {error}"),
        }
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Violation(_) => None,
            Self::PeerError(error) => Some(error),
        }
    }
}
