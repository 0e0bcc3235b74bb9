//! Positions of the members of an object in its text.

use core::ops::Range;

use super::{scan::StringToken, sole};

/// The most members of an index: params hardly ever have more.
const MAX_MEMBERS: usize = 4;

/// The positions of the members of an object in its text, so that the text is searched only once.
///
/// An index has all members or none: none if the object is large, has many members, or has names with escapes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Index {
    spans: [Span; MAX_MEMBERS],
    len: u8,
    validated: Validated,
}

/// The checks that a text has passed. Each includes those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Validated {
    /// None.
    Nothing,
    /// The names that [decide](super::sole) occur at most once.
    Names,
    /// The same holds for the names in its `_meta`.
    Meta,
    /// The text is an object without line breaks, which can be sent without changes.
    Lines,
}

impl Default for Index {
    fn default() -> Self {
        Self::NOTHING
    }
}

/// The ranges of a name and of a value.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    name: [u16; 2],
    value: [u16; 2],
}

impl Span {
    /// Returns whether the name in this text is `name`.
    fn is_named(&self, text: &str, name: &str) -> bool {
        text.as_bytes().get(range(self.name)) == Some(name.as_bytes())
    }
}

impl Index {
    /// An index without positions.
    pub(super) const NOTHING: Self =
        Self { spans: [Span { name: [0; 2], value: [0; 2] }; MAX_MEMBERS], len: 0, validated: Validated::Nothing };

    /// Returns the same index with the checks that the text has passed.
    #[inline(always)]
    pub(super) const fn validated(mut self, validated: Validated) -> Self {
        self.validated = validated;
        self
    }

    /// Returns whether the text has passed this check.
    pub(super) fn is_examined(&self, what: Validated) -> bool {
        self.validated >= what
    }

    /// Returns whether this name is known to occur at most once.
    pub(super) fn is_sole(&self, name: &str) -> bool {
        self.is_examined(Validated::Names) && sole::decides(name.as_bytes())
    }

    /// Returns whether the index has positions.
    pub(super) const fn is_known(&self) -> bool {
        self.len > 0
    }

    /// Returns whether the object is known to have exactly one member.
    pub(super) const fn has_one_member(&self) -> bool {
        self.len == 1
    }

    /// Returns an iterator over the names and values of the object with this text; empty if the index has no positions.
    pub(super) fn members<'a>(&self, text: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let known = self.spans.iter().take(usize::from(self.len));
        known.filter_map(move |Span { name, value }| Some((part(text, *name)?, part(text, *value)?)))
    }

    /// Returns the members as [`members`](Self::members) does, with the bytes of the names.
    pub(super) fn values<'a>(&self, text: &'a str) -> impl Iterator<Item = (&'a [u8], &'a str)> {
        let known = self.spans.iter().take(usize::from(self.len));
        known.filter_map(move |span| Some((text.as_bytes().get(range(span.name))?, part(text, span.value)?)))
    }

    /// Returns whether the object, which has the members of `run`, is known to have only this number of others.
    pub(super) const fn has_only(&self, run: &Run, others: u8) -> bool {
        self.len == run.len + others
    }

    /// Returns the value of the first member with this name.
    pub(super) fn find_first<'a>(&self, text: &'a str, name: &str) -> Option<&'a str> {
        let span = self.spans.iter().take(usize::from(self.len)).find(|span| span.is_named(text, name))?;
        part(text, span.value)
    }

    /// Returns the value of the last member with this name.
    pub(super) fn find<'a>(&self, text: &'a str, name: &str) -> Option<&'a str> {
        let span = self.spans.iter().take(usize::from(self.len)).rfind(|span| span.is_named(text, name))?;
        part(text, span.value)
    }
}

fn range([from, to]: [u16; 2]) -> Range<usize> {
    usize::from(from)..usize::from(to)
}

fn part(text: &str, span: [u16; 2]) -> Option<&str> {
    text.get(range(span))
}

/// Returns the range of `part` in `text`, of which it is a slice.
pub(crate) fn place(part: &[u8], text: &[u8]) -> Option<Range<usize>> {
    let from = part.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    Some(from..from + part.len())
}

/// The positions of adjacent members, from the beginning of the first one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    spans: [Span; MAX_MEMBERS],
    len: u8,
}

impl Run {
    /// Adds a member whose name and value have these positions in an object. The run begins at `from`. Returns `false`
    /// if that is not possible.
    pub(super) fn add(&mut self, from: usize, name: &Range<usize>, value: &Range<usize>) -> bool {
        let span = |range: &Range<usize>| {
            Some([u16::try_from(range.start.checked_sub(from)?).ok()?, u16::try_from(range.end - from).ok()?])
        };
        match (self.spans.get_mut(usize::from(self.len)), span(name), span(value)) {
            (Some(free), Some(name), Some(value)) => {
                *free = Span { name, value };
                self.len += 1;
                true
            }
            _ => false,
        }
    }
}

/// Builds an [`Index`].
///
/// A position is given as the length of the remaining text, as in a scanner.
pub(super) struct Indexing<'i> {
    index: &'i mut Index,
    /// The length of the text from the beginning of the object.
    left: usize,
    /// The number of members so far, or [`Self::NONE`] if the index can have no positions.
    len: usize,
}

impl<'i> Indexing<'i> {
    const NONE: usize = usize::MAX;

    /// Starts an index for an object that begins here.
    #[inline(always)]
    pub(super) const fn new(index: &'i mut Index, left: usize) -> Self {
        Self { index, left, len: 0 }
    }

    /// Adds the next member, whose value is between these positions.
    #[inline(always)]
    pub(super) fn add(&mut self, name: StringToken<'_>, value: [usize; 2]) {
        // A position may be truncated here. `end` detects that, because the end of the object is the largest position.
        let span = |places: [usize; 2]| places.map(|left| (self.left - left) as u16);
        let name_span = span([name.behind + name.inner.len(), name.behind]);
        match self.index.spans.get_mut(self.len) {
            Some(free) if !name.escaped => {
                *free = Span { name: name_span, value: span(value) };
                self.len += 1;
            }
            _ => self.len = Self::NONE,
        }
    }

    /// Adds the members of a run that begins at this position.
    #[inline(always)]
    pub(super) fn add_run(&mut self, run: &Run, left: usize) {
        // As in `add`, a position that does not fit is detected at the end.
        let offset = (self.left - left) as u16;
        let moved = |place: [u16; 2]| place.map(|at| at.wrapping_add(offset));
        for Span { name, value } in &run.spans[..usize::from(run.len)] {
            match self.index.spans.get_mut(self.len) {
                Some(free) => {
                    *free = Span { name: moved(*name), value: moved(*value) };
                    self.len += 1;
                }
                None => self.len = Self::NONE,
            }
        }
    }

    /// Completes the index of the object, which ends here.
    #[inline(always)]
    pub(super) fn end(self, left: usize) {
        let fits = self.left - left <= usize::from(u16::MAX);
        self.index.len = match u8::try_from(self.len) {
            Ok(len) if fits => len,
            _ => 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::String, vec::Vec};

    use crate::wire::{Message, RawJson};

    /// Returns the members of params, from the index and from a scan of their text.
    fn both(params: &str) -> [Vec<(String, String)>; 2] {
        let frame = format!(r#" {{"jsonrpc":"2.0","id":1,"params":{params},"method":"a"}}"#);
        let Ok(Message::Request { params: Some(raw), .. }) = Message::parse(&frame, 99) else { panic!("{frame}") };
        let members = |raw: &RawJson<'_>| {
            raw.members().map(|(name, value)| (name.into_owned(), value.get().into())).collect::<Vec<_>>()
        };
        [members(&raw), members(&RawJson::trusted(params))]
    }

    #[test]
    fn indexed_members_equal_scanned_members() {
        let long = format!(r#"{{"a":"{}","b":1}}"#, "x".repeat(70_000));
        let late = format!(r#"{{"a":"{}" , "b":{{}}}}"#, "x".repeat(65_520));
        for params in [
            "{}",
            "{ }",
            r#"{"name":"echo","arguments":{"a":{"b":"c"}}}"#,
            r#"{ "name" : "grün" , "_meta" : { } , "" : [ 1 , 2 ] }"#,
            r#"{"n\u0061me":"a","b":2}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,"b":2,"c":3,"d":4}"#,
            r#"{"a":1,"b":2,"c":3,"d":4,"e":5}"#,
            &long,
            &late,
        ] {
            let [indexed, scanned] = both(params);
            assert_eq!(indexed, scanned, "{params:.99}");
        }
    }

    #[test]
    fn result_members_are_not_those_of_params() {
        let result = r#"{"resultType":"ab\"c","b":[1]}"#;
        let envelope = r#""jsonrpc":"2.0","id":1"#;
        for frame in [
            format!(r#"{{{envelope},"result":{result}}}"#),
            format!(r#"{{{envelope},"result":{result},"params":{{"resultType":"abc"}}}}"#),
            format!(r#"{{{envelope},"params":{{"resultType":"abc"}},"result":{result}}}"#),
            format!(r#"{{{envelope},"result":{result},"params":{{}}}}"#),
            format!(r#"{{{envelope},"result":{result},"params":[]}}"#),
        ] {
            let Ok(Message::Response { result: raw, .. }) = Message::parse(&frame, 99) else { panic!("{frame}") };
            assert_eq!(raw.get(), result, "{frame}");
            let text = raw.member("resultType").and_then(RawJson::into_text);
            assert_eq!(text.as_deref(), Some("ab\"c"), "{frame}");
            let others: Vec<_> = raw.members().map(|(_, value)| String::from(value.get())).collect();
            assert_eq!(others, [r#""ab\"c""#, "[1]"], "{frame}");
        }
    }

    #[test]
    fn only_requires_no_other_members() {
        for (params, taken) in [
            ("{}", Some([None, None])),
            (r#"{"b":[1]}"#, Some([None, Some("[1]")])),
            (r#"{"b":2,"a":{"c":3}}"#, Some([Some(r#"{"c":3}"#), Some("2")])),
            (r#"{"\u0061":1}"#, Some([Some("1"), None])),
            (r#"{"a":1,"b":2,"c":3}"#, None),
            (r#"{"a":1,"a":1}"#, None),
        ] {
            let frame = format!(r#"{{"jsonrpc":"2.0","id":1,"params":{params},"method":"a"}}"#);
            let Ok(Message::Request { params: Some(raw), .. }) = Message::parse(&frame, 99) else { panic!("{frame}") };
            for raw in [&raw, &RawJson::trusted(params)] {
                let only = raw.only(["a", "b"]);
                let texts = only.as_ref().map(|values| values.each_ref().map(|value| value.as_ref().map(RawJson::get)));
                assert_eq!(texts, taken, "{params}");
            }
        }
    }

    #[test]
    fn long_text_after_an_object_does_not_prevent_its_index() {
        for len in [1, 70_000] {
            let method = "x".repeat(len);
            let frame = format!(r#"{{"jsonrpc":"2.0","id":1,"params":{{"a":1}},"method":"{method}"}}"#);
            let Ok(Message::Request { params: Some(raw), .. }) = Message::parse(&frame, 99) else { panic!("{len}") };
            assert_eq!(raw.sole_member("a"), Some("1"), "{len}");
        }
    }
}
