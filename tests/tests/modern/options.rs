//! The metadata that a request gets from its options: the log level and the trace context.

use std::sync::Arc;

use mcp_proto::{
    connection::{ClientRole, Connection, RequestOptions},
    protocol::ProtocolVersion,
    schema::{CallToolParams, LoggingLevel, Meta, TraceContext},
};
use mcp_tests::{
    harness::{Harness, full_client_with, full_server},
    modern::answer,
};
use serde_json::{Value, json};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const LEVEL: &str = "io.modelcontextprotocol/logLevel";

fn trace() -> Arc<TraceContext> {
    let trace = TraceContext::within(PARENT).and_then(|trace| trace.with_state("a=\"b\""));
    Arc::new(trace.and_then(|trace| trace.with_baggage("c=d")).expect("good values"))
}

fn options() -> RequestOptions {
    RequestOptions { log_level: Some(LoggingLevel::Warning), trace: Some(trace()), ..RequestOptions::default() }
}

fn send_request(client: &mut Harness<ClientRole>, params: &CallToolParams) -> Value {
    client.conn.request(client.now, params, options()).expect("it is ready");
    client.sent_one()
}

fn metadata(request: &Value) -> [&Value; 4] {
    let meta = &request["params"]["_meta"];
    ["traceparent", "tracestate", "baggage", LEVEL].map(|key| &meta[key])
}

// req: M-META-025 M-MRTR-034
#[test]
fn every_retry_carries_trace_and_log_level() {
    let values = [json!(PARENT), json!("a=\"b\""), json!("c=d"), json!("warning")];
    let mut client = Harness::modern_client();
    let request = send_request(&mut client, &CallToolParams::new("t"));
    assert_eq!(metadata(&request), values.each_ref());
    client.feed(&answer(&request, json!({"resultType": "input_required", "requestState": "s"})));
    let again = client.sent_one();
    assert_eq!(metadata(&again), values.each_ref());
    assert_ne!(again["params"]["_meta"]["progressToken"], request["params"]["_meta"]["progressToken"]);
    // The options replace the values in the params.
    let mut meta = Meta::new();
    meta.set("traceparent", "mine").and_then(|()| meta.set("baggage", "mine")).expect("JSON");
    let request = send_request(&mut client, &CallToolParams { meta: Some(meta), ..CallToolParams::new("t") });
    assert_eq!(metadata(&request), values.each_ref());
    // Without options there is no such metadata.
    client.conn.request(client.now, &CallToolParams::new("t"), RequestOptions::default()).expect("it is ready");
    assert_eq!(metadata(&client.sent_one()), [&Value::Null; 4]);
}

#[test]
fn session_requests_carry_trace_but_no_log_level() {
    for version in ProtocolVersion::LEGACY {
        let mut client = Harness::ready_client(version);
        let request = send_request(&mut client, &CallToolParams::new("t"));
        assert_eq!(metadata(&request), [&json!(PARENT), &json!("a=\"b\""), &json!("c=d"), &Value::Null]);
        let options = RequestOptions { progress: false, ..options() };
        client.conn.request_raw(client.now, "vendor/a", None, options).expect("it is ready");
        assert_eq!(client.sent_one()["params"]["_meta"]["traceparent"], PARENT);
    }
}

// req: M-META-025
#[test]
fn server_reads_trace_and_log_level_per_request() {
    let meta = |request: &mut Value, level: &Value| {
        request["params"]["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "traceparent": PARENT, "tracestate": "a=\"b\"", "baggage": "c=d", LEVEL: level
        });
    };
    let mut config = full_server();
    config.settings.versions = full_client_with(mcp_proto::protocol::VersionSet::ALL).settings.versions;
    let mut server = Harness::server(config);
    let mut request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t"}});
    meta(&mut request, &json!("warning"));
    let key = server.receive_request(&request);
    let seen = |conn: &Connection<_>, key| {
        let context = conn.context(key).expect("it is open");
        (context.trace.cloned(), context.log_level)
    };
    assert_eq!(seen(&server.conn, key), (Some((*trace()).clone()), Some(LoggingLevel::Warning)));
    // The next request has neither.
    let mut silent = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "t"}});
    silent["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        "traceparent": "not a traceparent"
    });
    let key = server.receive_request(&silent);
    assert_eq!(seen(&server.conn, key), (None, None));

    for version in ProtocolVersion::LEGACY {
        let mut server = Harness::ready_server(version);
        let mut request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t"}});
        request["params"]["_meta"] = json!({"traceparent": PARENT, "tracestate": "a=\"b\"", "baggage": "c=d"});
        let key = server.receive_request(&request);
        assert_eq!(seen(&server.conn, key).0, Some((*trace()).clone()));
    }
}
