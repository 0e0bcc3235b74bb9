//! Calls of tools with middleware whose jobs run on one thread, where each call reuses the memory of the one before.

use std::sync::{Arc, Mutex};

use mcp_proto::connection::{Limits, Settings};
use serde_json::{Value, json};

use super::{
    asynchronous::{call, job, poll},
    echo,
    pair::Pair,
};
use crate::{
    inbound::middleware::{Completed, IncomingRequest, Next},
    server::{service::Service, tool::Tool},
    util::lock::lock,
};

/// Runs a call of `echo`. Returns the text of its result.
fn echoed(pair: &Pair, id: u8, message: &str) -> Value {
    let mut line = call(id, "echo");
    line["params"]["arguments"] = json!({"message": message});
    job(pair, &line).run();
    pair.server.flush();
    pair.server.take_lines().pop().expect("a response")["result"]["content"][0]["text"].clone()
}

#[test]
fn a_kept_request_is_not_overwritten() {
    let kept: Arc<Mutex<Vec<IncomingRequest>>> = Arc::default();
    let keeps = kept.clone();
    let service = echo().layer(move |request: IncomingRequest, next: Next| {
        // Every other request is kept.
        if request.id().is_some_and(|id| id.as_json().len() == 1) {
            lock(&keeps).push(request.clone());
        }
        async move { Ok(next.run().await) }
    });
    let pair = Pair::simple(&service.build().expect("a good service"));
    for (id, message) in [(1, "a"), (10, "b"), (2, "c"), (20, "d"), (3, "e")] {
        assert_eq!(echoed(&pair, id, message), message);
    }
    let messages = |request: &IncomingRequest| request.decode_arguments::<Value>().expect("JSON")["message"].clone();
    assert_eq!(lock(&kept).iter().map(messages).collect::<Vec<_>>(), ["a", "c", "e"]);
    assert_eq!(pair.server_session.shared().in_flight.len(), 0);
}

#[test]
fn a_refused_call_leaves_no_state() {
    let service = echo().layer(async |request: IncomingRequest, next: Next| {
        let arguments: Value = request.decode_arguments()?;
        if arguments["message"] == "no" {
            return Err("refused".into());
        }
        Ok(next.run().await)
    });
    let pair = Pair::simple(&service.build().expect("a good service"));
    for (id, message) in [(1, "a"), (2, "no"), (3, "b"), (4, "no"), (5, "c")] {
        let expected = if message == "no" { Value::Null } else { message.into() };
        assert_eq!(echoed(&pair, id, message), expected);
    }
    assert_eq!(pair.server_session.shared().in_flight.len(), 0);
}

#[test]
fn responses_of_layered_calls_wait_for_room() {
    let layers: [fn(IncomingRequest, Completed) -> Completed; 2] = [
        |_, completed| completed,
        // It is encoded for middleware before it is sent.
        |_, completed| {
            assert!(completed.result().is_some());
            completed
        },
    ];
    for layer in layers {
        let mut limits = Limits::default();
        limits.outbox_bytes = 2000;
        let service = Service::builder("test", "1")
            .tool(Tool::new_async("quick", async || "quick"))
            .layer(move |request: IncomingRequest, next: Next| async move { Ok(layer(request, next.run().await)) })
            .settings(Settings { limits, ..Settings::default() });
        let pair = Pair::simple(&service.build().expect("a good service"));
        let mut run = job(&pair, &call(1, "quick")).into_kind();
        // The client does not read for a while.
        pair.server.with_conn(|conn| while conn.notify_raw("test/stuff", None).is_ok() {});
        assert!(poll(&mut run).is_pending());
        pair.server.flush();
        assert!(poll(&mut run).is_ready());
        pair.server.flush();
        let response = pair.server.take_lines().into_iter().find(|line| line["id"] == 1).expect("a response");
        assert_eq!(response["result"]["content"][0]["text"], "quick");
        assert_eq!(pair.server_session.shared().in_flight.len(), 0);
    }
}
