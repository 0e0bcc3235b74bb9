//! Paths and words of a Rust source. Comments, strings and doc comments are not code and never show up.

use std::str::FromStr as _;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A path that starts at the root of the crate.
#[derive(Debug)]
pub(crate) struct Place {
    /// The first name below the root.
    pub(crate) to: String,
    pub(crate) line: usize,
}

/// An identifier.
#[derive(Debug)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) line: usize,
    /// `io` for the word `io` in `std::io` or `std::{io, fmt}`.
    pub(crate) after_std: Option<String>,
}

fn parse(text: &str) -> Vec<TokenTree> {
    TokenStream::from_str(text).expect("source that lexes").into_iter().collect()
}

fn line(tree: &TokenTree) -> usize {
    tree.span().start().line
}

fn ident(tree: Option<&TokenTree>) -> Option<String> {
    match tree {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

fn is_punct(tree: Option<&TokenTree>, sign: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

/// Whether `::` starts at `at`.
fn is_colons(trees: &[TokenTree], at: usize) -> bool {
    is_punct(trees.get(at), ':') && is_punct(trees.get(at + 1), ':')
}

fn group(tree: Option<&TokenTree>, delimiter: Delimiter) -> Option<Vec<TokenTree>> {
    match tree {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(group.stream().into_iter().collect()),
        _ => None,
    }
}

/// Every path of `text`, the source of `module`, that passes through the root of its crate.
pub(crate) fn paths(text: &str, module: &[String]) -> Vec<Place> {
    let mut found = Vec::new();
    walk(&parse(text), module, &mut found);
    found
}

fn walk(trees: &[TokenTree], module: &[String], found: &mut Vec<Place>) {
    let mut at = 0;
    while at < trees.len() {
        let after_colons = at >= 2 && is_colons(trees, at - 2);
        match ident(trees.get(at)).as_deref() {
            Some("mod") if group(trees.get(at + 2), Delimiter::Brace).is_some() => {
                let mut inner = module.to_vec();
                inner.extend(ident(trees.get(at + 1)));
                walk(&group(trees.get(at + 2), Delimiter::Brace).unwrap_or_default(), &inner, found);
                at += 3;
                continue;
            }
            Some("crate" | "super" | "self") if !after_colons => {
                at = follow(trees, at, module.to_vec(), found);
                continue;
            }
            _ => {}
        }
        if let Some(TokenTree::Group(inner)) = trees.get(at) {
            walk(&inner.stream().into_iter().collect::<Vec<_>>(), module, found);
        }
        at += 1;
    }
}

/// Follows the path that starts at `at`, as seen from the module `base`, and returns where it ends.
fn follow(trees: &[TokenTree], at: usize, mut base: Vec<String>, found: &mut Vec<Place>) -> usize {
    let mut at = at;
    loop {
        match ident(trees.get(at)).as_deref() {
            Some("crate") => base.clear(),
            Some("super") => {
                base.pop();
            }
            Some("self") => {}
            _ => break,
        }
        if !is_colons(trees, at + 1) {
            return at + 1;
        }
        at += 3;
    }
    if let Some(inner) = group(trees.get(at), Delimiter::Brace) {
        for item in inner.split(|tree| is_punct(Some(tree), ',')).filter(|item| !item.is_empty()) {
            follow(item, 0, base.clone(), found);
        }
        return at + 1;
    }
    if base.is_empty()
        && let Some(tree) = trees.get(at)
    {
        found.push(Place { to: tree.to_string(), line: line(tree) });
    }
    at + 1
}

/// Every identifier of `text` outside of its unit tests.
pub(crate) fn words(text: &str) -> Vec<Word> {
    let mut found = Vec::new();
    collect(&parse(text), &mut found);
    found
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

/// Whether `#[cfg(test)]` starts at `at`.
fn is_test_attribute(trees: &[TokenTree], at: usize) -> bool {
    let Some(inner) = is_punct(trees.get(at), '#').then(|| group(trees.get(at + 1), Delimiter::Bracket)).flatten()
    else {
        return false;
    };
    let condition = group(inner.get(1), Delimiter::Parenthesis).unwrap_or_default();
    ident(inner.first()).as_deref() == Some("cfg")
        && condition.len() == 1
        && ident(condition.first()).as_deref() == Some("test")
}

/// The end of the item at `at`: its first braces or semicolon.
fn item_end(trees: &[TokenTree], at: usize) -> usize {
    let is_end = |tree: &TokenTree| {
        is_punct(Some(tree), ';') || matches!(tree, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace)
    };
    trees[at..].iter().position(is_end).map_or(trees.len(), |end| at + end + 1)
}
