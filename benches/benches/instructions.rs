//! Instruction counts of the core under valgrind, which are the same on every run of the same program.
#![allow(missing_docs, reason = "the macros make the entry point")]

use gungraun::prelude::*;
use mcp_benches::{Work, counted};

fn make(number: usize) -> Work {
    counted().swap_remove(number).make()
}

#[library_benchmark]
#[benches::case(iter = 0..counted().len(), setup = make)]
fn core(mut work: Work) -> Work {
    work.run();
    work
}

library_benchmark_group!(name = instructions, benchmarks = core);
main!(library_benchmark_groups = instructions);
