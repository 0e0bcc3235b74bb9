//! Exploration of all orders of events on real connections.
//!
//! A [`Scenario`] defines the possible actions of two applications and of the links between them. [`explore`] performs
//! them in all orders, until no action is possible, and checks the [rules](Rule) after each step. It works on clones of
//! the connections, so each step is taken once. A state that was visited before is not explored again.
//!
//! Two states are equal if both connections print the same text (without counters), both applications have the same
//! calls and requests, the same frames are in flight, the clocks are equal, and the same actions remain. The text is
//! hashed to 64 bits. With ten million states, the probability of a collision is less than one in a hundred thousand.
//! The free slot that a table takes next is not part of the state, because it only determines keys.
//!
//! Taking a frame from a connection, delivering it, and advancing the clock are separate steps. Therefore all other
//! actions are also tried while a message is in flight.

mod app;
pub mod catalog;
mod cover_points;
mod frames;
mod injected_fault;
mod peer;
mod scenario;
mod search;
mod system;
mod tasks;
mod violation;
mod wire_observer;

pub use cover_points::{CoverPoint, CoverPoints};
pub use injected_fault::InjectedFault;
pub use peer::Reply;
pub use scenario::{Opening, Plan, PlannedRequest, Scenario, Side};
pub use search::{Failure, Report, enumerate, explore};
pub use system::{Action, System};
pub use tasks::TaskStep;
pub(crate) use violation::ensure;
pub use violation::{Rule, Violation};
