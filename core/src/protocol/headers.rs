//! Headers of 2026-07-28 that repeat members of the body, for proxies that route requests by them.

use alloc::{
    borrow::Cow,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use crate::codec::{decode_base64, encode_base64};

const BASE64_START: &str = "=?base64?";
const BASE64_END: &str = "?=";

/// Encodes `value` as the value of a header (2026-07-28, value encoding).
///
/// Returns `value` itself if it is printable ASCII, neither begins nor ends with a space, and does not look like an
/// encoded value. Otherwise returns its base64 between `=?base64?` and `?=`.
#[must_use]
pub fn encode_header(value: &str) -> Cow<'_, str> {
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let bytes = value.as_bytes();
    let plain = bytes.iter().all(|byte| matches!(byte, b' '..=b'~')) && !blank(bytes.first()) && !blank(bytes.last());
    let marked = value.starts_with(BASE64_START) && value.ends_with(BASE64_END);
    if plain && !marked {
        return Cow::Borrowed(value);
    }
    Cow::Owned([BASE64_START, &encode_base64(bytes), BASE64_END].concat())
}

/// Decodes the value of a header, without the spaces and tabs around it.
///
/// Returns `None` if the text has characters that a header cannot have, or if the text between the marks is not base64
/// of UTF-8.
#[must_use]
pub fn decode_header(text: &str) -> Option<Cow<'_, str>> {
    let text = text.trim_matches([' ', '\t']);
    if !text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
        return None;
    }
    let inner = text.strip_prefix(BASE64_START).and_then(|rest| rest.strip_suffix(BASE64_END));
    let Some(inner) = inner else { return Some(Cow::Borrowed(text)) };
    String::from_utf8(decode_base64(inner)?).ok().map(Cow::Owned)
}

/// The headers of one request that repeat members of its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirroredHeaders {
    /// The value of `MCP-Protocol-Version`.
    pub version: MirroredValue,
    /// The value of `Mcp-Method`.
    pub method: MirroredValue,
    /// The value of `Mcp-Name`.
    pub name: MirroredValue,
    /// Every `Mcp-Param-*` header, in order: the name without the prefix, and the value.
    pub params: Vec<(String, MirroredValue)>,
}

/// The value of one header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MirroredValue {
    /// The header is missing.
    #[default]
    Absent,
    /// The value as received.
    Text(Cow<'static, str>),
    /// The header occurs twice, or has bytes that are not visible ASCII characters, spaces or tabs.
    Invalid,
}

/// The error that a header is missing, cannot be read, or differs from the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderMismatch {
    /// The name of the header.
    pub header: Cow<'static, str>,
    /// The kind of mismatch.
    pub fault: HeaderError,
}

/// The kind of mismatch between a header and the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderError {
    /// The header is missing.
    Missing,
    /// The header cannot be read, or which value it repeats is ambiguous.
    Malformed,
    /// The header differs from the body.
    Different,
    /// The header is present, and the body has no such value.
    Unfounded,
}

impl fmt::Display for HeaderMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = &self.header;
        match self.fault {
            HeaderError::Missing => write!(f, "Header mismatch: {header} is missing"),
            HeaderError::Malformed => write!(f, "Header mismatch: {header} is malformed"),
            HeaderError::Different => write!(f, "Header mismatch: {header} differs from the body"),
            HeaderError::Unfounded => write!(f, "Header mismatch: {header} repeats a value that is not in the body"),
        }
    }
}

impl core::error::Error for HeaderMismatch {}

impl MirroredValue {
    /// Checks that the header has exactly `value`, apart from spaces and tabs around it. For headers that are not
    /// encoded.
    ///
    /// # Errors
    /// Returns the mismatch of `header` otherwise.
    pub fn repeats(&self, header: &'static str, value: &str) -> Result<(), HeaderMismatch> {
        self.agrees(header.into(), |text| Some(text.trim_matches([' ', '\t']) == value))
    }

    /// Checks that the header has `value`, encoded as by [`encode_header`] or plain.
    ///
    /// # Errors
    /// Returns the mismatch of `header` otherwise.
    pub fn encodes(&self, header: &'static str, value: &str) -> Result<(), HeaderMismatch> {
        self.agrees(header.into(), |text| Some(decode_header(text)? == value))
    }

    /// Checks the header with `same`, which returns whether the text stands for the value of the body, or `None` if the
    /// text cannot be read.
    pub(super) fn agrees(
        &self,
        header: Cow<'static, str>,
        same: impl FnOnce(&str) -> Option<bool>,
    ) -> Result<(), HeaderMismatch> {
        let fault = match self {
            Self::Absent => HeaderError::Missing,
            Self::Invalid => HeaderError::Malformed,
            Self::Text(text) => match same(text) {
                Some(true) => return Ok(()),
                Some(false) => HeaderError::Different,
                None => HeaderError::Malformed,
            },
        };
        Err(HeaderMismatch { header, fault })
    }
}

impl MirroredHeaders {
    /// Returns the value of the header `Mcp-Param-<name>`. Upper and lower case are equal in `name`.
    #[must_use]
    pub fn param(&self, name: &str) -> MirroredValue {
        let mut values = self.params.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name));
        match (values.next(), values.next()) {
            (None, _) => MirroredValue::Absent,
            (Some((_, value)), None) => value.clone(),
            (Some(_), Some(_)) => MirroredValue::Invalid,
        }
    }

    /// Returns the bytes that the headers take while they are kept.
    pub(crate) fn weight(&self) -> usize {
        let values = [&self.version, &self.method, &self.name].map(MirroredValue::len);
        let params = self.params.iter().map(|(name, value)| name.len() + value.len());
        let entries = self.params.capacity() * size_of::<(String, MirroredValue)>();
        values.into_iter().chain(params).fold(entries, usize::saturating_add)
    }
}

impl MirroredValue {
    /// Returns the length of the text.
    fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Absent | Self::Invalid => 0,
        }
    }
}

impl From<Option<&[u8]>> for MirroredValue {
    /// Reads the bytes of a header that occurs at most once.
    fn from(value: Option<&[u8]>) -> Self {
        let Some(bytes) = value else { return Self::Absent };
        match core::str::from_utf8(bytes) {
            Ok(text) if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) => {
                Self::Text(text.to_string().into())
            }
            _ => Self::Invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: M-HTTP-039 M-HTTP-065 M-HTTP-066 M-HTTP-067 M-HTTP-070
    #[test]
    fn encodes_mirrored_headers() {
        let table = [
            ("row 12", "row 12"),
            ("", ""),
            ("café", "=?base64?Y2Fmw6k=?="),
            ("  x", "=?base64?ICB4?="),
            ("x ", "=?base64?eCA=?="),
            ("\tx", "=?base64?CXg=?="),
            ("a\tb", "=?base64?YQli?="),
            ("a\nb", "=?base64?YQpi?="),
            ("\u{7f}", "=?base64?fw==?="),
            ("~!\"", "~!\""),
            ("=?base64?abc?=", "=?base64?PT9iYXNlNjQ/YWJjPz0=?="),
            ("=?base64??=", "=?base64?PT9iYXNlNjQ/Pz0=?="),
            ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
            ("=?BASE64?abc?=", "=?BASE64?abc?="),
            ("=?base64?abc", "=?base64?abc"),
            ("abc?=", "abc?="),
        ];
        for (value, text) in table {
            assert_eq!(encode_header(value), text, "{value:?}");
            assert_eq!(decode_header(text).as_deref(), Some(value), "{text:?}");
        }
    }

    // req: M-HTTP-048 M-HTTP-067 M-HTTP-069
    #[test]
    fn decodes_mirrored_headers() {
        let table = [
            ("  foo\t ", Some("foo")),
            (" =?base64?eA==?= ", Some("x")),
            ("a\tb", Some("a\tb")),
            ("=?base64?=", Some("=?base64?=")),
            ("=?base64??=", Some("")),
            ("=?base64?eA==", Some("=?base64?eA==")),
            ("=?BASE64?eA==?=", Some("=?BASE64?eA==?=")),
            ("=?base64?eA?=", None),
            ("=?base64?eA=?=", None),
            ("=?base64?e A==?=", None),
            ("=?base64?_-==?=", None),
            ("=?base64?/w==?=", None),
            ("caf\u{e9}", None),
            ("a\u{7f}", None),
            ("a\u{0}", None),
        ];
        for (text, value) in table {
            assert_eq!(decode_header(text).as_deref(), value, "{text:?}");
        }
    }

    #[test]
    fn header_values_round_trip() {
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let mut value = String::new();
            crate::test_rng::roll(&mut state);
            for piece in 0..(state >> 61) {
                let pieces = ["=?base64?", "?=", " ", "\t", "a", "é", "\n", "=", "?", "Z"];
                value.push_str(pieces[(state >> (6 * piece + 8)) as usize % pieces.len()]);
            }
            let text = encode_header(&value);
            assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{text:?}");
            assert_eq!(text.trim_matches([' ', '\t']), text, "{value:?}");
            assert_eq!(decode_header(&text).as_deref(), Some(&*value));
        }
    }

    #[test]
    fn weight_of_headers_counts_all_texts() {
        let text = |text: &'static str| MirroredValue::Text(text.into());
        let mut headers = MirroredHeaders { version: text("v"), method: text("me"), ..MirroredHeaders::default() };
        assert_eq!(headers.weight(), 3);
        headers.name = text("nam");
        headers.params = [("four".into(), text("value")), ("a".into(), MirroredValue::Invalid)].into();
        assert_eq!(headers.weight(), 3 + 3 + 4 + 5 + 1 + 2 * size_of::<(String, MirroredValue)>());
    }

    // req: M-HTTP-044 M-HTTP-047
    #[test]
    fn compares_mirrored_values_byte_for_byte() {
        let value = |bytes: &[u8]| MirroredValue::from(Some(bytes));
        let fault = |result: Result<(), HeaderMismatch>| result.err().map(|mismatch| mismatch.fault);
        assert_eq!(fault(value(b" tools/call ").repeats("h", "tools/call")), None);
        assert_eq!(fault(value(b"TOOLS/CALL").repeats("h", "tools/call")), Some(HeaderError::Different));
        assert_eq!(fault(value(b"").repeats("h", "tools/call")), Some(HeaderError::Different));
        assert_eq!(fault(MirroredValue::Absent.repeats("h", "tools/call")), Some(HeaderError::Missing));
        assert_eq!(fault(value(b"t\xc3\xa9").repeats("h", "té")), Some(HeaderError::Malformed));
        assert_eq!(fault(value(b"t\x01").encodes("h", "t\x01")), Some(HeaderError::Malformed));
        assert_eq!(fault(value(b"=?base64?dMOp?=").encodes("h", "té")), None);
        assert_eq!(fault(value(b"=?base64?dMOp?=").repeats("h", "té")), Some(HeaderError::Different));
        assert_eq!(fault(value(b"=?base64?dMO?=").encodes("h", "té")), Some(HeaderError::Malformed));
    }
}
