//! Base64 with the standard alphabet and padding (RFC 4648, section 4).

use alloc::{string::String, vec::Vec};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes `bytes` as base64, as members `data` and `blob` need it.
#[must_use]
pub fn encode_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let value = (group >> (18 - 6 * digit)) as usize & 63;
            text.push(if digit > chunk.len() { '=' } else { char::from(ALPHABET[value]) });
        }
    }
    text
}

/// Decodes base64; returns `None` if `text` is [not base64](is_base64).
#[must_use]
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let digits = digits(text)?;
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for chunk in digits.chunks(4) {
        let mut group = 0_u32;
        for digit in chunk {
            group = group << 6 | value(*digit)?;
        }
        group <<= 6 * (4 - chunk.len());
        bytes.extend_from_slice(&group.to_be_bytes()[1..chunk.len()]);
    }
    Some(bytes)
}

/// Returns whether `text` is base64 in the standard alphabet, with padding.
#[must_use]
pub fn is_base64(text: &str) -> bool {
    digits(text).is_some_and(|digits| digits.iter().all(|digit| value(*digit).is_some()))
}

/// Returns the text without its padding, if its length is a multiple of 4.
fn digits(text: &str) -> Option<&[u8]> {
    let digits = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    text.len().is_multiple_of(4).then_some(digits.as_bytes())
}

const fn value(digit: u8) -> Option<u32> {
    Some(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    } as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: CONT-011
    #[test]
    fn encodes_rfc_4648_examples() {
        let table: [(&[u8], &str); 9] = [
            (b"", ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"fooba", "Zm9vYmE="),
            (b"foobar", "Zm9vYmFy"),
            (&[0xfb, 0xff, 0xbf], "+/+/"),
            (&[0, 0, 0, 255], "AAAA/w=="),
        ];
        for (bytes, text) in table {
            assert_eq!(encode_base64(bytes), text);
            assert_eq!(decode_base64(text).as_deref(), Some(bytes));
        }
        for len in 0..=255_u8 {
            let bytes: Vec<u8> = (0..len).map(|byte| byte.wrapping_mul(167)).collect();
            let text = encode_base64(&bytes);
            assert!(is_base64(&text), "{text}");
            assert_eq!(decode_base64(&text), Some(bytes));
        }
    }

    // req: CONT-011
    #[test]
    fn rejects_other_alphabets_and_wrong_padding() {
        for good in ["", "aGk=", "aGkh", "aA==", "+/+/", "0000"] {
            assert!(is_base64(good), "{good:?}");
        }
        for bad in ["a", "aG", "aGk", "aGk==", "a===", "====", "aG-_", "aG k", "aGk=aGk=", "aGk\n", "ää", "a=bc", "="]
        {
            assert!(!is_base64(bad), "{bad:?}");
            assert_eq!(decode_base64(bad), None, "{bad:?}");
        }
    }
}
