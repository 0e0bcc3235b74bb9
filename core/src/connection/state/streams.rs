//! The state of bindings with several streams.

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::{collections::StaticDefault, rpc::ReplyKey};

/// The output that a binding has polled and not written yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Downstream {
    pub(crate) bytes: usize,
    pub(crate) full: bool,
}

/// The state of bindings with several streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    /// The requests whose streams the binding may close, with the delay after which the peer may reconnect.
    pub(crate) release_stream: VecDeque<(ReplyKey, Option<Duration>)>,
    /// The streams on which no response follows, because all requests on them were cancelled.
    pub(crate) unanswered: VecDeque<u64>,
    /// The output that the binding has polled and not written yet.
    pub(crate) downstream: Downstream,
}

impl StaticDefault for Streams {
    const EMPTY: &'static Self = &Self {
        release_stream: VecDeque::new(),
        unanswered: VecDeque::new(),
        downstream: Downstream { bytes: 0, full: false },
    };
}

impl Streams {
    pub(crate) fn has_none(&self) -> bool {
        self.release_stream.is_empty()
            && self.unanswered.is_empty()
            && self.downstream.bytes == 0
            && !self.downstream.full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_a_state() {
        assert!(Streams::default().has_none() && Streams::EMPTY.has_none());
        let downstream = |bytes, full| Streams { downstream: Downstream { bytes, full }, ..Streams::default() };
        assert!(!downstream(1, false).has_none() && !downstream(0, true).has_none());
        let unanswered = Streams { unanswered: [0].into(), ..Streams::default() };
        assert!(!unanswered.has_none());
    }
}
