//! Deterministic simulation: one server and many clients over links that delay, cut, let overtake, stall and break, with
//! peers among them that do not keep the rules; hours in milliseconds, all of it drawn from one number.
//!
//! [`run`] plays the run of a seed and panics where anything comes out that must not: see [`desk`], [`seat`] and
//! [`wiretap`] for what is confirmed. The same seed gives the same run, byte for byte, on every machine.

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
/// If a law is broken.
#[must_use]
pub fn run(seed: u64, reader: Option<Reader<'_>>) -> Played {
    let stage = World::new(Stage::new(Dice::new(seed), Trace::new(reader))).run();
    let time = Duration::from_nanos(stage.now.as_nanos());
    Played { hash: stage.trace.hash(), entries: stage.trace.entries(), time }
}

/// Plays the run of a seed, as [`run`] does.
///
/// # Errors
/// What the panic said, if a law is broken.
pub fn attempt(seed: u64, reader: Option<Reader<'_>>) -> Result<Played, String> {
    catch_unwind(AssertUnwindSafe(|| run(seed, reader))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}
