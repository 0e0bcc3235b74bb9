//! The structure of each crate, read from its sources: import circles, arrows upward between rooms, imports through the
//! crate's own `lib.rs`, and files and functions that are too long.
//!
//! An import counts as an import of the file that defines the item, however many re-exports lie between. So a re-export
//! in `lib.rs` or in a `mod.rs` hides no circle.

mod graph;
mod modules;
mod resolve;
mod rooms;
pub mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use modules::{Module, module_path, parse_file};
use resolve::{Names, Target};
pub use rooms::CRATES;

use crate::workspace::{self, Source};

/// The largest circle that is allowed, in files.
pub const LARGEST_CIRCLE: usize = 3;
/// The longest file that is allowed, in lines.
pub const LONGEST_FILE: usize = 600;
/// The longest function that is allowed, in lines.
pub const LONGEST_FUNCTION: usize = 80;

/// The rooms of a crate in layers, lowest first. A file imports from its own room and from rooms of the layers below.
///
/// A room is a path below `src`: a folder, or a file without its extension. Several that belong together are joined by
/// `|`. The longest path that fits a file is its room. Rooms of one layer do not import from each other.
pub type Rooms = &'static [&'static [&'static str]];

/// A crate to check.
#[derive(Clone, Copy, Debug)]
pub struct Crate {
    /// The name of its package.
    pub name: &'static str,
    /// Its folder, seen from the root of the workspace.
    pub folder: &'static str,
    /// Its rooms.
    pub rooms: Rooms,
}

/// The faults in the structure of a crate.
#[derive(Debug, Default)]
pub struct Report {
    /// Circles of imports, as paths below `src`, the largest first.
    pub circles: Vec<Vec<String>>,
    /// The imports that form the circles, one for each pair of files.
    pub ties: Vec<String>,
    /// All imports between files, one for each pair: the importing file, the imported one.
    pub imports: Vec<(String, String)>,
    /// Imports from a room above, or from another room of the same layer.
    pub upward: Vec<String>,
    /// Imports of a re-export in the crate's own `lib.rs`.
    pub through_lib: Vec<String>,
    /// Files that belong to no room of the table.
    pub without_room: Vec<String>,
    /// Files over [`LONGEST_FILE`].
    pub long_files: Vec<String>,
    /// Functions over [`LONGEST_FUNCTION`].
    pub long_functions: Vec<String>,
}

/// Reads the sources of a crate, with paths below its `src`.
///
/// # Panics
/// If they cannot be read.
#[must_use]
pub fn sources(folder: &str) -> Vec<Source> {
    let mut sources = workspace::sources(&workspace::root().join(folder), &["src"], &["rs"]).expect("readable sources");
    for source in &mut sources {
        source.path = source.path.strip_prefix("src").expect("a path in src").to_owned();
    }
    sources
}

/// Checks the sources of a crate, whose paths are below `src`. Unit tests are left out.
///
/// # Panics
/// If a source does not lex.
#[must_use]
pub fn check(sources: &[Source], rooms: Rooms) -> Report {
    let mut parsed: Vec<_> = sources.iter().enumerate().map(|(file, source)| parse_file(source, file)).collect();
    let tests: BTreeSet<Vec<String>> = parsed.iter().flat_map(|file| file.test_modules.clone()).collect();
    let is_test = |path: &[String]| (0..=path.len()).any(|end| tests.contains(&path[..end]));
    let shipped: Vec<bool> = sources.iter().map(|source| !is_test(&module_path(source))).collect();

    let mut macros = BTreeMap::<String, BTreeSet<usize>>::new();
    let mut modules = Vec::new();
    for (file, parsed) in parsed.iter_mut().enumerate().filter(|(file, _)| shipped[*file]) {
        for name in &parsed.macros {
            macros.entry(name.clone()).or_default().insert(file);
        }
        modules.append(&mut parsed.modules);
    }
    let names = Names::new(modules, &macros);
    let mut finder = Finder {
        sources,
        rooms,
        names: &names,
        edges: vec![BTreeSet::new(); sources.len()],
        reasons: BTreeMap::new(),
        report: Report::default(),
    };
    for module in 0..names.modules.len() {
        finder.module(module);
    }
    let Finder { edges, reasons, mut report, .. } = finder;
    let path = |file: usize| sources[file].path.display().to_string();
    let circles = graph::circles(&edges);
    report.ties.extend(circles.iter().flat_map(|circle| {
        let inside = reasons.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
        inside.map(|((from, to), (line, text))| format!("{}:{line} -> {}: `{text}`", path(*from), path(*to)))
    }));
    report.imports = reasons.keys().map(|(from, to)| (path(*from), path(*to))).collect();
    report.circles = circles.iter().map(|circle| circle.iter().map(|&file| path(file)).collect()).collect();
    for (file, parsed) in parsed.iter().enumerate().filter(|(file, _)| shipped[*file]) {
        let module = module_path(&sources[file]);
        if !module.is_empty() && room(rooms, &module).is_none() {
            report.without_room.push(path(file));
        }
        let lines = sources[file].text.lines().count();
        if lines > LONGEST_FILE {
            report.long_files.push(format!("{}: {lines} lines", path(file)));
        }
        let long = parsed.functions.iter().filter(|function| function.lines > LONGEST_FUNCTION);
        let long = long.map(|it| format!("{}:{}: `{}` has {} lines", path(file), it.line, it.name, it.lines));
        report.long_functions.extend(long);
    }
    report.upward.sort();
    report.upward.dedup();
    report.through_lib.sort();
    report.through_lib.dedup();
    report
}

/// Returns the layer and the room of a module: the longest path of the table that leads to it.
fn room(rooms: Rooms, module: &[String]) -> Option<(usize, &'static str)> {
    let fit = |part: &str| {
        let names = part.split('/').count();
        (module.len() >= names && module.iter().zip(part.split('/')).all(|(name, part)| name == part)).then_some(names)
    };
    let all = rooms.iter().enumerate().flat_map(|(layer, rooms)| rooms.iter().map(move |room| (layer, *room)));
    let fits = all.filter_map(|found| Some((found.1.split('|').filter_map(fit).max()?, found)));
    fits.max_by_key(|(names, _)| *names).map(|(_, found)| found)
}

/// Finds the imports of each module.
struct Finder<'a> {
    sources: &'a [Source],
    rooms: Rooms,
    names: &'a Names,
    edges: Vec<BTreeSet<usize>>,
    /// The first line and path of each edge.
    reasons: BTreeMap<(usize, usize), (usize, String)>,
    report: Report,
}

impl Finder<'_> {
    fn module(&mut self, index: usize) {
        let names = self.names;
        let module = &names.modules[index];
        for import in &module.imports {
            if import.alias == "*" {
                self.glob(index, &import.path, import.line);
                continue;
            }
            // A re-export that the file does not use itself creates no dependency.
            let is_used = !import.exported || mentions(module, &import.alias);
            self.path(index, &import.path, import.line, is_used);
        }
        for path in &module.paths {
            let first = path.segments[0].as_str();
            let is_relative = !["crate", "super", "self"].contains(&first);
            // The binding of an imported item was counted with the import.
            if is_relative && !self.leads_to_module(index, first) {
                continue;
            }
            self.path(index, &path.segments, path.line, true);
        }
        for (name, &line) in &module.calls {
            let is_bound = module.defines.contains(name) || module.imports.iter().any(|import| import.alias == *name);
            if let Some(file) = names.macro_file(name)
                && !is_bound
            {
                self.arrow(index, file, line, name, true);
            }
        }
    }

    fn leads_to_module(&self, index: usize, name: &str) -> bool {
        let found = self.names.resolve(index, &[name.to_owned()]);
        found.is_some_and(|found| matches!(found.target, Target::Module(_)))
    }

    /// Counts the names of a glob import that the module uses.
    fn glob(&mut self, index: usize, path: &[String], line: usize) {
        let names = self.names;
        let module = &names.modules[index];
        if names.resolve(index, path).is_some_and(|found| matches!(found.target, Target::Item(_))) {
            self.path(index, path, line, true);
            return;
        }
        self.path(index, path, line, false);
        let firsts = module.paths.iter().map(|path| (&path.segments[0], path.line));
        let words = module.words.iter().chain(&module.calls).map(|(word, line)| (word, *line));
        for (word, line) in words.chain(firsts) {
            let is_bound = module.defines.contains(word) || module.imports.iter().any(|import| import.alias == *word);
            if !is_bound
                && let Some(found) = names.through_glob(index, path, word)
                && let Target::Item(file) = found.target
            {
                self.arrow(index, file, line, word, true);
            }
        }
    }

    /// Counts one path of the module.
    fn path(&mut self, index: usize, path: &[String], line: usize, is_used: bool) {
        let names = self.names;
        let Some(found) = names.resolve(index, path) else { return };
        let text = path.join("::");
        let is_rooted = path.first().is_some_and(|first| first == "crate" || first == "super");
        if found.through_root && is_rooted {
            let file = names.modules[index].file;
            self.report.through_lib.push(format!("{}:{line}: `{text}`", self.sources[file].path.display()));
        }
        match found.target {
            Target::Item(file) => self.arrow(index, file, line, &text, is_used),
            // Uses of the import are separate paths. The import itself only determines the target.
            Target::Module(to) => self.arrow(index, names.modules[to].file, line, &text, false),
        }
    }

    /// Adds an arrow to `file`; one that only re-exports is checked for its direction and makes no circle.
    fn arrow(&mut self, index: usize, file: usize, line: usize, text: &str, is_used: bool) {
        let own = self.names.modules[index].file;
        if own == file {
            return;
        }
        if is_used {
            self.edges[own].insert(file);
            self.reasons.entry((own, file)).or_insert_with(|| (line, text.to_owned()));
        }
        let (from, to) = (module_path(&self.sources[own]), module_path(&self.sources[file]));
        // `lib.rs` is above all rooms, so it may import from each. All files may import what it defines.
        if from.is_empty() || to.is_empty() {
            return;
        }
        let (Some(from), Some(to)) = (room(self.rooms, &from), room(self.rooms, &to)) else { return };
        if to.0 > from.0 || (to.0 == from.0 && to.1 != from.1) {
            let place = self.sources[own].path.display();
            let fault = format!("{place}:{line}: `{}` uses `{}` of `{}`", from.1, text, to.1);
            self.report.upward.push(fault);
        }
    }
}

/// Returns whether the code of a module names `word` outside of its imports.
fn mentions(module: &Module, word: &str) -> bool {
    module.words.contains_key(word)
        || module.calls.contains_key(word)
        || module.paths.iter().any(|path| path.segments[0] == word)
}

impl Report {
    /// Returns the faults as lines of the table of known faults: each kind with its exact count.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for circle in self.circles.iter().filter(|circle| circle.len() > LARGEST_CIRCLE) {
            faults.push(format!("circle of {} files in {}", circle.len(), common_folder(circle)));
        }
        for (found, what) in [
            (&self.upward, "arrows upward"),
            (&self.through_lib, "imports through lib.rs"),
            (&self.without_room, "files without a room"),
            (&self.long_files, "long files"),
            (&self.long_functions, "long functions"),
        ] {
            if !found.is_empty() {
                faults.push(format!("{}: {what}", found.len()));
            }
        }
        faults
    }
}

/// Returns the folder that all of `files` lie in.
fn common_folder(files: &[String]) -> String {
    let mut folders = files.iter().map(|file| file.split('/').collect::<Vec<_>>());
    let mut common = folders.next().unwrap_or_default();
    common.pop();
    for folder in folders {
        let same = common.iter().zip(&folder).take_while(|(one, other)| one == other).count();
        common.truncate(same);
    }
    let path: Vec<&str> = ["src"].into_iter().chain(common).collect();
    path.join("/")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for circle in &self.circles {
            writeln!(f, "  circle of {} files in {}: {}", circle.len(), common_folder(circle), circle.join(", "))?;
        }
        for tie in &self.ties {
            writeln!(f, "    {tie}")?;
        }
        for (title, lines) in [
            ("arrows upward", &self.upward),
            ("imports through lib.rs", &self.through_lib),
            ("files without a room", &self.without_room),
            ("files over 600 lines", &self.long_files),
            ("functions over 80 lines", &self.long_functions),
        ] {
            if !lines.is_empty() {
                writeln!(f, "  {title}: {}", lines.len())?;
            }
            for line in lines {
                writeln!(f, "    {line}")?;
            }
        }
        Ok(())
    }
}
