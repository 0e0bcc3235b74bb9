//! Counts the instructions of the core, and compares them with those in `benches/instructions.csv`. With `--update` it
//! writes that file.

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use mcp_benches::counted;
use serde_json::Value;

/// The change of instructions, in percent, that is not reported.
const TOLERANCE: f64 = 5.0;

/// Parts of cases: the name of a part, a case with it, and a case without it. A part can change by far more than its
/// case.
const PARTS: [(&str, &str, &str); 3] = [
    ("service/a middleware function alone", "service/a call with a middleware that does nothing", "service/a call"),
    ("service/a middleware type alone", "service/a call with a middleware type that does nothing", "service/a call"),
    (
        "service/two further functions alone",
        "service/a call with three that do nothing",
        "service/a call with a middleware that does nothing",
    ),
];

/// Returns the instructions of the parts.
fn parts(counted: &[(String, u64)]) -> Result<Vec<(String, u64)>, String> {
    let count = |case| {
        let found = counted.iter().find(|(name, _)| name == case);
        found.map(|(_, count)| *count).ok_or_else(|| format!("there is no case {case}"))
    };
    PARTS
        .iter()
        .map(|(name, with, without)| Ok(((*name).to_owned(), count(with)?.saturating_sub(count(without)?))))
        .collect()
}

/// Runs gungraun. Returns its counts, in the order of the cases.
fn count() -> Result<Vec<(String, u64)>, String> {
    let output = Command::new(env!("CARGO"))
        .args(["bench", "--quiet", "--package", "mcp-benches", "--bench", "instructions", "--", "--output-format=json"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo cannot be run: {error}"))?;
    if !output.status.success() {
        return Err("the instructions could not be counted".into());
    }
    let mut counted_by_number = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.starts_with('{')) {
        let summary: Value = serde_json::from_str(line).map_err(|error| format!("no summary: {error}"))?;
        let number = summary["id"].as_str().and_then(|id| id.rsplit_once('_')?.1.parse::<usize>().ok());
        let instructions = summary["profiles"][0]["data"]["total"]["metrics"]["Ir"]["values"]["new"].as_u64();
        let (Some(number), Some(instructions)) = (number, instructions) else {
            return Err(format!("this is no summary: {line}"));
        };
        counted_by_number.insert(number, instructions);
    }
    let cases = counted();
    if counted_by_number.len() != cases.len() {
        return Err(format!("{} cases were counted of {}", counted_by_number.len(), cases.len()));
    }
    Ok(cases.iter().map(ToString::to_string).zip(counted_by_number.into_values()).collect())
}

fn read(baseline: &str) -> BTreeMap<&str, u64> {
    baseline
        .lines()
        .skip(1)
        .filter_map(|line| line.rsplit_once(';'))
        .filter_map(|(name, count)| Some((name, count.parse().ok()?)))
        .collect()
}

#[expect(clippy::print_stdout, reason = "it is a report")]
fn compare(counted: &[(String, u64)], before: &BTreeMap<&str, u64>) {
    let mut changed = 0;
    for (name, now) in counted {
        let Some(before) = before.get(name.as_str()) else {
            println!("{name:44} {now:>12}  new");
            continue;
        };
        #[expect(clippy::cast_precision_loss, reason = "they are not that many")]
        let percent = 100.0 * (*now as f64 / *before as f64 - 1.0);
        let mark = if percent.abs() > TOLERANCE { "  <-- changed" } else { "" };
        changed += usize::from(!mark.is_empty());
        println!("{name:44} {before:>12} -> {now:>12}  {percent:+6.1} %{mark}");
    }
    println!("\n{changed} of {} have changed by more than {TOLERANCE} %.", counted.len());
    if changed > 0 {
        println!("If that is meant: cargo run --release -p mcp-benches --bin instructions -- --update");
    }
}

#[expect(clippy::print_stderr, reason = "it is for a terminal")]
fn main() -> ExitCode {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.csv");
    let outcome = count().and_then(|mut counted| {
        counted.extend(parts(&counted)?);
        if env::args().any(|arg| arg == "--update") {
            let lines: String = counted.iter().map(|(name, count)| format!("{name};{count}\n")).collect();
            return fs::write(&path, format!("case;instructions\n{lines}")).map_err(|error| error.to_string());
        }
        let before = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        compare(&counted, &read(&before));
        Ok(())
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("instructions: {why}");
            ExitCode::FAILURE
        }
    }
}
