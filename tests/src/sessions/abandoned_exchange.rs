//! Exchanges that a client has abandoned.

use crate::http_server::RequestRef;

/// An exchange that the client does not read any more, because it has asked to resume the stream on another one.
#[derive(Clone, Copy, Debug)]
pub struct AbandonedExchange {
    /// The request.
    pub sent: RequestRef,
    /// The index of the stream.
    stream: usize,
    /// The server has rejected the resumption, so the exchange still carries the stream.
    pub carries_stream: bool,
}

impl AbandonedExchange {
    /// Returns the exchange that has carried the stream with this index.
    #[must_use]
    pub const fn new(sent: RequestRef, stream: usize) -> Self {
        Self { sent, stream, carries_stream: false }
    }

    /// Records that the last resumption of a stream was rejected.
    pub fn reject_resumption(all: &mut [Self], stream: usize) {
        if let Some(last) = all.iter_mut().rfind(|it| it.stream == stream) {
            last.carries_stream = true;
        }
    }
}
