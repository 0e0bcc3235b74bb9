//! Cross-origin requests of web pages (CORS), by the policy on origins.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header, request::Parts};

use super::{HttpResponse, fields::param, names::single, policy::Policy};

/// The headers of requests that a page may set. Browsers always let pages set `Accept`.
const REQUEST_HEADERS: &str =
    "authorization, content-type, dpop, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id";

/// The headers of responses that a page may read, in addition to those that every page may.
const RESPONSE_HEADERS: &str = "dpop-nonce, mcp-session-id, www-authenticate, retry-after";

/// How long a browser may keep the permission of a preflight request, in seconds.
const MAX_AGE: &str = "600";

/// The permission of one web page to read a response, by the [policy](Policy::cors) on origins.
#[derive(Clone, Debug)]
pub struct Cors {
    origin: HeaderValue,
}

impl Policy {
    /// Returns the permission for the page that sends a request. Returns `None` if no page sends it, or one that may
    /// not: its browser then keeps the response from the page. It is always `None` [without
    /// CORS](Self::without_cors).
    #[must_use]
    pub fn cors(&self, head: &Parts) -> Option<Cors> {
        let origin = single(&head.headers, &header::ORIGIN).ok()??;
        let is_allowed = self.has_cors && origin.to_str().is_ok_and(|origin| self.allows_origin(origin));
        is_allowed.then(|| Cors { origin: origin.clone() })
    }
}

impl Cors {
    /// Adds the permission to the headers of a response.
    pub fn add_to(&self, headers: &mut HeaderMap) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, self.origin.clone());
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(RESPONSE_HEADERS));
    }

    /// Adds the `Vary` header, since a response depends on the origin of the page. Each response has it, with a
    /// permission or without.
    pub fn add_vary(headers: &mut HeaderMap) {
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }

    /// Returns the response to a preflight request, with which a browser checks the requests that a page may send.
    /// Returns `None` if the request is not a preflight request.
    #[must_use]
    pub fn preflight(&self, head: &Parts) -> Option<HttpResponse> {
        if head.method != Method::OPTIONS || !head.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
            return None;
        }
        let mut answer = Response::new(Vec::new());
        *answer.status_mut() = StatusCode::NO_CONTENT;
        let headers = answer.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
        let mut names = REQUEST_HEADERS.to_string();
        for name in mirrored(&head.headers) {
            names.push_str(", ");
            names.push_str(name.as_str());
        }
        if let Ok(names) = HeaderValue::try_from(names) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names);
        }
        Some(answer)
    }
}

/// Returns the headers that repeat arguments among those that a page requests. Their names are not known beforehand.
fn mirrored(headers: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    let requested = headers.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS).iter();
    let requested: Vec<String> = requested.filter_map(|value| Some(value.to_str().ok()?.to_string())).collect();
    let names = |list: String| -> Vec<_> {
        let names = list.split(',').filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok());
        names.filter(|name| param(name.as_str()).is_some_and(|name| !name.is_empty())).collect()
    };
    requested.into_iter().flat_map(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn head(method: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri("/mcp");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn pages_of_allowed_origins_may_read_responses() {
        let policy = Policy::hosts(["mcp.example"]).and_then(|policy| policy.allow_origin("https://app.example"));
        let policy = policy.expect("an origin");
        for (policy, origin, expected) in [
            (&policy, "https://app.example", true),
            (&policy, "https://APP.example:443", true),
            (&policy, "https://app.example.evil.example", false),
            (&policy, "http://localhost:1", false),
            (&policy, "null", false),
            (&Policy::loopback(), "http://localhost:1", true),
            (&Policy::loopback(), "https://app.example", false),
            (&Policy::any_host(), "https://app.example", false),
        ] {
            let cors = policy.cors(&head("POST", &[("origin", origin)]));
            assert_eq!(cors.is_some(), expected, "{origin}");
            let Some(cors) = cors else { continue };
            let mut headers = HeaderMap::new();
            cors.add_to(&mut headers);
            assert_eq!(headers["access-control-allow-origin"], origin, "as the page has written it");
            assert_eq!(
                headers["access-control-expose-headers"],
                "dpop-nonce, mcp-session-id, www-authenticate, retry-after"
            );
            assert!(!headers.contains_key("access-control-allow-credentials"));
        }
        assert!(policy.cors(&head("POST", &[])).is_none());
        let twice = [("origin", "https://app.example"), ("origin", "https://app.example")];
        assert!(policy.cors(&head("POST", &twice)).is_none());
    }

    #[test]
    fn preflight_lists_allowed_methods_and_headers() {
        let origin = ("origin", "http://localhost:1");
        let method_header = ("access-control-request-method", "POST");
        let preflight = |method: &str, headers: &[(&str, &str)]| {
            let head = head(method, headers);
            Policy::loopback().cors(&head).and_then(|cors| cors.preflight(&head))
        };
        for (method, headers) in
            [("OPTIONS", &[origin][..]), ("POST", &[origin, method_header]), ("OPTIONS", &[method_header])]
        {
            assert!(preflight(method, headers).is_none(), "{method} {headers:?}");
        }
        let names = "authorization,mcp-param-Row, x-other, mcp-param-, mcp-param-\u{7f}";
        let names = ("access-control-request-headers", &names[..names.len() - 1]);
        let answer = preflight("OPTIONS", &[origin, method_header, names]).expect("a preflight request");
        assert_eq!(answer.status(), 204);
        let header = |name: &str| answer.headers()[name].to_str().expect("text").to_string();
        assert_eq!(header("access-control-allow-methods"), "GET, POST, DELETE");
        assert_eq!(header("access-control-allow-headers"), [REQUEST_HEADERS, ", mcp-param-row"].concat());
    }
}
