//! Explores scenarios in all orders and prints the results.
//!
//! ```text
//! cargo run --release -p mcp-tests --bin explore [-- [--first] [--small | NAME...]]
//! ```
//!
//! Scenarios over HTTP (`mcp_tests::sessions`) come first, and have no number of schedules.
//!
//! `--small` selects the scenarios of each test run. The largest scenario takes some minutes and some gigabytes. The
//! last column has a letter for each cover point that was reached: see `mcp_tests::explore::CoverPoint`. `--first`
//! stops at the first order that breaks a rule.
//!
//! Exit status: 0 success, 1 an order breaks a rule, 2 wrong usage.

use std::io::{self, Write as _};
use std::process::ExitCode;

use mcp_tests::{
    explore::{Scenario, catalog, explore},
    sessions::explore as http,
};

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let only_first = args.first().is_some_and(|arg| arg == "--first");
    args.drain(..usize::from(only_first));
    let mut over_http = http::small();
    let scenarios = match &args[..] {
        [] => catalog::all(),
        [small] if small == "--small" => catalog::small(),
        names => {
            let named: Vec<_> =
                catalog::all().into_iter().filter(|s| names.iter().any(|name| name == s.name)).collect();
            over_http.retain(|scenario| names.iter().any(|name| name == scenario.name));
            if named.len() + over_http.len() != names.len() {
                let known = catalog::all().into_iter().map(|scenario| scenario.name);
                let known: Vec<_> = known.chain(http::small().into_iter().map(|scenario| scenario.name)).collect();
                let _ = writeln!(io::stderr(), "explore: the scenarios are: {}", known.join(", "));
                return ExitCode::from(2);
            }
            named
        }
    };
    // The shorter scenarios run first.
    let completed = explore_http(&over_http, only_first).and_then(|good| match good || !only_first {
        true => Ok(play(&scenarios, only_first)? && good),
        false => Ok(false),
    });
    match completed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(_) => ExitCode::from(2),
    }
}

/// Explores scenarios over HTTP. Returns whether all of them passed.
fn explore_http(scenarios: &[http::Scenario], only_first: bool) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    let mut good = true;
    for scenario in scenarios {
        match http::explore(scenario) {
            Ok(explored) => {
                let http::Explored { states, steps, longest } = explored;
                writeln!(out, "{:38}{states:>11}{steps:>12}{:>10}{longest:>8}", scenario.name, "")?;
            }
            Err(broken) => {
                good = false;
                writeln!(out, "{broken}")?;
                if only_first {
                    break;
                }
            }
        }
    }
    Ok(good)
}

/// Explores scenarios. Returns whether all of them passed.
fn play(scenarios: &[Scenario], only_first: bool) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{:38}{:>11}{:>12}{:>10}{:>8}{:>9}  happens",
        "scenario", "states", "steps", "schedules", "longest", "seconds"
    )?;
    let (mut states, mut steps, mut seconds, mut good) = (0, 0, 0.0, true);
    for scenario in scenarios {
        match explore(scenario) {
            Ok(report) => {
                let time = report.time.as_secs_f64();
                (states, steps, seconds) = (states + report.states, steps + report.steps, seconds + time);
                writeln!(
                    out,
                    "{:38}{:>11}{:>12}{:>10.1e}{:>8}{:>9.1}  {}",
                    scenario.name, report.states, report.steps, report.schedules, report.longest, time, report.covered
                )?;
            }
            Err(failure) => {
                good = false;
                writeln!(out, "{failure}")?;
                if only_first {
                    break;
                }
            }
        }
    }
    writeln!(out, "{:38}{states:>11}{steps:>12}{:>27.1}", "in all", seconds)?;
    Ok(good)
}
