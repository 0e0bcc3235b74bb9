//! Parses the sources of a crate into modules: what each defines, imports and names.
//!
//! Sources are read as tokens, so comments, strings and documentation are never mistaken for code. Code that is
//! compiled only for tests is left out.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenTree};

use super::tokens::{group, ident, is_colons, is_punct, is_test_attribute, item_end, line, parse};
use crate::workspace::Source;

/// Keywords that define the name behind them.
const DEFINES: [&str; 8] = ["const", "enum", "fn", "static", "struct", "trait", "type", "union"];

/// Keywords that may stand between one of these and the name.
const QUALIFIERS: [&str; 6] = ["_", "async", "extern", "fn", "mut", "unsafe"];

/// A function and its length.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) lines: usize,
}

/// An import: one name of a `use`.
#[derive(Clone, Debug)]
pub(super) struct Import {
    /// The name that it binds, or `*`.
    pub(super) alias: String,
    /// The path as written, without the alias.
    pub(super) path: Vec<String>,
    pub(super) line: usize,
    /// Whether it has a visibility: a re-export.
    pub(super) exported: bool,
}

/// A path of two or more segments in code.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
}

/// A module: that of a file, or an inline one.
#[derive(Clone, Debug, Default)]
pub(super) struct Module {
    /// Its path from the root of the crate.
    pub(super) path: Vec<String>,
    /// The index of its file.
    pub(super) file: usize,
    pub(super) defines: BTreeSet<String>,
    pub(super) imports: Vec<Import>,
    pub(super) paths: Vec<Path>,
    /// Identifiers that stand alone, with the first line of each.
    pub(super) words: BTreeMap<String, usize>,
    /// Macros that are called by their bare name, with the first line of each.
    pub(super) calls: BTreeMap<String, usize>,
}

/// What a parser collects of a file.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub(super) modules: Vec<Module>,
    /// Names of `macro_rules!`.
    pub(super) macros: BTreeSet<String>,
    pub(super) functions: Vec<Function>,
    /// Modules that are compiled for tests only.
    pub(super) test_modules: BTreeSet<Vec<String>>,
}

/// Returns the module path of a file in `src`: `rpc/mod.rs` is `["rpc"]`, `lib.rs` is `[]`.
pub(super) fn module_path(source: &Source) -> Vec<String> {
    let path = source.path.with_extension("");
    let mut module: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|last| last == "mod" || last == "lib") {
        module.pop();
    }
    module
}

/// Parses one file.
pub(super) fn parse_file(source: &Source, file: usize) -> Parsed {
    let path = module_path(source);
    let mut parser = Parser { file, parsed: Parsed::default(), open: vec![Module { path, file, ..Module::default() }] };
    parser.scan(&parse(&source.text), true);
    parser.parsed.modules.extend(parser.open.pop());
    parser.parsed
}

struct Parser {
    file: usize,
    parsed: Parsed,
    /// The modules around the current token, innermost last.
    open: Vec<Module>,
}

impl Parser {
    fn module(&mut self) -> &mut Module {
        self.open.last_mut().expect("the module of the file is open")
    }

    /// Reads `trees`. Items define names only where `items` is set: at the top of a module, and in macro calls there.
    fn scan(&mut self, trees: &[TokenTree], items: bool) {
        let mut at = 0;
        while at < trees.len() {
            at = self.step(trees, at, items);
        }
    }

    /// Reads what starts at `at` and returns where the next begins.
    fn step(&mut self, trees: &[TokenTree], at: usize, items: bool) -> usize {
        if is_test_attribute(trees, at) {
            return self.skip_test(trees, at, items);
        }
        if is_punct(trees.get(at), '#') {
            let bang = usize::from(is_punct(trees.get(at + 1), '!'));
            if group(trees.get(at + 1 + bang), Delimiter::Bracket).is_some() {
                return at + 2 + bang;
            }
        }
        let Some(name) = ident(trees.get(at)) else {
            if let TokenTree::Group(inner) = &trees[at] {
                self.scan(&inner.stream().into_iter().collect::<Vec<_>>(), false);
            }
            return at + 1;
        };
        match name.as_str() {
            "use" => return self.import(trees, at),
            "pub" => return if is_visibility(trees.get(at + 1)) { at + 2 } else { at + 1 },
            "mod" if ident(trees.get(at + 1)).is_some() => return self.inner_module(trees, at),
            "macro_rules" if is_punct(trees.get(at + 1), '!') => {
                let name = ident(trees.get(at + 2)).unwrap_or_default();
                self.module().defines.insert(name.clone());
                self.parsed.macros.insert(name);
                return at + 3;
            }
            "fn" => self.function(trees, at),
            _ => {}
        }
        if items && DEFINES.contains(&&*name) {
            let defined = ident(trees.get(at + 1)).filter(|name| !QUALIFIERS.contains(&&**name));
            let end = at + 1 + usize::from(defined.is_some());
            self.module().defines.extend(defined);
            return end;
        }
        let is_call = is_punct(trees.get(at + 1), '!')
            && matches!(trees.get(at + 2), Some(TokenTree::Group(_)))
            && !(at >= 2 && is_colons(trees, at - 2));
        if is_call {
            let at_line = line(&trees[at]);
            self.module().calls.entry(name).or_insert(at_line);
            if let Some(TokenTree::Group(inner)) = trees.get(at + 2) {
                self.scan(&inner.stream().into_iter().collect::<Vec<_>>(), items);
            }
            return at + 3;
        }
        self.name(trees, at, name)
    }

    /// Leaves out an item that is compiled for tests only, and remembers it if it is a module.
    fn skip_test(&mut self, trees: &[TokenTree], at: usize, items: bool) -> usize {
        let end = if items {
            item_end(trees, at + 2)
        } else {
            let comma = trees[at + 2..].iter().position(|tree| is_punct(Some(tree), ','));
            item_end(trees, at + 2).min(comma.map_or(trees.len(), |comma| at + comma + 3))
        };
        let item = &trees[at..end];
        if let Some(key) = item.iter().position(|tree| matches!(tree, TokenTree::Ident(name) if name == "mod"))
            && let Some(name) = ident(item.get(key + 1))
        {
            let mut path = self.module().path.clone();
            path.push(name);
            self.parsed.test_modules.insert(path);
        }
        end
    }

    fn inner_module(&mut self, trees: &[TokenTree], at: usize) -> usize {
        let name = ident(trees.get(at + 1)).unwrap_or_default();
        let Some(body) = group(trees.get(at + 2), Delimiter::Brace) else { return at + 2 };
        let mut path = self.module().path.clone();
        path.push(name);
        self.open.push(Module { path, file: self.file, ..Module::default() });
        self.scan(&body, true);
        self.parsed.modules.extend(self.open.pop());
        at + 3
    }

    /// Measures the function at `at`, from its keyword to its closing brace.
    fn function(&mut self, trees: &[TokenTree], at: usize) {
        let Some(name) = ident(trees.get(at + 1)) else { return };
        let end = item_end(trees, at);
        if let Some(TokenTree::Group(body)) = trees.get(end - 1) {
            let first = line(&trees[at]);
            let lines = body.span_close().end().line + 1 - first;
            self.parsed.functions.push(Function { name, line: first, lines });
        }
    }

    /// Reads the path or the single word at `at`.
    fn name(&mut self, trees: &[TokenTree], at: usize, name: String) -> usize {
        let at_line = line(&trees[at]);
        let is_member = at >= 1 && is_punct(trees.get(at - 1), '.') && !(at >= 2 && is_punct(trees.get(at - 2), '.'));
        if is_member || (at >= 2 && is_colons(trees, at - 2)) {
            return at + 1;
        }
        let mut segments = vec![name];
        let mut end = at + 1;
        while is_colons(trees, end)
            && let Some(next) = ident(trees.get(end + 2))
        {
            segments.push(next);
            end += 3;
        }
        if segments.len() > 1 {
            self.module().paths.push(Path { segments, line: at_line });
        } else if let Some(word) = segments.pop() {
            self.module().words.entry(word).or_insert(at_line);
        }
        end
    }

    fn import(&mut self, trees: &[TokenTree], at: usize) -> usize {
        let end = trees[at..].iter().position(|tree| is_punct(Some(tree), ';')).map_or(trees.len(), |end| at + end);
        let before = at.checked_sub(1).and_then(|before| trees.get(before));
        let exported = ident(before).as_deref() == Some("pub") || is_visibility(before);
        self.import_tree(&trees[at + 1..end], Vec::new(), exported);
        end + 1
    }

    fn import_tree(&mut self, trees: &[TokenTree], mut path: Vec<String>, exported: bool) {
        let mut at = 0;
        if is_colons(trees, 0) || is_punct(trees.first(), '$') {
            at = if is_punct(trees.first(), '$') { 1 } else { 2 };
        }
        while let Some(name) = ident(trees.get(at)) {
            path.push(name);
            if !is_colons(trees, at + 1) {
                break;
            }
            at += 3;
        }
        let Some(last) = trees.get(at) else { return };
        if let Some(inner) = group(Some(last), Delimiter::Brace) {
            for item in inner.split(|tree| is_punct(Some(tree), ',')).filter(|item| !item.is_empty()) {
                self.import_tree(item, path.clone(), exported);
            }
            return;
        }
        let is_self = path.len() > 1 && path.last().is_some_and(|name| name == "self");
        if is_self {
            path.pop();
        }
        let renamed = (ident(trees.get(at + 1)).as_deref() == Some("as")).then(|| ident(trees.get(at + 2))).flatten();
        let own = if is_punct(Some(last), '*') { Some("*".to_owned()) } else { path.last().cloned() };
        let Some(alias) = renamed.or(own) else { return };
        self.module().imports.push(Import { alias, path, line: line(last), exported });
    }
}

/// Returns whether `tree` is the part in parentheses of `pub(crate)`, `pub(super)` or `pub(in path)`.
fn is_visibility(tree: Option<&TokenTree>) -> bool {
    let first = group(tree, Delimiter::Parenthesis).and_then(|inner| ident(inner.first()));
    first.is_some_and(|name| ["crate", "super", "self", "in"].contains(&&*name))
}
