//! A short run of each target, with any compiler: mutated seeds, the same for the same arguments.
//!
//! ```text
//! cargo run -p mcp-fuzz --bin smoke -- [--seed N] [--runs M] [TARGET…]
//! ```
//!
//! When a target panics, the input is written to `artifacts/TARGET/smoke` before the panic ends the run.

use std::{
    cell::RefCell,
    env, fs,
    io::{self, Write as _},
    panic,
    path::Path,
    process::ExitCode,
    time::Instant,
};

use mcp_fuzz::{TARGETS, mutate, rng::Rng};

thread_local! {
    static CURRENT: RefCell<(&'static str, Vec<u8>)> = const { RefCell::new(("", Vec::new())) };
}

fn main() -> ExitCode {
    let (mut seed, mut runs, mut chosen) = (1, 1000, Vec::new());
    let mut args = env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|value| value.parse::<u64>().ok());
        match arg.as_str() {
            "--seed" => seed = number().unwrap_or(seed),
            "--runs" => runs = number().unwrap_or(runs),
            name if TARGETS.iter().any(|(target, _)| *target == name) => chosen.push(arg),
            _ => {
                let _ = writeln!(io::stderr(), "usage: smoke [--seed N] [--runs M] [TARGET…]");
                return ExitCode::from(2);
            }
        }
    }
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let artifacts = home.join("artifacts");
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |why| {
        report(why);
        CURRENT.with_borrow(|(target, input)| {
            let folder = artifacts.join(target);
            if fs::create_dir_all(&folder).and_then(|()| fs::write(folder.join("smoke"), input)).is_ok() {
                let _ = writeln!(io::stderr(), "the input is in {}", folder.join("smoke").display());
            }
        });
    }));
    for (target, body) in TARGETS {
        if !chosen.is_empty() && !chosen.iter().any(|name| name == target) {
            continue;
        }
        let Ok(corpus) = mcp_fuzz::corpus(target) else { return ExitCode::from(2) };
        let (mut rng, start) = (Rng::new(seed), Instant::now());
        for _ in 0..runs {
            let input = mutate::input(&corpus, &mut rng);
            CURRENT.set((target, input.clone()));
            body(&input);
        }
        let _ = writeln!(io::stdout(), "{target:9} {runs} inputs in {:.1} s", start.elapsed().as_secs_f32());
    }
    ExitCode::SUCCESS
}
