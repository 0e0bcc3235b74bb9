//! The target of a request.

use alloc::{string::String, sync::Arc};

use crate::{http::SessionId, protocol::MirroredHeaders};

/// The target of a request: the message, stream or session that it is for.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// A message of the modern era, which belongs to no session, with its headers until it was opened.
    Modern(Option<Arc<MirroredHeaders>>),
    /// The first message of a session.
    Initialize,
    /// A message of a session.
    Message(SessionId),
    /// A stream of a session: a new one, or one that is resumed after an event.
    Listen(SessionId, Option<String>),
    /// The end of a session.
    End(SessionId),
    /// The stream of a session over the transport of 2024-11-05, which begins with it.
    OldStream,
    /// A message of such a session.
    OldMessage(SessionId),
}

impl Target {
    /// Returns the session that the request is for, if there is one already.
    pub(super) const fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Modern(_) | Self::Initialize | Self::OldStream => None,
            Self::Message(id) | Self::Listen(id, _) | Self::End(id) | Self::OldMessage(id) => Some(id),
        }
    }
}

/// The kind of message in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyKind {
    /// No message.
    Nothing,
    Request,
    Notification,
    Response,
    Batch,
}

/// The part of an endpoint that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransportKind {
    Mcp,
    OldStream,
    OldMessages,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_name_their_session() {
        let id = SessionId::new([1; 24]);
        for target in [
            Target::Message(id.clone()),
            Target::Listen(id.clone(), None),
            Target::End(id.clone()),
            Target::OldMessage(id.clone()),
        ] {
            assert_eq!(target.session(), Some(&id), "{target:?}");
        }
        for target in [Target::Initialize, Target::OldStream] {
            assert_eq!(target.session(), None, "{target:?}");
        }
    }
}
