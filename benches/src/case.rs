//! A case: an operation to measure.

use std::{fmt, hint::black_box};

/// A case: its name, and a function that prepares it.
pub struct Case {
    /// The group of the case.
    pub group: &'static str,
    /// The name of the case in its group.
    pub name: String,
    make: Box<dyn FnOnce() -> Work>,
}

/// A prepared case, with the messages and bytes of one run.
pub struct Work {
    /// The number of messages of one run.
    pub messages: u64,
    /// The number of bytes of one run, in both directions.
    pub bytes: u64,
    run: Box<dyn FnMut()>,
}

impl Case {
    /// Creates a case that is prepared only when it is used.
    pub fn new(group: &'static str, name: impl Into<String>, make: impl FnOnce() -> Work + 'static) -> Self {
        Self { group, name: name.into(), make: Box::new(make) }
    }

    /// Prepares the case, and runs it until all buffers have their final size.
    #[must_use]
    pub fn make(self) -> Work {
        let mut work = (self.make)();
        let runs = (2_000 / work.messages).min(500_000 / work.bytes.max(1)).clamp(3, 200);
        (0..runs).for_each(|_| work.run());
        work
    }
}

impl Work {
    /// Creates a case whose runs carry `messages` messages of `bytes` bytes in all. All state is prepared, so that a
    /// run is nothing but the measured operation.
    pub fn new<T>(messages: usize, bytes: usize, mut run: impl FnMut() -> T + 'static) -> Self {
        let run = Box::new(move || drop(black_box(run())));
        Self { messages: messages as u64, bytes: bytes as u64, run }
    }

    /// Runs the operation once. In profiles it has the name of this function.
    #[inline(never)]
    pub fn run(&mut self) {
        (self.run)();
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.name)
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} messages, {} bytes", self.messages, self.bytes)
    }
}
