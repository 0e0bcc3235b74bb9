//! Secrets of the requests of a check, which a server may repeat in its responses.

use std::collections::BTreeSet;

/// The most characters of a text that are no secret: shorter values stay as they are, and so do shorter beginnings of
/// longer ones.
const SHORTEST: usize = 8;

/// The text instead of a secret.
const MASK: &str = "***";

/// Masks secrets in reports.
#[derive(Clone, Debug, Default)]
pub(super) struct Secrets(BTreeSet<String>);

impl Secrets {
    /// Adds the value of a header. Of credentials, that is the part after the scheme.
    pub(super) fn add(&mut self, name: &str, value: &str) {
        let is_scheme = name.to_ascii_lowercase().ends_with("authorization");
        let bare = value.split_once(' ').filter(|_| is_scheme).map_or(value, |(_, credentials)| credentials).trim();
        if bare.chars().count() < SHORTEST {
            return;
        }
        self.0.insert(bare.to_owned());
    }

    pub(super) fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// Returns a text without the secrets. The beginning of one is masked, too: the text may have been cut.
    pub(super) fn mask(&self, text: &str) -> String {
        let mut masked = text.to_owned();
        for secret in &self.0 {
            let Some(first) = secret.chars().next() else { continue };
            let (mut out, mut rest) = (String::with_capacity(masked.len()), &*masked);
            while let Some(at) = rest.find(first) {
                let (before, found) = rest.split_at(at);
                out.push_str(before);
                rest = match after(found, secret) {
                    Some(after) => {
                        out.push_str(MASK);
                        after
                    }
                    None => {
                        out.push(first);
                        &found[first.len_utf8()..]
                    }
                };
            }
            out.push_str(rest);
            masked = out;
        }
        masked
    }
}

/// Returns what follows a secret, or the beginning of one, at the start of a text. In JSON, a slash may be escaped.
fn after<'a>(text: &'a str, secret: &str) -> Option<&'a str> {
    let (mut rest, mut count) = (text, 0);
    for letter in secret.chars() {
        let unescaped = rest.strip_prefix('\\').filter(|_| letter == '/').unwrap_or(rest);
        let Some(next) = unescaped.strip_prefix(letter) else { break };
        (rest, count) = (next, count + 1);
    }
    (count >= SHORTEST).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_their_beginnings_are_masked() {
        let mut secrets = Secrets::default();
        for (name, value) in [
            ("Authorization", "Bearer canary-token/1"),
            ("proxy-authorization", "Basic  canarybasic="),
            ("X-Key", "schlüssel eins"),
            ("X-Short", "short"),
        ] {
            secrets.add(name, value);
        }
        for (text, expected) in [
            (r#"{"a":"Bearer canary-token/1","b":"canary-token\/1"}"#, r#"{"a":"Bearer ***","b":"***"}"#),
            ("canary-t canary-token/1 canary- canary-token/", "*** *** canary- ***"),
            ("canarybasic=canarybasic=", "******"),
            ("schlüssel ein", "***"),
            ("Bearer Basic X-Key short schlüsse", "Bearer Basic X-Key short ***"),
            ("", ""),
        ] {
            assert_eq!(secrets.mask(text), expected);
        }
        assert_eq!(Secrets::default().mask("canary-token"), "canary-token");
    }
}
