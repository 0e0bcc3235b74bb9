//! A `tools/call` through client and server: encoded, framed, decoded, dispatched, answered, framed, decoded.

use std::{collections::VecDeque, hint::black_box};

use mcp_proto::{
    connection::{Client, Event, Outcome, RequestOptions, Server},
    protocol::{ProtocolVersion, VersionSet},
    rpc::{ReplyKey, Timestamp},
    schema::{CallToolParams, CallToolResult},
    wire::{JsonObject, RawJson},
};

use crate::{Case, Pair, SIZES, TEXT, Work, text};

/// The numbers of requests in flight for the chart.
pub const IN_FLIGHT: [usize; 6] = [1, 10, 100, 1_000, 10_000, 100_000];

/// A call, as text and as types.
struct Call {
    params: JsonObject,
    result: JsonObject,
    typed_params: CallToolParams,
    typed_result: CallToolResult,
}

impl Call {
    fn small() -> Self {
        Self::of(TEXT)
    }

    fn of(text: &str) -> Self {
        let arguments = serde_json::json!({"message": text}).to_string();
        let typed_params = CallToolParams {
            arguments: Some(JsonObject::parse(&*arguments).expect("an object")),
            ..CallToolParams::new("echo")
        };
        let typed_result = CallToolResult::text(text);
        let result = serde_json::json!({"content": [{"type": "text", "text": text}]});
        Self {
            params: JsonObject::parse(format!(r#"{{"name":"echo","arguments":{arguments}}}"#)).expect("an object"),
            result: JsonObject::new(&result).expect("an object"),
            typed_params,
            typed_result,
        }
    }

    /// Sends a request with params that are already encoded.
    fn send_request(&self, client: &mut Client, now: Timestamp) {
        let params = RawJson::from(&self.params);
        client.request_raw(now, "tools/call", Some(&params), RequestOptions::default()).expect("it is allowed");
    }

    fn answer(&self, server: &mut Server, key: ReplyKey) {
        server.respond_raw(key, &RawJson::from(&self.result)).expect("it is owed");
    }
}

/// Reads the name of the tool. Returns the key of the request.
fn dispatched(event: &Event<'_>) -> ReplyKey {
    let Event::Request { key, params: Some(params), .. } = event else { panic!("{event:?}") };
    let name = params.member("name");
    assert_eq!(name.as_ref().map(RawJson::get), Some("\"echo\""));
    *key
}

/// Reads a result without decoding its content.
fn answered(event: &Event<'_>) {
    let Event::Response { outcome: Outcome::Result(result), .. } = event else { panic!("{event:?}") };
    black_box(result.get());
}

/// Makes this many calls at a time, with params and results as text.
fn raw(pair: &mut Pair, call: &Call, at_once: usize) {
    for _ in 0..at_once {
        pair.send_request(|client, now| call.send_request(client, now));
    }
    pair.up(|server, _, event| call.answer(server, dispatched(&event)));
    pair.down(|event| answered(&event));
}

/// Makes this many calls at a time, with params and results as types.
fn typed(pair: &mut Pair, call: &Call, at_once: usize) {
    for _ in 0..at_once {
        pair.send_request(|client, now| {
            client.request(now, &call.typed_params, RequestOptions::default()).expect("it is allowed");
        });
    }
    pair.up(|server, _, event| {
        let Event::Request { key, params: Some(params), .. } = event else { panic!("{event:?}") };
        let params: CallToolParams = params.decode().expect("it fits");
        assert_eq!(params.name, "echo");
        server.respond(key, &call.typed_result).expect("it is owed");
    });
    pair.down(|event| {
        let Event::Response { outcome: Outcome::Result(result), .. } = event else { panic!("{event:?}") };
        black_box(result.decode::<CallToolResult>().expect("it fits"));
    });
}

type Round = fn(&mut Pair, &Call, usize);

fn case(
    name: String,
    versions: VersionSet,
    at_once: usize,
    round: Round,
    call: impl FnOnce() -> Call + 'static,
) -> Case {
    Case::new("round trip", name, move || {
        let (mut pair, call) = (Pair::new(versions), call());
        pair.bytes = 0;
        round(&mut pair, &call, at_once);
        Work::new(at_once, pair.bytes, move || round(&mut pair, &call, at_once))
    })
}

pub(super) fn cases() -> Vec<Case> {
    let (legacy, modern) = (VersionSet::LEGACY, VersionSet::only(ProtocolVersion::V2026_07_28));
    let mut cases = Vec::new();
    for at_once in [1, 64, 10_000] {
        cases.push(case(format!("{at_once} at once"), legacy, at_once, raw, Call::small));
        cases.push(case(format!("{at_once} at once, typed"), legacy, at_once, typed, Call::small));
    }
    for at_once in [1, 64] {
        cases.push(case(format!("{at_once} at once, 2026-07-28"), modern, at_once, raw, Call::small));
        cases.push(case(format!("{at_once} at once, typed, 2026-07-28"), modern, at_once, typed, Call::small));
    }
    for (name, size) in &SIZES[1..] {
        cases.push(case(format!("1 at once, typed, {name}"), legacy, 1, typed, || Call::of(&text(*size, true))));
    }
    cases.extend(IN_FLIGHT.map(|in_flight| Case::new("in flight", in_flight.to_string(), move || curve(in_flight))));
    cases
}

/// Makes calls while this many are in flight: after each new call, the oldest one gets its response.
fn curve(in_flight: usize) -> Work {
    const CALLS: usize = 100;
    let (mut pair, call) = (Pair::new(VersionSet::LEGACY), Call::small());
    let mut owed = VecDeque::new();
    let mut send_request = move |answer: bool| {
        pair.send_request(|client, now| call.send_request(client, now));
        pair.up(|_, _, event| owed.push_back(dispatched(&event)));
        if answer {
            call.answer(&mut pair.server, owed.pop_front().expect("it was requested"));
            pair.down(|event| answered(&event));
        }
        pair.bytes
    };
    let before = (1..in_flight).map(|_| send_request(false)).last().unwrap_or_default();
    let bytes = send_request(true) - before;
    Work::new(CALLS, CALLS * bytes, move || (0..CALLS).map(|_| send_request(true)).last())
}
