//! The core needs no standard library and few crates. `tests/no-std` is a program without one, which is built and run
//! here.
//!
//! Other linkers need other flags than those in `tests/no-std/build.rs`.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, fs, thread};

use mcp_tests::workspace;

/// The maximum number of crates of the core without default features, including itself.
const CRATES: usize = 15;

/// Far more than the program needs. A panic in it loops for ever.
const PATIENCE: Duration = Duration::from_secs(60);

fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO"));
    // All dependencies were fetched when this test was built.
    command.current_dir(folder).arg("--offline").stdin(Stdio::null());
    // Flags for this build, for example for coverage, may need things that the program does not have.
    command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    command
}

/// Builds the program and returns its path.
fn build() -> PathBuf {
    let package = workspace::root().join("tests/no-std");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-std");
    // The program uses the lock file of the workspace.
    fs::copy(workspace::root().join("Cargo.lock"), package.join("Cargo.lock")).expect("a writable folder");
    let status = cargo(&package)
        .args(["build", "--release", "--target-dir"])
        .arg(&target)
        .env_remove("CARGO_BUILD_TARGET")
        .status()
        .expect("cargo starts");
    assert!(status.success(), "the program does not build without the standard library");
    target.join("release").join(format!("mcp-no-std{}", env::consts::EXE_SUFFIX))
}

/// Runs the program, and kills it after the timeout.
fn run(program: &Path) -> Option<ExitStatus> {
    let mut child = Command::new(program).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut stdout = child.stdout.take().expect("a pipe");
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || {
        // The program closes the pipe when it exits.
        let _ = stdout.read_to_end(&mut Vec::new());
        let _ = sender.send(());
    });
    let in_time = ended.recv_timeout(PATIENCE).is_ok();
    if !in_time {
        child.kill().expect("it is ours");
    }
    let status = child.wait().expect("it is ours");
    in_time.then_some(status)
}

/// Returns whether a file contains a symbol of the crate `std`, in either mangling scheme.
fn mentions_std(path: &Path) -> bool {
    let bytes = fs::read(path).expect("a program");
    [&b"_ZN3std"[..], b"_3std"].iter().any(|name| bytes.windows(name.len()).any(|window| window == *name))
}

#[test]
fn no_std_program_links_the_core() {
    let program = build();
    assert!(!mentions_std(&program), "std is in {}", program.display());
    // The search works: this test program contains such symbols.
    assert!(mentions_std(&env::current_exe().expect("a path")), "this test seems to have no std");
    let status = run(&program).expect("the program ends");
    assert_eq!(status.code(), Some(0), "the status is the line in talk.rs where it went wrong");
}

#[test]
fn core_depends_on_few_crates() {
    let output = cargo(&workspace::root())
        .args(["tree", "-p", "mcp-proto", "-e", "normal", "--no-default-features", "--prefix", "none"])
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "cargo tree failed");
    let tree = String::from_utf8(output.stdout).expect("text");
    let crates: BTreeSet<&str> = tree.lines().filter(|line| !line.is_empty()).collect();
    assert!(crates.len() <= CRATES, "{} crates: {crates:#?}", crates.len());
    assert!(crates.iter().any(|line| line.starts_with("mcp-proto ")), "no core in {crates:#?}");
}
