//! The test programs of the workspace, and the tests that each of them lists.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs, io,
    path::{Component, Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

/// A program that `cargo test --workspace` runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The file of its root module, relative to the root of the workspace.
    pub root: PathBuf,
    /// All files that were compiled into it.
    pub files: BTreeSet<PathBuf>,
    /// The tests that it lists as not ignored.
    pub tests: BTreeSet<String>,
}

/// Builds all test programs of the workspace and lists their tests.
///
/// # Errors
/// If the build fails, or a program does not list its tests.
pub fn programs(workspace: &Path) -> io::Result<Vec<Program>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["test", "--workspace", "--no-run", "--message-format", "json"])
        .current_dir(workspace)
        .stderr(Stdio::inherit())
        .output()?;
    if !built.status.success() {
        return Err(io::Error::other("the tests cannot be built"));
    }
    let mut programs = Vec::new();
    for line in String::from_utf8_lossy(&built.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        // Examples are built as well. Other tests run them.
        let (true, Some(program)) = (message["profile"]["test"] == true, message["executable"].as_str()) else {
            continue;
        };
        let path = |name: &Value| PathBuf::from(name.as_str().unwrap_or_default());
        let folder = path(&message["manifest_path"]).parent().map(Path::to_owned).unwrap_or_default();
        programs.push(Program {
            root: within(workspace, &path(&message["target"]["src_path"])),
            files: compiled(workspace, &Path::new(program).with_extension("d"))?,
            tests: &list(Path::new(program), &folder, &[])? - &list(Path::new(program), &folder, &["--ignored"])?,
        });
    }
    Ok(programs)
}

/// Returns the tests that a program lists.
fn list(program: &Path, folder: &Path, options: &[&str]) -> io::Result<BTreeSet<String>> {
    let output =
        Command::new(program).args(["--list", "--format", "terse"]).args(options).current_dir(folder).output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("{} does not list its tests", program.display())));
    }
    Ok(tests(&String::from_utf8_lossy(&output.stdout)))
}

/// Returns the names in a listing.
fn tests(listing: &str) -> BTreeSet<String> {
    listing.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// Returns the source files of a program, from the dependency file of the compiler.
fn compiled(workspace: &Path, notes: &Path) -> io::Result<BTreeSet<PathBuf>> {
    Ok(noted(workspace, &fs::read_to_string(notes)?))
}

/// Returns the files of the first rule of a makefile.
fn noted(workspace: &Path, makefile: &str) -> BTreeSet<PathBuf> {
    let files = makefile.lines().next().and_then(|line| line.split_once(": ")).map_or("", |(_, files)| files);
    files
        .replace("\\ ", "\0")
        .split_whitespace()
        .map(|file| within(workspace, Path::new(&file.replace('\0', " "))))
        .filter(|file| file.extension() == Some(OsStr::new("rs")))
        .collect()
}

/// Returns a path relative to the root of the workspace, without `..`.
fn within(workspace: &Path, path: &Path) -> PathBuf {
    let path = path.strip_prefix(workspace).unwrap_or(path);
    path.components().fold(PathBuf::new(), |mut whole, part| {
        if part == Component::ParentDir {
            whole.pop();
        } else {
            whole.push(part);
        }
        whole
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listing_parser_keeps_only_tests() {
        let listing = "a::b: test\nsrc/lib.rs - c (line 3): test\nbenches::d: benchmark\n\n2 tests, 1 benchmark\n";
        assert_eq!(tests(listing), ["a::b", "src/lib.rs - c (line 3)"].map(str::to_owned).into());
    }

    #[test]
    fn makefile_rule_names_the_files_of_a_program() {
        let makefile =
            "/w/target/a.d: tests/main.rs adapters/x/tests/../../tests/b\\ c.rs /w/core/d.rs data.csv\n\nother.rs:\n";
        let files = ["tests/main.rs", "adapters/tests/b c.rs", "core/d.rs"];
        assert_eq!(noted(Path::new("/w"), makefile), files.map(PathBuf::from).into());
    }
}
