//! Runs the simulation.
//!
//! ```text
//! cargo run --release -p mcp-tests --bin simulate -- [--seed N] [--runs M] [--trace]
//! ```
//!
//! Runs M seeds, starting with N. `--trace` prints the trace of seed N instead.
//!
//! Exit status: 0 success, 1 an invariant is broken in a run, whose seed is printed, 2 wrong usage.

use std::{
    cell::RefCell,
    env,
    io::{self, BufWriter, Write},
    panic,
    process::ExitCode,
    rc::Rc,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

use mcp_tests::simulate::{self, RunSummary};

const USAGE: &str = "usage: simulate [--seed N] [--runs M] [--trace]";

/// The number of failures after which the program stops.
const ENOUGH: usize = 10;

struct Options {
    seed: u64,
    runs: u64,
    trace: bool,
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        let _ = writeln!(io::stderr(), "{USAGE}");
        return ExitCode::from(2);
    };
    // The code that catches the panic prints the message.
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(io::stdout(), "at {place}");
    }));
    match if options.trace { show(options.seed) } else { play(&options) } {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) | Err(_) => ExitCode::FAILURE,
    }
}

fn options() -> Option<Options> {
    let mut options = Options { seed: 0, runs: 1, trace: false };
    let mut args = env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seed" => options.seed = args.next()?.parse().ok()?,
            "--runs" => options.runs = args.next()?.parse().ok()?,
            "--trace" => options.trace = true,
            _ => return None,
        }
    }
    Some(options)
}

/// Prints the trace of one run. Returns whether it passed.
fn show(seed: u64) -> io::Result<bool> {
    let out = Rc::new(RefCell::new(BufWriter::new(io::stdout())));
    let lines = out.clone();
    let completed = simulate::attempt(
        seed,
        Some(Box::new(move |line| {
            // A closed output is not an error.
            let _ = writeln!(lines.borrow_mut(), "{line}");
        })),
    );
    let mut out = out.borrow_mut();
    match &completed {
        Ok(RunSummary { hash, entries, .. }) => writeln!(out, "seed {seed}: {entries} entries, hash {hash:016x}")?,
        Err(why) => writeln!(out, "FAILED seed {seed}: {why}")?,
    }
    Ok(completed.is_ok())
}

/// The sum of many runs. It does not depend on their order.
#[derive(Default)]
struct Totals {
    runs: u64,
    hash: u64,
    entries: u64,
    hours: f64,
    failed: usize,
}

/// Runs many seeds on all processors. Returns whether all of them passed.
fn play(options: &Options) -> io::Result<bool> {
    let start = Instant::now();
    let (next, end) = (AtomicU64::new(options.seed), options.seed.saturating_add(options.runs));
    let totals = Mutex::new(Totals::default());
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            break;
        }
        let completed = simulate::attempt(seed, None);
        let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.runs += 1;
        match completed {
            Ok(completed) => {
                totals.hash = totals.hash.wrapping_add(completed.hash.rotate_left((seed % 64) as u32));
                totals.entries += completed.entries;
                totals.hours += completed.time.as_secs_f64() / 3600.0;
            }
            Err(why) => {
                totals.failed += 1;
                // A closed output is not an error.
                let _ = writeln!(io::stdout(), "FAILED seed {seed}: {why}\nsee simulate --seed {seed} --trace");
                if totals.failed == ENOUGH {
                    next.store(end, Ordering::Relaxed);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let Totals { runs, hash, entries, hours, failed } = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    let took = start.elapsed().as_secs_f64();
    let (first, speed) = (options.seed, runs as f64 / took);
    let mut out = io::stdout();
    writeln!(out, "{entries} entries, {hours:.0} hours in {took:.1} s, {speed:.0} runs a second, hash {hash:016x}")?;
    writeln!(out, "{runs} runs from seed {first}, {failed} failed")?;
    Ok(failed == 0)
}
