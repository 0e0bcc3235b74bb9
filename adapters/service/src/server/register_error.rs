//! The error of a registration.

use std::fmt;

/// Why something cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// There is one of this name already.
    Taken(String),
    /// This cannot be a name. Those of tools have 1 to 128 letters, digits and `_-.`.
    Name(String),
    /// This is no URI.
    Uri(String),
    /// This is no URI template that can be matched.
    Template {
        /// The template.
        template: String,
        /// What is wrong with it.
        why: String,
    },
    /// The schema of a tool cannot be used.
    Schema {
        /// The tool.
        tool: String,
        /// What is wrong with it.
        why: String,
    },
    /// A skill cannot be offered.
    Skill {
        /// The URI of its `SKILL.md`.
        skill: String,
        /// What is wrong with it.
        why: String,
    },
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(name) => write!(f, "there is a {name:?} already"),
            Self::Name(name) => write!(f, "{name:?} cannot be a name"),
            Self::Uri(uri) => write!(f, "{uri:?} is no URI"),
            Self::Template { template, why } => write!(f, "{template:?} cannot be matched: {why}"),
            Self::Skill { skill, why } => write!(f, "the skill {skill:?} cannot be offered: {why}"),
            Self::Schema { tool, why } => write!(f, "the schema of {tool:?} cannot be used: {why}"),
        }
    }
}

impl std::error::Error for RegisterError {}
