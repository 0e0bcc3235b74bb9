//! A string in a JSON text: its spelling and its text.

use alloc::borrow::Cow;

use super::unescape::{unescape, unescape_lossy};

/// A string token.
#[derive(Clone, Copy)]
pub(crate) struct StringToken<'a> {
    /// The JSON text that contains the string.
    pub(super) whole: &'a str,
    /// The number of bytes of `whole` after the text between the quotes.
    pub(super) behind: usize,
    pub(super) inner: &'a [u8],
    pub(super) escaped: bool,
}

impl<'a> StringToken<'a> {
    /// Returns whether the string is `text`.
    #[inline(always)]
    pub(crate) fn is(self, text: &str) -> bool {
        if self.escaped { self.text().is_some_and(|this| this == text) } else { self.inner == text.as_bytes() }
    }

    /// Returns the text between the quotes, as it is spelled.
    #[inline]
    pub(crate) fn written(self) -> &'a str {
        let start = self.whole.len() - self.behind - self.inner.len();
        &self.whole[start..start + self.inner.len()]
    }

    /// Returns whether the string has escapes.
    pub(crate) const fn is_escaped(self) -> bool {
        self.escaped
    }

    /// Returns the text between the quotes, if this crate would spell it in the same way, or if it has no other
    /// spelling because it is not valid text.
    pub(crate) fn ready(self) -> Option<&'a str> {
        let is_ready = !self.escaped || self.has_plain_escapes() || self.text().is_none();
        is_ready.then(|| self.written())
    }

    /// Returns whether each escape is one that this crate writes.
    fn has_plain_escapes(self) -> bool {
        let mut second = None;
        memchr::memchr_iter(b'\\', self.inner).all(|at| {
            if second == Some(at) {
                return true;
            }
            second = Some(at + 1);
            match &self.inner[at + 1..] {
                [b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't', ..] => true,
                [b'u', b'0', b'0', b'0', digit, ..] => matches!(digit, b'0'..=b'7' | b'b' | b'e' | b'f'),
                [b'u', b'0', b'0', b'1', digit, ..] => matches!(digit, b'0'..=b'9' | b'a'..=b'f'),
                _ => false,
            }
        })
    }

    /// Returns the string as it is spelled, with its quotes.
    pub(super) fn quoted(self) -> &'a str {
        let start = self.whole.len() - self.behind - self.inner.len();
        &self.whole[start - 1..start + self.inner.len() + 1]
    }

    /// Returns a text for comparisons with names of ASCII letters and digits: the text of the string, or a text that is
    /// equal to none of them. Strings that cannot be such a name are not unescaped.
    #[inline(always)]
    pub(crate) fn comparable(self) -> Cow<'a, str> {
        if self.escaped { self.comparable_escaped() } else { Cow::Borrowed(self.written()) }
    }

    #[cold]
    fn comparable_escaped(self) -> Cow<'a, str> {
        if self.may_be_ascii() { self.shown() } else { Cow::Borrowed(self.written()) }
    }

    /// Returns whether each escape could be an ASCII letter or digit: whether it begins with `\u00`.
    fn may_be_ascii(self) -> bool {
        memchr::memchr_iter(b'\\', self.inner).all(|at| self.inner[at + 1..].starts_with(b"u00"))
    }

    /// Returns the text of the string, or `None` if an escape is half of a surrogate pair. Such a string is equal to no
    /// text.
    #[inline]
    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        let written = self.written();
        if self.escaped { unescape(written).map(Cow::Owned) } else { Some(Cow::Borrowed(written)) }
    }

    /// Returns the text of the string for display, with U+FFFD for half of a surrogate pair.
    #[inline]
    pub(crate) fn shown(self) -> Cow<'a, str> {
        let written = self.written();
        if self.escaped { Cow::Owned(unescape_lossy(written)) } else { Cow::Borrowed(written) }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{borrow::ToOwned, format, string::String};

    use crate::wire::scan::{MAX_DEPTH, Scanner};

    #[test]
    fn name_is_ready_if_written_canonically() {
        let texts = (0..0x80).chain([0xe9, 0x20ac, 0xd7ff, 0xd800, 0xdc00, 0xfffd]);
        let escapes = texts.flat_map(|unit| [format!("\\u{unit:04x}"), format!("\\u{unit:04X}")]);
        let short = ["\\\"", "\\\\", "\\/", "\\b", "\\f", "\\n", "\\r", "\\t", "\\ud83d\\ude80"].map(String::from);
        for escape in escapes.chain(short) {
            for written in [escape.clone(), format!("x{escape}\\\\{escape}"), format!("\\\\\\\\{escape}y\\n")] {
                let object = format!("{{\"{written}\":1}}");
                let mut scanner = Scanner::new(&object, MAX_DEPTH);
                assert!(scanner.eat(b'{'));
                let Ok(Some(name)) = scanner.next_member(true) else { panic!("{object}") };
                let would_be = name.text().map(|text| {
                    let quoted = serde_json::to_string(&text).expect("text");
                    quoted[1..quoted.len() - 1].to_owned()
                });
                let is_ready = would_be.is_none_or(|would_be| would_be == written);
                assert_eq!(name.ready(), is_ready.then_some(&*written), "{written}");
                assert_eq!((name.quoted(), name.written()), (&*format!("\"{written}\""), &*written));
            }
        }
    }
}
