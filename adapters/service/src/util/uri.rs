//! URIs (RFC 3986).

/// The longest URI that is parsed. Longer ones have no use, and cost time.
pub(crate) const MAX_URI: usize = 8 * 1024;

/// Returns whether `text` is a URI of at most 8 KiB: a scheme, and characters that may follow it. The rules of the
/// scheme are not checked.
#[must_use]
pub fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    if text.len() > MAX_URI || !is_scheme(scheme) {
        return false;
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (hier, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = match hier.strip_prefix("//") {
        Some(hier) => hier.split_at(hier.find('/').unwrap_or(hier.len())),
        None => ("", hier),
    };
    consists_of(authority, b"[]:@")
        && consists_of(path, b"/:@")
        && [query, fragment].iter().all(|part| consists_of(part, b"/?:@"))
}

/// Escapes a segment of a path for a URI.
pub(crate) fn escape_segment(segment: &str) -> String {
    let escape = |byte: u8| {
        if is_unreserved(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    segment.bytes().map(escape).collect()
}

fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Returns whether `text` has only unreserved characters, sub-delimiters, escapes, and those of `more`.
fn consists_of(text: &str, more: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let is_hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    bytes.iter().enumerate().all(|(at, byte)| match byte {
        b'%' => is_hex(at + 1) && is_hex(at + 2),
        _ => is_unreserved(*byte) || b"!$&'()*+,;=".contains(byte) || more.contains(byte),
    })
}

/// Returns whether a character never needs an escape.
pub(crate) const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Returns a URI with the escapes of unreserved characters decoded, with upper-case digits in the other escapes, and
/// with scheme and authority in lower case (RFC 3986, sections 6.2.2.1 and 6.2.2.2).
pub(crate) fn normalized(uri: &str) -> String {
    let bytes = normalized_bytes(uri).collect();
    // Only escapes, which are ASCII, are replaced, and by ASCII.
    String::from_utf8(bytes).unwrap_or_else(|_| uri.to_owned())
}

fn normalized_bytes(uri: &str) -> impl Iterator<Item = u8> {
    let bytes = uri.as_bytes();
    let caseless = caseless_len(uri);
    let digit = |at: usize| bytes.get(at).and_then(|digit| char::from(*digit).to_digit(16));
    // How many digits of an escape follow.
    let (mut at, mut digits) = (0, 0);
    std::iter::from_fn(move || {
        let byte = *bytes.get(at)?;
        at += 1;
        if digits > 0 {
            digits -= 1;
            return Some(byte.to_ascii_uppercase());
        }
        if byte == b'%'
            && let (Some(high), Some(low)) = (digit(at), digit(at + 1))
        {
            match u8::try_from(high * 16 + low) {
                Ok(decoded) if is_unreserved(decoded) => {
                    let is_caseless = at <= caseless;
                    at += 2;
                    return Some(if is_caseless { decoded.to_ascii_lowercase() } else { decoded });
                }
                _ => digits = 2,
            }
        }
        Some(if at <= caseless { byte.to_ascii_lowercase() } else { byte })
    })
}

/// Returns the length of the scheme and the authority of a URI.
fn caseless_len(uri: &str) -> usize {
    let Some(scheme) = uri.find(':') else { return 0 };
    let Some(authority) = uri[scheme + 1..].strip_prefix("//") else { return scheme };
    let start = uri.len() - authority.len();
    start + authority.find(['/', '?', '#']).unwrap_or(authority.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalized_uris_have_no_escapes_of_unreserved_characters() {
        for (uri, expected) in [
            ("test://%73ecret", "test://secret"),
            ("test://%7e%2D%5f%2e%30", "test://~-_.0"),
            ("test://a%2fb%c3%a4%20", "test://a%2Fb%C3%A4%20"),
            // What is decoded is not decoded again.
            ("test://%2573", "test://%2573"),
            ("test://%%37%33", "test://%73"),
            ("TEST://Host%41/Path%41?Q#F", "test://hosta/PathA?Q#F"),
            ("Test:Path", "test:Path"),
            ("test://H%2f/%2f", "test://h%2F/%2F"),
            ("test://%7", "test://%7"),
            ("test://%zz%", "test://%zz%"),
            ("test://ä%", "test://ä%"),
        ] {
            assert_eq!(normalized(uri), expected, "{uri}");
            assert!(normalized(expected) == expected || uri.contains("%%"), "{uri}");
        }
    }

    // req: RES-006 RES-026 RES-028
    #[test]
    fn uris_follow_rfc_3986() {
        for good in [
            "test://static-text",
            "file:///a/b%20c",
            "urn:isbn:0451450523",
            "x+y-z.1:",
            "http://[::1]:80/a?b=c/d?e#f/g?h",
            "mailto:a@b.c",
            "data:text/plain;base64,aGk=",
        ] {
            assert!(is_uri(good), "{good:?}");
        }
        for bad in [
            "", "a", "/a", ":a", "1a:b", "a b:c", "ä:b", "a:b c", "a:ä", "a:%", "a:%1", "a:%1g", "a:b\n", "a:b\0",
            "a:<b>", "a:#b#c", "a:[b]", "a:\"", "a:\\b", "a:{b}", "a:b|c", "a:`b", "a:^",
        ] {
            assert!(!is_uri(bad), "{bad:?}");
        }
        assert!(!is_uri(&format!("a:{}", "b".repeat(MAX_URI))));
    }

    #[test]
    fn the_longest_uri_has_8192_bytes() {
        assert!(is_uri(&format!("a:{}", "b".repeat(8190))) && !is_uri(&format!("a:{}", "b".repeat(8191))));
    }

    #[test]
    fn segments_of_paths_are_escaped() {
        for (segment, escaped) in [
            ("aZ09-._~", "aZ09-._~"),
            ("a b/c", "a%20b%2Fc"),
            ("é?#", "%C3%A9%3F%23"),
            ("\n\u{7f}", "%0A%7F"),
            ("", ""),
        ] {
            assert_eq!(escape_segment(segment), escaped);
        }
    }

    #[test]
    fn scheme_and_authority_are_caseless() {
        for (uri, length) in [
            ("a", 0),
            ("ab:c", 2),
            ("ab://", 5),
            ("ab://cd", 7),
            ("ab://cd/e", 7),
            ("ab://cd?e", 7),
            ("ab://cd#e/f", 7),
        ] {
            assert_eq!(caseless_len(uri), length, "{uri}");
        }
    }
}
