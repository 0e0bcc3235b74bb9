//! Decoding of bytes to a message and to a type, compared with other ways to read the same bytes.

use std::{borrow::Cow, hint::black_box};

use mcp_proto::{
    codec::LineDecoder,
    schema::{CallToolParams, CallToolResult, ListToolsResult, ProgressParams},
    wire::{self, Json, Message, RawJson},
};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Value, value::RawValue};

use crate::{Case, FRAMES, Work, frame};

/// The members of an envelope: the minimum that a server with serde has to read.
#[derive(Deserialize)]
#[expect(dead_code, reason = "it is decoded for its own sake")]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Types with the same members as the types of this project, and derived decoders. They drop the unknown members, which
/// the types of this project keep.
mod derived {
    use serde::Deserialize;
    use serde_json::value::RawValue;

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "it is decoded for its own sake")]
    pub(super) struct Call {
        name: String,
        arguments: Option<Box<RawValue>>,
        #[serde(rename = "inputResponses")]
        input_responses: Option<Box<RawValue>>,
        #[serde(rename = "requestState")]
        request_state: Option<String>,
        task: Option<Box<RawValue>>,
        #[serde(rename = "_meta")]
        meta: Option<Box<RawValue>>,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "it is decoded for its own sake")]
    pub(super) struct CallResult {
        content: Vec<Content>,
        #[serde(rename = "structuredContent")]
        structured_content: Option<Box<RawValue>>,
        #[serde(rename = "isError")]
        is_error: Option<bool>,
        #[serde(rename = "_meta")]
        meta: Option<Box<RawValue>>,
    }

    #[derive(Deserialize)]
    #[serde(tag = "type", rename_all = "camelCase")]
    #[expect(dead_code, reason = "it is decoded for its own sake")]
    pub(super) enum Content {
        Text { text: String },
        Image { data: String },
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "it is decoded for its own sake")]
    pub(super) struct List {
        tools: Vec<Tool>,
        #[serde(rename = "nextCursor")]
        next_cursor: Option<String>,
        #[serde(rename = "_meta")]
        meta: Option<Box<RawValue>>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    #[expect(dead_code, reason = "it is decoded for its own sake")]
    pub(super) struct Tool {
        name: String,
        title: Option<String>,
        description: Option<String>,
        input_schema: Box<RawValue>,
        output_schema: Option<Box<RawValue>>,
        annotations: Option<Annotations>,
        execution: Option<Box<RawValue>>,
        icons: Option<Vec<Box<RawValue>>>,
        #[serde(rename = "_meta")]
        meta: Option<Box<RawValue>>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    #[expect(dead_code, reason = "it is decoded for its own sake")]
    pub(super) struct Annotations {
        title: Option<String>,
        read_only_hint: Option<bool>,
        destructive_hint: Option<bool>,
        idempotent_hint: Option<bool>,
        open_world_hint: Option<bool>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    #[expect(dead_code, reason = "it is decoded for its own sake")]
    pub(super) struct Progress {
        progress_token: Box<RawValue>,
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
        #[serde(rename = "_meta")]
        meta: Option<Box<RawValue>>,
    }
}

/// Returns the params or the result of a message.
fn content(frame: &str) -> &str {
    let envelope: Envelope<'_> = serde_json::from_str(frame).expect("a message");
    envelope.params.or(envelope.result).expect("params or a result").get()
}

/// Decodes params or a result.
type Decoder = fn(&Json);

fn ours<T: DeserializeOwned>(content: &Json) {
    black_box(RawJson::from(black_box(content)).decode::<T>().expect("it fits"));
}

fn serde<T: DeserializeOwned>(content: &Json) {
    black_box(serde_json::from_str::<T>(black_box(content.get())).expect("it fits"));
}

/// Reads a text.
type Reader = fn(&str);

/// The ways to read whole messages, by name.
const READERS: [(&str, Reader); 6] = [
    // The check for UTF-8 is included, since messages arrive as bytes.
    ("envelope", |frame| {
        let text = wire::text(frame.as_bytes()).expect("UTF-8");
        black_box(Message::parse(text, 128)).expect("a message");
    }),
    ("limit: newline", |frame| assert_eq!(black_box(memchr::memchr(b'\n', frame.as_bytes())), None)),
    ("limit: UTF-8", |frame| assert!(black_box(std::str::from_utf8(frame.as_bytes())).is_ok())),
    ("limit: skipped by serde_json", |frame| bytes::<IgnoredAny>(frame)),
    ("limit: borrowed by serde_json", |frame| bytes::<Envelope<'_>>(frame)),
    ("limit: Value of serde_json", |frame| bytes::<Value>(frame)),
];

fn bytes<'a, T: Deserialize<'a>>(text: &'a str) {
    drop(black_box(serde_json::from_slice::<T>(text.as_bytes()).expect("it fits")));
}

/// Returns two decoders of the params or the result in a message: that of this project, and a derived one.
fn typed(name: &str) -> Option<(Decoder, Decoder)> {
    Some(match name {
        "ping" => return None,
        "progress" => (ours::<ProgressParams>, serde::<derived::Progress>),
        "list of 50 tools" => (ours::<ListToolsResult>, serde::<derived::List>),
        _ if name.starts_with("call") => (ours::<CallToolParams>, serde::<derived::Call>),
        _ => (ours::<CallToolResult>, serde::<derived::CallResult>),
    })
}

fn whole(what: &str, name: &'static str, read: Reader) -> Case {
    Case::new("decode", format!("{what}, {name}"), move || {
        let text = frame(name);
        Work::new(1, text.len(), move || read(black_box(text)))
    })
}

fn inside(what: &str, name: &'static str, decode: Decoder) -> Case {
    Case::new("decode", format!("{what}, {name}"), move || {
        let content = Json::parse(content(frame(name))).expect("JSON");
        Work::new(1, content.get().len(), move || decode(&content))
    })
}

fn lines(name: &'static str) -> Case {
    Case::new("decode", format!("lines, {name}"), move || {
        let line = [frame(name), "\n"].concat();
        let mut lines = LineDecoder::new(16 << 20);
        Work::new(1, line.len(), move || {
            lines.feed(black_box(line.as_bytes()));
            lines.next_frame().map(|frame| frame.bytes().len())
        })
    })
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for name in FRAMES {
        cases.push(lines(name));
        cases.extend(READERS.map(|(what, read)| whole(what, name, read)));
        if let Some((ours, derived)) = typed(name) {
            cases.push(inside("typed", name, ours));
            cases.push(inside("limit: derived by serde", name, derived));
        }
    }
    cases
}
