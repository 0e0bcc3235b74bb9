//! The interface between this crate and drivers: what a driver needs to run the jobs of a connection.
//!
//! A driver lends its connection out as a [`Link`](crate::Link), keeps jobs in [`Jobs`], runs their handlers in a [`Duty`],
//! and names its peer with a [`Holder`].

pub(crate) mod connection_handle;
pub(crate) mod current_handler;
pub(crate) mod deferred;
pub(crate) mod holder;
pub(crate) mod job_queue;
pub(crate) mod waiters;

pub use current_handler::{Duty, on_wait};
pub use holder::Holder;
pub use job_queue::{JobLimits, Jobs, Slot, weight};

#[doc(hidden)]
pub use crate::util::random::Random;
pub use crate::util::wait_queue::Queue;
