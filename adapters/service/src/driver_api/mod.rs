//! The interface between this crate and drivers: what a driver needs to run the jobs of a connection.
//!
//! A driver keeps jobs in [`Jobs`], runs their handlers in a [`Duty`], and names its peer with a [`Holder`].

mod current_handler;
mod holder;
mod job_queue;

pub(crate) use current_handler::waits;
pub use current_handler::{Duty, on_wait};
pub use holder::Holder;
pub use job_queue::{JobLimits, Jobs, Slot, weight};

pub use crate::queue::Queue;
#[doc(hidden)]
pub use crate::random::Random;
