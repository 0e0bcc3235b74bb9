//! Replaces ids of sessions and values of queries by short names, the same ones for the same values of a record. So a
//! reader can tell sessions apart, and has no id that could be used.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::{BuildHasher, DefaultHasher, Hasher},
    sync::{Arc, Mutex, PoisonError},
};

use super::{mask::Masker, text::Kind};

/// The most values that have a name of their own.
const MAX_VALUES: usize = 1 << 16;

/// The longest name of a parameter. A longer one is masked as a value.
const MAX_NAME: usize = 256;

/// The name of all other values.
pub(crate) const NO_NAME: &str = "id-more";

/// Parts of names of headers whose values are masked, in lower case.
const SECRETS: [&str; 11] =
    ["auth", "key", "secret", "token", "password", "session", "cookie", "credential", "signature", "csrf", "jwt"];

/// Headers with such a name that tell which secrets are needed. Only their tokens may be secrets.
const CHALLENGES: [&str; 2] = ["www-authenticate", "proxy-authenticate"];

/// Headers whose value is one URL.
const URLS: [&str; 3] = ["location", "content-location", "referer"];

/// The names of the values of a record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pseudonyms(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    // Keyed at random, so a value cannot be guessed from what is kept.
    keys: RandomState,
    names: Mutex<HashMap<u64, usize>>,
}

impl Pseudonyms {
    /// Begins to read a value with these bytes.
    fn hash(&self, bytes: &[u8]) -> DefaultHasher {
        let mut hash = self.0.keys.build_hasher();
        bytes.iter().for_each(|byte| hash.write_u8(*byte));
        hash
    }

    /// Returns the name of a value.
    fn name(&self, value: &DefaultHasher) -> String {
        let mut names = self.0.names.lock().unwrap_or_else(PoisonError::into_inner);
        let next = names.len() + 1;
        if next > MAX_VALUES {
            return names.get(&value.finish()).map_or_else(|| NO_NAME.into(), |number| format!("id-{number}"));
        }
        format!("id-{}", names.entry(value.finish()).or_insert(next))
    }

    /// Returns the name of a whole value.
    fn of(&self, value: &[u8]) -> String {
        self.name(&self.hash(value))
    }
}

/// Replaces the values of queries in bytes that pass by: in URLs after `?`, or in a form from the start.
#[derive(Debug)]
pub(crate) struct QueryMasker {
    names: Pseudonyms,
    state: Query,
    syntax: Syntax,
}

/// The syntax around a query, which decides where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    /// Nothing: the text is a form.
    Form,
    /// A blank or a fragment: the text is one URL.
    Url,
    /// These, or what stands around URLs in other texts. `,` and `'` are parts of queries.
    Text,
}

impl Syntax {
    const fn ends(self, byte: u8) -> bool {
        match self {
            Self::Form => false,
            Self::Url => matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'#'),
            Self::Text => matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'#' | b'"' | b'<' | b'>'),
        }
    }
}

#[derive(Debug)]
enum Query {
    /// Before a query.
    Before,
    /// In the name of a parameter, which is kept back: without a value it may be a secret itself.
    Name(Vec<u8>),
    /// After a name and one `=` or more, which are kept back: the name may be a secret in Base64, with its padding.
    Padded(Vec<u8>),
    /// In a value, of which nothing is written yet.
    Value(DefaultHasher),
    /// At the start of a line, within a query that began in a line before. Its first bytes are a value.
    Next,
}

impl QueryMasker {
    /// Creates a masker of a text with URLs.
    const fn text(names: Pseudonyms) -> Self {
        Self { names, state: Query::Before, syntax: Syntax::Text }
    }

    /// Creates a masker of a text with one URL, such as the first line of a request.
    const fn url(names: Pseudonyms) -> Self {
        Self { names, state: Query::Before, syntax: Syntax::Url }
    }

    /// Creates a masker of a form, whose text is a query.
    pub(crate) const fn form(names: Pseudonyms) -> Self {
        Self { names, state: Query::Name(Vec::new()), syntax: Syntax::Form }
    }

    const fn is_before(&self) -> bool {
        matches!(self.state, Query::Before)
    }

    /// Appends the bytes to `out`, with names instead of values. A value is written when its end is there.
    pub(crate) fn mask(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            let is_end = self.syntax.ends(byte);
            match &mut self.state {
                Query::Before if byte == b'?' => self.state = Query::Name(Vec::new()),
                Query::Before => {}
                Query::Padded(name) if byte == b'&' && name.iter().filter(|byte| **byte == b'=').count() == 1 => {
                    // A parameter without a value, before another one.
                    out.append(name);
                    self.state = Query::Name(Vec::new());
                }
                Query::Name(_) | Query::Padded(_) | Query::Value(_) | Query::Next if byte == b'&' => {
                    self.end(out);
                    self.state = Query::Name(Vec::new());
                }
                Query::Name(_) | Query::Padded(_) | Query::Value(_) | Query::Next if is_end => {
                    self.end(out);
                    self.state = Query::Before;
                }
                Query::Name(name) if byte == b'=' && !name.is_empty() => {
                    name.push(byte);
                    self.state = Query::Padded(std::mem::take(name));
                    continue;
                }
                Query::Padded(name) if byte != b'=' => {
                    let value = name.iter().position(|byte| *byte == b'=').map_or(name.len(), |at| at + 1);
                    out.extend_from_slice(&name[..value]);
                    let mut hash = self.names.hash(&name[value..]);
                    hash.write_u8(byte);
                    self.state = Query::Value(hash);
                    continue;
                }
                Query::Name(name) if byte == b'=' => {
                    out.push(byte);
                    self.state = Query::Value(self.names.hash(name));
                    continue;
                }
                Query::Name(name) | Query::Padded(name) => {
                    name.push(byte);
                    if name.len() > MAX_NAME {
                        self.state = Query::Value(self.names.hash(name));
                    }
                    continue;
                }
                Query::Value(hash) => {
                    hash.write_u8(byte);
                    continue;
                }
                Query::Next => {
                    self.state = Query::Value(self.names.hash(&[byte]));
                    continue;
                }
            }
            out.push(byte);
        }
    }

    /// Writes what was kept back: the text has ended.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        match &self.state {
            Query::Value(hash) => out.extend_from_slice(self.names.name(hash).as_bytes()),
            // As in `?1`, the value of some headers.
            Query::Name(name) if name.len() < 2 && self.syntax == Syntax::Text => out.extend_from_slice(name),
            Query::Name(name) | Query::Padded(name) if !name.is_empty() => {
                out.extend_from_slice(self.names.name(&self.names.hash(name)).as_bytes());
            }
            _ => {}
        }
        self.state = if self.syntax == Syntax::Form { Query::Name(Vec::new()) } else { Query::Before };
    }
}

/// Masks the heads of requests and responses.
#[derive(Clone, Debug)]
pub(crate) struct HeadMasker(Pseudonyms);

impl HeadMasker {
    pub(crate) const fn new(names: Pseudonyms) -> Self {
        Self(names)
    }

    /// Returns a head, or the fields of a trailer, with its secrets masked.
    pub(crate) fn mask(&self, head: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(head.len());
        let mut rest = head;
        while !rest.is_empty() {
            let (field, after) = rest.split_at(field_len(rest));
            self.field(field, &mut out);
            rest = after;
        }
        out
    }

    /// Masks the first line, or a field with the lines that it goes on in.
    fn field(&self, field: &[u8], out: &mut Vec<u8>) {
        let name_len = field.iter().position(|byte| *byte == b':').unwrap_or_default();
        let name = String::from_utf8_lossy(&field[..name_len]).trim().to_ascii_lowercase();
        let rest = &field[(name_len + 1).min(field.len())..];
        let value = rest.trim_ascii();
        let is_name = name_len > 0 && !name.contains(' ');
        let is_challenge = CHALLENGES.contains(&&*name);
        if is_name && !is_challenge && SECRETS.iter().any(|part| name.contains(part)) && !value.is_empty() {
            let mask = if name == "mcp-session-id" { self.0.of(value) } else { "***".into() };
            let before = rest.len() - rest.trim_ascii_start().len();
            let after = rest.trim_ascii_end().len();
            out.extend_from_slice(&field[..=name_len]);
            out.extend_from_slice(&rest[..before]);
            out.extend_from_slice(mask.as_bytes());
            out.extend_from_slice(&rest[after..]);
            return;
        }
        if !is_name || URLS.contains(&&*name) {
            return mask_url(&self.0, field, out);
        }
        let (mut urls, mut queried) = (QueryMasker::text(self.0.clone()), Vec::new());
        urls.mask(field, &mut queried);
        urls.end(&mut queried);
        if is_challenge {
            mask_challenges(&queried, out);
        } else {
            Masker::new(Kind::Text).mask(&queried, out);
        }
    }
}

/// Masks the tokens of challenges, such as that of `Negotiate`. Their parameters stay as they are.
fn mask_challenges(field: &[u8], out: &mut Vec<u8>) {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let is_end = |byte: &u8| {
        is_quoted ^= *byte == b'"' && !is_escaped;
        is_escaped = is_quoted && *byte == b'\\' && !is_escaped;
        matches!(byte, b',' | b':') && !is_quoted
    };
    for part in field.split_inclusive(is_end) {
        let text = part.strip_suffix(b",").unwrap_or(part).trim_ascii_end();
        let end = text.len();
        let start = end - text.trim_ascii_start().len();
        // After the scheme.
        let token = text[start..].iter().position(u8::is_ascii_whitespace).map(|len| start + len);
        let token = token.map(|at| end - text[at..].trim_ascii_start().len());
        match token.filter(|at| is_token(&text[*at..])) {
            Some(at) => {
                out.extend_from_slice(&part[..at]);
                out.extend_from_slice(b"***");
                out.extend_from_slice(&part[end..]);
            }
            None => out.extend_from_slice(part),
        }
    }
}

/// Returns whether a text is a token of a challenge: `token68` of RFC 9110.
fn is_token(text: &[u8]) -> bool {
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let bare = &text[..text.len() - padding];
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
    !bare.is_empty() && bare.iter().all(is_letter)
}

/// Returns the length of the first field, with the lines that it goes on in: those that begin with a blank.
fn field_len(bytes: &[u8]) -> usize {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let mut ends = ends.filter(|end| !matches!(bytes.get(*end), Some(b' ' | b'\t')));
    ends.next().unwrap_or(bytes.len())
}

/// Masks a text with one URL. All values of its query have names, so what looks like a secret there stays as it is: the
/// names tell sessions apart.
fn mask_url(names: &Pseudonyms, text: &[u8], out: &mut Vec<u8>) {
    let mut masker = UrlMasker::new(names.clone());
    masker.mask(text, out);
    masker.end(out);
}

/// Masks a text with one URL that passes by.
#[derive(Debug)]
pub(crate) struct UrlMasker {
    text: Masker,
    query: QueryMasker,
}

impl UrlMasker {
    pub(crate) const fn new(names: Pseudonyms) -> Self {
        Self { text: Masker::new(Kind::Text), query: QueryMasker::url(names) }
    }

    /// Appends the bytes to `out`, with names instead of values. A value is written when its end is there.
    pub(crate) fn mask(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            if !self.query.is_before() {
                if !Syntax::Url.ends(byte) {
                    self.query.mask(&[byte], out);
                    continue;
                }
                self.end(out);
            } else if byte == b'?' {
                self.query.mask(&[byte], out);
                continue;
            }
            self.text.mask(&[byte], out);
        }
    }

    /// Writes what was kept back: the text has ended.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        if !self.query.is_before() {
            self.query.end(out);
            self.text = Masker::new(Kind::Text);
        }
    }

    /// Writes what was kept back, before a line break within the URL. Its query may go on in the next line.
    pub(crate) fn end_line(&mut self, out: &mut Vec<u8>) {
        let is_query = !self.query.is_before();
        self.end(out);
        if is_query {
            self.query.state = Query::Next;
        } else {
            self.text.end_line(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queried(mut masker: QueryMasker, text: &str, chunk: usize) -> String {
        let mut out = Vec::new();
        for bytes in text.as_bytes().chunks(chunk) {
            masker.mask(bytes, &mut out);
        }
        masker.end(&mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn values_of_queries_have_names_in_chunks_of_any_size() {
        let rows = [
            (
                "data: /messages?sessionId=canary\n\ndata: {\"a\":\"b=c\"}",
                "data: /messages?sessionId=id-1\n\ndata: {\"a\":\"b=c\"}",
            ),
            ("/a?x=canary&y=other&z=canary&w=&v", "/a?x=id-1&y=id-2&z=id-1&w=&v"),
            ("no=query here", "no=query here"),
            ("/a?canary&x&other&=v", "/a?id-1&x&id-2&=id-3"),
            ("/a?canary== /b?x==canary&canary==&w= \n", "/a?id-1 /b?x=id-2&id-1&id-3 \n"),
        ];
        for (text, expected) in rows {
            for chunk in 1..=text.len() {
                assert_eq!(queried(QueryMasker::text(Pseudonyms::default()), text, chunk), expected, "{chunk}");
            }
        }
        let long = format!("/a?{}=canary&b=c", "n".repeat(MAX_NAME + 1));
        assert_eq!(queried(QueryMasker::url(Pseudonyms::default()), &long, 7), "/a?id-1&b=id-2");
        for chunk in 1..30 {
            let form = queried(QueryMasker::form(Pseudonyms::default()), "code=can ary#x&grant_type=b", chunk);
            assert_eq!(form, "code=id-1&grant_type=id-2");
        }
    }

    #[test]
    fn heads_have_no_secrets() {
        let masker = HeadMasker::new(Pseudonyms::default());
        let head = "POST /mcp?key=canary HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer canary\r\nCookie: a=canary; b=canary\r\n\
                    X-Goog-Signature:canary\r\nMcp-Session-Id: other-canary\r\nProxy-Authorization: Basic canary=\r\n\
                    Location: https://a/b?state=canary\r\nX-Note: password=canary\r\nMcp-Method: tools/call\r\n\r\n";
        let expected = "POST /mcp?key=id-1 HTTP/1.1\r\nHost: a\r\nAuthorization: ***\r\nCookie: ***\r\n\
                        X-Goog-Signature:***\r\nMcp-Session-Id: id-2\r\nProxy-Authorization: ***\r\n\
                        Location: https://a/b?state=id-1\r\nX-Note: password=***\r\nMcp-Method: tools/call\r\n\r\n";
        assert_eq!(String::from_utf8(masker.mask(head.as_bytes())).expect("text"), expected);
        let answer = masker.mask(b"HTTP/1.1 200 OK\r\nmcp-session-id:  other-canary \r\nSet-Cookie: x=canary\r\n\r\n");
        let expected = "HTTP/1.1 200 OK\r\nmcp-session-id:  id-2 \r\nSet-Cookie: ***\r\n\r\n";
        assert_eq!(String::from_utf8(answer).expect("text"), expected);
        for (head, expected) in [
            (
                &b"GET /m?a=x,canary&b='canary\"<canary>;canary HTTP/1.1\r\n\r\n"[..],
                "GET /m?a=id-3&b=id-4 HTTP/1.1\r\n\r\n",
            ),
            (b"X: y\r\nCookie: a=canary;\r\n b=canary\r\n\tc=canary\r\nY: z\r\n", "X: y\r\nCookie: ***\r\nY: z\r\n"),
            (b"Link: <https://a/?b=c,canary>; rel='x'\r\n", "Link: <https://a/?b=id-5>; rel='x'\r\n"),
            (b"Referer: https://a/?b='canary\r\n", "Referer: https://a/?b=id-6\r\n"),
            (b"GET /m?token=canary HTTP/1.1\r\n", "GET /m?token=id-1 HTTP/1.1\r\n"),
        ] {
            assert_eq!(String::from_utf8(masker.mask(head)).expect("text"), expected);
        }
        let challenge = "WWW-Authenticate: Bearer realm=\"a, b c\", resource_metadata=\"https://a/b\", Digest x=y\r\n";
        for (head, expected) in [
            (challenge, challenge),
            ("WWW-Authenticate: Negotiate\r\nA: b\r\n", "WWW-Authenticate: Negotiate\r\nA: b\r\n"),
            ("WWW-Authenticate: Negotiate canary+/==\r\n", "WWW-Authenticate: Negotiate ***\r\n"),
            ("Proxy-Authenticate:NTLM\r\n canary , Bearer a=b\r\n", "Proxy-Authenticate:NTLM\r\n *** , Bearer a=b\r\n"),
            (
                "WWW-Authenticate: Basic realm=\"a\\\"b\", Negotiate canary==\r\n",
                "WWW-Authenticate: Basic realm=\"a\\\"b\", Negotiate ***\r\n",
            ),
            ("Authorization: Negotiate canary==\r\n", "Authorization: ***\r\n"),
            ("GET /m?canary HTTP/1.1\r\n", "GET /m?id-1 HTTP/1.1\r\n"),
            ("GET /m?a=&canary&b#canary? HTTP/1.1\r\n", "GET /m?a=&id-1&id-7#canary? HTTP/1.1\r\n"),
            ("Sec-Fetch-User: ?1\r\n", "Sec-Fetch-User: ?1\r\n"),
        ] {
            assert_eq!(String::from_utf8(masker.mask(head.as_bytes())).expect("text"), expected);
        }
    }

    #[test]
    fn many_values_take_bounded_memory() {
        let names = Pseudonyms::default();
        for number in 0..MAX_VALUES + 10 {
            names.of(&number.to_le_bytes());
        }
        assert_eq!((names.of(b"new").as_str(), names.of(&0_usize.to_le_bytes()).as_str()), (NO_NAME, "id-1"));
        assert_eq!(names.0.names.lock().expect("it is free").len(), MAX_VALUES);
    }
}
