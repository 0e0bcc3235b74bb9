//! The heads of HTTP requests, for the application.

use alloc::vec::Vec;

use http::{Extensions, HeaderMap, Method, Uri, header, header::HeaderName, request::Parts};

/// The head of the HTTP request with which a message has arrived, for the handler of the message. In a session it is
/// that of the request with this message, not the one that has begun the session.
///
/// See [`EndpointOptions::heads`](super::EndpointOptions::heads).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The target, as the client has sent it.
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
        let headers = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + ENTRY);
        headers.fold(target + ENTRY, usize::saturating_add)
    }
}

/// Which headers handlers get, of the requests to an endpoint.
#[derive(Clone, Debug, Default)]
pub struct ExposedHeads {
    /// `None` for all headers without credentials.
    only: Option<Vec<HeaderName>>,
}

/// The headers with credentials.
const CREDENTIALS: [HeaderName; 3] = [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE];

impl ExposedHeads {
    /// Exposes all headers but those with credentials: `Authorization`, `Proxy-Authorization`, `Cookie`, and those that
    /// a layer in front of the endpoint has marked as [sensitive](http::HeaderValue::is_sensitive).
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
                headers.append(name, value.clone());
            }
        }
        RequestHead { method: head.method.clone(), uri: head.uri.clone(), headers, extensions: head.extensions.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderValue, Request};

    fn head() -> Parts {
        let mut sensitive = HeaderValue::from_static("key");
        sensitive.set_sensitive(true);
        let request = Request::post("/mcp?tenant=a")
            .header("authorization", "Bearer secret")
            .header("cookie", "session=secret")
            .header("proxy-authorization", "secret")
            .header("x-api-key", sensitive)
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
        assert!(exposed.weight() > 96 * 4);
    }

    #[test]
    fn named_headers_are_exposed() {
        let exposed = ExposedHeads::only([header::AUTHORIZATION, HeaderName::from_static("x-api-key")]).expose(&head());
        assert_eq!(exposed.headers.len(), 2);
        assert_eq!(exposed.header("authorization"), Some("Bearer secret"));
    }
}
