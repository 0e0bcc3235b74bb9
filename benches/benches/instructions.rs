//! The core, counted: instructions under valgrind, the same on every run of the same program.
#![allow(missing_docs, reason = "the macros make the entry point")]

use gungraun::prelude::*;
use mcp_benches::{Case, counted};

fn ready(number: usize) -> Case {
    counted().swap_remove(number).warm()
}

#[library_benchmark]
#[benches::case(iter = 0..counted().len(), setup = ready)]
fn core(mut case: Case) -> Case {
    case.run();
    case
}

library_benchmark_group!(name = instructions, benchmarks = core);
main!(library_benchmark_groups = instructions);
