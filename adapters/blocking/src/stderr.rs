//! Standard error of a child: read to its end, so that the child never waits, and the last of it kept.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
};

use mcp_proto::codec::LineDecoder;

use crate::Source;

/// Somebody who wants to see each line.
pub(crate) type OnLine = Arc<Mutex<dyn FnMut(&str) + Send>>;

/// Bytes of a line that are shown.
const LINE: usize = 8 * 1024;

/// Bytes that are kept.
const KEPT: usize = 16 * 1024;

/// The last lines, up to a bound.
#[derive(Default)]
pub(crate) struct Tail {
    lines: VecDeque<String>,
    bytes: usize,
}

impl Tail {
    pub(crate) fn push(&mut self, line: &str) {
        self.bytes += line.len();
        self.lines.push_back(line.to_owned());
        while self.bytes > KEPT
            && let Some(oldest) = self.lines.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }
}

/// Reads to the end.
pub(crate) fn drain(mut source: impl Source, keep: impl Fn(&str), on_line: Option<OnLine>) {
    let mut lines = LineDecoder::new(LINE);
    let mut chunk = [0; LINE];
    loop {
        // Whatever goes wrong with it is no reason to fail.
        let len = source.read(&mut chunk).unwrap_or(0);
        lines.feed(&chunk[..len]);
        if len == 0 {
            lines.end();
        }
        while let Some(frame) = lines.next_frame() {
            let line = String::from_utf8_lossy(frame.bytes());
            keep(&line);
            // A callback that panics is not called again, but the child must not wait for it. Its lock remembers.
            let tell = |on_line: &OnLine| {
                if let Ok(mut f) = on_line.lock() {
                    f(&line);
                }
            };
            let _ = catch_unwind(AssertUnwindSafe(|| on_line.as_ref().map(tell)));
        }
        if len == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_keeps_the_last_lines_within_its_bound() {
        let mut tail = Tail::default();
        for number in 0..100_000 {
            tail.push(&format!("line {number}"));
            assert!(tail.bytes <= KEPT);
        }
        assert_eq!(tail.lines().last().map(String::as_str), Some("line 99999"));
        assert!(tail.lines().len() > 1000);
        tail.push(&"x".repeat(2 * KEPT));
        assert!(tail.lines().is_empty());
    }
}
