//! Runs one case repeatedly, for a profiler. See `benches/README.md`.

use std::{env, process::ExitCode};

use mcp_benches::core;

#[expect(clippy::print_stderr, reason = "it is for a terminal")]
fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let (name, runs) =
        (args.next().unwrap_or_default(), args.next().and_then(|runs| runs.parse().ok()).unwrap_or(10_000));
    let Some(case) = core().into_iter().find(|case| case.to_string() == name) else {
        eprintln!("profile <case> [runs], of these:");
        core().iter().for_each(|case| eprintln!("  {case}"));
        return ExitCode::FAILURE;
    };
    let mut work = case.make();
    (0..runs).for_each(|_: u32| work.run());
    ExitCode::SUCCESS
}
