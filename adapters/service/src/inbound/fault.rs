//! What a peer does wrong.

use std::{fmt, sync::Arc};

use mcp_proto::{connection::Violation, wire::ErrorObject};

/// Hears what the peer has done wrong.
pub(crate) type Critic = Arc<dyn Fn(Fault) + Send + Sync>;

/// Something that the peer has done wrong, or says that this side has done wrong. The connection lives on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The peer sent something wrong.
    Violation(Violation<'static>),
    /// The peer complains of something that it could not attribute to a request.
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
