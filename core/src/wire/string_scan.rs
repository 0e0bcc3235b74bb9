//! Finds the end of a JSON string, and its special bytes, many bytes at a time.

#[cfg(feature = "simd")]
use core::array;

#[cfg(feature = "simd")]
use fearless_simd::{Level, Simd, SimdBase, SimdInt, SimdMask, dispatch, mask8x64, u8x32, u8x64};

/// The bytes of one step as a number.
const WORD: usize = size_of::<u64>();
/// The bytes of one step in a long text: one for each bit of a number.
const BLOCK: usize = u64::BITS as usize;
/// The blocks of one step where no special byte is expected.
const FAST_BLOCKS: usize = 4;
/// The bytes that are searched and copied in one step: as many as fit into the registers of most processors.
const COPY_STEP: usize = 4 * BLOCK;
/// The length from which a text without special bytes is searched by blocks, since it probably has none for longer.
const SHORT: usize = 8 * WORD;
/// Names are shorter than this, even those with a domain.
const NAME: usize = 6 * WORD;

/// Integers have fewer digits than this, and are followed by another byte.
const DIGITS: usize = 20;

/// The characters after a backslash, without `u`.
const SHORT_ESCAPES: [u8; 8] = *b"\"\\/bfnrt";

/// The end of a string, seen from after its opening quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StringEnd {
    /// The length to the end, with the closing quote.
    pub(super) length: usize,
    /// Whether the string has escapes.
    pub(super) escaped: bool,
}

/// Returns whether a text has neither quotes, backslashes nor control characters. Fast for short texts.
#[inline]
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    let is_plain = |word: &[u8; WORD]| special_in_word(u64::from_le_bytes(*word)) == 0;
    match (bytes.len(), bytes.last_chunk()) {
        (WORD.., Some(last)) => bytes.as_chunks().0.iter().all(is_plain) && is_plain(last),
        (4.., _) => {
            let mut word = [b' '; WORD];
            word[..4].copy_from_slice(&bytes[..4]);
            word[4..].copy_from_slice(&bytes[bytes.len() - 4..]);
            is_plain(&word)
        }
        _ => !bytes.iter().any(|byte| is_special(*byte)),
    }
}

/// Cuts a text at its quotes, backslashes and control characters, and at some other positions. Calls `piece` for each
/// piece in order, with the text from its beginning and with its length. The special byte at which the text was cut
/// belongs to no piece.
pub(super) fn cut(bytes: &[u8], piece: impl FnMut(&[u8], usize)) {
    #[cfg(feature = "simd")]
    dispatch!(Level::new(), simd => cut_by_blocks(Vector(simd), bytes, piece));
    #[cfg(not(feature = "simd"))]
    cut_by_blocks(Portable, bytes, piece);
}

/// Returns the end of the string whose opening quote is before `bytes`, or the position of a syntax error.
pub(super) fn body(bytes: &[u8]) -> Result<StringEnd, usize> {
    let at = short(bytes);
    if bytes.get(at) == Some(&b'"') {
        return Ok(StringEnd { length: at + 1, escaped: false });
    }
    match long_body(&bytes[at.min(bytes.len())..]) {
        Ok(body) => Ok(StringEnd { length: at + body.length, ..body }),
        Err(wrong) => Err(at + wrong),
    }
}

/// Returns the length of the beginning without special bytes, searched by words. The search stops at the end of the
/// text and at [`SHORT`].
#[inline(always)]
fn short(bytes: &[u8]) -> usize {
    let mut at = 0;
    while at < SHORT {
        let rest = &bytes[at..];
        let word = match rest.first_chunk() {
            Some(word) => u64::from_le_bytes(*word),
            None => padded(rest),
        };
        let found = special_in_word(word);
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += WORD;
    }
    at
}

/// Returns the same as [`body`], for a text that is long or has escapes.
#[cfg(not(feature = "simd"))]
#[inline(never)]
fn long_body(bytes: &[u8]) -> Result<StringEnd, usize> {
    body_by_blocks(Portable, bytes)
}

/// Returns the same as [`body`], for a text that is long or has escapes, by the vectors of the processor.
#[cfg(feature = "simd")]
#[inline(never)]
fn long_body(bytes: &[u8]) -> Result<StringEnd, usize> {
    dispatch!(Level::new(), simd => body_by_blocks(Vector(simd), bytes))
}

/// Calls `found` with the position after the backslash of each escape. `bytes` are the text between the quotes of a
/// string.
#[cfg(not(feature = "simd"))]
pub(super) fn escapes(bytes: &[u8], found: impl FnMut(usize)) {
    escapes_by_blocks(Portable, bytes, found);
}

#[cfg(feature = "simd")]
pub(super) fn escapes(bytes: &[u8], found: impl FnMut(usize)) {
    dispatch!(Level::new(), simd => escapes_by_blocks(Vector(simd), bytes, found));
}

/// Finds bytes in a block. Returns a bit for each, that of the first byte lowest.
trait SimdLanes: Copy {
    /// Returns whether several blocks have no special byte. Faster than one block at a time.
    fn are_plain(self, blocks: &[[u8; BLOCK]; FAST_BLOCKS]) -> bool;

    /// Calls `take` with the bytes if none of them is special, without reading them from memory a second time. Returns
    /// whether it did.
    fn take_plain(self, bytes: &[u8; COPY_STEP], take: impl FnOnce(&[u8; COPY_STEP])) -> bool;

    /// Finds quotes, backslashes and control characters.
    fn special(self, block: &[u8; BLOCK]) -> u64;

    /// Finds backslashes.
    fn backslashes(self, block: &[u8; BLOCK]) -> u64;

    /// Finds the characters that can follow a backslash, without `u`.
    fn short_escapes(self, block: &[u8; BLOCK]) -> u64;
}

/// Returns a block of `bytes`. The last one is filled with zeros, which are special.
#[inline(always)]
fn block_at<'a>(bytes: &'a [u8], start: usize, padded: &'a mut [u8; BLOCK]) -> &'a [u8; BLOCK] {
    bytes[start..].first_chunk().unwrap_or_else(|| {
        padded[..bytes.len() - start].copy_from_slice(&bytes[start..]);
        padded
    })
}

/// Skips blocks without special bytes, many at a time. Returns the new position.
#[inline(always)]
fn skip_many(lanes: impl SimdLanes, bytes: &[u8], mut start: usize) -> usize {
    while let Some(blocks) = bytes[start..].as_chunks().0.first_chunk()
        && lanes.are_plain(blocks)
    {
        start += FAST_BLOCKS * BLOCK;
    }
    start
}

#[inline(always)]
fn cut_by_blocks(lanes: impl SimdLanes, bytes: &[u8], mut piece: impl FnMut(&[u8], usize)) {
    let mut padded = [0; BLOCK];
    // The start of the current piece, and of the current block.
    let (mut from, mut start) = (0, 0);
    while start < bytes.len() {
        let mut special = lanes.special(block_at(bytes, start, &mut padded));
        start += BLOCK;
        while special != 0 {
            let at = start - BLOCK + special.trailing_zeros() as usize;
            if at >= bytes.len() {
                break;
            }
            piece(&bytes[from..], at - from);
            from = at + 1;
            special &= special - 1;
        }
        if let Some(rest) = bytes.get(start..)
            && from + BLOCK <= start
        {
            // The last block had no special bytes, so the next ones probably have none either.
            piece(&bytes[from..start], start - from);
            let some = rest.as_chunks().0;
            start += COPY_STEP
                * some.iter().take_while(|some| lanes.take_plain(some, |plain| piece(plain, COPY_STEP))).count();
            from = start;
        }
    }
    if from < bytes.len() {
        piece(&bytes[from..], bytes.len() - from);
    }
}

#[inline(always)]
fn body_by_blocks(lanes: impl SimdLanes, bytes: &[u8]) -> Result<StringEnd, usize> {
    let mut padded = [0; BLOCK];
    let mut escaped = false;
    // 1 if the last byte of the previous block begins an escape.
    let mut carry = 0;
    let mut start = 0;
    loop {
        let block = block_at(bytes, start, &mut padded);
        let special = lanes.special(block);
        if special | carry == 0 {
            start = skip_many(lanes, bytes, start + BLOCK);
            continue;
        }
        let backslashes = lanes.backslashes(block);
        let (behind, next_carry) = behind_escapes(backslashes, carry);
        let ends = special & !backslashes & !behind;
        // Only the bytes up to the end of the string count.
        let behind = behind & (ends ^ ends.wrapping_sub(1));
        let mut others = if behind == 0 { 0 } else { behind & !lanes.short_escapes(block) };
        while others != 0 {
            let at = start + others.trailing_zeros() as usize;
            if !is_unicode_escape(&bytes[at..]) {
                return Err(at);
            }
            others &= others - 1;
        }
        escaped |= behind != 0;
        if ends != 0 {
            let offset = ends.trailing_zeros() as usize;
            let at = start + offset;
            return if block[offset] == b'"' { Ok(StringEnd { length: at + 1, escaped }) } else { Err(at) };
        }
        carry = next_carry;
        start += BLOCK;
    }
}

#[inline(always)]
fn escapes_by_blocks(lanes: impl SimdLanes, bytes: &[u8], mut found: impl FnMut(usize)) {
    let mut padded = [0; BLOCK];
    let mut carry = 0;
    for start in (0..bytes.len()).step_by(BLOCK) {
        let backslashes = lanes.backslashes(block_at(bytes, start, &mut padded));
        let (mut behind, next_carry) = behind_escapes(backslashes, carry);
        while behind != 0 {
            found(start + behind.trailing_zeros() as usize);
            behind &= behind - 1;
        }
        carry = next_carry;
    }
}

/// Returns the bytes after a backslash that begins an escape, and, as 0 or 1, whether the first byte of the next block
/// is one.
#[inline(always)]
fn behind_escapes(backslashes: u64, carry: u64) -> (u64, u64) {
    let mut begins = backslashes & !carry;
    if begins & (begins << 1) != 0 {
        // For adjacent backslashes: each one that begins an escape escapes the next one.
        let mut rest = begins;
        while rest != 0 {
            let first = rest & rest.wrapping_neg();
            begins &= !(first << 1);
            rest &= !(first | first << 1);
        }
    }
    (begins << 1 | carry, begins >> (BLOCK - 1))
}

/// Returns whether these bytes have the form of `\u00e9` after its backslash.
fn is_unicode_escape(bytes: &[u8]) -> bool {
    matches!(bytes, [b'u', a, b, c, d, ..] if [a, b, c, d].into_iter().all(u8::is_ascii_hexdigit))
}

const fn is_special(byte: u8) -> bool {
    (byte ^ 0x02 <= 0x20) | (byte == b'\\')
}

/// Portable code: loops over arrays without branches, which compilers vectorize.
#[cfg(any(test, not(feature = "simd")))]
#[derive(Clone, Copy)]
struct Portable;

#[cfg(any(test, not(feature = "simd")))]
impl Portable {
    #[inline(always)]
    fn mask(block: &[u8; BLOCK], is: impl Fn(u8) -> bool) -> u64 {
        let mut bits = [0; BLOCK];
        for (at, (bit, byte)) in bits.iter_mut().zip(block).enumerate() {
            *bit = if is(*byte) { 1 << (at % WORD) } else { 0 };
        }
        let mut mask = [0; WORD];
        for (mask, bits) in mask.iter_mut().zip(bits.as_chunks().0) {
            // The sum of them is the highest byte of the product.
            *mask = u64::from_le_bytes(*bits).wrapping_mul(each(1)).to_be_bytes()[0];
        }
        u64::from_le_bytes(mask)
    }
}

#[cfg(any(test, not(feature = "simd")))]
impl SimdLanes for Portable {
    #[inline(always)]
    fn are_plain(self, blocks: &[[u8; BLOCK]; FAST_BLOCKS]) -> bool {
        !blocks.as_flattened().iter().fold(false, |any, byte| any | is_special(*byte))
    }

    #[inline(always)]
    fn take_plain(self, bytes: &[u8; COPY_STEP], take: impl FnOnce(&[u8; COPY_STEP])) -> bool {
        let is_plain = !bytes.iter().fold(false, |any, byte| any | is_special(*byte));
        if is_plain {
            take(bytes);
        }
        is_plain
    }

    #[inline(always)]
    fn special(self, block: &[u8; BLOCK]) -> u64 {
        // Many blocks have no special bytes, and this test is cheaper than the mask.
        if block.iter().fold(false, |any, byte| any | is_special(*byte)) { Self::mask(block, is_special) } else { 0 }
    }

    #[inline(always)]
    fn backslashes(self, block: &[u8; BLOCK]) -> u64 {
        Self::mask(block, |byte| byte == b'\\')
    }

    #[inline(always)]
    fn short_escapes(self, block: &[u8; BLOCK]) -> u64 {
        Self::mask(block, |byte| SHORT_ESCAPES.iter().fold(false, |any, escape| any | (byte == *escape)))
    }
}

/// The vectors of this processor.
#[cfg(feature = "simd")]
#[derive(Clone, Copy)]
struct Vector<S>(S);

#[cfg(feature = "simd")]
impl<S: Simd> SimdLanes for Vector<S> {
    #[inline(always)]
    fn are_plain(self, blocks: &[[u8; BLOCK]; FAST_BLOCKS]) -> bool {
        let (mut least, mut backslashes) = (u8x64::splat(self.0, u8::MAX), mask8x64::splat(self.0, false));
        for block in blocks {
            let bytes = u8x64::from_slice(self.0, block);
            least = least.min(bytes ^ 0x02);
            backslashes |= bytes.simd_eq(b'\\');
        }
        (least.simd_le(0x20) | backslashes).all_false()
    }

    #[inline(always)]
    fn take_plain(self, bytes: &[u8; COPY_STEP], take: impl FnOnce(&[u8; COPY_STEP])) -> bool {
        const WIDTH: usize = 32;
        let vectors: [_; COPY_STEP / WIDTH] =
            array::from_fn(|at| u8x32::from_slice(self.0, &bytes[at * WIDTH..(at + 1) * WIDTH]));
        let (mut least, mut backslash) = (u8x32::splat(self.0, u8::MAX), u8x32::splat(self.0, u8::MAX));
        for vector in vectors {
            least = least.min(vector ^ 0x02);
            backslash = backslash.min(vector ^ b'\\');
        }
        if (least.simd_le(0x20) | backslash.simd_eq(0)).any_true() {
            return false;
        }
        let mut same = [0; COPY_STEP];
        for (vector, bytes) in vectors.iter().zip(same.as_chunks_mut::<WIDTH>().0) {
            vector.store_slice(bytes);
        }
        take(&same);
        true
    }

    #[inline(always)]
    fn special(self, block: &[u8; BLOCK]) -> u64 {
        let bytes = u8x64::from_slice(self.0, block);
        ((bytes ^ 0x02).simd_le(0x20) | bytes.simd_eq(b'\\')).to_bitmask()
    }

    #[inline(always)]
    fn backslashes(self, block: &[u8; BLOCK]) -> u64 {
        u8x64::from_slice(self.0, block).simd_eq(b'\\').to_bitmask()
    }

    #[inline(always)]
    fn short_escapes(self, block: &[u8; BLOCK]) -> u64 {
        let bytes = u8x64::from_slice(self.0, block);
        let [first, others @ ..] = SHORT_ESCAPES;
        others.into_iter().fold(bytes.simd_eq(first), |any, escape| any | bytes.simd_eq(escape)).to_bitmask()
    }
}

/// Returns a string after its opening quote, and the text after its closing quote, if the string is as short as a name
/// and has no special bytes.
#[inline(always)]
pub(super) fn name(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut length = 0;
    loop {
        let rest = bytes.get(length..)?;
        let found = special_in_word(match (rest.first_chunk(), bytes.last_chunk()) {
            (Some(word), _) => u64::from_le_bytes(*word),
            // Near the end of the text, its last whole word is read, which repeats some bytes but avoids a loop over
            // the rest.
            (None, Some(last)) => u64::from_le_bytes(*last).unbounded_shr(u64::BITS - u8::BITS * rest.len() as u32),
            (None, None) => padded(rest),
        });
        if found != 0 {
            length += found.trailing_zeros() as usize / 8;
            break;
        }
        length += WORD;
        if length == NAME {
            return None;
        }
    }
    match bytes.split_at_checked(length)? {
        (name, [b'"', behind @ ..]) => Some((name, behind)),
        _ => None,
    }
}

/// Returns the text after an integer that is as short as an id. The integer does not begin with zero and is not part of
/// another number.
#[inline(always)]
pub(super) fn integer(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = match bytes.first_chunk() {
        Some(word) => &bytes[digits_in_word(u64::from_le_bytes(*word))..],
        None => bytes,
    };
    while let [b'0'..=b'9', behind @ ..] = rest {
        rest = behind;
    }
    let is_whole = bytes.len() - rest.len() < DIGITS && !matches!(rest, [b'.' | b'e' | b'E', ..] | []);
    is_whole.then_some(rest)
}

/// Returns an integer of fewer than eight digits, filled with zeros, or `None` if the text is anything else.
#[inline]
pub(super) fn short_digits(bytes: &[u8]) -> Option<[u8; WORD]> {
    if bytes.len() >= WORD {
        return None;
    }
    let word = padded(bytes);
    (digits_in_word(word) == bytes.len()).then(|| word.to_le_bytes())
}

/// Returns the number of digits at the beginning of a word.
#[inline(always)]
const fn digits_in_word(word: u64) -> usize {
    // Digits become 0 to 9. Other bytes are 10 or more, or have their high bit set, and so do the carries out of them.
    let values = word ^ each(b'0');
    let others = (values.wrapping_add(each(0x76)) | values) & each(0x80);
    others.trailing_zeros() as usize / 8
}

/// Returns the bytes of a text that is shorter than a word, filled with zeros, which are special.
#[inline(always)]
fn padded(bytes: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        // The bytes that both halves contain get the same position.
        let missing = u64::BITS - u8::BITS * bytes.len() as u32;
        return u64::from(u32::from_le_bytes(*first)) | (u64::from(u32::from_le_bytes(*last)) << 32) >> missing;
    }
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Returns the high bit of each special byte. Only the lowest bit that is set is reliable: borrows of the subtractions
/// change the bits above it.
#[inline(always)]
const fn special_in_word(word: u64) -> u64 {
    // Flipping one bit of a quote (0x22) makes it the neighbour of the control characters, which stay below it.
    let quote_or_control = (word ^ each(0x02)).wrapping_sub(each(0x21));
    let backslash = (word ^ each(b'\\')).wrapping_sub(each(1));
    (quote_or_control | backslash) & !word & each(0x80)
}

#[inline(always)]
const fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; WORD])
}

#[cfg(test)]
mod tests;
