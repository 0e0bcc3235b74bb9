//! The policy on host names and origins. It prevents a web page in a browser from talking to a server on the same
//! machine.

use alloc::{
    borrow::Cow,
    boxed::Box,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, net::IpAddr};

use http::{StatusCode, Uri, request::Parts};

use super::{
    fields::Fields,
    response::{HttpResponse, refusal},
};

/// The host names under which a server may be reached, and the origins of web pages that may talk to it.
///
/// The constructor of an [`Endpoint`](super::server::Endpoint) has no default policy: the application chooses one. For
/// a server that is reached over the loopback interface, use [`loopback`](Self::loopback).
#[doc(alias = "cors")]
#[derive(Clone, Debug)]
pub struct Policy {
    hosts: Hosts,
    origins: Vec<Origin>,
    /// Whether responses have the headers with which browsers let pages read them.
    pub(super) has_cors: bool,
}

#[derive(Clone, Debug)]
enum Hosts {
    Loopback,
    Listed(Vec<Authority<'static>>),
    Any,
}

/// The name of a host and a port, in lower case and in the usual spelling of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Authority<'a> {
    host: Cow<'a, str>,
    port: Option<u16>,
}

/// The origin of a web page.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    scheme: String,
    host: String,
    port: Option<u16>,
}

/// The error of a text that is not a host name, or not an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPolicy(String);

impl fmt::Display for InvalidPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is neither a host nor an origin", self.0)
    }
}

impl core::error::Error for InvalidPolicy {}

impl Policy {
    /// Creates a policy for `localhost` and loopback addresses, on any port. Pages from there may talk to the server.
    #[must_use]
    pub const fn loopback() -> Self {
        Self { hosts: Hosts::Loopback, origins: Vec::new(), has_cors: true }
    }

    /// Creates a policy for these host names: `mcp.example.com` on any port, or `mcp.example.com:8443`. No page may
    /// talk to the server, see [`allow_origin`](Self::allow_origin).
    ///
    /// # Errors
    /// Returns [`InvalidPolicy`] if one of them is not a host name.
    pub fn hosts<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Result<Self, InvalidPolicy> {
        let names = names.into_iter().map(|name| {
            let name = name.as_ref();
            Authority::parse(name).map(Authority::into_owned).ok_or_else(|| InvalidPolicy(name.to_string()))
        });
        Ok(Self { hosts: Hosts::Listed(names.collect::<Result<_, _>>()?), origins: Vec::new(), has_cors: true })
    }

    /// Creates a policy for any host name: a proxy in front of the server checks it, or the names are not known. No
    /// page may send requests to the server, see [`allow_origin`](Self::allow_origin).
    #[must_use]
    pub const fn any_host() -> Self {
        Self { hosts: Hosts::Any, origins: Vec::new(), has_cors: true }
    }

    /// Allows pages from this origin, such as `https://app.example.com`, to talk to the server.
    ///
    /// # Errors
    /// Returns [`InvalidPolicy`] if it is not an origin.
    pub fn allow_origin(mut self, origin: &str) -> Result<Self, InvalidPolicy> {
        self.origins.push(Origin::parse(origin).ok_or_else(|| InvalidPolicy(origin.to_string()))?);
        Ok(self)
    }

    /// Answers no preflight requests, and adds no CORS headers to responses: a layer or a proxy in front of the server
    /// does. The origins of requests are checked as before, so [`allow_origin`](Self::allow_origin) is still needed.
    #[must_use]
    pub const fn without_cors(mut self) -> Self {
        self.has_cors = false;
        self
    }

    /// Checks the host and the origin of a request.
    ///
    /// # Errors
    /// Returns the status to refuse the request with, and the reason.
    pub(super) fn check(&self, uri: &Uri, fields: &Fields<'_>) -> Result<(), (StatusCode, &'static str)> {
        let forbidden = |why| (StatusCode::FORBIDDEN, why);
        let named = fields.host.single().map_err(|_| (StatusCode::BAD_REQUEST, "more than one Host"))?;
        let named = match named {
            Some(named) => Some(named.to_str().ok().and_then(Authority::parse).ok_or(forbidden("Host is malformed"))?),
            None => None,
        };
        let target = match uri.authority() {
            Some(target) => Some(Authority::parse(target.as_str()).ok_or(forbidden("the authority is malformed"))?),
            None => None,
        };
        let host = match (target, named) {
            (Some(target), Some(named)) if target != named => {
                return Err((StatusCode::BAD_REQUEST, "Host differs from the authority of the target"));
            }
            // RFC 9112, section 3.2: such a request is malformed, regardless of the policy.
            (target, named) => target.or(named).ok_or((StatusCode::BAD_REQUEST, "Host is missing"))?,
        };
        let is_ours = match &self.hosts {
            Hosts::Loopback => is_loopback(&host.host),
            Hosts::Any => true,
            Hosts::Listed(names) => {
                names.iter().any(|name| name.host == host.host && (name.port.is_none() || name.port == host.port))
            }
        };
        if !is_ours {
            return Err(forbidden("this is not the name of this server"));
        }
        match fields.origin.single() {
            Ok(None) => Ok(()),
            Ok(Some(origin)) if origin.to_str().is_ok_and(|origin| self.allows_origin(origin)) => Ok(()),
            _ => Err(forbidden("pages from this origin may not talk to this server")),
        }
    }

    /// Returns whether pages from an origin may talk to the server.
    pub(super) fn allows_origin(&self, origin: &str) -> bool {
        Origin::parse(origin).is_some_and(|origin| self.allows(&origin))
    }

    /// Checks the host and the origin of a request to another resource than the endpoint, such as a metadata document.
    ///
    /// # Errors
    /// Returns the response if the request is refused.
    pub fn admit(&self, head: &Parts) -> Result<(), Box<HttpResponse>> {
        let checked = self.check(&head.uri, &Fields::of(&head.headers));
        checked.map_err(|(status, why)| Box::new(refusal(status, why)))
    }

    fn allows(&self, origin: &Origin) -> bool {
        matches!(self.hosts, Hosts::Loopback) && is_loopback(&origin.host) || self.origins.contains(origin)
    }
}

impl<'a> Authority<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']')?;
                let IpAddr::V6(address) = address.parse().ok()? else { return None };
                let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) };
                (Cow::Owned(address.to_string()), port)
            }
            None => {
                // One pass: the host of each request is parsed.
                let (mut end, mut is_lower) = (text.len(), true);
                for (at, byte) in text.bytes().enumerate() {
                    match byte {
                        b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {}
                        b'A'..=b'Z' => is_lower = false,
                        b':' => {
                            end = at;
                            break;
                        }
                        _ => return None,
                    }
                }
                let (host, port) = text.split_at(end);
                if host.is_empty() {
                    return None;
                }
                let port = port.strip_prefix(':');
                let host = if is_lower { Cow::Borrowed(host) } else { Cow::Owned(host.to_ascii_lowercase()) };
                (host, port)
            }
        };
        let port = match port {
            Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            Some(_) => return None,
            None => None,
        };
        Some(Self { host, port })
    }

    fn into_owned(self) -> Authority<'static> {
        Authority { host: Cow::Owned(self.host.into_owned()), port: self.port }
    }
}

impl Origin {
    /// Parses `scheme://host:port`. Any other text, `null` included, is not an origin.
    fn parse(text: &str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let default = match &*scheme {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        let Authority { host, port } = Authority::parse(authority)?;
        Some(Self { scheme, host: host.into_owned(), port: port.or(Some(default)) })
    }
}

fn is_loopback(host: &str) -> bool {
    // The usual names are not parsed.
    matches!(host, "localhost" | "127.0.0.1") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderValue, Request};

    fn head(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::get(uri);
        for (name, value) in headers {
            request = request.header(*name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        }
        request.body(()).expect("a request").into_parts().0
    }

    fn status(policy: &Policy, uri: &str, headers: &[(&str, &str)]) -> u16 {
        let head = head(uri, headers);
        policy.check(&head.uri, &Fields::of(&head.headers)).err().map_or(200, |(status, _)| status.as_u16())
    }

    #[test]
    fn loopback_policy_accepts_only_local_hosts() {
        let table = [
            ("localhost", 200),
            ("localhost:8001", 200),
            ("LOCALHOST:8001", 200),
            ("127.0.0.1", 200),
            ("127.0.0.1:1", 200),
            ("127.1.2.3:65535", 200),
            ("[::1]", 200),
            ("[::1]:80", 200),
            ("[0:0:0:0:0:0:0:1]:80", 200),
            ("", 403),
            ("localhost.", 403),
            ("localhost.evil.com", 403),
            ("evil.com", 403),
            ("evil.com:8001", 403),
            ("127.0.0.1.evil.com", 403),
            ("127.0.0.1:80@evil.com", 403),
            ("user@localhost", 403),
            ("localhost:", 403),
            ("localhost:80a", 403),
            ("localhost:65536", 403),
            ("localhost:+80", 403),
            ("localhost, evil.com", 403),
            ("localhost/", 403),
            ("http://localhost", 403),
            ("[::1", 403),
            ("[::1]x", 403),
            ("[::2]", 403),
            ("::1", 403),
            ("[127.0.0.1]", 403),
            ("0.0.0.0", 403),
            ("10.0.0.1", 403),
            ("2130706433", 403),
            ("lôcalhost", 403),
        ];
        for (host, expected) in table {
            assert_eq!(status(&Policy::loopback(), "/mcp", &[("host", host)]), expected, "{host:?}");
        }
        assert_eq!(status(&Policy::loopback(), "/mcp", &[]), 400);
        assert_eq!(status(&Policy::loopback(), "/mcp", &[("host", "localhost"), ("host", "localhost")]), 400);
    }

    #[test]
    fn checks_http2_authority_like_host() {
        let policy = Policy::loopback();
        assert_eq!(status(&policy, "http://localhost:8001/mcp", &[]), 200);
        assert_eq!(status(&policy, "http://evil.com/mcp", &[]), 403);
        assert_eq!(status(&policy, "http://localhost:8001/mcp", &[("host", "LOCALHOST:8001")]), 200);
        assert_eq!(status(&policy, "http://localhost:8001/mcp", &[("host", "localhost")]), 400);
        assert_eq!(status(&policy, "http://evil.com/mcp", &[("host", "localhost")]), 400);
    }

    #[test]
    fn host_policy_accepts_only_configured_names() {
        let policy = Policy::hosts(["mcp.example.com", "other.example.com:8443", "[2001:DB8::1]"]).expect("names");
        let table = [
            ("mcp.example.com", 200),
            ("MCP.Example.com:1234", 200),
            ("other.example.com:8443", 200),
            ("other.example.com", 403),
            ("other.example.com:8444", 403),
            ("[2001:db8:0::1]:443", 200),
            ("localhost", 403),
            ("example.com", 403),
        ];
        for (host, expected) in table {
            assert_eq!(status(&policy, "/", &[("host", host)]), expected, "{host:?}");
        }
        assert_eq!(status(&Policy::any_host(), "/", &[("host", "whatever.example")]), 200);
        assert_eq!(status(&Policy::any_host(), "/", &[("host", "what ever")]), 403);
        for bad in ["", "a b", "https://a", "a/b", "a:b"] {
            assert!(Policy::hosts([bad]).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn origins_are_parsed_and_compared() {
        let local = Policy::loopback();
        let table = [
            ("http://localhost", 200),
            ("http://localhost:6274", 200),
            ("https://127.0.0.1", 200),
            ("http://127.0.0.1:80", 200),
            ("http://[::1]:3000", 200),
            ("HTTP://LOCALHOST", 200),
            ("null", 403),
            ("", 403),
            ("http://evil.com", 403),
            ("http://localhost.evil.com", 403),
            ("http://evil.com/http://localhost", 403),
            ("http://localhost@evil.com", 403),
            ("http://localhost/", 403),
            ("http://localhost#", 403),
            ("http://localhost http://localhost", 403),
            ("localhost", 403),
            ("//localhost", 403),
            ("http:localhost", 403),
            ("file://", 403),
            ("file://localhost", 403),
            ("chrome-extension://localhost", 403),
            ("http://local host", 403),
            ("http://", 403),
            ("http://localhost:99999", 403),
            ("http://localhost:", 403),
            ("*", 403),
        ];
        for (origin, expected) in table {
            let headers = [("host", "localhost:8001"), ("origin", origin)];
            assert_eq!(status(&local, "/mcp", &headers), expected, "{origin:?}");
        }
        let twice = [("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://localhost")];
        assert_eq!(status(&local, "/", &twice), 403);

        let public = Policy::hosts(["a.example"]).and_then(|policy| policy.allow_origin("https://app.example:443"));
        let public = public.expect("it is an origin");
        let table = [
            ("https://app.example", 200),
            ("https://APP.example:443", 200),
            ("http://app.example", 403),
            ("http://app.example:443", 403),
            ("https://app.example:8443", 403),
            ("https://a.example", 403),
            ("https://app.example.evil.com", 403),
            ("http://localhost", 403),
        ];
        for (origin, expected) in table {
            assert_eq!(status(&public, "/", &[("host", "a.example"), ("origin", origin)]), expected, "{origin:?}");
        }
        for bad in ["null", "app.example", "https://app.example/", "ftp://app.example"] {
            assert!(Policy::any_host().allow_origin(bad).is_err(), "{bad:?}");
        }
    }
}
