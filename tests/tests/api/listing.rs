//! Lists what a crate offers: one line for each item, member, method and implemented trait.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, TraitItem, Type, Visibility};

use crate::crate_source::{Entity, Modules, attributes, declared, definition, imports, resolve};
use crate::print::{print, tokens};

/// How many re-exports a name may pass through.
const DEEPEST: usize = 12;

/// Returns the listing of a crate.
pub(crate) fn list(modules: &Modules, name: &str) -> String {
    let mut lister = Lister { modules, impls: impls(modules), out: String::new(), open: Vec::new() };
    let _ = writeln!(lister.out, "# The public surface of {name}. Written by `{}`.", crate::UPDATE);
    lister.module(&[], name);
    for item in modules.values().flatten() {
        if let Item::Macro(call) = item
            && let Some(of) = &call.ident
        {
            for method in methods_in(call.mac.tokens.clone()) {
                lister.line(&format!("{of}!: {method}"));
            }
        }
    }
    lister.out
}

/// Finds the signatures of the public methods that a macro writes, up to their bodies.
fn methods_in(stream: TokenStream) -> Vec<String> {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut found = Vec::new();
    for (at, tree) in trees.iter().enumerate() {
        if let TokenTree::Group(group) = tree {
            found.extend(methods_in(group.stream()));
        }
        let words: Vec<String> = trees[at..].iter().take(3).map(ToString::to_string).collect();
        let is_public =
            words.first().is_some_and(|word| word == "pub") && !words[1..].iter().any(|word| word.starts_with('('));
        if is_public && words[1..].iter().any(|word| word == "fn") {
            let is_body = |tree: &TokenTree| matches!(tree, TokenTree::Group(it) if it.delimiter() == Delimiter::Brace);
            let signature = trees[at..].iter().take_while(|tree| !is_body(tree)).cloned().collect();
            found.push(tokens(signature));
        }
    }
    found
}

/// Finds the `impl` blocks of each type of the crate.
fn impls(modules: &Modules) -> BTreeMap<Entity, Vec<&ItemImpl>> {
    let mut found = BTreeMap::<Entity, Vec<&ItemImpl>>::new();
    for (module, items) in modules {
        for item in items {
            if let Item::Impl(block) = item
                && let Type::Path(path) = &*block.self_ty
            {
                let path: Vec<String> = path.path.segments.iter().map(|part| part.ident.to_string()).collect();
                if let Some(of) = resolve(modules, module, &path, DEEPEST) {
                    found.entry(of).or_default().push(block);
                }
            }
        }
    }
    found
}

struct Lister<'a> {
    modules: &'a Modules,
    impls: BTreeMap<Entity, Vec<&'a ItemImpl>>,
    out: String,
    /// The modules that are being listed.
    open: Vec<Vec<String>>,
}

impl<'a> Lister<'a> {
    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim());
        self.out.push('\n');
    }

    /// Lists the public items of a module under the path `prefix`, sorted by name.
    fn module(&mut self, module: &[String], prefix: &str) {
        if self.open.iter().any(|open| open == module) {
            return;
        }
        self.open.push(module.to_vec());
        let mut shown = BTreeMap::new();
        self.collect(module, &mut shown, DEEPEST);
        for (name, found) in shown {
            match found {
                Shown::Entity(Entity::Module(inner)) => {
                    self.line(&format!("pub mod {prefix}::{name}"));
                    self.module(&inner, &format!("{prefix}::{name}"));
                }
                Shown::Entity(Entity::Item(of, item)) => self.entity(&of, &item, &format!("{prefix}::{name}")),
                Shown::Foreign(path) => self.line(&format!("pub use {path} as {prefix}::{name}")),
            }
        }
        self.open.pop();
    }

    /// Collects the public names of a module.
    fn collect(&self, module: &[String], shown: &mut BTreeMap<String, Shown>, deep: usize) {
        let Some(deep) = deep.checked_sub(1) else { return };
        for item in &self.modules[module] {
            if attributes(item).iter().any(is_hidden) {
                continue;
            }
            match item {
                Item::Mod(inner) if is_public(&inner.vis) => {
                    let path = [module, &[inner.ident.to_string()]].concat();
                    shown.insert(inner.ident.to_string(), Shown::Entity(Entity::Module(path)));
                }
                Item::Use(it) if is_public(&it.vis) => {
                    for import in imports(&it.tree) {
                        let found = resolve(self.modules, module, &import.path, DEEPEST);
                        match found {
                            Some(Entity::Module(of)) if import.alias == "*" => self.collect(&of, shown, deep),
                            Some(entity) => {
                                shown.insert(import.alias, Shown::Entity(entity));
                            }
                            None => {
                                shown.insert(import.alias, Shown::Foreign(import.path.join("::")));
                            }
                        }
                    }
                }
                item => {
                    let defined = definition(item).filter(|(_, public)| *public).map(|(name, _)| name.to_string());
                    for name in defined.into_iter().chain(declared(item).into_iter().map(|it| it.name)) {
                        shown.insert(name.clone(), Shown::Entity(Entity::Item(module.to_vec(), name)));
                    }
                }
            }
        }
    }

    /// Lists one item under the path `path`, with its members, methods and traits.
    fn entity(&mut self, module: &[String], name: &str, path: &str) {
        let modules = self.modules;
        for item in &modules[module] {
            if definition(item).is_some_and(|(found, _)| found == name) {
                self.item(item, path);
            }
            for it in declared(item).into_iter().filter(|it| it.name == name) {
                self.line(&format!("pub {} {path} by {}!", it.keyword, it.by));
                for member in it.members {
                    self.line(&format!("{path}: {member}"));
                }
            }
        }
        let blocks = self.impls.get(&Entity::Item(module.to_vec(), name.to_owned())).cloned().unwrap_or_default();
        let mut traits = BTreeSet::new();
        for block in blocks {
            match &block.trait_ {
                Some((_, of, _)) => {
                    traits.insert(format!("{path}: {}", print(of)));
                }
                None => self.methods(block, path),
            }
        }
        for line in traits {
            self.line(&line);
        }
    }

    fn methods(&mut self, block: &'a ItemImpl, path: &str) {
        for item in &block.items {
            match item {
                ImplItem::Fn(it) if is_public(&it.vis) && !it.attrs.iter().any(is_hidden) => {
                    self.line(&format!("{path}::{}", print(&it.sig)));
                }
                ImplItem::Const(it) if is_public(&it.vis) => {
                    self.line(&format!("{path}::const {}: {}", it.ident, print(&it.ty)));
                }
                ImplItem::Macro(it) => {
                    self.line(&format!("{path}::{}!({})", print(&it.mac.path), tokens(it.mac.tokens.clone())));
                }
                _ => {}
            }
        }
    }

    fn item(&mut self, item: &Item, path: &str) {
        let marks = marks(attributes(item));
        match item {
            Item::Const(it) => self.line(&format!("pub const {path}: {}", print(&it.ty))),
            Item::Static(it) => self.line(&format!("pub static {path}: {}", print(&it.ty))),
            Item::Type(it) => self.line(&format!("pub type {path}{} = {}", print(&it.generics), print(&it.ty))),
            Item::Fn(it) => {
                let signature = print(&it.sig).replacen(&it.sig.ident.to_string(), path, 1);
                self.line(&format!("pub {signature}"));
            }
            Item::Struct(it) => {
                self.line(&format!("pub struct {path}{}{marks}", print(&it.generics)));
                self.fields(&it.fields, path);
            }
            Item::Enum(it) => {
                self.line(&format!("pub enum {path}{}{marks}", print(&it.generics)));
                for variant in &it.variants {
                    let fields = undocumented(&variant.fields);
                    self.line(&format!("{path}::{}{fields}", variant.ident));
                }
            }
            Item::Trait(it) => {
                let above =
                    if it.supertraits.is_empty() { String::new() } else { format!(": {}", print(&it.supertraits)) };
                self.line(&format!("pub trait {path}{}{above}{marks}", print(&it.generics)));
                for item in &it.items {
                    match item {
                        TraitItem::Fn(it) => {
                            let provided = if it.default.is_some() { " { .. }" } else { "" };
                            self.line(&format!("{path}::{}{provided}", print(&it.sig)));
                        }
                        TraitItem::Type(it) => self.line(&format!("{path}::type {}", it.ident)),
                        TraitItem::Const(it) => self.line(&format!("{path}::const {}: {}", it.ident, print(&it.ty))),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn fields(&mut self, fields: &Fields, path: &str) {
        for (at, field) in fields.iter().enumerate().filter(|(_, field)| is_public(&field.vis)) {
            let name = field.ident.as_ref().map_or_else(|| at.to_string(), ToString::to_string);
            self.line(&format!("{path}::{name}: {}", print(&field.ty)));
        }
    }
}

/// What a module shows under a name.
enum Shown {
    Entity(Entity),
    /// An item of another crate.
    Foreign(String),
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Returns whether an attribute is `#[doc(hidden)]`.
fn is_hidden(attribute: &Attribute) -> bool {
    attribute.path().is_ident("doc") && print(&attribute.meta) == "doc(hidden)"
}

/// Prints the derives and `#[non_exhaustive]`.
fn marks(attributes: &[Attribute]) -> String {
    let marks = attributes.iter().filter(|it| it.path().is_ident("derive") || it.path().is_ident("non_exhaustive"));
    marks.fold(String::new(), |mut line, it| {
        let _ = write!(line, " #[{}]", print(&it.meta));
        line
    })
}

/// Prints the fields of a variant without their documentation.
fn undocumented(fields: &Fields) -> String {
    let mut fields = fields.clone();
    for field in fields.iter_mut() {
        field.attrs.clear();
    }
    match fields {
        Fields::Unit => String::new(),
        fields @ Fields::Unnamed(_) => print(&fields),
        Fields::Named(named) => format!(" {{ {} }}", print(&named.named)),
    }
}
