//! Escapes texts as JSON strings.

use alloc::vec::Vec;

use crate::wire::string_scan::{cut, is_plain};

/// The longest text that is searched for special bytes before it is copied. Such texts are usually names and other
/// words without special bytes.
const SHORT: usize = 128;
/// The usual number of bytes between escaped bytes is less than this.
const MAX_RUN: usize = 32;

/// Appends `text` as a JSON string with its quotes.
pub(super) fn string(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    if text.len() <= SHORT && is_plain(text.as_bytes()) {
        out.extend_from_slice(text.as_bytes());
    } else {
        contents(out, text);
    }
    out.push(b'"');
}

/// Appends `text` as the inside of a JSON string, without quotes.
pub(super) fn contents(out: &mut Vec<u8>, text: &str) {
    cut(
        text.as_bytes(),
        #[inline(always)]
        |text, length| {
            plain(out, text, length);
            if let Some(special) = text.get(length) {
                escape(out, *special);
            }
        },
    );
}

/// Appends the first `length` bytes of `text`.
#[inline(always)]
fn plain(out: &mut Vec<u8>, text: &[u8], length: usize) {
    // Copying a fixed number of bytes and truncating is faster than copying a variable number.
    match text.first_chunk::<MAX_RUN>() {
        Some(more) if length <= MAX_RUN => {
            let end = out.len() + length;
            out.extend_from_slice(more);
            out.truncate(end);
        }
        _ => out.extend_from_slice(&text[..length]),
    }
}

/// Appends the escape of a byte.
#[inline(always)]
fn escape(out: &mut Vec<u8>, byte: u8) {
    match LETTERS.get(usize::from(byte)) {
        Some(b'u') => {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            let [high, low] = [byte >> 4, byte & 15].map(|digit| HEX[usize::from(digit)]);
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
        letter => out.extend_from_slice(&[b'\\', *letter.unwrap_or(&byte)]),
    }
}

/// The letter after the backslash for each control character; `u` for those without a letter.
const LETTERS: [u8; 0x20] = {
    let mut letters = [b'u'; 0x20];
    letters[0x08] = b'b';
    letters[0x09] = b't';
    letters[0x0a] = b'n';
    letters[0x0c] = b'f';
    letters[0x0d] = b'r';
    letters
};

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn same(text: &str) {
        let mut out = b"before".to_vec();
        string(&mut out, text);
        assert_eq!(out[6..], *serde_json::to_string(text).expect("a string").as_bytes(), "{text:?}");
    }

    #[test]
    fn escapes_characters_like_serde_json() {
        for filler in ["", "a", "plain text, ", "\"", "\n\\"] {
            for byte in 0..=0x2ff_u32 {
                let character = char::from_u32(byte).expect("no surrogate");
                same(&alloc::format!("{filler}{character}{filler}"));
            }
        }
    }

    #[test]
    fn escapes_at_every_length_and_offset() {
        for length in (0..140).chain([191, 192, 193, 255, 256, 257, 320, 449, 4096]) {
            for filler in ['x', 'ä', '大'] {
                let mut text: String = core::iter::repeat_n(filler, length / filler.len_utf8()).collect();
                same(&text);
                let places = text.len().min(140);
                for at in (0..places).chain(text.len() - places..text.len()).filter(|at| at % filler.len_utf8() == 0) {
                    for special in ["\"", "\\", "\u{1}", "\n\n", "\u{7f}"] {
                        text.insert_str(at, special);
                        if at < 20 || length < 80 {
                            same(&text);
                        }
                        text.replace_range(at..at + special.len(), "");
                    }
                }
            }
        }
    }

    #[test]
    fn converts_random_runs_like_serde_json() {
        let mut state = 3u64;
        for _ in 0..3000 {
            let mut text = String::new();
            for _ in 0..20 {
                crate::test_rng::roll(&mut state);
                let run = usize::try_from(state >> 59).expect("five bits") * usize::from(state >> 40 & 3 > 0);
                text.extend(core::iter::repeat_n(['x', ' ', 'é', '\u{7f}'][(state >> 50 & 3) as usize], run));
                text.push(['"', '\\', '\n', '\u{0}', '\u{1f}', '!', '#', '\u{20ac}'][(state >> 36 & 7) as usize]);
            }
            same(&text);
        }
    }
}
