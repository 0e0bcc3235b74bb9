//! What HTTP adds to the tasks of 2026-07-28: where their ids stand, and the status of refusals.

use http::{HeaderValue, Request};
use mcp_proto::{
    connection::ServerConfig,
    protocol::{Capability, VersionSet},
};
use mcp_tests::{
    caller::{Caller, discovered, header, message, options, speaking},
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
