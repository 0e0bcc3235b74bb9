//! JSON documents of servers: metadata, registrations, tokens.

use alloc::{
    borrow::ToOwned,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, str};

use serde_core::de::DeserializeOwned;
use serde_json::Value;

use super::{
    scope::Scopes,
    url::{Url, UrlError},
};
use crate::wire::{Json, RawJson};

/// The most bytes of a document. The application stops reading a response after this many.
pub const MAX_LEN: usize = 256 * 1024;

/// The most elements of a list in a document.
pub const MAX_ITEMS: usize = 256;

/// The most bytes of a text in a document.
pub const MAX_TEXT: usize = 16 * 1024;

/// The reason why a document is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DocumentError {
    /// The document has more than [`MAX_LEN`] bytes.
    TooLong,
    /// The document is no JSON object.
    NotAnObject,
    /// A member that the client reads occurs twice.
    Duplicate(&'static str),
    /// A required member is missing.
    Missing(&'static str),
    /// A member has the wrong type, or is too large.
    Invalid(&'static str),
    /// A member is no URL.
    Url(&'static str, UrlError),
    /// The issuer or the resource differs from the expected one.
    Mismatch(&'static str),
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("the document is too long"),
            Self::NotAnObject => f.write_str("the document is not a JSON object"),
            Self::Duplicate(name) => write!(f, "`{name}` occurs twice"),
            Self::Missing(name) => write!(f, "`{name}` is missing"),
            Self::Invalid(name) => write!(f, "`{name}` is invalid"),
            Self::Url(name, error) => write!(f, "`{name}`: {error}"),
            Self::Mismatch(name) => write!(f, "`{name}` is not the expected one"),
        }
    }
}

impl core::error::Error for DocumentError {}

type Result<T> = core::result::Result<T, DocumentError>;

/// A document whose syntax was checked.
pub(super) struct Document(Json);

impl Document {
    pub(super) fn parse(body: &[u8]) -> Result<Self> {
        if body.len() > MAX_LEN {
            return Err(DocumentError::TooLong);
        }
        let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
        let text = str::from_utf8(body).map_err(|_| DocumentError::NotAnObject)?;
        let json = Json::parse(text).map_err(|_| DocumentError::NotAnObject)?;
        if json.is_object() { Ok(Self(json)) } else { Err(DocumentError::NotAnObject) }
    }

    /// Finds members, in one pass over the document.
    pub(super) fn members<const N: usize>(&self, names: [&'static str; N]) -> Result<[Member; N]> {
        let mut members = names.map(|name| Member { name, json: None });
        let mut twice = None;
        RawJson::from(&self.0).all_members(|found, value| {
            if let Some(member) = members.iter_mut().find(|member| member.name == found)
                && member.json.replace(value.to_owned()).is_some()
            {
                twice = Some(member.name);
            }
            twice.is_none()
        });
        match twice {
            Some(name) => Err(DocumentError::Duplicate(name)),
            None => Ok(members),
        }
    }
}

/// A member that a document may have.
pub(super) struct Member {
    name: &'static str,
    json: Option<String>,
}

impl Member {
    /// Returns whether the member is there, with any value.
    pub(super) const fn is_there(&self) -> bool {
        self.json.is_some()
    }

    /// Decodes the value; `None` if the member is missing or `null`.
    fn decode<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let Some(json) = self.json.as_deref().filter(|json| *json != "null") else { return Ok(None) };
        serde_json::from_str(json).map(Some).map_err(|_| DocumentError::Invalid(self.name))
    }

    /// Returns the text, of at most [`MAX_TEXT`] bytes; an empty one counts as missing.
    pub(super) fn text(&self) -> Result<Option<String>> {
        let text: Option<String> = self.decode()?;
        match text {
            Some(text) if text.len() > MAX_TEXT => Err(DocumentError::Invalid(self.name)),
            text => Ok(text.filter(|text| !text.is_empty())),
        }
    }

    /// Returns the text of a member that has to be there.
    pub(super) fn needed_text(&self) -> Result<String> {
        self.text()?.ok_or(DocumentError::Missing(self.name))
    }

    pub(super) fn url(&self) -> Result<Option<Url>> {
        let error = |error| DocumentError::Url(self.name, error);
        self.text()?.map(|text| Url::parse(&text).map_err(error)).transpose()
    }

    pub(super) fn needed_url(&self) -> Result<Url> {
        self.url()?.ok_or(DocumentError::Missing(self.name))
    }

    /// Returns an object.
    pub(super) fn object(&self) -> Result<Option<Document>> {
        let Some(json) = self.json.as_deref().filter(|json| *json != "null") else { return Ok(None) };
        Document::parse(json.as_bytes()).map(Some).map_err(|_| DocumentError::Invalid(self.name))
    }

    /// Returns a list of objects, of at most `most`.
    pub(super) fn objects(&self, most: usize) -> Result<Vec<Document>> {
        let objects: Vec<Value> = self.decode()?.unwrap_or_default();
        if objects.len() > most {
            return Err(DocumentError::Invalid(self.name));
        }
        let parse = |object: &Value| Document::parse(object.to_string().as_bytes());
        objects.iter().map(parse).collect::<Result<_>>().map_err(|_| DocumentError::Invalid(self.name))
    }

    pub(super) fn flag(&self) -> Result<bool> {
        Ok(self.decode()?.unwrap_or(false))
    }

    /// Returns a list of texts, of at most [`MAX_ITEMS`].
    pub(super) fn texts(&self) -> Result<Option<Vec<String>>> {
        // An element has at least three bytes in the document and takes 24 in a list, so the size of the document
        // bounds the list that is decoded before the check.
        let texts: Option<Vec<String>> = self.decode()?;
        let is_small = |texts: &Vec<String>| {
            texts.len() <= MAX_ITEMS && texts.iter().all(|text| !text.is_empty() && text.len() <= MAX_TEXT)
        };
        match texts {
            Some(texts) if !is_small(&texts) => Err(DocumentError::Invalid(self.name)),
            texts => Ok(texts),
        }
    }

    pub(super) fn scopes(&self) -> Result<Option<Scopes>> {
        let Some(texts) = self.texts()? else { return Ok(None) };
        let scopes = Scopes::of(texts.iter().map(|text| &**text));
        scopes.map(Some).ok_or(DocumentError::Invalid(self.name))
    }

    /// Returns a number of seconds. Some servers send it as a text.
    pub(super) fn seconds(&self) -> Result<Option<u64>> {
        let Some(json) = self.json.as_deref().filter(|json| *json != "null") else { return Ok(None) };
        let digits = json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(json);
        let whole = digits.split_once('.').map_or(digits, |(whole, _)| whole);
        whole.parse().map(Some).map_err(|_| DocumentError::Invalid(self.name))
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, vec};

    use super::*;

    fn member(json: &str) -> Member {
        let document = Document::parse(format!(r#"{{"a":{json}}}"#).as_bytes()).expect(json);
        let [member] = document.members(["a"]).expect("it is there once");
        member
    }

    #[test]
    fn parses_exactly_one_object() {
        for body in ["", "[]", "null", "<html></html>", "{", "{}{}", "{\"a\":}"] {
            assert_eq!(Document::parse(body.as_bytes()).err(), Some(DocumentError::NotAnObject), "{body:?}");
        }
        assert_eq!(Document::parse(b"{\"a\":\"\xff\"}").err(), Some(DocumentError::NotAnObject));
        assert!(Document::parse(b"\xef\xbb\xbf {} ").is_ok());
        let long = |len: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(len - 8));
        assert!(Document::parse(long(MAX_LEN).as_bytes()).is_ok());
        assert_eq!(Document::parse(long(MAX_LEN + 1).as_bytes()).err(), Some(DocumentError::TooLong));
    }

    #[test]
    fn rejects_duplicate_members() {
        let members = |text: &str| Document::parse(text.as_bytes()).expect(text).members(["a", "b"]).map(|_| ());
        assert_eq!(members(r#"{"a":1,"c":1,"c":2}"#), Ok(()));
        assert_eq!(members(r#"{"a":1,"b":2,"b":3}"#), Err(DocumentError::Duplicate("b")));
        assert_eq!(members(r#"{"a":1,"\u0061":1}"#), Err(DocumentError::Duplicate("a")));
    }

    #[test]
    fn checks_member_types_and_limits() {
        assert_eq!(member(r#""x""#).text(), Ok(Some("x".into())));
        assert_eq!(member(r#""""#).text(), Ok(None));
        assert_eq!(member("null").text(), Ok(None));
        assert_eq!(member("1").text(), Err(DocumentError::Invalid("a")));
        let long = |len: usize| member(&format!("\"{}\"", "x".repeat(len)));
        assert!(long(MAX_TEXT).text().is_ok() && long(MAX_TEXT + 1).text().is_err());
        assert_eq!(member("null").needed_text(), Err(DocumentError::Missing("a")));
        assert_eq!(member("true").flag(), Ok(true));
        assert_eq!(member(r#""true""#).flag(), Err(DocumentError::Invalid("a")));
        assert_eq!(member(r#"["x","y"]"#).texts(), Ok(Some(vec!["x".into(), "y".into()])));
        for bad in [r#""x""#, "[1]", r#"[""]"#, "{}"] {
            assert_eq!(member(bad).texts(), Err(DocumentError::Invalid("a")), "{bad}");
        }
        let list = |count: usize| member(&format!("[{}]", vec!["\"x\""; count].join(",")));
        assert!(list(MAX_ITEMS).texts().is_ok() && list(MAX_ITEMS + 1).texts().is_err());
        assert_eq!(member(r#""ftp://x/""#).url(), Err(DocumentError::Url("a", UrlError::Scheme)));
        assert_eq!(member(r#"["a b"]"#).scopes(), Err(DocumentError::Invalid("a")));
        let objects = |json: &str| member(json).objects(2).map(|objects| objects.len());
        assert_eq!((objects("null"), objects("[]"), objects(r#"[{},{"b":[1]}]"#)), (Ok(0), Ok(0), Ok(2)));
        for bad in ["{}", "[1]", "[[]]", "[{},{},{}]"] {
            assert_eq!(objects(bad), Err(DocumentError::Invalid("a")), "{bad}");
        }
        for (json, seconds) in [("3600", Some(3600)), (r#""3600""#, Some(3600)), ("3599.9", Some(3599)), ("null", None)]
        {
            assert_eq!(member(json).seconds(), Ok(seconds), "{json}");
        }
        for bad in ["-1", "1e3", r#""x""#, "[]", "99999999999999999999"] {
            assert_eq!(member(bad).seconds(), Err(DocumentError::Invalid("a")), "{bad}");
        }
    }
}
