//! `WWW-Authenticate` (RFC 9110, section 11.6.1).

use alloc::{
    string::{String, ToString},
    vec::Vec,
};

use core::fmt;

use super::{
    scope::Scopes,
    url::{Url, UrlError},
};

/// A challenge: an authentication scheme that a server offers, with its parameters.
#[derive(Clone, PartialEq, Eq)]
pub struct Challenge {
    scheme: String,
    token: Option<String>,
    params: Vec<(String, String)>,
}

/// Prints the scheme, the names of the parameters, and the error code. The other values, and a ticket in their place,
/// may be secret: a description may quote the token that was sent.
impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, token, params } = self;
        let token = token.as_ref().map(|_| format_args!("[redacted]"));
        let names: Vec<_> = params.iter().map(|(name, _)| name).collect();
        let mut shown = f.debug_struct("Challenge");
        shown.field("scheme", scheme).field("error", &self.error()).field("token", &token).field("params", &names);
        shown.finish()
    }
}

/// The error for a malformed challenge.
struct Malformed;

impl Challenge {
    /// The most bytes of a header value that is read.
    pub const MAX_LEN: usize = 16 * 1024;

    /// The most challenges of a response that are read.
    pub const MAX: usize = 16;

    /// The most parameters of a challenge.
    pub const MAX_PARAMS: usize = 32;

    /// Reads the values of `WWW-Authenticate` of a response, in their order.
    ///
    /// A value may have several challenges. After a syntax error, the rest of the value is ignored. Values with more
    /// than [`MAX_LEN`](Self::MAX_LEN) bytes are ignored, and so is everything after the [`MAX`](Self::MAX)th
    /// challenge. A challenge that has a parameter twice, or too many parameters, is a syntax error.
    #[must_use]
    pub fn parse_all<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Vec<Self> {
        let mut challenges = Vec::new();
        for value in values {
            if value.len() > Self::MAX_LEN {
                continue;
            }
            let mut reader = Reader { rest: value };
            while challenges.len() < Self::MAX {
                match reader.challenge() {
                    Ok(Some(challenge)) => challenges.push(challenge),
                    Ok(None) | Err(Malformed) => break,
                }
            }
        }
        challenges
    }

    /// Returns the scheme as it was spelled: `Bearer`, `DPoP`. Schemes are compared [without regard to case](Self::is).
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Returns whether this is a challenge of a scheme.
    #[must_use]
    pub fn is(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    /// Returns the value of a parameter, whose name is given in lower case.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Returns the token after the scheme (`token68`), if the challenge has one instead of parameters.
    #[must_use]
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Returns the URL of the protected resource metadata (RFC 9728, section 5.1), if the challenge names one.
    ///
    /// # Errors
    /// Returns the reason if the parameter is no URL.
    pub fn resource_metadata(&self) -> Option<Result<Url, UrlError>> {
        self.param("resource_metadata").map(Url::parse)
    }

    /// Returns the scopes that the request needs, if the challenge names any.
    #[must_use]
    pub fn scopes(&self) -> Option<Scopes> {
        self.param("scope").and_then(Scopes::parse).filter(|scopes| !scopes.is_empty())
    }

    /// Returns the error code (RFC 6750, section 3.1): `invalid_token`, `insufficient_scope`.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.param("error")
    }
}

/// A reader of a header value. It reads each byte a bounded number of times.
struct Reader<'a> {
    rest: &'a [u8],
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_token68(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte)
}

impl<'a> Reader<'a> {
    fn take(&mut self, is_part: impl Fn(u8) -> bool) -> &'a [u8] {
        let len = self.rest.iter().position(|byte| !is_part(*byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }

    fn eat(&mut self, byte: u8) -> bool {
        let rest = self.rest.strip_prefix(&[byte]);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn skip_space(&mut self) {
        self.take(|byte| byte == b' ' || byte == b'\t');
    }

    /// Skips to the next element of a list, which may have empty ones.
    fn skip_commas(&mut self) {
        self.take(|byte| matches!(byte, b' ' | b'\t' | b','));
    }

    fn challenge(&mut self) -> Result<Option<Challenge>, Malformed> {
        self.skip_commas();
        if self.rest.is_empty() {
            return Ok(None);
        }
        let scheme = text(self.take(is_token));
        if scheme.is_empty() {
            return Err(Malformed);
        }
        let mut challenge = Challenge { scheme, token: None, params: Vec::new() };
        let has_space = self.rest.first() == Some(&b' ');
        self.skip_space();
        if self.rest.is_empty() || self.eat(b',') {
            return Ok(Some(challenge));
        }
        if !has_space {
            return Err(Malformed);
        }
        if let Some(token) = self.token68() {
            challenge.token = Some(token);
            return Ok(Some(challenge));
        }
        while let Some((name, value)) = self.param()? {
            let is_twice = challenge.params.iter().any(|(known, _)| *known == name);
            if is_twice || challenge.params.len() == Challenge::MAX_PARAMS {
                return Err(Malformed);
            }
            challenge.params.push((name, value));
            self.skip_space();
            if self.rest.is_empty() {
                break;
            }
            if !self.eat(b',') {
                return Err(Malformed);
            }
            self.skip_commas();
        }
        if challenge.params.is_empty() { Err(Malformed) } else { Ok(Some(challenge)) }
    }

    /// Reads a token in place of parameters, if the element is nothing else.
    fn token68(&mut self) -> Option<String> {
        let mut ahead = Self { rest: self.rest };
        let len = ahead.take(is_token68).len();
        let padding = ahead.take(|byte| byte == b'=').len();
        let token = self.rest.get(..len + padding)?;
        ahead.skip_space();
        let is_whole = len > 0 && (ahead.rest.is_empty() || ahead.eat(b','));
        is_whole.then(|| {
            self.rest = ahead.rest;
            text(token)
        })
    }

    /// Reads a parameter; `None`, with nothing read, if the next challenge begins here.
    fn param(&mut self) -> Result<Option<(String, String)>, Malformed> {
        let mut ahead = Self { rest: self.rest };
        let name = ahead.take(is_token);
        ahead.skip_space();
        if name.is_empty() || !ahead.eat(b'=') {
            return Ok(None);
        }
        ahead.skip_space();
        let value = if ahead.eat(b'"') { ahead.quoted()? } else { text(ahead.take(is_token)) };
        self.rest = ahead.rest;
        Ok(Some((text(name).to_ascii_lowercase(), value)))
    }

    /// Reads a quoted string after its opening quote.
    fn quoted(&mut self) -> Result<String, Malformed> {
        let mut value = Vec::new();
        loop {
            value.extend_from_slice(self.take(|byte| byte != b'"' && byte != b'\\'));
            if self.eat(b'"') {
                return String::from_utf8(value).map_err(|_| Malformed);
            }
            // A backslash and the escaped byte, or the end.
            let [_, escaped, rest @ ..] = self.rest else { return Err(Malformed) };
            value.push(*escaped);
            self.rest = rest;
        }
    }
}

fn text(ascii: &[u8]) -> String {
    String::from_utf8_lossy(ascii).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, string::ToString, vec};

    fn shown(challenges: &[Challenge]) -> Vec<String> {
        let params = |challenge: &Challenge| {
            challenge.params.iter().map(|(name, value)| format!(" {name}={value}")).collect::<String>()
        };
        let token = |challenge: &Challenge| challenge.token().map(|token| format!(" <{token}>")).unwrap_or_default();
        challenges.iter().map(|it| format!("{}{}{}", it.scheme(), token(it), params(it))).collect()
    }

    fn parsed(value: &str) -> Vec<String> {
        shown(&Challenge::parse_all([value.as_bytes()]))
    }

    // req: AUTH-032 M-AUTH-008
    #[test]
    fn parses_challenges() {
        let table: [(&str, &[&str]); 30] = [
            ("", &[]),
            (" , ,", &[]),
            ("Bearer", &["Bearer"]),
            ("bearer ", &["bearer"]),
            ("Bearer, DPoP", &["Bearer", "DPoP"]),
            ("Bearer realm=x", &["Bearer realm=x"]),
            (r#"Bearer realm="a b""#, &["Bearer realm=a b"]),
            (r#"Bearer REALM = "x""#, &["Bearer realm=x"]),
            (r#"Bearer realm="a, b=c", scope="x y""#, &["Bearer realm=a, b=c scope=x y"]),
            (r#"Bearer realm="a\"b\\c""#, &[r#"Bearer realm=a"b\c"#]),
            (r#"Bearer realm="""#, &["Bearer realm="]),
            ("Bearer  a=1,b=2", &["Bearer a=1 b=2"]),
            ("Bearer a=1,,b=2,", &["Bearer a=1 b=2"]),
            ("Bearer a=1 , b=2 ,DPoP c=3", &["Bearer a=1 b=2", "DPoP c=3"]),
            ("Basic realm=\"x\", Bearer scope=\"a\", error=e", &["Basic realm=x", "Bearer scope=a error=e"]),
            ("Negotiate YWJj", &["Negotiate <YWJj>"]),
            ("Negotiate YWJj==", &["Negotiate <YWJj==>"]),
            ("Negotiate a/b+c=, Bearer x=1", &["Negotiate <a/b+c=>", "Bearer x=1"]),
            ("Bearer a=1, Negotiate YWJj=", &["Bearer a=1", "Negotiate <YWJj=>"]),
            ("Bearer a=1, Basic", &["Bearer a=1", "Basic"]),
            // Mistakes end a value.
            ("Bearer a=1, a=2, DPoP", &[]),
            ("Bearer a=1, A=2", &[]),
            ("Bearer a=\"x", &[]),
            ("Bearer a=\"x\\", &[]),
            ("DPoP, Bearer a=\"x", &["DPoP"]),
            ("Bearer a=1 b=2", &[]),
            ("Bearer\ta=1", &[]),
            ("Bearer \u{1}", &[]),
            ("\"Bearer\"", &[]),
            ("Bearer a=\"\u{e4}\"", &["Bearer a=\u{e4}"]),
        ];
        for (value, expected) in table {
            assert_eq!(parsed(value), expected, "{value:?}");
        }
        assert_eq!(Challenge::parse_all([&b"Bearer a=\"\xff\""[..]]), []);
        // A mistake does not reach into the next header.
        let several = Challenge::parse_all([&b"Bearer a="[..], b"\"", b"DPoP a=1"]);
        assert_eq!(shown(&several), ["Bearer <a=>", "DPoP a=1"]);
    }

    #[test]
    fn prefix_has_all_complete_challenges() {
        let value = r#"Basic realm="a\"b", Bearer error="x", resource_metadata="https://a.example/", Negotiate YWJj=="#;
        let whole = Challenge::parse_all([value.as_bytes()]);
        assert_eq!(whole.len(), 3);
        let ends = [", Bearer", ", Negotiate"].map(|next| value.find(next).expect(next));
        let ends = [ends[0], ends[1], value.len()];
        for end in 0..=value.len() {
            let challenges = Challenge::parse_all([&value.as_bytes()[..end]]);
            let complete = ends.iter().filter(|it| **it <= end).count();
            assert_eq!(challenges.get(..complete), whole.get(..complete), "{end}");
            assert!(challenges.len() <= complete + 2, "{end}");
        }
    }

    // req: AUTH-033 AUTH-036 M-AUTH-006
    #[test]
    fn reads_bearer_challenge_parameters() {
        let value = r#"Bearer error="insufficient_scope", scope="files:read files:write",
            resource_metadata="https://mcp.example/.well-known/oauth-protected-resource""#;
        let challenges = Challenge::parse_all([value.replace('\n', " ").as_bytes()]);
        let [bearer] = &challenges[..] else { panic!("{challenges:?}") };
        assert!(bearer.is("bearer") && bearer.is("BEARER") && !bearer.is("Basic"));
        assert_eq!(bearer.error(), Some("insufficient_scope"));
        assert_eq!(bearer.scopes().map(|scopes| scopes.to_string()).as_deref(), Some("files:read files:write"));
        let url = bearer.resource_metadata().expect("it is named").expect("it is a URL");
        assert_eq!(url.as_str(), "https://mcp.example/.well-known/oauth-protected-resource");
        let other = Challenge::parse_all([&b"Bearer scope=\"\", resource_metadata=\"javascript:x\""[..]]);
        assert_eq!(other[0].scopes(), None);
        assert_eq!(other[0].resource_metadata(), Some(Err(UrlError::Scheme)));
    }

    #[test]
    fn challenge_parsing_has_limits() {
        let many = vec!["Bearer"; Challenge::MAX + 1].join(",");
        assert_eq!(parsed(&many).len(), Challenge::MAX);
        let params = |count: usize| {
            let list: Vec<_> = (0..count).map(|index| format!("p{index}=1")).collect();
            format!("Bearer {}", list.join(","))
        };
        assert_eq!(parsed(&params(Challenge::MAX_PARAMS)).len(), 1);
        assert_eq!(parsed(&params(Challenge::MAX_PARAMS + 1)).len(), 0);
        let long = |len: usize| format!("Bearer a=\"{}\"", "x".repeat(len - 11));
        assert_eq!(parsed(&long(Challenge::MAX_LEN)).len(), 1);
        assert_eq!(parsed(&long(Challenge::MAX_LEN + 1)).len(), 0);
    }
}
