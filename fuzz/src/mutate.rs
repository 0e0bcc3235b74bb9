//! New inputs derived from old ones, without a fuzzer. There is no coverage feedback, but they are fast, need no
//! special compiler, and are the same for the same seed.

use crate::rng::Rng;

/// Pieces that random bytes are unlikely to contain.
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

/// The longest input.
const MOST: usize = 4096;

/// Returns an input of the `corpus` with a few changes, or random bytes without a corpus.
pub fn input(corpus: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut data = corpus.get(rng.below(corpus.len())).cloned().unwrap_or_default();
    for _ in 0..=rng.below(6) {
        let at = rng.below(data.len() + 1);
        let behind = (at + 1 + rng.below(16)).min(data.len());
        match rng.below(7) {
            0 if at < data.len() => data[at] ^= 1 << rng.below(8),
            1 if at < data.len() => data[at] = rng.below(256) as u8,
            2 => drop(data.drain(at.min(behind)..behind)),
            3 => drop(data.splice(at..at, WORDS[rng.below(WORDS.len())].bytes())),
            4 => {
                let piece = data[at.min(behind)..behind].to_vec();
                drop(data.splice(at..at, piece));
            }
            5 => {
                let bytes: Vec<u8> = (0..rng.below(8)).map(|_| rng.below(256) as u8).collect();
                drop(data.splice(at..at, bytes));
            }
            _ => {
                // The end of another input.
                let other = corpus.get(rng.below(corpus.len())).map_or(&[][..], Vec::as_slice);
                data.truncate(at);
                data.extend_from_slice(&other[rng.below(other.len() + 1)..]);
            }
        }
    }
    data.truncate(MOST);
    data
}
