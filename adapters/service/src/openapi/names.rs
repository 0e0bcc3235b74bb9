//! Names of tools and of arguments: valid and unique.

use std::collections::{HashMap, HashSet};

/// The longest name, in bytes. Some hosts allow no longer ones.
const MAX_NAME: usize = 64;
/// How many characters of a text may become a name.
const MAX_READ: usize = 1 << 10;

/// Names that were given.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: HashSet<String>,
    /// The last number that was added to a name.
    numbers: HashMap<String, usize>,
}

impl Names {
    /// Returns a valid name that is not taken: the text, with `_` for other characters, and a number if it is taken.
    pub(super) fn unique(&mut self, text: &str) -> String {
        let base = valid(text);
        if self.taken.insert(base.clone()) {
            return base;
        }
        let number = self.numbers.entry(base.clone()).or_insert(1);
        loop {
            *number += 1;
            let end = format!("_{number}");
            let name = format!("{}{end}", &base[..base.len().min(MAX_NAME - end.len())]);
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// Returns a text with `_` for each run of characters that names of tools do not have.
fn valid(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars().take(MAX_READ) {
        let is_part = c.is_ascii_alphanumeric() || c == '-' || c == '.' || c == '_';
        if is_part {
            name.push(c);
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
        if name.len() >= MAX_NAME {
            break;
        }
    }
    let end = name.trim_end_matches('_').len().max(1).min(name.len());
    name.truncate(end);
    if name.is_empty() { "unnamed".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_and_unique() {
        let mut names = Names::default();
        let mut name = |text: &str| names.unique(text);
        assert_eq!(name("getPet"), "getPet");
        assert_eq!(name("getPet"), "getPet_2");
        assert_eq!(name("getPet_2"), "getPet_2_2");
        assert_eq!(name("getPet"), "getPet_3");
        assert_eq!(name("filter[name]"), "filter_name");
        assert_eq!(name("pets/{id}"), "pets_id");
        assert_eq!(name("Ünïcode näme"), "n_code_n_me");
        assert_eq!(name("日本"), "unnamed");
        assert_eq!(name(""), "unnamed_2");
        assert_eq!(name("__"), "_");
        let long = "x".repeat(1_000);
        assert_eq!(name(&long), "x".repeat(64));
        assert_eq!(name(&long), format!("{}_2", "x".repeat(62)));
    }

    #[test]
    fn ten_thousand_equal_names_take_linear_time() {
        let mut names = Names::default();
        let all: HashSet<_> = (0..10_000).map(|_| names.unique("same")).collect();
        assert_eq!(all.len(), 10_000);
        assert!(all.contains("same_10000"));
    }
}
