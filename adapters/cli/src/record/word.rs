//! Names of secrets.

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

/// The last letters of a word.
#[derive(Debug)]
pub(super) struct Word {
    letters: [u8; WORD],
    len: usize,
}

impl Word {
    pub(super) const fn new() -> Self {
        Self { letters: [0; WORD], len: 0 }
    }

    /// Forgets the letters.
    pub(super) const fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds a byte, and returns whether it belongs to a name.
    pub(super) fn push(&mut self, byte: u8) -> bool {
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

    /// Returns the letters, in lower case.
    pub(super) fn get(&self) -> &[u8] {
        &self.letters[..self.len]
    }

    /// Returns whether this is the name of a secret.
    pub(super) fn is_secret(&self) -> bool {
        let word = self.get();
        SECRETS.iter().any(|end| word.ends_with(end)) && !NO_SECRETS.contains(&word)
    }

    /// Returns whether the value is a list of words: a scheme and credentials, or several cookies.
    pub(super) fn is_wide(&self) -> bool {
        let word = self.get();
        [&b"authorization"[..], b"cookie", b"cookies"].iter().any(|end| word.ends_with(end))
    }
}
