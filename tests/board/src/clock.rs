//! Time, from the timer of the processor.

use core::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use cortex_m::peripheral::{SYST, syst::SystClkSource};
use cortex_m_rt::exception;
use mcp_proto::Timestamp;

/// The frequency of the processor in the emulator. On hardware it is a matter of the clock tree.
const CORE_HZ: u32 = 168_000_000;

/// About as many as bytes arrive in a second at 115,200 baud.
const TICKS_PER_SECOND: u32 = 10_000;

/// Ticks since the start, modulo 2^32.
static TICKS: AtomicU32 = AtomicU32::new(0);

#[exception]
fn SysTick() {
    TICKS.fetch_add(1, Ordering::Relaxed);
}

pub(crate) struct Clock {
    last: u32,
    now: Timestamp,
}

impl Clock {
    /// Starts the timer.
    pub(crate) fn start(timer: &mut SYST) -> Self {
        timer.set_clock_source(SystClkSource::Core);
        timer.set_reload(CORE_HZ / TICKS_PER_SECOND - 1);
        timer.clear_current();
        timer.enable_counter();
        timer.enable_interrupt();
        Self { last: 0, now: Timestamp::ZERO }
    }

    /// Returns the time since the start. It must be called at least once in 4 days, before the ticks repeat.
    pub(crate) fn now(&mut self) -> Timestamp {
        let ticks = TICKS.load(Ordering::Relaxed);
        let passed = ticks.wrapping_sub(self.last);
        self.last = ticks;
        self.now = self.now + Duration::from_secs(1) / TICKS_PER_SECOND * passed;
        self.now
    }
}
