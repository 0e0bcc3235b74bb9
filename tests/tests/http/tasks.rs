//! Tasks of 2026-07-28 over HTTP: the header with their id, and the status of refusals.

use http::{HeaderValue, Request};
use mcp_proto::{
    connection::{Event, RequestOptions, ServerConfig},
    protocol::{Capability, ProtocolVersion, VersionSet},
};
use mcp_tests::{
    harness::{full_client_with, full_server},
    http_client::{HttpClient, discovered, event, header, message, options},
    http_server::{HttpServer, modern},
};
use serde_json::{Value, json};

fn config() -> ServerConfig {
    let mut config = full_server();
    config.capabilities = config.capabilities.with(Capability::TasksExtension);
    config.settings.versions = VersionSet::MODERN;
    config
}

/// Returns a request of a client with the tasks extension.
fn request(method: &str, mut params: Value) -> Request<Vec<u8>> {
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    modern(&json!(1), method, params)
}

fn methods() -> [(&'static str, Value); 3] {
    [
        ("tasks/get", json!({"taskId": "t"})),
        ("tasks/update", json!({"taskId": "t", "inputResponses": {}})),
        ("tasks/cancel", json!({"taskId": "t"})),
    ]
}

// req: M-TASK-069
#[test]
fn client_mirrors_the_task_id_in_a_header() {
    let mut config = full_client_with(VersionSet::ALL);
    config.capabilities = config.capabilities.with(Capability::TasksExtension);
    let mut caller = HttpClient::new(config, options());
    let (exchange, request) = caller.posted("server/discover");
    let mut found = discovered(&message(&request)["id"]);
    found["result"]["capabilities"]["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
    caller.answer(exchange, &found);
    for (method, params) in methods() {
        caller.call(method, &params);
        let (_, request) = caller.posted(method);
        assert_eq!((header(&request, "mcp-method"), header(&request, "mcp-name")), (Some(method), Some("t")));
    }
}

// req: M-TASK-070
#[test]
fn server_requires_the_task_id_header() {
    for (method, params) in methods() {
        let mut server = HttpServer::new(config());
        server.send(request(method, params.clone()));
        server.take_request();
        for name in [None, Some("T"), Some("u")] {
            let mut request = request(method, params.clone());
            match name {
                None => _ = request.headers_mut().remove("mcp-name").expect("it was there"),
                Some(name) => _ = request.headers_mut().insert("mcp-name", HeaderValue::from_static(name)),
            }
            let reply = HttpServer::new(config()).request(request);
            assert_eq!((reply.status(), &reply.json()["error"]["code"]), (400, &json!(-32020)), "{method} {name:?}");
        }
    }
}

// req: M-TASK-078
#[test]
fn task_methods_without_the_capability_return_400() {
    let listen = ("subscriptions/listen", json!({"notifications": {"taskIds": ["t"]}}));
    for (method, params) in methods().into_iter().chain([listen]) {
        let reply = HttpServer::new(config()).request(modern(&json!(1), method, params));
        assert_eq!((reply.status(), &reply.json()["error"]["code"]), (400, &json!(-32021)), "{method}");
    }
    for method in ["tasks/result", "tasks/list"] {
        let reply = HttpServer::new(config()).request(request(method, json!({"taskId": "t"})));
        assert_eq!((reply.status(), &reply.json()["error"]["code"]), (404, &json!(-32601)), "{method}");
    }
}

/// The result of a task arrives on its own exchange (2025-11-25) and can overtake earlier messages on other streams.
#[test]
fn progress_after_a_task_result_is_delivered() {
    let (mut caller, stream) = HttpClient::in_session(ProtocolVersion::V2025_11_25);
    let options = RequestOptions { progress: true, ..RequestOptions::default() };
    let call = caller.call_with("tools/call", &json!({"name": "t", "task": {}}), options);
    let (exchange, request) = caller.posted("tools/call");
    let requested = message(&request);
    let task = json!({"taskId": "k", "status": "working", "ttl": null, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z"});
    caller.answer(exchange, &json!({"jsonrpc": "2.0", "id": requested["id"], "result": {"task": task}}));
    caller.call("tasks/result", &json!({"taskId": "k"}));
    let (exchange, request) = caller.posted("tasks/result");
    caller.take_events();
    let progress = |number: u32| {
        let token = &requested["params"]["_meta"]["progressToken"];
        event(
            "",
            &json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": token, "progress": number}}),
        )
    };
    let reported = |caller: &mut HttpClient| {
        let events = caller.take_events().into_iter();
        let reports = events.filter_map(|event| match event {
            Event::Progress { call, progress } => Some((call, progress.progress)),
            _ => None,
        });
        reports.collect::<Vec<_>>()
    };
    caller.body(stream, progress(1));
    assert_eq!(reported(&mut caller), [(call, 1.0)]);
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": "k"}});
    let result = json!({"content": [], "_meta": related});
    caller.answer(exchange, &json!({"jsonrpc": "2.0", "id": message(&request)["id"], "result": result}));
    assert_eq!(reported(&mut caller), []);
    caller.body(stream, progress(2));
    assert_eq!(reported(&mut caller), [(call, 2.0)]);
}

/// Progress of a task is sent on the stream of a pending `tasks/result`, if there is one, so the result cannot overtake
/// it.
#[test]
fn task_progress_uses_the_stream_of_the_result() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let stream = server.listen(&id, None);
    let params = json!({"name": "t", "task": {}, "_meta": {"progressToken": 7}});
    server.send_message(&id, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    let (_, key) = server.take_request();
    let created = serde_json::from_value(json!({"task": {"taskId": "k", "status": "working", "ttl": null,
        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}}))
    .expect("a task");
    let now = server.now;
    let conn = server.session(&id).expect("it is open").connection(now);
    let mut reports = conn.respond_task(key, &created).expect("an answer is owed").expect("it has a token");
    conn.task_progress(&mut reports, 1.0, None, None).expect("it grows");
    server.settle();
    let requested = server
        .send_message(&id, &json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/result", "params": {"taskId": "k"}}));
    let (session, waiting) = server.take_request();
    let report = |server: &mut HttpServer, reports: &mut _, progress| {
        let conn = server.session(&id).expect("it is open").connection(now);
        conn.task_progress_on(waiting, reports, progress, None, None).expect("it grows");
        server.settle();
    };
    report(&mut server, &mut reports, 2.0);
    server.respond((session, waiting), &json!({"content": []}));
    // No `tasks/result` is pending.
    report(&mut server, &mut reports, 3.0);
    let said = |server: &HttpServer, requested| {
        let messages = server.reply(requested).messages().into_iter();
        messages.map(|message| message["params"]["progress"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(said(&server, stream), [json!(1), json!(3)]);
    assert_eq!(said(&server, requested), [json!(2), Value::Null]);
    assert!(server.reply(requested).ended);
}
