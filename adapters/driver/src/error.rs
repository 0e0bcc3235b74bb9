//! Errors of a connection as a whole.

use std::{fmt, io};

use mcp_proto::connection::{CloseReason, Opening, SendError};

use crate::process::state::Exit;
use mcp_service::CallError;

/// The reason why there is no connection or no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The program could not be started.
    Spawn {
        /// The name of the program.
        program: String,
        /// The error of the system.
        error: io::Error,
    },
    /// A connection could not be opened: there is no socket, no descriptor or no thread.
    Io(io::Error),
    /// The handshake failed.
    Handshake(Disconnected),
    /// The connection did not end cleanly.
    Closed(Disconnected),
    /// A call has no result.
    Call(CallError),
    /// The server has ended too often, and is not started again for now. It contains the error of the last attempt.
    GivenUp(Box<Error>),
}

/// How a connection has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Disconnected {
    /// The reason.
    pub reason: CloseReason,
    /// How the child process ended, if one was started for the connection.
    pub exit: Option<Exit>,
    /// How to begin another attempt, if the server ended during the handshake and that could help. `Client::spawn` and
    /// other functions that can connect a second time have already done so.
    pub next_opening: Option<Opening>,
}

impl Disconnected {
    /// Creates the description of an ended connection.
    #[must_use]
    pub const fn new(reason: CloseReason, exit: Option<Exit>, next_opening: Option<Opening>) -> Self {
        Self { reason, exit, next_opening }
    }

    /// Returns an error unless the connection ended cleanly.
    ///
    /// # Errors
    /// [`Error::Closed`], if not.
    pub fn into_result(self) -> Result<(), Error> {
        if self.reason.is_clean() { Ok(()) } else { Err(Error::Closed(self)) }
    }
}

impl fmt::Display for Disconnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)?;
        match &self.exit {
            // The reason already contains it.
            Some(exit) if !matches!(self.reason, CloseReason::TransportError(_)) => {
                write!(f, " (the server ended with {exit})")
            }
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
            Self::GivenUp(error) => write!(f, "the server has ended too often: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Spawn { error, .. } | Self::Io(error) => Some(error),
            Self::Handshake(ending) | Self::Closed(ending) => Some(&ending.reason),
            Self::Call(error) => Some(error),
            Self::GivenUp(error) => Some(&**error),
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
