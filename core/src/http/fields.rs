//! The headers of a request that the binding reads, found in one pass over all headers.

use http::{HeaderMap, HeaderValue};

use super::names::DuplicateHeader;
use crate::protocol::{HeaderParam, MirroredValue};

/// The headers of a request that the binding reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields<'a> {
    /// The size of all headers in bytes.
    pub(super) weight: usize,
    pub(super) host: Field<'a>,
    pub(super) origin: Field<'a>,
    pub(super) accept: Field<'a>,
    pub(super) content_type: Field<'a>,
    pub(super) content_encoding: Field<'a>,
    pub(super) content_length: Field<'a>,
    pub(super) transfer_encoding: Field<'a>,
    pub(super) session: Field<'a>,
    pub(super) version: Field<'a>,
    pub(super) method: Field<'a>,
    pub(super) name: Field<'a>,
    pub(super) last_event: Field<'a>,
    /// Whether there is any `Mcp-Param-*`.
    pub(super) has_params: bool,
}

/// The occurrence of a header.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Field<'a> {
    #[default]
    Absent,
    Once(&'a HeaderValue),
    DuplicateHeader,
}

impl<'a> Fields<'a> {
    pub(super) fn of(headers: &'a HeaderMap) -> Self {
        let mut fields = Self::default();
        for (name, value) in headers {
            // Names of headers are lower case here.
            let name = name.as_str();
            fields.weight += name.len() + value.len() + 4;
            let field = match name {
                "host" => &mut fields.host,
                "origin" => &mut fields.origin,
                "accept" => &mut fields.accept,
                "content-type" => &mut fields.content_type,
                "content-encoding" => &mut fields.content_encoding,
                "content-length" => &mut fields.content_length,
                "transfer-encoding" => &mut fields.transfer_encoding,
                "mcp-session-id" => &mut fields.session,
                "mcp-protocol-version" => &mut fields.version,
                "mcp-method" => &mut fields.method,
                "mcp-name" => &mut fields.name,
                "last-event-id" => &mut fields.last_event,
                _ => {
                    fields.has_params |= param(name).is_some();
                    continue;
                }
            };
            *field = if let Field::Absent = field { Field::Once(value) } else { Field::DuplicateHeader };
        }
        fields
    }
}

impl<'a> Field<'a> {
    pub(super) const fn is_there(self) -> bool {
        !matches!(self, Self::Absent)
    }

    /// Returns the value of a header that must not be repeated.
    pub(super) const fn single(self) -> Result<Option<&'a HeaderValue>, DuplicateHeader> {
        match self {
            Self::Absent => Ok(None),
            Self::Once(value) => Ok(Some(value)),
            Self::DuplicateHeader => Err(DuplicateHeader),
        }
    }

    /// Returns the value of a header that repeats a part of the body.
    pub(super) fn mirrored(self) -> MirroredValue {
        match self {
            Self::Absent => MirroredValue::Absent,
            Self::Once(value) => MirroredValue::from(Some(value.as_bytes())),
            Self::DuplicateHeader => MirroredValue::Invalid,
        }
    }
}

/// Returns the part after the prefix in the name of a header that repeats an argument.
pub(super) fn param(name: &str) -> Option<&str> {
    let (prefix, name) = name.split_at_checked(HeaderParam::PREFIX.len())?;
    prefix.eq_ignore_ascii_case(HeaderParam::PREFIX).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::names::{LAST_EVENT_ID, MCP_METHOD, MCP_NAME, PROTOCOL_VERSION, SESSION_ID};
    use http::{HeaderName, header};

    type Find = for<'a> fn(Fields<'a>) -> Field<'a>;

    static ALL: [(HeaderName, Find); 12] = [
        (header::HOST, |fields| fields.host),
        (header::ORIGIN, |fields| fields.origin),
        (header::ACCEPT, |fields| fields.accept),
        (header::CONTENT_TYPE, |fields| fields.content_type),
        (header::CONTENT_ENCODING, |fields| fields.content_encoding),
        (header::CONTENT_LENGTH, |fields| fields.content_length),
        (header::TRANSFER_ENCODING, |fields| fields.transfer_encoding),
        (SESSION_ID, |fields| fields.session),
        (PROTOCOL_VERSION, |fields| fields.version),
        (MCP_METHOD, |fields| fields.method),
        (MCP_NAME, |fields| fields.name),
        (LAST_EVENT_ID, |fields| fields.last_event),
    ];

    #[test]
    fn finds_each_header_by_its_name() {
        for (name, _) in &ALL {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static("a"));
            headers.insert("x-other", HeaderValue::from_static("b"));
            for (other, find) in &ALL {
                let found = find(Fields::of(&headers)).single().expect("it is there once at most");
                assert_eq!(found.is_some_and(|value| value == "a"), name == other, "{name} as {other}");
            }
            assert_eq!(Fields::of(&headers).weight, name.as_str().len() + 1 + 4 + 7 + 1 + 4);
            headers.append(name, HeaderValue::from_static("a"));
            let twice = ALL.iter().filter(|(_, find)| find(Fields::of(&headers)).single().is_err());
            assert_eq!(twice.count(), 1, "{name}");
        }
    }

    #[test]
    fn detects_parameter_headers() {
        for (name, expected) in [("mcp-param-region", true), ("mcp-param-", true), ("mcp-params", false)] {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static("a"));
            assert_eq!(Fields::of(&headers).has_params, expected, "{name}");
        }
    }
}
