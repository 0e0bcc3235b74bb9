//! Processes: our own standard streams, children, and what becomes of them, on any adapter. This program is its own other
//! process.
//!
//! The program around it brings the names of its adapter, and `done`, which makes of what an adapter waits for what it
//! comes to.

mod children;
mod fixture;
mod streams;
mod tour;

use std::{env, process::ExitCode};

use libtest_mimic::{Arguments, Failed};

pub(crate) fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    if args.next().as_deref() == Some(fixture::FLAG) {
        return fixture::run(&args.next().expect("a role"), &args.collect::<Vec<_>>());
    }
    let trials = children::trials().into_iter().chain(streams::trials()).chain(tour::trials()).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A test, which fails by panicking.
fn run(test: impl FnOnce() + Send + 'static) -> impl FnOnce() -> Result<(), Failed> + Send + 'static {
    move || {
        test();
        Ok(())
    }
}
