//! The error of a registration.

use std::fmt;

/// The error of an item that cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// Another item has this name.
    Taken(String),
    /// The name is invalid. Names of tools have 1 to 128 letters, digits and `_-.`.
    Name(String),
    /// The text is no URI.
    Uri(String),
    /// The text is no URI template that can be matched.
    Template {
        /// The template.
        template: String,
        /// The reason.
        why: String,
    },
    /// The schema of a tool cannot be used.
    Schema {
        /// The name of the tool.
        tool: String,
        /// The reason.
        why: String,
    },
    /// The text is no scope.
    Scope {
        /// The name of the item that requires it.
        item: String,
        /// The text.
        scope: String,
    },
    /// The text is no prefix. A prefix has 1 to 64 letters, digits and `-_.`, begins with a letter, does not end with
    /// `_`, and does not contain `__`.
    Prefix(String),
    /// The service cannot be mounted, or a server cannot be a backend. The text is the reason.
    Mount(String),
    /// A skill is invalid.
    Skill {
        /// The URI of its `SKILL.md`.
        skill: String,
        /// The reason.
        why: String,
    },
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(name) => write!(f, "there is a {name:?} already"),
            Self::Name(name) => write!(f, "{name:?} cannot be a name"),
            Self::Uri(uri) => write!(f, "{uri:?} is not a URI"),
            Self::Template { template, why } => write!(f, "{template:?} cannot be matched: {why}"),
            Self::Scope { item, scope } => write!(f, "{item:?} cannot require the scope {scope:?}"),
            Self::Prefix(text) => write!(f, "{text:?} cannot be a prefix"),
            Self::Mount(why) => f.write_str(why),
            Self::Skill { skill, why } => write!(f, "the skill {skill:?} cannot be offered: {why}"),
            Self::Schema { tool, why } => write!(f, "the schema of {tool:?} cannot be used: {why}"),
        }
    }
}

impl std::error::Error for RegisterError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_text() {
        let [item, why] = ["item", "why"].map(str::to_owned);
        for (error, text) in [
            (RegisterError::Taken(item.clone()), "there is a \"item\" already"),
            (RegisterError::Name(item.clone()), "\"item\" cannot be a name"),
            (RegisterError::Uri(item.clone()), "\"item\" is not a URI"),
            (RegisterError::Template { template: item.clone(), why: why.clone() }, "\"item\" cannot be matched: why"),
            (
                RegisterError::Scope { item: item.clone(), scope: why.clone() },
                "\"item\" cannot require the scope \"why\"",
            ),
            (RegisterError::Prefix(item.clone()), "\"item\" cannot be a prefix"),
            (RegisterError::Mount(why.clone()), "why"),
            (
                RegisterError::Skill { skill: item.clone(), why: why.clone() },
                "the skill \"item\" cannot be offered: why",
            ),
            (RegisterError::Schema { tool: item, why }, "the schema of \"item\" cannot be used: why"),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
