//! Counts the instructions and the peak memory of each decoder of peer data, at inputs that double in size.
//!
//! `decoder-cost [--quick] [NAME...]` measures the cases whose name contains a NAME, prints a table, and fails where
//! instructions grow faster than the input. `--quick` measures inputs of a quarter of the size, and only as many as
//! decide that. It runs itself under valgrind as `decoder-cost --run CASE SIZE`.

use std::{
    collections::BTreeMap,
    env, fs,
    process::{Command, ExitCode, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use allocation_counter::measure;
use mcp_tests_cost::{Case, MOST_GROWTH, SIZES, cases};

/// Instructions that any input costs.
const SMALL: u64 = 200_000;

/// Twice as much as an input may cost more than one of half its size. `n log n` gives 4.3, `n * n` gives 8.
const MOST_OF_HALF: u64 = 5;

/// The instructions below [`Work::measured`](mcp_tests_cost::Work::measured).
fn count(case: usize, size: usize) -> Result<u64, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let file = env::temp_dir().join(format!("decoder-cost-{}-{case}-{size}", std::process::id()));
    let status = Command::new("valgrind")
        .args(["--quiet", "--tool=callgrind", "--toggle-collect=*Work*measured*"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(program)
        .args(["--run", &case.to_string(), &size.to_string()])
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("valgrind cannot be run: {error}"))?;
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()));
    let _ = fs::remove_file(&file);
    if !status.success() {
        return Err(format!("valgrind has failed: {status}"));
    }
    let text = text?;
    let total = text.lines().find_map(|line| line.strip_prefix("summary:").or_else(|| line.strip_prefix("totals:")));
    total.and_then(|total| total.trim().parse().ok()).ok_or_else(|| "callgrind counted nothing".into())
}

fn sizes(quick: bool) -> [usize; 4] {
    if quick { SIZES.map(|size| size / 4) } else { SIZES }
}

/// The row of a case, and whether its instructions grow no faster than its input.
fn report(number: usize, case: &Case, quick: bool) -> Result<(String, bool), String> {
    let sizes = sizes(quick);
    let mut line = format!("| {} |", case.name);
    let mut counts = [count(number, sizes[0])?, 0, 0, 0];
    for at in if quick { 3..4 } else { 1..4 } {
        let work = (case.make)(sizes[at]);
        let input = work.input as u64;
        let peak = measure(|| work.measured()).bytes_max;
        counts[at] = count(number, sizes[at])?;
        line += &format!(" {}, {} |", counts[at] / input, peak.div_ceil(input));
    }
    let [first, .., last] = counts;
    let mut is_linear = last <= MOST_GROWTH * first.max(SMALL);
    if !is_linear {
        // A table that is only built for larger inputs is a step and no growth: then the last doubling decides.
        let half = if quick { count(number, sizes[2])? } else { counts[2] };
        is_linear = last * 2 <= MOST_OF_HALF * half;
    }
    let growth = last * 10 / first.max(1);
    line += &format!(" {}.{} |{}", growth / 10, growth % 10, if is_linear { "" } else { " <-- faster than its input" });
    Ok((line, is_linear))
}

/// The rows of these cases in their order, made on all processors.
fn rows(cases: &[(usize, Case)], quick: bool) -> Vec<Result<(String, bool), String>> {
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some((number, case)) = cases.get(at) else { break };
        let row = report(*number, case, quick).map_err(|why| format!("{}: {why}", case.name));
        rows.lock().expect("no thread panics").insert(at, row);
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    rows.into_inner().expect("no thread panics").into_values().collect()
}

fn run(case: &str, size: &str) -> Option<()> {
    let case = cases().into_iter().nth(case.parse().ok()?)?;
    (case.make)(size.parse().ok()?).measured();
    Some(())
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a report, for a terminal")]
fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    if let [flag, case, size] = &args[..]
        && flag == "--run"
    {
        return if run(case, size).is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let (flags, names): (Vec<_>, Vec<_>) = args.iter().partition(|arg| *arg == "--quick");
    let quick = !flags.is_empty();
    let cases: Vec<_> = cases().into_iter().enumerate().collect();
    let chosen: Vec<_> = cases
        .into_iter()
        .filter(|(_, case)| names.is_empty() || names.iter().any(|name| case.name.contains(name.as_str())))
        .collect();
    if chosen.is_empty() {
        eprintln!("decoder-cost: no case has such a name");
        return ExitCode::FAILURE;
    }
    println!("Instructions and peak bytes per byte of input, and how much more 8 times the input costs.\n");
    let columns: String =
        sizes(quick)[if quick { 3 } else { 1 }..].iter().map(|size| format!(" {} KiB |", size >> 10)).collect();
    println!("| decoder, input |{columns} growth |");
    println!("|{}", " --- |".repeat(if quick { 3 } else { 5 }));
    let mut faults = 0;
    for row in rows(&chosen, quick) {
        match row {
            Ok((row, is_linear)) => {
                println!("{row}");
                faults += usize::from(!is_linear);
            }
            Err(why) => {
                eprintln!("decoder-cost: {why}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("\n{faults} decoders cost more than in proportion to their input.");
    if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
