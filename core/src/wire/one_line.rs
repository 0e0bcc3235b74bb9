//! Keeps each message on one line.

use alloc::vec::Vec;

/// Appends JSON that may have line breaks, on one line.
///
/// Line breaks in JSON stand between tokens only, where a space means the same. Text that this crate writes itself has
/// none.
pub(crate) fn raw(out: &mut Vec<u8>, json: &str) {
    let start = out.len();
    out.extend_from_slice(json.as_bytes());
    let mut rest = &mut out[start..];
    while let Some(at) = line_break(rest) {
        rest[at] = b' ';
        rest = &mut rest[at + 1..];
    }
}

/// Where a text is not one line.
pub(crate) fn line_break(text: &[u8]) -> Option<usize> {
    memchr::memchr2(b'\n', b'\r', text)
}
