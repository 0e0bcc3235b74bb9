//! Stopping something that runs.

/// Calls something off. May be called more than once.
pub type Stopper = Box<dyn Fn() + Send>;
