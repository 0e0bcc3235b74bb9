//! Runs tests on a mutant until one of them fails.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fmt, io, slice};

use crate::reach::Test;

/// The test programs: the unit tests of a package, or a package and one of its tests. Left out are tests that read the
/// sources, build programs, count instructions, or have a harness of their own.
pub(crate) const PROGRAMS: &[&str] = &[
    "mcp-proto",
    "mcp-service",
    "mcp-driver",
    "mcp-blocking",
    "mcp-tests/bounds",
    "mcp-tests/explore",
    "mcp-tests/hostile",
    "mcp-tests/http",
    "mcp-tests/invariants",
    "mcp-tests/memory",
    "mcp-tests/model",
    "mcp-tests/modern",
    "mcp-tests/protocol",
    "mcp-tests/schema",
    "mcp-tests/sessions",
    "mcp-tests/simulate",
    "mcp-service/allocations",
    "mcp-service/call_spans",
    "mcp-service/layers",
    "mcp-service/log_layer",
    "mcp-service/macros",
    "mcp-service/mount",
    "mcp-service/proxy",
    "mcp-service/state",
    "mcp-service/task_spans",
    "mcp-service/testing",
    "mcp-service/tracing",
    "mcp-service/typed",
    "mcp-service/weather",
    "mcp-tokio/authorization",
    "mcp-tokio/connections",
    "mcp-tokio/http",
    "mcp-tokio/named_pipe",
    "mcp-tokio/openapi",
    "mcp-blocking/authorization",
    "mcp-blocking/callers",
    "mcp-blocking/http",
    "mcp-blocking/streams",
    "mcp-blocking/threads",
];

/// The packages whose tests use sockets, threads and processes. A mutant counts as caught by them if they fail twice.
const REAL: [&str; 3] = ["mcp-driver", "mcp-tokio", "mcp-blocking"];

/// The exit status of `timeout` for a program that it ended.
pub(crate) const TIMED_OUT: i32 = 124;

/// Tests that take less time run before all others.
const FAST: Duration = Duration::from_millis(300);

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

/// A test program of a build.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Its entry in [`PROGRAMS`].
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    /// The folder of its package.
    pub(crate) folder: PathBuf,
}

impl Program {
    fn package(&self) -> &'static str {
        self.name.split('/').next().unwrap_or(self.name)
    }

    /// Returns the names of its tests, without those that are ignored.
    pub(crate) fn tests(&self) -> io::Result<Vec<String>> {
        let list = |ignored: &[&str]| {
            let output = Command::new(&self.path).args(["--list", "--format", "terse"]).args(ignored).output()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            io::Result::Ok(text.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())).collect())
        };
        let (mut all, ignored): (Vec<String>, Vec<String>) = (list(&[])?, list(&["--ignored"])?);
        all.retain(|name| !ignored.contains(name));
        Ok(all)
    }

    /// Returns the command to run tests of this program within limits in seconds: of processor time, because a mutant
    /// that does not end has to fail on a busy machine too, and of time, for mutants that wait without end.
    pub(crate) fn command(&self, processor: u64, time: u64) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", "ulimit -t \"$1\"; ulimit -v \"$2\"; shift 2; exec timeout --kill-after 5 \"$@\"", "sh"])
            .args([processor.to_string(), MEMORY.to_string(), time.to_string()])
            .arg(&self.path)
            .args(["--quiet", "-Z", "unstable-options", "--fail-fast"])
            // Cargo sets these.
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            // The same random seed for all runs: a test that fails without a mutant proves nothing.
            .env("PROPTEST_RNG_SEED", "1")
            // Enables `--fail-fast`, which is unstable.
            .env("RUSTC_BOOTSTRAP", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

/// The builds to compare: all test programs with a mutant, and without it.
#[derive(Clone, Copy)]
pub(crate) struct Builds<'a> {
    pub(crate) mutated: &'a [Program],
    pub(crate) original: &'a [Program],
}

/// Returns the verdict of these tests on a mutant of a package. The tests of the package run first, and fast tests
/// before slow ones.
pub(crate) fn verdict(builds: Builds<'_>, tests: Vec<&Test>, package: &str, number: u32) -> io::Result<Verdict> {
    let (fast, slow): (Vec<&Test>, Vec<&Test>) = tests.into_iter().partition(|test| test.time < FAST);
    for tests in [fast, slow] {
        let of = |index| tests.iter().filter(move |test| test.program == index).copied().collect::<Vec<_>>();
        let mut groups: Vec<(usize, Vec<&Test>)> = (0..builds.mutated.len()).map(|index| (index, of(index))).collect();
        groups.retain(|(_, tests)| !tests.is_empty());
        groups.sort_by_key(|(index, tests)| (builds.mutated[*index].package() != package, total(tests)));
        for (index, tests) in groups {
            let [mutated, original] = [&builds.mutated[index], &builds.original[index]];
            if group_fails(mutated, original, &tests, number)? {
                return Ok(Verdict::Caught(mutated.name));
            }
        }
    }
    Ok(Verdict::Survived)
}

/// Returns whether one of these tests of a program fails with a mutant, and not without it.
fn group_fails(program: &Program, original: &Program, tests: &[&Test], number: u32) -> io::Result<bool> {
    let runs = if REAL.contains(&program.package()) { 2 } else { 1 };
    match fails(program, original, tests, number, runs)? {
        // Tests that pass alone may fail together, and another one of them may fail because of the mutant. One that
        // fails at random is not counted, as far as two runs show it.
        Outcome::FailsAlways if tests.len() > 1 => {
            for test in tests {
                if fails(program, original, slice::from_ref(test), number, 2)? == Outcome::Fails {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        outcome => Ok(outcome == Outcome::Fails),
    }
}

/// The outcome of tests with a mutant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passes,
    /// One fails with the mutant, and none without it.
    Fails,
    /// One fails without the mutant, too.
    FailsAlways,
}

/// Runs these tests of a program this often, as long as one of them fails with a mutant, and then without it.
fn fails(program: &Program, original: &Program, tests: &[&Test], number: u32, runs: usize) -> io::Result<Outcome> {
    let seconds = 20 + 10 * total(tests).as_secs();
    let run = |program: &Program, number: u32| {
        let mut command = program.command(seconds, 3 * seconds);
        command.arg("--exact").args(tests.iter().map(|test| &test.name)).env("MUTANT", number.to_string()).status()
    };
    for _ in 0..runs {
        let status = run(program, number)?;
        if status.success() {
            return Ok(Outcome::Passes);
        }
        // Tests that fail have the status 101.
        if status.code() != Some(101) {
            print(&format!("mutant {number} ends {} with {status}", program.name));
        }
    }
    for _ in 0..runs {
        if !run(original, 0)?.success() {
            print(&format!("without a mutant, {} tests of {} fail, too", tests.len(), program.name));
            return Ok(Outcome::FailsAlways);
        }
    }
    Ok(Outcome::Fails)
}

fn total(tests: &[&Test]) -> Duration {
    tests.iter().map(|test| test.time).sum()
}

pub(crate) fn print(text: &str) {
    use io::Write as _;
    let _ = writeln!(io::stdout(), "{text}");
}
