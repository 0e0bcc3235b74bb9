//! The model: pauses of reading. A request that is read while the table is full could only be rejected.

use super::{
    peer::{Model, Phase},
    table::{PAUSE, REQUESTS},
};

/// A pause of reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    /// The time at which input is accepted although the table is full. `None` after that time.
    until: Option<u64>,
    /// A frame was sent or a request was answered since `until` was set.
    moved: bool,
}

impl Model {
    /// Returns whether the connection accepts input. The driver calls it before each frame.
    pub fn wants_input(&mut self) -> bool {
        let [calls, requests, _] = self.holds();
        // A handler may wait for the response to a call, so reading continues.
        let pauses = requests >= REQUESTS && calls == 0 && self.phase < Phase::Draining;
        match self.pause {
            _ if !pauses => {
                self.pause = None;
                true
            }
            Some(pause) => pause.until.is_none(),
            None => {
                self.pause = Some(Pause { until: Some(self.now + PAUSE), moved: false });
                false
            }
        }
    }

    /// Returns when a pause ends although the table is full. Closing ends it at once.
    pub(super) fn pause_ends(&self) -> Option<u64> {
        self.pause.filter(|_| self.phase < Phase::Draining)?.until
    }

    /// Records that a frame was sent or a request was answered.
    pub(super) const fn note_progress(&mut self) {
        if let Some(pause) = &mut self.pause {
            pause.moved = true;
        }
    }

    /// Ends a pause without progress.
    pub(super) fn end_pause(&mut self) {
        if self.pause_ends().is_some_and(|until| until <= self.now)
            && let Some(pause) = &mut self.pause
        {
            *pause = Pause { until: pause.moved.then_some(self.now + PAUSE), moved: false };
        }
    }

    /// Extends the idle deadline of a call during a pause, because its response may be in the unread input. Returns
    /// whether the deadline was extended.
    pub(super) fn extend_idle(&mut self, index: usize) -> bool {
        let (paused, now, call) = (self.pause_ends().is_some(), self.now, &mut self.calls[index]);
        let idle = call.idle.filter(|idle| paused && *idle > 0);
        call.idle_at = idle.map(|idle| now + idle).or(call.idle_at);
        idle.is_some()
    }
}
