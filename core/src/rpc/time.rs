//! Points in time, which drivers pass in.

use core::{fmt, ops, time::Duration};

/// A point in time: nanoseconds since an origin that the caller chooses once and keeps.
///
/// The core never reads a clock. Decreasing times do no harm: deadlines then pass a little later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The origin of time.
    pub const ZERO: Self = Self(0);

    /// Creates the point `nanos` nanoseconds after [`ZERO`](Self::ZERO). The range is 584 years.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Creates the point `since_zero` after [`ZERO`](Self::ZERO). It saturates at the end of the range, after 584
    /// years.
    #[must_use]
    pub fn after_zero(since_zero: Duration) -> Self {
        Self::ZERO + since_zero
    }

    /// Returns the nanoseconds since [`ZERO`](Self::ZERO).
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to this point; zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl ops::Add<Duration> for Timestamp {
    type Output = Self;

    /// Saturates at the end of the range.
    fn add(self, duration: Duration) -> Self {
        let nanos = duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into());
        Self(self.0.saturating_add(nanos))
    }
}

/// The start time of a request. It does not affect behaviour, so `Debug` does not print it.
#[derive(Clone, Copy)]
pub(crate) struct StartTime(pub(crate) Timestamp);

impl fmt::Debug for StartTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Duration::from_nanos(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn debug_output_is_the_time_since_the_origin() {
        let at = Timestamp::from_nanos(1_500_000_000);
        assert_eq!(format!("{at:?} {:?} {:?}", Timestamp::ZERO, StartTime(at)), "1.5s 0ns ..");
    }

    #[test]
    fn sums_saturate_at_the_end_of_the_range() {
        let end = Timestamp::from_nanos(u64::MAX);
        assert_eq!([Timestamp::after_zero(Duration::MAX), end + Duration::from_nanos(1)], [end; 2]);
        assert_eq!(end.saturating_since(Timestamp::from_nanos(1)), Duration::from_nanos(u64::MAX - 1));
        assert_eq!(Timestamp::ZERO.saturating_since(end), Duration::ZERO);
    }
}
