//! Backends: other servers whose items a service offers.

pub(crate) mod backend;
mod call_table;
mod calls;
mod error;
mod limits;
mod listing;
mod one_result;
mod questions;
mod shared;

pub use backend::{Backend, BackendBuilder};
pub use error::{BackendError, BackendFault};
pub use limits::ProxyLimits;
