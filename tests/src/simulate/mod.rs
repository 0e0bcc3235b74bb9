//! Deterministic simulation: one server and many clients over links that delay, cut, let overtake, stall and break, with
//! peers among them that do not keep the rules; hours in milliseconds, all of it drawn from one number.
//!
//! [`run`] plays the run of a seed and panics where anything comes out that must not. The same seed gives the same run,
//! byte for byte, on every machine.
//!
//! # What happens, and what is confirmed
//!
//! | where | what happens there | what is confirmed there |
//! | --- | --- | --- |
//! | [`plan`] | who there is, with which limits, revisions and habits, over which ways | |
//! | [`way`] | delays, cuts at any byte, full buffers, stalls, letters that overtake each other | |
//! | [`caller`] | calls, notifications, giving up, pages, subscriptions | each call ends once, in time, and with its own answer |
//! | [`handler`] | answers, errors, silence, progress, questions, tasks | |
//! | [`tasks`] | tasks of 2026-07-28, which outlive connections, ask and are forgotten | only what was asked is answered |
//! | [`memory`] | | what a client is told without its server being asked is still good |
//! | [`rogue`] | floods, junk, games with ids, half of a handshake | |
//! | [`desk`] | | nothing comes behind an end; a good peer does nothing wrong; tables are those of the application |
//! | [`seat`] | the loop of a driver, its parts in any order | limits; output does not wait for a timer; nothing is left |
//! | [`wiretap`] | | one answer for each request, none behind its cancellation, progress that grows |
//! | [`web`] | clients over HTTP that stall, hang up, come back, cancel, answer requests of the server and subscribe to changes | one answer or word of its loss for each request, none twice; each change is heard; nothing is left |
//! | [`world`] | | it comes to rest; what was said was heard; changes are told |
//!
//! # What has been played
//!
//! The seeds from 0 to 999,999, on 20 November 2026 with commit `3d7dc5c`: 639,747,776 entries, 147 years of virtual time, in
//! 49 minutes on a share of two busy cores (400 runs a second when there is a core for it). None stopped.
//!
//! Played with earlier commits of that day, eight had. Six were mistakes of the simulation (31024, 43723, 49074, 84429,
//! 95504, 99851). Two were a bug (645509, 993082): how a task stands was told behind the end of its call, when its answers
//! had become too large to be sent. It has tests, in `tests/tests/modern/{task_polling,bloat}.rs`.
//!
//! That was without clients over HTTP ([`web`]), who came later: a million seeds with them are still to be played.

pub mod caller;
pub mod desk;
pub mod dice;
pub mod handler;
pub mod memory;
pub mod plan;
pub mod rogue;
pub mod seat;
pub mod stage;
pub mod tasks;
pub mod trace;
pub mod way;
pub mod web;
pub mod wiretap;
pub mod world;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use dice::Dice;
use stage::Stage;
use trace::{Reader, Trace};
use world::World;

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Played {
    /// Stands for everything that happened.
    pub hash: u64,
    /// How much that was.
    pub entries: u64,
    /// How long it took, in the time of the run.
    pub time: Duration,
}

/// Plays the run of a seed. `reader` takes what happens, line by line.
///
/// # Panics
/// If an invariant is broken.
#[must_use]
pub fn run(seed: u64, reader: Option<Reader<'_>>) -> Played {
    let mut stage = World::new(Stage::new(Dice::new(seed), Trace::new(reader))).run();
    let time = Duration::from_nanos(stage.now.as_nanos()) + web::run(seed, &mut stage.trace);
    Played { hash: stage.trace.hash(), entries: stage.trace.entries(), time }
}

/// Plays the run of a seed, as [`run`] does.
///
/// # Errors
/// What the panic said, if an invariant is broken.
pub fn attempt(seed: u64, reader: Option<Reader<'_>>) -> Result<Played, String> {
    catch_unwind(AssertUnwindSafe(|| run(seed, reader))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}
