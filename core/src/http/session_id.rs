//! Ids of sessions. They must be kept secret, as keys are.

use alloc::{string::String, vec::Vec};
use core::fmt;

use http::HeaderValue;

/// The id of a session: 32 characters of the base64 alphabet for URLs and file names, made from 192 random bits.
///
/// A client with this id can use the session, so `Debug` does not print it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId([u8; Self::LEN]);

impl SessionId {
    /// The length of an id in characters.
    pub const LEN: usize = 32;

    /// Creates an id from random bits, which must be unpredictable.
    #[must_use]
    pub fn new(random: [u8; 24]) -> Self {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut text = [0; Self::LEN];
        for (digits, bytes) in text.chunks_mut(4).zip(random.chunks(3)) {
            let group = bytes.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte));
            for (place, digit) in digits.iter_mut().enumerate() {
                *digit = ALPHABET[(group >> (18 - 6 * place)) as usize & 63];
            }
        }
        Self(text)
    }

    /// Parses an id; `None` if the text does not have the form of one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::from_bytes(text.as_bytes())
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let is_ours = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let bytes: [u8; Self::LEN] = bytes.try_into().ok()?;
        // No byte ends the check early: without a branch, the compiler can vectorize it.
        bytes.iter().fold(true, |all, byte| all & is_ours(*byte)).then_some(Self(bytes))
    }

    /// Returns the text of the id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.0).unwrap_or_default()
    }

    pub(super) fn header(&self) -> HeaderValue {
        let mut value = HeaderValue::from_bytes(&self.0).unwrap_or(HeaderValue::from_static(""));
        value.set_sensitive(true);
        value
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId(..)")
    }
}

/// The id of an event: the number of its stream, and the number of the message on that stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventId {
    /// Whether the stream belongs to no request.
    pub(super) listens: bool,
    pub(super) stream: u64,
    pub(super) seq: u64,
}

impl EventId {
    /// Parses an id; `None` for any other text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (stream, seq) = text.split_once('-')?;
        let (listens, stream) = stream.strip_prefix('g').map_or((false, stream), |stream| (true, stream));
        Some(Self { listens, stream: number(stream)?, seq: number(seq)? })
    }

    /// Returns the text of the id.
    pub(super) fn text(self) -> String {
        let mark = if self.listens { "g" } else { "" };
        let [mut stream, mut seq] = [itoa::Buffer::new(); 2];
        [mark, stream.format(self.stream), "-", seq.format(self.seq)].concat()
    }
}

/// Parses a number in its canonical form: digits without leading zeros.
fn number(text: &str) -> Option<u64> {
    let canonical = text == "0" || !text.starts_with('0');
    (canonical && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Returns the value of a parameter in the query of a target, if it occurs once. Ids need no decoding.
pub(super) fn parameter<'a>(query: Option<&'a str>, name: &str) -> Option<&'a str> {
    let mut found: Vec<&str> =
        query?.split('&').filter_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).collect();
    let value = found.pop();
    if found.is_empty() { value } else { None }
}

/// Returns the URI to which clients of the old transport send messages.
pub(super) fn message_uri(path: &str, id: &SessionId) -> String {
    [path, "?", PARAMETER, "=", id.as_str()].concat()
}

pub(super) const PARAMETER: &str = "sessionId";

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{collections::BTreeSet, format, string::ToString};

    // req: HTTP-056 SEC-002
    #[test]
    fn session_ids_encode_every_bit_visibly() {
        let mut seen = BTreeSet::new();
        for bit in 0..192 {
            let mut random = [0; 24];
            random[bit / 8] = 1 << (bit % 8);
            let id = SessionId::new(random);
            assert!(id.as_str().bytes().all(|byte| matches!(byte, 0x21..=0x7e)));
            assert_eq!(SessionId::parse(id.as_str()), Some(id.clone()));
            assert!(seen.insert(id.as_str().to_string()), "bit {bit} makes no difference");
        }
        assert_eq!(SessionId::new([0xff; 24]).as_str(), "_".repeat(32));
        assert_eq!(format!("{:?}", SessionId::new([7; 24])), "SessionId(..)");
        assert!(format!("{:?}", SessionId::new([7; 24]).header()).contains("Sensitive"));
        for bad in ["", "short", &"a".repeat(33), &"a b".repeat(11)[..32], &"é".repeat(16), &"=".repeat(32)] {
            assert_eq!(SessionId::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn event_ids_have_one_spelling() {
        for (stream, seq) in [(0, 0), (1, 2), (u64::MAX, 10)] {
            for listens in [false, true] {
                let id = EventId { listens, stream, seq };
                assert_eq!(EventId::parse(&id.text()), Some(id));
            }
        }
        let bad = [
            "",
            "-",
            "1",
            "1-",
            "-1",
            "01-1",
            "1-01",
            "+1-1",
            "1-1-1",
            "1- 1",
            "1-18446744073709551616",
            "x-1",
            "gg1-1",
            "g-1",
        ];
        for bad in bad {
            assert_eq!(EventId::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn query_parameter_must_be_unique() {
        assert_eq!(parameter(Some("a=1&sessionId=x&b"), PARAMETER), Some("x"));
        assert_eq!(parameter(Some("sessionId="), PARAMETER), Some(""));
        assert_eq!(parameter(Some("sessionId=x&sessionId=y"), PARAMETER), None);
        assert_eq!(parameter(Some("xsessionId=x&sessionIds=y&sessionId"), PARAMETER), None);
        assert_eq!(parameter(None, PARAMETER), None);
    }
}
