//! Draws a random sample of the mutants that `cargo mutants --list --json` names, the same for the same seed.
//!
//! ```text
//! cargo mutants --list --json | cargo run -p mcp-tests --bin mutants -- --seed N --take M [--skip K]
//! ```
//!
//! Prints one regular expression for each, as `cargo mutants --re` takes them.

use std::io::{self, Write as _};
use std::process::ExitCode;

use serde_json::Value;

fn main() -> ExitCode {
    let (mut seed, mut take, mut skip) = (None, None, 0);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match (arg.as_str(), args.next().and_then(|value| value.parse::<usize>().ok())) {
            ("--seed", number @ Some(_)) => seed = number,
            ("--take", number @ Some(_)) => take = number,
            ("--skip", Some(number)) => skip = number,
            _ => return fail("usage: mutants --seed N --take M [--skip K] < list.json"),
        }
    }
    let (Some(seed), Some(take)) = (seed, take) else {
        return fail("usage: mutants --seed N --take M [--skip K] < list.json");
    };
    let list: Vec<Value> = match serde_json::from_reader(io::stdin().lock()) {
        Ok(list) => list,
        Err(error) => return fail(&format!("this is no list of mutants: {error}")),
    };
    // cargo-mutants 27.1 makes mutants of this genre whatever it is told to leave out, so they are in every sample anyway.
    let drawn = list.iter().filter(|mutant| mutant["genre"] != "StructField");
    let mut names: Vec<&str> = drawn.filter_map(|mutant| mutant["name"].as_str()).collect();
    names.sort_unstable();
    shuffle(&mut names, seed as u64);
    let mut out = io::stdout().lock();
    for name in names.iter().skip(skip).take(take) {
        if writeln!(out, "^{}$", escape(name)).is_err() {
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// Fisher and Yates, with the numbers of SplitMix64.
fn shuffle<T>(items: &mut [T], mut state: u64) {
    for last in (1..items.len()).rev() {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut number = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        number ^= number >> 31;
        items.swap(last, (number % (last as u64 + 1)) as usize);
    }
}

/// The regular expression that matches `text` and nothing else.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        if letter.is_ascii_punctuation()
            && !matches!(letter, '<' | '>' | '"' | '\'' | '/' | '%' | ',' | ':' | ';' | '=' | '@' | '_' | '!' | '`')
        {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

fn fail(why: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "{why}");
    ExitCode::from(2)
}
