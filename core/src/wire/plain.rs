//! How far a JSON string goes on before a byte in it means something, found without looking at one byte at a time.

/// Bytes that are looked at in one step, as a number.
const WORD: usize = size_of::<u64>();
/// A text that has nothing special for so long is likely to have nothing for longer: worth the start of a vector search.
const SHORT: usize = 8 * WORD;

/// Like [`plain`], of a text that is plain for less than a word; `None` for any other.
#[inline]
pub(super) fn plain_word(bytes: &[u8]) -> Option<usize> {
    let found = special(u64::from_le_bytes(*bytes.first_chunk()?));
    (found != 0).then(|| found.trailing_zeros() as usize / 8)
}

/// The same, for less than two words.
#[inline]
pub(super) fn plain_name(bytes: &[u8]) -> Option<usize> {
    plain_word(bytes).or_else(|| Some(WORD + plain_word(bytes.get(WORD..)?)?))
}

/// The number of bytes at the start of `bytes` that are neither quotes, backslashes nor control characters.
#[inline]
pub(super) fn plain(bytes: &[u8]) -> usize {
    let mut at = 0;
    while bytes.len() - at >= WORD {
        if let Some(length) = plain_word(&bytes[at..]) {
            return at + length;
        }
        at += WORD;
        if at == SHORT {
            return at + long(&bytes[at..]);
        }
    }
    at + bytes[at..].iter().take_while(|byte| special((**byte).into()) & 0x80 == 0).count()
}

/// The high bit of each byte that is special. Only the lowest bit that is set can be relied upon: bytes above it are
/// compared with what the subtractions have borrowed from them.
const fn special(word: u64) -> u64 {
    const fn each(byte: u8) -> u64 {
        u64::from_le_bytes([byte; WORD])
    }
    // Flipping one bit of a quote (0x22) makes it the neighbour of the control characters, which stay below it.
    let quote_or_control = (word ^ each(0x02)).wrapping_sub(each(0x21));
    let backslash = (word ^ each(b'\\')).wrapping_sub(each(1));
    (quote_or_control | backslash) & !word & each(0x80)
}

/// The same for a text that is likely to go on like that.
#[inline(never)]
fn long(bytes: &[u8]) -> usize {
    let end = memchr::memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len());
    let text = &bytes[..end];
    // A minimum, for that is one vector instruction.
    if text.iter().fold(u8::MAX, |least, byte| least.min(*byte)) >= 0x20 {
        return end;
    }
    text.iter().position(|byte| *byte < 0x20).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_found_at_every_place_behind_every_neighbour() {
        for length in [0, 1, 7, 8, 9, 16, 63, 64, 65, 72, 100] {
            for byte in 0..=u8::MAX {
                let stops = byte < 0x20 || byte == b'"' || byte == b'\\';
                for filler in [b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xa0, 0xff] {
                    let mut text = alloc::vec![filler; length];
                    assert_eq!(plain(&text), length);
                    for at in 0..length {
                        text[at] = byte;
                        assert_eq!(plain(&text), if stops { at } else { length }, "{byte:#x} at {at} of {text:x?}");
                        // What comes behind it does not matter.
                        if at + 1 < length {
                            text[at + 1] = b'"';
                            assert_eq!(plain(&text), if stops { at } else { at + 1 });
                            text[at + 1] = filler;
                        }
                        text[at] = filler;
                    }
                }
            }
        }
    }
}
