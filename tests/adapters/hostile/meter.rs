//! Measures the cost of an attack, and the resources that are left.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use mcp_proto::connection::Limits;
use tokio::runtime::Handle;

use crate::{LONG, PEAK, adapter::Adapter, dialects};

/// The memory besides the connection, whatever its limits are: chunks of 64 KiB for reads and writes; threads and
/// tasks; queued requests and notifications of services; and the peer itself, which is in this process, too.
const BESIDE: usize = 1 << 20;

/// The memory that an attack may leave: tables of the runtime and of the service that have grown.
const LEFT: usize = 64 << 10;

/// The memory that a thread keeps for reuse: of each kind up to 64 entries of ended requests, with their buffers.
const POOLED: usize = 64 << 10;

/// The maximum number of attacks until one leaves no more than `LEFT`. The first attacks fill the pools of threads.
const ATTACKS: usize = 8;

/// The time in which other threads release memory. Shorter than the time after which runtimes end idle threads, whose
/// pools would hide what is lost.
const SETTLE: Duration = Duration::from_secs(1);

/// The resources of this process.
#[derive(Clone, Copy, Debug)]
struct Held {
    descriptors: usize,
    /// The tasks of tokio. Tasks of smol are visible by their memory and descriptors.
    tasks: usize,
}

impl Held {
    fn now() -> Self {
        // Creates the runtime, if there is none, since it has descriptors.
        let _runtime = dialects::tokio::enter();
        let tasks = Handle::current().metrics().num_alive_tasks();
        Self { descriptors: fs::read_dir("/proc/self/fd").expect("Linux has it").count(), tasks }
    }

    /// Returns whether there are no more resources than before. There may be fewer, if tasks were still ending then.
    const fn is_within(self, before: Self) -> bool {
        self.descriptors <= before.descriptors && self.tasks <= before.tasks
    }
}

/// Measures from before the first attack.
pub(crate) struct Meter {
    bytes: usize,
    /// The memory before the current attack.
    bytes_before: usize,
    held: Held,
    threads: usize,
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").expect("Linux has it").count()
}

impl Meter {
    fn new() -> Self {
        let (held, threads) = (Held::now(), threads());
        let bytes = PEAK.current_usage();
        Self { bytes, bytes_before: bytes, held, threads }
    }

    /// Checks that memory never exceeded the total of the limits.
    pub(crate) fn assert_within(&self, limits: &Limits) {
        let (peak, bound) = (PEAK.peak_usage().saturating_sub(self.bytes_before), limits.memory() + BESIDE);
        assert!(peak <= bound, "{peak} bytes, {bound} are promised");
    }

    /// Runs an attack, and checks that all resources are released after it. Repeats the attack while it leaves memory,
    /// since that may be in pools.
    ///
    /// # Panics
    /// If more descriptors, tasks or threads are left than before, if each attack leaves memory, or if the attacks
    /// together leave more than pools can hold.
    pub(crate) fn check_release<A: Adapter>(mut attack: impl FnMut(&Self)) {
        let mut meter = Self::new();
        let mut left = vec![0];
        for _ in 0..ATTACKS {
            meter.bytes_before = PEAK.current_usage();
            PEAK.reset_peak_usage();
            attack(&meter);
            meter.wait_for_end::<A>();
            let limit = left[left.len() - 1] + LEFT;
            let bytes = meter.bytes_left(limit);
            if bytes <= limit {
                return;
            }
            left.push(bytes);
        }
        panic!("bytes that are left after each attack: {left:?}");
    }

    /// Waits until descriptors, tasks and threads are released.
    fn wait_for_end<A: Adapter>(&self) {
        let start = Instant::now();
        // Runtimes keep idle threads.
        let counts_threads = A::NAME == "blocking";
        loop {
            let (held, threads) = (Held::now(), if counts_threads { threads() } else { self.threads });
            if held.is_within(self.held) && threads <= self.threads {
                return;
            }
            let before = (self.held, self.threads);
            assert!(start.elapsed() < LONG, "{held:?} and {threads} threads are left, before: {before:?}");
            thread::yield_now();
        }
    }

    /// Returns the memory that is left, when it is within `limit` or may be in pools. Other threads may need a moment
    /// to release theirs.
    fn bytes_left(&self, limit: usize) -> usize {
        let start = Instant::now();
        loop {
            let bytes = PEAK.current_usage().saturating_sub(self.bytes);
            let (elapsed, pooled) = (start.elapsed(), threads() * POOLED);
            if bytes <= limit || bytes <= LEFT + pooled && elapsed > SETTLE {
                return bytes;
            }
            assert!(elapsed < LONG, "{bytes} bytes are left, of which pools can hold {pooled}");
            thread::yield_now();
        }
    }
}
