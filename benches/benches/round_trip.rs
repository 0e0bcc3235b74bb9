//! A `tools/call` through both machines: encoded, decoded, dispatched, answered, decoded.
#![allow(missing_docs, reason = "the macros make the entry point")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mcp_benches::Pair;
use mcp_proto::{schema::CallToolResult, wire::JsonObject};

fn round_trip(criterion: &mut Criterion) {
    let arguments = JsonObject::parse(r#"{"message":"thirty-two bytes of plain text.."}"#).expect("an object");
    let result = CallToolResult::text("thirty-two bytes of plain text..");
    let mut group = criterion.benchmark_group("round trip");
    for in_flight in [1u64, 64, 10_000] {
        group.throughput(Throughput::Elements(in_flight));
        group.bench_with_input(BenchmarkId::new("in flight", in_flight), &in_flight, |b, in_flight| {
            let mut pair = Pair::default();
            b.iter(|| {
                for _ in 0..*in_flight {
                    pair.ask(&arguments);
                }
                pair.turn(&result);
            });
            assert_eq!(pair.client.usage().calls, 0);
        });
    }
    group.finish();
}

criterion_group!(benches, round_trip);
criterion_main!(benches);
