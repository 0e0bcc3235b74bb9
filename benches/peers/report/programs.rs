//! The smallest servers as programs: the time of their build, their size, and their dependencies.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// A program that was built from scratch.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// The time of the build, with all dependencies.
    pub(crate) build: Duration,
    /// The number of linked packages, without itself.
    pub(crate) packages: usize,
    /// The size in bytes, stripped.
    pub(crate) size: u64,
}

/// A server to build: a program of a package, with or without the feature `http`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Source {
    pub(crate) package: &'static str,
    pub(crate) program: &'static str,
    pub(crate) has_http: bool,
}

impl Source {
    /// A package with a program of its name.
    pub(crate) const fn of(package: &'static str) -> Self {
        Self { package, program: package, has_http: false }
    }
}

/// Builds a server from scratch.
pub(crate) fn build(source: Source) -> io::Result<Program> {
    let Source { package, program, has_http } = source;
    let servers = servers();
    let target = target().join("footprint").join(program);
    if target.exists() {
        fs::remove_dir_all(&target)?;
    }
    let features: &[&str] = if has_http { &["--features", "http"] } else { &[] };
    let cargo = |args: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(&servers).args(args).stdin(Stdio::null());
        cargo
    };
    run(&mut cargo(&["fetch", "--quiet"]))?;
    let begin = Instant::now();
    let release = ["build", "--quiet", "--release", "--config", "profile.release.strip=true", "--package", package];
    run(cargo(&release).args(["--bin", program]).args(features).arg("--target-dir").arg(&target))?;
    let build = begin.elapsed();
    let linked = ["tree", "--edges", "normal,no-proc-macro", "--prefix", "none", "--no-dedupe", "--package", package];
    let tree = cargo(&linked).args(features).output()?.stdout;
    let mut packages: Vec<_> = str::from_utf8(&tree).unwrap_or_default().lines().map(package_of).collect();
    packages.sort_unstable();
    packages.dedup();
    let path = target.join("release").join(program);
    let size = fs::metadata(&path)?.len();
    Ok(Program { path, build, packages: packages.len().saturating_sub(1), size })
}

/// Builds a program that is no server, or takes the last build of it. Returns its path.
pub(crate) fn tool(package: &str) -> io::Result<PathBuf> {
    let target = target().join("footprint").join("tools");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(servers()).args(["build", "--quiet", "--release", "--package", package]);
    run(cargo.arg("--target-dir").arg(&target))?;
    Ok(target.join("release").join(package))
}

/// Returns the folder of the servers.
fn servers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../servers")
}

/// Returns the name and the version of a package in the output of `cargo tree`.
fn package_of(line: &str) -> &str {
    line.split(" (").next().unwrap_or(line)
}

fn run(command: &mut Command) -> io::Result<()> {
    if command.status()?.success() { Ok(()) } else { Err(io::Error::other(format!("{command:?} failed"))) }
}

/// Returns the target folder of this project.
fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let release = program.ancestors().find(|path| path.ends_with("release"));
    release.and_then(Path::parent).map_or_else(|| PathBuf::from("target"), Path::to_path_buf)
}
