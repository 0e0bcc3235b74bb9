//! Parses a crate into modules and resolves names in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{Attribute, Ident, Item, UseTree, Visibility};

use crate::print::{print, tokens};

/// The modules of a crate by path.
pub(crate) type Modules = BTreeMap<Vec<String>, Vec<Item>>;

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Entity {
    Module(Vec<String>),
    /// An item: its module and its name.
    Item(Vec<String>, String),
}

/// An import: the name that it binds (`*` for all), and its path.
pub(crate) struct Import {
    pub(crate) alias: String,
    pub(crate) path: Vec<String>,
}

/// Reads the crate whose root is `lib`. Code that is compiled for tests only is left out.
pub(crate) fn read(lib: &Path) -> Modules {
    let mut modules = Modules::new();
    read_file(lib, Vec::new(), &mut modules);
    modules
}

fn read_file(path: &Path, module: Vec<String>, modules: &mut Modules) {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let name = path.file_stem().unwrap_or_default();
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let folder = if name == "lib" || name == "mod" { folder } else { folder.join(name) };
    add(file.items, &folder, module, modules);
}

fn add(items: Vec<Item>, folder: &Path, module: Vec<String>, modules: &mut Modules) {
    let items: Vec<Item> = items.into_iter().filter(|item| !attributes(item).iter().any(is_test)).collect();
    for item in &items {
        let Item::Mod(inner) = item else { continue };
        let name = inner.ident.to_string();
        let path = [module.as_slice(), std::slice::from_ref(&name)].concat();
        match &inner.content {
            Some((_, items)) => add(items.clone(), &folder.join(&name), path, modules),
            None => {
                let file = folder.join(format!("{name}.rs"));
                let file = if file.is_file() { file } else { folder.join(&name).join("mod.rs") };
                read_file(&file, path, modules);
            }
        }
    }
    modules.insert(module, items);
}

/// Returns whether an attribute is `#[cfg(test)]`.
fn is_test(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg") && print(&attribute.meta) == "cfg(test)"
}

pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

/// Returns the name that an item defines, and whether everyone may use it.
pub(crate) fn definition(item: &Item) -> Option<(&Ident, bool)> {
    let (name, visibility) = match item {
        Item::Const(it) => (&it.ident, &it.vis),
        Item::Enum(it) => (&it.ident, &it.vis),
        Item::Fn(it) => (&it.sig.ident, &it.vis),
        Item::Static(it) => (&it.ident, &it.vis),
        Item::Struct(it) => (&it.ident, &it.vis),
        Item::Trait(it) => (&it.ident, &it.vis),
        Item::Type(it) => (&it.ident, &it.vis),
        _ => return None,
    };
    Some((name, matches!(visibility, Visibility::Public(_))))
}

/// An item that a macro call declares: `pub struct Tool: data { .. }`.
pub(crate) struct Declared {
    pub(crate) keyword: String,
    pub(crate) name: String,
    /// The members as written, without documentation.
    pub(crate) members: Vec<String>,
    pub(crate) by: String,
}

/// Returns the public types that a macro call declares.
pub(crate) fn declared(item: &Item) -> Vec<Declared> {
    let Item::Macro(call) = item else { return Vec::new() };
    if call.ident.is_some() {
        return Vec::new();
    }
    let by = print(&call.mac.path);
    let trees: Vec<TokenTree> = call.mac.tokens.clone().into_iter().collect();
    let mut found = Vec::new();
    for (at, window) in trees.windows(3).enumerate() {
        let [first, keyword, name] = window else { continue };
        let keyword = keyword.to_string();
        if first.to_string() != "pub" || !["struct", "enum", "trait"].contains(&&*keyword) {
            continue;
        }
        let body = trees[at + 3..].iter().find_map(|tree| match tree {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group.stream()),
            _ => None,
        });
        let members = body.map(members).unwrap_or_default();
        found.push(Declared { keyword, name: name.to_string(), members, by: by.clone() });
    }
    found
}

/// Splits the body of a declaration at its semicolons, or else at its commas, and drops attributes and documentation.
fn members(body: TokenStream) -> Vec<String> {
    use TokenTree::{Group, Punct};
    let mut trees = Vec::new();
    let mut all = body.into_iter().peekable();
    while let Some(tree) = all.next() {
        if matches!(&tree, Punct(sign) if sign.as_char() == '#') && matches!(all.peek(), Some(Group(_))) {
            all.next();
        } else {
            trees.push(tree);
        }
    }
    let is = |tree: &TokenTree, wanted| matches!(tree, Punct(sign) if sign.as_char() == wanted);
    let separator = if trees.iter().any(|tree| is(tree, ';')) { ';' } else { ',' };
    let parts = trees.split(|tree| is(tree, separator)).filter(|part| !part.is_empty());
    parts.map(|part| tokens(part.iter().cloned().collect())).collect()
}

/// Returns every name that a `use` binds.
pub(crate) fn imports(tree: &UseTree) -> Vec<Import> {
    fn walk(tree: &UseTree, path: &[String], found: &mut Vec<Import>) {
        let with = |name: &Ident| [path, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(it) => walk(&it.tree, &with(&it.ident), found),
            UseTree::Group(it) => it.items.iter().for_each(|tree| walk(tree, path, found)),
            UseTree::Glob(_) => found.push(Import { alias: "*".to_owned(), path: path.to_vec() }),
            UseTree::Name(it) if it.ident == "self" => {
                found.push(Import { alias: path.last().cloned().unwrap_or_default(), path: path.to_vec() });
            }
            UseTree::Name(it) => found.push(Import { alias: it.ident.to_string(), path: with(&it.ident) }),
            UseTree::Rename(it) if it.ident == "self" => {
                found.push(Import { alias: it.rename.to_string(), path: path.to_vec() });
            }
            UseTree::Rename(it) => found.push(Import { alias: it.rename.to_string(), path: with(&it.ident) }),
        }
    }
    let mut found = Vec::new();
    walk(tree, &[], &mut found);
    found
}

/// Resolves `path` as written in `module`. Returns nothing if it leads out of the crate.
pub(crate) fn resolve(modules: &Modules, module: &[String], path: &[String], deep: usize) -> Option<Entity> {
    let deep = deep.checked_sub(1)?;
    let mut at = module.to_vec();
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        match first.as_str() {
            "crate" => at.clear(),
            "super" => {
                at.pop()?;
            }
            "self" => {}
            _ => break,
        }
        rest = after;
    }
    while let Some((name, after)) = rest.split_first() {
        let child = [at.as_slice(), std::slice::from_ref(name)].concat();
        if modules.contains_key(&child) {
            at = child;
        } else if defines(modules, &at, name) {
            return Some(Entity::Item(at, name.clone()));
        } else {
            match imported(modules, &at, name, deep)? {
                Entity::Module(path) => at = path,
                item @ Entity::Item(..) => return Some(item),
            }
        }
        rest = after;
    }
    Some(Entity::Module(at))
}

fn defines(modules: &Modules, module: &[String], name: &str) -> bool {
    modules[module].iter().any(|item| {
        definition(item).is_some_and(|(found, _)| found == name) || declared(item).iter().any(|it| it.name == name)
    })
}

fn imported(modules: &Modules, module: &[String], name: &str, deep: usize) -> Option<Entity> {
    let uses = modules[module].iter().filter_map(|item| match item {
        Item::Use(it) => Some(imports(&it.tree)),
        _ => None,
    });
    let all: Vec<Import> = uses.flatten().collect();
    let named = all.iter().filter(|import| import.alias == name && import.path != [name]);
    if let Some(found) = named.filter_map(|import| resolve(modules, module, &import.path, deep)).next() {
        return Some(found);
    }
    all.iter().filter(|import| import.alias == "*").find_map(|glob| {
        let Entity::Module(of) = resolve(modules, module, &glob.path, deep)? else { return None };
        if of == module {
            return None;
        }
        resolve(modules, &of, &[name.to_owned()], deep)
    })
}
