//! The cost of each decoder of peer data, at inputs that double in size.
//!
//! A case makes the most expensive input that is known for a decoder, of about a given number of bytes, and the work
//! that reads it. The peak of allocated memory is checked by `cargo test -p mcp-tests-cost`; instructions are counted
//! under valgrind by `cargo run --release -p mcp-tests-cost --bin decoder-cost`. Both fail where a cost grows faster
//! than its input.

mod auth;
mod connection;
mod http;
mod schemas;
mod service;
mod wire;

use std::fmt;

/// The sizes at which each decoder is measured, in bytes of input: three doublings.
pub const SIZES: [usize; 4] = [16 << 10, 32 << 10, 64 << 10, 128 << 10];

/// How much more the largest input may cost than the smallest, which is eight times smaller. `n log n` gives 9.8 at
/// these sizes, `n * n` gives 64.
pub const MOST_GROWTH: u64 = 11;

/// Work on an input that has been made already.
pub struct Work {
    /// The bytes that the peer has to send for it.
    pub input: usize,
    run: Box<dyn FnOnce()>,
}

impl Work {
    /// Wraps the part of a case that is measured.
    pub fn new(input: usize, run: impl FnOnce() + 'static) -> Self {
        Self { input, run: Box::new(run) }
    }

    /// Runs the work. Callgrind collects only below this function, which it finds by name.
    #[inline(never)]
    pub fn measured(self) {
        (self.run)();
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("input", &self.input).finish_non_exhaustive()
    }
}

/// One decoder with its worst input.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The name: what is decoded, and the shape of the input.
    pub name: &'static str,
    /// Makes an input of about this many bytes, and the work on it.
    pub make: fn(usize) -> Work,
}

/// All cases.
#[must_use]
pub fn cases() -> Vec<Case> {
    [wire::CASES, connection::CASES, http::CASES, service::CASES, schemas::CASES, auth::CASES].concat()
}

/// Text of a comma-separated list of about `size` bytes; `item` is given the index of each.
fn list(size: usize, item: impl Fn(usize) -> String) -> String {
    let mut text = String::with_capacity(size + 64);
    for index in 0.. {
        if text.len() >= size {
            break;
        }
        if index > 0 {
            text.push(',');
        }
        text.push_str(&item(index));
    }
    text
}

/// A JSON object of about `size` bytes whose member names descend, which is the worst order to sort them from.
fn descending(size: usize, value: &str) -> String {
    let members = list(size, |index| format!("\"m{:07}\":{value}", 9_999_999 - index));
    format!("{{{members}}}")
}
