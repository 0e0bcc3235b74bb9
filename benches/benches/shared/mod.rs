//! Runs a case as a benchmark of criterion.

use allocation_counter::measure;
use criterion::{Criterion, Throughput};
use mcp_benches::Case;

/// Times a case, and prints its allocations on this thread.
pub(crate) fn bench(criterion: &mut Criterion, case: Case) {
    const RUNS: u64 = 10;
    let (mut group, name) = (criterion.benchmark_group(case.group), case.name.clone());
    let mut work = case.make();
    let allocated = measure(|| (0..RUNS).for_each(|_| work.run()));
    group.throughput(Throughput::ElementsAndBytes { elements: work.messages, bytes: work.bytes });
    let mut timed = false;
    group.bench_function(name, |bencher| {
        timed = true;
        bencher.iter(|| work.run());
    });
    group.finish();
    if timed {
        #[expect(clippy::cast_precision_loss, reason = "they are few")]
        let each = allocated.count_total as f64 / (RUNS * work.messages) as f64;
        #[expect(clippy::print_stdout, reason = "it goes with what criterion prints")]
        {
            println!("{:24}allocs: [{each:.2} per message]\n", "");
        }
    }
}
