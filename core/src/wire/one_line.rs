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
        rest = &mut rest[at..];
    }
}

/// Returns the position of the first line break.
pub(crate) fn line_break(text: &[u8]) -> Option<usize> {
    memchr::memchr2(b'\n', b'\r', text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_become_spaces() {
        for (json, expected) in
            [("", "-"), ("{}", "-{}"), ("\n", "- "), ("\r\n[\n1,\r\r2\n]\n", "-  [ 1,  2 ] "), ("{\n\n}", "-{  }")]
        {
            let mut out = b"-".to_vec();
            raw(&mut out, json);
            assert_eq!(out, expected.as_bytes(), "{json:?}");
        }
        // What was written before stays.
        let mut out = b"\n".to_vec();
        raw(&mut out, "\n1");
        assert_eq!(out, b"\n 1");
        assert_eq!([line_break(b"ab"), line_break(b"a\rb\n"), line_break(b"\n")], [None, Some(1), Some(0)]);
    }
}
