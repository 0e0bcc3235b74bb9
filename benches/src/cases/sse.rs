//! Encoding and decoding of server-sent events.

use std::hint::black_box;

use mcp_proto::codec::{SseDecoder, SseText};

use crate::{Case, Work, frame};

pub(super) fn cases() -> Vec<Case> {
    let of = |name: &'static str| {
        [
            Case::new("sse", format!("encode, {name}"), move || encode(name)),
            Case::new("sse", format!("decode, {name}"), move || decode(name)),
        ]
    };
    ["result", "64 KiB prose"].into_iter().flat_map(of).collect()
}

/// Returns an event with a message of the corpus.
fn event(name: &str) -> (SseText<'static>, Vec<u8>) {
    let data = Some(frame(name).as_bytes());
    let event = SseText { kind: Some("message"), id: Some("7-31"), retry: None, data };
    let mut bytes = Vec::new();
    event.write(&mut bytes);
    (event, bytes)
}

fn encode(name: &str) -> Work {
    let (event, mut out) = event(name);
    Work::new(1, out.len(), move || {
        out.clear();
        black_box(event).write(&mut out);
        black_box(&out).len()
    })
}

fn decode(name: &str) -> Work {
    let (_, bytes) = event(name);
    let mut events = SseDecoder::new(16 << 20);
    Work::new(1, bytes.len(), move || {
        let mut chunk = black_box(&bytes[..]);
        let event = events.next_event(&mut chunk).expect("an event");
        event.expect("it is no longer than the limit").data.len()
    })
}
