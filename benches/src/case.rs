//! One thing to measure.

use std::{fmt, hint::black_box};

/// One thing to measure: its name, and how to make what it needs.
pub struct Case {
    /// What it belongs to.
    pub group: &'static str,
    /// What it is called in its group.
    pub name: String,
    make: Box<dyn FnOnce() -> Work>,
}

/// What is measured, with all that it needs, and how much it carries.
pub struct Work {
    /// Messages of one run.
    pub messages: u64,
    /// Bytes of one run, both ways.
    pub bytes: u64,
    run: Box<dyn FnMut()>,
}

impl Case {
    /// A case that is made when it is wanted.
    pub fn new(group: &'static str, name: impl Into<String>, make: impl FnOnce() -> Work + 'static) -> Self {
        Self { group, name: name.into(), make: Box::new(make) }
    }

    /// Makes it, and runs it until all buffers have the size that they keep.
    #[must_use]
    pub fn make(self) -> Work {
        let mut work = (self.make)();
        let runs = (2_000 / work.messages).min(500_000 / work.bytes.max(1)).clamp(3, 200);
        (0..runs).for_each(|_| work.run());
        work
    }
}

impl Work {
    /// Runs that carry `messages` of `bytes` in all. What they need is made already, so that a run is nothing but what is
    /// measured.
    pub fn new<T>(messages: usize, bytes: usize, mut run: impl FnMut() -> T + 'static) -> Self {
        let run = Box::new(move || drop(black_box(run())));
        Self { messages: messages as u64, bytes: bytes as u64, run }
    }

    /// Runs it once. Profilers find it by its name.
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
