//! Bytes as text.

use core::str::Utf8Error;

/// The text that `bytes` are, such as the text of a frame. With the feature `simd` it looks at vectors of them at a time.
///
/// # Errors
/// If they are not UTF-8.
pub fn text(bytes: &[u8]) -> Result<&str, Utf8Error> {
    // It does not say where the first error is, so that is for the one below, who is seldom asked.
    #[cfg(feature = "simd")]
    if let Ok(text) = simdutf8::basic::from_utf8(bytes) {
        return Ok(text);
    }
    core::str::from_utf8(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_text_of_the_standard_library() {
        let filler = "plain, grün, 大, 🦀; ".repeat(20);
        for junk in [&b""[..], b"\x80", b"\xff", b"\xc3", b"\xe5\xa4", b"\xf0\x9f\xa6", b"\xed\xa0\x80", b"\xc0\xaf"] {
            for at in (0..filler.len()).filter(|at| filler.is_char_boundary(*at)) {
                let bytes = [&filler.as_bytes()[..at], junk, &filler.as_bytes()[at..]].concat();
                assert_eq!(text(&bytes), core::str::from_utf8(&bytes), "{junk:x?} at {at}");
            }
        }
    }
}
