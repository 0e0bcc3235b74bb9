//! Unescapes JSON strings.

use alloc::string::String;

use crate::wire::string_scan;

/// Returns the text of a string that the scanner has accepted, given the text between its quotes. Returns `None` if an
/// escape is half of a surrogate pair.
pub(super) fn unescape(written: &str) -> Option<String> {
    let (text, sound) = unescaped(written);
    sound.then_some(text)
}

/// Returns the text as [`unescape`] does, with U+FFFD for half of a surrogate pair.
pub(super) fn unescape_lossy(written: &str) -> String {
    unescaped(written).0
}

/// Returns the text, and whether each escape is a character. U+FFFD replaces those that are not.
fn unescaped(written: &str) -> (String, bool) {
    let bytes = written.as_bytes();
    // The text is never longer than `written`: an escape has at least as many bytes as its character, or as U+FFFD.
    let mut text = String::with_capacity(written.len());
    let mut done = 0;
    let mut sound = true;
    string_scan::escapes(bytes, |at| {
        // The second half of a surrogate pair was handled with the first.
        if at < done {
            return;
        }
        text.push_str(&written[done..at - 1]);
        let (character, length) = match bytes[at] {
            b'b' => (Some('\u{8}'), 1),
            b'f' => (Some('\u{c}'), 1),
            b'n' => (Some('\n'), 1),
            b'r' => (Some('\r'), 1),
            b't' => (Some('\t'), 1),
            b'u' => unicode(&bytes[at + 1..]),
            itself => (Some(char::from(itself)), 1),
        };
        sound &= character.is_some();
        text.push(character.unwrap_or(char::REPLACEMENT_CHARACTER));
        done = at + length;
    });
    text.push_str(&written[done..]);
    (text, sound)
}

/// Returns the character whose digits begin `bytes`, and the length of its escape after the backslash.
fn unicode(bytes: &[u8]) -> (Option<char>, usize) {
    let first = unit(bytes);
    if !(0xD800..0xDC00).contains(&first) {
        return (char::from_u32(first), 5);
    }
    match bytes.get(4..) {
        Some([b'\\', b'u', second @ ..]) if (0xDC00..0xE000).contains(&unit(second)) => {
            (char::from_u32(0x10000 + ((first - 0xD800) << 10 | (unit(second) - 0xDC00))), 11)
        }
        _ => (None, 5),
    }
}

/// Returns the number of four hexadecimal digits.
fn unit(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |unit, digit| unit << 4 | char::from(*digit).to_digit(16).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn check(written: &str) {
        let expected = serde_json::from_str::<String>(&format!("\"{written}\"")).ok();
        assert_eq!(unescape(written), expected, "{written}");
        if let Some(expected) = expected {
            assert_eq!(unescape_lossy(written), expected, "{written}");
        }
    }

    #[test]
    fn unescapes_like_serde_json() {
        for escape in ["\\\"", "\\\\", "\\/", "\\b", "\\f", "\\n", "\\r", "\\t", "\\\\\\\"", "\\\\\\\\"] {
            check(escape);
            check(&format!("grün {escape}{escape} plain {escape}"));
        }
        for unit in (0..=0xffff).step_by(7).chain(0xd7f0..0xe010) {
            check(&format!("\\u{unit:04x}"));
            check(&format!("a\\u{unit:04X}\\u00e9"));
            check(&format!("\\u{unit:04x}\\udc00"));
            check(&format!("\\ud83d\\u{unit:04x}é"));
            check(&format!("\\ud83d\\udE80\\u{unit:04x}"));
        }
        check("\\ud83d\\n");
        check("\\ud83dx");
        check("\\ud83d\\\\udc00");
    }

    #[test]
    fn lone_surrogates_become_replacement_characters() {
        for (written, shown) in [
            ("\\ud800", "\u{fffd}"),
            ("a\\ud800\\n\\udc00b", "a\u{fffd}\n\u{fffd}b"),
            ("\\ud83d\\ud83d\\ude80", "\u{fffd}\u{1f680}"),
        ] {
            assert_eq!((unescape(written), unescape_lossy(written)), (None, shown.into()), "{written}");
        }
    }

    #[test]
    fn finds_escapes_at_every_offset() {
        for before in 0..150 {
            for escape in ["\\n", "\\\\", "\\\\\\\\\\\"", "\\u00e9", "\\ud83e\\udd80", "\\ud83e\\n"] {
                for after in [0, 1, 70] {
                    check(&["x".repeat(before).as_str(), escape, &"é".repeat(after)].concat());
                }
            }
        }
    }

    #[test]
    fn converts_random_runs_like_serde_json() {
        let parts =
            ["\\n", "\\\"", "\\\\", "\\u20ac", "\\ud83e\\udd80", "\\ud83e", "\\udd80", "x", "é", "plain text, ", "大"];
        let mut state = 5u64;
        for _ in 0..3000 {
            let mut written = String::new();
            for _ in 0..40 {
                crate::test_rng::roll(&mut state);
                // Halves of surrogate pairs are rare here, because such a string has no text.
                let choice = (state >> 33) as usize % 200;
                written.push_str(
                    parts[if choice < parts.len() { choice } else { [0, 1, 2, 3, 4, 7, 8, 9, 10][choice % 9] }],
                );
            }
            check(&written);
        }
    }
}
