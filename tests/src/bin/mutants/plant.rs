//! Many mutants in one source: every function gets a copy of its body for each of its mutants, and selects one at run
//! time.

use std::str::FromStr as _;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::mutant::{Mutant, Place};

/// The function that selects the active mutant: the number in the variable `MUTANT`, or none. Code that the compiler
/// runs has none. If the variable `MUTANT_REACHED` names a file, the numbers of the mutants of each function that runs
/// are appended to it, once per process.
pub(crate) const CHOICE: &str = r#"
pub(crate) const fn mutant(here: &'static [u32]) -> u32 {
    fn chosen(here: &'static [u32]) -> u32 {
        extern crate std;
        use std::io::Write as _;
        static CHOSEN: std::sync::OnceLock<(u32, Option<std::ffi::OsString>)> = std::sync::OnceLock::new();
        use std::sync::atomic::{AtomicBool, Ordering};
        static REACHED: [AtomicBool; 4096] = [const { AtomicBool::new(false) }; 4096];
        let (number, reached) = CHOSEN.get_or_init(|| {
            let number = std::env::var("MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
            (number, std::env::var_os("MUTANT_REACHED"))
        });
        if let Some(path) = reached {
            if !REACHED[here[0] as usize].swap(true, Ordering::Relaxed) {
                let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).expect("a file");
                let text: std::string::String = here.iter().map(|number| std::format!("{number}\n")).collect();
                file.write_all(text.as_bytes()).expect("written lines");
            }
        }
        *number
    }
    const fn none(_: &'static [u32]) -> u32 {
        0
    }
    core::intrinsics::const_eval_select((here,), none, chosen)
}
"#;

/// The number of mutants that fit into one build, by the length of the table in [`CHOICE`].
pub(crate) const MOST: usize = 4095;

/// The attributes that [`CHOICE`] requires at the start of the crate.
pub(crate) const FEATURES: &str = "#![feature(core_intrinsics, const_eval_select)]\n#![allow(internal_features)]\n";

/// The marker before each copy, with its number, 0 for the original. A marker without number follows the last copy.
const MARK: &str = "/*@";

/// Returns `text` with its mutants, each under its number.
///
/// # Panics
/// If the text does not contain a function or the position of a mutant.
pub(crate) fn plant(text: &str, mutants: &[(u32, &Mutant)]) -> String {
    let offset = offsets(text);
    let range = |(start, end): (Place, Place)| offset(start)..offset(end);

    // Nested functions are copied with the function that contains them.
    let mut functions: Vec<_> = mutants.iter().filter_map(|(_, mutant)| Some(range(mutant.function?))).collect();
    functions.sort_unstable_by_key(|function| (function.start, std::cmp::Reverse(function.end)));
    functions.dedup_by(|inner, outer| inner.end <= outer.end);

    let mut planted = String::new();
    let mut done = 0;
    for function in functions {
        let body = body(&text[function.clone()]).expect("a function has a body");
        let body = function.start + body.start..function.start + body.end;
        let here = mutants.iter().filter(|(_, mutant)| function.contains(&offset(mutant.span.0)));
        let numbers: Vec<String> = here.clone().map(|(number, _)| number.to_string()).collect();
        planted.push_str(&text[done..body.start]);
        // The original is the first copy, so that the compiler reports errors in the other copies.
        let original = &text[body.clone()];
        let (list, others) = (numbers.join(", "), numbers.join(" | "));
        planted.push_str(&format!(
            "\nmatch crate::mutant(&[{list}]) {{
{MARK}0*/ mutant_ if !matches!(mutant_, {others}) => {{{original}\n}}\n"
        ));
        for (number, mutant) in here {
            let span = range(mutant.span);
            let (before, after) = (&text[body.start..span.start], &text[span.end..body.end]);
            let replacement = &mutant.replacement;
            planted.push_str(&format!("{MARK}{number}*/ {number} => {{{before} {replacement} {after}\n}}\n"));
        }
        planted.push_str(&format!("{MARK}*/ _ => unreachable!()\n}}\n"));
        done = body.end;
    }
    planted + &text[done..]
}

/// Returns `text` with one mutant in place of what it replaces.
pub(crate) fn replace(text: &str, mutant: &Mutant) -> String {
    let offset = offsets(text);
    let (start, end) = mutant.span;
    [&text[..offset(start)], &mutant.replacement, &text[offset(end)..]].concat()
}

/// Returns whether a mutant changes the body of its function: others change a constant or the type of an array.
pub(crate) fn is_in_body(text: &str, mutant: &Mutant) -> bool {
    let offset = offsets(text);
    mutant.function.is_some_and(|(start, end)| {
        let function = offset(start)..offset(end);
        body(&text[function.clone()]).is_some_and(|body| function.start + body.start <= offset(mutant.span.0))
    })
}

/// Returns the function that converts a place in a text into its offset in bytes.
fn offsets(text: &str) -> impl Fn(Place) -> usize {
    let lines: Vec<usize> = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    move |(line, column)| {
        let start = lines[line - 1];
        start + text[start..].chars().take(column - 1).map(char::len_utf8).sum::<usize>()
    }
}

/// Returns the text between the braces of a function.
fn body(function: &str) -> Option<std::ops::Range<usize>> {
    let trees: Vec<TokenTree> = TokenStream::from_str(function).ok()?.into_iter().collect();
    match trees.last()? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
            let whole = group.span().byte_range();
            Some(whole.start + 1..whole.end - 1)
        }
        _ => None,
    }
}

/// The copy of a function that contains a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The copy of this mutant.
    Mutant(u32),
    /// The copy without a mutant, in the function of these mutants.
    Original(Vec<u32>),
}

/// Returns which copy contains a line, from 1, of a planted text.
pub(crate) fn owner(text: &str, line: usize) -> Option<Owner> {
    let lines: Vec<&str> = text.lines().collect();
    let mark = |line: &&str| Some(line.strip_prefix(MARK)?.split_once("*/")?.0.parse::<u32>().ok());
    let (before, after) = lines.split_at(line.min(lines.len()));
    match before.iter().rev().find_map(mark).flatten()? {
        0 => Some(Owner::Original(after.iter().filter_map(mark).map_while(|number| number).collect())),
        number => Some(Owner::Mutant(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "const OPEN: u8 = b'{';\n\nfn both(a: bool, b: bool) -> bool {\n    // }\n    a && b\n}\n";

    fn mutant(span: (Place, Place), replacement: &str) -> Mutant {
        let (function, file) = (Some(((3, 1), (6, 2))), String::new());
        Mutant { name: String::new(), file, function, returns_impl: false, span, replacement: replacement.to_owned() }
    }

    #[test]
    fn each_mutant_has_its_own_copy() {
        let (or, never) = (mutant(((5, 7), (5, 9)), "||"), mutant(((5, 5), (5, 11)), "false"));
        let planted = plant(TEXT, &[(3, &or), (8, &never)]);
        let body = |number: &str| {
            let copy = planted.split_once(&format!("{MARK}{number}*/")).expect("a copy").1;
            let body = copy.split_once("{\n").expect("a body").1.split_once("\n}\n").expect("an end").0;
            body.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!([body("0"), body("3"), body("8")], ["// } a && b", "// } a || b", "// } false"]);
        assert!(
            planted.contains("if !matches!(mutant_, 3 | 8)"),
            "the original lives for all other numbers: {planted}"
        );
        assert!(planted.starts_with(&TEXT[..TEXT.find("    //").expect("a body") - 1]) && planted.ends_with("}\n}\n"));
        let line = |text: &str| planted.lines().position(|line| line.contains(text)).expect("a line") + 1;
        assert_eq!(owner(&planted, line("false")), Some(Owner::Mutant(8)));
        assert_eq!(owner(&planted, line(" || ")), Some(Owner::Mutant(3)));
        assert_eq!(owner(&planted, line("a && b")), Some(Owner::Original(vec![3, 8])));
        assert_eq!(owner(&planted, 1), None);
        assert_eq!(owner(&planted, planted.lines().count()), None);
    }

    #[test]
    fn a_constant_is_replaced_in_place() {
        let bracket = mutant(((1, 18), (1, 22)), "b'['");
        assert_eq!(replace(TEXT, &bracket), TEXT.replace("b'{'", "b'['"));
    }
}
