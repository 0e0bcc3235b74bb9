//! Child processes: how they are started, supervised and ended.

#[cfg(feature = "os")]
pub(crate) mod child;
#[cfg(all(feature = "http", not(feature = "os")))]
#[path = "no_child.rs"]
pub(crate) mod child;
#[cfg(all(test, feature = "os", unix))]
mod child_tests;
pub(crate) mod command;
pub(crate) mod restart;
#[cfg(feature = "signals")]
pub mod signals;
#[cfg(any(feature = "os", feature = "signals"))]
pub(crate) mod start;
pub(crate) mod state;
