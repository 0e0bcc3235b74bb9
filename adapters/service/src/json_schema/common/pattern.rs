//! Patterns: the part of the regular expressions of ECMA-262 that takes a time linear in the text and no tables.
//!
//! Look-around, back references, properties of Unicode, names and flags are not part of it.

use std::mem;

/// The most states of a pattern, with repetitions written out.
const MAX_STATES: usize = 2_000;
/// How deep groups may be nested.
const MAX_GROUPS: u32 = 50;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern(Vec<State>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// A character of the set, or one that is not in it.
    Character(Set),
    /// Goes on at both states.
    Split(usize, usize),
    Jump(usize),
    /// The beginning of the text, or its end.
    Edge {
        is_end: bool,
    },
    /// The beginning or the end of a word, or neither.
    Boundary {
        is_negated: bool,
    },
    Match,
}

/// A set of characters: first and last of each range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Set {
    ranges: Vec<(char, char)>,
    is_negated: bool,
}

impl Set {
    fn new(ranges: &[(char, char)], is_negated: bool) -> Self {
        Self { ranges: ranges.to_vec(), is_negated }
    }

    fn has(&self, c: char) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&c)) != self.is_negated
    }
}

const DIGITS: [(char, char); 1] = [('0', '9')];
const WORD: [(char, char); 4] = [('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];
const LINE_ENDS: [(char, char); 3] = [('\n', '\n'), ('\r', '\r'), ('\u{2028}', '\u{2029}')];
const SPACES: [(char, char); 10] = [
    ('\t', '\r'),
    (' ', ' '),
    ('\u{a0}', '\u{a0}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{2000}', '\u{200a}'),
    ('\u{2028}', '\u{2029}'),
    ('\u{202f}', '\u{202f}'),
    ('\u{205f}', '\u{205f}'),
    ('\u{3000}', '\u{3000}'),
    ('\u{feff}', '\u{feff}'),
];

/// A parsed part of a pattern.
enum Part {
    Sequence(Vec<Part>),
    Choice(Vec<Part>),
    Repeat { part: Box<Part>, min: usize, max: Option<usize> },
    State(State),
}

impl Part {
    /// Counts the states, at most a few more than are allowed.
    fn states(&self) -> usize {
        let sum = |parts: &[Self]| parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.states()));
        match self {
            Self::Sequence(parts) => sum(parts),
            Self::Choice(parts) => sum(parts).saturating_add(2 * parts.len()),
            Self::Repeat { part, min, max } => {
                (part.states() + 2).saturating_mul(max.unwrap_or(*min).max(*min).saturating_add(1))
            }
            Self::State(_) => 1,
        }
    }

    fn write(&self, states: &mut Vec<State>) {
        match self {
            Self::Sequence(parts) => parts.iter().for_each(|part| part.write(states)),
            Self::Choice(parts) => {
                let mut ends = Vec::new();
                for (index, part) in parts.iter().enumerate() {
                    let split = states.len();
                    if index + 1 < parts.len() {
                        states.push(State::Jump(0));
                    }
                    part.write(states);
                    if index + 1 < parts.len() {
                        ends.push(states.len());
                        states.push(State::Jump(0));
                        states[split] = State::Split(split + 1, states.len());
                    }
                }
                for end in ends {
                    states[end] = State::Jump(states.len());
                }
            }
            Self::Repeat { part, min, max } => {
                (0..*min).for_each(|_| part.write(states));
                let optional = max.map_or(1, |max| max - min);
                let mut splits = Vec::new();
                for _ in 0..optional {
                    splits.push(states.len());
                    states.push(State::Jump(0));
                    part.write(states);
                    if max.is_none() {
                        states.push(State::Jump(splits[0]));
                    }
                }
                for split in splits {
                    states[split] = State::Split(split + 1, states.len());
                }
            }
            Self::State(state) => states.push(state.clone()),
        }
    }
}

impl Pattern {
    /// Compiles a pattern; `None` if it has another syntax, or too many states.
    pub(super) fn new(pattern: &str) -> Option<Self> {
        let mut parser = Parser { rest: pattern, groups: 0 };
        let part = parser.choice()?;
        if !parser.rest.is_empty() || part.states() > MAX_STATES {
            return None;
        }
        let mut states = Vec::new();
        part.write(&mut states);
        states.push(State::Match);
        Some(Self(states))
    }

    /// Returns the steps that a search in a text takes at most.
    pub(super) fn steps(&self, text: &str) -> u64 {
        (self.0.len() as u64).saturating_mul(text.len() as u64 + 1)
    }

    /// Returns whether a part of a text matches.
    pub(super) fn is_match(&self, text: &str) -> bool {
        let (mut current, mut next) = (Threads::new(self.0.len()), Threads::new(self.0.len()));
        let mut characters = text.chars();
        let (mut before, mut after) = (None, characters.next());
        loop {
            if self.add(0, &mut current, before, after) {
                return true;
            }
            let Some(c) = after else { return false };
            (before, after) = (after, characters.next());
            for index in 0..current.list.len() {
                let state = current.list[index];
                if let State::Character(set) = &self.0[state]
                    && set.has(c)
                    && self.add(state + 1, &mut next, before, after)
                {
                    return true;
                }
            }
            current.clear();
            mem::swap(&mut current, &mut next);
        }
    }

    /// Adds a state, and those that it leads to without a character. Returns whether the pattern matches.
    fn add(&self, first: usize, threads: &mut Threads, before: Option<char>, after: Option<char>) -> bool {
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        threads.open.push(first);
        while let Some(state) = threads.open.pop() {
            if mem::replace(&mut threads.known[state], true) {
                continue;
            }
            threads.seen.push(state);
            match &self.0[state] {
                State::Character(_) => threads.list.push(state),
                State::Split(one, other) => threads.open.extend([*one, *other]),
                State::Jump(to) => threads.open.push(*to),
                State::Edge { is_end } => {
                    if if *is_end { after } else { before }.is_none() {
                        threads.open.push(state + 1);
                    }
                }
                State::Boundary { is_negated } => {
                    if (is_word(before) != is_word(after)) != *is_negated {
                        threads.open.push(state + 1);
                    }
                }
                State::Match => return true,
            }
        }
        false
    }
}

/// The states that a search is in.
struct Threads {
    list: Vec<usize>,
    /// States that were reached and not added yet.
    open: Vec<usize>,
    /// Whether a state was added, and which ones were.
    known: Vec<bool>,
    seen: Vec<usize>,
}

impl Threads {
    fn new(states: usize) -> Self {
        Self { list: Vec::new(), open: Vec::new(), known: vec![false; states], seen: Vec::new() }
    }

    fn clear(&mut self) {
        self.list.clear();
        self.seen.drain(..).for_each(|state| self.known[state] = false);
    }
}

struct Parser<'a> {
    rest: &'a str,
    groups: u32,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn skip(&mut self, prefix: &str) -> bool {
        self.rest.strip_prefix(prefix).is_some_and(|rest| {
            self.rest = rest;
            true
        })
    }

    fn choice(&mut self) -> Option<Part> {
        let mut choices = vec![self.sequence()?];
        while self.skip("|") {
            choices.push(self.sequence()?);
        }
        Some(Part::Choice(choices))
    }

    fn sequence(&mut self) -> Option<Part> {
        let mut parts = Vec::new();
        while self.peek().is_some_and(|c| c != '|' && c != ')') {
            let part = self.part()?;
            parts.push(self.repeated(part)?);
        }
        Some(Part::Sequence(parts))
    }

    fn part(&mut self) -> Option<Part> {
        Some(Part::State(match self.next()? {
            '^' => State::Edge { is_end: false },
            '$' => State::Edge { is_end: true },
            '.' => State::Character(Set::new(&LINE_ENDS, true)),
            '(' => {
                // Groups with other signs look around, or have names.
                if !self.skip("?:") && self.peek() == Some('?') || self.groups == MAX_GROUPS {
                    return None;
                }
                self.groups += 1;
                let inner = self.choice()?;
                self.groups -= 1;
                return self.skip(")").then_some(inner);
            }
            '[' => State::Character(self.set()?),
            '\\' if self.skip("b") => State::Boundary { is_negated: false },
            '\\' if self.skip("B") => State::Boundary { is_negated: true },
            '\\' => State::Character(self.escaped()?),
            '*' | '+' | '?' | '{' | '}' | ']' => return None,
            c => State::Character(Set::new(&[(c, c)], false)),
        }))
    }

    fn repeated(&mut self, part: Part) -> Option<Part> {
        let (min, max) = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                let (range, rest) = self.rest[1..].split_once('}')?;
                let number = |digits: &str| {
                    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                    is_number.then(|| digits.parse().ok()).flatten().filter(|number| *number <= MAX_STATES)
                };
                let (min, max) = match range.split_once(',') {
                    None => (number(range)?, Some(number(range)?)),
                    Some((min, "")) => (number(min)?, None),
                    Some((min, max)) => (number(min)?, Some(number(max)?)),
                };
                // The last sign is skipped below.
                self.rest = &self.rest[self.rest.len() - rest.len() - 1..];
                (min, max)
            }
            _ => return Some(part),
        };
        let _ = self.next();
        // A lazy repetition matches the same texts.
        let _ = self.skip("?");
        let is_edge = matches!(part, Part::State(State::Edge { .. } | State::Boundary { .. }));
        let is_repeated_twice = self.peek().is_some_and(|c| "*+?{".contains(c));
        if is_edge || is_repeated_twice || max.is_some_and(|max| max < min) {
            return None;
        }
        Some(Part::Repeat { part: Box::new(part), min, max })
    }

    /// Parses a class of characters after the backslash.
    fn escaped(&mut self) -> Option<Set> {
        Some(match self.next()? {
            'd' => Set::new(&DIGITS, false),
            'D' => Set::new(&DIGITS, true),
            'w' => Set::new(&WORD, false),
            'W' => Set::new(&WORD, true),
            's' => Set::new(&SPACES, false),
            'S' => Set::new(&SPACES, true),
            other => {
                let c = self.escaped_character(other)?;
                Set::new(&[(c, c)], false)
            }
        })
    }

    fn escaped_character(&mut self, c: char) -> Option<char> {
        let mut hexadecimal = |digits| {
            let (number, rest) = self.rest.split_at_checked(digits)?;
            self.rest = rest;
            let is_number = number.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_number.then(|| u32::from_str_radix(number, 16).ok()).flatten().and_then(char::from_u32)
        };
        match c {
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'f' => Some('\u{c}'),
            'v' => Some('\u{b}'),
            'x' => hexadecimal(2),
            'u' => hexadecimal(4),
            c => c.is_ascii_punctuation().then_some(c),
        }
    }

    /// Parses a set after its bracket.
    fn set(&mut self) -> Option<Set> {
        let mut set = Set { is_negated: self.skip("^"), ranges: Vec::new() };
        while !self.skip("]") {
            let first = self.member(&mut set)?;
            if !self.rest.starts_with('-') || self.rest.starts_with("-]") {
                set.ranges.extend(first.map(|first| (first, first)));
                continue;
            }
            let _ = self.next();
            let last = self.member(&mut set)?;
            // A class is no end of a range.
            let (first, last) = (first?, last?);
            if first > last {
                return None;
            }
            set.ranges.push((first, last));
        }
        Some(set)
    }

    /// Parses a character of a set, or adds a class to it.
    fn member(&mut self, set: &mut Set) -> Option<Option<char>> {
        match self.next()? {
            // Some dialects have sets in sets.
            '[' => None,
            '\\' if self.peek().is_some_and(|c| "dws".contains(c)) => {
                set.ranges.extend(self.escaped()?.ranges);
                Some(None)
            }
            '\\' if self.skip("b") => Some(Some('\u{8}')),
            '\\' => {
                let c = self.next()?;
                self.escaped_character(c).map(Some)
            }
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
            "a{2001}",
            "((a{100}){100})",
            "(a{50}){50}",
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
