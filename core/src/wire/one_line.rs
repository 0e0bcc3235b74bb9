//! Removes line breaks, to keep each message on one line.

use alloc::vec::Vec;

/// Appends JSON with its line breaks replaced by spaces.
///
/// Line breaks in JSON occur between tokens only, where a space is equivalent. Text that this crate writes has none.
pub(crate) fn raw(out: &mut Vec<u8>, json: &str) {
    let start = out.len();
    out.extend_from_slice(json.as_bytes());
    let mut rest = &mut out[start..];
    while let Some(at) = line_break(rest) {
        rest[at] = b' ';
        rest = &mut rest[at + 1..];
    }
}

/// Returns the position of the first line break.
pub(crate) fn line_break(text: &[u8]) -> Option<usize> {
    memchr::memchr2(b'\n', b'\r', text)
}
