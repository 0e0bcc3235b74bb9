//! Timings of the adapters and of rmcp: a small call from a client to a server of the same library and back.
#![allow(missing_docs, reason = "the macros make the entry point")]

#[path = "../benches/shared/mod.rs"]
mod criteria;
#[path = "shared/mod.rs"]
mod peers;

use criterion::Criterion;

fn main() {
    if peers::serve() {
        return;
    }
    let mut criterion = Criterion::default().configure_from_args();
    peers::cases().into_iter().for_each(|case| criteria::bench(&mut criterion, case));
    criterion.final_summary();
}
