//! A JSON scanner: checks the syntax and finds the ends of values. It allocates nothing and does not recurse.

pub(crate) use super::token::StringToken;

use crate::wire::string_scan;

/// The error that a text is not the expected JSON. It has no data, so that results are passed in registers:
/// [`Scanner::position`] and [`Scanner::is_too_deep`] give the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScanError;

/// The deepest nesting: the scanner keeps one bit for each open bracket.
pub(crate) const MAX_DEPTH: u32 = u128::BITS;

type Scanned<T> = Result<T, ScanError>;

#[derive(Clone)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    /// The text that is not scanned yet.
    rest: &'a [u8],
    max_depth: u32,
    too_deep: bool,
}

impl<'a> Scanner<'a> {
    #[inline]
    pub(crate) const fn new(text: &'a str, max_depth: u32) -> Self {
        let max_depth = if max_depth < MAX_DEPTH { max_depth } else { MAX_DEPTH };
        Self { text, rest: text.as_bytes(), max_depth, too_deep: false }
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    #[inline]
    pub(crate) fn skip_white_space(&mut self) {
        while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// Takes `byte` if it is next.
    #[inline]
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        match self.rest {
            [first, rest @ ..] if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    #[inline]
    pub(crate) fn expect(&mut self, byte: u8) -> Scanned<()> {
        if self.eat(byte) { Ok(()) } else { Err(ScanError) }
    }

    /// Takes an opening bracket inside of `outer` others.
    #[inline]
    pub(crate) fn open(&mut self, bracket: u8, outer: u32) -> Scanned<()> {
        if self.peek() == Some(bracket) && outer >= self.max_depth {
            self.too_deep = true;
            return Err(ScanError);
        }
        self.expect(bracket)
    }

    /// Checks that only white space follows.
    pub(crate) fn expect_end(&mut self) -> Scanned<()> {
        self.skip_white_space();
        if self.rest.is_empty() { Ok(()) } else { Err(ScanError) }
    }

    /// Takes the string that begins here.
    fn string(&mut self) -> Scanned<StringToken<'a>> {
        self.expect(b'"')?;
        let start = self.rest;
        let escaped = self.skip_string_body()?;
        let behind = self.rest.len() + 1;
        Ok(StringToken { whole: self.text, behind, inner: &start[..start.len() - behind], escaped })
    }

    /// Takes the string that begins here. Returns the text between its quotes as it is spelled, and whether it has
    /// escapes.
    #[inline]
    pub(super) fn text(&mut self) -> Scanned<(&'a str, bool)> {
        self.expect(b'"')?;
        let start = self.position();
        let escaped = self.skip_string_body()?;
        Ok((&self.text[start..self.position() - 1], escaped))
    }

    /// Skips a string after its opening quote. Returns whether it has escapes.
    #[inline(always)]
    fn skip_string_body(&mut self) -> Scanned<bool> {
        // Most strings are names.
        if let Some((_, behind)) = string_scan::name(self.rest) {
            self.rest = behind;
            return Ok(false);
        }
        self.skip_text()
    }

    /// Skips as [`skip_string_body`](Self::skip_string_body) does, for strings of any length.
    #[inline(never)]
    fn skip_text(&mut self) -> Scanned<bool> {
        let (outcome, length) = match string_scan::body(self.rest) {
            Ok(body) => (Ok(body.escaped), body.length),
            Err(wrong) => (Err(ScanError), wrong),
        };
        self.rest = &self.rest[length..];
        outcome
    }

    fn skip_digits(&mut self) -> Scanned<()> {
        let start = self.rest.len();
        while let [b'0'..=b'9', rest @ ..] = self.rest {
            self.rest = rest;
        }
        if self.rest.len() < start { Ok(()) } else { Err(ScanError) }
    }

    fn skip_number(&mut self) -> Scanned<()> {
        self.eat(b'-');
        if !self.eat(b'0') {
            self.skip_digits()?;
        }
        if !matches!(self.rest, [b'.' | b'e' | b'E', ..]) {
            return Ok(());
        }
        if self.eat(b'.') {
            self.skip_digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            if !self.eat(b'+') {
                self.eat(b'-');
            }
            self.skip_digits()?;
        }
        Ok(())
    }

    /// Takes `literal`, if it is spelled exactly so.
    #[inline(always)]
    pub(super) fn skip_literal(&mut self, literal: &str) -> Scanned<()> {
        self.rest = self.rest.strip_prefix(literal.as_bytes()).ok_or(ScanError)?;
        Ok(())
    }

    #[inline(always)]
    fn skip_scalar(&mut self) -> Scanned<()> {
        match self.rest {
            [b'"', rest @ ..] => {
                self.rest = rest;
                self.skip_string_body().map(|_| ())
            }
            [b'-' | b'0'..=b'9', ..] => self.skip_number(),
            [b't', ..] => self.skip_literal("true"),
            [b'f', ..] => self.skip_literal("false"),
            [b'n', ..] => self.skip_literal("null"),
            _ => Err(ScanError),
        }
    }

    /// Takes the value that begins here.
    ///
    /// `outer` is the number of brackets that are already open around it.
    #[inline]
    pub(crate) fn value(&mut self, outer: u32) -> Scanned<&'a str> {
        let start = self.position();
        self.pass(outer)?;
        Ok(self.since(start))
    }

    /// Skips the value that begins here. Returns whether it was a short string without escapes, or a short integer.
    #[inline(always)]
    pub(super) fn pass(&mut self, outer: u32) -> Scanned<bool> {
        let behind = match self.rest {
            [b'"', string @ ..] => string_scan::name(string).map(|(_, behind)| behind),
            [b'1'..=b'9', ..] => string_scan::integer(self.rest),
            _ => None,
        };
        match behind {
            Some(behind) => {
                self.rest = behind;
                Ok(true)
            }
            None => self.skip_value(outer).map(|()| false),
        }
    }

    #[inline(never)]
    fn skip_value(&mut self, outer: u32) -> Scanned<()> {
        if let [b'{' | b'[', ..] = self.rest { self.skip_nested(outer) } else { self.skip_scalar() }
    }

    fn skip_nested(&mut self, outer: u32) -> Scanned<()> {
        // One bit for each open bracket, the innermost lowest: 1 is an object.
        let mut open: u128 = 0;
        let mut depth = outer;
        loop {
            // A value begins here.
            match self.peek() {
                Some(bracket @ (b'{' | b'[')) => {
                    self.open(bracket, depth)?;
                    let object = bracket == b'{';
                    if object && self.compact_name(false).is_some() {
                        open = open << 1 | 1;
                        depth += 1;
                        continue;
                    }
                    self.skip_white_space();
                    if !self.eat(if object { b'}' } else { b']' }) {
                        open = open << 1 | u128::from(object);
                        depth += 1;
                        if object {
                            self.spaced_name()?;
                        }
                        continue;
                    }
                }
                _ => self.skip_scalar()?,
            }
            // A value has ended here: close what ends with it, or step to the next one.
            loop {
                if depth == outer {
                    return Ok(());
                }
                let object = open & 1 == 1;
                let close = if object { b'}' } else { b']' };
                if !self.eat(close) {
                    if object && self.compact_name(true).is_some() {
                        break;
                    }
                    self.skip_white_space();
                    if self.eat(b',') {
                        self.skip_white_space();
                        if object {
                            self.spaced_name()?;
                        }
                        break;
                    }
                    self.expect(close)?;
                }
                open >>= 1;
                depth -= 1;
            }
        }
    }

    /// Takes a name with the colon after it, and with the comma before it if `comma` is true, if there is no white
    /// space between them. Returns the name.
    #[inline(always)]
    fn compact_name(&mut self, comma: bool) -> Option<&'a [u8]> {
        let quote = if comma { self.rest.strip_prefix(b",")? } else { self.rest };
        let (name, behind) = string_scan::name(quote.strip_prefix(b"\"")?)?;
        match behind {
            [b':', value @ ..] if !matches!(value, [0..=b' ', ..] | []) => {
                self.rest = value;
                Some(name)
            }
            _ => None,
        }
    }

    /// Takes a name and the colon after it, with white space around the colon.
    #[inline(never)]
    fn spaced_name(&mut self) -> Scanned<StringToken<'a>> {
        let name = self.string()?;
        self.colon()?;
        Ok(name)
    }

    fn colon(&mut self) -> Scanned<()> {
        self.skip_white_space();
        self.expect(b':')?;
        self.skip_white_space();
        Ok(())
    }

    /// Takes the name of the next member of the current object. Returns `None` after its closing brace.
    ///
    /// `first` is true directly after the opening brace. The scanner is after the colon then.
    #[inline(always)]
    pub(crate) fn next_member(&mut self, first: bool) -> Scanned<Option<StringToken<'a>>> {
        match self.compact_name(!first) {
            // A quote and a colon follow it.
            Some(inner) => {
                Ok(Some(StringToken { whole: self.text, behind: self.rest.len() + 2, inner, escaped: false }))
            }
            None if self.eat(b'}') => Ok(None),
            None => self.spaced_member(first),
        }
    }

    /// Takes the name of the next member of the current object as [`next_member`](Self::next_member) does, if it has
    /// no escapes and there is no white space around it. Returns the name.
    #[inline(never)]
    pub(super) fn next_plain_name(&mut self, first: bool) -> Option<&'a str> {
        let name = self.compact_name(!first)?;
        // A quote and a colon follow it.
        let end = self.position() - 2;
        self.text.get(end - name.len()..end)
    }

    #[inline(never)]
    fn spaced_member(&mut self, first: bool) -> Scanned<Option<StringToken<'a>>> {
        self.skip_white_space();
        if self.eat(b'}') {
            return Ok(None);
        }
        if !first {
            self.expect(b',')?;
            self.skip_white_space();
        }
        self.spaced_name().map(Some)
    }

    /// Takes an opening brace inside of `outer` other brackets. Returns `false` if the object is empty; its closing
    /// brace is taken then.
    #[inline(always)]
    pub(super) fn open_object(&mut self, outer: u32) -> Scanned<bool> {
        self.open(b'{', outer)?;
        if self.peek() == Some(b'"') {
            return Ok(true);
        }
        self.skip_white_space();
        Ok(!self.eat(b'}'))
    }

    /// Takes the name of a member and the colon after it.
    #[inline(always)]
    pub(super) fn member_name(&mut self) -> Scanned<StringToken<'a>> {
        match self.compact_name(false) {
            // A quote and a colon follow it.
            Some(inner) => Ok(StringToken { whole: self.text, behind: self.rest.len() + 2, inner, escaped: false }),
            None => {
                self.skip_white_space();
                self.spaced_name()
            }
        }
    }

    /// Takes the comma after a member, or the closing brace of the object. Returns whether another member follows.
    #[inline(always)]
    pub(super) fn another_member(&mut self) -> Scanned<bool> {
        if self.eat(b',') {
            return Ok(true);
        }
        if self.eat(b'}') {
            return Ok(false);
        }
        self.another_spaced_member()
    }

    #[inline(never)]
    fn another_spaced_member(&mut self) -> Scanned<bool> {
        self.skip_white_space();
        if self.eat(b'}') {
            return Ok(false);
        }
        self.expect(b',').map(|()| true)
    }

    /// Returns the byte after the next one: the first of a name whose quote is next.
    #[inline(always)]
    pub(super) fn peek_name(&self) -> Option<u8> {
        self.rest.get(1).copied()
    }

    /// Takes `beginning` of a member, if it is spelled exactly so and no white space follows.
    #[inline(always)]
    pub(super) fn eat_beginning<const N: usize>(&mut self, beginning: &[u8; N]) -> bool {
        match self.rest.split_first_chunk() {
            Some((start, rest)) if start == beginning && !matches!(rest, [0..=b' ', ..]) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Takes the name and the colon of a member, if they are spelled exactly so.
    #[inline(always)]
    pub(super) fn eat_name<const N: usize>(&mut self, beginning: &[u8; N]) -> Option<StringToken<'a>> {
        let inner = self.rest.get(1..N - 2)?;
        let eaten = self.eat_beginning(beginning);
        eaten.then(|| StringToken { whole: self.text, behind: self.rest.len() + 2, inner, escaped: false })
    }

    /// Takes `members`, if a comma or a closing brace follows.
    #[inline(always)]
    pub(super) fn eat_members(&mut self, members: &[u8]) -> bool {
        // Most other members differ in their first bytes, which are compared without a call.
        if self.rest.first_chunk::<4>() != members.first_chunk() {
            return false;
        }
        match self.rest.strip_prefix(members) {
            Some(rest @ [b',' | b'}', ..]) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Returns the text between the quotes of the string from `start` to the current position, or `None` if that is not
    /// a string.
    #[inline(always)]
    pub(super) fn inside_quotes(&self, start: usize) -> Option<&'a str> {
        self.text.get(start..self.position() - 1)?.strip_prefix('"')
    }

    /// Takes the next element of the current array. Returns `None` after its closing bracket.
    pub(crate) fn next_element(&mut self, first: bool, outer: u32) -> Scanned<Option<&'a str>> {
        if self.begin_element(first)? { self.value(outer).map(Some) } else { Ok(None) }
    }

    /// Moves to the next element. Returns `false` after the closing bracket.
    #[inline]
    pub(crate) fn begin_element(&mut self, first: bool) -> Scanned<bool> {
        self.skip_white_space();
        if self.eat(b']') {
            return Ok(false);
        }
        if !first {
            self.expect(b',')?;
            self.skip_white_space();
        }
        Ok(true)
    }

    /// Returns whether the last error was that brackets are nested deeper than the limit. Otherwise the syntax is
    /// wrong.
    pub(crate) const fn is_too_deep(&self) -> bool {
        self.too_deep
    }

    /// Takes the string that begins here if it is spelled as `text`, which needs no escapes.
    #[inline]
    pub(super) fn eat_plain(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(b"\"").and_then(|rest| rest.strip_prefix(text.as_bytes()));
        match rest {
            Some([b'"', rest @ ..]) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Moves to `position`. Returns the text from there on.
    pub(super) fn skip_to(&mut self, position: usize) -> &'a str {
        let rest = &self.text[position..];
        self.rest = rest.as_bytes();
        self.too_deep = false;
        rest
    }

    /// Returns the number of bytes that are not scanned yet.
    #[inline(always)]
    pub(super) const fn left(&self) -> usize {
        self.rest.len()
    }

    /// Returns the byte offset from the start of the text: the current position, or that of an error.
    #[inline]
    pub(crate) const fn position(&self) -> usize {
        self.text.len() - self.rest.len()
    }

    /// Returns the text from `start` to the current position.
    #[inline]
    pub(crate) fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.position()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, string::String};
    use serde_json::value::RawValue;

    fn accepts(text: &str) -> bool {
        let mut scanner = Scanner::new(text, MAX_DEPTH);
        scanner.skip_white_space();
        scanner.value(0).is_ok() && scanner.expect_end().is_ok()
    }

    #[test]
    fn accepts_exactly_what_serde_json_accepts() {
        let parts = [
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"",
            "\\",
            "a",
            "\"a\"",
            "\"\\u00e9\"",
            "\\u12",
            "1",
            "0",
            "-",
            ".",
            "e",
            "E",
            "+",
            "true",
            "false",
            "null",
            "nul",
            " ",
            "\t",
            "\n",
            "\u{1}",
            "é",
            "\"b\":1",
            "-0.5e-7",
            "01",
            "1.",
            "/",
        ];
        let mut state = 1u64;
        let mut valid = 0;
        for _ in 0..200_000 {
            let mut text = String::new();
            crate::test_rng::roll(&mut state);
            for i in 0..(state >> 60) % 9 {
                text.push_str(parts[(state >> (5 * i)) as usize % parts.len()]);
            }
            let expected = serde_json::from_str::<&RawValue>(&text).is_ok();
            assert_eq!(accepts(&text), expected, "{text:?}");
            valid += usize::from(expected);
        }
        assert!(valid > 1000, "the sample has too few valid texts: {valid}");
    }

    #[test]
    fn strings_are_checked_at_every_offset_of_a_block() {
        for length in 0..100 {
            let filler = "x".repeat(length);
            assert!(accepts(&format!("\"{filler}\"")));
            assert!(accepts(&format!("\"{filler}\\\"{filler}\"")));
            assert!(accepts(&format!("[\"{filler}é\",\"{filler}\"]")));
            assert!(!accepts(&format!("\"{filler}\u{1f}{filler}\"")));
            assert!(!accepts(&format!("\"{filler}\\x{filler}\"")));
            assert!(!accepts(&format!("\"{filler}")));
        }
    }

    #[test]
    fn nesting_is_bounded() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nest = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let scan = |depth, limit| {
                let text = nest(depth);
                let mut scanner = Scanner::new(&text, limit);
                scanner.value(0).is_err().then(|| (scanner.is_too_deep(), scanner.position()))
            };
            assert_eq!(scan(128, 128), None);
            assert_eq!(scan(5, 5), None);
            assert_eq!(scan(6, 5), Some((true, 5 * open.len())));
            assert!(scan(100_000, 1_000_000).is_some_and(|(too_deep, _)| too_deep));
        }
    }

    #[test]
    fn known_names_are_taken_if_they_are_written_so() {
        for (text, expected) in [
            (r#""name":1"#, true),
            (r#""name":"x""#, true),
            (r#""name": 1"#, false),
            (r#""name" :1"#, false),
            (r#""nam":1"#, false),
            (r#""names":1"#, false),
            (r#""name":"#, true),
            (r#""name""#, false),
            ("", false),
        ] {
            let mut scanner = Scanner::new(text, MAX_DEPTH);
            let inner = scanner.eat_name(b"\"name\":").map(|token| token.inner);
            assert_eq!(inner, expected.then_some(&b"name"[..]), "{text}");
            assert_eq!(scanner.position(), if expected { 7 } else { 0 }, "{text}");
        }
    }
}
