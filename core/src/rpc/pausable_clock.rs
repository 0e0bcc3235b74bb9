//! A clock that can be paused.

use core::time::Duration;

use super::Timestamp;

/// A clock that can be paused. It shows the time since the origin, without its pauses.
///
/// A pause has constant cost, however many deadlines are set by the clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PausableClock {
    /// How long it was paused before.
    paused: Duration,
    /// Since when it is paused.
    since: Option<Timestamp>,
}

impl PausableClock {
    #[cfg(feature = "http")]
    pub(super) fn pause(&mut self, now: Timestamp) {
        self.since.get_or_insert(now);
    }

    #[cfg(feature = "http")]
    pub(super) fn resume(&mut self, now: Timestamp) {
        if let Some(since) = self.since.take() {
            self.paused += now.saturating_since(since);
        }
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.since.is_some()
    }

    /// Returns the time of the clock.
    pub(super) fn time(&self, now: Timestamp) -> Timestamp {
        let shown = self.since.unwrap_or(now).saturating_since(Timestamp::after_zero(self.paused));
        Timestamp::after_zero(shown)
    }

    /// Returns when the clock shows this time. `None` while it is paused.
    pub(super) fn when(&self, time: Timestamp) -> Option<Timestamp> {
        (!self.is_paused()).then(|| time + self.paused)
    }
}
