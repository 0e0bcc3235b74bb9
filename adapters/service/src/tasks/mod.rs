//! Requests that are answered at once and done later (2025-11-25): both for whoever asks and for whoever does it.

mod handle;
mod policy;
mod receiver;
mod store;

pub use handle::{Started, TaskHandle};
pub use policy::TaskPolicy;
pub(crate) use receiver::params;
pub(crate) use store::TaskStore;
