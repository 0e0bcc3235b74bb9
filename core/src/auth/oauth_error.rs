//! Errors of authorization servers (RFC 6749, sections 4.1.2.1 and 5.2; RFC 7591, section 3.2.2).

use alloc::{borrow::ToOwned, string::String};
use core::fmt;

use super::document::Document;

/// The most bytes of a description that are kept.
const MAX_DESCRIPTION: usize = 1024;

/// An error of an authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuthError {
    /// The code, of printable ASCII characters.
    pub code: String,
    /// A text for developers, of at most 1,024 bytes and without control characters. It is the server's: the application
    /// shows it as such, or not at all.
    pub description: Option<String>,
}

impl OAuthError {
    /// Makes an error of a code and a description; `None` if the code is none.
    pub(super) fn new(code: &str, description: Option<&str>) -> Option<Self> {
        let is_code = (1..=128).contains(&code.len()) && code.bytes().all(|byte| matches!(byte, 0x20..=0x7e));
        let description = description.map(|text| {
            let text: String = text.chars().filter(|char| !char.is_control()).collect();
            let end = (0..=text.len().min(MAX_DESCRIPTION)).rev().find(|end| text.is_char_boundary(*end));
            text[..end.unwrap_or(0)].to_owned()
        });
        is_code.then(|| Self { code: code.to_owned(), description: description.filter(|text| !text.is_empty()) })
    }

    /// Reads the error of a JSON body; `None` if there is none.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let [code, description] = Document::parse(body).ok()?.members(["error", "error_description"]).ok()?;
        // A description that is no text does not hide the error.
        Self::new(&code.text().ok()??, description.text().ok().flatten().as_deref())
    }
}

impl fmt::Display for OAuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.code)?;
        self.description.as_ref().map_or(Ok(()), |description| write!(f, " ({description})"))
    }
}

impl core::error::Error for OAuthError {}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn errors_are_read_and_bounded() {
        let error = OAuthError::parse(br#"{"error":"invalid_grant","error_description":"gone\u001b[31m\nnow"}"#);
        assert_eq!(error.expect("an error").to_string(), "invalid_grant (gone[31mnow)");
        let error = OAuthError::parse(br#"{"error":"invalid_grant","error_description":42}"#);
        assert_eq!(error.map(|error| (error.code, error.description)), Some(("invalid_grant".into(), None)));
        for none in
            ["{}", r#"{"error":""}"#, r#"{"error":null}"#, r#"{"error":1}"#, r#"{"error":"a\u0000"}"#, "[]", "x"]
        {
            assert_eq!(OAuthError::parse(none.as_bytes()), None, "{none}");
        }
        let long = format!(r#"{{"error":"x","error_description":"{}"}}"#, "\u{e4}".repeat(600));
        let description = OAuthError::parse(long.as_bytes()).and_then(|error| error.description);
        assert_eq!(description.expect("a description").len(), MAX_DESCRIPTION);
    }

    use alloc::string::ToString;
}
