//! What every driver shares: handlers for what the peer asks, and handles for what is asked of the peer.

mod link;

pub use link::{Application, Job, Link, Order};
