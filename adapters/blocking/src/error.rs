//! What can go wrong with a connection as a whole.

use std::{fmt, io};

use mcp_proto::connection::{CloseReason, Opening, SendError};
use mcp_service::CallError;

use crate::Exit;

/// Why there is no connection, or no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The program could not be started.
    Spawn {
        /// Its name.
        program: String,
        /// What the system says.
        error: io::Error,
    },
    /// There is no way to the peer: no socket, no descriptor, no thread.
    Io(io::Error),
    /// The handshake failed.
    Handshake(Ending),
    /// The connection has ended in another way than it should.
    Closed(Ending),
    /// A call has no result.
    Call(CallError),
}

/// How a connection has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ending {
    /// Why.
    pub reason: CloseReason,
    /// How the process ended that was started for it, if one was.
    pub exit: Option<Exit>,
    /// How to begin if the server is reached once more, where that could change anything: it has left before it was of
    /// any use. [`Client::spawn`](crate::Client::spawn) and the other ways to connect that can do so have tried that.
    pub next_opening: Option<Opening>,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)?;
        match &self.exit {
            // It is what the reason tells.
            Some(exit) if !matches!(self.reason, CloseReason::Lost(_)) => write!(f, " (the server ended with {exit})"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spawn { program, error } => write!(f, "cannot start {program}: {error}"),
            Self::Io(error) => error.fmt(f),
            Self::Handshake(ending) => write!(f, "no session: {ending}"),
            Self::Closed(ending) => write!(f, "the connection ended: {ending}"),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Spawn { error, .. } | Self::Io(error) => Some(error),
            Self::Handshake(ending) | Self::Closed(ending) => Some(&ending.reason),
            Self::Call(error) => Some(error),
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<SendError> for Error {
    fn from(error: SendError) -> Self {
        Self::Call(error.into())
    }
}
