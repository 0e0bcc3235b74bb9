//! Prints the allocations of all cases, and the memory of connections: one line for each, for the report. It is a
//! separate program, since counting takes time.
#![allow(missing_docs, reason = "it is a program")]
#![expect(clippy::print_stdout, clippy::cast_precision_loss, reason = "it is a report")]

#[path = "shared/mod.rs"]
mod peers;

use allocation_counter::measure;
use mcp_benches::memory;

fn main() {
    if peers::serve() {
        return;
    }
    for case in mcp_benches::core().into_iter().chain(peers::cases()) {
        const RUNS: u64 = 10;
        let name = case.to_string();
        let mut work = case.make();
        let allocated = measure(|| (0..RUNS).for_each(|_| work.run()));
        println!("{name};{}", allocated.count_total as f64 / (RUNS * work.messages) as f64);
    }
    for (name, count, make) in memory::cases() {
        // The first run creates state that is shared.
        drop(make(1));
        let mut kept = None;
        let taken = measure(|| kept = Some(make(count)));
        println!("memory/{name};{}", taken.bytes_current as f64 / count as f64);
        drop(kept);
    }
}
