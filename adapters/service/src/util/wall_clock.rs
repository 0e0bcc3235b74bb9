//! The time of day for messages. The clock of a connection is monotonic and does not have it.

use std::sync::OnceLock;

use mcp_proto::rpc::Timestamp;

use super::time::{SystemTime, UNIX_EPOCH};

/// Converts the connection's clock to the time of day. It reads the system's clock once, so times keep their order when
/// that clock is set.
#[derive(Debug, Default)]
pub(crate) struct Clock(OnceLock<(Timestamp, u64)>);

impl Clock {
    /// Formats `at` as ISO 8601, in UTC and milliseconds.
    pub(crate) fn iso(&self, at: Timestamp) -> String {
        let (start, millis) = self.0.get_or_init(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            (at, u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
        });
        let after = u64::try_from(at.saturating_since(*start).as_millis()).unwrap_or(u64::MAX);
        iso(millis.saturating_add(after))
    }
}

/// Formats milliseconds since 1970 as ISO 8601.
fn iso(millis: u64) -> String {
    let (seconds, millis) = (millis / 1000, millis % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Returns the date `days` after 1970-01-01. Years begin in March here, so that the leap day is the last one.
const fn date(days: u64) -> (u64, u64, u64) {
    const ERA: u64 = 146_097;
    let days = days + 719_468;
    let (era, day) = (days / ERA, days % ERA);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + (month <= 2) as u64, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    // req: M-TASK-015
    #[test]
    fn formats_times_in_iso_8601() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_764_028_800, "2025-11-25T00:00:00.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso(seconds * 1000), text);
        }
        assert_eq!(iso(1_234), "1970-01-01T00:00:01.234Z");
    }

    #[test]
    fn wall_clock_advances_with_connection_time() {
        let clock = Clock::default();
        let start = Timestamp::from_nanos(5);
        let first = clock.iso(start);
        assert_eq!(clock.iso(start), first);
        assert!(clock.iso(start + Duration::from_millis(1)) > first);
    }

    #[test]
    fn milliseconds_are_added_exactly() {
        let clock = Clock(OnceLock::from((Timestamp::from_nanos(5), 86_399_990)));
        for (nanos, text) in [
            (0, "1970-01-01T23:59:59.990Z"),
            (5, "1970-01-01T23:59:59.990Z"),
            (1_000_004, "1970-01-01T23:59:59.990Z"),
            (1_000_005, "1970-01-01T23:59:59.991Z"),
            (10_000_005, "1970-01-02T00:00:00.000Z"),
        ] {
            assert_eq!(clock.iso(Timestamp::from_nanos(nanos)), text, "{nanos}");
        }
    }
}
