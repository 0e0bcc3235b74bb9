//! Known mistakes of other implementations that an adapter could repeat, and that no other test would show.

use std::{
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::channel,
    },
    thread,
};

use mcp_driver::Watched;
use mcp_proto::{
    connection::{CloseReason, Settings},
    protocol::VersionSet,
    schema::{EmptyResult, LogMessageParams},
};
use mcp_service::{CallError, CatalogUpdate, Context, Failure, Host, Service, Tool};
use serde_json::{Value, json};

use crate::{
    LONG,
    adapter::{Adapter, Client, Server},
    raw::Raw,
    scenario::scenarios,
};

scenarios![
    // A10
    // req: CANC-009
    cancelled_requests_get_no_response,
    // A15
    cancelled_ids_can_be_reused_on_a_new_connection,
    // A19
    progress_after_the_response_is_not_sent,
    // A20
    progress_arrives_in_order_before_the_response,
    // A24
    unanswered_server_requests_do_not_block_others,
    // A30
    a_catalog_update_sends_one_notification,
    // A32
    messages_during_the_handshake_are_delivered,
    // A47
    stops_listing_when_a_cursor_repeats,
    // A54
    refuses_overlong_lines_and_continues,
    // A65
    unknown_methods_are_refused_or_ignored,
    // A69
    refuses_deeply_nested_json_and_continues,
];

/// Returns a call as JSON.
fn call(id: impl Into<Value>, tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": {"name": tool}})
}

fn ping(id: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

/// Reads all messages up to the response to a request, which is the last one.
fn up_to(peer: &mut Raw, id: &str) -> Vec<Value> {
    let mut received = Vec::new();
    loop {
        received.push(peer.receive().expect("more comes"));
        if received[received.len() - 1]["id"] == id {
            return received;
        }
    }
}

/// Returns a server after the handshake, with a client of hand-written messages.
fn served<A: Adapter>(service: &Service) -> (A::Server, Raw) {
    let (transport, mut peer) = Raw::pair::<A>();
    let server = A::serve(service, transport);
    peer.handshake_as_client();
    // The response shows that the last message of the handshake was handled.
    peer.send(&ping("first"));
    assert_eq!(up_to(&mut peer, "first").len(), 1);
    (server, peer)
}

fn cancelled_requests_get_no_response<A: Adapter>() {
    let (notify, told) = channel();
    let (finish, done) = (Arc::new(Watched::new(0)), Arc::new(AtomicUsize::new(0)));
    let (begun, ended, wait) = (notify.clone(), done.clone(), finish.clone());
    let awaits = move |context: Context| {
        let (begun, ended, wait) = (begun.clone(), ended.clone(), wait.clone());
        async move {
            begun.send(()).expect("the test listens");
            context.cancelled().await;
            wait.wait_for(|finish| (*finish > 0).then_some(())).await;
            ended.fetch_add(1, Ordering::SeqCst);
            "too late"
        }
    };
    let (ended, wait) = (done.clone(), finish.clone());
    let blocks = move |context: Context| {
        notify.send(()).expect("the test listens");
        context.cancelled().wait();
        assert!(wait.wait_until(LONG, |finish| *finish > 0));
        ended.fetch_add(1, Ordering::SeqCst);
        Err::<&str, _>(Failure::new("too late"))
    };
    let service = Service::builder("x", "1").tool(Tool::new_async("awaits", awaits)).tool(Tool::new("blocks", blocks));
    let (server, mut peer) = served::<A>(&service.build().expect("all names differ"));
    for (id, tool) in [(0, "awaits"), (1, "blocks"), (-1, "awaits")] {
        peer.send(&call(id, tool));
        told.recv_timeout(LONG).expect("it begins");
        let params = json!({"requestId": id, "reason": "never mind"});
        peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    }
    peer.send(&ping("received"));
    assert_eq!(up_to(&mut peer, "received").len(), 1);
    finish.update(|finish| *finish += 1);
    // The handlers complete, and their slots are free. No response was sent.
    peer.stream.shutdown(std::net::Shutdown::Write).expect("a socket");
    assert_eq!(peer.receive(), None);
    assert_eq!(server.wait(), CloseReason::Eof);
    assert_eq!(done.load(Ordering::SeqCst), 3);
    assert_eq!(server.connection().update(|conn, _| conn.usage()).requests, 0);
}

fn cancelled_ids_can_be_reused_on_a_new_connection<A: Adapter>() {
    let service = Service::builder("x", "1")
        .tool(Tool::new_async("wait", async |context: Context| {
            context.cancelled().await;
        }))
        .tool(Tool::new_async("answer", async || "answered"))
        .build()
        .expect("all names differ");
    for _ in 0..3 {
        let (_server, mut peer) = served::<A>(&service);
        // In the first round the same id belongs to a call that completes.
        peer.send(&call("a", "answer"));
        assert_eq!(peer.receive().expect("an answer")["result"]["content"][0]["text"], "answered");
        peer.send(&call("b", "wait"));
        peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "b"}}));
        peer.send(&ping("c"));
        assert_eq!(peer.receive().expect("an answer")["id"], "c");
    }
}

fn progress_after_the_response_is_not_sent<A: Adapter>() {
    let (keep, kept) = channel();
    let service = Service::builder("x", "1").tool(Tool::new("leak", move |context: Context| {
        context.progress(1.0, None, None).wait()?;
        keep.send(context).expect("the test listens");
        Ok::<_, Failure>("done")
    }));
    let (_server, mut peer) = served::<A>(&service.build().expect("a good name"));
    let params = json!({"name": "leak", "_meta": {"progressToken": "t"}});
    peer.send(&json!({"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": params}));
    let received = up_to(&mut peer, "a");
    assert_eq!((received.len(), &received[0]["params"]["progressToken"]), (2, &json!("t")), "{received:?}");
    let context = kept.recv_timeout(LONG).expect("it was kept");
    assert!(context.progress(2.0, None, None).wait().is_err());
    peer.send(&ping("b"));
    assert_eq!(up_to(&mut peer, "b").len(), 1);
}

fn progress_arrives_in_order_before_the_response<A: Adapter>() {
    const STEPS: u32 = 500;
    let awaits = async |context: Context| {
        for step in 1..=STEPS {
            context.progress(step.into(), None, None).await?;
        }
        Ok::<_, Failure>("done")
    };
    let blocks = |context: Context| {
        for step in 1..=STEPS {
            context.progress(step.into(), None, None).wait()?;
        }
        Ok::<_, Failure>("done")
    };
    let service = Service::builder("x", "1").tool(Tool::new_async("awaits", awaits)).tool(Tool::new("blocks", blocks));
    let (_server, mut peer) = served::<A>(&service.build().expect("all names differ"));
    for id in ["awaits", "blocks"] {
        let params = json!({"name": id, "_meta": {"progressToken": 0}});
        peer.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
        let received = up_to(&mut peer, id);
        let steps: Vec<_> =
            received[..received.len() - 1].iter().map(|told| told["params"]["progress"].as_f64()).collect();
        assert_eq!(steps, (1..=STEPS).map(|step| Some(f64::from(step))).collect::<Vec<_>>(), "{id}");
    }
}

fn unanswered_server_requests_do_not_block_others<A: Adapter>() {
    let service = Service::builder("x", "1")
        .tool(Tool::new_async("curious", async |context: Context| context.roots().await.map(|_| "received")))
        .tool(Tool::new("curious_on_a_thread", |context: Context| context.roots().wait().map(|_| "received")))
        .tool(Tool::new_async("answer", async || "answered"))
        .build()
        .expect("all names differ");
    let (transport, mut peer) = Raw::pair::<A>();
    let _server = A::serve(&service, transport);
    peer.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {"roots": {}}, "clientInfo": {"name": "raw", "version": "1"}}}));
    peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    peer.send(&call("a", "curious"));
    peer.send(&call("b", "curious_on_a_thread"));
    assert_eq!(peer.receive().expect("an answer")["id"], 0);
    for _ in 0..2 {
        assert_eq!(peer.receive_method("roots/list")["method"], "roots/list");
    }
    peer.send(&call("c", "answer"));
    assert_eq!(peer.receive().expect("an answer")["id"], "c");
}

fn a_catalog_update_sends_one_notification<A: Adapter>() {
    let service = Service::builder("x", "1").tool(Tool::new("first", || "")).build().expect("a good name");
    let (_server, mut peer) = served::<A>(&service);
    let changes = (0..500).fold(CatalogUpdate::new(), |changes, n| changes.add(Tool::new(format!("tool-{n}"), || "")));
    service.update(changes).expect("all names differ");
    assert_eq!(peer.receive().expect("it is told")["method"], "notifications/tools/list_changed");
    peer.send(&call("a", "tool-499"));
    peer.send(&ping("b"));
    let (mut answers, mut received) = (0, Vec::new());
    while answers < 2 {
        received.push(peer.receive().expect("it answers"));
        answers += usize::from(received[received.len() - 1]["id"].is_string());
    }
    assert_eq!(received.len(), 2, "{received:?}");
}

fn messages_during_the_handshake_are_delivered<A: Adapter>() {
    let (notify, received) = channel();
    let host = Host::builder("x", "1")
        .versions(VersionSet::LEGACY)
        .on(move |log: LogMessageParams, _| notify.send(log.logger).expect("the test listens"))
        .build();
    let (transport, mut peer) = Raw::pair::<A>();
    let connecting = thread::spawn(move || A::connect(transport, &host).expect("it is a server"));
    let initialize = peer.receive().expect("a request");
    for logger in ["a", "b", "c"] {
        let params = json!({"level": "info", "logger": logger, "data": ""});
        peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}));
    }
    peer.send(&ping("early"));
    assert_eq!(peer.receive().expect("an answer"), json!({"jsonrpc": "2.0", "id": "early", "result": {}}));
    peer.send(&json!({"jsonrpc": "2.0", "id": initialize["id"], "result": {
        "protocolVersion": "2025-11-25", "capabilities": {"logging": {}}, "serverInfo": {"name": "raw", "version": "1"}}}));
    peer.receive_method("notifications/initialized");
    let _client = connecting.join().expect("no panic");
    let loggers: Vec<_> = (0..3).map(|_| received.recv_timeout(LONG).expect("it was told")).collect();
    assert_eq!(loggers, ["a", "b", "c"].map(|logger| Some(logger.to_owned())));
}

fn stops_listing_when_a_cursor_repeats<A: Adapter>() {
    let (transport, mut peer) = Raw::pair::<A>();
    let host = Host::builder("x", "1").versions(VersionSet::LEGACY).build();
    let connecting = thread::spawn(move || A::connect(transport, &host).expect("it is a server"));
    let initialize = peer.receive().expect("a request");
    peer.send(&json!({"jsonrpc": "2.0", "id": initialize["id"], "result": {
        "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "raw", "version": "1"}}}));
    peer.receive_method("notifications/initialized");
    let client = connecting.join().expect("no panic");
    let requested = Arc::new(AtomicUsize::new(0));
    let count = requested.clone();
    let server = thread::spawn(move || {
        while let Some(request) = peer.receive() {
            count.fetch_add(1, Ordering::SeqCst);
            let tool = json!({"name": "a", "inputSchema": {"type": "object"}});
            let result = json!({"tools": [tool], "nextCursor": "again"});
            peer.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
        }
    });
    let tools: Vec<_> = client.all_tools().collect();
    assert!(matches!(tools.last(), Some(Err(CallError::Invalid(_)))), "{tools:?}");
    assert!(requested.load(Ordering::SeqCst) <= 3, "{requested:?}");
    client.close();
    server.join().expect("no panic");
}

fn refuses_overlong_lines_and_continues<A: Adapter>() {
    let mut settings = Settings::default();
    settings.limits.frame_bytes = 4096;
    let service = Service::builder("x", "1").settings(settings).build().expect("a good name");
    let (_server, mut peer) = served::<A>(&service);
    for round in 0..2 {
        // The errors are not read before the end. They are few.
        let chunk = [b'x'; 64 << 10];
        peer.stream.write_all(br#"{"jsonrpc":"2.0","id":"long","method":"ping","params":{"a":""#).expect("it reads");
        for _ in 0..100 {
            peer.stream.write_all(&chunk).expect("it reads");
        }
        peer.send_line("\"}}");
        let id = format!("after-{round}");
        peer.send(&ping(&id));
        let received = up_to(&mut peer, &id);
        assert_eq!(received.len(), 2, "{received:?}");
        assert_eq!(received[0]["error"]["code"], -32600, "{received:?}");
    }
}

fn unknown_methods_are_refused_or_ignored<A: Adapter>() {
    let (_server, mut peer) = served::<A>(&Service::builder("x", "1").build().expect("a good name"));
    for (method, params) in [("$/progress", json!({"token": []})), ("window/logMessage", json!({})), ("x", json!([1]))]
    {
        peer.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }
    peer.send(&json!({"jsonrpc": "2.0", "id": "", "method": "vendor/what", "params": {"any": null}}));
    let received = up_to(&mut peer, "");
    assert_eq!(received[received.len() - 1]["error"]["code"], -32601, "{received:?}");
    // Custom methods work in the other direction: clients can send them as raw requests.
    let service =
        Service::builder("x", "1").on_request("vendor/what", |_: Value, _| Ok::<_, Failure>(EmptyResult::default()));
    let (left, right) = A::pair(64);
    let _server = A::serve(&service.build().expect("a good name"), right);
    let client = A::connect(left, &Host::builder("x", "1").build()).expect("it serves");
    client.request_raw("vendor/what", None).expect("it is sent").wait().expect("it is answered");
    let error = client.request_raw("vendor/else", None).expect("it is sent").wait().expect_err("an unknown method");
    assert_eq!(error.rpc().map(|error| error.code.0), Some(-32601));
}

fn refuses_deeply_nested_json_and_continues<A: Adapter>() {
    let (server, mut peer) = served::<A>(&Service::builder("x", "1").build().expect("a good name"));
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let inside = if close == "}" { "1" } else { "" };
        let deep = format!("{}{inside}{}", open.repeat(100_000), close.repeat(100_000));
        peer.send_line(&format!(r#"{{"jsonrpc":"2.0","id":"deep","method":"ping","params":{{"a":{deep}}}}}"#));
        peer.send(&ping("after"));
        let received = up_to(&mut peer, "after");
        assert!(received.len() == 2 && received[0]["error"]["code"].is_i64(), "{received:?}");
    }
    drop(peer);
    server.wait();
}
