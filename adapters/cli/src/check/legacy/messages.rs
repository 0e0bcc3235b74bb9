//! JSON-RPC in sessions.

use serde_json::{Value, json};

use crate::check::{
    definition::{Check, legacy},
    outcome::{Breaks, Rules, Verdict, ensure, failed, not_applicable, not_reachable},
    probe::{Probe, Provoked, brief},
};

pub(in crate::check) const CHECKS: &[Check] = &[
    legacy("ping", "A ping is answered with an empty result", &["PING-003"], ping),
    legacy("id-number", "A response repeats the number of its request", &["BASE-008"], id_number),
    legacy("id-string", "A response repeats the text of its request", &["BASE-008"], id_string),
    legacy("unknown-method", "An unknown method is answered with -32601", &["BASE-022"], unknown_method),
    legacy("unknown-meta", "Unknown members of _meta are accepted", &["META-001"], unknown_meta).should(),
    legacy("null-id", "A request with the id null is not executed", &["BASE-005"], null_id).should(),
    legacy("other-jsonrpc", "A message of another JSON-RPC version is not executed", &["BASE-001"], other_jsonrpc),
    legacy("invalid-request", "Objects that are no request are answered with -32600", &["BASE-024"], invalid_request)
        .should(),
    legacy("parse-error", "Bytes that are no JSON are answered with -32700", &["BASE-023"], parse_error).should(),
    legacy("after-parse-error", "Lines after one that is no JSON are read", &["STDIO-017"], after_parse_error)
        .stdio()
        .should(),
    legacy("notification-response", "An unknown notification has no response", &["BASE-020"], notification_response),
    legacy(
        "notification-end",
        "An unknown notification does not end the session",
        &["BASE-020"],
        Probe::outlive_notification,
    )
    .should(),
    legacy(
        "bad-notification-response",
        "A notification with wrong params has no response",
        &["BASE-020"],
        bad_notification_response,
    ),
    legacy("cancel-unknown", "The cancellation of an unknown id is ignored", &["CANC-013"], cancel_unknown).should(),
    legacy("cancel-nothing", "A cancellation without an id is ignored", &["CANC-003", "CANC-013"], cancel_nothing)
        .should(),
    legacy("concurrent-requests", "Requests in flight are all answered", &["BASE-029"], concurrent_requests)
        .stdio()
        .should(),
    legacy("batch", "2025-03-26: each request of a batch has a response", &["BATCH-001", "BATCH-005"], batch),
    legacy("batch-empty", "2025-03-26: an empty batch is answered with -32600", &["BATCH-006"], batch_empty).should(),
    legacy(
        "batch-notifications",
        "2025-03-26: a batch of notifications has no response",
        &["BATCH-007"],
        batch_notifications,
    ),
    legacy("batch-refused", "From 2025-06-18 on batches are not executed", &["BATCH-013"], batch_refused)
        .since("2025-06-18")
        .should(),
];

/// Calls `ping` with an id, which the response has to have.
fn ping_with(probe: &mut Probe, id: Value) -> Verdict {
    let message = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    if probe.is_http() {
        return probe.ask(&message).map(|_| ());
    }
    let found = probe.provoke(&message.to_string(), true)?;
    match found.messages.first() {
        Some(response) if response["id"] == id => Ok(()),
        Some(response) => failed(format!("the id {id} becomes {}", response["id"])),
        None => failed(format!("a request with the id {id} has no response")),
    }
}

fn ping(probe: &mut Probe) -> Verdict {
    let reply = probe.call("ping", Value::Null)?;
    let Some(result) = reply.message["result"].as_object() else {
        return failed("the ping is not answered with a result");
    };
    ensure(result.keys().all(|name| name == "_meta"), || "the result is not empty".into())
}

fn id_number(probe: &mut Probe) -> Verdict {
    [json!(0), json!(900_001), json!(9_007_199_254_740_991_u64)].into_iter().try_for_each(|id| ping_with(probe, id))
}

fn id_string(probe: &mut Probe) -> Verdict {
    ["900002", "mcp-check", "ä \u{1f600} \"\\"].into_iter().try_for_each(|id| ping_with(probe, json!(id)))
}

fn unknown_method(probe: &mut Probe) -> Verdict {
    probe.call("mcp-check/unknown", Value::Null)?.expect_code(-32601)
}

fn unknown_meta(probe: &mut Probe) -> Verdict {
    let reply = probe.call("ping", json!({"_meta": {"example.com/mcp-check": [1, {"a": null}]}}))?;
    ensure(reply.message["result"].is_object(), || format!("`_meta` leads to {}", brief(&reply.message)))
}

fn not_executed(found: &Provoked) -> Verdict {
    ensure(!found.has_result(), || "the message is answered with a result".into())
}

fn null_id(probe: &mut Probe) -> Verdict {
    let found = probe.provoke(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, false)?;
    not_executed(&found)
}

fn other_jsonrpc(probe: &mut Probe) -> Verdict {
    let found = probe.provoke(r#"{"jsonrpc":"1.0","id":910001,"method":"ping"}"#, false)?;
    not_executed(&found)
}

fn invalid_request(probe: &mut Probe) -> Verdict {
    let found = probe.provoke(r#"{"jsonrpc":"2.0","id":910002,"method":5}"#, true)?;
    not_executed(&found)?;
    expect(&found, -32600)
}

/// Fails unless there is an error with a code.
fn expect(found: &Provoked, code: i64) -> Verdict {
    match found.code() {
        Some(actual) if actual == code => Ok(()),
        Some(actual) => failed(format!("the error code is {actual} instead of {code}")),
        None => failed(format!("there is no error {code}")),
    }
}

fn parse_error(probe: &mut Probe) -> Verdict {
    // A server may find the id in what it has read.
    probe.forget_ids();
    let found = probe.provoke(r#"{"jsonrpc":"2.0","id":910003,"method":"ping""#, true)?;
    found.expect_refusal()?;
    expect(&found, -32700)
}

fn after_parse_error(probe: &mut Probe) -> Verdict {
    probe.provoke("this is no JSON", false).map(|_| ())
}

fn no_response(found: &Provoked) -> Verdict {
    match found.messages.first() {
        Some(message) if found.status.is_none_or(|status| status < 400) => {
            failed(format!("the notification is answered with {}", brief(message)))
        }
        _ => Ok(()),
    }
}

fn notification_response(probe: &mut Probe) -> Verdict {
    let found = probe.provoke_nothing(r#"{"jsonrpc":"2.0","method":"notifications/mcp-check/unknown"}"#)?;
    no_response(&found)
}

fn bad_notification_response(probe: &mut Probe) -> Verdict {
    let message = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": "no number"}});
    let found = probe.provoke_nothing(&message.to_string())?;
    no_response(&found)
}

fn cancel_unknown(probe: &mut Probe) -> Verdict {
    let params = json!({"requestId": 4_000_000_001_u32, "reason": "mcp check"});
    let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    let found = probe.provoke(&message.to_string(), false)?;
    no_response(&found)?;
    accepted(&found)
}

fn cancel_nothing(probe: &mut Probe) -> Verdict {
    let found = probe.provoke(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#, false)?;
    no_response(&found)
}

fn accepted(found: &Provoked) -> Verdict {
    ensure(found.status.is_none_or(|status| status < 300), || format!("the status is {:?}", found.status))
}

fn concurrent_requests(probe: &mut Probe) -> Verdict {
    const COUNT: usize = 20;
    let mut expected = Vec::new();
    for number in 0..COUNT {
        let message = probe.request(if number % 2 == 0 { "ping" } else { "mcp-check/unknown" }, Value::Null);
        expected.push(message["id"].clone());
        probe.expect_line(&message)?;
    }
    let deadline = std::time::Instant::now() + probe.patience();
    while !expected.is_empty() {
        let Some(message) = probe.next_message(deadline)? else {
            return failed(format!("{} of {COUNT} requests have no response", expected.len()));
        };
        if message.get("method").is_none() {
            expected.retain(|id| *id != message["id"]);
        }
    }
    Ok(())
}

/// Returns the ids of responses, of one array or of single messages.
fn ids(found: &[Value]) -> Vec<Value> {
    let all = found.iter().flat_map(|it| it.as_array().map_or(std::slice::from_ref(it), Vec::as_slice));
    all.into_iter().filter(|message| message.get("method").is_none()).map(|message| message["id"].clone()).collect()
}

fn batch(probe: &mut Probe) -> Verdict {
    probe.session_at("2025-03-26")?;
    let ping = |id: &str| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let batch = json!([ping("a"), {"jsonrpc": "2.0", "method": "notifications/mcp-check/unknown"}, ping("b")]);
    let mut found = probe.provoke(&batch.to_string(), true)?;
    if !probe.is_http() && ids(&found.messages).len() == 1 {
        let deadline = std::time::Instant::now() + probe.patience();
        found.messages.extend(probe.next_response(deadline)?);
    }
    let ids = ids(&found.messages);
    for id in ["a", "b"] {
        let count = ids.iter().filter(|it| *it == id).count();
        let broken: Rules = if count == 0 { &[] } else { &["BATCH-005"] };
        ensure(count == 1, || format!("the request `{id}` of the batch has {count} responses")).breaks(broken)?;
    }
    ensure(ids.len() == 2, || format!("two requests of a batch have {} responses", ids.len())).breaks(&["BATCH-005"])
}

fn batch_empty(probe: &mut Probe) -> Verdict {
    probe.session_at("2025-03-26")?;
    let found = probe.provoke("[]", true)?;
    expect(&found, -32600)?;
    ensure(found.messages.iter().all(Value::is_object), || "the error is in an array".into())
}

fn batch_notifications(probe: &mut Probe) -> Verdict {
    probe.session_at("2025-03-26")?;
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/mcp-check/unknown"});
    let found = probe.provoke_nothing(&json!([notification, notification]).to_string())?;
    match found.status {
        Some(status) if status >= 400 => not_reachable(format!("the server refuses batches with {status}")),
        _ => no_response(&found),
    }
}

fn batch_refused(probe: &mut Probe) -> Verdict {
    if probe.version() == "2025-03-26" {
        return not_applicable("the session has batches");
    }
    let found = probe.provoke(r#"[{"jsonrpc":"2.0","id":910004,"method":"ping"}]"#, false)?;
    not_executed(&found)?;
    found.expect_refusal()
}
