//! The model: when reading pauses. What is read beyond a full table could only be refused.

use super::{
    peer::{Model, Phase},
    table::{PAUSE, REQUESTS},
};

/// Reading is paused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    /// When input is wanted although there is no room. `None` once that time has passed.
    until: Option<u64>,
    /// Something has left, or was answered, since `until` was set.
    moved: bool,
}

impl Model {
    /// Whether the driver is to read, which it asks before each frame.
    pub fn wants_input(&mut self) -> bool {
        let [calls, requests, _] = self.holds();
        // A handler that answers may wait for the answer to a call.
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

    /// When a pause ends, although there is no room. Closing ends it at once.
    pub(super) fn pause_ends(&self) -> Option<u64> {
        self.pause.filter(|_| self.phase < Phase::Draining)?.until
    }

    /// A frame has left, or a request was answered.
    pub(super) const fn progressed(&mut self) {
        if let Some(pause) = &mut self.pause {
            pause.moved = true;
        }
    }

    /// Ends a pause in which nothing has moved for too long.
    pub(super) fn end_pause(&mut self) {
        if self.pause_ends().is_some_and(|until| until <= self.now)
            && let Some(pause) = &mut self.pause
        {
            *pause = Pause { until: pause.moved.then_some(self.now + PAUSE), moved: false };
        }
    }

    /// Whether a call goes on although the other side was silent for too long: its answer may be among what is not read.
    pub(super) fn excuse(&mut self, index: usize) -> bool {
        let (paused, now, call) = (self.pause_ends().is_some(), self.now, &mut self.calls[index]);
        let idle = call.idle.filter(|idle| paused && *idle > 0);
        call.idle_at = idle.map(|idle| now + idle).or(call.idle_at);
        idle.is_some()
    }
}
