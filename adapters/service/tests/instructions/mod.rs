//! Counts the instructions of a test program under valgrind.

use std::{env, process::Command};

/// The test of a program that makes the calls that are counted. It reads [`RUN`].
const TEST: &str = "runs_the_calls_that_are_counted";

/// The variable that says what a run under valgrind does.
const RUN: &str = "MCP_COUNTED_RUN";

/// Returns what this run of the program does, if it is one under valgrind: its case, and the number of calls.
pub(crate) fn run() -> Option<(String, u32)> {
    let run = env::var(RUN).ok()?;
    let (case, calls) = run.rsplit_once(' ').expect("a case and a number");
    Some((case.to_owned(), calls.parse().expect("a number")))
}

/// Returns the instructions of a call. What the program does besides the calls is the same in both runs.
pub(crate) fn per_call(case: &str) -> u64 {
    (of_run(case, 3_000) - of_run(case, 1_000)) / 2_000
}

fn of_run(case: &str, calls: u32) -> u64 {
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe().expect("this program"))
        .args(["--exact", TEST, "--test-threads=1"])
        .env(RUN, format!("{case} {calls}"))
        .output()
        .expect("valgrind is installed");
    let text = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{text}");
    let collected = text.lines().find_map(|line| line.split_once("Collected : ")).expect("a count").1;
    collected.trim().parse().expect("a number")
}
