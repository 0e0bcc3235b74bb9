//! Resolution of URI references (RFC 3986, section 5), and comparison of origins.

use alloc::{format, string::String, vec::Vec};

use http::{Uri, uri::Scheme};

/// Resolves `reference` against `base`, without the fragment. Returns `None` if the result is not a URI of HTTP, or
/// contains a name or password.
pub(super) fn resolve(base: &Uri, reference: &str) -> Option<Uri> {
    let reference = reference.split('#').next().unwrap_or_default();
    // The `http` crate accepts no longer URI, and the work below takes a multiple of the reference.
    if reference.len() > usize::from(u16::MAX) {
        return None;
    }
    let (scheme, authority) = (base.scheme_str()?, base.authority()?);
    let text = if has_scheme(reference) {
        String::from(reference)
    } else if reference.starts_with("//") {
        format!("{scheme}:{reference}")
    } else {
        let (path, query) = reference.split_once('?').map_or((reference, None), |(path, query)| (path, Some(query)));
        let query = query.or(if path.is_empty() { base.query() } else { None });
        let path = match path {
            "" => String::from(base.path()),
            absolute if absolute.starts_with('/') => without_dots(absolute),
            relative => {
                let directory = base.path().rsplit_once('/').map_or("", |(directory, _)| directory);
                without_dots(&format!("{directory}/{relative}"))
            }
        };
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        format!("{scheme}://{authority}{path}{query}")
    };
    let uri: Uri = text.parse().ok()?;
    (is_http(&uri) && !uri.authority()?.as_str().contains('@')).then_some(uri)
}

/// Returns whether this is an `http` or `https` URI with a host, and with a port up to 65535 if it has one.
pub(super) fn is_http(uri: &Uri) -> bool {
    let scheme = uri.scheme();
    let Some(authority) = uri.authority() else { return false };
    let after_host = authority.as_str().rsplit('@').next().and_then(|it| it.strip_prefix(authority.host()));
    // `port_u16` takes a port that does not exist for none, which would be that of the scheme.
    let has_valid_port = matches!(after_host, Some("" | ":")) || authority.port_u16().is_some();
    (scheme == Some(&Scheme::HTTP) || scheme == Some(&Scheme::HTTPS)) && !authority.host().is_empty() && has_valid_port
}

/// Returns whether two URIs have the same scheme, host and port.
pub(super) fn same_origin(a: &Uri, b: &Uri) -> bool {
    let port = |uri: &Uri| uri.port_u16().or(if uri.scheme() == Some(&Scheme::HTTPS) { Some(443) } else { Some(80) });
    let host = |uri: &Uri| uri.host().map(str::to_ascii_lowercase);
    a.scheme() == b.scheme() && host(a) == host(b) && port(a) == port(b)
}

fn has_scheme(reference: &str) -> bool {
    let Some((scheme, _)) = reference.split_once(':') else { return false };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// Returns the path without the segments `.` and `..`.
fn without_dots(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    let mut rest = path.split('/').skip(1).peekable();
    while let Some(segment) = rest.next() {
        let is_last = rest.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    segments.pop();
                }
                if is_last {
                    segments.push("");
                }
            }
            segment => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{string::ToString, vec};

    fn resolved(base: &str, reference: &str) -> Option<String> {
        resolve(&base.parse().expect("a base"), reference).map(|uri| uri.to_string())
    }

    #[test]
    fn rejects_overlong_references() {
        let up_and_down = |count| ["x/../".repeat(count), "g".to_string()].concat();
        assert_eq!(resolved("http://a.example/", &up_and_down(100)).as_deref(), Some("http://a.example/g"));
        assert_eq!(resolved("http://a.example/", &up_and_down(20_000)), None);
    }

    // req: SSE-005
    #[test]
    fn resolves_references_as_in_the_rfc() {
        let base = "http://a.example:81/b/c/d?q";
        let table = [
            ("g", "http://a.example:81/b/c/g"),
            ("./g", "http://a.example:81/b/c/g"),
            ("g/", "http://a.example:81/b/c/g/"),
            ("/g", "http://a.example:81/g"),
            ("//g.example/x", "http://g.example/x"),
            ("?y", "http://a.example:81/b/c/d?y"),
            ("g?y", "http://a.example:81/b/c/g?y"),
            ("g?y/../x", "http://a.example:81/b/c/g?y/../x"),
            ("", "http://a.example:81/b/c/d?q"),
            ("#s", "http://a.example:81/b/c/d?q"),
            ("g#s", "http://a.example:81/b/c/g"),
            (".", "http://a.example:81/b/c/"),
            ("./", "http://a.example:81/b/c/"),
            ("..", "http://a.example:81/b/"),
            ("../g", "http://a.example:81/b/g"),
            ("../..", "http://a.example:81/"),
            ("../../../g", "http://a.example:81/g"),
            ("/./g", "http://a.example:81/g"),
            ("/../g", "http://a.example:81/g"),
            ("g.", "http://a.example:81/b/c/g."),
            ("..g", "http://a.example:81/b/c/..g"),
            ("g/../h", "http://a.example:81/b/c/h"),
            ("http://other.example/", "http://other.example/"),
            ("HTTPS://other.example/x?y", "https://other.example/x?y"),
            ("/message?sessionId=a:b/c", "http://a.example:81/message?sessionId=a:b/c"),
        ];
        for (reference, expected) in table {
            assert_eq!(resolved(base, reference).as_deref(), Some(expected), "{reference:?}");
        }
        assert_eq!(resolved("http://a.example", "g").as_deref(), Some("http://a.example/g"));
        assert_eq!(resolved("http://a.example", "?g").as_deref(), Some("http://a.example/?g"));
        for bad in
            ["javascript:alert(1)", "file:///etc/passwd", "http://", "http://a b/", "\u{1}", "http://me@x.example/"]
        {
            assert_eq!(resolved(base, bad), None, "{bad:?}");
        }
    }

    /// An origin differs if any of its parts differs, regardless of how the port is written.
    #[test]
    fn an_origin_is_scheme_host_and_port() {
        const PARTS: [(&str, &str, u16); 8] = [
            ("http", "a.example", 80),
            ("https", "a.example", 80),
            ("http", "b.example", 80),
            ("http", "a.example", 443),
            ("https", "a.example", 443),
            ("http", "a.example", 8443),
            ("https", "a.example", 8443),
            ("http", "a.example.evil.com", 80),
        ];
        let spellings = |(scheme, host, port): (&str, &str, u16)| {
            let mut all =
                vec![format!("{scheme}://{host}:{port}/x"), format!("{scheme}://{}:{port}/", host.to_uppercase())];
            if (scheme, port) == ("http", 80) || (scheme, port) == ("https", 443) {
                all.push(format!("{scheme}://{host}/y?z"));
            }
            all
        };
        for a in PARTS {
            for b in PARTS {
                for (a_text, b_text) in spellings(a).iter().flat_map(|a| spellings(b).into_iter().map(move |b| (a, b)))
                {
                    let same = same_origin(&a_text.parse().expect("a uri"), &b_text.parse().expect("a uri"));
                    assert_eq!(same, a == b, "{a_text} {b_text}");
                }
            }
        }
    }

    #[test]
    fn longest_reference_is_resolved() {
        // A fragment does not count.
        for (len, expected) in [(65_535, true), (65_536, false)] {
            let reference = ["/../".repeat(len / 4), "x".repeat(len % 4), "#f".to_string()].concat();
            assert_eq!(reference.len(), len + 2);
            assert_eq!(resolved("http://a.example/", &reference).is_some(), expected, "{len}");
        }
    }

    #[test]
    fn http_addresses_have_a_scheme_and_a_host() {
        for (uri, expected) in
            [("http://a/", true), ("https://a/", true), ("ftp://a/", false), ("/a", false), ("a:80", false)]
        {
            assert_eq!(is_http(&uri.parse().expect("a URI")), expected, "{uri}");
        }
        for (authority, expected) in [
            ("a:65535", true),
            ("a:", true),
            ("[::1]", true),
            ("[::1]:1", true),
            ("me:1@a", true),
            ("a:65536", false),
            ("a:99999", false),
            ("[::1]:65536", false),
            ("me:1@a:65536", false),
        ] {
            let uri: Uri = format!("http://{authority}/").parse().expect("a URI");
            assert_eq!(is_http(&uri), expected, "{uri}");
        }
    }
}
