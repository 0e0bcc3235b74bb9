//! The core, timed.
#![allow(missing_docs, reason = "the macros make the entry point")]

use allocation_counter::measure;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn core(criterion: &mut Criterion) {
    for case in mcp_benches::core().into_iter().chain([100_000].map(mcp_benches::curve)) {
        let mut case = case.warm();
        let allocated = measure(|| case.run());
        let mut group = criterion.benchmark_group(case.group);
        group.throughput(Throughput::ElementsAndBytes { elements: case.messages, bytes: case.bytes });
        group.bench_function(case.name.clone(), |bencher| bencher.iter(|| case.run()));
        group.finish();
        #[expect(clippy::cast_precision_loss, reason = "they are few")]
        let each = allocated.count_total as f64 / case.messages as f64;
        #[expect(clippy::print_stdout, reason = "it goes with what criterion prints")]
        {
            println!("{:24}allocs: [{each:.2} per message]", "");
        }
    }
}

criterion_group!(benches, core);
criterion_main!(benches);
