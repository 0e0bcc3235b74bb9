//! What every driver shares: handlers for what the peer asks, and handles for what is asked of the peer.

mod calls;
mod error;
mod link;
mod peer;
mod pending;
mod sync;
mod waiter;

pub use calls::Calls;
pub use error::CallError;
pub use link::{Application, Job, Link, Order};
pub use peer::Peer;
pub use pending::{Canceller, Pending};
