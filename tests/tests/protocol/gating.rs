//! Which side may send what: direction, revision and capability of every method, outbound and inbound.
//!
//! The expected values are a separate table from the specification, not the method table of the core.

use mcp_proto::{
    connection::{ClientRole, Event, RequestOptions, SendError, ServerRole, Violation},
    protocol::{
        Capability::{self, *},
        Method, MethodKind, MethodName,
        ProtocolVersion::{self, *},
        Role,
    },
    schema::{
        CallToolParams, ClientCapabilities, CreateMessageParams, ElicitParams, ElicitationCompleteParams, Request,
        SamplingMessage, ServerCapabilities, TaskMetadata,
    },
};
use mcp_tests::{
    harness::{Harness, full_client, full_server},
    message::{notification_with, request_with, result},
};
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];

/// Client to server, server to client, or both.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sender {
    Client,
    Server,
    Both,
}

/// The side that has to declare the capability.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    Receiver,
    Sender,
}

/// One row: a method, its sender, its revisions, and the required capability with the side that declares it.
type Row = (&'static str, Sender, &'static [ProtocolVersion], Option<(Holder, Capability)>);

const LEGACY: &[ProtocolVersion] = &[V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25];
const MODERN: &[ProtocolVersion] = &[];
const SINCE_JUNE: &[ProtocolVersion] = &[V2025_06_18, V2025_11_25];
const NOVEMBER: &[ProtocolVersion] = &[V2025_11_25];

/// All methods except those that the core sends by itself: the handshake, cancellation and progress.
const TABLE: [Row; 30] = {
    use Sender::{Both, Client, Server};
    const fn answers(capability: Capability) -> Option<(Holder, Capability)> {
        Some((Holder::Receiver, capability))
    }
    const fn notifies(capability: Capability) -> Option<(Holder, Capability)> {
        Some((Holder::Sender, capability))
    }
    [
        ("ping", Both, LEGACY, None),
        ("tools/list", Client, LEGACY, answers(Tools)),
        ("tools/call", Client, LEGACY, answers(Tools)),
        ("prompts/list", Client, LEGACY, answers(Prompts)),
        ("prompts/get", Client, LEGACY, answers(Prompts)),
        ("resources/list", Client, LEGACY, answers(Resources)),
        ("resources/templates/list", Client, LEGACY, answers(Resources)),
        ("resources/read", Client, LEGACY, answers(Resources)),
        ("resources/subscribe", Client, LEGACY, answers(ResourcesSubscribe)),
        ("resources/unsubscribe", Client, LEGACY, answers(ResourcesSubscribe)),
        ("completion/complete", Client, LEGACY, answers(Completions)),
        ("logging/setLevel", Client, LEGACY, answers(Logging)),
        ("roots/list", Server, LEGACY, answers(Roots)),
        ("sampling/createMessage", Server, LEGACY, answers(Sampling)),
        ("elicitation/create", Server, SINCE_JUNE, answers(Elicitation)),
        ("tasks/get", Both, NOVEMBER, answers(Tasks)),
        ("tasks/result", Both, NOVEMBER, answers(Tasks)),
        ("tasks/list", Both, NOVEMBER, answers(TasksList)),
        ("tasks/cancel", Both, NOVEMBER, answers(TasksCancel)),
        ("skills/list", Client, NOVEMBER, answers(SkillsExtension)),
        ("skills/get", Client, NOVEMBER, answers(SkillsExtension)),
        ("resources/directory/read", Client, NOVEMBER, answers(SkillsDirectories)),
        ("notifications/message", Server, LEGACY, notifies(Logging)),
        ("notifications/tools/list_changed", Server, LEGACY, notifies(ToolsListChanged)),
        ("notifications/prompts/list_changed", Server, LEGACY, notifies(PromptsListChanged)),
        ("notifications/resources/list_changed", Server, LEGACY, notifies(ResourcesListChanged)),
        ("notifications/resources/updated", Server, LEGACY, notifies(ResourcesSubscribe)),
        ("notifications/roots/list_changed", Client, LEGACY, notifies(RootsListChanged)),
        ("notifications/elicitation/complete", Server, NOVEMBER, answers(ElicitationUrl)),
        ("notifications/tasks/status", Both, NOVEMBER, notifies(Tasks)),
    ]
};

/// Methods that only 2026-07-28 has.
const NOT_LEGACY: [Row; 5] = [
    ("server/discover", Sender::Client, MODERN, None),
    ("subscriptions/listen", Sender::Client, MODERN, None),
    ("tasks/update", Sender::Client, MODERN, None),
    ("notifications/tasks", Sender::Server, MODERN, None),
    ("notifications/subscriptions/acknowledged", Sender::Server, MODERN, None),
];

const BY_THE_CORE: [&str; 4] =
    ["initialize", "notifications/initialized", "notifications/cancelled", "notifications/progress"];

fn rows() -> impl Iterator<Item = Row> {
    TABLE.into_iter().chain(NOT_LEGACY)
}

/// Returns the capability that a row needs in a revision. 2024-11-05 has completion without a capability.
fn needed(row: &Row, version: ProtocolVersion) -> Option<(Holder, Capability)> {
    row.3.filter(|(_, capability)| *capability != Completions || version != V2024_11_05)
}

fn all_but(missing: Option<Capability>) -> impl Iterator<Item = Capability> {
    Capability::ALL
        .iter()
        .copied()
        .filter(move |capability| Some(*capability) != missing && !within(*capability, missing))
}

/// Returns whether a capability is declared inside of another one and so depends on it.
fn within(capability: Capability, other: Option<Capability>) -> bool {
    other.is_some_and(|other| capability.path().starts_with(&format!("{}.", other.path())))
}

/// Returns a client that has received the server's capabilities.
fn client(version: ProtocolVersion, local: ClientCapabilities, peer: &ServerCapabilities) -> Harness<ClientRole> {
    let mut config = full_client();
    config.capabilities = local;
    let mut client = Harness::client(config);
    let id = client.sent()[0]["id"].clone();
    let server = json!({"name": "s", "version": "1"});
    let answer = json!({"protocolVersion": version.as_str(), "capabilities": peer, "serverInfo": server});
    client.feed(&result(id, answer));
    client.sent();
    client.take_events();
    assert!(client.conn.is_ready());
    client
}

/// Returns a server that has received the client's capabilities.
fn server(version: ProtocolVersion, local: ServerCapabilities, peer: &ClientCapabilities) -> Harness<ServerRole> {
    let mut config = full_server();
    config.capabilities = local;
    let mut server = Harness::server(config);
    let params = json!({"protocolVersion": version.as_str(), "capabilities": peer,
        "clientInfo": {"name": "c", "version": "1"}});
    server.feed(&request_with("init", "initialize", params));
    server.feed(&mcp_tests::message::notification("notifications/initialized"));
    server.sent();
    server.take_events();
    assert!(server.conn.is_ready());
    server
}

/// Tries to send a row, and checks that a refused one leaves no trace.
fn try_to_send<E>(harness: &mut Harness<E>, row: &Row) -> Result<(), SendError> {
    let is_request = Method::parse(row.0).map(Method::kind) == Some(MethodKind::Request);
    let outcome = if is_request {
        harness.conn.request_raw(harness.now, row.0, None, RequestOptions::default()).map(|_| ())
    } else {
        harness.conn.notify_raw(row.0, None)
    };
    let sent = harness.sent();
    match &outcome {
        Ok(()) => assert_eq!((sent.len(), &sent[0]["method"]), (1, &json!(row.0))),
        Err(_) => assert_eq!(sent, NOTHING, "{}", row.0),
    }
    outcome
}

/// Returns the result of sending a row while `missing` is not declared.
fn expected(row: &Row, role: Role, version: ProtocolVersion, missing: Option<Capability>) -> Result<(), SendError> {
    let method = Method::parse(row.0).expect("it is in the table");
    if row.1 != Sender::Both && (row.1 == Sender::Client) != (role == Role::Client) {
        return Err(SendError::WrongDirection(method));
    }
    if !row.2.contains(&version) {
        return Err(SendError::NotInRevision { method, version });
    }
    match needed(row, version) {
        Some((_, capability)) if missing == Some(capability) || within(capability, missing) => {
            Err(SendError::Undeclared(capability))
        }
        _ => Ok(()),
    }
}

#[test]
fn the_table_covers_every_method() {
    for method in Method::ALL.iter().map(|method| method.as_str()) {
        let count = rows().filter(|row| row.0 == method).count();
        assert_eq!(count, usize::from(!BY_THE_CORE.contains(&method)), "{method}");
    }
}

// req: LIFE-020 LIFE-022 LOG-001 PROMPT-016 RES-015 RES-019 SAMP-002 TASK-006 TOOL-027
#[test]
fn only_declared_methods_are_sent() {
    for version in ProtocolVersion::LEGACY {
        for missing in Capability::ALL.iter().copied().map(Some).chain([None]) {
            let (of_client, of_server) = (all_but(missing).collect(), all_but(missing).collect());
            let mut client = client(version, all_but(missing).collect(), &of_server);
            let mut server = server(version, all_but(missing).collect(), &of_client);
            for row in rows() {
                let context = format!("{} without {missing:?} in {version}", row.0);
                assert_eq!(
                    try_to_send(&mut client, &row),
                    expected(&row, Role::Client, version, missing),
                    "client: {context}"
                );
                assert_eq!(
                    try_to_send(&mut server, &row),
                    expected(&row, Role::Server, version, missing),
                    "server: {context}"
                );
            }
        }
    }
}

// req: LIFE-022 LIFE-024
#[test]
fn the_handling_side_must_declare_the_capability() {
    for version in ProtocolVersion::LEGACY {
        // Each side has declared everything, and its peer nothing.
        let mut alone_client = client(version, all_but(None).collect(), &ServerCapabilities::default());
        let mut alone_server = server(version, all_but(None).collect(), &ClientCapabilities::default());
        for row in rows() {
            let verdict = |outcome: Result<(), SendError>| match needed(&row, version) {
                Some((Holder::Receiver, capability)) if outcome.is_ok() => Err(SendError::Undeclared(capability)),
                _ => outcome,
            };
            let (of_client, of_server) =
                (expected(&row, Role::Client, version, None), expected(&row, Role::Server, version, None));
            assert_eq!(try_to_send(&mut alone_client, &row), verdict(of_client), "{} in {version}", row.0);
            assert_eq!(try_to_send(&mut alone_server, &row), verdict(of_server), "{} in {version}", row.0);
        }
    }
}

// req: BASE-022 COMPL-011 LIFE-020 LIFE-022
#[test]
fn undeclared_methods_are_not_found() {
    fn check<E>(mut harness: Harness<E>, row: &Row, served: Result<(), SendError>, context: &str) {
        let method = Method::parse(row.0).expect("it is in the table");
        harness.feed(&request_with(1, row.0, json!({"level": "info"})));
        let (events, sent) = (harness.take_events(), harness.sent());
        match served {
            Ok(()) if method == Method::Ping => assert_eq!(sent, [result(1, json!({}))]),
            Ok(()) => {
                assert!(matches!(events[..], [Event::Request { .. }]), "{context}: {events:?}");
                assert_eq!(sent, NOTHING, "{context}");
            }
            Err(refused) => {
                assert_eq!((&sent[0]["id"], &sent[0]["error"]["code"]), (&json!(1), &json!(-32601)), "{context}");
                let violation = match refused {
                    SendError::WrongDirection(_) => Violation::WrongDirection(method),
                    _ => Violation::NotSupported(method),
                };
                assert_eq!(events, [Event::Violation(violation)], "{context}");
            }
        }
    }
    for version in ProtocolVersion::LEGACY {
        for row in rows().filter(|row| !row.0.starts_with("notifications/")) {
            for missing in [None, needed(&row, version).map(|(_, capability)| capability)] {
                let context = format!("{} without {missing:?} in {version}", row.0);
                let requested_by = |role| expected(&row, role, version, missing);
                let local = all_but(missing).collect();
                check(server(version, local, &full_client().capabilities), &row, requested_by(Role::Client), &context);
                let local = all_but(missing).collect();
                check(client(version, local, &full_server().capabilities), &row, requested_by(Role::Server), &context);
            }
        }
    }
}

// req: BASE-020
#[test]
fn wrong_direction_notifications_are_violations() {
    fn check<E>(mut harness: Harness<E>, row: &Row, right: bool) {
        let method = Method::parse(row.0).expect("it is in the table");
        harness.feed(&notification_with(row.0, json!({})));
        assert_eq!(harness.sent(), NOTHING);
        let heard = Event::Notification { method: MethodName::Known(method), params: None, related_call: None };
        match &harness.take_events()[..] {
            [Event::Notification { method: told, .. }] if right => assert_eq!(*told, MethodName::Known(method)),
            [Event::Violation(violation)] if !right => assert_eq!(*violation, Violation::WrongDirection(method)),
            other => panic!("{heard:?}: {other:?}"),
        }
    }
    for version in ProtocolVersion::LEGACY {
        for row in rows().filter(|row| row.0.starts_with("notifications/")) {
            check(Harness::ready_server(version), &row, row.1 != Sender::Server);
            check(Harness::ready_client(version), &row, row.1 != Sender::Client);
        }
    }
}

// ---- capabilities for particular params ----

fn elicit(mode: &str) -> ElicitParams {
    let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    let url = json!({"mode": "url", "message": "m", "url": "https://e.org", "elicitationId": "e"});
    serde_json::from_value(if mode == "url" { url } else { form }).expect("params")
}

// req: ELIC-005 LIFE-022 SAMP-024 TASK-007
#[test]
fn params_needing_undeclared_features_are_not_sent() {
    fn check<P: Request, E>(mut harness: Harness<E>, params: &P, missing: Option<Capability>) {
        let outcome = harness.conn.request(harness.now, params, RequestOptions::default()).map(|_| ());
        assert_eq!(outcome, missing.map_or(Ok(()), |capability| Err(SendError::Undeclared(capability))));
        assert_eq!(harness.sent().len(), usize::from(missing.is_none()));
    }
    let task = || Some(TaskMetadata::default());
    let sample = || CreateMessageParams::new(vec![SamplingMessage::user("hi")], 10u64);
    let requires_input = |params: &dyn Fn(Harness<ServerRole>, Option<Capability>), capability| {
        for missing in [Some(capability), None] {
            params(server(V2025_11_25, full_server().capabilities, &all_but(missing).collect()), missing);
        }
    };
    requires_input(&|harness, missing| check(harness, &elicit("form"), missing), ElicitationForm);
    requires_input(&|harness, missing| check(harness, &elicit("url"), missing), ElicitationUrl);
    let tools = CreateMessageParams { tools: Some(vec![]), ..sample() };
    requires_input(&|harness, missing| check(harness, &tools, missing), SamplingTools);
    let sampling_task = CreateMessageParams { task: task(), ..sample() };
    requires_input(&|harness, missing| check(harness, &sampling_task, missing), TasksSampling);
    for missing in [Some(TasksToolsCall), None] {
        let harness = client(V2025_11_25, full_client().capabilities, &all_but(missing).collect());
        check(harness, &CallToolParams { task: task(), ..CallToolParams::new("t") }, missing);
    }
    let done = ElicitationCompleteParams::new("e");
    let mut without = server(V2025_11_25, full_server().capabilities, &all_but(Some(ElicitationUrl)).collect());
    assert_eq!(without.conn.notify(&done), Err(SendError::Undeclared(ElicitationUrl)));
    assert_eq!(without.sent(), NOTHING);
}

// req: ELIC-006 SAMP-025
#[test]
fn undeclared_request_forms_are_refused() {
    let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    let with = |name: &str, value: Value| {
        let mut params = form.clone();
        params[name] = value;
        params
    };
    let url = json!({"mode": "url", "message": "m", "url": "https://e.org", "elicitationId": "e"});
    let sample = json!({"messages": [], "maxTokens": 1});
    let mut with_tools = sample.clone();
    with_tools["tools"] = json!([]);
    let mut with_choice = sample.clone();
    with_choice["toolChoice"] = json!({"mode": "auto"});
    // method, params, undeclared capability, whether it is refused
    let table = [
        ("elicitation/create", form.clone(), None, false),
        ("elicitation/create", with("mode", json!("form")), None, false),
        ("elicitation/create", url.clone(), None, false),
        ("elicitation/create", with("mode", json!("voice")), None, true),
        ("elicitation/create", with("mode", json!(7)), None, true),
        ("elicitation/create", form.clone(), Some(ElicitationForm), true),
        ("elicitation/create", with("mode", json!("form")), Some(ElicitationForm), true),
        ("elicitation/create", url.clone(), Some(ElicitationForm), false),
        ("elicitation/create", form.clone(), Some(ElicitationUrl), false),
        ("elicitation/create", url, Some(ElicitationUrl), true),
        ("sampling/createMessage", sample.clone(), Some(SamplingTools), false),
        ("sampling/createMessage", with_tools.clone(), None, false),
        ("sampling/createMessage", with_tools, Some(SamplingTools), true),
        ("sampling/createMessage", with_choice, Some(SamplingTools), true),
    ];
    for (method, params, missing, refused) in table {
        let mut client = client(V2025_11_25, all_but(missing).collect(), &full_server().capabilities);
        client.feed(&request_with(1, method, params.clone()));
        let (events, sent) = (client.take_events(), client.sent());
        if refused {
            let method = Method::parse(method).expect("it is in the table");
            assert_eq!(events, [Event::Violation(Violation::NotSupported(method))], "{params} without {missing:?}");
            assert_eq!((&sent[0]["id"], &sent[0]["error"]["code"]), (&json!(1), &json!(-32602)));
        } else {
            assert!(matches!(events[..], [Event::Request { .. }]), "{params} without {missing:?}: {events:?}");
        }
    }
}

#[test]
fn subject_params_match_the_table() {
    for method in Method::ALL {
        let expected = match method.as_str() {
            "tools/call" | "prompts/get" => Some("name"),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => Some("uri"),
            "skills/get" | "resources/directory/read" => Some("uri"),
            "tasks/get" | "tasks/result" | "tasks/cancel" | "tasks/update" => Some("taskId"),
            _ => None,
        };
        assert_eq!(method.subject_param(), expected, "{method}");
    }
}

#[test]
fn only_three_methods_can_become_session_tasks() {
    let can = |method: &Method| method.can_be_task();
    let methods: Vec<_> = Method::ALL.iter().copied().filter(can).map(Method::as_str).collect();
    assert_eq!(methods, ["tools/call", "sampling/createMessage", "elicitation/create"]);
}
