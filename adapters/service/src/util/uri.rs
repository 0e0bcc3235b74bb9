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

#[cfg(test)]
mod tests {
    use super::*;

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
}
