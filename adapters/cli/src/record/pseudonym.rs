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

/// Parts of names of headers whose values are masked, in lower case.
const SECRETS: [&str; 11] =
    ["auth", "key", "secret", "token", "password", "session", "cookie", "credential", "signature", "csrf", "jwt"];

/// Headers with such a name that tell which secrets are needed, and have none.
const NO_SECRETS: [&str; 2] = ["www-authenticate", "proxy-authenticate"];

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
            return names.get(&value.finish()).map_or_else(|| "id-more".into(), |number| format!("id-{number}"));
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
    /// Whether a value may contain everything but `&`, as in a form.
    is_form: bool,
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
    pub(crate) const fn urls(names: Pseudonyms) -> Self {
        Self { names, state: Query::Before, is_form: false }
    }

    /// Creates a masker of a form, whose text is a query.
    pub(crate) const fn form(names: Pseudonyms) -> Self {
        Self { names, state: Query::Name, is_form: true }
    }

    /// Appends the bytes to `out`, with names instead of values. A value is written when its end is there.
    pub(crate) fn mask(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            let is_end = matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'"' | b'\'' | b'<' | b'>' | b',' | b'#');
            match &mut self.state {
                Query::Before if byte == b'?' => self.state = Query::Name,
                Query::Before => {}
                Query::Name if byte == b'=' => self.state = Query::Value(self.names.value(), true),
                Query::Name if is_end && !self.is_form => self.state = Query::Before,
                Query::Name => {}
                Query::Value(..) if byte == b'&' => {
                    self.end(out);
                    self.state = Query::Name;
                }
                Query::Value(..) if is_end && !self.is_form => {
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
        self.state = if self.is_form { Query::Name } else { Query::Before };
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
        let mut text = Masker::new(Kind::Text);
        for line in head.split_inclusive(|byte| *byte == b'\n') {
            let name_len = line.iter().position(|byte| *byte == b':').unwrap_or_default();
            let name = String::from_utf8_lossy(&line[..name_len]).trim().to_ascii_lowercase();
            let rest = &line[(name_len + 1).min(line.len())..];
            let value = rest.trim_ascii();
            let is_name = name_len > 0 && !name.contains(' ');
            let is_secret = is_name
                && !NO_SECRETS.contains(&name.as_str())
                && SECRETS.iter().any(|part| name.contains(part))
                && !value.is_empty();
            if is_secret {
                let mask = if name == "mcp-session-id" { self.0.of(value) } else { "***".into() };
                let before = rest.len() - rest.trim_ascii_start().len();
                let after = rest.trim_ascii_end().len();
                out.extend_from_slice(&line[..=name_len]);
                out.extend_from_slice(&rest[..before]);
                out.extend_from_slice(mask.as_bytes());
                out.extend_from_slice(&rest[after..]);
                continue;
            }
            let (mut urls, mut queried) = (QueryMasker::urls(self.0.clone()), Vec::new());
            urls.mask(line, &mut queried);
            urls.end(&mut queried);
            if NO_SECRETS.contains(&name.as_str()) {
                out.extend_from_slice(&queried);
            } else {
                text.mask(&queried, &mut out);
            }
        }
        out
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
                assert_eq!(queried(QueryMasker::urls(Pseudonyms::default()), text, chunk), expected, "{chunk}");
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
        let challenge = b"WWW-Authenticate: Bearer realm=\"a\", resource_metadata=\"https://a/b\"\r\n";
        assert_eq!(masker.mask(challenge), challenge);
    }

    #[test]
    fn many_values_take_bounded_memory() {
        let names = Pseudonyms::default();
        for number in 0..MAX_VALUES + 10 {
            names.of(&number.to_le_bytes());
        }
        assert_eq!((names.of(b"new").as_str(), names.of(&0_usize.to_le_bytes()).as_str()), ("id-more", "id-1"));
        assert_eq!(names.0.names.lock().expect("it is free").len(), MAX_VALUES);
    }
}
