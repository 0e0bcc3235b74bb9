//! Formats of texts and numbers of the schema, beyond their JSON type.
//!
//! Decoding does not check formats, so that one odd value does not make a message unusable. Encoding does not send
//! values that a peer cannot use. Applications can use the checks to build messages or to refuse odd ones.

use serde_json::Number;

/// The format of a text or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// A URI of RFC 3986.
    Uri,
    /// A URI template of RFC 6570.
    UriTemplate,
    /// A URI that starts with `file://`.
    FileUri,
    /// Bytes in base64.
    Base64,
    /// A media type: a type and a subtype.
    MediaType,
    /// A time of ISO 8601.
    Timestamp,
    /// A SHA-256 digest: `sha256:` and 64 hexadecimal digits.
    Digest,
    /// A number from 0 to 1.
    Fraction,
    /// A JSON Schema whose root is an object.
    ObjectSchema,
    /// The response to an input request.
    Answer,
}

/// Returns whether `number` is from 0 to 1, as priorities have to be.
#[must_use]
pub fn is_fraction(number: &Number) -> bool {
    number.as_f64().is_some_and(|number| (0.0..=1.0).contains(&number))
}

/// Returns whether `text` is a media type (RFC 6838) such as `image/png`, with or without parameters. Parameters are
/// not checked.
#[must_use]
pub fn is_media_type(text: &str) -> bool {
    let is_name = |name: &str| {
        name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    let name = text.split_once(';').map_or(text, |(name, _)| name).trim_end();
    name.split_once('/').is_some_and(|(kind, subtype)| is_name(kind) && is_name(subtype))
}

/// Returns whether `text` is a SHA-256 digest of the skills extension: `sha256:` and 64 hexadecimal digits in lower
/// case.
#[must_use]
pub fn is_digest(text: &str) -> bool {
    let digits = text.strip_prefix("sha256:").unwrap_or_default();
    digits.len() == 64 && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns whether `uri` has the scheme `scheme`. Upper and lower case are equal.
#[must_use]
pub fn has_scheme(uri: &str, scheme: &str) -> bool {
    uri.split_once(':').is_some_and(|(found, _)| found.eq_ignore_ascii_case(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_have_type_and_subtype() {
        for good in ["image/png", "text/plain; charset=utf-8", "application/vnd.api+json", "A/b", "x/y;"] {
            assert!(is_media_type(good), "{good}");
        }
        for bad in ["", "png", "image/", "/png", "image/png/x", "image /png", "image/*", "bild/\u{e4}", ".a/b", ";a/b"]
        {
            assert!(!is_media_type(bad), "{bad}");
        }
    }

    #[test]
    fn digests_have_64_lower_case_digits() {
        let digits = "0123456789abcdef".repeat(4);
        assert!(is_digest(&alloc::format!("sha256:{digits}")));
        for bad in [&digits[..], &alloc::format!("sha256:{digits}0"), &alloc::format!("sha256:{}", &digits[1..])] {
            assert!(!is_digest(bad), "{bad}");
        }
        assert!(!is_digest(&alloc::format!("sha256:{}", digits.to_uppercase())));
        assert!(!is_digest(&alloc::format!("sha512:{digits}")));
    }

    #[test]
    fn fractions_include_both_ends() {
        let fraction = |text| is_fraction(&serde_json::from_str(text).expect("a number"));
        assert!(["0", "1", "0.0", "1.0", "0.5", "1e-320"].into_iter().all(fraction));
        assert!(!["-0.1", "1.01", "2", "-1", "1e300"].into_iter().any(fraction));
    }
}
