//! Stopping something that runs.

/// Calls something off. May be called more than once.
pub type StopHandle = Box<dyn Fn() + Send>;
