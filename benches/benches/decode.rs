//! From bytes to a message, beside what it costs serde_json to skip the same bytes.
#![allow(missing_docs, reason = "the macros make the entry point")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mcp_benches::call;
use mcp_proto::{codec::LineDecoder, wire::Message};
use serde::de::IgnoredAny;
use serde_json::{Value, value::RawValue};
use std::hint::black_box;

#[derive(serde::Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: &'a RawValue,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    for (name, frame) in
        [("small", call(32, false)), ("64 KiB plain", call(64 << 10, false)), ("64 KiB prose", call(64 << 10, true))]
    {
        group.throughput(Throughput::Bytes(frame.len() as u64));
        let text = frame.as_str();
        group.bench_with_input(BenchmarkId::new("envelope", name), text, |b, text| {
            b.iter(|| Message::parse(black_box(text), 128).map(|message| black_box(&message) as *const _));
        });
        group.bench_with_input(BenchmarkId::new("limit: serde_json skips", name), text, |b, text| {
            b.iter(|| serde_json::from_slice::<IgnoredAny>(black_box(text.as_bytes())).is_ok());
        });
        group.bench_with_input(BenchmarkId::new("peer: borrowed serde envelope", name), text, |b, text| {
            b.iter(|| {
                let envelope: Envelope<'_> = serde_json::from_slice(black_box(text.as_bytes())).expect("a call");
                black_box((envelope.jsonrpc.get(), envelope.id, envelope.method, envelope.params.map(RawValue::get)));
            });
        });
        group.bench_with_input(BenchmarkId::new("peer: serde_json Value", name), text, |b, text| {
            b.iter(|| serde_json::from_slice::<Value>(black_box(text.as_bytes())).is_ok());
        });
        let line = [text.as_bytes(), b"\n"].concat();
        group.bench_with_input(BenchmarkId::new("lines", name), &line, |b, line| {
            let mut lines = LineDecoder::new(16 << 20);
            b.iter(|| {
                lines.feed(black_box(line));
                while let Some(frame) = lines.next_frame() {
                    black_box(frame);
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, decode);
criterion_main!(benches);
