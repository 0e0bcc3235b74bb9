//! Server-sent events, as bytes and out of them.

use std::hint::black_box;

use mcp_proto::codec::{SseDecoder, SseText};

use crate::{Case, frames};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, frame) in frames() {
        if !matches!(name, "result" | "64 KiB prose") {
            continue;
        }
        let event = SseText { kind: Some("message"), id: Some("7-31"), retry: None, data: Some(frame.as_bytes()) };
        let mut bytes = Vec::new();
        event.write(&mut bytes);
        let size = (1, bytes.len());
        let mut out = Vec::new();
        cases.push(Case::new("sse", format!("encode, {name}"), size, move || {
            out.clear();
            black_box(event).write(&mut out);
            out.len()
        }));
        let mut events = SseDecoder::new(16 << 20);
        cases.push(Case::new("sse", format!("decode, {name}"), size, move || {
            let mut chunk = black_box(&bytes[..]);
            while let Some(event) = events.next_event(&mut chunk) {
                black_box(event.expect("it is no longer than the limit"));
            }
        }));
    }
    cases
}
