//! The headers of requests with a message.

use http::{HeaderMap, HeaderValue, header};

use super::mirror::Headers;
use crate::{
    http::{
        content_length,
        names::{JSON, PROTOCOL_VERSION, SESSION_ID},
    },
    protocol::ProtocolVersion,
};

/// The `Accept` header of requests with a message.
const BOTH: &str = "application/json, text/event-stream";

/// The most mirrored headers that are kept: those of the revision, the method and the name.
const MAX_KEPT: usize = 3;

/// The length in bytes up to which the value of a mirrored header is kept: that of an encoded name of 256 bytes.
const MAX_KEPT_VALUE: usize = 355;

/// The parts of a message and of its session that its headers depend on.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// The headers that repeat parts of the message, in the modern era.
    pub(super) mirrored: Option<Headers>,
    /// The id of the session.
    pub(super) session: Option<HeaderValue>,
    /// The revision of the session, if requests name it.
    pub(super) version: Option<ProtocolVersion>,
}

/// Creates the headers of requests with a message. Successive ones often have the same, and a copy costs less than to
/// create them.
#[derive(Debug, Default)]
pub(super) struct PostHeaders {
    /// The scope of the last request, and its headers if the request before had the same scope.
    last: Option<(Scope, Option<HeaderMap>)>,
}

impl Scope {
    fn is_same(&self, other: &Self) -> bool {
        let mirrors_same = match (&self.mirrored, &other.mirrored) {
            (Some(mirrored), Some(other)) => Headers::ptr_eq(mirrored, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        mirrors_same && self.version == other.version && self.session == other.session
    }

    /// Returns whether the scope may be kept for the next message: it repeats no arguments, and no long name.
    fn is_small(&self) -> bool {
        self.mirrored.iter().all(|mirrored| {
            mirrored.len() <= MAX_KEPT && mirrored.iter().all(|(_, value)| value.len() <= MAX_KEPT_VALUE)
        })
    }

    /// Returns the headers of a message in addition to those of the application.
    fn headers(&self, application: &HeaderMap) -> HeaderMap {
        let mut headers = application.clone();
        if let Some(mirrored) = &self.mirrored {
            // With those of each request, so that the map does not grow: type, length, `Accept` and `Host`.
            headers.reserve(mirrored.len() + 4);
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        headers.insert(header::ACCEPT, HeaderValue::from_static(BOTH));
        // Replaced for each message. A copy of the map has no room for further headers.
        headers.insert(header::CONTENT_LENGTH, content_length(0));
        for (name, value) in self.mirrored.iter().flat_map(|mirrored| mirrored.iter()) {
            headers.append(name, value.clone());
        }
        self.add_to(&mut headers);
        headers
    }

    /// Adds the headers of a session.
    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        if let Some(session) = &self.session {
            headers.insert(SESSION_ID, session.clone());
        }
        if let Some(version) = self.version {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(version.as_str()));
        }
    }
}

impl PostHeaders {
    /// Returns the headers of a message of so many bytes. Those of the `application` are always the same.
    pub(super) fn of(&mut self, application: &HeaderMap, scope: Scope, bytes: usize) -> HeaderMap {
        let mut headers = match &mut self.last {
            Some((last, headers)) if last.is_same(&scope) => {
                headers.get_or_insert_with(|| scope.headers(application)).clone()
            }
            _ => {
                let headers = scope.headers(application);
                self.last = scope.is_small().then_some((scope, None));
                headers
            }
        };
        headers.insert(header::CONTENT_LENGTH, content_length(bytes));
        headers
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;

    use http::HeaderName;

    use super::*;
    use crate::{
        http::client::{Limits, mirror::Mirror, tools::Tools},
        wire::{JsonObject, RawJson},
    };

    #[test]
    fn headers_are_those_of_their_scope() {
        let mut application = HeaderMap::new();
        application.insert("x-key", HeaderValue::from_static("secret"));
        let session = |id| Some(HeaderValue::from_static(id));
        let method = |value| -> Headers {
            Arc::from([(HeaderName::from_static("mcp-method"), HeaderValue::from_static(value))])
        };
        let none = Scope::default();
        let scopes = [
            none.clone(),
            Scope { session: session("a"), ..none.clone() },
            Scope { session: session("b"), ..none.clone() },
            Scope { session: session("b"), version: Some(ProtocolVersion::V2025_06_18), ..none.clone() },
            Scope { session: session("b"), version: Some(ProtocolVersion::V2025_11_25), ..none.clone() },
            Scope { mirrored: Some(method("a")), ..none.clone() },
            Scope { mirrored: Some(method("b")), ..none },
        ];
        let expected = scopes.each_ref().map(|scope| {
            let mut headers = scope.headers(&application);
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("1234"));
            headers
        });
        let mut headers = PostHeaders::default();
        for (first, scope) in scopes.iter().enumerate() {
            for (then, other) in scopes.iter().enumerate() {
                // Created, created again and kept, and copied.
                for _ in 0..3 {
                    assert_eq!(headers.of(&application, scope.clone(), 1234), expected[first]);
                }
                assert_eq!(headers.of(&application, other.clone(), 1234), expected[then]);
                assert_eq!(first == then, expected[first] == expected[then], "{scope:?} {other:?}");
            }
        }
    }

    #[test]
    fn arguments_and_long_names_are_not_kept() {
        let mirrored = |count: usize, length: usize| -> Headers {
            let value = HeaderValue::try_from("x".repeat(length)).expect("a value");
            (0..count)
                .map(|at| (HeaderName::try_from(alloc::format!("x-{at}")).expect("a name"), value.clone()))
                .collect()
        };
        for (count, length, is_kept) in [(0, 1, true), (3, 355, true), (4, 1, false), (1, 356, false)] {
            let (mut headers, scope) = (PostHeaders::default(), Scope::default());
            let scope = Scope { mirrored: Some(mirrored(count, length)), ..scope };
            for _ in 0..3 {
                assert_eq!(headers.of(&HeaderMap::new(), scope.clone(), 1).len(), count + 3);
            }
            assert_eq!(headers.last.is_some(), is_kept, "{count} {length}");
        }
    }

    #[test]
    fn headers_of_calls_are_kept_unless_they_repeat_arguments() {
        let schema = r#"{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}"#;
        let list = alloc::format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{{"name":"repeats","inputSchema":{schema}}}]}}}}"#
        );
        let mut tools = Tools::default();
        tools.learn(&list, 128, &Limits::default());
        for (name, is_kept) in [("plain", true), ("repeats", false)] {
            let params = JsonObject::parse(alloc::format!(r#"{{"name":"{name}","arguments":{{"a":"b"}}}}"#));
            let params = params.expect("an object");
            let mirrored = Mirror::default().headers(&tools, "2026-07-28", "tools/call", Some(&RawJson::from(&params)));
            let scope = Scope { mirrored: Some(mirrored.expect("valid values")), ..Scope::default() };
            assert_eq!(scope.is_small(), is_kept, "{name}");
        }
    }
}
