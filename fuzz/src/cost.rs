//! The cost of a decoder of peer data: its allocations for an input, and the growth of its work with the length.
//!
//! Inputs of a fuzzer are too short to distinguish a square from a constant. So one input in sixteen is stretched to
//! two sizes, of which one is eight times the other, and the two costs are compared. Both bounds are the same on every
//! machine.
//!
//! All targets except `values` and `pair` are measured. The inputs of those two are choices of an application, not
//! bytes of a peer.

use std::time::Duration;

use allocation_counter::{AllocationInfo, measure};
use rustix::time::{ClockId, clock_gettime};

use crate::rng::Rng;

/// The most bytes that a decoder may hold at once for each byte of its input. A tree of values needs the most.
const PEAK_PER_BYTE: u64 = 200;

/// The most bytes that a decoder may allocate in all for each byte of its input.
const SUM_PER_BYTE: u64 = 600;

/// The bytes that are allocated for any input, such as the tables of a connection.
const SMALL: u64 = 128 << 10;

/// The sizes of stretched inputs, in bytes.
const SIZES: [usize; 2] = [8 << 10, 64 << 10];

/// The largest ratio of the costs of an input and of one with an eighth of its size. `n log n` gives 10, `n * n` gives
/// 64.
const MOST_GROWTH: u32 = 24;

/// Times below this are too short to be compared.
const SHORT: Duration = Duration::from_millis(1);

/// The largest ratio of the costs of an input and of one with half of its size. `n * n` gives 4.
const MOST_GROWTH_OF_HALF: u32 = 3;

/// How many inputs of about half of the size are tried. A decoder may refuse one of them at its beginning, for example
/// if the last of many backslashes escapes the quotation mark.
const HALVES: usize = 8;

/// The difference of the sizes of those inputs, in bytes. It is odd and eight of them are more than four of the longest
/// pieces, so that an even and an odd number of repetitions of any piece are tried.
const HALF_STEP: usize = 33;

/// How often an excessive time is measured. The shortest one counts.
const ATTEMPTS: usize = 5;

/// Decodes `data`, and panics if the cost exceeds a bound.
///
/// # Panics
/// If a bound is broken.
pub fn assert_bounded(data: &[u8], decode: impl Fn(&[u8])) {
    if let Some(fault) = fault(data, decode) {
        panic!("{fault}");
    }
}

/// Returns the bound that decoding `data` exceeds.
#[must_use]
pub fn fault(data: &[u8], decode: impl Fn(&[u8])) -> Option<String> {
    let cost = measure(|| decode(data));
    let fault = beyond(data.len(), &cost);
    let seed = hash(data);
    if fault.is_some() || !seed.is_multiple_of(16) {
        return fault;
    }
    let [small, large] = SIZES.map(|size| stretched(data, size, seed));
    let (least, most) = (measure(|| decode(&small)), measure(|| decode(&large)));
    let growth = u64::from(MOST_GROWTH);
    for (what, least, most) in
        [("held at once", least.bytes_max, most.bytes_max), ("allocated", least.bytes_total, most.bytes_total)]
    {
        if most > growth * least.max(SMALL) {
            return Some(format!("{} bytes: {least} bytes {what}; {} bytes: {most}", small.len(), large.len()));
        }
    }
    let halves = || (0..HALVES).map(|more| stretched(data, SIZES[1] / 2 + more * HALF_STEP, seed));
    beyond(large.len(), &most).or_else(|| slow(&small, &large, halves(), &decode))
}

/// Returns the bound of allocations that an input with this many bytes exceeds.
fn beyond(len: usize, cost: &AllocationInfo) -> Option<String> {
    let bound = |per_byte| per_byte * len as u64 + SMALL;
    let is_beyond = cost.bytes_max > bound(PEAK_PER_BYTE) || cost.bytes_total > bound(SUM_PER_BYTE);
    is_beyond.then(|| format!("{len} bytes: {} bytes held at once, {} allocated", cost.bytes_max, cost.bytes_total))
}

/// Returns a report if the processor time grows too fast.
fn slow(
    small: &[u8],
    large: &[u8],
    mut halves: impl Iterator<Item = Vec<u8>>,
    decode: &impl Fn(&[u8]),
) -> Option<String> {
    let (mut least, mut most) = (Duration::MAX, Duration::MAX);
    for _ in 0..ATTEMPTS {
        least = least.min(timed(|| decode(small)));
        most = most.min(timed(|| decode(large)));
        if most <= MOST_GROWTH * least.max(SHORT) {
            return None;
        }
    }
    let shortest = |input: &[u8]| (0..ATTEMPTS).map(|_| timed(|| decode(input))).min().unwrap_or_default();
    if halves.any(|half| most <= MOST_GROWTH_OF_HALF * shortest(&half)) {
        return None;
    }
    Some(format!("{} bytes: {least:?}; {} bytes: {most:?}", small.len(), large.len()))
}

/// Returns the processor time of this thread for the work.
fn timed(work: impl FnOnce()) -> Duration {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let start = now();
    work();
    now() - start
}

/// Returns the input with one piece repeated until it has `size` bytes.
///
/// In half of the inputs the digits of the piece count its repetitions, so that names and ids differ.
fn stretched(data: &[u8], size: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let from = rng.below(data.len().max(1));
    let behind = (from + 1 + rng.below(64)).min(data.len());
    let (piece, counts) = (&data[from.min(behind)..behind], rng.below(2) == 1);
    let mut out = data[..from.min(behind)].to_vec();
    if !piece.is_empty() {
        for turn in 0.. {
            if out.len() >= size {
                break;
            }
            match counts {
                true => counted(&mut out, piece, turn),
                false => out.extend_from_slice(piece),
            }
        }
    }
    out.extend_from_slice(&data[behind..]);
    out
}

/// Appends a piece in which each run of digits is replaced by a number.
fn counted(out: &mut Vec<u8>, piece: &[u8], turn: usize) {
    let mut in_digits = false;
    for byte in piece {
        match byte.is_ascii_digit() {
            true if in_digits => {}
            true => out.extend_from_slice(turn.to_string().as_bytes()),
            false => out.push(*byte),
        }
        in_digits = byte.is_ascii_digit();
    }
}

/// FNV-1a with one more mix of its bits: the same on every machine.
fn hash(data: &[u8]) -> u64 {
    let hash =
        data.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    hash ^ (hash >> 29)
}
