//! What only bindings with several streams keep.

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::{collections::StaticDefault, rpc::ReplyKey};

/// What a binding holds of what it has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Downstream {
    pub(crate) bytes: usize,
    pub(crate) full: bool,
}

/// What only bindings with several streams have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    /// Requests whose streams the binding is to close for now, and when the peer may come back.
    pub(crate) release_stream: VecDeque<(ReplyKey, Option<Duration>)>,
    /// Streams on which no answer follows, as everything asked there was cancelled.
    pub(crate) unanswered: VecDeque<u64>,
    /// What the binding has taken and not written yet.
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
