//! Adapters under attack: each hostile peer runs against each adapter, in both eras, over a pair of sockets. The costs
//! of its connection stay within the limits, other clients are served, and all resources are released in the end.
//!
//! Allocations are counted for the whole process, so attacks run one at a time.

#[path = "../suite/adapter.rs"]
#[expect(dead_code, reason = "the suite needs more of an adapter")]
mod adapter;
mod clients;
#[path = "../suite/dialects/mod.rs"]
mod dialects;
mod meter;
mod peer;
mod servers;

use std::{process::ExitCode, time::Duration};

use adapter::{Adapter, Blocking, Smol, Tokio};
use libtest_mimic::{Arguments, Trial};
use mcp_driver::DriverOptions;
use mcp_proto::{
    connection::{Limits, Settings},
    protocol::{Era, ProtocolVersion, VersionSet},
};
use mcp_tests::hostile::{CLIENTS, HostilePeer, SERVERS};
use peak_alloc::PeakAlloc;

#[global_allocator]
static PEAK: PeakAlloc = PeakAlloc;

/// A timeout that no operation of a passing test reaches, also on a busy machine.
const LONG: Duration = Duration::from_secs(60);

const VERSIONS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

fn main() -> ExitCode {
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let trials = [trials::<Blocking>(), trials::<Smol>(), trials::<Tokio>()].into_iter().flatten().collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Returns every attack on one adapter.
fn trials<A: Adapter>() -> Vec<Trial> {
    let mut trials = Vec::new();
    for version in VERSIONS {
        let era = if version.era() == Era::Modern { "modern" } else { "legacy" };
        let mut add = |attacked, hostile: HostilePeer, attack: fn(HostilePeer, ProtocolVersion)| {
            let name = format!("{}::{attacked}::{era}::{}", A::NAME, hostile.name);
            trials.push(Trial::test(name, move || {
                attack(hostile, version);
                Ok(())
            }));
        };
        CLIENTS.iter().for_each(|hostile| add("server", *hostile, servers::attacked::<A>));
        SERVERS.iter().for_each(|hostile| add("client", *hostile, clients::attacked::<A>));
    }
    trials
}

/// Small limits, so that attacks reach all of them.
fn settings(version: ProtocolVersion) -> Settings {
    let mut limits = Limits::default();
    limits.frame_bytes = 16 << 10;
    (limits.outbox_bytes, limits.control_bytes) = (128 << 10, 32 << 10);
    (limits.requests, limits.request_bytes) = (100, 128 << 10);
    (limits.calls, limits.call_bytes) = (100, 64 << 10);
    (limits.cache_entries, limits.cache_bytes) = (50, 64 << 10);
    (limits.batch_members, limits.tasks, limits.subscriptions) = (50, 50, 20);
    (limits.input_requests, limits.task_input_requests, limits.noise_lines) = (50, 200, 100);
    limits.drain = Duration::from_millis(50);
    // A flood is refused, or ends its connection, after reading has paused for this time.
    limits.input_pause = Duration::from_millis(50);
    Settings { limits, versions: VersionSet::only(version), ..Settings::default() }
}

/// Limits of the driver.
fn options() -> DriverOptions {
    DriverOptions {
        handlers: 4,
        async_handlers: 16,
        max_queued_requests: 50,
        max_notification_bytes: 64 << 10,
        ..DriverOptions::default()
    }
}
