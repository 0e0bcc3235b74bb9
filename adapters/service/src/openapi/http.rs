//! Requests and responses, which an HTTP client of the application exchanges.

use std::fmt;

/// An HTTP request that the application sends.
///
/// Its HTTP client must be configured not to follow redirects: they could lead the request, with credentials, to a URL
/// that neither the application nor the document names.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpRequest {
    /// The method, in upper case.
    pub method: &'static str,
    /// The absolute URL, percent-encoded: the base URL, the path and the query.
    pub url: String,
    /// The headers: those that are arguments, and `Content-Type` if there is a body. Names are in lower case and not
    /// more than once, values are visible ASCII, spaces and tabs.
    pub headers: Vec<(String, String)>,
    /// The body, which is JSON.
    pub body: Option<Vec<u8>>,
    /// The most bytes of the body of the response. A client stops reading there; a larger body fails the call.
    pub max_response_bytes: usize,
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments may be confidential.
        f.debug_struct("HttpRequest").field("method", &self.method).finish_non_exhaustive()
    }
}

/// An HTTP response that the application has received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// The headers. Only `Content-Type` is used.
    pub headers: Vec<(String, String)>,
    /// The body, without content codings.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// Creates a response without headers and body.
    #[must_use]
    pub fn new(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Returns the media type in lower case, without parameters.
    pub(super) fn media_type(&self) -> String {
        let is_type = |name: &str| name.eq_ignore_ascii_case("content-type");
        let value = self.headers.iter().find(|(name, _)| is_type(name)).map_or("", |(_, value)| value);
        essence(value)
    }
}

/// Returns a media type in lower case, without parameters.
pub(super) fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns whether a media type, without parameters, is JSON. It becomes a header, so it is visible ASCII.
pub(super) fn is_json(essence: &str) -> bool {
    let is_json = essence == "application/json" || essence.starts_with("application/") && essence.ends_with("+json");
    is_json && essence.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_read_without_parameters() {
        let of =
            |name: &str, value: &str| HttpResponse::new(200).header("etag", "a/b").header(name, value).media_type();
        assert_eq!(of("CONTENT-type", " Application/JSON ; charset=utf-8; a=b"), "application/json");
        assert_eq!(of("content-type", ""), "");
        assert_eq!(of("content-length", "7"), "");
    }

    #[test]
    fn json_has_several_media_types() {
        for media_type in ["application/json", "application/problem+json", "application/vnd.a.b+json"] {
            assert!(is_json(media_type), "{media_type}");
        }
        for media_type in
            ["text/json", "text/a+json", "application/xml", "application/jsonp", "application/a b+json", "", "+json"]
        {
            assert!(!is_json(media_type), "{media_type}");
        }
    }
}
