//! The functions of a source file: their positions, attributes and contents.
//!
//! Files are parsed into tokens, so that comments and strings are not read as code.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::workspace::Source;

/// The kinds of named items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A function of a module.
    Function,
    /// A function of an `impl` or a trait.
    Method,
    /// A constant or a static.
    Constant,
    /// A name in `scenarios! { }`.
    Scenario,
    /// The name of a `Trial::test(..)`.
    Trial,
}

/// An item of a file.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// The modules around it in this file.
    pub modules: Vec<String>,
    /// Its attributes, as text without spaces, for example `test`. Documentation is not included.
    pub attributes: Vec<String>,
    /// The line of its first attribute, from 1.
    pub start: usize,
    /// The line of its name, from 1.
    pub head: usize,
    /// The identifiers in it.
    pub words: BTreeSet<String>,
    /// The revisions that it names.
    pub revisions: BTreeSet<&'static str>,
    /// Whether it contains an assertion about an expression that is not constant.
    pub asserts: bool,
}

/// Returns all items of a file.
///
/// # Errors
/// If the file is not valid Rust.
pub fn items(source: &Source) -> Result<Vec<Item>, String> {
    let tokens: TokenStream = source.text.parse().map_err(|error| format!("not Rust: {error}"))?;
    let mut walk = Walk::default();
    walk.level(tokens, Place::Module);
    Ok(walk.items)
}

/// The revisions: the legacy era, oldest first, then the modern one.
pub const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Module,
    Methods,
}

#[derive(Default)]
struct Walk {
    modules: Vec<String>,
    items: Vec<Item>,
}

impl Walk {
    /// Reads the items of a module or of an `impl`.
    fn level(&mut self, tokens: TokenStream, place: Place) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let (mut attributes, mut start) = (Vec::new(), None);
        let mut at = 0;
        while at < tokens.len() {
            let line = tokens[at].span().start().line;
            match (word(&tokens, at).as_deref(), &tokens[at]) {
                (_, TokenTree::Punct(punct)) if punct.as_char() == '#' => {
                    if let Some(TokenTree::Group(group)) = tokens.get(at + 1) {
                        start.get_or_insert(line);
                        let text = group.stream().to_string().replace(char::is_whitespace, "");
                        if !text.starts_with("doc=") {
                            attributes.push(text);
                        }
                        at += 2;
                        continue;
                    }
                }
                (Some("mod"), _) => {
                    if let Some(inner) = braces(&tokens, at + 2) {
                        self.modules.push(word(&tokens, at + 1).unwrap_or_default());
                        self.level(inner, Place::Module);
                        self.modules.pop();
                    }
                    at += 2;
                }
                (Some("fn"), _) if word(&tokens, at + 1).is_some() => {
                    let body = (at..tokens.len()).find(|at| ends_item(&tokens, *at)).unwrap_or(at);
                    let kind = if place == Place::Module { Kind::Function } else { Kind::Method };
                    self.item(kind, &tokens[at..=body], std::mem::take(&mut attributes), start.take());
                    at = body;
                }
                (Some("const" | "static"), _)
                    if word(&tokens, at + 1).is_some_and(|name| !["fn", "unsafe", "mut"].contains(&&*name)) =>
                {
                    let end = (at..tokens.len()).find(|at| is_punct(&tokens, *at, ';')).unwrap_or(at);
                    self.item(Kind::Constant, &tokens[at..=end], std::mem::take(&mut attributes), start.take());
                    at = end;
                }
                (Some("impl" | "trait"), _) => {
                    let body = (at..tokens.len()).find(|at| ends_item(&tokens, *at)).unwrap_or(at);
                    if let Some(inner) = braces(&tokens, body) {
                        self.level(inner, Place::Methods);
                    }
                    at = body;
                }
                (Some("scenarios"), _) if is_punct(&tokens, at + 1, '!') => {
                    if let Some(TokenTree::Group(rows)) = tokens.get(at + 2) {
                        self.scenarios(rows.stream());
                    }
                    at += 2;
                }
                // The tests of an `impl` have their own attributes and are listed like other tests.
                (Some("proptest"), _) if is_punct(&tokens, at + 1, '!') => {
                    self.level(braces(&tokens, at + 2).unwrap_or_default(), Place::Module);
                    at += 2;
                }
                _ => {}
            }
            if ends_item(&tokens, at) {
                attributes.clear();
                start = None;
            }
            at += 1;
        }
    }

    /// Adds the item whose keyword and name are the first of `tokens`.
    fn item(&mut self, kind: Kind, tokens: &[TokenTree], attributes: Vec<String>, start: Option<usize>) {
        let head = tokens[1].span().start().line;
        let name = word(tokens, 1).unwrap_or_default();
        self.add(kind, name, attributes, start.unwrap_or(head), head, &tokens[2..]);
        if kind != Kind::Constant {
            self.trials(tokens);
        }
    }

    fn add(
        &mut self,
        kind: Kind,
        name: String,
        attributes: Vec<String>,
        start: usize,
        head: usize,
        body: &[TokenTree],
    ) {
        let mut read = Read::default();
        read.tokens(body);
        let Read { words, revisions, asserts } = read;
        let modules = self.modules.clone();
        self.items.push(Item { kind, name, modules, attributes, start, head, words, revisions, asserts });
    }

    fn scenarios(&mut self, rows: TokenStream) {
        for row in rows {
            if let TokenTree::Ident(name) = &row {
                let line = name.span().start().line;
                self.add(Kind::Scenario, name.to_string(), Vec::new(), line, line, std::slice::from_ref(&row));
            }
        }
    }

    /// Adds each `Trial::test("name", ..)`, at any depth.
    fn trials(&mut self, tokens: &[TokenTree]) {
        for (at, token) in tokens.iter().enumerate() {
            if let TokenTree::Group(inner) = token {
                let inner: Vec<TokenTree> = inner.stream().into_iter().collect();
                if is_word(tokens, at.checked_sub(1), "test")
                    && is_word(tokens, at.checked_sub(4), "Trial")
                    && let Some(TokenTree::Literal(name)) = inner.first()
                {
                    let line = tokens[at - 4].span().start().line;
                    let name = name.to_string().trim_matches('"').to_owned();
                    self.add(Kind::Trial, name, Vec::new(), line, line, &inner);
                }
                self.trials(&inner);
            }
        }
    }
}

/// The contents of an item.
#[derive(Default)]
struct Read {
    words: BTreeSet<String>,
    revisions: BTreeSet<&'static str>,
    asserts: bool,
}

impl Read {
    fn tokens(&mut self, tokens: &[TokenTree]) {
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    if at >= 2 && is_punct(tokens, at - 1, '!') {
                        self.asserts |= word(tokens, at - 2).is_some_and(|name| asserts(&name, &inner));
                    }
                    self.tokens(&inner);
                }
                TokenTree::Ident(name) => {
                    let name = name.to_string();
                    self.revisions.extend(named(&name, tokens, at));
                    // `VersionSet::since(V2025_06_18)` also stands for all later revisions.
                    if ["since", "between"].contains(&&*name) {
                        self.range(tokens.get(at + 1));
                    }
                    self.words.insert(name);
                }
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    self.revisions.extend(REVISIONS.into_iter().filter(|revision| text.contains(revision)));
                }
                TokenTree::Punct(_) => {}
            }
        }
    }

    fn range(&mut self, arguments: Option<&TokenTree>) {
        let Some(TokenTree::Group(group)) = arguments else { return };
        let mut bounds = Self::default();
        bounds.tokens(&group.stream().into_iter().collect::<Vec<_>>());
        let (first, last) = (bounds.revisions.first().copied(), bounds.revisions.last().copied());
        let last = if bounds.revisions.len() > 1 { last } else { REVISIONS.last().copied() };
        self.revisions
            .extend(REVISIONS.into_iter().filter(|it| Some(*it) >= first && first.is_some() && Some(*it) <= last));
    }
}

/// Returns the revisions that the identifier at this position stands for.
///
/// `ProtocolVersion::LEGACY` stands for each of its revisions. `VersionSet::LEGACY` is a set that a peer chooses from,
/// unless the test iterates over it.
fn named(name: &str, tokens: &[TokenTree], at: usize) -> Vec<&'static str> {
    let is_of = |owner: &str| is_word(tokens, at.checked_sub(3), owner);
    let is_iterated = is_punct(tokens, at + 1, '.') && is_word(tokens, Some(at + 2), "iter");
    let is_each = is_of("ProtocolVersion") || (is_of("VersionSet") && is_iterated);
    match name {
        "LEGACY" if is_each => REVISIONS[..4].to_vec(),
        "ALL" if is_each => REVISIONS.to_vec(),
        "LATEST_LEGACY" => vec![REVISIONS[3]],
        _ => {
            let date = name.strip_prefix('V').map(|date| date.replace('_', "-"));
            REVISIONS.into_iter().filter(|revision| date.as_deref() == Some(revision)).collect()
        }
    }
}

/// Returns whether a macro call is an assertion that depends on an expression.
fn asserts(name: &str, arguments: &[TokenTree]) -> bool {
    fn varies(tokens: &[TokenTree]) -> bool {
        tokens.iter().any(|token| match token {
            TokenTree::Ident(name) => name != "true" && name != "false",
            TokenTree::Group(group) => varies(&group.stream().into_iter().collect::<Vec<_>>()),
            _ => false,
        })
    }
    match name {
        "panic" | "unreachable" => true,
        "assert" | "assert_eq" | "assert_ne" | "prop_assert" | "prop_assert_eq" | "prop_assert_ne" => varies(arguments),
        _ => false,
    }
}

fn word(tokens: &[TokenTree], at: usize) -> Option<String> {
    match tokens.get(at) {
        Some(TokenTree::Ident(name)) => Some(name.to_string()),
        _ => None,
    }
}

fn is_word(tokens: &[TokenTree], at: Option<usize>, name: &str) -> bool {
    at.is_some_and(|at| matches!(tokens.get(at), Some(TokenTree::Ident(word)) if word == name))
}

fn is_punct(tokens: &[TokenTree], at: usize, character: char) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == character)
}

/// Returns the stream in the braces at this position, if there are any.
fn braces(tokens: &[TokenTree], at: usize) -> Option<TokenStream> {
    match tokens.get(at) {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => Some(group.stream()),
        _ => None,
    }
}

/// Returns whether an item ends here: at a semicolon or a pair of braces.
fn ends_item(tokens: &[TokenTree], at: usize) -> bool {
    is_punct(tokens, at, ';') || braces(tokens, at).is_some()
}
