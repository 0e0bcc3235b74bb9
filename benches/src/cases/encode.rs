//! Encoding of responses.

use std::hint::black_box;

use mcp_proto::{codec::Frame, connection::Event, protocol::VersionSet, schema::CallToolResult, wire};
use serde_json::json;

use crate::{Case, Pair, Work, frame, text};

pub(super) fn cases() -> Vec<Case> {
    let texts = [("32 B", 32, false), ("64 KiB plain", 64 << 10, false), ("64 KiB prose", 64 << 10, true)];
    let mut cases = Vec::new();
    for (name, size, prose) in texts {
        cases.push(Case::new("encode", format!("answer, {name}"), move || answer(text(size, prose))));
        cases.push(Case::new("encode", format!("escaped, {name}"), move || escaped(text(size, prose), wire::quote)));
        cases.push(Case::new("encode", format!("limit: serde_json, {name}"), move || serde(&text(size, prose))));
        cases.push(Case::new("encode", format!("limit: escaped, {name}"), move || {
            escaped(text(size, prose), |out, text| json_escape_simd::escape_into(text, out))
        }));
    }
    cases
}

/// Responds to the same small request repeatedly, so that for a large response nearly all of the time is encoding.
fn answer(text: String) -> Work {
    let (request, result) = (frame("call"), CallToolResult::text(text));
    let (mut pair, mut out) = (Pair::new(VersionSet::LEGACY), Vec::new());
    let mut answer = move || {
        let event = pair.server.handle_frame(pair.now, Frame::new(request.as_bytes()));
        let Some(Event::Request { key, .. }) = event else { panic!("{event:?}") };
        pair.server.respond(key, black_box(&result)).expect("it is owed");
        out.clear();
        while pair.server.poll_transmit(&mut out).is_some() {}
        black_box(&out).len()
    };
    let bytes = answer();
    Work::new(1, bytes, answer)
}

/// Appends a text with quotes to a buffer that is large enough: with the encoder of this project, or with a specialized
/// crate.
fn escaped(text: String, escape: fn(&mut Vec<u8>, &str)) -> Work {
    let mut out = Vec::new();
    Work::new(1, text.len(), move || {
        out.clear();
        escape(&mut out, black_box(&text));
        black_box(&out).len()
    })
}

/// Encodes only the result, with serde.
fn serde(text: &str) -> Work {
    let result = json!({"content": [{"type": "text", "text": text}]});
    let mut out = Vec::new();
    Work::new(1, result.to_string().len(), move || {
        out.clear();
        serde_json::to_writer(&mut out, black_box(&result)).expect("memory");
        black_box(&out).len()
    })
}
