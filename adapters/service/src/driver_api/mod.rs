//! The interface between this crate and drivers, with which a driver runs the jobs of a connection.
//!
//! A driver lends its connection out as a [`ConnectionHandle`], and passes every event to the [`Application`] that runs
//! on it: a session of a [`Service`](crate::Service) or a [`Host`](crate::Host). Longer work is returned as a [`Job`],
//! a function or a future. The driver keeps jobs in a [`JobQueue`], runs their handlers in a [`HandlerScope`], and
//! names its peer with a [`Holder`]. Tasks and threads that wait for a connection are in its [`Waiters`].
//!
//! Applications that only register handlers or call a peer need nothing of this module.

pub(crate) mod block_on;
pub(crate) mod connection_handle;
pub(crate) mod current_handler;
pub(crate) mod deferred;
pub(crate) mod detached_timer;
pub(crate) mod holder;
pub(crate) mod job;
pub(crate) mod job_queue;
#[cfg(feature = "log-layer")]
pub(crate) mod lock_depth;
pub(crate) mod waiters;

pub use block_on::{Interrupt, ParkObserver, WaitingThread, block_on_driving, observe_parking};
pub use connection_handle::{Application, ConnectionHandle, SentRequests};
pub use current_handler::{HandlerScope, is_in_handler, on_block};
pub use detached_timer::{DetachedTimer, set_detached_timer};
pub use holder::Holder;
pub use job::{Job, JobFunction, JobFuture, JobKind, Schedule};
pub use job_queue::{JobLimits, JobQueue, JobSlot, job_cost};
pub use waiters::{Capacity, Waiters};

#[doc(hidden)]
pub use crate::util::random::Random;
#[doc(hidden)]
pub use crate::util::time::{Instant, SystemTime};
pub use crate::util::wait_queue::WaitQueue;
