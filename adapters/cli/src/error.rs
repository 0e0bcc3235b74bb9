//! The errors of commands, with their exit codes.

use std::{error::Error, fmt, io, process::ExitCode};

use mcp_proto::{
    connection::{CloseReason, Failure, SendError},
    wire::ErrorCode,
};
use mcp_service::CallError;

/// The error of a command.
#[derive(Debug)]
pub(crate) struct Failed {
    exit: u8,
    why: String,
}

impl Failed {
    /// Creates the error of a tool that has failed. Its result was shown.
    pub(crate) const fn tool() -> Self {
        Self { exit: 1, why: String::new() }
    }

    /// Creates the error of a wrong command line.
    pub(crate) fn usage(why: impl Into<String>) -> Self {
        Self { exit: 2, why: why.into() }
    }

    /// Creates the error of a request that the server has refused, as a whole or in part.
    pub(crate) fn refused(why: impl Into<String>) -> Self {
        Self { exit: 4, why: why.into() }
    }

    /// Creates the error of a connection that has ended.
    pub(crate) fn ended(why: impl Into<String>) -> Self {
        Self { exit: 3, why: why.into() }
    }

    /// Creates the error of a server that has not responded in time.
    pub(crate) fn timeout(why: impl Into<String>) -> Self {
        Self { exit: 5, why: why.into() }
    }

    /// Creates the error of a program that cannot be started.
    pub(crate) fn start(program: &str, error: &io::Error) -> Self {
        Self { exit: 3, why: format!("{program} cannot be started: {error}") }
    }

    /// Creates the error of a connection that cannot be opened.
    pub(crate) fn connection(error: &dyn Error) -> Self {
        Self { exit: 3, why: chain(error) }
    }

    /// Creates the error of a client that could not connect.
    pub(crate) fn connect(error: &mcp_blocking::Error) -> Self {
        let failed = Self::connection(error);
        match error {
            mcp_blocking::Error::Handshake(end) => match &end.reason {
                CloseReason::Failed(failure) => failed.with_hint(failure),
                CloseReason::HandshakeTimeout => failed.with("--timeout gives it more"),
                _ => failed,
            },
            _ => failed,
        }
    }

    /// Adds how to get credentials, if the server wants some.
    fn with_hint(self, failure: &Failure) -> Self {
        if matches!(failure, Failure::Status { status: 401, .. }) { self.unauthorized() } else { self }
    }

    /// Adds how to get credentials, which the server wants.
    pub(crate) fn unauthorized(self) -> Self {
        self.with("`mcp login` signs in, and --bearer sends a token")
    }

    /// Adds what the user can do.
    pub(crate) fn with(mut self, hint: &str) -> Self {
        self.why.push_str("; ");
        self.why.push_str(hint);
        self
    }

    /// Returns whether the standard output was closed by its reader, which is no failure of a command.
    pub(crate) const fn is_closed_output(&self) -> bool {
        self.exit == 0
    }

    /// Returns whether there is no connection.
    pub(crate) const fn is_without_connection(&self) -> bool {
        self.exit == 3
    }

    /// Returns whether the server has refused a request by a response.
    pub(crate) const fn is_refusal(&self) -> bool {
        self.exit == 4
    }

    /// Returns the exit code of the program.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit)
    }
}

/// Returns the text of an error with those of its causes, unless the text contains them.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        if !text.contains(&why) {
            text = format!("{text}: {why}");
        }
        cause = error.source();
    }
    text
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl From<CallError> for Failed {
    fn from(error: CallError) -> Self {
        let exit = match &error {
            CallError::TimedOut { .. } => 5,
            CallError::Closed(_) | CallError::Failed(_) | CallError::Send(SendError::Closed) => 3,
            CallError::ToolFailed(_) => 1,
            _ => 4,
        };
        let failed = Self { exit, why: chain(&error) };
        match &error {
            CallError::Failed(failure) => failed.with_hint(failure),
            CallError::TimedOut { .. } => failed.with("--timeout gives it more"),
            CallError::Rpc(error) if error.code == ErrorCode::MISSING_CLIENT_CAPABILITY => {
                failed.with("--answer, --sample and --root let the server ask")
            }
            _ => failed,
        }
    }
}

impl From<SendError> for Failed {
    fn from(error: SendError) -> Self {
        CallError::Send(error).into()
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        // `mcp list .. | head` reads no more than it needs.
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { exit: 0, why: String::new() };
        }
        Self { exit: 2, why: error.to_string() }
    }
}

impl From<serde_json::Error> for Failed {
    fn from(error: serde_json::Error) -> Self {
        Self { exit: 4, why: error.to_string() }
    }
}
