//! The heads of HTTP requests, for the application.

use alloc::{borrow::ToOwned, vec::Vec};
use core::fmt;

use http::{
    Extensions, HeaderMap, Method, Uri,
    header::{self, HeaderName, HeaderValue},
    request::Parts,
    uri::{Authority, PathAndQuery},
};

use crate::http::{names::SESSION_ID, session_id::PARAMETER};

/// The head of the HTTP request with which a message has arrived, for the handler of the message. In a session it is
/// that of the request with this message, not the one that has begun the session.
///
/// Its `Debug` output has the method, the path and the names of the headers. See
/// [`EndpointOptions::heads`](super::EndpointOptions::heads).
#[derive(Clone)]
#[non_exhaustive]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The target, as the client has sent it, without the id of a session over HTTP+SSE: `sessionId` in the query.
    pub uri: Uri,
    /// The headers that are [exposed](ExposedHeads).
    pub headers: HeaderMap,
    /// The values that layers in front of the endpoint have set, by their types.
    pub extensions: Extensions,
}

impl RequestHead {
    /// Returns the value of a header as text. `None` if it is absent, occurs more than once, or is not visible ASCII.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next().filter(|_| values.next().is_none())?;
        value.to_str().ok()
    }

    /// Returns the bytes of the target and the headers. Extensions are not counted: they are of the application.
    pub(super) fn weight(&self) -> usize {
        /// The bytes of the entry of a header, and of the head itself.
        const ENTRY: usize = 96;

        let target = self.uri.path_and_query().map_or(0, |target| target.as_str().len());
        let target = target + self.uri.authority().map_or(0, |authority| authority.as_str().len());
        let headers = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + ENTRY);
        headers.fold(target + ENTRY, usize::saturating_add)
    }
}

impl fmt::Debug for RequestHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.keys().map(HeaderName::as_str).collect();
        f.debug_struct("RequestHead")
            .field("method", &self.method)
            .field("path", &self.uri.path())
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}

/// The headers of requests to an endpoint that handlers get.
#[derive(Clone, Debug, Default)]
pub struct ExposedHeads {
    /// `None` for all headers without credentials.
    only: Option<Vec<HeaderName>>,
}

/// The headers with credentials.
const CREDENTIALS: [HeaderName; 5] =
    [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE, HeaderName::from_static("dpop"), SESSION_ID];

impl ExposedHeads {
    /// Exposes all headers but those with credentials: `Authorization`, `Proxy-Authorization`, `Cookie`, `DPoP`,
    /// `Mcp-Session-Id`, and those that a layer in front of the endpoint has marked as
    /// [sensitive](http::HeaderValue::is_sensitive).
    #[must_use]
    pub const fn new() -> Self {
        Self { only: None }
    }

    /// Exposes only these headers, also if they have credentials.
    #[must_use]
    pub fn only(names: impl IntoIterator<Item = HeaderName>) -> Self {
        Self { only: Some(names.into_iter().collect()) }
    }

    /// Returns what handlers get of a head.
    pub(super) fn expose(&self, head: &Parts) -> RequestHead {
        let mut headers = HeaderMap::new();
        for (name, value) in &head.headers {
            let is_exposed = match &self.only {
                Some(names) => names.contains(name),
                None => !CREDENTIALS.contains(name) && !value.is_sensitive(),
            };
            if is_exposed {
                headers.append(name, copied(value));
            }
        }
        let uri = without_session(&head.uri);
        RequestHead { method: head.method.clone(), uri, headers, extensions: head.extensions.clone() }
    }
}

/// Returns a copy of a target without the id of a session in its query.
fn without_session(uri: &Uri) -> Uri {
    let is_id = |member: &&str| member.split_once('=').is_some_and(|(name, _)| name == PARAMETER);
    let query = uri.query().unwrap_or_default();
    let rest: Vec<&str> = query.split('&').filter(|member| !is_id(member)).collect();
    let target = match uri.path_and_query() {
        Some(target) if rest.len() == query.split('&').count() => target.as_str().to_owned(),
        _ if rest.is_empty() => uri.path().to_owned(),
        _ => [uri.path(), "?", &rest.join("&")].concat(),
    };
    let mut parts = uri.clone().into_parts();
    // A part of a query is a query. Like a header, it may share the buffer of the whole head.
    parts.path_and_query = parts.path_and_query.and_then(|_| PathAndQuery::try_from(target).ok());
    parts.authority = parts.authority.and_then(|authority| Authority::try_from(authority.as_str()).ok());
    Uri::from_parts(parts).unwrap_or_default()
}

/// Returns a copy of a value, which shares no buffer: that of the whole head, or of all that a driver has read, may be
/// much larger.
fn copied(value: &HeaderValue) -> HeaderValue {
    // The bytes of a value are valid.
    let mut copy = HeaderValue::from_bytes(value.as_bytes()).unwrap_or_else(|_| value.clone());
    copy.set_sensitive(value.is_sensitive());
    copy
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn head() -> Parts {
        let mut sensitive = HeaderValue::from_static("key");
        sensitive.set_sensitive(true);
        let request = Request::post("/mcp?tenant=a")
            .header("authorization", "Bearer secret")
            .header("cookie", "session=secret")
            .header("proxy-authorization", "secret")
            .header("x-api-key", sensitive)
            .header("dpop", "a secret proof")
            .header("mcp-session-id", "secret")
            .header("x-tenant", "a")
            .header("x-many", "1")
            .header("x-many", "2")
            .extension(7_u32);
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn credentials_are_not_exposed_by_default() {
        let exposed = ExposedHeads::new().expose(&head());
        let names: Vec<_> = exposed.headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["x-tenant", "x-many"]);
        assert_eq!((exposed.header("X-Tenant"), exposed.header("x-many")), (Some("a"), None));
        assert_eq!(exposed.headers.get_all("x-many").iter().count(), 2);
        assert_eq!(exposed.extensions.get(), Some(&7_u32));
        assert_eq!((exposed.uri.query(), &exposed.method), (Some("tenant=a"), &Method::POST));
        // The target, three headers, and four entries.
        assert_eq!(exposed.weight(), "/mcp?tenant=a".len() + "x-tenanta".len() + "x-many1x-many2".len() + 96 * 4);
    }

    #[test]
    fn ids_of_sessions_are_not_in_targets() {
        for (target, expected) in [
            ("/message?sessionId=secret", "/message"),
            ("/message?a=1&sessionId=secret&b=2&sessionId=secret", "/message?a=1&b=2"),
            ("https://mcp.example/message?sessionId=&b", "https://mcp.example/message?b"),
            ("/message?sessionIds=1&xsessionId=2&sessionId", "/message?sessionIds=1&xsessionId=2&sessionId"),
            ("/sessionId=1", "/sessionId=1"),
        ] {
            let (head, ()) = Request::post(target).body(()).expect("a request").into_parts();
            for exposed in [ExposedHeads::new(), ExposedHeads::only([])] {
                assert_eq!(exposed.expose(&head).uri, expected, "{target}");
            }
        }
    }

    #[test]
    fn exposed_heads_share_no_buffer() {
        let (mut head, ()) =
            Request::get("https://mcp.example:8080/mcp?tenant=a").body(()).expect("a request").into_parts();
        let mut value = HeaderValue::from_static("a long value");
        value.set_sensitive(true);
        head.headers.insert("x-tenant", value);
        let exposed = ExposedHeads::only([HeaderName::from_static("x-tenant")]).expose(&head);
        let of_head = |head: &Uri| head.authority().map(|it| it.as_str().as_ptr());
        assert_eq!(exposed.uri, head.uri);
        assert_ne!(exposed.uri.path().as_ptr(), head.uri.path().as_ptr());
        assert_ne!(of_head(&exposed.uri), of_head(&head.uri));
        let [copy, value] = [&exposed.headers, &head.headers].map(|headers| &headers["x-tenant"]);
        assert_eq!(copy, value);
        assert!(copy.is_sensitive());
        assert_ne!(copy.as_bytes().as_ptr(), value.as_bytes().as_ptr());
        let entries = "mcp.example:8080/mcp?tenant=a".len() + "x-tenanta long value".len() + 96 * 2;
        assert_eq!(exposed.weight(), entries);
    }

    #[test]
    fn values_of_headers_are_not_printed() {
        let exposed = ExposedHeads::only([header::AUTHORIZATION, header::COOKIE]).expose(&head());
        let text = alloc::format!("{exposed:?}");
        assert!(text.contains("authorization") && text.contains("/mcp") && !text.contains("secret"), "{text}");
    }

    #[test]
    fn named_headers_are_exposed() {
        let exposed = ExposedHeads::only([header::AUTHORIZATION, HeaderName::from_static("x-api-key")]).expose(&head());
        assert_eq!(exposed.headers.len(), 2);
        assert_eq!(exposed.header("authorization"), Some("Bearer secret"));
    }
}
