//! Handles that stop a listener, a read or a write.

/// A function that stops an operation. It may be called more than once.
pub type StopHandle = Box<dyn Fn() + Send>;
