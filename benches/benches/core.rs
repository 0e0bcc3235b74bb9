//! The core, timed, beside the limits that it is measured against.
#![allow(missing_docs, reason = "the macros make the entry point")]

mod shared;

use criterion::{Criterion, criterion_group, criterion_main};

fn core(criterion: &mut Criterion) {
    let cases =
        mcp_benches::core().into_iter().chain(mcp_benches::IN_FLIGHT[4..].iter().map(|n| mcp_benches::curve(*n)));
    cases.for_each(|case| shared::bench(criterion, case));
}

criterion_group!(benches, core);
criterion_main!(benches);
