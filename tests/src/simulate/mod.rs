//! Deterministic simulation: one server and many clients, over links that delay, cut, reorder, stall and break. Some
//! peers violate the protocol. A run simulates hours in milliseconds, and is drawn from one seed.
//!
//! [`run`] runs a seed and panics if a check fails. The same seed gives the same run, byte for byte, on every machine.
//!
//! # Actions and checks
//!
//! | module | actions | checks |
//! | --- | --- | --- |
//! | [`plan`] | draws the peers with their limits, revisions and behaviour, and the transports | |
//! | [`transport`] | delays, cuts at any byte, full buffers, stalls, reordered messages | |
//! | [`outbound`] | calls, notifications, cancellations, pages, subscriptions | each call ends once, in time, and with its own response |
//! | [`handler`] | responses, errors, missing responses, progress, input requests, tasks | |
//! | [`tasks`] | tasks of 2026-07-28, which outlive connections, request input and are removed | responses belong to input requests of the task |
//! | [`cache_model`] | | results that the client reuses have not expired |
//! | [`rogue_peer`] | floods, junk, misused ids, partial handshakes | |
//! | [`application`] | | no event follows an end; a conforming peer commits no violations; the tables are those of the application |
//! | [`peer`] | the loop of a driver, with its parts in any order | limits; output does not wait for a timer; nothing is left |
//! | [`message_observer`] | | one response for each request, none after its cancellation, progress that increases |
//! | [`http_clients`] | clients over HTTP that stall, disconnect, resume, cancel, respond to requests of the server and subscribe to changes | one response or report of its loss for each request, none twice; each change is received; nothing is left |
//! | [`http_pair`] | a client over HTTP and its server: connections break at any byte, streams are resumed, the server loses its sessions, elicitation and sampling | each call of either side ends once and with its own result; none is delivered twice; nothing is left |
//! | [`simulation`] | | the run becomes idle; all notifications arrive; changes are received |
//!
//! `tests/HOW-WE-KNOW.md` has the seeds that were run.

pub mod application;
pub mod cache_model;
pub mod environment;
pub mod handler;
pub mod http_clients;
pub mod http_pair;
pub mod message_observer;
pub mod outbound;
pub mod peer;
pub mod plan;
pub mod rng;
pub mod rogue_peer;
pub mod simulation;
pub mod tasks;
pub mod trace;
pub mod transport;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use environment::Environment;
use rng::Rng;
use simulation::Simulation;
use trace::{Sink, Trace};

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// The hash of all entries of the trace.
    pub hash: u64,
    /// The number of entries.
    pub entries: u64,
    /// The simulated time.
    pub time: Duration,
}

/// Runs a seed. `sink` receives the entries, line by line.
///
/// # Panics
/// If an invariant is broken.
#[must_use]
pub fn run(seed: u64, sink: Option<Sink<'_>>) -> RunSummary {
    let mut env = Simulation::new(Environment::new(Rng::new(seed), Trace::new(sink))).run();
    let time = Duration::from_nanos(env.now.as_nanos())
        + http_clients::run(seed, &mut env.trace)
        + http_pair::run(seed, &mut env.trace);
    RunSummary { hash: env.trace.hash(), entries: env.trace.entries(), time }
}

/// Runs a seed, as [`run`] does.
///
/// # Errors
/// Returns the text of the panic, if an invariant is broken.
pub fn attempt(seed: u64, sink: Option<Sink<'_>>) -> Result<RunSummary, String> {
    catch_unwind(AssertUnwindSafe(|| run(seed, sink))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}
