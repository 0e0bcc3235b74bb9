//! Exchanges that a client has abandoned.

use crate::http_server::RequestRef;

/// An exchange that the client does not read any more, because it has asked to resume the stream on another one.
#[derive(Clone, Copy, Debug)]
pub struct AbandonedExchange {
    /// The request.
    pub sent: RequestRef,
    /// The index of the stream.
    stream: usize,
    /// The request that resumes the stream.
    resumption: RequestRef,
    /// The server has rejected the resumption and accepted no later one, so the exchange may still carry the stream.
    pub carries_stream: bool,
}

impl AbandonedExchange {
    /// Returns the exchange that has carried the stream with this index until it was resumed by `resumption`.
    #[must_use]
    pub const fn new(sent: RequestRef, stream: usize, resumption: RequestRef) -> Self {
        Self { sent, stream, resumption, carries_stream: false }
    }

    /// Records that a resumption was rejected with this status. With 409 no exchange carries the stream.
    pub fn reject(all: &mut [Self], resumption: RequestRef, status: u16) {
        for it in all.iter_mut().filter(|it| it.resumption == resumption && status != 409) {
            it.carries_stream = true;
        }
    }

    /// Records that a resumption of the stream with this index was accepted.
    pub fn accept(all: &mut [Self], stream: usize) {
        for it in all.iter_mut().filter(|it| it.stream == stream) {
            it.carries_stream = false;
        }
    }
}
