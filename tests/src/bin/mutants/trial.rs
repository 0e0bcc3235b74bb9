//! Runs the tests on one mutant until one of them fails.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{fmt, io};

/// A test program, and its limit of processor time in seconds, far above its need. The limit is processor time, because
/// a mutant that does not end has to fail on a busy machine too. The program is a package, for the unit tests of its
/// library, or a package and one of its tests.
pub(crate) type Limited = (&'static str, u32);

/// The tests that run first, without those that are [`SLOW`]: some seconds for all of them.
pub(crate) const QUICK: [Limited; 6] = [
    ("mcp-tests/modern", 10),
    ("mcp-proto", 40),
    ("mcp-tests/protocol", 20),
    ("mcp-tests/http", 40),
    ("mcp-service", 90),
    ("mcp-driver", 30),
];

/// All tests, for mutants that pass the first ones. Those of an adapter run the driver with real sockets and processes.
pub(crate) const ALL: [Limited; 19] = [
    ("mcp-tests/protocol", 100),
    ("mcp-proto", 100),
    ("mcp-tests/modern", 50),
    ("mcp-tests/http", 50),
    ("mcp-service", 200),
    ("mcp-driver", 100),
    ("mcp-service/mount", 50),
    ("mcp-service/proxy", 50),
    ("mcp-service/typed", 50),
    ("mcp-service/testing", 50),
    ("mcp-service/layers", 50),
    ("mcp-service/state", 50),
    ("mcp-service/weather", 50),
    ("mcp-tokio/connections", 100),
    ("mcp-tokio/http", 100),
    ("mcp-tokio/authorization", 100),
    ("mcp-tests/memory", 100),
    ("mcp-tests/model", 300),
    ("mcp-tests/invariants", 300),
];

/// The time limit of a test program in seconds, for mutants that wait without end and use no processor.
const WAIT: &str = "900";

/// Parts of the names of tests that take a second or more. A run fails if there is no such test.
pub(crate) const SLOW: [&str; 15] = [
    "calls_over_the_limit_are_queued",
    "a_paused_reader_receives_every_response",
    "replayed_messages_are_counted",
    "streams_of_cancelled_requests_are_removed",
    "subscriptions_count_their_retained_bytes",
    "two_processes_recover_from_a_failure_at_every_step",
    "sign_out_at_any_step_is_not_lost",
    "default_list_serves_a_thousand_principals",
    "pattern_cost_is_states_times_text_length",
    "results_delivered_to_waiters_can_be_evicted",
    "session_task_arguments_are_bounded",
    "session_task_results_are_bounded",
    "subscriptions_are_bounded_in_bytes",
    "framing_ignores_cuts_and_blank_lines",
    "no_order_yields_a_second_response",
];

/// The memory limit in kilobytes, for mutants that allocate without end.
const MEMORY: u32 = 4 << 20;

/// The verdict on a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// This program fails.
    Caught(&'static str),
    Survived,
    /// It does not compile.
    Unviable,
    /// It has to be built alone.
    Alone,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caught(program) => write!(f, "caught by {program}"),
            Self::Survived => f.write_str("survived"),
            Self::Unviable => f.write_str("unviable"),
            Self::Alone => f.write_str("alone"),
        }
    }
}

/// The programs of a build, by name.
pub(crate) type Programs = Vec<(&'static str, PathBuf)>;

/// Returns the first program of a round that fails with this mutant. Number 0 is none. The programs of the package of
/// the mutant run first, because they find most of its mutants.
pub(crate) fn killer(
    programs: &Programs,
    round: &[Limited],
    package: &str,
    number: u32,
) -> io::Result<Option<&'static str>> {
    let skipped = if round == QUICK { &SLOW[..] } else { &[] };
    let mut ordered = round.to_vec();
    ordered.sort_by_key(|(name, _)| name.split('/').next() != Some(package));
    for (name, seconds) in ordered {
        let Some((_, program)) = programs.iter().find(|(other, _)| *other == name) else { continue };
        let status = Command::new("sh")
            .args([
                "-c",
                "ulimit -t \"$1\"; ulimit -v \"$2\"; shift 2; exec timeout \"$@\"",
                "sh",
                &seconds.to_string(),
                &MEMORY.to_string(),
                WAIT,
            ])
            .arg(program)
            .args(["--quiet", "-Z", "unstable-options", "--fail-fast"])
            .args(skipped.iter().flat_map(|name| ["--skip", name]))
            .env("MUTANT", number.to_string())
            // Cargo sets this variable, and one test reads it.
            .env("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"))
            // The same random seed for all runs: a test that fails without a mutant proves nothing.
            .env("PROPTEST_RNG_SEED", "1")
            // Enables `--fail-fast`, which is unstable.
            .env("RUSTC_BOOTSTRAP", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        if !status.success() {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Returns a part of [`SLOW`] that is in the name of no test of these programs.
pub(crate) fn unknown_slow_test(programs: &Programs) -> io::Result<Option<&'static str>> {
    let mut names = String::new();
    for (name, program) in programs {
        if QUICK.iter().any(|(quick, _)| quick == name) {
            let listed = Command::new(program).arg("--list").output()?;
            names.push_str(&String::from_utf8_lossy(&listed.stdout));
        }
    }
    Ok(SLOW.into_iter().find(|part| !names.contains(part)))
}
