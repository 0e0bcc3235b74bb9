//! Resolves paths to the file that defines the item, through every re-export.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::Module;

/// How many re-exports a name may pass through. A name that needs more is a circle of re-exports.
const DEEPEST: usize = 16;

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A module, by its index.
    Module(usize),
    /// An item, by the index of the file that defines it.
    Item(usize),
}

/// A resolved path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resolved {
    pub(super) target: Target,
    /// Whether a re-export at the root of the crate was followed.
    pub(super) through_root: bool,
}

/// The modules of a crate, ready for look-ups.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) modules: Vec<Module>,
    by_path: BTreeMap<Vec<String>, usize>,
    /// The files of `macro_rules!` by name; a macro that several files define is not listed.
    macros: BTreeMap<String, usize>,
}

impl Names {
    pub(super) fn new(modules: Vec<Module>, macros: &BTreeMap<String, BTreeSet<usize>>) -> Self {
        let by_path = modules.iter().enumerate().map(|(index, module)| (module.path.clone(), index)).collect();
        let macros = macros.iter().filter(|(_, files)| files.len() == 1);
        let macros = macros.filter_map(|(name, files)| Some((name.clone(), *files.first()?))).collect();
        Self { modules, by_path, macros }
    }

    /// Returns the file that defines the macro `name`, if exactly one does.
    pub(super) fn macro_file(&self, name: &str) -> Option<usize> {
        self.macros.get(name).copied()
    }

    fn child(&self, module: usize, name: &str) -> Option<usize> {
        let mut path = self.modules[module].path.clone();
        path.push(name.to_owned());
        self.by_path.get(&path).copied()
    }

    /// Resolves `path` as written in `module`. Returns nothing for a path that leads out of the crate.
    pub(super) fn resolve(&self, module: usize, path: &[String]) -> Option<Resolved> {
        self.resolve_at(module, path, DEEPEST)
    }

    fn resolve_at(&self, module: usize, path: &[String], deep: usize) -> Option<Resolved> {
        let deep = deep.checked_sub(1)?;
        let mut at = module;
        let mut rest = path;
        let mut is_anchored = false;
        while let Some((first, after)) = rest.split_first() {
            at = match first.as_str() {
                "crate" => self.by_path.get(&Vec::new()).copied()?,
                "super" => self.by_path.get(self.modules[at].path.split_last()?.1).copied()?,
                "self" => at,
                _ => break,
            };
            is_anchored = true;
            rest = after;
        }
        let mut through_root = false;
        while let Some((name, after)) = rest.split_first() {
            if let Some(child) = self.child(at, name) {
                at = child;
                rest = after;
                is_anchored = true;
                continue;
            }
            let is_root = self.modules[at].path.is_empty() && !self.modules[module].path.is_empty();
            if self.modules[at].defines.contains(name) {
                return Some(Resolved { target: Target::Item(self.modules[at].file), through_root });
            }
            match self.imported(at, name, deep) {
                Some(found) => {
                    through_root |= is_root;
                    match found.target {
                        Target::Item(_) => return Some(Resolved { through_root, ..found }),
                        Target::Module(next) => (at, rest, is_anchored) = (next, after, true),
                    }
                }
                None if !is_anchored => return None,
                None => {
                    let file = self.macro_file(name).unwrap_or(self.modules[at].file);
                    return Some(Resolved { target: Target::Item(file), through_root });
                }
            }
        }
        Some(Resolved { target: Target::Module(at), through_root })
    }

    /// Resolves `name` through an import of `module`: one of that name first, else a glob.
    fn imported(&self, module: usize, name: &str, deep: usize) -> Option<Resolved> {
        let imports = &self.modules[module].imports;
        // An import of a name that is the name itself (`use name;` of another crate) leads nowhere.
        let named = imports.iter().filter(|import| import.alias == name && import.path != [name]);
        if let Some(found) = named.filter_map(|import| self.resolve_at(module, &import.path, deep)).next() {
            return Some(found);
        }
        let globs = imports.iter().filter(|import| import.alias == "*");
        globs.filter_map(|import| self.lookup_in(module, &import.path, name, deep)).next()
    }

    /// Resolves `name` in the module that `path` leads to. Finds only what that module defines or imports.
    fn lookup_in(&self, module: usize, path: &[String], name: &str, deep: usize) -> Option<Resolved> {
        let deep = deep.checked_sub(1)?;
        let found = self.resolve_at(module, path, deep)?;
        let Target::Module(of) = found.target else { return None };
        if let Some(child) = self.child(of, name) {
            return Some(Resolved { target: Target::Module(child), ..found });
        }
        if self.modules[of].defines.contains(name) {
            return Some(Resolved { target: Target::Item(self.modules[of].file), ..found });
        }
        self.imported(of, name, deep)
    }

    /// Resolves a name that a glob import of `module` may bring.
    pub(super) fn through_glob(&self, module: usize, glob: &[String], name: &str) -> Option<Resolved> {
        self.lookup_in(module, glob, name, DEEPEST)
    }
}
