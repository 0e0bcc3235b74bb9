//! New inputs out of old ones, without a fuzzer: nothing watches what they reach, but they are made in no time, by any
//! compiler, and are the same for the same seed.

use crate::dice::Dice;

/// Pieces that random bytes would take long to find.
const WORDS: [&str; 48] = [
    "{\"jsonrpc\":\"2.0\",",
    "\"id\":1",
    "\"id\":\"a\"",
    "\"id\":null",
    "\"method\":\"ping\"",
    "\"method\":\"tools/call\"",
    "\"params\":{",
    "\"_meta\":{",
    "\"progressToken\":1",
    "\"result\":{}",
    "\"error\":{\"code\":1,\"message\":\"m\"}",
    "\"resultType\":\"input_required\"",
    "\"requestState\":\"s\"",
    "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}\n",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":2,\"progress\":1}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/list\"}\n",
    "@t1000\n",
    "@t5000\n",
    "@ctools/call\n",
    "@x0\n",
    "@r0\n",
    "@e0\n",
    "@i0\n",
    "@p0\n",
    "@s\n",
    "@u\n",
    "@q\n",
    "@z\n",
    "{}",
    "[]",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\ud800",
    "\\u00e9",
    "1e2",
    "-0",
    "null",
    "\n",
    "\r\n",
    "\u{feff}",
];

/// The longest input that is made.
const MOST: usize = 4096;

/// One of the `corpus` with a few changes; random bytes if there is none.
pub fn input(corpus: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut data = corpus.get(dice.roll(corpus.len())).cloned().unwrap_or_default();
    for _ in 0..=dice.roll(6) {
        let at = dice.roll(data.len() + 1);
        let behind = (at + 1 + dice.roll(16)).min(data.len());
        match dice.roll(7) {
            0 if at < data.len() => data[at] ^= 1 << dice.roll(8),
            1 if at < data.len() => data[at] = dice.roll(256) as u8,
            2 => drop(data.drain(at.min(behind)..behind)),
            3 => drop(data.splice(at..at, WORDS[dice.roll(WORDS.len())].bytes())),
            4 => {
                let piece = data[at.min(behind)..behind].to_vec();
                drop(data.splice(at..at, piece));
            }
            5 => {
                let bytes: Vec<u8> = (0..dice.roll(8)).map(|_| dice.roll(256) as u8).collect();
                drop(data.splice(at..at, bytes));
            }
            _ => {
                // The end of another one.
                let other = corpus.get(dice.roll(corpus.len())).map_or(&[][..], Vec::as_slice);
                data.truncate(at);
                data.extend_from_slice(&other[dice.roll(other.len() + 1)..]);
            }
        }
    }
    data.truncate(MOST);
    data
}
