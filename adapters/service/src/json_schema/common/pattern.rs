//! Patterns: the part of the regular expressions of ECMA-262 that means the same to the crate `regex-lite`.
//!
//! Look-around, back references, properties of Unicode, names and flags are not part of it.

use std::fmt::Write as _;

use regex_lite::{Regex, RegexBuilder};

/// The sizes of compiled patterns in bytes. A pattern is charged for the smallest one that it fits.
const SIZES: [usize; 9] = [512, 1 << 10, 2 << 10, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10];

/// The least size of a state in bytes.
const STATE: usize = 16;

/// How deep groups may be nested.
const MAX_GROUPS: u32 = 50;

/// White space and ends of lines, as members of a class.
const SPACES: &str = r"\t-\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}";

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// An upper bound of the number of states.
    states: u64,
}

impl Pattern {
    /// Compiles a pattern; `None` if it has another syntax, or is too large.
    pub(super) fn new(pattern: &str) -> Option<Self> {
        let mut translation = Translation { rest: pattern, text: String::new() };
        translation.choices()?;
        let compile = |size: &usize| {
            let built = RegexBuilder::new(&translation.text).size_limit(*size).nest_limit(2 * MAX_GROUPS).build();
            built.ok().map(|regex| Self { regex, states: (size / STATE) as u64 })
        };
        SIZES.iter().find_map(compile)
    }

    /// Returns the memory that the compiled pattern takes at most, in bytes. A search takes as much again.
    pub(super) const fn size(&self) -> usize {
        self.states as usize * STATE
    }

    /// Returns the steps that a search in a text takes at most.
    pub(super) fn steps(&self, text: &str) -> u64 {
        self.states.saturating_mul(text.len() as u64 + 1)
    }

    /// Returns whether a part of a text matches.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// Translates a pattern, or refuses one with another meaning.
struct Translation<'a> {
    rest: &'a str,
    text: String,
}

impl Translation<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn skip(&mut self, prefix: &str) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Translates the whole pattern.
    fn choices(&mut self) -> Option<()> {
        let mut groups = 0;
        // Whether what was translated last can be repeated.
        let mut is_part = false;
        while let Some(c) = self.next() {
            is_part = match c {
                '(' => {
                    if self.rest.starts_with('?') && !self.skip("?:") {
                        return None;
                    }
                    groups += 1;
                    self.text.push_str("(?:");
                    (groups <= MAX_GROUPS).then_some(false)?
                }
                ')' => {
                    groups = u32::checked_sub(groups, 1)?;
                    self.text.push(')');
                    true
                }
                '|' | '^' | '$' => {
                    self.text.push(c);
                    false
                }
                '*' | '+' | '?' | '{' => {
                    self.repetition(c, is_part)?;
                    false
                }
                '.' => {
                    self.text.push_str(r"[^\n\r\x{2028}\x{2029}]");
                    true
                }
                '[' => {
                    self.class()?;
                    true
                }
                ']' | '}' => return None,
                '\\' => self.escape()?,
                c => {
                    self.literal(c);
                    true
                }
            };
        }
        (groups == 0).then_some(())
    }

    /// Translates a repetition of a part.
    fn repetition(&mut self, c: char, is_part: bool) -> Option<()> {
        if !is_part {
            return None;
        }
        self.text.push(c);
        if c == '{' {
            let (counts, rest) = self.rest.split_once('}')?;
            let (least, most) = counts.split_once(',').map_or((counts, None), |(least, most)| (least, Some(most)));
            let number =
                |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
            let least = number(least)?;
            if let Some(most) = most.filter(|most| !most.is_empty()) {
                (number(most)? >= least).then_some(())?;
            }
            write!(self.text, "{counts}}}").ok()?;
            self.rest = rest;
        }
        if self.skip("?") {
            self.text.push('?');
        }
        Some(())
    }

    /// Translates an escape outside of a class. Returns whether it can be repeated.
    fn escape(&mut self) -> Option<bool> {
        match self.next()? {
            c @ ('b' | 'B') => {
                write!(self.text, "\\{c}").ok()?;
                return Some(false);
            }
            c @ ('d' | 'D' | 'w' | 'W') => write!(self.text, "\\{c}").ok()?,
            's' => write!(self.text, "[{SPACES}]").ok()?,
            'S' => write!(self.text, "[^{SPACES}]").ok()?,
            c => {
                let c = self.escaped(c)?;
                self.literal(c);
            }
        }
        Some(true)
    }

    /// Returns the character of an escape that stands for one.
    fn escaped(&mut self, c: char) -> Option<char> {
        let mut code = |digits: usize| {
            let (code, rest) = self.rest.split_at_checked(digits)?;
            let is_code = code.bytes().all(|byte| byte.is_ascii_hexdigit());
            let code = u32::from_str_radix(code, 16).ok().filter(|_| is_code)?;
            self.rest = rest;
            char::from_u32(code)
        };
        match c {
            't' => Some('\t'),
            'n' => Some('\n'),
            'v' => Some('\u{b}'),
            'f' => Some('\u{c}'),
            'r' => Some('\r'),
            'x' => code(2),
            'u' => code(4),
            c => c.is_ascii_punctuation().then_some(c).filter(|c| *c != '_'),
        }
    }

    /// Writes a character that stands for itself.
    fn literal(&mut self, c: char) {
        if c.is_ascii_punctuation() || c.is_control() || c.is_whitespace() {
            let _ = write!(self.text, "\\x{{{:X}}}", u32::from(c));
        } else {
            self.text.push(c);
        }
    }

    /// Translates a class of characters.
    fn class(&mut self) -> Option<()> {
        self.text.push('[');
        if self.skip("^") {
            self.text.push('^');
        }
        // An empty class is nothing that the crate has.
        let mut is_empty = true;
        loop {
            let c = self.next()?;
            if c == ']' {
                break;
            }
            is_empty = false;
            let Some(first) = self.member(c)? else { continue };
            self.literal(first);
            let is_range = self.rest.starts_with('-') && !self.rest.starts_with("-]");
            if is_range && self.skip("-") {
                let c = self.next()?;
                let last = self.member(c)??;
                (first <= last).then_some(())?;
                self.text.push('-');
                self.literal(last);
            }
        }
        self.text.push(']');
        (!is_empty).then_some(())
    }

    /// Returns the character of a member of a class; `None` within for a set, which was written.
    fn member(&mut self, c: char) -> Option<Option<char>> {
        match c {
            '[' => None,
            '\\' => match self.next()? {
                c @ ('d' | 'w') => {
                    write!(self.text, "\\{c}").ok()?;
                    // A set is no end of a range.
                    (!self.rest.starts_with('-') || self.rest.starts_with("-]")).then_some(None)
                }
                's' => {
                    self.text.push_str(SPACES);
                    (!self.rest.starts_with('-') || self.rest.starts_with("-]")).then_some(None)
                }
                c => self.escaped(c).map(Some),
            },
            c => Some(Some(c)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "json-schema")]
    const TEXTS: [&str; 40] = [
        "",
        "a",
        "b",
        "ab",
        "abc",
        "aab",
        "aaa",
        "CH",
        "CHF",
        "ch",
        "x-1",
        "1",
        "12",
        "123",
        "-7",
        "a1",
        "_a",
        "a b",
        " ",
        "a\nb",
        "\n",
        "\t",
        "ä",
        "äö",
        "a.b",
        "a-b",
        "a/b",
        "a]b",
        "[a]",
        "a^",
        "$1",
        "é1",
        "2026-07-28",
        "10:30",
        "https://example.com/a",
        "user@example.com",
        "1.2.3",
        "aXbXc",
        "a\u{2028}b",
        "\u{a0}",
    ];

    const PATTERNS: [&str; 45] = [
        "",
        "a",
        "^a",
        "a$",
        "^a$",
        "^$",
        "^[A-Z]{2}$",
        "^[A-Z]{2,}$",
        "^a{2,3}$",
        "^a{2}b?$",
        "^(a|b)+$",
        "^(?:a|bc?)*$",
        r"^\d+$",
        r"^-?\d+(\.\d+)?$",
        r"^\w+$",
        r"\W",
        r"\s",
        r"^\S+$",
        r"\D",
        "^.$",
        "^.{2}$",
        "a.b",
        r"a\.b",
        r"^[\w-]+$",
        "^[^a]*$",
        "[^a-c]",
        r"^[\]a-]+$",
        "^[a-]$",
        r"[\d\s]",
        r"^\d{4}-\d{2}-\d{2}$",
        r"^([01]\d|2[0-3]):[0-5]\d$",
        r"^https?:\/\/[^\s/]+(/.*)?$",
        r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$",
        r"^(0|[1-9]\d*)\.(\d+)\.(\d+)$",
        r"\bb",
        r"a\b",
        r"a\B",
        r"\x61",
        r"\u00e4",
        "a+?b",
        "(a*)*b",
        "(a|)b",
        "^(a?){3}$",
        "|a",
        r"\$",
    ];

    /// The engine of the checker of all keywords.
    #[cfg(feature = "json-schema")]
    #[test]
    fn patterns_match_as_the_other_engine_does() {
        use serde_json::json;

        use crate::json_schema::full::FullChecker;

        let mut matches = 0;
        for pattern in PATTERNS {
            let own = Pattern::new(pattern).unwrap_or_else(|| panic!("{pattern}"));
            let full = FullChecker::new(&json!({"pattern": pattern}), true).expect("a pattern");
            for text in TEXTS {
                // The other engine takes U+2028 for no end of a line.
                if text.contains('\u{2028}') {
                    continue;
                }
                assert_eq!(own.is_match(text), full.check(&json!(text)).is_ok(), "{pattern} {text:?}");
                matches += usize::from(own.is_match(text));
            }
        }
        assert!(matches > 200, "{matches}");
    }

    #[test]
    fn patterns_match_parts_of_texts() {
        let all = PATTERNS.map(|pattern| Pattern::new(pattern).expect(pattern));
        let matches = |text: &str| {
            let matching = PATTERNS.iter().zip(&all).filter(|(_, pattern)| pattern.is_match(text));
            matching.map(|(pattern, _)| *pattern).filter(|pattern| pattern.len() > 6).collect::<Vec<_>>()
        };
        assert_eq!(matches("CH"), ["^[A-Z]{2}$", "^[A-Z]{2,}$", r"^[\w-]+$", "^[^a]*$"]);
        assert_eq!(matches("aab"), ["^a{2}b?$", "^(a|b)+$", "^(?:a|bc?)*$", r"^[\w-]+$"]);
        assert!(matches("2026-07-28").contains(&r"^\d{4}-\d{2}-\d{2}$"));
        assert!(!matches("2026-07-2").contains(&r"^\d{4}-\d{2}-\d{2}$"));
        assert!(!Pattern::new("a.b").expect("a pattern").is_match("a\u{2028}b"));
    }

    #[test]
    fn other_patterns_are_refused() {
        for pattern in [
            "(?=a)",
            "(?!a)",
            "(?<=a)",
            "(?<n>a)",
            "(?i)a",
            r"(a)\1",
            r"\p{L}",
            r"\k<n>",
            "a**",
            "a{2}{3}",
            "*a",
            "a{,2}",
            "a{2",
            "{2}",
            "a{3,2}",
            "(a",
            "a)",
            "[a",
            "[b-a]",
            r"[\d-z]",
            r"[\D]",
            "[[a]]",
            "a]",
            r"\u12",
            r"\ud800",
            r"\c",
            r"\0",
            r"\A",
            "^*",
            r"\b+",
            "a\\",
            "a{50000}",
            "((a{300}){300})",
            "(a{300}){300}",
            "[]",
            "[^]",
            "[a&&[b]]",
            r"a\_",
        ] {
            assert!(Pattern::new(pattern).is_none(), "{pattern}");
        }
        let nested = |levels: usize| format!("{}a{}", "(".repeat(levels), ")".repeat(levels));
        assert!(Pattern::new(&nested(50)).is_some());
        assert!(Pattern::new(&nested(51)).is_none());
        assert!(Pattern::new(&nested(100_000)).is_none());
    }

    #[test]
    fn a_search_takes_linear_memory_and_no_backtracking() {
        for pattern in ["^(a+)+$", "(a|a)*b", "(a?){30}a{30}c", "(.*)*x"] {
            let pattern = Pattern::new(pattern).expect("a pattern");
            assert!(!pattern.is_match(&format!("{}!", "a".repeat(2_000))));
        }
    }
}
