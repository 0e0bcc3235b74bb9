//! Descriptors and threads of a Unix system, for adapters.

#[cfg(all(unix, feature = "os"))]
pub(crate) mod blocking_fd;
#[cfg(all(unix, feature = "os"))]
pub mod fd;
pub mod thread;
