//! Prefixes that keep the items of several servers apart.

use std::fmt;

/// The longest prefix, in bytes.
const MAX_LENGTH: usize = 64;

/// Stands between a prefix and the name of a tool or a prompt. A prefix does not contain it, and does not end with its
/// first character, so it ends a prefix where it occurs first: two different prefixes never lead to the same name.
const BETWEEN: &str = "__";

/// The prefix of the names and URIs of one server. Names become `prefix__name`, URIs `prefix+uri`, whose scheme is the
/// prefix, a plus sign and the original scheme.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// With the text in between; empty for no prefix.
    of_names: String,
    of_uris: String,
}

impl Prefix {
    /// Parses a prefix; an empty text is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::default());
        }
        let is_valid = text.len() <= MAX_LENGTH
            && text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            && !text.contains(BETWEEN)
            && !text.ends_with('_');
        // Schemes of URIs have no underscore and no case.
        let scheme = text.replace('_', "-").to_ascii_lowercase();
        is_valid.then(|| Self { of_names: format!("{text}{BETWEEN}"), of_uris: format!("{scheme}+") })
    }

    pub(crate) const fn is_none(&self) -> bool {
        self.of_names.is_empty()
    }

    /// Returns the text in which two prefixes differ that lead to different names and URIs.
    pub(crate) fn identity(&self) -> &str {
        &self.of_uris
    }

    /// Returns the name in front of which the prefix stands.
    pub(crate) fn name(&self, name: &str) -> String {
        format!("{}{name}", self.of_names)
    }

    /// Returns the URI, or the URI template, in front of which the prefix stands.
    pub(crate) fn uri(&self, uri: &str) -> String {
        format!("{}{uri}", self.of_uris)
    }

    /// Returns a URI without the prefix; `None` if it does not begin with it.
    pub(crate) fn strip_uri<'a>(&self, uri: &'a str) -> Option<&'a str> {
        uri.strip_prefix(&self.of_uris)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.of_names.strip_suffix(BETWEEN).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_uris_get_the_prefix() {
        let prefix = Prefix::parse("My_files").expect("a prefix");
        assert_eq!(prefix.name("read__all"), "My_files__read__all");
        assert_eq!(prefix.uri("file:///{+path}"), "my-files+file:///{+path}");
        assert_eq!(prefix.strip_uri("my-files+file:///a"), Some("file:///a"));
        assert_eq!(prefix.strip_uri("my-file+file:///a"), None);
        let none = Prefix::parse("").expect("no prefix");
        assert_eq!((none.name("a"), none.uri("a:b"), none.strip_uri("a:b")), ("a".into(), "a:b".into(), Some("a:b")));
    }

    /// No name of one prefix is a name of another.
    #[test]
    fn prefixes_do_not_overlap() {
        for bad in ["a__b", "a_", "_a", "1a", "a b", "a/b", "a+b", "é", &"a".repeat(65)] {
            assert_eq!(Prefix::parse(bad), None, "{bad}");
        }
        let names = ["b", "_b", "__b", "b__c", "_", ""];
        let prefixes = ["a", "a_b", "a-b", "a_b_c", "A"].map(|text| Prefix::parse(text).expect("a prefix"));
        for (one, other) in prefixes.iter().flat_map(|one| prefixes.iter().map(move |other| (one, other))) {
            for (left, right) in names.iter().flat_map(|left| names.iter().map(move |right| (left, right))) {
                let same = one == other && left == right;
                assert_eq!(one.name(left) == other.name(right), same, "{one} {left} {other} {right}");
            }
        }
    }

    #[test]
    fn a_prefix_has_at_most_64_bytes() {
        let longest = "a".repeat(64);
        let prefix = Prefix::parse(&longest).expect("it is not too long");
        assert_eq!((prefix.to_string(), prefix.is_none()), (longest, false));
        assert_eq!(Prefix::parse(&"a".repeat(65)), None);
        let none = Prefix::parse("").expect("none");
        assert_eq!((none.to_string(), none.identity(), none.is_none()), (String::new(), "", true));
        // Names that differ only in case or underscores have one URI.
        for text in ["My_a.B", "my-a.b"] {
            assert_eq!(Prefix::parse(text).expect("a prefix").identity(), "my-a.b+");
        }
    }
}
