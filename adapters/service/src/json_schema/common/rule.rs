//! The rules of a compiled schema.

use serde_json::{Number, Value};

use super::{super::types::Types, pattern::Pattern};

/// The index of a node.
pub(super) type Id = u32;

/// A compiled schema whose keywords are in common use. The first node is the root.
#[derive(Clone, Debug)]
pub(in crate::json_schema) struct CommonChecker {
    pub(super) nodes: Vec<Node>,
    /// Whether results for references are kept: there are references, to which several rules may lead.
    pub(super) keeps_results: bool,
    /// The number of steps that a check may take.
    pub(super) limit: u64,
}

/// A schema: all of its rules hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) rules: Vec<Rule>,
}

/// A rule of a schema for a value.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    /// No value is valid.
    Never,
    Types(Types),
    /// The value is one of these. Comparing it with all of them takes so many steps.
    Values(Vec<Value>, u64),
    Limit {
        limit: Number,
        is_minimum: bool,
        is_exclusive: bool,
    },
    MultipleOf(u64),
    /// The text has a part that matches. The text of the pattern is for errors.
    Pattern(Box<Pattern>, String),
    Count {
        counted: Counted,
        limit: u64,
        is_minimum: bool,
    },
    Required(Vec<String>),
    /// The names that an object with a name needs.
    DependentRequired(Vec<(String, Vec<String>)>),
    Members(Members),
    /// The schema of the members for which no other rule of a schema has one.
    Unevaluated {
        of: Id,
        schema: Id,
    },
    /// The schema of each name of an object.
    Names(Id),
    Items {
        first: Vec<Id>,
        others: Option<Id>,
    },
    Contains(Id),
    Unique,
    All(Vec<Id>),
    Any(Vec<Id>),
    One(Vec<Id>),
    Not(Id),
    If {
        condition: Id,
        then: Option<Id>,
        otherwise: Option<Id>,
    },
    Reference(Id),
}

/// The parts of a value that a rule counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Characters,
    Items,
    Members,
}

/// The schemas of the members of an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    /// Ordered by name.
    pub(super) known: Vec<(String, Id)>,
    /// For names that match a pattern.
    pub(super) patterns: Vec<(Box<Pattern>, Id)>,
    /// The schema of the members without one.
    pub(super) others: Option<Id>,
}

impl Members {
    /// Returns the schemas of a member.
    pub(super) fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Id> + 'a {
        let known = self.known.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok();
        let known = known.map(|index| self.known[index].1);
        let matching: Vec<_> =
            self.patterns.iter().filter(|(pattern, _)| pattern.is_match(name)).map(|(_, id)| *id).collect();
        let is_other = known.is_none() && matching.is_empty();
        known.into_iter().chain(matching).chain(self.others.filter(|_| is_other))
    }

    /// Returns the steps that finding the schemas of a member takes.
    pub(super) fn steps(&self, name: &str) -> u64 {
        let patterns = self.patterns.iter().map(|(pattern, _)| pattern.steps(name));
        patterns.fold(1 + name.len() as u64 / 64, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_the_schemas_of_a_member_takes_steps() {
        let pattern = |text| Box::new(Pattern::new(text).expect("a pattern"));
        let none = Members::default();
        for (length, steps) in [(0, 1), (1, 1), (63, 1), (64, 2), (127, 2), (128, 3), (640, 11)] {
            assert_eq!(none.steps(&"n".repeat(length)), steps, "{length} bytes");
        }
        let name = "n".repeat(64);
        let (a, b) = (pattern("^a"), pattern("b{9}$"));
        let expected = 2 + a.steps(&name) + b.steps(&name);
        assert!(a.steps(&name) > 0 && a.steps(&name) % 65 == 0);
        let members = Members { patterns: vec![(a, 1), (b, 2)], ..Members::default() };
        assert_eq!(members.steps(&name), expected);
    }

    #[test]
    fn other_schemas_are_for_members_without_one() {
        let pattern = |text| Box::new(Pattern::new(text).expect("a pattern"));
        let members = Members {
            known: vec![("a".into(), 1), ("b".into(), 2), ("c".into(), 3)],
            patterns: vec![(pattern("^[bx]"), 4), (pattern("y$"), 5)],
            others: Some(6),
        };
        for (name, ids) in
            [("a", &[1][..]), ("b", &[2, 4]), ("c", &[3]), ("x", &[4]), ("xy", &[4, 5]), ("y", &[5]), ("z", &[6])]
        {
            assert_eq!(members.of(name).collect::<Vec<_>>(), ids, "{name}");
        }
    }
}
