//! A case as a benchmark of criterion.

use allocation_counter::measure;
use criterion::{Criterion, Throughput};
use mcp_benches::Case;

/// Times a case, after saying what it allocates on this thread.
pub(crate) fn bench(criterion: &mut Criterion, case: Case) {
    let mut case = case.warm();
    let allocated = measure(|| (0..10).for_each(|_| case.run()));
    let mut group = criterion.benchmark_group(case.group);
    group.throughput(Throughput::ElementsAndBytes { elements: case.messages, bytes: case.bytes });
    group.bench_function(case.name.clone(), |bencher| bencher.iter(|| case.run()));
    group.finish();
    #[expect(clippy::cast_precision_loss, reason = "they are few")]
    let each = allocated.count_total as f64 / (10 * case.messages) as f64;
    #[expect(clippy::print_stdout, reason = "it goes with what criterion prints")]
    {
        println!("{:24}allocs: [{each:.2} per message]\n", "");
    }
}
