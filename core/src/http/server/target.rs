//! What a request is for.

use alloc::{string::String, sync::Arc};

use crate::{http::SessionId, protocol::MirroredHeaders};

/// What a request is for.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// A message of the modern era, which stands alone.
    Modern(Arc<MirroredHeaders>),
    /// The first message of a session.
    Initialize,
    /// A message of a session.
    Message(SessionId),
    /// A stream of a session, anew or from where it was lost.
    Listen(SessionId, Option<String>),
    /// The end of a session.
    End(SessionId),
    /// The stream of a session over the transport of 2024-11-05, which begins with it.
    OldStream,
    /// A message of such a session.
    OldMessage(SessionId),
}

impl Target {
    /// The session that it is for, if there is one already.
    pub(super) const fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Modern(_) | Self::Initialize | Self::OldStream => None,
            Self::Message(id) | Self::Listen(id, _) | Self::End(id) | Self::OldMessage(id) => Some(id),
        }
    }
}

/// What kind of message a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// There is none.
    Nothing,
    Request,
    Notification,
    Response,
    Batch,
}

/// Which of the places that an endpoint has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransportKind {
    Mcp,
    OldStream,
    OldMessages,
}
