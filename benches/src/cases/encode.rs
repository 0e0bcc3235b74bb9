//! Answers: what a server has to say, as bytes.

use std::hint::black_box;

use mcp_proto::{codec::Frame, connection::Event, protocol::VersionSet, schema::CallToolResult};
use serde_json::json;

use crate::{Case, Pair, frames, text};

pub(super) fn cases() -> Vec<Case> {
    let texts = [("32 B", 32, false), ("64 KiB plain", 64 << 10, false), ("64 KiB prose", 64 << 10, true)];
    texts.into_iter().flat_map(|(name, size, prose)| of(name, text(size, prose))).collect()
}

/// The same small request is answered over and over, so that nearly all that is done for a large answer is writing it.
fn of(name: &str, text: String) -> Vec<Case> {
    let (_, request) = frames().into_iter().find(|(name, _)| *name == "call").expect("a frame");
    let derived = json!({"content": [{"type": "text", "text": text}]});
    let result = CallToolResult::text(text);
    let mut pair = Pair::new(VersionSet::LEGACY);
    let mut out = Vec::new();
    let mut written = Vec::new();
    let mut answer = move || -> usize {
        let event = pair.server.handle_frame(pair.now, Frame::new(request.as_bytes()));
        let Some(Event::Request { key, .. }) = event else { panic!("{event:?}") };
        pair.server.respond(key, black_box(&result)).expect("it is owed");
        out.clear();
        while pair.server.poll_transmit(&mut out).is_some() {}
        out.len()
    };
    let bytes = answer();
    vec![
        Case::new("encode", format!("answer, {name}"), (1, bytes), answer),
        Case::new("encode", format!("limit: serde_json, {name}"), (1, bytes), move || {
            written.clear();
            serde_json::to_writer(&mut written, black_box(&derived)).expect("memory");
            written.len()
        }),
    ]
}
