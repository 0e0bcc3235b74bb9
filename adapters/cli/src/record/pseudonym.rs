//! Replaces ids of sessions and values of queries by short names, the same ones for the same values of a record. So a
//! reader can tell sessions apart, and has no id that could be used.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::{BuildHasher, DefaultHasher, Hasher},
    sync::{Arc, Mutex, PoisonError},
};

use super::mask::{Kind, Masker};

/// The most values that have a name of their own.
const MAX_VALUES: usize = 1 << 16;

/// The name of all other values.
pub(crate) const NO_NAME: &str = "id-more";

/// Parts of names of headers whose values are masked, in lower case.
const SECRETS: [&str; 11] =
    ["auth", "key", "secret", "token", "password", "session", "cookie", "credential", "signature", "csrf", "jwt"];

/// Headers with such a name that tell which secrets are needed, and have none.
const NO_SECRETS: [&str; 2] = ["www-authenticate", "proxy-authenticate"];

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
    /// Begins to read a value.
    fn value(&self) -> DefaultHasher {
        self.0.keys.build_hasher()
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
        let mut hash = self.value();
        hash.write(value);
        self.name(&hash)
    }
}

/// Replaces the values of queries in bytes that pass by: in URLs after `?`, or in a form from the start.
#[derive(Debug)]
pub(crate) struct QueryMasker {
    names: Pseudonyms,
    state: Query,
    syntax: Syntax,
}

/// What ends a query.
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
    /// In the name of a parameter.
    Name,
    /// In a value, of which nothing is written yet.
    Value(DefaultHasher, bool),
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
        Self { names, state: Query::Name, syntax: Syntax::Form }
    }

    /// Appends the bytes to `out`, with names instead of values. A value is written when its end is there.
    pub(crate) fn mask(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            let is_end = self.syntax.ends(byte);
            match &mut self.state {
                Query::Before if byte == b'?' => self.state = Query::Name,
                Query::Before => {}
                Query::Name if byte == b'=' => self.state = Query::Value(self.names.value(), true),
                Query::Name if is_end => self.state = Query::Before,
                Query::Name => {}
                Query::Value(..) if byte == b'&' => {
                    self.end(out);
                    self.state = Query::Name;
                }
                Query::Value(..) if is_end => {
                    self.end(out);
                    self.state = Query::Before;
                }
                Query::Value(hash, is_empty) => {
                    hash.write_u8(byte);
                    *is_empty = false;
                    continue;
                }
            }
            out.push(byte);
        }
    }

    /// Writes what was kept back: the text has ended.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        if let Query::Value(hash, false) = &self.state {
            out.extend_from_slice(self.names.name(hash).as_bytes());
        }
        self.state = if self.syntax == Syntax::Form { Query::Name } else { Query::Before };
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
        let has_no_secret = NO_SECRETS.contains(&&*name);
        if is_name && !has_no_secret && SECRETS.iter().any(|part| name.contains(part)) && !value.is_empty() {
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
        if has_no_secret {
            out.extend_from_slice(&queried);
        } else {
            Masker::new(Kind::Text).mask(&queried, out);
        }
    }
}

/// Returns the length of the first field, with the lines that it goes on in: those that begin with a blank.
fn field_len(bytes: &[u8]) -> usize {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let mut ends = ends.filter(|end| !matches!(bytes.get(*end), Some(b' ' | b'\t')));
    ends.next().unwrap_or(bytes.len())
}

/// Masks a text with one URL. All values of its query have names, so what looks like a secret there stays as it is: the
/// names tell sessions apart.
pub(crate) fn mask_url(names: &Pseudonyms, text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while !rest.is_empty() {
        let query = rest.iter().position(|byte| *byte == b'?').unwrap_or(rest.len());
        let (before, after) = rest.split_at(query);
        Masker::new(Kind::Text).mask(before, out);
        let end = after.iter().position(|byte| Syntax::Url.ends(*byte)).unwrap_or(after.len());
        let (query, after) = after.split_at(end);
        let mut masker = QueryMasker::url(names.clone());
        masker.mask(query, out);
        masker.end(out);
        rest = after;
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
        ];
        for (text, expected) in rows {
            for chunk in 1..=text.len() {
                assert_eq!(queried(QueryMasker::text(Pseudonyms::default()), text, chunk), expected, "{chunk}");
            }
        }
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
        let challenge = b"WWW-Authenticate: Bearer realm=\"a\", resource_metadata=\"https://a/b\"\r\n";
        assert_eq!(masker.mask(challenge), challenge);
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
