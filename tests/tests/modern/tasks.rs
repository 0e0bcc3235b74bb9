//! The rules of the tasks extension of 2026-07-28 on both sides of a connection.

use mcp_proto::{
    connection::{
        ClientRole, Event, Outcome, RequestOptions, ResourceUsage, SendError, ServerConfig, ServerRole, Violation,
    },
    protocol::{Capability, Method, MethodName, ProtocolVersion, VersionSet},
    schema::{
        ResourceUpdatedParams, TaskStatus,
        tasks_extension::{CancelTaskParams, GetTaskParams, GetTaskResult, TaskParams, UpdateTaskParams},
    },
    wire::Json,
};
use mcp_tests::harness::{Harness, full_client, full_server};
use serde_json::{Value, json};

type Server = Harness<ServerRole>;
type Client = Harness<ClientRole>;

const META: &str = "io.modelcontextprotocol/";

/// Returns the extension as capabilities declare it.
fn extension() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
}

/// Returns the config of a server with all capabilities of every era.
fn config() -> ServerConfig {
    let mut config = full_server();
    config.capabilities = config.capabilities.with(Capability::TasksExtension);
    config.settings.versions = VersionSet::ALL;
    config
}

fn server() -> Server {
    Harness::server(config())
}

/// Returns a request of the modern era from a client with these capabilities.
fn request(id: impl Into<Value>, method: &str, mut params: Value, capabilities: &Value) -> Value {
    params["_meta"] = json!({
        format!("{META}protocolVersion"): "2026-07-28",
        format!("{META}clientCapabilities"): capabilities,
    });
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

/// Returns a client in the modern era of a server with these capabilities.
fn client(mine: bool, server: Value) -> Client {
    let mut config = full_client();
    config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
    if mine {
        config.capabilities = config.capabilities.with(Capability::TasksExtension);
    }
    let mut client = Harness::client(config);
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

/// Returns the three methods of the extension, with params.
fn methods() -> [(Method, &'static str, Value); 3] {
    [
        (Method::ExtGetTask, "tasks/get", json!({"taskId": "t"})),
        (Method::ExtUpdateTask, "tasks/update", json!({"taskId": "t", "inputResponses": {}})),
        (Method::ExtCancelTask, "tasks/cancel", json!({"taskId": "t"})),
    ]
}

// req: M-TASK-001 M-TASK-002 M-TASK-060 M-DUAL-032
#[test]
fn every_request_must_declare_the_tasks_extension() {
    let legacy = serde_json::to_value(full_client().capabilities).expect("capabilities are JSON");
    assert!(legacy["tasks"].is_object(), "{legacy}");
    let others = json!({"extensions": {"io.modelcontextprotocol/ui": {}}, "experimental": extension()["extensions"]});
    for (method, name, params) in methods() {
        let mut server = server();
        // The declaration of an earlier request has no effect.
        for round in 0..2 {
            for lacking in [&json!({}), &legacy, &others, &json!({"extensions": {}})] {
                // The capability is checked before the params and the task.
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
            let key = server.receive_request(&request(round + 2, name, params.clone(), &extension()));
            server.respond(key, &json!({}));
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
fn removed_task_methods_are_not_found() {
    let mut server = server();
    server.feed(&request(1, "server/discover", json!({}), &json!({})));
    let capabilities = one(server.sent())["result"]["capabilities"].clone();
    let name = "io.modelcontextprotocol/tasks";
    assert_eq!((&capabilities["extensions"][name], capabilities.get("tasks")), (&json!({}), None));
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
    // A server without the extension has none of its methods, whatever the client declares.
    let mut config = full_server();
    config.settings.versions = VersionSet::ALL;
    let mut plain = Harness::server(config);
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
fn sessions_do_not_have_the_tasks_extension() {
    let mut server = server();
    let mut capabilities = serde_json::to_value(full_client().capabilities).expect("capabilities are JSON");
    capabilities["extensions"] = extension()["extensions"].clone();
    server.feed(&json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"}}}));
    let declared = one(server.sent())["result"]["capabilities"].clone();
    let name = "io.modelcontextprotocol/tasks";
    assert_eq!((declared["tasks"].is_object(), declared["extensions"].get(name)), (true, None));
    server.feed(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    server.take_events();
    let legacy =
        |id: u32, method: &str| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"taskId": "t"}});
    server.feed(&legacy(1, "tasks/update"));
    assert_eq!(one(server.sent())["error"]["code"], -32601);
    server.take_events();
    // The same names in both eras, on one connection at the same time.
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

// req: M-TASK-025 M-TASK-027 M-TASK-041 M-TASK-053
#[test]
fn task_methods_need_the_extension_on_both_sides() {
    let options = || RequestOptions { progress: false, ..RequestOptions::default() };
    let answers = [("q".to_owned(), mcp_proto::wire::JsonObject::empty())];
    let update = UpdateTaskParams::new("t", mcp_proto::schema::InputResponses::from_iter(answers));
    let mut both = client(true, extension());
    let now = both.now;
    both.conn.request(now, &GetTaskParams::new("t"), options()).expect("it may be sent");
    both.conn.request(now, &update, options()).expect("it may be sent");
    both.conn.request(now, &CancelTaskParams::new("t"), options()).expect("it may be sent");
    both.conn.request_raw(now, "tasks/get", None, options()).expect("it may be sent");
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
    // Some servers use the wrong result type in these responses. It is malformed where no task is possible.
    for request in &sent[..3] {
        let task = json!({"resultType": "task", "taskId": "t", "status": "cancelled", "createdAt": "2026-07-28T00:00:00Z",
            "lastUpdatedAt": "2026-07-28T00:00:00Z", "ttlMs": null});
        both.feed(&json!({"jsonrpc": "2.0", "id": request["id"], "result": task}));
    }
    let outcomes = both.take_events().into_iter().filter_map(|event| match event {
        Event::Response { outcome, .. } => Some(outcome),
        _ => None,
    });
    let [Outcome::Result(task), Outcome::Malformed, Outcome::Malformed] = &outcomes.collect::<Vec<_>>()[..] else {
        panic!("one result")
    };
    assert_eq!(task.decode::<GetTaskResult>().expect("a task").status, TaskStatus::Cancelled);

    let undeclared = Err(SendError::Undeclared(Capability::TasksExtension));
    for mut alone in [client(false, extension()), client(true, json!({"tools": {}}))] {
        assert_eq!(alone.conn.request(alone.now, &GetTaskParams::new("t"), options()), undeclared);
        assert_eq!(alone.conn.request_raw(alone.now, "tasks/update", None, options()), undeclared);
        assert_eq!(alone.sent(), [json!(null); 0]);
    }
    for name in ["tasks/result", "tasks/list", "notifications/tasks/status"] {
        assert!(both.conn.request_raw(now, name, None, options()).is_err(), "{name}");
    }
    let mut old = Harness::ready_client(ProtocolVersion::V2025_11_25);
    let refused = old.conn.request(old.now, &GetTaskParams::new("t"), options());
    let version = ProtocolVersion::V2025_11_25;
    assert_eq!(refused, Err(SendError::NotInRevision { method: Method::ExtGetTask, version }));
}

// req: M-TASK-074
#[test]
fn reserved_task_names_are_used_only_for_tasks() {
    let is_reserved = |method: &Method| {
        let name = method.as_str();
        name.starts_with("tasks/") || name == "notifications/tasks" || name.starts_with("notifications/tasks/")
    };
    let is_modern = |method: &Method| method.versions().contains(ProtocolVersion::V2026_07_28);
    let used: Vec<_> = Method::ALL.iter().copied().filter(|method| is_reserved(method) && is_modern(method)).collect();
    assert_eq!(used, [Method::ExtGetTask, Method::ExtUpdateTask, Method::ExtCancelTask, Method::ExtTaskChanged]);
}

fn listen(id: impl Into<Value>, filter: &Value, capabilities: &Value) -> Value {
    request(id, "subscriptions/listen", json!({"notifications": filter}), capabilities)
}

fn acknowledged(id: impl Into<Value>, filter: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": id.into()}, "notifications": filter}})
}

fn task(id: &str, status: &str) -> TaskParams {
    let now = "2026-08-01T10:00:00Z";
    TaskParams { poll_interval_ms: Some(50), ..TaskParams::new(id, TaskStatus::from(status), now, now) }
}

// req: M-TASK-062 M-TASK-063 M-SUBS-001
#[test]
fn task_subscriptions_need_the_extension() {
    let mut server = server();
    for filter in
        [json!({"taskIds": ["t"]}), json!({"taskIds": []}), json!({"toolsListChanged": true, "taskIds": ["t"]})]
    {
        server.feed(&listen(1, &filter, &json!({"sampling": {}})));
        let error = one(server.sent())["error"].clone();
        assert_eq!((&error["code"], &error["data"]), (&json!(-32021), &json!({"requiredCapabilities": extension()})));
        assert_eq!(server.take_events(), [Event::Violation(Violation::Undeclared(Capability::TasksExtension))]);
    }
    for bad in [json!("t"), json!([5]), json!({"t": true})] {
        server.feed(&listen(1, &json!({"taskIds": bad}), &extension()));
        assert_eq!(one(server.sent())["error"]["code"], -32602, "{bad}");
        server.take_events();
    }
    assert_eq!(server.conn.usage(), ResourceUsage::default());
    // Other subscriptions need no declaration.
    server.feed(&listen(1, &json!({"toolsListChanged": true}), &json!({})));
    assert_eq!(server.sent(), [acknowledged(1, &json!({"toolsListChanged": true}))]);
    // A server without the extension ignores the member.
    let mut config = full_server();
    config.settings.versions = VersionSet::ALL;
    let mut plain = Harness::server(config);
    plain.feed(&listen(1, &json!({"toolsListChanged": true, "taskIds": ["t"]}), &json!({})));
    assert_eq!(plain.sent(), [acknowledged(1, &json!({"toolsListChanged": true}))]);
    assert_eq!(plain.take_events(), []);
}

// req: M-TASK-064 M-TASK-065 M-TASK-066 M-TASK-080
#[test]
fn task_changes_reach_permitted_subscribers() {
    let mut server = server();
    // The connection also has a session, which does not have the extension.
    server.feed(&json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}}));
    server.feed(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    server.sent();
    server.take_events();
    let known = |task: &str| task != "foreign";
    let first = server.receive_request(&listen(
        "a",
        &json!({"toolsListChanged": true, "taskIds": ["t", "foreign", "u"]}),
        &extension(),
    ));
    assert_eq!(server.sent(), [json!(null); 0], "the application is asked first");
    server.conn.notify(&task("t", "working")).expect("no listener is fine");
    server.conn.accept_subscription(first, known).expect("it asks for tasks");
    let second = server.receive_request(&listen(2, &json!({"taskIds": ["u"]}), &extension()));
    server.conn.accept_subscription(second, known).expect("it asks for tasks");
    let third = server.receive_request(&listen(3, &json!({"taskIds": ["foreign"]}), &extension()));
    server.conn.accept_subscription(third, known).expect("it asks for tasks");
    assert_eq!(
        server.sent(),
        [
            acknowledged("a", &json!({"toolsListChanged": true, "taskIds": ["t", "u"]})),
            acknowledged(2, &json!({"taskIds": ["u"]})),
            acknowledged(3, &json!({"taskIds": []})),
        ]
    );
    assert_eq!(server.conn.accept_subscription(first, known), Err(SendError::WrongResult), "it is open");

    server.conn.notify(&task("t", "working")).expect("it may be said");
    server.conn.notify(&task("u", "cancelled")).expect("it may be said");
    server.conn.notify(&task("foreign", "working")).expect("it may be said");
    let raw = Json::parse(r#"{"taskId":"t","status":"x"}"#).expect("JSON");
    server.conn.notify_raw("notifications/tasks", Some(&(&raw).into())).expect("it may be said");
    let said = |id: Value, mut task: Value| {
        task["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": id});
        json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": task})
    };
    let whole = |id: &str, status: &str| {
        json!({"taskId": id, "status": status, "createdAt": "2026-08-01T10:00:00Z",
            "lastUpdatedAt": "2026-08-01T10:00:00Z", "ttlMs": null, "pollIntervalMs": 50})
    };
    assert_eq!(
        server.sent(),
        [
            said(json!("a"), whole("t", "working")),
            said(json!("a"), whole("u", "cancelled")),
            said(json!(2), whole("u", "cancelled")),
            said(json!("a"), json!({"taskId": "t", "status": "x"})),
        ]
    );
    // An invalid task is not sent.
    assert!(matches!(server.conn.notify(&task("t", "failed")), Err(SendError::Encode(_))));
    server.feed(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "a"}}));
    server.conn.notify(&task("t", "working")).expect("no listener is fine");
    assert_eq!(server.sent(), [json!(null); 0]);
    let mut plain = Harness::server(full_server());
    assert!(plain.conn.notify(&task("t", "working")).is_err());
}

/// The acknowledgement has the resources that the application accepts, and changes of others are not notified.
// req: M-SUBS-008 M-SUBS-023
#[test]
fn resources_that_are_not_accepted_are_left_out() {
    let mut server = server();
    let requested = json!({"resourceSubscriptions": ["test://a", "test://b"], "taskIds": ["t"]});
    let key = server.receive_request(&listen(1, &requested, &extension()));
    server.conn.accept_subscription_with(key, |_| true, |uri| uri != "test://b").expect("it asks for tasks");
    let agreed = json!({"resourceSubscriptions": ["test://a"], "taskIds": ["t"]});
    assert_eq!(server.sent(), [acknowledged(1, &agreed)]);
    for (uri, is_notified) in [("test://a", true), ("test://b", false)] {
        server.conn.notify(&ResourceUpdatedParams::new(uri)).expect("it may be said");
        assert_eq!(server.sent().len(), usize::from(is_notified), "{uri}");
    }
}

#[test]
fn unopened_task_subscriptions_leave_no_state() {
    let nothing = || [json!(null); 0];
    let send_request =
        |server: &mut Server| server.receive_request(&listen(1, &json!({"taskIds": ["t"]}), &extension()));
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});

    let mut cancelled = server();
    let key = send_request(&mut cancelled);
    cancelled.feed(&cancel);
    assert!(matches!(cancelled.take_events()[..], [Event::Cancelled { .. }]));
    assert_eq!(cancelled.conn.accept_subscription(key, |_| true), Ok(()));
    assert_eq!((cancelled.sent(), cancelled.conn.usage()), (nothing().into(), ResourceUsage::default()));

    let mut refused = server();
    let key = send_request(&mut refused);
    refused.conn.respond_error(key, &mcp_proto::wire::ErrorObject::internal("no")).expect("it is owed");
    assert_eq!(one(refused.sent())["error"]["code"], -32603);
    assert_eq!(refused.conn.accept_subscription(key, |_| true), Err(SendError::Answered));
    assert_eq!(refused.conn.usage(), ResourceUsage::default());

    let mut closing = server();
    let key = send_request(&mut closing);
    closing.conn.close(closing.now);
    assert_eq!(closing.sent(), nothing());
    assert_eq!(closing.conn.accept_subscription(key, |_| true), Ok(()));
    assert_eq!(one(closing.sent())["error"]["code"], -32603);
    assert!(matches!(closing.take_events()[..], [Event::Closed(_)]));
    assert_eq!(closing.conn.usage(), ResourceUsage::default());

    let mut lost = server();
    send_request(&mut lost);
    lost.conn.handle_disconnect();
    lost.take_events();
    assert_eq!(lost.conn.usage().subscriptions, 0);

    // Pending subscriptions count like open ones.
    let mut config = config();
    config.settings.limits.subscriptions = 1;
    let mut small = Harness::server(config);
    send_request(&mut small);
    small.feed(&listen(2, &json!({}), &json!({})));
    assert_eq!(one(small.sent())["error"]["code"], -32603);
}

// req: M-TASK-004 M-TASK-009 M-TASK-012 M-TASK-077
#[test]
fn result_types_must_fit_the_request() {
    use SendError::{Undeclared, WrongResult};
    let task = json!({"resultType": "task", "taskId": "t", "status": "working", "createdAt": "", "lastUpdatedAt": "",
        "ttlMs": null});
    let requires_input = json!({"resultType": "input_required", "requestState": "s"});
    let undeclared = || Err(Undeclared(Capability::TasksExtension));
    let table = [
        ("tools/call", extension(), &task, Ok(())),
        ("tools/call", json!({}), &task, undeclared()),
        ("tools/call", serde_json::to_value(full_client().capabilities).expect("JSON"), &task, undeclared()),
        ("prompts/get", extension(), &task, Err(WrongResult)),
        ("resources/read", extension(), &task, Err(WrongResult)),
        ("tools/list", extension(), &task, Err(WrongResult)),
        ("tasks/get", extension(), &task, Err(WrongResult)),
        ("vendor/own", extension(), &task, Err(WrongResult)),
        ("tools/call", json!({}), &requires_input, Ok(())),
        ("prompts/get", json!({}), &requires_input, Ok(())),
        ("resources/read", json!({}), &requires_input, Ok(())),
        ("tools/list", json!({}), &requires_input, Err(WrongResult)),
        ("tasks/get", extension(), &requires_input, Err(WrongResult)),
        ("tasks/update", extension(), &requires_input, Err(WrongResult)),
        ("tasks/cancel", extension(), &requires_input, Err(WrongResult)),
        ("vendor/own", json!({}), &requires_input, Err(WrongResult)),
    ];
    for (method, capabilities, result, expected) in table {
        let mut server = server();
        // Another request on this connection has declared everything.
        server.receive_request(&request("other", "tools/call", json!({"name": "t"}), &extension()));
        let key = server.receive_request(&request(1, method, json!({"taskId": "t"}), &capabilities));
        let raw = Json::new(result).expect("JSON");
        assert_eq!(server.conn.respond_raw(key, &(&raw).into()), expected, "{method} {result}");
        if expected.is_err() {
            assert_eq!(server.sent(), [json!(null); 0], "nothing has changed");
            server.respond(key, &json!({}));
        }
        let kind = if expected.is_ok() { &result["resultType"] } else { &json!("complete") };
        assert_eq!(&one(server.sent())["result"]["resultType"], kind);
    }
    // A server without the extension cannot respond with tasks, either.
    let mut config = full_server();
    config.settings.versions = VersionSet::ALL;
    let mut plain = Harness::server(config);
    let key = plain.receive_request(&request(1, "tools/call", json!({"name": "t"}), &extension()));
    let raw = Json::new(&task).expect("JSON");
    assert_eq!(plain.conn.respond_raw(key, &(&raw).into()), undeclared());
}
