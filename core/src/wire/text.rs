//! Bytes as text, and text as JSON.

use alloc::{borrow::Cow, vec::Vec};
use core::str::Utf8Error;

use super::{escape, unescape::unescape};
use crate::wire::string_scan;

/// Converts the bytes of a frame to text. The feature `simd` makes it faster.
///
/// # Errors
/// Returns an error if the bytes are not UTF-8.
pub fn text(bytes: &[u8]) -> Result<&str, Utf8Error> {
    // This variant is faster but does not report the position of an error. The standard library does, in the rare case
    // of one.
    #[cfg(feature = "simd")]
    if let Ok(text) = simdutf8::basic::from_utf8(bytes) {
        return Ok(text);
    }
    core::str::from_utf8(bytes)
}

/// Appends `text` as a JSON string with its quotes, for callers that write params or results as text. The feature
/// `simd` makes it faster.
///
/// ```
/// let mut json = Vec::new();
/// mcp_proto::wire::quote(&mut json, "so \"be\" it\n");
/// assert_eq!(json, br#""so \"be\" it\n""#);
/// ```
pub fn quote(out: &mut Vec<u8>, text: &str) {
    escape::string(out, text);
}

/// Returns the text of a JSON string token, or `None` for any other value.
pub(super) fn string(token: &str) -> Option<Cow<'_, str>> {
    let inner = token.strip_prefix('"')?.strip_suffix('"')?;
    let escaped = match inner.as_bytes() {
        short if short.len() <= 64 => !string_scan::is_plain(short),
        long => memchr::memchr(b'\\', long).is_some(),
    };
    if escaped { unescape(inner).map(Cow::Owned) } else { Some(Cow::Borrowed(inner)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf8_validation_equals_the_standard_library() {
        let filler = "plain, grün, 大, 🦀; ".repeat(20);
        for junk in [&b""[..], b"\x80", b"\xff", b"\xc3", b"\xe5\xa4", b"\xf0\x9f\xa6", b"\xed\xa0\x80", b"\xc0\xaf"] {
            for at in (0..filler.len()).filter(|at| filler.is_char_boundary(*at)) {
                let bytes = [&filler.as_bytes()[..at], junk, &filler.as_bytes()[at..]].concat();
                assert_eq!(text(&bytes), core::str::from_utf8(&bytes), "{junk:x?} at {at}");
            }
        }
    }
}
