//! URLs of servers, documents and endpoints.

use alloc::{borrow::ToOwned, format, string::String};
use core::{fmt, net::IpAddr};

use fluent_uri::{Uri, component::Host, normalize::Normalizer};

/// An absolute `http` or `https` URL (RFC 3986), without user information and without a fragment.
///
/// It keeps the original text. Equality is equality of the text, byte for byte, as RFC 8414 and RFC 9207 require it for
/// issuers: `https://a.example` and `https://a.example/` are different.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Url(String);

/// The reason why a text is no [`Url`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UrlError {
    /// It has more than [`Url::MAX_LEN`] bytes.
    TooLong,
    /// It is not an absolute URI by RFC 3986.
    Syntax,
    /// Its scheme is neither `http` nor `https`.
    Scheme,
    /// It has no host, one of more than 253 bytes, or a port that is no port.
    Host,
    /// It names a user.
    UserInfo,
    /// It has a fragment.
    Fragment,
    /// It is neither `https` nor on the loopback interface, although one is required.
    Insecure,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the URL is too long",
            Self::Syntax => "not an absolute URL",
            Self::Scheme => "neither an http nor an https URL",
            Self::Host => "the URL has no valid host or port",
            Self::UserInfo => "the URL has user information",
            Self::Fragment => "the URL has a fragment",
            Self::Insecure => "the URL is neither https nor on the loopback interface",
        })
    }
}

impl core::error::Error for UrlError {}

/// The parts of a URL, borrowed from its text.
struct Parts<'a> {
    is_https: bool,
    host: &'a str,
    address: Option<IpAddr>,
    port: Option<u16>,
    path: &'a str,
    query: Option<&'a str>,
}

/// The most bytes of a host: those of the longest name of the DNS in text form (RFC 1035, section 2.3.4). Without this
/// limit, the origin of a URL can leave no space for a path.
const MAX_HOST_LEN: usize = 253;

fn parts(text: &str) -> Result<Parts<'_>, UrlError> {
    let uri = Uri::parse(text).map_err(|_| UrlError::Syntax)?;
    let scheme = uri.scheme().as_str();
    let is_https = scheme.eq_ignore_ascii_case("https");
    if !is_https && !scheme.eq_ignore_ascii_case("http") {
        return Err(UrlError::Scheme);
    }
    let authority = uri.authority().ok_or(UrlError::Host)?;
    if authority.userinfo().is_some() {
        return Err(UrlError::UserInfo);
    }
    if uri.fragment().is_some() {
        return Err(UrlError::Fragment);
    }
    let host = authority.host();
    if host.len() > MAX_HOST_LEN {
        return Err(UrlError::Host);
    }
    let address = match authority.host_parsed() {
        Host::Ipv4(address) => Some(IpAddr::V4(address)),
        Host::Ipv6(address) => Some(IpAddr::V6(address)),
        // Implementations differ in whether they decode a percent-encoded name.
        Host::RegName(name) if !name.as_str().is_empty() && !name.as_str().contains('%') => None,
        _ => return Err(UrlError::Host),
    };
    let port = authority.port_to_u16().map_err(|_| UrlError::Host)?;
    let (path, query) = (uri.path().as_str(), uri.query().map(|query| query.as_str()));
    Ok(Parts { is_https, host, address, port, path, query })
}

impl Url {
    /// The most bytes that a URL has.
    pub const MAX_LEN: usize = 8 * 1024;

    /// Reads an absolute URL.
    ///
    /// # Errors
    /// Returns the reason if `text` is no URL. The length is checked before anything else.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.len() > Self::MAX_LEN {
            return Err(UrlError::TooLong);
        }
        parts(text)?;
        Ok(Self(text.to_owned()))
    }

    fn parts(&self) -> Parts<'_> {
        parts(&self.0).expect("it was read when it was made")
    }

    /// Returns the original text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the scheme is `https`.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.parts().is_https
    }

    /// Returns the host: a name, an IPv4 address, or an IPv6 address in brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        self.parts().host
    }

    /// Returns the host if it is an IP address.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.parts().address
    }

    /// Returns the port: that of the scheme if the URL names none.
    #[must_use]
    pub fn port(&self) -> u16 {
        let parts = self.parts();
        parts.port.unwrap_or(if parts.is_https { 443 } else { 80 })
    }

    /// Returns the path, which is empty or begins with `/`.
    #[must_use]
    pub fn path(&self) -> &str {
        self.parts().path
    }

    /// Returns the query without its `?`.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.parts().query
    }

    /// Returns scheme, host and port in lower case, without the port of the scheme: `https://a.example`.
    #[must_use]
    pub fn origin(&self) -> String {
        let parts = self.parts();
        let (scheme, usual) = if parts.is_https { ("https", 443) } else { ("http", 80) };
        let host = parts.host.to_ascii_lowercase();
        match parts.port {
            Some(port) if port != usual => format!("{scheme}://{host}:{port}"),
            _ => format!("{scheme}://{host}"),
        }
    }

    /// Returns whether both have the same scheme, host and port.
    #[must_use]
    pub fn is_same_origin(&self, other: &Self) -> bool {
        self.origin() == other.origin()
    }

    /// Makes a URL of this origin with another path and query.
    pub(super) fn with_path(&self, path: &str) -> Result<Self, UrlError> {
        Self::parse(&format!("{}{path}", self.origin()))
    }
}

/// Prints the URL without its query, which may hold secrets.
impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, query) = self.0.split_once('?').map_or((&*self.0, ""), |(shown, _)| (shown, "?.."));
        write!(f, "{shown}{query}")
    }
}

impl core::str::FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
    }
}

/// Returns whether `resource`, which metadata claim to be about, covers the server at `server` (RFC 9728, section 3.3).
///
/// Scheme, host and port have to be equal, and the path of `resource` a prefix of that of the server which ends at a
/// segment. A trailing slash does not count. The query is a part of the identifier (RFC 8707, section 2): that of
/// `resource` is the one of the server, byte for byte, or there is none. A path with `.` or `..` segments or with an
/// encoded slash covers nothing but itself.
#[must_use]
pub fn covers(resource: &Url, server: &Url) -> bool {
    let (prefix, path) = (resource.path(), server.path());
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    let is_prefix = resource.is_same_origin(server)
        && resource.query().is_none_or(|query| server.query() == Some(query))
        && has_plain_path(resource)
        && has_plain_path(server)
        && path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    resource == server || is_prefix
}

/// Returns whether all implementations read a path in the same way: it has no `.` or `..` segments, no backslash and no
/// encoded slash.
pub(super) fn has_plain_path(url: &Url) -> bool {
    let is_dots = |segment: &str| {
        let dots = segment.to_ascii_lowercase().replace("%2e", ".");
        dots == "." || dots == ".."
    };
    let path = url.path();
    let has_slash = path.as_bytes().windows(3).any(|three| three.eq_ignore_ascii_case(b"%2f"));
    !has_slash && !path.contains('\\') && !path.split('/').any(is_dots)
}

/// Returns the canonical URI of a server, which names it as a resource (specification, basic/authorization; RFC 8707):
/// scheme and host in lower case, no port of the scheme, and no slash for an empty path.
#[must_use]
pub fn canonical(server: &Url) -> String {
    let path = if server.path() == "/" { "" } else { server.path() };
    let query = server.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("{}{path}{query}", server.origin())
}

/// Returns a URL without its query and its fragment, normalized by syntax and by scheme (RFC 3986, sections 6.2.2 and
/// 6.2.3), as the target of a proof is compared (RFC 9449, section 4.3). Returns `None` if it is no URL.
pub(super) fn normalized_base(text: &str) -> Option<String> {
    let base = text.split(['?', '#']).next().unwrap_or_default();
    let url = Url::parse(base).ok()?;
    // `Uri::normalize` panics for a path such as `/..`.
    let normalizer = Normalizer::new().allow_path_underflow(true);
    let uri = normalizer.normalize(&Uri::parse(url.as_str()).ok()?).ok()?;
    let url = Url::parse(uri.as_str()).ok()?;
    let path = if url.path().is_empty() { "/" } else { url.path() };
    Some(format!("{}{path}", url.origin()))
}

/// Returns the canonical URI of a server as a URL.
pub(super) fn canonical_url(server: &Url) -> Url {
    Url::parse(&canonical(server)).unwrap_or_else(|_| server.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn url(text: &str) -> Url {
        Url::parse(text).expect(text)
    }

    #[test]
    fn parses_urls_strictly() {
        for text in [
            "https://a.example",
            "https://a.example/",
            "HTTPS://A.example:8443/x?y=%20",
            "http://127.0.0.1:1/",
            "http://[::1]:80/x",
        ] {
            assert_eq!(url(text).as_str(), text);
        }
        for (text, error) in [
            ("", UrlError::Syntax),
            ("a.example", UrlError::Syntax),
            ("/x", UrlError::Syntax),
            ("https://a example/", UrlError::Syntax),
            ("https://a.example/\n", UrlError::Syntax),
            ("https://a.example/%2", UrlError::Syntax),
            ("https://a.example/<x>", UrlError::Syntax),
            ("https://\u{e4}.example/", UrlError::Syntax),
            ("https://[::1/", UrlError::Syntax),
            ("https://a.example\\@b.example/", UrlError::Syntax),
            ("-flag", UrlError::Syntax),
            ("$(touch x)", UrlError::Syntax),
            ("javascript:alert(1)", UrlError::Scheme),
            ("data:text/html,x", UrlError::Scheme),
            ("file:///etc/passwd", UrlError::Scheme),
            ("ftp://a.example/", UrlError::Scheme),
            ("httpsx://a.example/", UrlError::Scheme),
            ("https:a.example", UrlError::Host),
            ("https:///x", UrlError::Host),
            ("https://:443/x", UrlError::Host),
            ("https://a.example:70000/", UrlError::Host),
            ("https://%61.example/", UrlError::Host),
            ("https://[v1.x]/", UrlError::Host),
            ("https://me@a.example/", UrlError::UserInfo),
            ("https://me:pw@a.example/", UrlError::UserInfo),
            ("https://a.example/#x", UrlError::Fragment),
        ] {
            assert_eq!(Url::parse(text), Err(error), "{text:?}");
        }
        let long = |len: usize| ["https://a.example/", &"x".repeat(len - 18)].concat();
        assert!(Url::parse(&long(Url::MAX_LEN)).is_ok());
        assert_eq!(Url::parse(&long(Url::MAX_LEN + 1)), Err(UrlError::TooLong));
        let host = |len: usize| ["https://", &"x".repeat(len), "/"].concat();
        assert_eq!(Url::parse(&host(MAX_HOST_LEN)).map(|url| url.host().len()), Ok(MAX_HOST_LEN));
        assert_eq!(Url::parse(&host(MAX_HOST_LEN + 1)), Err(UrlError::Host));
    }

    #[test]
    fn origin_is_normalized() {
        for (text, origin) in [
            ("https://a.example", "https://a.example"),
            ("HTTPS://A.Example:443/x", "https://a.example"),
            ("https://a.example:80", "https://a.example:80"),
            ("http://a.example:80/", "http://a.example"),
            ("http://[::1]:8080/x?y", "http://[::1]:8080"),
        ] {
            assert_eq!(url(text).origin(), origin, "{text}");
        }
    }

    // req: AUTH-051 AUTH-053 AUTH-054 M-AUTH-027 M-AUTH-028
    #[test]
    fn canonical_uri_is_normalized() {
        for (server, canonical_uri) in [
            ("https://mcp.example", "https://mcp.example"),
            ("https://mcp.example/", "https://mcp.example"),
            ("HTTPS://MCP.Example:443/MCP", "https://mcp.example/MCP"),
            ("https://mcp.example:8443/server/mcp", "https://mcp.example:8443/server/mcp"),
            ("https://mcp.example/mcp/", "https://mcp.example/mcp/"),
            ("https://mcp.example/mcp?tenant=1", "https://mcp.example/mcp?tenant=1"),
        ] {
            assert_eq!(canonical(&url(server)), canonical_uri);
        }
    }

    #[test]
    fn resource_covers_paths_below_it() {
        let server = url("https://mcp.example/a/mcp");
        for (resource, expected) in [
            ("https://mcp.example/a/mcp", true),
            ("https://mcp.example/a/mcp/", true),
            ("https://mcp.example/a", true),
            ("https://mcp.example", true),
            ("https://mcp.example/", true),
            ("HTTPS://MCP.example:443/a/mcp", true),
            ("https://mcp.example/a/mcp?x", false),
            ("https://mcp.example/a/mc", false),
            ("https://mcp.example/a/mcpx", false),
            ("https://mcp.example/A/mcp", false),
            ("https://mcp.example/a/mcp/more", false),
            ("https://mcp.example/a/../a/mcp", false),
            ("https://mcp.example/a/%2e%2e", false),
            ("https://mcp.example/a%2Fmcp", false),
            ("http://mcp.example/a/mcp", false),
            ("https://mcp.example:8443/a/mcp", false),
            ("https://mcp.example.evil.example/a/mcp", false),
            ("https://evil.example/a/mcp", false),
        ] {
            assert_eq!(covers(&url(resource), &server), expected, "{resource}");
        }
        let server = url("https://mcp.example/a/mcp?tenant=a");
        for (resource, expected) in [
            ("https://mcp.example/a/mcp?tenant=a", true),
            ("https://mcp.example/a/mcp/?tenant=a", true),
            ("https://MCP.example/a?tenant=a", true),
            ("https://mcp.example/a/mcp", true),
            ("https://mcp.example", true),
            ("https://mcp.example/a/mcp?tenant=b", false),
            ("https://mcp.example/a/mcp?tenant=a&x=1", false),
            ("https://mcp.example/a/mcp?tenant=A", false),
            ("https://mcp.example/a/mcp?", false),
        ] {
            assert_eq!(covers(&url(resource), &server), expected, "{resource}");
        }
        assert!(!covers(&url("https://mcp.example/a"), &url("https://mcp.example/a/..%2fb")));
        assert!(!covers(&url("https://mcp.example/a"), &url("https://mcp.example/a/%2E./b")));
    }

    #[test]
    fn a_query_is_not_printed() {
        assert_eq!(alloc::format!("{:?}", url("https://a.example/x?code=canary")), "https://a.example/x?..");
        assert_eq!(UrlError::Fragment.to_string(), "the URL has a fragment");
    }
}
