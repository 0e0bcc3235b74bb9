//! Sets of scopes.

use alloc::{borrow::ToOwned, string::String, vec::Vec};
use core::fmt;

/// A set of scopes (RFC 6749, section 3.3), in the order of the text.
///
/// It has at most [`MAX`](Self::MAX) scopes of at most [`MAX_LEN`](Self::MAX_LEN) bytes together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Vec<String>);

impl Scopes {
    /// The most scopes of a set.
    pub const MAX: usize = 256;

    /// The most bytes of a set, as text.
    pub const MAX_LEN: usize = 8 * 1024;

    /// Reads scopes that are separated by spaces; `None` if there are too many, or if one has an invalid character.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > Self::MAX_LEN {
            return None;
        }
        Self::of(text.split(' ').filter(|scope| !scope.is_empty()))
    }

    /// Creates a set; `None` as for [`parse`](Self::parse).
    #[must_use]
    pub fn of<'a>(scopes: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut set = Self::default();
        let mut len = 0;
        for scope in scopes {
            // %x21 / %x23-5B / %x5D-7E
            let is_scope = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
            if scope.is_empty() || !scope.bytes().all(is_scope) {
                return None;
            }
            if set.has(scope) {
                continue;
            }
            len += scope.len() + 1;
            if set.0.len() == Self::MAX || len > Self::MAX_LEN + 1 {
                return None;
            }
            set.0.push(scope.to_owned());
        }
        Some(set)
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the set has a scope.
    #[must_use]
    pub fn has(&self, scope: &str) -> bool {
        self.0.iter().any(|known| known == scope)
    }

    /// Returns whether the set has all of `others`.
    #[must_use]
    pub fn has_all(&self, others: &Self) -> bool {
        others.iter().all(|scope| self.has(scope))
    }

    /// Returns the scopes.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|scope| &**scope)
    }

    /// Returns the scopes of both sets, those of `self` first; `None` if there are too many.
    #[must_use]
    pub fn union(&self, others: &Self) -> Option<Self> {
        Self::of(self.iter().chain(others.iter()))
    }

    /// Chooses the scopes of the first authorization request (specification, basic/authorization, Scope Selection
    /// Strategy): those of the challenge, else all that the resource supports, else none, which omits the parameter.
    #[must_use]
    pub fn first(challenged: Option<&Self>, supported: Option<&Self>) -> Self {
        challenged.or(supported).cloned().unwrap_or_default()
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, scope) in self.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            f.write_str(scope)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, string::ToString};

    fn scopes(text: &str) -> Scopes {
        Scopes::parse(text).expect(text)
    }

    #[test]
    fn scopes_are_sets() {
        assert_eq!(scopes("b  a b ").to_string(), "b a");
        assert_eq!(scopes(""), Scopes::default());
        for bad in ["a\"b", "a\\b", "a\u{7f}", "\u{e4}", "a\tb", "a\nb"] {
            assert_eq!(Scopes::parse(bad), None, "{bad:?}");
        }
        assert_eq!(Scopes::of(["a b"]), None);
        assert_eq!(Scopes::of([""]), None);
        let many = |count: usize| (0..count).map(|index| format!("s{index}")).collect::<Vec<_>>().join(" ");
        assert!(Scopes::parse(&many(Scopes::MAX)).is_some());
        assert_eq!(Scopes::parse(&many(Scopes::MAX + 1)), None);
        assert!(Scopes::parse(&"x".repeat(Scopes::MAX_LEN)).is_some());
        assert_eq!(Scopes::parse(&"x".repeat(Scopes::MAX_LEN + 1)), None);
        assert_eq!(Scopes::of(["x".repeat(Scopes::MAX_LEN).as_str(), "y"]), None);
    }

    // req: AUTH-036 AUTH-037 AUTH-038 M-AUTH-040 M-AUTH-041 M-AUTH-042
    #[test]
    fn initial_scopes_prefer_the_challenge() {
        let (challenged, supported) = (scopes("files:write"), scopes("files:read profile"));
        assert_eq!(Scopes::first(Some(&challenged), Some(&supported)), challenged, "also if they are not supported");
        assert_eq!(Scopes::first(None, Some(&supported)), supported);
        assert_eq!(Scopes::first(None, None), Scopes::default());
    }

    // req: M-AUTH-043
    #[test]
    fn step_up_unites_scopes() {
        let union = scopes("a b").union(&scopes("c b")).expect("few");
        assert_eq!(union.to_string(), "a b c");
        assert!(union.has_all(&scopes("c a")) && !scopes("a").has_all(&union));
        let half = |mark: &str| {
            let names: Vec<_> = (0..=Scopes::MAX / 2).map(|index| format!("{mark}{index}")).collect();
            scopes(&names.join(" "))
        };
        assert_eq!(half("a").union(&half("b")), None);
    }
}
