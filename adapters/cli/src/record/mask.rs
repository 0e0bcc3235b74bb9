//! Masks secrets in bytes that pass by, with a fixed amount of memory.
//!
//! Bytes arrive in chunks that end anywhere, and must be recorded before they are forwarded. So this is a scanner with
//! a state and no parser of whole messages. It leaves the syntax of JSON as it is.

use super::text::{Kind, MASK, TextMasker};

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

/// Masks the bytes of one stream.
#[derive(Debug)]
pub(crate) struct Masker {
    kind: Kind,
    json: Json,
    text: TextMasker,
    /// The backslashes before the next byte, in a text of JSON.
    run: u32,
}

impl Masker {
    pub(crate) const fn new(kind: Kind) -> Self {
        Self { kind, json: Json::Between(Place::Other), text: TextMasker::new(kind), run: 0 }
    }

    /// Appends the bytes to `out`, with the values of secrets replaced by three asterisks.
    pub(crate) fn mask(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            match self.kind {
                Kind::Json => self.json(byte, out),
                Kind::Text => self.text.take(byte, out),
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

    /// Returns whether the last byte belongs to a number that is masked.
    pub(super) const fn is_number(&self) -> bool {
        matches!(self.json, Json::Number { .. })
    }

    fn json(&mut self, byte: u8, out: &mut Vec<u8>) {
        let is_end = byte == b'\n' || byte == b'"' && self.run.is_multiple_of(2);
        self.run = if byte == b'\\' { self.run.saturating_add(1) } else { 0 };
        match self.json {
            Json::Between(place) => self.between(place, byte, out),
            Json::Text if is_end => {
                let is_name = self.text.end(out) && byte == b'"';
                self.json = Json::Between(if is_name { Place::Named } else { Place::Other });
                out.push(byte);
            }
            Json::Text => self.text.take(byte, out),
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

    /// Takes a byte outside of texts and masked numbers.
    fn between(&mut self, place: Place, byte: u8, out: &mut Vec<u8>) {
        let list = place == Place::List;
        self.json = match (byte, place) {
            (b'"', Place::Value | Place::List) => Json::Secret { list, shown: false },
            // After `password=`, in a line that is no JSON.
            (b'"', Place::Other) if self.text.is_before_value() => {
                self.text.end(out);
                Json::Secret { list: false, shown: false }
            }
            (b'"', _) => {
                self.run = 0;
                self.text.end(out);
                Json::Text
            }
            // In JSON there are no words outside of texts, so this concerns lines that are none.
            (_, Place::Other) => {
                self.json = Json::Between(place);
                return self.text.take(byte, out);
            }
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
    const JSON: &[(&str, &str)] = &[
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
        // Quotes and signs that are written as escapes, in JSON that a text contains and in other texts.
        (r#"{"text":"{\u0022token\u0022:\u0022canary\u0022}"}"#, r#"{"text":"{\u0022token\u0022:\u0022***\u0022}"}"#),
        (
            r#"{"text":"{\u0022token\u0022:\u0022can\\u0022ary\\\\\u0022,\u0022a\u0022:1}"}"#,
            r#"{"text":"{\u0022token\u0022:\u0022***\\\\\u0022,\u0022a\u0022:1}"}"#,
        ),
        (
            r#"{"a":"{\u0022b\u0022:\u0022{\\u0022token\\u0022:\\u0022canary\\u0022}\u0022}"}"#,
            r#"{"a":"{\u0022b\u0022:\u0022{\\u0022token\\u0022:\\u0022***\\u0022}\u0022}"}"#,
        ),
        (
            r#"{"a":"{\u0022b\u0022:\u0022{\\\u0022token\\\u0022:\\\u0022canary\\\u0022}\u0022}"}"#,
            r#"{"a":"{\u0022b\u0022:\u0022{\\\u0022token\\\u0022:\\\u0022***\\\u0022}\u0022}"}"#,
        ),
        (
            r#"{"text":"{\"token\u0022: \u0022canary\", \"a\":1}"}"#,
            r#"{"text":"{\"token\u0022: \u0022***\", \"a\":1}"}"#,
        ),
        (r#"{"text":"{\u0027token\u0027: \u0027canary\u0027}"}"#, r#"{"text":"{\u0027token\u0027: \u0027***\u0027}"}"#),
        (
            r#"{"text":"{\u0022cookies\u0022:[\u0022canary\u0022,\u000a\u0022canary\u0022],\u0022a\u0022:1}"}"#,
            r#"{"text":"{\u0022cookies\u0022:[\u0022***\u0022,\u000a\u0022***\u0022],\u0022a\u0022:1}"}"#,
        ),
        (r#"{"text":"password\u003dcanary x"}"#, r#"{"text":"password\u003d*** x"}"#),
        (r#"{"text":"password\u003A canary x"}"#, r#"{"text":"password\u003A *** x"}"#),
        (r#"{"text":"password\\u003dcanary x"}"#, r#"{"text":"password\\u003d*** x"}"#),
        (r#"{"text":"password=canary\u0020x"}"#, r#"{"text":"password=***\u0020x"}"#),
        (r#"{"text":"password=canary\u000ax"}"#, r#"{"text":"password=***\u000ax"}"#),
        (r#"{"text":"token=\u0022can\u00e9ary\u0022 x"}"#, r#"{"text":"token=\u0022***\u0022 x"}"#),
        (r#"{"text":"token=\ud83d\ude00canary x"}"#, r#"{"text":"token=*** x"}"#),
        (r#"{"text":"token=Bearer\u0020canary x"}"#, r#"{"text":"token=*** x"}"#),
        (r#"{"text":"say \u0022token=canary\u0022 x"}"#, r#"{"text":"say \u0022token=***\u0022 x"}"#),
        (
            r#"{"url":"https://a/?access_token=canary\u0026b=1\u0026pageToken=2"}"#,
            r#"{"url":"https://a/?access_token=***\u0026b=1\u0026pageToken=2"}"#,
        ),
        // What is no escape, and what is cut.
        (r#"{"text":"token=\\u0canary x"}"#, r#"{"text":"token=*** x"}"#),
        (r#"{"text":"a\\u00token=canary x"}"#, r#"{"text":"a\\u00token=*** x"}"#),
        (r#"{"text":"token=\\u00","a":"b"}"#, r#"{"text":"token=***","a":"b"}"#),
        (r#"{"text":"token='\\u00","a":"b"}"#, r#"{"text":"token='***","a":"b"}"#),
        // Names that are written with escapes.
        (r#"{"p\u0061ssword":"canary"}"#, r#"{"p\u0061ssword":"***"}"#),
        (r#"{"cl\u00e9_token":"canary","a":"b"}"#, r#"{"cl\u00e9_token":"***","a":"b"}"#),
        (r#"{"token\u0022":"a","token\\":"b"}"#, r#"{"token\u0022":"a","token\\":"b"}"#),
        (r#"{"text":"p\u0061ssword=canary x"}"#, r#"{"text":"p\u0061ssword=*** x"}"#),
        (r#"{"text":"t\u00e9 token=canary x"}"#, r#"{"text":"t\u00e9 token=*** x"}"#),
        // Quotes within quotes.
        (r#"{"text":"password='can\\'ary' x"}"#, r#"{"text":"password='***' x"}"#),
        (r#"{"text":"password=\u0027can\\\u0027ary\u0027 x"}"#, r#"{"text":"password=\u0027***\u0027 x"}"#),
        // Arrows.
        (
            r#"{"text":"{:token=>\"canary\", \"secret\" => \"canary\"}"}"#,
            r#"{"text":"{:token=>\"***\", \"secret\" => \"***\"}"}"#,
        ),
        (r#"{"text":"token =\u003e \u0027canary\u0027 x"}"#, r#"{"text":"token =\u003e \u0027***\u0027 x"}"#),
        (r#"{"text":"[token] => canary\nx"}"#, r#"{"text":"[token] => ***\nx"}"#),
        (r#"{"text":"[\"password\"],\"a\":[\"b\"]"}"#, r#"{"text":"[\"password\"],\"a\":[\"b\"]"}"#),
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
        for &(text, expected) in JSON {
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

    /// Texts of random pieces, with and without names of secrets, at two levels of nesting.
    #[test]
    fn random_json_stays_json_in_chunks_of_any_size() {
        const PIECES: [&str; 24] = [
            "token",
            "a",
            "=",
            ":",
            ">",
            " ",
            "'",
            "[",
            "]",
            ",",
            "u",
            "00",
            "\\\"",
            "\\\\",
            "\\/",
            "\\n",
            "\\t",
            "\\u0022",
            "\\u0027",
            "\\u005c",
            "\\u003d",
            "\\ud83d\\ude00",
            "\\\\u0022",
            "Bearer ",
        ];
        let mut state = 7_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        for _ in 0..4000 {
            let text: String = (0..random(12)).map(|_| PIECES[random(PIECES.len())]).collect();
            let text = format!(r#"{{"{text}":"token={text}","b":[1,"{text}"]}}"#);
            let whole = masked(Kind::Json, &text, text.len());
            serde_json::from_str::<serde_json::Value>(&whole).unwrap_or_else(|error| panic!("{text} {whole} {error}"));
            for chunk in [1, 2, 5] {
                assert_eq!(masked(Kind::Json, &text, chunk), whole, "{text} by {chunk}");
            }
        }
    }

    /// Returns a text of JSON. The encoders write no signs, some, or also backslashes as escapes.
    fn encoded(text: &str, encoder: u32) -> String {
        let escapes: &[(&str, &str)] = match encoder {
            0 => &[],
            1 => &[(r#"\""#, r"\u0022"), ("'", r"\u0027"), ("&", r"\u0026"), ("=", r"\u003d")],
            _ => &[(r"\\", r"\u005c"), (r#"\""#, r"\u0022"), (":", r"\u003A"), (">", r"\u003E"), ("n", r"\u006e")],
        };
        let text = serde_json::to_string(text).expect("JSON");
        let inner = text[1..text.len() - 1].replace(r"\n", r"\u000a");
        let inner = escapes.iter().fold(inner, |text, (sign, escape)| text.replace(sign, escape));
        format!("\"{inner}\"")
    }

    #[test]
    fn secrets_are_masked_at_any_level_by_any_encoder() {
        let secrets =
            ["canary", "can\"canary", "\"canary", "\\canary", "can\\\"canary\\", "é'&=>:canary", "\ncanary x"];
        for secret in secrets {
            // The encoders of the text, of the text in it, and so on.
            for encoders in 0..81_u32 {
                for depth in 0..4 {
                    let mut text = format!("{{\"a\":1,\"token\" : {},\"b\":\"c\"}}", encoded(secret, encoders % 3));
                    for level in 1..=depth {
                        text = format!("{{\"text\":{},\"d\":1}}", encoded(&text, encoders / 3_u32.pow(level) % 3));
                    }
                    for chunk in [1, text.len()] {
                        let masked = masked(Kind::Json, &text, chunk);
                        assert!(masked.contains("***"), "{text} {masked}");
                        let mut value: serde_json::Value = serde_json::from_str(&masked).expect(&masked);
                        while let Some(inner) = value["text"].as_str() {
                            value = serde_json::from_str(inner).expect(&masked);
                        }
                        assert!(!value.to_string().contains("ary"), "{text} {masked}");
                        assert_eq!((&value["a"], &value["b"]), (&1.into(), &"c".into()), "{masked}");
                    }
                }
            }
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
            ("token => 'canary', x", "token => '***', x"),
            ("{:token=>\"canary\"}", "{:token=>\"***\"}"),
            ("user[password]=canary&a=b", "user[password]=***&a=b"),
            ("token= >canary x", "token= *** x"),
            ("token==>canary x", "token==>*** x"),
            (r#"{"a":"{\u0022token\u0022:\u0022canary\u0022}"}"#, r#"{"a":"{\u0022token\u0022:\u0022***\u0022}"}"#),
            (r"password\u003dcanary\n x", r"password\u003d*** x"),
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
