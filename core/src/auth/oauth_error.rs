//! Errors of authorization servers (RFC 6749, sections 4.1.2.1 and 5.2; RFC 7591, section 3.2.2).

use alloc::{borrow::ToOwned, string::String};
use core::fmt;

use super::document::Document;

/// The most bytes of a description that are kept.
const MAX_DESCRIPTION: usize = 1024;

/// An error of an authorization server. Only its code is printed, because the description may quote a token or a code.
#[derive(Clone, PartialEq, Eq)]
pub struct OAuthError {
    /// The code, of printable ASCII characters.
    pub code: String,
    /// A text for developers, of at most 1,024 bytes and without control characters. The server wrote it, and may quote
    /// secrets that the client has sent. The application shows it as a text of the server, or not at all, and does not
    /// log it.
    pub description: Option<String>,
}

impl OAuthError {
    /// Creates an error with a code and a description; `None` if the code is invalid.
    pub(super) fn new(code: &str, description: Option<&str>) -> Option<Self> {
        let is_code = (1..=128).contains(&code.len()) && code.bytes().all(|byte| matches!(byte, 0x20..=0x7e));
        let description = description.map(|text| {
            let text: String = text.chars().filter(|char| !char.is_control()).collect();
            let end = (0..=text.len().min(MAX_DESCRIPTION)).rev().find(|end| text.is_char_boundary(*end));
            text[..end.unwrap_or(0)].to_owned()
        });
        is_code.then(|| Self { code: code.to_owned(), description: description.filter(|text| !text.is_empty()) })
    }

    /// Returns whether the failure is temporary.
    pub(super) fn is_temporary(&self) -> bool {
        matches!(&*self.code, "temporarily_unavailable" | "server_error")
    }

    /// Returns whether the code, refresh token or assertion of the request is not valid any more.
    pub(super) fn is_grant_invalid(&self) -> bool {
        self.code == "invalid_grant"
    }

    /// Returns whether the server does not know the client, or does not accept its authentication.
    pub(super) fn is_client_invalid(&self) -> bool {
        matches!(&*self.code, "invalid_client" | "unauthorized_client")
    }

    /// Reads the error of a JSON body; `None` if there is none.
    pub(super) fn of(document: &Document) -> Option<Self> {
        let [code] = document.members(["error"]).ok()?;
        // An invalid or duplicate description does not hide the error.
        let description = document.members(["error_description"]).ok().and_then(|[text]| text.text().ok()).flatten();
        Self::new(&code.text().ok()??, description.as_deref())
    }
}

impl fmt::Display for OAuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.code)
    }
}

impl fmt::Debug for OAuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, description } = self;
        let description = description.as_ref().map(|_| format_args!("[redacted]"));
        f.debug_struct("OAuthError").field("code", code).field("description", &description).finish()
    }
}

impl core::error::Error for OAuthError {}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn parse(body: &[u8]) -> Option<OAuthError> {
        OAuthError::of(&Document::parse(body).ok()?)
    }

    #[test]
    fn parses_and_bounds_errors() {
        let error = parse(br#"{"error":"invalid_grant","error_description":"gone\u001b[31m\nnow"}"#);
        assert_eq!(error.and_then(|error| error.description).as_deref(), Some("gone[31mnow"));
        let error = parse(br#"{"error":"invalid_grant","error_description":42}"#);
        assert_eq!(error.map(|error| (error.code, error.description)), Some(("invalid_grant".into(), None)));
        for none in
            ["{}", r#"{"error":""}"#, r#"{"error":null}"#, r#"{"error":1}"#, r#"{"error":"a\u0000"}"#, "[]", "x"]
        {
            assert_eq!(parse(none.as_bytes()), None, "{none}");
        }
        let long = format!(r#"{{"error":"x","error_description":"{}"}}"#, "\u{e4}".repeat(600));
        let description = parse(long.as_bytes()).and_then(|error| error.description);
        assert_eq!(description.expect("a description").len(), MAX_DESCRIPTION);
    }

    // req: AUTH-069 M-AUTH-049
    #[test]
    fn a_description_is_not_printed() {
        let error = parse(br#"{"error":"invalid_grant","error_description":"the code canary is used"}"#);
        let error = error.expect("an error");
        assert_eq!(error.description.as_deref(), Some("the code canary is used"));
        assert_eq!(format!("{error}"), "invalid_grant");
        let shown = format!("{error:?}");
        assert!(shown.contains("invalid_grant") && !shown.contains("canary"), "{shown}");
    }
}
