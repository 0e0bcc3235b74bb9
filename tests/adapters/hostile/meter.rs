//! What an attack costs, and what is left of it.

use std::{fs, time::Instant};

use mcp_proto::connection::Limits;
use tokio::runtime::Handle;

use crate::{LONG, PEAK, adapter::Adapter, dialects};

/// What there may be beside the connection, whatever its limits are: 64 KiB chunks that are read, and written; threads and
/// tasks; what services keep of requests and notifications that wait for a handler; and the peer itself, which lives in this
/// process, too.
const BESIDE: usize = 1 << 20;

/// What there may be more than before when everything has ended: tables of the runtime and of the service that have grown.
const LEFT: usize = 64 << 10;

/// What this process has.
#[derive(Clone, Copy, Debug)]
struct Held {
    descriptors: usize,
    /// Of tokio. Those of smol end with what they hold: memory and descriptors.
    tasks: usize,
}

impl Held {
    fn now() -> Self {
        // There is one from now on, and it has descriptors.
        let _runtime = dialects::tokio::enter();
        let tasks = Handle::current().metrics().num_alive_tasks();
        Self { descriptors: fs::read_dir("/proc/self/fd").expect("Linux has it").count(), tasks }
    }

    /// Whether this is no more: what was on its last steps before may be gone.
    const fn is_within(self, before: Self) -> bool {
        self.descriptors <= before.descriptors && self.tasks <= before.tasks
    }
}

/// From before the attack to after it.
pub(crate) struct Meter {
    bytes: usize,
    held: Held,
    threads: usize,
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").expect("Linux has it").count()
}

impl Meter {
    pub(crate) fn new() -> Self {
        let (held, threads) = (Held::now(), threads());
        PEAK.reset_peak_usage();
        Self { bytes: PEAK.current_usage(), held, threads }
    }

    /// Confirms that it never took more than the limits add up to.
    pub(crate) fn assert_within(&self, limits: &Limits) {
        let (peak, bound) = (PEAK.peak_usage().saturating_sub(self.bytes), limits.memory() + BESIDE);
        assert!(peak <= bound, "{peak} bytes, {bound} are promised");
    }

    /// Confirms that everything is given back. What runs on other threads may need a moment for its last steps.
    pub(crate) fn assert_released<A: Adapter>(&self) {
        let start = Instant::now();
        // Runtimes keep threads for what comes next.
        let counts_threads = A::NAME == "blocking";
        loop {
            let bytes = PEAK.current_usage().saturating_sub(self.bytes);
            let (held, threads) = (Held::now(), if counts_threads { threads() } else { self.threads });
            if bytes <= LEFT && held.is_within(self.held) && threads <= self.threads {
                return;
            }
            let before = (self.held, self.threads);
            assert!(
                start.elapsed() < LONG,
                "{bytes} bytes, {held:?} and {threads} threads are left, before: {before:?}"
            );
            std::thread::yield_now();
        }
    }
}
