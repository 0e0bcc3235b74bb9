//! Connections of which each byte is controlled: the interface to processes, to sockets, and to servers of tests.

use std::{error::Error, fmt, io, time::Duration};

use super::secrets::Secrets;

/// The result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// Bytes: a line without its end, or a piece of a body.
    Bytes(Vec<u8>),
    /// Nothing in the time.
    Silence,
    /// The end.
    End,
    /// The connection was closed before the end of the body, or the rest of the body cannot be read.
    Cut,
}

/// A server that is a program.
pub(super) trait Program {
    /// Ends the process, and starts a new one.
    fn restart(&mut self) -> io::Result<()>;
    /// Writes bytes as they are.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Reads a line.
    fn read_line(&mut self, timeout: Duration) -> Read;
    /// Closes the input of the process, and returns whether it ends in the time.
    fn ends_after_input(&mut self, timeout: Duration) -> bool;
}

/// A server over HTTP.
pub(super) trait Site {
    /// Sends a request on a new connection, and reads the head of the response.
    fn exchange(&mut self, request: &Request, timeout: Duration) -> io::Result<Response>;
    /// Returns whether the address is one of this machine.
    fn is_loopback(&self) -> bool;
    /// Returns the secrets that requests have.
    fn secrets(&self) -> Secrets {
        Secrets::default()
    }
}

/// The reason why a request has no valid credentials. The server has no part in it.
#[derive(Debug)]
pub(super) enum NoCredentials {
    /// It was not sent: there is no token for it.
    Refresh(io::Error),
    /// It was refused, and so is now a request that the server has accepted before.
    Refused,
}

impl fmt::Display for NoCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refresh(error) => write!(f, "the stored token cannot be refreshed: {error}"),
            Self::Refused => f.write_str("the server refuses credentials with status 401 which it has accepted before"),
        }
    }
}

impl Error for NoCredentials {}

/// Returns whether an error has nothing to do with the server.
pub(super) fn is_own(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<NoCredentials>())
}

/// A request. The headers `Host`, `Content-Length` and `Connection` are added.
#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    pub(super) method: &'static str,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// Sets a header, or removes it.
    pub(super) fn set(&mut self, name: &str, value: Option<&str>) {
        self.headers.retain(|(it, _)| !it.eq_ignore_ascii_case(name));
        if let Some(value) = value {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
    }
}

/// A response, whose body is read as it arrives.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Box<dyn Body>,
}

impl Response {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

/// Returns the value of a header.
pub(super) fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// The body of a response without its transfer coding.
pub(super) trait Body {
    fn read(&mut self, timeout: Duration) -> Read;
}

/// Returns whether a content type is that of server-sent events.
pub(super) fn is_event_stream(content_type: &str) -> bool {
    let bare = content_type.split(';').next().unwrap_or_default().trim();
    bare.eq_ignore_ascii_case("text/event-stream")
}
