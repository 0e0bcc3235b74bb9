//! The system calls of Unix.

#[cfg(feature = "os")]
pub mod descriptor;
#[cfg(feature = "os")]
pub(super) mod limits;
#[cfg(feature = "os")]
pub(super) mod process;
#[cfg(feature = "signals")]
pub(crate) mod signals;
#[cfg(feature = "os")]
pub(super) mod stdio;
#[cfg(feature = "os")]
pub mod wake;
