//! Timings of the core and of its limits.
#![allow(missing_docs, reason = "the macros make the entry point")]

mod shared;

use criterion::{Criterion, criterion_group, criterion_main};

fn core(criterion: &mut Criterion) {
    mcp_benches::core().into_iter().for_each(|case| shared::bench(criterion, case));
}

criterion_group!(benches, core);
criterion_main!(benches);
