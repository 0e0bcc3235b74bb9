//! Secrets of the requests of a check, which a server may repeat in its responses.

use std::collections::BTreeSet;

use mcp_proto::schema::decode_base64;

/// The fewest characters of a secret: shorter values stay as they are, and so do shorter beginnings of longer ones.
const SHORTEST: usize = 8;

/// The text instead of a secret.
const MASK: &str = "***";

/// The end of a text that was cut within another one.
pub(super) const CUT: char = '…';

/// Headers whose values are no secrets. Those of an origin or a media type are parts of many texts.
const HARMLESS: [&str; 10] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "content-type",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "origin",
    "user-agent",
];

/// Returns whether the value of a header may be a secret.
pub(super) fn is_secret(name: &str) -> bool {
    !HARMLESS.iter().any(|harmless| name.eq_ignore_ascii_case(harmless))
}

/// Masks secrets in reports.
#[derive(Clone, Debug, Default)]
pub(super) struct Secrets(BTreeSet<String>);

impl Secrets {
    /// Adds the value of a header, and its parts that may be secrets: each cookie, and what follows a scheme. Of
    /// credentials, the scheme is no secret.
    pub(super) fn add(&mut self, name: &str, value: &str) {
        if !is_secret(name) {
            return;
        }
        let name = name.to_ascii_lowercase();
        let (scheme, credentials) = value.trim().split_once(' ').unwrap_or_default();
        if !name.ends_with("authorization") || credentials.is_empty() {
            self.insert(value);
        }
        self.insert(credentials);
        if scheme.eq_ignore_ascii_case("basic")
            && let Some(pair) = decode_base64(credentials.trim()).and_then(|bytes| String::from_utf8(bytes).ok())
        {
            self.insert(&pair);
            self.insert(pair.split_once(':').unwrap_or_default().1);
        }
        if name == "cookie" {
            value.split(';').for_each(|cookie| self.insert(cookie.split_once('=').unwrap_or_default().1));
        }
    }

    /// Adds the values of the query of an address, as they are and without percent-encoding.
    pub(super) fn add_query(&mut self, query: &str) {
        for pair in query.split('&') {
            let value = pair.split_once('=').map_or(pair, |(_, value)| value);
            self.insert(value);
            for text in [value.to_owned(), value.replace('+', " ")] {
                self.insert(&String::from_utf8_lossy(&percent_decoded(&text)));
            }
        }
    }

    fn insert(&mut self, secret: &str) {
        let secret = secret.trim();
        if secret.chars().count() >= SHORTEST {
            self.0.insert(secret.to_owned());
        }
    }

    pub(super) fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// Returns a text without the secrets. Where the text was cut, the beginning of one is masked, too.
    pub(super) fn mask(&self, text: &str) -> String {
        self.mask_beginning(text, usize::MAX)
    }

    /// Returns the beginning of a text without the secrets. It has at least this many characters if the whole has.
    pub(super) fn mask_beginning(&self, text: &str, characters: usize) -> String {
        // Escapes may begin with any letter of a secret.
        let firsts: BTreeSet<_> = self.0.iter().filter_map(|secret| secret.chars().next()).chain(['\\']).collect();
        let (mut out, mut left, mut masked_to) = (String::new(), characters, 0);
        for (at, letter) in text.char_indices() {
            let found = firsts.contains(&letter).then(|| self.found_len(&text[at..])).flatten();
            // Secrets may overlap: what is masked is all that belongs to one of them.
            if at >= masked_to {
                if left == 0 {
                    break;
                }
                if found.is_some() {
                    out.push_str(MASK);
                    left = left.saturating_sub(MASK.len());
                } else {
                    out.push(letter);
                    left -= 1;
                }
            }
            masked_to = masked_to.max(at + found.unwrap_or_default());
        }
        out
    }

    /// Returns how many bytes at the start of a text are the longest secret there.
    fn found_len(&self, text: &str) -> Option<usize> {
        let all = self.0.iter().flat_map(|secret| [false, true].map(|is_json| found_len(text, secret, is_json)));
        all.flatten().max()
    }
}

/// Returns how many bytes at the start of a text are a secret, or the beginning of one if the text is cut there.
/// `is_json`: characters may be escaped as in JSON.
fn found_len(text: &str, secret: &str, is_json: bool) -> Option<usize> {
    let (mut rest, mut count) = (text, 0);
    for letter in secret.chars() {
        if rest.is_empty() || rest.starts_with(CUT) {
            return (count >= SHORTEST).then_some(text.len() - rest.len());
        }
        match after(rest, letter, is_json) {
            Some(next) => (rest, count) = (next, count + 1),
            None => return None,
        }
    }
    Some(text.len() - rest.len())
}

/// Returns what follows a letter at the start of a text. An escape may be cut.
fn after(text: &str, letter: char, is_json: bool) -> Option<&str> {
    let Some(escape) = text.strip_prefix('\\').filter(|_| is_json) else { return text.strip_prefix(letter) };
    if escape.is_empty() || escape.starts_with(CUT) {
        return Some(escape);
    }
    let short = match letter {
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        other => other,
    };
    if matches!(letter, '"' | '\\' | '/' | '\n' | '\r' | '\t')
        && let Some(rest) = escape.strip_prefix(short)
    {
        return Some(rest);
    }
    let mut rest = text;
    for unit in letter.encode_utf16(&mut [0; 2]) {
        let digits = [12, 8, 4, 0].map(|bits| char::from_digit(u32::from(*unit >> bits & 0xf), 16).unwrap_or_default());
        for expected in ['\\', 'u'].into_iter().chain(digits) {
            if rest.is_empty() || rest.starts_with(CUT) {
                return Some(rest);
            }
            rest = rest.strip_prefix(|it: char| it.to_ascii_lowercase() == expected)?;
        }
    }
    Some(rest)
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        let pair = after.get(..2).filter(|_| byte == b'%').and_then(|pair| str::from_utf8(pair).ok());
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                rest = &after[2..];
            }
            None => {
                out.push(byte);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(all: &[(&str, &str)]) -> Secrets {
        let mut secrets = Secrets::default();
        all.iter().for_each(|(name, value)| secrets.add(name, value));
        secrets
    }

    #[test]
    fn secrets_and_their_beginnings_are_masked() {
        let secrets = of(&[
            ("Authorization", "Bearer canary-token/1"),
            ("proxy-authorization", "Basic  canarybasic="),
            ("X-Key", "schlüssel eins"),
            ("X-Short", "short"),
        ]);
        for (text, expected) in [
            (r#"{"a":"Bearer canary-token/1","b":"canary-token\/1"}"#, r#"{"a":"Bearer ***","b":"***"}"#),
            ("canary-t canary-token/1 canary- canary-token/", "canary-t *** canary- ***"),
            ("canary-token…; canary-token\\…; canary-…", "***…; ***…; canary-…"),
            ("canarybasic=canarybasic=", "******"),
            ("schlüssel ein", "***"),
            ("Bearer Basic X-Key short schlüsse", "Bearer Basic X-Key short ***"),
            ("", ""),
        ] {
            assert_eq!(secrets.mask(text), expected);
        }
        assert_eq!(Secrets::default().mask("canary-token"), "canary-token");
    }

    #[test]
    fn secrets_that_begin_alike_are_masked_as_a_whole() {
        let secrets = of(&[
            ("X-A", "sk-proj-aaaaSECRETONE"),
            ("X-B", "sk-proj-bbbbSECRETTWO"),
            ("X-C", "sk-proj-bbbbSECRETTWOTHREE"),
            ("X-D", "repeatedrepeated-tail"),
            ("X-E", "ted-tail-of-another"),
        ]);
        for (text, expected) in [
            ("sk-proj-aaaaSECRETONE sk-proj-bbbbSECRETTWO", "*** ***"),
            ("sk-proj-bbbbSECRETTWOTHREE!", "***!"),
            ("repeatedrepeatedrepeated-tail", "repeated***"),
            ("repeatedrepeated-tail-of-another.", "***."),
            ("repeatedrepeated", "***"),
        ] {
            assert_eq!(secrets.mask(text), expected);
        }
    }

    /// Secrets of two letters repeat themselves and each other often.
    #[test]
    fn no_piece_of_a_secret_is_left() {
        let mut state = 7_u64;
        let mut word = |len: usize| -> String {
            (0..len)
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    if state >> 40 & 3 == 0 { 'b' } else { 'a' }
                })
                .collect()
        };
        for round in 0..2000 {
            let all: Vec<String> = (0..3).map(|_| word(8) + &word(8)).collect();
            let secrets = of(&all.iter().map(|secret| ("X-Key", secret.as_str())).collect::<Vec<_>>());
            let before = word(round % 20);
            let text = format!("{before}{}-{}.{}{}!", all[0], all[1], all[2], all[0]);
            let masked = secrets.mask(&text);
            let (head, tail) = masked.split_once('-').expect("it is in no secret");
            assert!(head.ends_with(MASK) && before.starts_with(head.split('*').next().unwrap_or_default()), "{text}");
            assert!(["***.***!", "***.******!"].contains(&tail), "{text} {masked}");
            assert!(all.iter().all(|secret| !masked.contains(&secret[8..]) || before.contains(&secret[8..])), "{text}");
        }
    }

    #[test]
    fn parts_and_encodings_of_secrets_are_masked() {
        let mut secrets = of(&[
            ("X-Auth", "Bearer canary-bearer"),
            ("Authorization", "basic YWRhOmNhbmFyeS1wYXNzd29yZA=="),
            ("Cookie", "a=canary-cookie; b=canary-other"),
            ("X-Quote", "canary\"quo\\teé"),
        ]);
        secrets.add_query("a=canary%2Fkey+1&canary-bare");
        for (text, expected) in [
            ("canary-bearer Bearer canary-bearer", "*** ***"),
            ("ada:canary-password canary-password YWRhOmNhbmFyeS1wYXNzd29yZA==", "*** *** ***"),
            ("canary-cookie canary-other", "*** ***"),
            ("canary%2Fkey+1 canary/key+1 canary/key 1 canary-bare", "*** *** *** ***"),
            ("canary\"quo\\teé", "***"),
            (r#""canary\"quo\\teé""#, r#""***""#),
            (r#""canary\u0022quo\u005Cte\u00e9""#, r#""***""#),
            (r#""\u0063anary\"quo\u00"#, r#""***"#),
        ] {
            assert_eq!(secrets.mask(text), expected);
        }
    }

    #[test]
    fn harmless_headers_are_no_secrets() {
        let secrets = of(&[
            ("Origin", "https://app.example.com"),
            ("accept-language", "en-US,en;q=0.5"),
            ("User-Agent", "Mozilla/5.0 (X11)"),
            ("MCP-Protocol-Version", "2025-11-25"),
            ("X-Site", "https://other.example.com"),
        ]);
        let text = "https://app.example.com en-US,en;q=0.5 Mozilla/5.0 (X11) 2025-11-25";
        assert_eq!(secrets.mask(text), text);
        assert_eq!(secrets.mask("https://other.example.com https://a"), "*** https://a");
    }
}
