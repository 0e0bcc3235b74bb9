//! Lines of every kind and of both eras: valid messages, invalid ones, and junk.

use mcp_tests::message::{CAPABILITIES, VERSION};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

fn text(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Returns ids that collide often.
fn id() -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!(1)), Just(json!("1")), Just(json!(null)), (0u64..6).prop_map(|n| json!(n)), Just(json!(1.5))]
}

fn method() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "ping",
        "initialize",
        "tools/list",
        "tools/call",
        "roots/list",
        "logging/setLevel",
        "server/discover",
        "subscriptions/listen",
        "vendor/x",
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/progress",
        "notifications/message",
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
        "",
    ])
}

/// Returns `_meta` that claims 2026-07-28, valid or not.
fn meta() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => Just(json!({VERSION: "2026-07-28", CAPABILITIES: {}})),
        2 => Just(json!({VERSION: "2026-07-28", CAPABILITIES: {"roots": {}}, "progressToken": "t",
            "io.modelcontextprotocol/logLevel": "info"})),
        1 => Just(json!({VERSION: "2026-07-28"})),
        1 => Just(json!({VERSION: "2031-01-01", CAPABILITIES: {}})),
        1 => Just(json!({VERSION: 5, CAPABILITIES: []})),
        1 => Just(json!({"io.modelcontextprotocol/subscriptionId": 2})),
    ]
}

fn params() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        Just(json!(null)),
        Just(json!([1])),
        Just(json!({"requestId": 1, "reason": "r"})),
        Just(json!({"progressToken": 2, "progress": 0.5})),
        Just(json!({"level": "info", "_meta": {"progressToken": "t"}})),
        Just(json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "n", "version": "v"}})),
    ]
}

fn modern_params() -> impl Strategy<Value = Value> {
    let params = prop_oneof![
        Just(json!({})),
        Just(json!({"name": "t"})),
        Just(json!({"notifications": {"toolsListChanged": true}})),
        Just(json!({"notifications": []})),
        Just(json!({"requestId": 1})),
    ];
    (params, meta()).prop_map(|(mut params, meta)| {
        params["_meta"] = meta;
        params
    })
}

/// Returns responses to requests, of either era.
fn outcome() -> impl Strategy<Value = Value> {
    let roots = json!({"r": {"method": "roots/list"}});
    let bad = json!({"r": {"method": "tools/list"}});
    prop_oneof![
        3 => params(),
        1 => Just(json!({"resultType": "complete", "content": []})),
        2 => Just(json!({"resultType": "input_required", "requestState": "s", "inputRequests": roots})),
        1 => Just(json!({"resultType": "input_required", "requestState": "s"})),
        1 => Just(json!({"resultType": "input_required", "inputRequests": bad})),
        1 => Just(json!({"resultType": "task", "taskId": "t"})),
        1 => Just(json!({"supportedVersions": ["2026-07-28", "2025-06-18"], "capabilities": {"tools": {}}})),
        1 => Just(json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "n", "version": "v"}})),
    ]
}

fn error() -> impl Strategy<Value = Value> {
    let code = prop::sample::select(vec![-1, -32601, -32602, -32022, -32021]);
    let data =
        prop_oneof![Just(json!(null)), Just(json!({"supported": ["2026-07-28", "2025-03-26"], "requested": "x"}))];
    (code, data).prop_map(|(code, data)| json!({"code": code, "message": "m", "data": data}))
}

pub(crate) fn line() -> impl Strategy<Value = Vec<u8>> {
    let message = prop_oneof![
        4 => (id(), method(), params()).prop_map(|(id, method, params)| {
            text(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        }),
        4 => (id(), method(), modern_params()).prop_map(|(id, method, params)| {
            text(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        }),
        3 => (method(), prop_oneof![params(), modern_params()]).prop_map(|(method, params)| {
            text(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
        }),
        3 => (id(), outcome()).prop_map(|(id, result)| text(&json!({"jsonrpc": "2.0", "id": id, "result": result}))),
        1 => (id(), error()).prop_map(|(id, error)| text(&json!({"jsonrpc": "2.0", "id": id, "error": error}))),
    ];
    let batch = vec(message.clone(), 0..4).prop_map(|members| {
        let mut text = b"[".to_vec();
        text.extend(members.join(&b','));
        text.push(b']');
        text
    });
    prop_oneof![
        8 => message,
        2 => batch,
        1 => vec(any::<u8>(), 0..40),
        1 => "[{}\\[\\]\",:0-9a-z\\\\ ]{0,40}".prop_map(String::into_bytes),
        1 => (0usize..300).prop_map(|n| b"[".repeat(n)),
        1 => (0usize..3000).prop_map(|n| b"x".repeat(n)),
    ]
}
