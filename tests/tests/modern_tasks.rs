//! The tasks extension of 2026-07-28 as both ends of a connection keep its rules.

use mcp_proto::{
    connection::{ClientEnd, Event, RequestOptions, SendError, ServerConfig, ServerEnd, Violation},
    protocol::{Capability, Method, MethodName, ProtocolVersion, VersionSet},
    schema::tasks_extension::{CancelTaskParams, GetTaskParams, UpdateTaskParams},
};
use mcp_tests::solo::{Solo, full_client, full_server};
use serde_json::{Value, json};

type Server = Solo<ServerEnd>;
type Client = Solo<ClientEnd>;

const META: &str = "io.modelcontextprotocol/";

/// The extension, as capabilities declare it.
fn extension() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
}

/// A server with everything that there is in any era.
fn config() -> ServerConfig {
    let mut config = full_server();
    config.capabilities = config.capabilities.with(Capability::TasksExtension);
    config.settings.versions = VersionSet::ALL;
    config
}

fn server() -> Server {
    Solo::server(config())
}

/// A request of the modern era from a client with these capabilities.
fn request(id: impl Into<Value>, method: &str, mut params: Value, capabilities: &Value) -> Value {
    params["_meta"] = json!({
        format!("{META}protocolVersion"): "2026-07-28",
        format!("{META}clientCapabilities"): capabilities,
    });
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

/// A client of a server with these capabilities, in the modern era.
fn client(mine: bool, server: Value) -> Client {
    let mut config = full_client();
    config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
    if mine {
        config.capabilities = config.capabilities.with(Capability::TasksExtension);
    }
    let mut client = Solo::client(config);
    let probe = one(client.sent());
    client.feed(&json!({"jsonrpc": "2.0", "id": probe["id"], "result": {
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": server}}));
    assert_eq!(client.take_events(), [Event::Ready]);
    client
}

fn one(mut sent: Vec<Value>) -> Value {
    assert_eq!(sent.len(), 1, "{sent:?}");
    sent.remove(0)
}

/// The three methods of the extension, with params.
fn methods() -> [(Method, &'static str, Value); 3] {
    [
        (Method::ExtGetTask, "tasks/get", json!({"taskId": "t"})),
        (Method::ExtUpdateTask, "tasks/update", json!({"taskId": "t", "inputResponses": {}})),
        (Method::ExtCancelTask, "tasks/cancel", json!({"taskId": "t"})),
    ]
}

// req: M-TASK-001 M-TASK-002 M-TASK-060 M-DUAL-032
#[test]
fn each_request_has_to_declare_the_extension() {
    let legacy = serde_json::to_value(full_client().capabilities).expect("capabilities are JSON");
    assert!(legacy["tasks"].is_object(), "{legacy}");
    let others = json!({"extensions": {"io.modelcontextprotocol/ui": {}}, "experimental": extension()["extensions"]});
    for (method, name, params) in methods() {
        let mut server = server();
        // That an earlier request has declared it changes nothing.
        for round in 0..2 {
            for lacking in [&json!({}), &legacy, &others, &json!({"extensions": {}})] {
                // Neither the params nor the task are looked at.
                for params in [&params, &json!({}), &json!({"taskId": 5})] {
                    server.feed(&request(1, name, params.clone(), lacking));
                    let error = one(server.sent())["error"].clone();
                    assert_eq!(error["code"], -32021, "{name} from {lacking}");
                    assert_eq!(error["data"], json!({"requiredCapabilities": extension()}));
                    assert_eq!(
                        server.take_events(),
                        [Event::Violation(Violation::Undeclared(Capability::TasksExtension))]
                    );
                }
            }
            let key = server.ask(&request(round + 2, name, params.clone(), &extension()));
            server.answer(key, &json!({}));
            assert_eq!(one(server.sent())["result"]["resultType"], "complete");
        }
        server.feed(&request(4, name, params, &extension()));
        let events = server.take_events();
        assert!(
            matches!(&events[..], [Event::Request { method: MethodName::Known(known), .. }] if *known == method),
            "{events:?}"
        );
    }
}

// req: M-TASK-003 M-TASK-071 M-DUAL-033
#[test]
fn what_the_extension_does_not_have_is_not_found() {
    let mut server = server();
    server.feed(&request(1, "server/discover", json!({}), &json!({})));
    let capabilities = one(server.sent())["result"]["capabilities"].clone();
    assert_eq!((&capabilities["extensions"], capabilities.get("tasks")), (&extension()["extensions"], None));
    for (name, capabilities) in [
        ("tasks/result", extension()),
        ("tasks/list", extension()),
        ("tasks/result", json!({})),
        ("tasks/list", json!({})),
    ] {
        server.feed(&request(1, name, json!({"taskId": "t"}), &capabilities));
        assert_eq!(one(server.sent())["error"]["code"], -32601, "{name}");
        server.take_events();
    }
    // A server without the extension has none of it, whatever the client can do.
    let mut config = full_server();
    config.settings.versions = VersionSet::ALL;
    let mut plain = Solo::server(config);
    for (method, name, params) in methods() {
        for capabilities in [json!({}), extension()] {
            plain.feed(&request(1, name, params.clone(), &capabilities));
            assert_eq!(one(plain.sent())["error"]["code"], -32601, "{name}");
            assert_eq!(plain.take_events(), [Event::Violation(Violation::NotSupported(method))]);
        }
    }
}

// req: M-DUAL-031
#[test]
fn a_session_does_not_have_the_extension() {
    let mut server = server();
    let mut capabilities = serde_json::to_value(full_client().capabilities).expect("capabilities are JSON");
    capabilities["extensions"] = extension()["extensions"].clone();
    server.feed(&json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"}}}));
    let declared = one(server.sent())["result"]["capabilities"].clone();
    assert_eq!((declared["tasks"].is_object(), declared.get("extensions")), (true, None));
    server.feed(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    server.take_events();
    let legacy =
        |id: u32, method: &str| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"taskId": "t"}});
    server.feed(&legacy(1, "tasks/update"));
    assert_eq!(one(server.sent())["error"]["code"], -32601);
    server.take_events();
    // The same names, in one pipe and at one time.
    for (id, name, session, alone) in [
        (2, "tasks/get", Method::GetTask, Method::ExtGetTask),
        (4, "tasks/cancel", Method::CancelTask, Method::ExtCancelTask),
    ] {
        server.feed(&legacy(id, name));
        server.feed(&request(id + 1, name, json!({"taskId": "t"}), &extension()));
        let events = server.take_events();
        assert!(
            matches!(&events[..], [
                Event::Request { method: MethodName::Known(first), .. },
                Event::Request { method: MethodName::Known(second), .. },
            ] if (*first, *second) == (session, alone)),
            "{events:?}"
        );
    }
}

// req: M-TASK-025 M-TASK-041 M-TASK-053
#[test]
fn a_client_asks_about_tasks_where_both_sides_have_the_extension() {
    let options = || RequestOptions { progress: false, ..RequestOptions::default() };
    let answers = [("q".to_owned(), mcp_proto::wire::JsonObject::empty())];
    let update = UpdateTaskParams::new("t", mcp_proto::schema::InputResponses::from_iter(answers));
    let mut both = client(true, extension());
    let now = both.now;
    both.conn.request(now, &GetTaskParams::new("t"), options()).expect("it may be asked");
    both.conn.request(now, &update, options()).expect("it may be asked");
    both.conn.request(now, &CancelTaskParams::new("t"), options()).expect("it may be asked");
    both.conn.request_raw(now, "tasks/get", None, options()).expect("it may be asked");
    let sent = both.sent();
    let names: Vec<_> = sent.iter().map(|message| message["method"].as_str().expect("a method")).collect();
    assert_eq!(names, ["tasks/get", "tasks/update", "tasks/cancel", "tasks/get"]);
    for message in &sent[..3] {
        assert_eq!(message["params"]["taskId"], "t");
        assert_eq!(
            message["params"]["_meta"][format!("{META}clientCapabilities")]["extensions"],
            extension()["extensions"]
        );
    }
    assert_eq!(sent[1]["params"]["inputResponses"], json!({"q": {}}));

    let undeclared = Err(SendError::Undeclared(Capability::TasksExtension));
    for mut alone in [client(false, extension()), client(true, json!({"tools": {}}))] {
        assert_eq!(alone.conn.request(alone.now, &GetTaskParams::new("t"), options()), undeclared);
        assert_eq!(alone.conn.request_raw(alone.now, "tasks/update", None, options()), undeclared);
        assert_eq!(alone.sent(), [json!(null); 0]);
    }
    for name in ["tasks/result", "tasks/list", "notifications/tasks/status"] {
        assert!(both.conn.request_raw(now, name, None, options()).is_err(), "{name}");
    }
    let mut old = Solo::ready_client(ProtocolVersion::V2025_11_25);
    let refused = old.conn.request(old.now, &GetTaskParams::new("t"), options());
    let version = ProtocolVersion::V2025_11_25;
    assert_eq!(refused, Err(SendError::NotInRevision { method: Method::ExtGetTask, version }));
}
