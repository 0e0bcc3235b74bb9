//! Finds the places where a value is not valid.

use std::fmt::{self, Write};

use serde_json::Value;

use super::{
    super::limits::MAX_ERRORS,
    check::{Check, MAX_OPEN},
    rule::{CommonChecker, Counted, Id, Rule},
};
use crate::util::text_arguments::excerpt;

/// The maximum number of steps to find where a value is invalid.
const STEPS_TO_EXPLAIN: u64 = 1_000_000;

/// How many schemas are looked at to find the alternative that a value is meant for, one below the other.
const LEVELS_OF_SHAPE: u32 = 8;

/// Returns the errors of a value that is not valid, at most eight. If finding them takes too long, only that it is not.
pub(super) fn explain(schema: &CommonChecker, value: &Value) -> String {
    let mut explainer = Explainer { check: Check::new(schema, STEPS_TO_EXPLAIN), errors: Vec::new() };
    explainer.explain(0, value, &ValuePath::Root, 0);
    match explainer.errors.as_slice() {
        [] => "the value does not fit the schema".into(),
        errors => excerpt(&errors.join("; ")),
    }
}

/// A place in a value: a JSON pointer.
#[derive(Clone, Copy)]
enum ValuePath<'a> {
    Root,
    Member(&'a Self, &'a str),
    Item(&'a Self, usize),
}

impl fmt::Display for ValuePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Item(outer, index) => write!(f, "{outer}/{index}"),
            Self::Member(outer, name) => {
                write!(f, "{outer}/")?;
                name.chars().try_for_each(|c| match c {
                    '~' => f.write_str("~0"),
                    '/' => f.write_str("~1"),
                    c => f.write_char(c),
                })
            }
        }
    }
}

struct Explainer<'a> {
    check: Check<'a>,
    errors: Vec<String>,
}

impl<'a> Explainer<'a> {
    fn is_done(&self) -> bool {
        self.errors.len() >= MAX_ERRORS || self.check.stopped.is_some()
    }

    fn report(&mut self, what: fmt::Arguments<'_>, place: &ValuePath<'_>) {
        if !self.is_done() {
            self.errors.push(match place {
                ValuePath::Root => excerpt(&what),
                place => excerpt(&format_args!("{what} at {place}")),
            });
        }
    }

    /// Reports the errors of a value, below so many schemas that are open.
    fn explain(&mut self, id: Id, value: &Value, place: &ValuePath<'_>, open: u32) {
        if open >= MAX_OPEN {
            return;
        }
        for rule in self.check.rules(id) {
            if self.is_done() {
                return;
            }
            if !self.check.holds(rule, value, open + 1) && self.check.stopped.is_none() {
                self.explain_rule(rule, value, place, open + 1);
            }
        }
    }

    /// Reports the errors of a value for which a rule does not hold.
    fn explain_rule(&mut self, rule: &'a Rule, value: &Value, place: &ValuePath<'_>, open: u32) {
        match rule {
            Rule::Never => self.report(format_args!("the value is not allowed"), place),
            Rule::Types(types) => self.report(format_args!("the value is not of type {types}"), place),
            Rule::Values(values, _) => match values.as_slice() {
                [only] => self.report(format_args!("the value is not {only}"), place),
                values => self.report(format_args!("the value is none of {}", List(values)), place),
            },
            Rule::Limit { limit, is_minimum, is_exclusive } => {
                let what = match (is_minimum, is_exclusive) {
                    (true, false) => "less than",
                    (true, true) => "not greater than",
                    (false, false) => "greater than",
                    (false, true) => "not less than",
                };
                self.report(format_args!("the value is {what} {limit}"), place);
            }
            Rule::MultipleOf(divisor) => {
                self.report(format_args!("the value is not a multiple of {divisor}"), place);
            }
            Rule::Pattern(_, text) => self.report(format_args!("the value does not match {text:?}"), place),
            Rule::Count { counted, limit, is_minimum } => {
                let comparison = if *is_minimum { "fewer" } else { "more" };
                let what = match counted {
                    Counted::Characters => "characters",
                    Counted::Items => "items",
                    Counted::Members => "members",
                };
                self.report(format_args!("the value has {comparison} than {limit} {what}"), place);
            }
            Rule::Unique => self.report(format_args!("the value has equal items"), place),
            Rule::Contains(_) => self.report(format_args!("the value has no item of the kind that is required"), place),
            Rule::Not(_) => self.report(format_args!("the value is of a kind that is excluded"), place),
            Rule::All(ids) => ids.iter().for_each(|id| self.explain(*id, value, place, open)),
            Rule::Reference(id) => self.explain(*id, value, place, open),
            Rule::If { condition, then, otherwise } => {
                let branch = if self.check.is_valid(*condition, value, open) { then } else { otherwise };
                branch.iter().for_each(|id| self.explain(*id, value, place, open));
            }
            Rule::Any(ids) | Rule::One(ids) => self.explain_choice(ids, value, place, open),
            Rule::Items { first, others } => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    if let Some(id) = first.get(index).or(others.as_ref()) {
                        self.explain(*id, item, &ValuePath::Item(place, index), open);
                    }
                }
            }
            Rule::Required(_)
            | Rule::DependentRequired(_)
            | Rule::Members(_)
            | Rule::Unevaluated { .. }
            | Rule::Names(_) => self.explain_object(rule, value, place, open),
        }
    }

    fn explain_object(&mut self, rule: &'a Rule, value: &Value, place: &ValuePath<'_>, open: u32) {
        let Some(members) = value.as_object() else { return };
        match rule {
            Rule::Required(names) => {
                for name in names.iter().filter(|name| !members.contains_key(*name)).take(MAX_ERRORS) {
                    self.report(format_args!("{name:?} is a required property"), place);
                }
            }
            Rule::DependentRequired(dependencies) => {
                for (name, needed) in dependencies.iter().filter(|(name, _)| members.contains_key(name)) {
                    for needed in needed.iter().filter(|needed| !members.contains_key(*needed)).take(MAX_ERRORS) {
                        self.report(format_args!("{needed:?} is a required property if there is {name:?}"), place);
                    }
                }
            }
            Rule::Members(schemas) => {
                for (name, member) in members {
                    if self.is_done() || !self.check.take(schemas.steps(name)) {
                        return;
                    }
                    schemas.of(name).for_each(|id| self.explain_member(id, name, member, place, open));
                }
            }
            Rule::Unevaluated { of, schema } => {
                for (name, member) in members {
                    if self.is_done() {
                        return;
                    }
                    if !self.check.evaluates(*of, *of, value, name, open) {
                        self.explain_member(*schema, name, member, place, open);
                    }
                }
            }
            Rule::Names(_) => self.report(format_args!("the value has a member whose name is not allowed"), place),
            _ => {}
        }
    }

    fn explain_member(&mut self, id: Id, name: &str, member: &Value, place: &ValuePath<'_>, open: u32) {
        if let [Rule::Never] = self.check.rules(id) {
            self.report(format_args!("{name:?} is unexpected"), place);
        } else {
            self.explain(id, member, &ValuePath::Member(place, name), open);
        }
    }

    /// Reports the errors of a value that does not fit the alternatives. If it is meant for one of them, those of that.
    fn explain_choice(&mut self, ids: &'a [Id], value: &Value, place: &ValuePath<'_>, open: u32) {
        if self.check.count_valid(ids, value, open) > 1 {
            return self.report(format_args!("the value fits more than one of the alternatives"), place);
        }
        let mut meant: Vec<Id> = ids.iter().copied().filter(|id| self.has_shape(*id, value, LEVELS_OF_SHAPE)).collect();
        if meant.len() > 1 {
            meant.retain(|id| self.has_required_member(*id, value, LEVELS_OF_SHAPE));
        }
        match meant.as_slice() {
            [id] => self.explain(*id, value, place, open),
            _ => self.report(format_args!("the value fits none of the alternatives"), place),
        }
    }

    /// Returns whether a value has the type of a schema, and the constants by which alternatives are told apart.
    fn has_shape(&mut self, id: Id, value: &Value, levels: u32) -> bool {
        let Some(levels) = levels.checked_sub(1) else { return true };
        self.check.rules(id).iter().all(|rule| match rule {
            _ if !self.check.take(1) => false,
            Rule::Types(_) | Rule::Values(..) => self.check.holds(rule, value, 0),
            Rule::Reference(id) => self.has_shape(*id, value, levels),
            Rule::Members(members) => members.known.iter().all(|(name, id)| {
                let rules = self.check.rules(*id);
                if !self.check.take(name_steps(name) + rules.len() as u64) {
                    return false;
                }
                let Some(member) = value.get(name) else { return true };
                let mut constants = rules.iter().filter(|rule| matches!(rule, Rule::Values(..)));
                constants.all(|rule| self.check.holds(rule, member, 0))
            }),
            _ => true,
        })
    }

    /// Returns whether an object has a member that a schema requires.
    fn has_required_member(&mut self, id: Id, value: &Value, levels: u32) -> bool {
        let Some(levels) = levels.checked_sub(1) else { return false };
        self.check.rules(id).iter().any(|rule| match rule {
            _ if !self.check.take(1) => false,
            Rule::Required(names) => {
                names.iter().any(|name| self.check.take(name_steps(name)) && value.get(name).is_some())
            }
            Rule::Reference(id) => self.has_required_member(*id, value, levels),
            _ => false,
        })
    }
}

/// Returns the number of steps for a look-up of a member.
const fn name_steps(name: &str) -> u64 {
    1 + name.len() as u64 / 64
}

/// A list of values as in the texts of errors.
struct List<'a>(&'a [Value]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .enumerate()
            .try_for_each(|(index, value)| write!(f, "{}{value}", if index == 0 { "" } else { ", " }))
    }
}
