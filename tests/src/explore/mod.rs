//! Every order in which things can happen, played on the real connections.
//!
//! A [`Scenario`] says what two applications and the links between them may do. [`explore`] tries all of it in every
//! order, down to the states in which nothing can happen any more, and holds every step against the [rules](Rule).
//! It works on clones of the connections, so each step is taken once; a state that was seen before is not explored
//! again.
//!
//! Two states are the same if both connections print the same (counters aside), both applications have done the same
//! and are owed the same, the same frames are in flight, the clock says the same, and the same may still go wrong. The
//! text is hashed to 64 bits: with ten million states, the chance that two different ones are taken for one is less
//! than one in a hundred thousand. Not told apart is which free slot of a table is taken next, which only names things.
//!
//! Taking a frame off a connection, carrying it over, and time passing are steps of their own, so everything that can
//! happen while a message is under way does.

mod app;
pub mod catalog;
mod end;
mod fault;
mod flaw;
mod frames;
mod happened;
mod scenario;
mod search;
mod tap;
mod tasks;
mod world;

pub use end::Reply;
pub(crate) use fault::demand;
pub use fault::{Fault, Rule};
pub use flaw::Flaw;
pub use happened::{Happened, Happening};
pub use scenario::{Ask, Opening, Plan, Scenario, Who};
pub use search::{Failure, Report, enumerate, explore};
pub use tasks::Turn;
pub use world::{Act, World};
