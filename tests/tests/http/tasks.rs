//! What HTTP adds to the tasks of 2026-07-28: where their ids stand, and the status of refusals.

use http::{HeaderValue, Request};
use mcp_proto::{
    connection::{Event, RequestOptions, ServerConfig},
    protocol::{Capability, ProtocolVersion, VersionSet},
};
use mcp_tests::{
    caller::{Caller, discovered, event, header, message, options, speaking},
    solo::full_server,
    web::{Web, modern},
};
use serde_json::{Value, json};

fn config() -> ServerConfig {
    let mut config = full_server();
    config.capabilities = config.capabilities.with(Capability::TasksExtension);
    config.settings.versions = VersionSet::MODERN;
    config
}

/// A request of a client that has tasks.
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
fn a_client_repeats_the_id_of_a_task_in_a_header() {
    let mut config = speaking(VersionSet::ALL);
    config.capabilities = config.capabilities.with(Capability::TasksExtension);
    let mut caller = Caller::new(config, options());
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
fn the_id_of_a_task_stands_in_the_headers_too() {
    for (method, params) in methods() {
        let mut web = Web::new(config());
        web.send(request(method, params.clone()));
        web.asked();
        for name in [None, Some("T"), Some("u")] {
            let mut request = request(method, params.clone());
            match name {
                None => _ = request.headers_mut().remove("mcp-name").expect("it was there"),
                Some(name) => _ = request.headers_mut().insert("mcp-name", HeaderValue::from_static(name)),
            }
            let reply = Web::new(config()).ask(request);
            assert_eq!((reply.status(), &reply.json()["error"]["code"]), (400, &json!(-32020)), "{method} {name:?}");
        }
    }
}

// req: M-TASK-078
#[test]
fn whoever_has_no_tasks_is_refused_with_a_status_of_400() {
    let listen = ("subscriptions/listen", json!({"notifications": {"taskIds": ["t"]}}));
    for (method, params) in methods().into_iter().chain([listen]) {
        let reply = Web::new(config()).ask(modern(&json!(1), method, params));
        assert_eq!((reply.status(), &reply.json()["error"]["code"]), (400, &json!(-32021)), "{method}");
    }
    for method in ["tasks/result", "tasks/list"] {
        let reply = Web::new(config()).ask(request(method, json!({"taskId": "t"})));
        assert_eq!((reply.status(), &reply.json()["error"]["code"]), (404, &json!(-32601)), "{method}");
    }
}

/// The result of a task comes on an exchange of its own (2025-11-25), and can overtake what was said before it elsewhere.
#[test]
fn progress_that_comes_behind_the_result_of_a_task_is_not_lost() {
    let (mut caller, stream) = Caller::in_session(ProtocolVersion::V2025_11_25);
    let options = RequestOptions { progress: true, ..RequestOptions::default() };
    let call = caller.call_with("tools/call", &json!({"name": "t", "task": {}}), options);
    let (exchange, request) = caller.posted("tools/call");
    let asked = message(&request);
    let task = json!({"taskId": "k", "status": "working", "ttl": null, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z"});
    caller.answer(exchange, &json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"task": task}}));
    caller.call("tasks/result", &json!({"taskId": "k"}));
    let (exchange, request) = caller.posted("tasks/result");
    caller.take_events();
    let progress = |number: u32| {
        let token = &asked["params"]["_meta"]["progressToken"];
        event(
            "",
            &json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": token, "progress": number}}),
        )
    };
    let reported = |caller: &mut Caller| {
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

/// What a server says of a task goes to the stream on which the result will be, if there is one: there it cannot be overtaken.
#[test]
fn progress_travels_with_the_request_that_waits_for_the_result() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let stream = web.listen(&id, None);
    let params = json!({"name": "t", "task": {}, "_meta": {"progressToken": 7}});
    web.say(&id, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    let (_, key) = web.asked();
    let created = serde_json::from_value(json!({"task": {"taskId": "k", "status": "working", "ttl": null,
        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}}))
    .expect("a task");
    let now = web.now;
    let conn = web.named(&id).expect("it is open").connection(now);
    let mut reports = conn.respond_task(key, &created).expect("an answer is owed").expect("it has a token");
    conn.task_progress(&mut reports, 1.0, None, None).expect("it grows");
    web.settle();
    let asked = web.say(&id, &json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/result", "params": {"taskId": "k"}}));
    let (session, waiting) = web.asked();
    let report = |web: &mut Web, reports: &mut _, progress| {
        let conn = web.named(&id).expect("it is open").connection(now);
        conn.task_progress_on(waiting, reports, progress, None, None).expect("it grows");
        web.settle();
    };
    report(&mut web, &mut reports, 2.0);
    web.answer((session, waiting), &json!({"content": []}));
    // No request waits there any more.
    report(&mut web, &mut reports, 3.0);
    let said = |web: &Web, asked| {
        let messages = web.reply(asked).messages().into_iter();
        messages.map(|message| message["params"]["progress"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(said(&web, stream), [json!(1), json!(3)]);
    assert_eq!(said(&web, asked), [json!(2), Value::Null]);
    assert!(web.reply(asked).ended);
}
