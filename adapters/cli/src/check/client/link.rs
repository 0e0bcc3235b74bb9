//! The interface to a client that is judged: programs, and clients of tests.

use std::{
    io,
    time::{Duration, Instant},
};

/// An event of a client's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The client has started its server: a new connection over standard input and output.
    Connected,
    /// A line without its end.
    Line(Vec<u8>),
    /// The client has closed the input of its server, or has ended the server before (`is_clean` is `false`).
    InputEnd { is_clean: bool },
    /// A request over HTTP.
    Request(HttpRequest),
    /// An event beyond the limits of a check, so that later ones cannot be judged.
    Beyond(&'static str),
    /// Nothing in the time.
    Silence,
    /// The client has ended. The exit code is `None` if a signal ended it.
    Ended(Option<i32>),
}

/// A request over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HttpRequest {
    /// Names the exchange for the response.
    pub(super) exchange: u64,
    pub(super) method: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// The beginning of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HttpReply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    /// `None` is a stream that [`Link::stream`] writes and [`Link::finish`] ends.
    pub(super) body: Option<Vec<u8>>,
}

/// A client that is started anew as often as needed.
pub(super) trait Link {
    /// Returns whether the client reaches its server over HTTP.
    fn is_http(&self) -> bool;
    /// Ends the client that runs, and starts a new one.
    fn start(&mut self) -> io::Result<()>;
    /// Ends the client.
    fn stop(&mut self);
    /// Hides the error output of the client from now on.
    fn hide(&mut self) {}
    /// Returns the time, which does not advance while a client of a test is silent.
    fn now(&self) -> Instant;
    /// Waits for what comes next.
    fn next(&mut self, timeout: Duration) -> Arrival;
    /// Returns what came at `deadline` or before and is not read yet.
    fn arrived(&mut self, deadline: Instant) -> Option<Arrival>;
    /// Writes bytes to the standard output of the server.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Ends the server, as if its process had ended.
    fn end_server(&mut self);
    /// Responds to a request over HTTP. What cannot be written is dropped: the client may have gone.
    fn respond(&mut self, exchange: u64, reply: HttpReply);
    /// Writes bytes of a stream.
    fn stream(&mut self, exchange: u64, bytes: &[u8]);
    /// Ends a stream.
    fn finish(&mut self, exchange: u64);
}
