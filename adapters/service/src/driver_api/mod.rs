//! The interface between this crate and drivers, with which a driver runs the jobs of a connection.
//!
//! A driver lends its connection out as a [`ConnectionHandle`](crate::ConnectionHandle), keeps jobs in [`JobQueue`],
//! runs their handlers in a [`HandlerScope`], and names its peer with a [`Holder`].

pub(crate) mod block_on;
pub(crate) mod connection_handle;
pub(crate) mod current_handler;
pub(crate) mod deferred;
pub(crate) mod holder;
pub(crate) mod job;
pub(crate) mod job_queue;
#[cfg(feature = "log-layer")]
pub(crate) mod lock_depth;
pub(crate) mod waiters;

pub use block_on::{Interrupt, ParkObserver, WaitingThread, block_on_driving, observe_parking};
pub use connection_handle::SentRequests;
pub use current_handler::{HandlerScope, is_in_handler, on_block};
pub use holder::Holder;
pub use job_queue::{JobLimits, JobQueue, JobSlot, job_cost};

#[doc(hidden)]
pub use crate::util::random::Random;
pub use crate::util::wait_queue::WaitQueue;
