//! Counts the instructions and the peak memory of each decoder of peer data, at inputs that double in size.
//!
//! `decoder-cost [NAME]` measures the cases whose name contains NAME, prints a table, and fails where instructions grow faster
//! than the input. It runs itself under valgrind as `decoder-cost --run CASE SIZE`.

use std::{
    env, fs,
    process::{Command, ExitCode, Stdio},
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

#[expect(clippy::print_stdout, reason = "it is a report")]
fn report(number: usize, case: &Case) -> Result<bool, String> {
    let mut counts = Vec::new();
    let mut line = format!("| {} |", case.name);
    for size in SIZES {
        let work = (case.make)(size);
        let input = work.input as u64;
        let peak = measure(|| work.measured()).bytes_max;
        let instructions = count(number, size)?;
        counts.push(instructions);
        if size != SIZES[0] {
            line += &format!(" {}, {} |", instructions / input, peak.div_ceil(input));
        }
    }
    // A table that is only built for larger inputs is a step and no growth: then the last doubling decides.
    let is_linear = counts[3] <= MOST_GROWTH * counts[0].max(SMALL) || counts[3] * 2 <= MOST_OF_HALF * counts[2];
    let growth = counts[3] * 10 / counts[0].max(1);
    println!("{line} {}.{} |{}", growth / 10, growth % 10, if is_linear { "" } else { " <-- faster than its input" });
    Ok(is_linear)
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
    println!("Instructions and peak bytes per byte of input, and how much more 8 times the input costs.\n");
    println!("| decoder, input | {} KiB | {} KiB | {} KiB | growth |", SIZES[1] >> 10, SIZES[2] >> 10, SIZES[3] >> 10);
    println!("| --- | --- | --- | --- | --- |");
    let mut faults = 0;
    for (number, case) in cases().iter().enumerate() {
        if args.first().is_some_and(|name| !case.name.contains(name.as_str())) {
            continue;
        }
        match report(number, case) {
            Ok(is_linear) => faults += usize::from(!is_linear),
            Err(why) => {
                eprintln!("decoder-cost: {}: {why}", case.name);
                return ExitCode::FAILURE;
            }
        }
    }
    println!("\n{faults} decoders cost more than in proportion to their input.");
    if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
