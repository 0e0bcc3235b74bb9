//! Masks secrets in bytes that pass by, with a fixed amount of memory.
//!
//! Bytes arrive in chunks that end anywhere, and must be recorded before they are forwarded. So this is a scanner with
//! a state and no parser of whole messages. It leaves the syntax of JSON as it is.

/// The replacement of a masked value.
pub(super) const MASK: &[u8] = b"***";

/// The longest name of a secret. Of longer words the end is compared.
const WORD: usize = 64;

/// Ends of names of secrets, in lower case and without `-` and `_`.
const SECRETS: [&[u8]; 14] = [
    b"authorization",
    b"cookie",
    b"cookies",
    b"password",
    b"passwd",
    b"passphrase",
    b"secret",
    b"token",
    b"apikey",
    b"privatekey",
    b"accesskey",
    b"credential",
    b"credentials",
    b"clientassertion",
];

/// Whole names that end like a secret and are none: members of the protocol, and cursors of lists.
const NO_SECRETS: [&[u8]; 5] =
    [b"progresstoken", b"pagetoken", b"nextpagetoken", b"continuationtoken", b"resumptiontoken"];

/// The syntax of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// JSON, in which texts may contain `name=value` and JSON with escapes.
    Json,
    /// Any text.
    Text,
}

/// The last letters of a word.
#[derive(Debug)]
struct Word {
    letters: [u8; WORD],
    len: usize,
}

impl Word {
    const fn new() -> Self {
        Self { letters: [0; WORD], len: 0 }
    }

    const fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds a byte, and returns whether it belongs to a name.
    fn push(&mut self, byte: u8) -> bool {
        match byte {
            b'-' | b'_' => true,
            byte if byte.is_ascii_alphanumeric() => {
                if self.len == WORD {
                    self.letters.copy_within(WORD / 2.., 0);
                    self.len = WORD / 2;
                }
                self.letters[self.len] = byte.to_ascii_lowercase();
                self.len += 1;
                true
            }
            _ => false,
        }
    }

    fn get(&self) -> &[u8] {
        &self.letters[..self.len]
    }

    fn is_secret(&self) -> bool {
        let word = self.get();
        SECRETS.iter().any(|end| word.ends_with(end)) && !NO_SECRETS.contains(&word)
    }

    /// Returns whether the value is a list of words: a scheme and credentials, or several cookies.
    fn is_wide(&self) -> bool {
        let word = self.get();
        [&b"authorization"[..], b"cookie", b"cookies"].iter().any(|end| word.ends_with(end))
    }
}

/// A place in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Where no secret begins.
    Other,
    /// After the name of a secret.
    Named,
    /// After the colon.
    Value,
    /// In a list that is the value.
    List,
}

#[derive(Clone, Copy, Debug)]
enum Json {
    Between(Place),
    /// In a text.
    Text,
    /// In a text that is a secret, or part of a list of secrets.
    Secret {
        list: bool,
        shown: bool,
    },
    /// In a number that is a secret.
    Number {
        list: bool,
    },
}

/// A place in text. `wide`: the value is several words. `list`: it is an element of a list.
#[derive(Clone, Copy, Debug)]
enum Text {
    Scan,
    /// After the name of a secret.
    Named {
        wide: bool,
    },
    /// After the colon or the equals sign, and this many backslashes, which are kept back.
    Value {
        wide: bool,
        list: bool,
        slashes: u32,
    },
    /// In quotes that have this many backslashes before them.
    Quoted {
        wide: bool,
        list: bool,
        quote: u8,
        slashes: u32,
        run: u32,
        shown: bool,
    },
    /// In a value without quotes, of which `word` has the first letters, and after this many backslashes, which are
    /// kept back.
    Bare {
        wide: bool,
        list: bool,
        run: u32,
    },
}

/// Masks the bytes of one stream.
#[derive(Debug)]
pub(crate) struct Masker {
    kind: Kind,
    json: Json,
    text: Text,
    name: Word,
    word: Word,
    /// The backslashes before the next byte, in a text of JSON.
    run: u32,
}

impl Masker {
    pub(crate) const fn new(kind: Kind) -> Self {
        let json = Json::Between(Place::Other);
        Self { kind, json, text: Text::Scan, name: Word::new(), word: Word::new(), run: 0 }
    }

    /// Appends the bytes to `out`, with the values of secrets replaced by three asterisks.
    pub(crate) fn mask(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            match self.kind {
                Kind::Json => self.json(byte, out),
                Kind::Text => self.text(byte, out),
            }
        }
    }

    /// Ends a line, and writes what was kept back, without the line break.
    pub(super) fn end_line(&mut self, out: &mut Vec<u8>) {
        self.mask(b"\n", out);
        out.pop();
    }

    /// Returns whether a line of JSON may end here: not within a text or a number.
    pub(super) const fn is_between(&self) -> bool {
        matches!(self.json, Json::Between(_))
    }

    fn json(&mut self, byte: u8, out: &mut Vec<u8>) {
        let is_end = byte == b'\n' || byte == b'"' && self.run.is_multiple_of(2);
        self.run = if byte == b'\\' { self.run.saturating_add(1) } else { 0 };
        match self.json {
            Json::Between(place) => self.between(place, byte, out),
            Json::Text if is_end => {
                let is_name = byte == b'"' && self.name.is_secret();
                self.end_text(out);
                self.json = Json::Between(if is_name { Place::Named } else { Place::Other });
                out.push(byte);
            }
            Json::Text => {
                // A secret may be the last part of a name, as in `db.password`.
                if !self.name.push(byte) {
                    self.name.clear();
                }
                self.text(byte, out);
            }
            Json::Secret { list, .. } if is_end => {
                let place = if list && byte == b'"' { Place::List } else { Place::Other };
                self.json = Json::Between(place);
                out.push(byte);
            }
            Json::Secret { list, shown } => {
                if !shown {
                    out.extend_from_slice(MASK);
                }
                self.json = Json::Secret { list, shown: true };
            }
            Json::Number { list } => {
                if !matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E') {
                    self.between(if list { Place::List } else { Place::Other }, byte, out);
                }
            }
        }
    }

    /// Ends the text that is scanned.
    fn end_text(&mut self, out: &mut Vec<u8>) {
        if matches!(self.text, Text::Value { slashes: 1.., .. }) {
            out.extend_from_slice(MASK);
        }
        self.word.clear();
        self.text = Text::Scan;
    }

    /// Takes a byte outside of texts and masked numbers.
    fn between(&mut self, place: Place, byte: u8, out: &mut Vec<u8>) {
        let list = place == Place::List;
        self.json = match (byte, place) {
            (b'"', Place::Value | Place::List) => Json::Secret { list, shown: false },
            // After `password=`, in a line that is no JSON.
            (b'"', Place::Other) if matches!(self.text, Text::Value { .. }) => {
                self.end_text(out);
                Json::Secret { list: false, shown: false }
            }
            (b'"', _) => {
                self.run = 0;
                self.name.clear();
                self.end_text(out);
                Json::Text
            }
            // In JSON there are no words outside of texts, so this concerns lines that are none.
            (_, Place::Other) => return self.text(byte, out),
            (b' ' | b'\t' | b'\r' | b'\n', place) => Json::Between(place),
            (b':', Place::Named) => Json::Between(Place::Value),
            (b'[', Place::Value) => Json::Between(Place::List),
            (b'0'..=b'9' | b'-', Place::Value | Place::List) => {
                out.push(b'"');
                out.extend_from_slice(MASK);
                out.push(b'"');
                self.json = Json::Number { list };
                return;
            }
            (b',' | b'a'..=b'z', Place::List) => Json::Between(Place::List),
            _ => Json::Between(Place::Other),
        };
        out.push(byte);
    }

    fn text(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.text = match self.text {
            Text::Scan => self.scan(byte),
            Text::Named { wide } => match byte {
                b'\\' | b'"' | b'\'' | b' ' => Text::Named { wide },
                b':' | b'=' => Text::Value { wide, list: false, slashes: 0 },
                _ => self.scan(byte),
            },
            Text::Value { wide, list, slashes } => return self.value(wide, list, slashes, byte, out),
            Text::Quoted { .. } => return self.quoted(byte, out),
            Text::Bare { wide, list, run } => return self.bare(wide, list, run, byte, out),
        };
        out.push(byte);
    }

    /// Takes a byte before a value.
    fn value(&mut self, wide: bool, list: bool, slashes: u32, byte: u8, out: &mut Vec<u8>) {
        let is_escape = slashes > 0 && self.kind == Kind::Json;
        let text = match byte {
            b'\\' => {
                self.text = Text::Value { wide, list, slashes: slashes.saturating_add(1) };
                return;
            }
            b'"' | b'\'' => Text::Quoted { wide, list, quote: byte, slashes, run: 0, shown: false },
            // An escaped blank, or an escaped line break in a list.
            b't' if is_escape => Text::Value { wide, list, slashes: 0 },
            b'n' | b'r' if is_escape && list => Text::Value { wide, list, slashes: 0 },
            b'n' | b'r' if is_escape => Text::Scan,
            b'\n' | b'\r' if list && self.kind == Kind::Text => Text::Value { wide, list, slashes: 0 },
            b'\n' | b'\r' => self.scan(byte),
            b' ' | b'\t' | b'=' | b'(' if slashes == 0 => Text::Value { wide, list, slashes },
            b'[' if slashes == 0 => Text::Value { wide, list: true, slashes },
            b',' if slashes == 0 && list => Text::Value { wide, list, slashes },
            b'{' | b',' | b';' | b'&' | b'}' | b']' | b')' if slashes == 0 => self.scan(byte),
            _ => {
                out.extend_from_slice(MASK);
                self.word.clear();
                self.word.push(byte);
                self.text = Text::Bare { wide, list, run: 0 };
                return;
            }
        };
        push_slashes(slashes, out);
        out.push(byte);
        self.text = text;
    }

    /// Takes a byte of a value without quotes. Escapes belong to it, except those of line breaks, blanks and quotes.
    fn bare(&mut self, wide: bool, list: bool, run: u32, byte: u8, out: &mut Vec<u8>) {
        if byte == b'\\' && self.kind == Kind::Json {
            self.text = Text::Bare { wide, list, run: run.saturating_add(1) };
            return;
        }
        // `Bearer` and `Basic` are followed by the secret.
        let is_scheme = [&b"bearer"[..], b"basic"].contains(&self.word.get());
        let is_end = match byte {
            b'\n' | b'\r' | b'"' => true,
            b'n' | b'r' if run > 0 => true,
            b't' if run > 0 => !wide && !is_scheme,
            _ if run > 0 => false,
            b',' | b']' if list => true,
            b'\'' | b',' | b';' | b'&' | b'<' | b'>' | b')' | b'}' | b']' => !wide,
            b' ' | b'\t' => !wide && !is_scheme,
            _ => false,
        };
        if !is_end {
            // The letter of an escaped blank is no part of a word.
            if byte != b't' || run == 0 {
                self.word.push(byte);
            }
            self.text = Text::Bare { wide, list, run: 0 };
            return;
        }
        self.word.clear();
        self.text = match byte {
            b',' if list => Text::Value { wide, list, slashes: 0 },
            b'n' | b'r' | b't' => Text::Scan,
            _ => self.scan(byte),
        };
        push_slashes(run, out);
        out.push(byte);
    }

    fn scan(&mut self, byte: u8) -> Text {
        if self.word.push(byte) {
            return Text::Scan;
        }
        let (is_secret, wide) = (self.word.is_secret(), self.word.is_wide());
        let is_bearer = self.word.get().ends_with(b"bearer");
        self.word.clear();
        match byte {
            b' ' if is_bearer => Text::Value { wide: false, list: false, slashes: 0 },
            b':' | b'=' if is_secret => Text::Value { wide, list: false, slashes: 0 },
            b'\\' | b'"' | b'\'' | b' ' if is_secret => Text::Named { wide },
            _ => Text::Scan,
        }
    }

    /// Takes a byte of a value in quotes. Its backslashes are kept back until it is known whether they end it.
    fn quoted(&mut self, byte: u8, out: &mut Vec<u8>) {
        let Text::Quoted { wide, list, quote, slashes, run, shown } = self.text else { return };
        let is_line_end = byte == b'\n';
        // Each level of nesting doubles the backslashes before a quote that ends the value.
        let is_quote_end = byte == quote && run % slashes.saturating_add(1).saturating_mul(2) == slashes;
        if is_quote_end || is_line_end {
            push_slashes(if is_line_end { 0 } else { run }, out);
            out.push(byte);
            self.word.clear();
            self.text = if list && is_quote_end { Text::Value { wide, list, slashes: 0 } } else { Text::Scan };
            return;
        }
        let run = if byte == b'\\' { run.saturating_add(1) } else { 0 };
        if !shown && run == 0 {
            out.extend_from_slice(MASK);
        }
        self.text = Text::Quoted { wide, list, quote, slashes, run, shown: shown || run == 0 };
    }
}

fn push_slashes(count: u32, out: &mut Vec<u8>) {
    out.extend((0..count).map(|_| b'\\'));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(kind: Kind, text: &str, chunk: usize) -> String {
        let (mut masker, mut out) = (Masker::new(kind), Vec::new());
        for bytes in text.as_bytes().chunks(chunk) {
            masker.mask(bytes, &mut out);
        }
        String::from_utf8(out).expect("UTF-8 stays UTF-8")
    }

    /// Secrets contain `canary`.
    const JSON: [(&str, &str); 41] = [
        (r#"{"password":"canary"}"#, r#"{"password":"***"}"#),
        (r#"{"api_key" : "can\"ary\\", "x":1}"#, r#"{"api_key" : "***", "x":1}"#),
        (r#"{"Authorization":"Bearer canary","id":1}"#, r#"{"Authorization":"***","id":1}"#),
        (r#"{"X-Api-Key":"canary"}"#, r#"{"X-Api-Key":"***"}"#),
        (r#"{"accessToken":12345,"a":2}"#, r#"{"accessToken":"***","a":2}"#),
        (r#"{"cookies":["canary","canary"],"a":"b"}"#, r#"{"cookies":["***","***"],"a":"b"}"#),
        (r#"{"password":""}"#, r#"{"password":""}"#),
        (r#"{"password":null,"a":"b"}"#, r#"{"password":null,"a":"b"}"#),
        // A schema, not a value.
        (r#"{"password":{"type":"string"}}"#, r#"{"password":{"type":"string"}}"#),
        (r#"{"required":["password"],"a":"b"}"#, r#"{"required":["password"],"a":"b"}"#),
        (r#"{"_meta":{"progressToken":"p"}}"#, r#"{"_meta":{"progressToken":"p"}}"#),
        (r#"{"maxTokens":7}"#, r#"{"maxTokens":7}"#),
        // A text that ends like a member does not reach into the next one.
        (r#"{"message":"Enter your password: ","id":5}"#, r#"{"message":"Enter your password: ","id":5}"#),
        (r#"{"text":"password: canary, ok"}"#, r#"{"text":"password: ***, ok"}"#),
        (r#"{"text":"a\nAPI_KEY=canary\nb"}"#, r#"{"text":"a\nAPI_KEY=***\nb"}"#),
        (r#"{"text":"{\"token\":\"ca\\\"nary\",\"a\":1}"}"#, r#"{"text":"{\"token\":\"***\",\"a\":1}"}"#),
        (r#"{"text":"{\\\"secret\\\":\\\"canary\\\"}"}"#, r#"{"text":"{\\\"secret\\\":\\\"***\\\"}"}"#),
        (r#"["curl -H 'Authorization: Bearer canary' x"]"#, r#"["curl -H 'Authorization: ***"]"#),
        (r#"{"value":"Bearer canary"}"#, r#"{"value":"Bearer ***"}"#),
        (r#"{"url":"https://a/?access_token=canary&b=1"}"#, r#"{"url":"https://a/?access_token=***&b=1"}"#),
        // Escapes in values.
        (r#"{"text":"token=ab\/canary","a":1}"#, r#"{"text":"token=***","a":1}"#),
        (r#"{"text":"password=p\u00e9canary x"}"#, r#"{"text":"password=*** x"}"#),
        (r#"{"text":"password=\u00e9canary x"}"#, r#"{"text":"password=*** x"}"#),
        (r#"{"text":"password=\\canary x"}"#, r#"{"text":"password=*** x"}"#),
        (r#"{"text":"password=a\\canary"}"#, r#"{"text":"password=***"}"#),
        (r#"{"text":"password=\\"}"#, r#"{"text":"password=***"}"#),
        (r#"{"text":"token:\tcanary\tx"}"#, r#"{"text":"token:\t***\tx"}"#),
        (r#"{"text":"token=Bearer\tcanary x"}"#, r#"{"text":"token=*** x"}"#),
        (r#"{"text":"token=\nx"}"#, r#"{"text":"token=\nx"}"#),
        (r#"{"text":"say \"token=canary\" x"}"#, r#"{"text":"say \"token=***\" x"}"#),
        (r#"{"text":"{\"token\":\"canary\\\\\",\"a\":\"b\"}"}"#, r#"{"text":"{\"token\":\"***\\\\\",\"a\":\"b\"}"}"#),
        // Names of several parts.
        (r#"{"spring.datasource.password":"canary"}"#, r#"{"spring.datasource.password":"***"}"#),
        (r#"{"db:token":"canary","a":1}"#, r#"{"db:token":"***","a":1}"#),
        (r#"{"user password":"canary"}"#, r#"{"user password":"***"}"#),
        (r#"["user password","b"]"#, r#"["user password","b"]"#),
        // Lists in texts.
        (
            r#"{"text":"{\"cookies\":[\"canary\", \"canary\"],\"a\":1}"}"#,
            r#"{"text":"{\"cookies\":[\"***\", \"***\"],\"a\":1}"}"#,
        ),
        (
            r#"{"text":"{\"token\":[\n\"canary\",\n7\n],\"a\":1}"}"#,
            r#"{"text":"{\"token\":[\n\"***\",\n***\n],\"a\":1}"}"#,
        ),
        (r#"{"text":"tokens, token: [canary, canary] x"}"#, r#"{"text":"tokens, token: [***, ***] x"}"#),
        // Lines that are no JSON.
        ("password=canary x\n{\"a\":1}", "password=*** x\n{\"a\":1}"),
        ("password: \"canary\" x\n{\"a\":\"b\"}", "password: \"***\" x\n{\"a\":\"b\"}"),
        ("a banner: \"password\n{\"password\":\"canary\"}", "a banner: \"password\n{\"password\":\"***\"}"),
    ];

    #[test]
    fn secrets_in_json_are_masked_in_chunks_of_any_size() {
        for (text, expected) in JSON {
            for chunk in 1..=text.len() {
                assert_eq!(masked(Kind::Json, text, chunk), expected, "{text} by {chunk}");
            }
            assert!(!expected.contains("canary"));
        }
    }

    #[test]
    fn json_stays_json() {
        for (text, _) in JSON.iter().filter(|(text, _)| !text.contains('\n')) {
            serde_json::from_str::<serde_json::Value>(&masked(Kind::Json, text, 5)).expect(text);
        }
    }

    #[test]
    fn secrets_in_text_are_masked() {
        for (text, expected) in [
            ("token=canary x", "token=*** x"),
            ("Authorization: Basic canary\nnext", "Authorization: ***\nnext"),
            ("client_secret: \"can ary\" x", "client_secret: \"***\" x"),
            ("token: Bearer canary x", "token: *** x"),
            ("the token is missing", "the token is missing"),
            (r"password=\canary\n x", "password=*** x"),
            (r#"{"password": "\\", "a": "b"}"#, r#"{"password": "\\", "a": "b"}"#),
            (
                "{'tokens': 1, 'cookies': ['canary',\n 'canary'], 'a': 'b'}",
                "{'tokens': 1, 'cookies': ['***',\n '***'], 'a': 'b'}",
            ),
            ("{'apiKey': 'canary'}", "{'apiKey': '***'}"),
            ("Set-Cookie: a=canary; b=canary\r\nX: y", "Set-Cookie: ***\r\nX: y"),
        ] {
            for chunk in 1..=text.len() {
                assert_eq!(masked(Kind::Text, text, chunk), expected, "{text} by {chunk}");
            }
        }
    }

    #[test]
    fn long_words_take_no_memory() {
        let long = format!("{{\"{}password\":\"canary\"}}", "x".repeat(10_000));
        assert!(!masked(Kind::Json, &long, 7).contains("canary"));
    }
}
