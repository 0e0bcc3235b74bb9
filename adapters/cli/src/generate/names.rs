//! Names of Rust that are made from names of a server.

use std::collections::{HashMap, HashSet};

/// The words that are no identifiers. `crate`, `self`, `super` and `Self` cannot be raw identifiers either.
const KEYWORDS: [&str; 53] = [
    "Self", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super",
    "trait", "true", "try", "type", "typeof", "union", "unsafe", "unsized", "use", "virtual", "where", "while",
    "yield",
];

/// The most characters of a name. The rest of a longer one is dropped.
const MAX: usize = 60;

/// Returns the words of a name: its runs of letters and digits, also divided where a small letter precedes a capital.
fn words(name: &str) -> Vec<String> {
    let (mut words, mut word, mut was_small) = (Vec::new(), String::new(), false);
    for letter in name.chars().take(MAX) {
        if !letter.is_ascii_alphanumeric() || (letter.is_ascii_uppercase() && was_small) {
            words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
        }
        if letter.is_ascii_alphanumeric() {
            word.push(letter.to_ascii_lowercase());
        }
        was_small = letter.is_ascii_lowercase() || letter.is_ascii_digit();
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

/// Returns a name for a function or a field.
pub(super) fn snake_case(name: &str) -> String {
    let text = words(name).join("_");
    match text.chars().next() {
        None => "unnamed".into(),
        Some(first) if first.is_ascii_digit() => format!("n{text}"),
        _ if KEYWORDS.contains(&&*text) => format!("{text}_"),
        _ => text,
    }
}

/// Returns a name for a type or a variant.
pub(super) fn camel_case(name: &str) -> String {
    let text: String = words(name)
        .iter()
        .map(|word| {
            let (first, rest) = word.split_at(1);
            first.to_ascii_uppercase() + rest
        })
        .collect();
    match text.chars().next() {
        None => "Unnamed".into(),
        Some(first) if first.is_ascii_digit() => format!("N{text}"),
        _ if KEYWORDS.contains(&&*text) => format!("{text}_"),
        _ => text,
    }
}

/// Names that are taken in one scope.
#[derive(Default)]
pub(super) struct Scope {
    taken: HashSet<String>,
    /// The next number of each name that was there before, so that many equal names take linear time.
    numbers: HashMap<String, u32>,
}

impl Scope {
    /// Creates a scope in which these names are taken.
    pub(super) fn with(taken: &[&str]) -> Self {
        Self { taken: taken.iter().map(|name| (*name).to_owned()).collect(), numbers: HashMap::new() }
    }

    /// Returns `name`, or `name` with the first number that makes it unique.
    pub(super) fn take(&mut self, name: String) -> String {
        if self.taken.insert(name.clone()) {
            return name;
        }
        let number = self.numbers.entry(name.clone()).or_insert(2);
        loop {
            let numbered = format!("{name}{number}");
            *number += 1;
            if self.taken.insert(numbered.clone()) {
                return numbered;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_identifiers() {
        let rows = [
            ("get_weather", "get_weather", "GetWeather"),
            ("getWeather2Day", "get_weather2_day", "GetWeather2Day"),
            ("HTTPServer", "httpserver", "Httpserver"),
            ("a.b/c-d", "a_b_c_d", "ABCD"),
            ("2fa", "n2fa", "N2fa"),
            ("type", "type_", "Type"),
            ("self", "self_", "Self_"),
            ("", "unnamed", "Unnamed"),
            ("größe", "gr_e", "GrE"),
            ("\"; panic!() //", "panic", "Panic"),
        ];
        for (name, snake, camel) in rows {
            assert_eq!((&*snake_case(name), &*camel_case(name)), (snake, camel), "{name:?}");
        }
    }

    #[test]
    fn taken_names_get_a_number() {
        let mut scope = Scope::with(&["a"]);
        let names = ["a", "a", "a2", "b"].map(|name| scope.take(name.into()));
        assert_eq!(names, ["a2", "a3", "a22", "b"]);
    }
}
