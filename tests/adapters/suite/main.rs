//! The behaviour of adapters: each scenario is written once and runs on every adapter. This program is also the child
//! process.

mod adapter;
mod calls;
mod children;
mod completeness;
mod dialects;
mod early_responses;
mod eras;
mod fixture;
mod flood;
mod flood_http;
mod handlers;
mod hostile_peers;
mod http_load;
mod load;
mod minimal_peer;
mod pitfalls;
mod public_api;
mod raw;
mod scenario;
mod shutdown;
mod stdio;
mod transports;

use std::{env, process::ExitCode, time::Duration};

use adapter::{Adapter, Blocking, Smol, Tokio};
use libtest_mimic::{Arguments, Trial};
use peak_alloc::PeakAlloc;

/// Counts the memory that this process has allocated.
#[global_allocator]
pub(crate) static ALLOCATED: PeakAlloc = PeakAlloc;

/// A timeout that no operation of a passing test reaches, also on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Much longer than an immediate operation takes, and much shorter than a timeout.
pub(crate) const SOON: Duration = Duration::from_secs(15);

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    if args.next().as_deref() == Some(fixture::FLAG) {
        let mut next = || args.next().expect("an adapter and a role");
        let (adapter, role) = (next(), next());
        let args: Vec<_> = args.collect();
        return match adapter.as_str() {
            Blocking::NAME => fixture::run::<Blocking>(&role, &args),
            Smol::NAME => fixture::run::<Smol>(&role, &args),
            Tokio::NAME => fixture::run::<Tokio>(&role, &args),
            adapter => panic!("there is no adapter {adapter}"),
        };
    }
    let trials: Vec<Trial> = [trials::<Blocking>(), trials::<Smol>(), trials::<Tokio>(), completeness::trials()]
        .into_iter()
        .flatten()
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Returns every scenario on one adapter.
fn trials<A: Adapter>() -> Vec<Trial> {
    scenario::all::<A>().into_iter().map(|scenario| scenario.on(A::NAME)).collect()
}
