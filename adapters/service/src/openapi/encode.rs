//! Percent-encoding, and the values of parameters as texts.

use serde_json::Value;

use super::error::OpenApiError;

/// Appends a text in which everything but unreserved characters (RFC 3986) is percent-encoded.
pub(super) fn push_encoded(out: &mut String, text: &str) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            out.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
}

/// Returns whether a segment of a path is `.` or `..`, also with percent-encoded dots, which clients resolve.
pub(super) fn is_dot_segment(segment: &str) -> bool {
    // A segment of dots has at most two of them.
    segment.len() <= 6 && matches!(&*segment.replace("%2e", ".").replace("%2E", "."), "." | "..")
}

/// Returns the text of a value that is neither a list nor an object nor `null`.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    }
}

/// Returns a base URL without the slash at its end.
pub(super) fn base_url(url: &str) -> Result<String, OpenApiError> {
    let refused = || OpenApiError::BaseUrl(url.chars().take(200).collect());
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).ok_or_else(refused)?;
    let is_allowed = |c: char| c.is_ascii_graphic() && !"?#\\\"<>`{}|^".contains(c);
    let has_authority = !rest.is_empty() && !rest.starts_with('/');
    let has_dots = rest.split('/').skip(1).any(is_dot_segment);
    if !has_authority || has_dots || !rest.chars().all(is_allowed) {
        return Err(refused());
    }
    Ok(url.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unreserved_characters_are_not_encoded() {
        let mut out = String::new();
        push_encoded(&mut out, "a-._~Z9/?#[]@!$&'()*+,;=% é\r\n\0");
        assert_eq!(out, "a-._~Z9%2F%3F%23%5B%5D%40%21%24%26%27%28%29%2A%2B%2C%3B%3D%25%20%C3%A9%0D%0A%00");
    }

    #[test]
    fn dot_segments_are_recognized_in_every_spelling() {
        for segment in [".", "..", "%2e", "%2E.", ".%2e", "%2e%2E"] {
            assert!(is_dot_segment(segment), "{segment}");
        }
        for segment in ["", "...", "a.", "%2e%2e%2e", "%252e"] {
            assert!(!is_dot_segment(segment), "{segment}");
        }
    }

    #[test]
    fn base_urls_are_absolute() {
        assert_eq!(base_url("https://api.example/v1/").as_deref(), Ok("https://api.example/v1"));
        assert_eq!(base_url("http://[::1]:80").as_deref(), Ok("http://[::1]:80"));
        for url in [
            "",
            "api.example",
            "ftp://api.example",
            "https://",
            "https:///v1",
            "https://a/?q",
            "https://a#f",
            "https://a b",
            "https://a/../b",
            "https://a/%2e%2E",
            "https://a\r\n",
        ] {
            assert!(base_url(url).is_err(), "{url:?}");
        }
    }
}
