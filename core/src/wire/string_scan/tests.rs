use alloc::{vec, vec::Vec};

use super::*;

/// A reference implementation of [`body`] that reads one byte at a time.
fn reference(bytes: &[u8]) -> Result<StringEnd, usize> {
    let mut escaped = false;
    let mut at = 0;
    loop {
        match bytes.get(at) {
            Some(b'"') => return Ok(StringEnd { length: at + 1, escaped }),
            Some(b'\\') => {
                escaped = true;
                at += 1;
                let digits = match bytes.get(at) {
                    Some(b'u') => 4,
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 0,
                    _ => return Err(at),
                };
                if !bytes.get(at + 1..at + 1 + digits).is_some_and(|it| it.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(at);
                }
                at += 1 + digits;
            }
            Some(0x20..) => at += 1,
            _ => return Err(at),
        }
    }
}

/// Returns the pieces of a text between its special bytes, each with the special byte after it.
fn pieces(cut: impl FnOnce(&mut dyn FnMut(&[u8], usize))) -> Vec<(Vec<u8>, Option<u8>)> {
    let mut pieces = vec![(Vec::new(), None)];
    cut(&mut |text, length| {
        if let Some((last, end)) = pieces.last_mut() {
            last.extend_from_slice(&text[..length]);
            *end = text.get(length).copied();
        }
        if length < text.len() {
            pieces.push((Vec::new(), None));
        }
    });
    pieces
}

fn check(bytes: &[u8]) {
    let expected = reference(bytes);
    assert_eq!(body(bytes), expected, "{bytes:x?}");
    assert_eq!(long_body(bytes), expected, "{bytes:x?}");
    assert_eq!(body_by_blocks(Portable, bytes), expected, "{bytes:x?}");
    assert_eq!(is_plain(bytes), !bytes.iter().any(|byte| is_special(*byte)), "{bytes:x?}");
    let ends = bytes.iter().filter(|byte| is_special(**byte)).copied().map(Some).chain([None]);
    let expected: Vec<_> = bytes.split(|byte| is_special(*byte)).map(Vec::from).zip(ends).collect();
    assert_eq!(pieces(|piece| cut(bytes, piece)), expected);
    assert_eq!(pieces(|piece| cut_by_blocks(Portable, bytes, piece)), expected);
}

#[test]
fn finds_every_special_byte_at_every_offset() {
    for length in [9, 72, 129] {
        for filler in [b'!', b'#', b'[', 0xa0, 0xff] {
            let mut text = vec![filler; length];
            check(&text);
            for byte in 0..=u8::MAX {
                for at in [0, 7, 8, 63, 64, 71, 127, 128] {
                    if at >= length {
                        break;
                    }
                    text[at] = byte;
                    check(&text);
                    // The byte behind it does not matter, unless it is an escape.
                    if at + 1 < length {
                        text[at + 1] = b'"';
                        check(&text);
                        text[at + 1] = filler;
                    }
                    text[at] = filler;
                }
            }
        }
    }
}

#[test]
fn reads_escapes_across_block_boundaries() {
    let escapes: [&[u8]; 12] = [
        b"\\\"",
        b"\\\\",
        b"\\\\\"",
        b"\\\\\\\"",
        b"\\u00e9",
        b"\\u00E9\\u12ab\"",
        b"\\u12",
        b"\\u12g4",
        b"\\x",
        b"\\",
        b"\\\n",
        b"\\n\\t\\/\\b\\f\\r",
    ];
    for escape in escapes {
        for before in 0..140 {
            for after in [0, 1, 2, 5, 60, 64, 70] {
                let mut text: Vec<u8> = [&vec![b'x'; before], escape, &vec![b'y'; after]].concat();
                check(&text);
                text.extend_from_slice(b"\" \" ");
                check(&text);
            }
        }
    }
}

#[test]
fn random_strings_match_the_bytewise_reference() {
    let parts: [&[u8]; 14] = [
        b"\\",
        b"\"",
        b"\\\"",
        b"\\n",
        b"\\u00e9",
        b"u00e9",
        b"\n",
        b"\0",
        b"a",
        b"text",
        b" more text than that, ",
        b"\xc3\xa9",
        b"\xff",
        b"sixty-four bytes that have nothing in them that would be special",
    ];
    let mut state = 1u64;
    let mut valid = 0;
    for _ in 0..30_000 {
        let mut text = Vec::new();
        crate::test_rng::roll(&mut state);
        for i in 0..(state >> 60) {
            // The first ones are rare, or nothing would be long.
            let choice = (state >> (3 * i)) as usize % 31;
            text.extend_from_slice(parts[if choice < 14 { choice } else { 2 + choice % 12 }]);
        }
        check(&text);
        text.push(b'"');
        check(&text);
        valid += usize::from(reference(&text).is_ok_and(|body| body.length > BLOCK));
    }
    assert!(valid > 300, "the sample has too few long strings: {valid}");
}

#[test]
fn finds_special_bytes_in_long_texts() {
    let specials = [0, 1, 0x1f, 0x20, b'!', b'"', b'#', b'[', b'\\', b']', 0x7f, 0x80, 0xff];
    for length in (190..=194).chain([255, 256, 257, 319, 320, 321, 448, 600]) {
        let mut text = vec![b'x'; length];
        check(&text);
        for at in (0..length).filter(|at| (at + 2) % 64 < 5 || length - at < 3) {
            for byte in specials {
                text[at] = byte;
                check(&text);
                // Another one may follow, and what an escape was taken for may be none.
                text[(at + 65) % length] = b'"';
                check(&text);
                text[(at + 65) % length] = b'x';
                text[at] = b'x';
            }
        }
    }
}

#[test]
fn reads_only_short_plain_names() {
    for (length, behind) in (0..60).flat_map(|length| (0..17).map(move |behind| (length, behind))) {
        for stop in [b'"', b'\\', 0, 0x1f] {
            let mut text = vec![b'n'; length];
            text.push(stop);
            text.resize(length + 1 + behind, b'"');
            let expected = (stop == b'"' && length < NAME).then(|| (&text[..length], &text[length + 1..]));
            assert_eq!(name(&text), expected, "{length} {behind}");
        }
        assert_eq!(name(&vec![b'n'; length]), None, "it does not end");
    }
}

#[test]
fn reads_only_short_plain_integers() {
    for text in ["1,", "12}", "9]", "10 ", "1234567890123456789,", "1a"] {
        assert_eq!(integer(text.as_bytes()), Some(&text.as_bytes()[text.len() - 1..]));
    }
    for text in ["", "1", "1.0,", "1e3,", "12E4,", "12345678901234567890,"] {
        assert_eq!(integer(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn counts_leading_digits() {
    for at in 0..=WORD {
        for other in 0..=u8::MAX {
            let mut bytes = *b"90817263";
            if let Some(byte) = bytes.get_mut(at) {
                *byte = other;
            }
            let expected = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
            assert_eq!(digits_in_word(u64::from_le_bytes(bytes)), expected, "{bytes:?}");
        }
    }
}
