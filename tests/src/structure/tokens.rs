//! Tokens and words of a Rust source. Comments, strings and documentation are not code and never show up.

use std::str::FromStr as _;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// An identifier.
#[derive(Debug)]
pub struct Word {
    /// Its text.
    pub text: String,
    /// Its line, from 1.
    pub line: usize,
    /// `io` for the word `io` in `std::io` or `std::{io, fmt}`.
    pub after_std: Option<String>,
}

pub(super) fn parse(text: &str) -> Vec<TokenTree> {
    TokenStream::from_str(text).expect("source that lexes").into_iter().collect()
}

pub(super) fn line(tree: &TokenTree) -> usize {
    tree.span().start().line
}

pub(super) fn ident(tree: Option<&TokenTree>) -> Option<String> {
    match tree {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

pub(super) fn is_punct(tree: Option<&TokenTree>, sign: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

/// Returns whether `::` starts at `at`.
pub(super) fn is_colons(trees: &[TokenTree], at: usize) -> bool {
    is_punct(trees.get(at), ':') && is_punct(trees.get(at + 1), ':')
}

pub(super) fn group(tree: Option<&TokenTree>, delimiter: Delimiter) -> Option<Vec<TokenTree>> {
    match tree {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(group.stream().into_iter().collect()),
        _ => None,
    }
}

/// Returns every identifier of `text` outside of its unit tests.
///
/// # Panics
/// If `text` does not lex.
#[must_use]
pub fn words(text: &str) -> Vec<Word> {
    let mut found = Vec::new();
    collect(&parse(text), &mut found);
    found
}

/// A function and its length, from its keyword to its closing brace.
#[derive(Debug)]
pub struct FunctionLength {
    /// Its name.
    pub name: String,
    /// Its first line, from 1.
    pub line: usize,
    /// Its length in lines.
    pub lines: usize,
}

/// Returns every function of `text`, unit tests and functions inside of functions included.
///
/// # Panics
/// If `text` does not lex.
#[must_use]
pub fn functions(text: &str) -> Vec<FunctionLength> {
    let mut found = Vec::new();
    collect_functions(&parse(text), &mut found);
    found
}

fn collect_functions(trees: &[TokenTree], found: &mut Vec<FunctionLength>) {
    for (at, tree) in trees.iter().enumerate() {
        if let TokenTree::Group(group) = tree {
            collect_functions(&group.stream().into_iter().collect::<Vec<_>>(), found);
        }
        if ident(Some(tree)).as_deref() != Some("fn") {
            continue;
        }
        let Some(name) = ident(trees.get(at + 1)) else { continue };
        if let Some(TokenTree::Group(body)) = trees.get(item_end(trees, at) - 1) {
            let first = line(tree);
            found.push(FunctionLength { name, line: first, lines: body.span_close().end().line + 1 - first });
        }
    }
}

fn collect(trees: &[TokenTree], found: &mut Vec<Word>) {
    let mut at = 0;
    while at < trees.len() {
        if is_test_attribute(trees, at) {
            at = item_end(trees, at + 2);
            continue;
        }
        match &trees[at] {
            TokenTree::Group(group) => collect(&group.stream().into_iter().collect::<Vec<_>>(), found),
            TokenTree::Ident(name) if name == "std" && is_colons(trees, at + 1) => {
                let items = match group(trees.get(at + 3), Delimiter::Brace) {
                    Some(inner) => inner.split(|tree| is_punct(Some(tree), ',')).map(<[_]>::to_vec).collect(),
                    None => vec![trees[at + 3..].iter().take(1).cloned().collect::<Vec<_>>()],
                };
                for item in items {
                    if let Some(text) = ident(item.first()) {
                        found.push(Word { line: line(&item[0]), after_std: Some(text.clone()), text });
                    }
                }
                // The rest of the path holds words of its own, and the first one is not read twice.
                at += if group(trees.get(at + 3), Delimiter::Brace).is_some() { 3 } else { 4 };
                continue;
            }
            tree @ TokenTree::Ident(name) => {
                found.push(Word { text: name.to_string(), line: line(tree), after_std: None });
            }
            _ => {}
        }
        at += 1;
    }
}

/// Returns whether `#[cfg(test)]` or `#[cfg(all(test, ..))]` starts at `at`.
pub(super) fn is_test_attribute(trees: &[TokenTree], at: usize) -> bool {
    let Some(inner) = is_punct(trees.get(at), '#').then(|| group(trees.get(at + 1), Delimiter::Bracket)).flatten()
    else {
        return false;
    };
    let mut condition = group(inner.get(1), Delimiter::Parenthesis).unwrap_or_default();
    if ident(condition.first()).as_deref() == Some("all") {
        condition = group(condition.get(1), Delimiter::Parenthesis).unwrap_or_default();
    }
    ident(inner.first()).as_deref() == Some("cfg")
        && condition
            .split(|tree| is_punct(Some(tree), ','))
            .any(|part| part.len() == 1 && ident(part.first()).as_deref() == Some("test"))
}

/// Returns the end of the item at `at`: behind its first braces or semicolon.
pub(super) fn item_end(trees: &[TokenTree], at: usize) -> usize {
    let is_end = |tree: &TokenTree| {
        is_punct(Some(tree), ';') || matches!(tree, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace)
    };
    trees[at..].iter().position(is_end).map_or(trees.len(), |end| at + end + 1)
}
