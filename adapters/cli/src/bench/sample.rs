//! One measurement.

use std::{fmt::Write, time::Duration};

use serde_json::{Value, json};

/// The bars of a plot.
const BAR: usize = 40;

/// The latencies at one concurrency.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) concurrency: usize,
    /// Calls that failed or had another result.
    pub(super) wrong: u64,
    elapsed: Duration,
    /// Nanoseconds, sorted.
    latencies: Vec<u64>,
}

/// The percentiles that are shown, in tenths of a percent.
pub(super) const PERCENTILES: [(&str, usize); 5] =
    [("p50", 500), ("p90", 900), ("p99", 990), ("p99.9", 999), ("max", 1_000)];

/// Returns a time with its unit.
pub(super) fn time(nanos: u64) -> String {
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.1} µs", nanos as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", nanos as f64 / 1e6),
        _ => format!("{:.2} s", nanos as f64 / 1e9),
    }
}

impl Sample {
    pub(super) fn new(concurrency: usize, elapsed: Duration, mut latencies: Vec<u64>, wrong: u64) -> Self {
        latencies.sort_unstable();
        Self { concurrency, wrong, elapsed, latencies }
    }

    /// Returns the calls of a second.
    pub(super) fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Returns the smallest latency that this share of the calls does not exceed, in tenths of a percent.
    pub(super) fn percentile(&self, share: usize) -> u64 {
        let rank = (self.latencies.len() * share).div_ceil(1_000).max(1);
        self.latencies.get(rank - 1).copied().unwrap_or_default()
    }

    pub(super) fn head() -> String {
        let names: String = PERCENTILES.iter().map(|(name, _)| format!("{name:>11}")).collect();
        format!("{:>11}{:>11}{names}{:>7}", "concurrency", "calls/s", "wrong")
    }

    pub(super) fn line(&self) -> String {
        let times: String =
            PERCENTILES.iter().map(|(_, share)| format!("{:>11}", time(self.percentile(*share)))).collect();
        format!("{:>11}{:>11.0}{times}{:>7}", self.concurrency, self.rate(), self.wrong)
    }

    pub(super) fn json(&self) -> Value {
        let mut sample = json!({"concurrency": self.concurrency, "calls": self.latencies.len(), "wrong": self.wrong,
            "seconds": self.elapsed.as_secs_f64(), "calls_per_second": self.rate()});
        for (name, share) in PERCENTILES {
            sample[format!("{name}_ns")] = self.percentile(share).into();
        }
        sample
    }

    /// Returns a histogram: a line for each doubling of the latency.
    pub(super) fn plot(&self) -> String {
        let mut bins = [0_usize; 65];
        for latency in &self.latencies {
            bins[latency.checked_ilog2().map_or(0, |log| log as usize + 1)] += 1;
        }
        let highest = bins.iter().copied().max().unwrap_or(0).max(1);
        let first = bins.iter().position(|count| *count > 0).unwrap_or(0);
        let last = bins.iter().rposition(|count| *count > 0).unwrap_or(0);
        let mut text = format!("{} at once\n", self.concurrency);
        for (bin, count) in bins.iter().enumerate().take(last + 1).skip(first) {
            let to = 1_u64.checked_shl(u32::try_from(bin).unwrap_or(u32::MAX)).unwrap_or(u64::MAX);
            let bar = "#".repeat((count * BAR).div_ceil(highest));
            let _ = writeln!(text, "{:>12}  {bar:<BAR$} {count}", format!("< {}", time(to)));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let sample = Sample::new(1, Duration::from_secs(2), (1..=1_000).rev().collect(), 0);
        let found: Vec<_> = PERCENTILES.iter().map(|(_, share)| sample.percentile(*share)).collect();
        assert_eq!(found, [500, 900, 990, 999, 1_000]);
        assert!((sample.rate() - 500.0).abs() < 1e-9);
        let one = Sample::new(1, Duration::from_secs(1), vec![7], 0);
        assert_eq!((one.percentile(500), one.percentile(999)), (7, 7));
        assert_eq!(Sample::new(1, Duration::ZERO, Vec::new(), 0).percentile(500), 0);
    }

    #[test]
    fn plots_have_a_bar_for_each_doubling() {
        let sample = Sample::new(4, Duration::from_secs(1), vec![1_000, 1_000, 3_000], 0);
        let lines: Vec<_> = sample.plot().lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines[1].ends_with(&format!("{} 2", "#".repeat(BAR))), "{lines:?}");
        assert!(lines[2].trim_end().ends_with('0') && lines[3].contains(&"#".repeat(BAR / 2)), "{lines:?}");
    }
}
