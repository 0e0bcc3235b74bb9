//! From bytes to a message to a type, beside what it takes others to read the same bytes.

use std::{borrow::Cow, hint::black_box};

use mcp_proto::{
    codec::LineDecoder,
    schema::{CallToolParams, CallToolResult, ListToolsResult, ProgressParams},
    wire::Message,
};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Value, value::RawValue};

use crate::{Case, frames};

/// What an envelope has, by name: the least that a server with serde can read.
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

/// What serde derives for our types: the same members, of the same kinds. What ours keep beside them, for who comes after
/// them, it drops.
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

/// What a message says beside its envelope.
fn content(frame: &str) -> Option<&str> {
    let envelope: Envelope<'_> = serde_json::from_str(frame).expect("a message");
    envelope.params.or(envelope.result).map(RawValue::get)
}

/// What decodes a text, and forgets what came of it.
type Reader = fn(&str);

fn json<T: DeserializeOwned>(text: &str) {
    black_box(serde_json::from_str::<T>(black_box(text)).expect("it fits"));
}

fn of(name: &str, frame: &'static str) -> Vec<Case> {
    fn case<T>(
        what: &str,
        (name, frame): (&str, &'static str),
        mut run: impl FnMut(&'static str) -> T + 'static,
    ) -> Case {
        Case::new("decode", format!("{what}, {name}"), (1, frame.len()), move || run(black_box(frame)))
    }
    let this = (name, frame);
    let mut lines = LineDecoder::new(16 << 20);
    let line = &*[frame, "\n"].concat().leak();
    let mut cases = vec![
        case("lines", (name, line), move |line| {
            lines.feed(line.as_bytes());
            lines.next_frame().map(|frame| frame.bytes().len())
        }),
        // The check of the text is part of it, as it is for those who read bytes.
        case("envelope", this, |frame| {
            let text = std::str::from_utf8(black_box(frame.as_bytes())).expect("UTF-8");
            black_box(Message::parse(text, 128)).expect("a message");
        }),
        case("limit: newline", (name, line), |line| memchr::memchr(b'\n', line.as_bytes())),
        case("limit: UTF-8", this, |frame| std::str::from_utf8(black_box(frame.as_bytes())).is_ok()),
        case("limit: skipped by serde_json", this, |frame| serde_json::from_slice::<IgnoredAny>(frame.as_bytes())),
        case("limit: borrowed by serde_json", this, |frame| serde_json::from_slice::<Envelope<'_>>(frame.as_bytes())),
        case("limit: Value of serde_json", this, |frame| serde_json::from_slice::<Value>(frame.as_bytes())),
    ];
    let Some(content) = content(frame) else { return cases };
    let (ours, derived): (Reader, Reader) = match name {
        "progress" => (json::<ProgressParams>, json::<derived::Progress>),
        "list of 50 tools" => (json::<ListToolsResult>, json::<derived::List>),
        _ if name.starts_with("call") => (json::<CallToolParams>, json::<derived::Call>),
        _ => (json::<CallToolResult>, json::<derived::CallResult>),
    };
    cases.push(case("typed", (name, content), ours));
    cases.push(case("limit: derived by serde", (name, content), derived));
    cases
}

pub(super) fn cases() -> Vec<Case> {
    frames().into_iter().flat_map(|(name, frame)| of(name, frame)).collect()
}
