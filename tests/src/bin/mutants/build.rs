//! Plants mutants in a clone of the repository and builds it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use serde_json::Value;

use crate::mutant::Mutant;
use crate::plant::{self, CHOICE, FEATURES, Owner};
use crate::trial::{PROGRAMS, Program};

/// The sources that are changed, and their packages.
const CRATES: [(&str, &str); 3] =
    [("core/src", "mcp-proto"), ("adapters/service/src", "mcp-service"), ("adapters/driver/src", "mcp-driver")];

/// All features of the service and of the driver, so that the mutants in optional code also run.
const TESTED: &str = "mcp-service/testing,mcp-service/macros,mcp-service/tracing,mcp-service/log-layer,\
                      mcp-service/metrics,mcp-service/openapi,mcp-driver/tls,mcp-driver/tower,mcp-driver/signals,\
                      mcp-driver/jwt,mcp-driver/signing";

/// The features of the adapters whose tests run the driver.
const ADAPTERS: &str = "mcp-tokio/jwt,mcp-tokio/signing,mcp-tokio/tls,mcp-tokio/testing,mcp-tokio/openapi,\
                        mcp-blocking/jwt,mcp-blocking/signing,mcp-blocking/tls,mcp-blocking/testing";

/// The processor time in seconds in which a package has to compile.
const COMPILE_SECONDS: &str = "900";

/// The result of building mutants together.
pub(crate) struct Planted<'a> {
    /// The mutants compile, each under its number.
    pub(crate) fit: Vec<(u32, &'a Mutant)>,
    /// The mutants do not compile.
    pub(crate) unviable: Vec<&'a Mutant>,
    /// The mutants may compile if nothing else is planted.
    pub(crate) alone: Vec<&'a Mutant>,
}

/// The place where the function of a mutant does not compile.
#[derive(Clone, Copy)]
enum Fault {
    /// The copy of the mutant.
    Mutant,
    /// The copy without a mutant, so that the copies and not what they say are to blame.
    Original,
}

/// A copy of the repository whose sources are changed.
pub(crate) struct Clone {
    root: PathBuf,
    /// The folder of what is built.
    target: PathBuf,
    /// The original sources of the crates.
    sources: BTreeMap<String, String>,
}

impl Clone {
    /// A mutant of an earlier run is not part of the last commit.
    pub(crate) fn new(root: &Path, target: &Path) -> io::Result<Self> {
        let git = |arguments: &[&str]| {
            let output = Command::new("git").args(arguments).current_dir(root).stderr(Stdio::inherit()).output()?;
            String::from_utf8(output.stdout).map_err(io::Error::other)
        };
        let folders = CRATES.map(|(folder, _)| folder);
        let files = git(&[&["ls-tree", "-r", "--name-only", "HEAD"][..], &folders].concat())?;
        let text = |path: &str| Ok((path.to_owned(), git(&["show", &format!("HEAD:{path}")])?));
        Ok(Self {
            root: root.to_owned(),
            target: target.to_owned(),
            sources: files.lines().filter(|file| file.ends_with(".rs")).map(text).collect::<io::Result<_>>()?,
        })
    }

    /// Returns whether the compiler may also run the function of a mutant.
    pub(crate) fn is_const(&self, mutant: &Mutant) -> bool {
        let Some(((start, _), _)) = mutant.function else { return true };
        let lines = self.sources[&mutant.file].lines().skip(start - 1).map(str::trim_start);
        let head = lines.filter(|line| !line.starts_with(['/', '#'])).find(|line| line.contains("fn "));
        head.is_some_and(|head| head.contains("const fn "))
    }

    /// Plants as many mutants as compile together, each under its number.
    pub(crate) fn plant<'a>(&self, mutants: Vec<(u32, &'a Mutant)>) -> io::Result<Planted<'a>> {
        let is_in_body = |mutant: &Mutant| plant::is_in_body(&self.sources[&mutant.file], mutant);
        let (fit, constants): (Vec<_>, Vec<_>) = mutants.into_iter().partition(|(_, mutant)| is_in_body(mutant));
        let alone = constants.into_iter().map(|(_, mutant)| mutant).collect();
        let mut planted = Planted { fit, alone, unviable: Vec::new() };
        loop {
            let faults = self.check(&self.write(&planted.fit)?)?;
            if faults.is_empty() {
                return Ok(planted);
            }
            for (number, mutant) in std::mem::take(&mut planted.fit) {
                match faults.get(&number) {
                    None => planted.fit.push((number, mutant)),
                    // All copies of a function that returns `impl Trait` have to return the type of the original.
                    Some(Fault::Mutant) if !mutant.returns_impl => planted.unviable.push(mutant),
                    Some(_) => planted.alone.push(mutant),
                }
            }
        }
    }

    /// Writes all sources with one mutant, in place of what it replaces.
    pub(crate) fn replace(&self, mutant: &Mutant) -> io::Result<()> {
        self.sources.iter().try_for_each(|(path, text)| {
            let replaced = (*path == mutant.file).then(|| plant::replace(text, mutant));
            self.write_file(path, replaced.as_deref().unwrap_or(text))
        })
    }

    /// Writes all sources with copies for their mutants.
    fn write(&self, mutants: &[(u32, &Mutant)]) -> io::Result<BTreeMap<&str, String>> {
        let mut planted = BTreeMap::new();
        for (path, text) in &self.sources {
            let here: Vec<_> = mutants.iter().filter(|(_, mutant)| mutant.file == *path).copied().collect();
            let mut text = if here.is_empty() { text.clone() } else { plant::plant(text, &here) };
            if CRATES.iter().any(|(folder, _)| path.strip_prefix(folder) == Some("/lib.rs")) {
                text = format!("{FEATURES}{text}{CHOICE}");
            }
            self.write_file(path, &text)?;
            planted.insert(path.as_str(), text);
        }
        Ok(planted)
    }

    /// Writes a file only if its text changes, because cargo builds all that depends on a written file.
    fn write_file(&self, path: &str, text: &str) -> io::Result<()> {
        let file = self.root.join(path);
        if fs::read_to_string(&file)? != text {
            fs::write(&file, text)?;
        }
        Ok(())
    }

    /// Returns the numbers of the mutants whose functions do not compile.
    fn check(&self, planted: &BTreeMap<&str, String>) -> io::Result<BTreeMap<u32, Fault>> {
        // Some functions exist only without a feature, others only in tests.
        let tests = ["--lib", "--profile", "test", "-p", "mcp-tests", "--features", TESTED];
        let features = [&["--all-features"][..], &["-p", "mcp-tests", "--features", TESTED], &tests];
        for features in features {
            let faults = self.check_with(features, planted)?;
            if !faults.is_empty() {
                return Ok(faults);
            }
        }
        Ok(BTreeMap::new())
    }

    fn check_with(&self, features: &[&str], planted: &BTreeMap<&str, String>) -> io::Result<BTreeMap<u32, Fault>> {
        let mut faults = BTreeMap::new();
        let mut elsewhere = String::new();
        let packages = CRATES.map(|(_, package)| ["-p", package]).concat();
        let (compiles, messages) = self.cargo(&[&["check", "--quiet"], features, &packages[..]].concat())?;
        for output in messages {
            let message = &output["message"];
            let spans = message["spans"].as_array().into_iter().flatten().filter(|span| span["is_primary"] == true);
            for span in spans.map(outermost).filter(|_| message["level"] == "error") {
                let line = span["line_start"].as_u64().and_then(|line| usize::try_from(line).ok());
                let text = span["file_name"].as_str().and_then(|file| planted.get(file));
                match line.zip(text).and_then(|(line, text)| plant::owner(text, line)) {
                    None => elsewhere.push_str(message["rendered"].as_str().unwrap_or_default()),
                    Some(Owner::Mutant(number)) => {
                        faults.entry(number).or_insert(Fault::Mutant);
                    }
                    Some(Owner::Original(numbers)) => {
                        faults.extend(numbers.into_iter().map(|number| (number, Fault::Original)));
                    }
                }
            }
        }
        if faults.is_empty() && !compiles {
            return Err(io::Error::other(elsewhere));
        }
        Ok(faults)
    }

    /// Builds the tests. Returns None if they do not compile.
    pub(crate) fn programs(&self) -> io::Result<Option<Vec<Program>>> {
        let features = [TESTED, ADAPTERS].join(",");
        let mut arguments = vec!["test", "--quiet", "--no-run", "--lib", "--features", &features];
        let packages: BTreeSet<_> = PROGRAMS.iter().filter_map(|name| name.split('/').next()).collect();
        arguments.extend(packages.into_iter().flat_map(|package| ["-p", package]));
        let names: BTreeSet<_> = PROGRAMS.iter().filter_map(|name| Some(name.split_once('/')?.1)).collect();
        arguments.extend(names.into_iter().flat_map(|name| ["--test", name]));
        let (compiles, messages) = self.cargo(&arguments)?;
        if !compiles {
            return Ok(None);
        }
        let program = |name: &'static str| {
            let (package, test) = name.split_once('/').map_or((name, None), |(package, test)| (package, Some(test)));
            let target = test.map_or_else(|| package.replace('-', "_"), str::to_owned);
            let marker = format!("#{package}@");
            let of = messages.iter().find(|message| {
                message["target"]["name"] == target.as_str()
                    && message["profile"]["test"] == true
                    && message["package_id"].as_str().is_some_and(|id| id.contains(&marker))
            })?;
            let folder = Path::new(of["manifest_path"].as_str()?).parent()?.to_owned();
            Some(Program { name, path: of["executable"].as_str()?.into(), folder })
        };
        let missing = |name| io::Error::other(format!("{name} has not been built"));
        PROGRAMS.iter().map(|name| program(name).ok_or_else(|| missing(name))).collect::<io::Result<_>>().map(Some)
    }

    /// Returns whether everything compiles, and the output of cargo.
    fn cargo(&self, arguments: &[&str]) -> io::Result<(bool, Vec<Value>)> {
        // The compiler runs the mutants of constants, and some do not end.
        let output = Command::new("sh")
            .args(["-c", "ulimit -t \"$0\"; exec cargo \"$@\"", COMPILE_SECONDS])
            .args(arguments)
            .arg("--message-format=json")
            .arg("--target-dir")
            .arg(&self.target)
            .current_dir(&self.root)
            .env("RUSTC_WORKSPACE_WRAPPER", self.root.join("tests/mutants/rustc"))
            // The tests run some hundred times, and most of their time is that of dependencies.
            .args(["--config", "profile.dev.opt-level=1"])
            .stderr(Stdio::inherit())
            .output()?;
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = lines.lines().filter(|line| line.starts_with('{'));
        let messages = lines.map(|line| Ok(serde_json::from_str(line)?)).collect::<io::Result<Vec<Value>>>()?;
        let finished = messages.iter().find(|message| message["reason"] == "build-finished");
        let finished = finished.ok_or_else(|| io::Error::other("cargo did not start the build"))?;
        Ok((finished["success"] == true, messages))
    }
}

/// Returns the package of a mutant.
pub(crate) fn package(mutant: &Mutant) -> &'static str {
    let is_in = |(folder, _): &&(&str, &str)| mutant.file.starts_with(folder);
    CRATES.iter().find(is_in).map_or("", |(_, package)| package)
}

/// Returns the place of a macro call, for the code that the macro generated.
fn outermost(mut span: &Value) -> &Value {
    while span["expansion"]["span"].is_object() {
        span = &span["expansion"]["span"];
    }
    span
}
