//! One thing to measure.

use std::{fmt, hint::black_box};

/// One thing to measure, and how much it carries.
pub struct Case {
    /// What it belongs to.
    pub group: &'static str,
    /// What it is called in its group.
    pub name: String,
    /// Messages of one run.
    pub messages: u64,
    /// Bytes of one run, both ways.
    pub bytes: u64,
    run: Box<dyn FnMut()>,
}

impl Case {
    /// A case whose runs carry `messages` of `bytes` in all. What it needs is made already, so that a run is nothing but
    /// what is measured.
    pub fn new<T>(
        group: &'static str,
        name: impl Into<String>,
        (messages, bytes): (usize, usize),
        mut run: impl FnMut() -> T + 'static,
    ) -> Self {
        let run = Box::new(move || drop(black_box(run())));
        Self { group, name: name.into(), messages: messages as u64, bytes: bytes as u64, run }
    }

    /// Runs it once. Profilers find it by its name.
    #[inline(never)]
    pub fn run(&mut self) {
        (self.run)();
    }

    /// Runs it until all buffers have the size that they keep.
    #[must_use]
    pub fn warm(mut self) -> Self {
        let runs = (20_000 / self.messages).clamp(3, 200);
        (0..runs).for_each(|_| self.run());
        self
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.name)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
