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

/// Builds one of the servers from scratch.
pub(crate) fn build(package: &str) -> io::Result<Program> {
    let servers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../servers");
    let target = target().join("footprint").join(package);
    if target.exists() {
        fs::remove_dir_all(&target)?;
    }
    let name = format!("echo-{package}");
    let cargo = |args: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(&servers).args(args).stdin(Stdio::null());
        cargo
    };
    run(&mut cargo(&["fetch", "--quiet"]))?;
    let begin = Instant::now();
    let release = ["build", "--quiet", "--release", "--config", "profile.release.strip=true", "--package", &name];
    run(cargo(&release).arg("--target-dir").arg(&target))?;
    let build = begin.elapsed();
    let linked = ["tree", "--edges", "normal,no-proc-macro", "--prefix", "none", "--no-dedupe", "--package", &name];
    let tree = cargo(&linked).output()?.stdout;
    let mut packages: Vec<_> = str::from_utf8(&tree).unwrap_or_default().lines().map(package_of).collect();
    packages.sort_unstable();
    packages.dedup();
    let path = target.join("release").join(&name);
    let size = fs::metadata(&path)?.len();
    Ok(Program { path, build, packages: packages.len().saturating_sub(1), size })
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
