//! The requests that a server of 2026-07-28 serves, and the types of `_meta` fields: every method with every JSON type.

use mcp_proto::{
    connection::{ClientConfig, ClientRole, Event, RequestOptions, SendError, ServerRole, Violation},
    protocol::{Capability, Method, VersionSet},
    schema::{ServerCapabilities, keys},
};
use mcp_tests::{
    harness::{Harness, full_client_with, full_server},
    message::{CAPABILITIES, VERSION, modern_with},
    methods::{MODERN, ModernMethod, Sender},
    modern::{answer, modern_only},
};
use serde_json::{Value, json};

/// Returns values of each JSON type, empty and not.
fn every_json_type() -> [Value; 12] {
    [
        json!(null),
        json!(false),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(""),
        json!("2026-07-28"),
        json!([]),
        json!([{}]),
        json!({}),
        json!({"a": 1}),
    ]
}

fn all_but(missing: Option<Capability>) -> ServerCapabilities {
    let within = |capability: Capability| {
        missing.is_some_and(|missing| capability.path().starts_with(&format!("{}.", missing.path())))
    };
    let declared = |capability: &Capability| Some(*capability) != missing && !within(*capability);
    Capability::ALL.iter().copied().filter(declared).collect()
}

/// Returns a server that declares all capabilities but `missing` and serves these revisions.
fn server(versions: VersionSet, missing: Option<Capability>) -> Harness<ServerRole> {
    let mut config = full_server();
    config.settings.versions = versions;
    config.capabilities = all_but(missing);
    Harness::server(config)
}

/// Returns the capabilities of a client with the tasks extension, or none.
fn declared(extension: bool) -> Value {
    if extension { json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}) } else { json!({}) }
}

/// Returns the error code for `method` of a server that declares all capabilities but `missing`.
fn refusal(method: &ModernMethod, missing: Option<Capability>, extension: bool) -> Option<i64> {
    let within = |needed: Capability, missing: Capability| {
        needed == missing || needed.path().starts_with(&format!("{}.", missing.path()))
    };
    match (method.sender, method.needs.zip(missing)) {
        _ if method.is_notification() => Some(-32600),
        (Sender::Server | Sender::Removed, _) => Some(-32601),
        (_, Some((needed, missing))) if within(needed, missing) => Some(-32601),
        _ if method.mutual && !extension => Some(-32021),
        _ => None,
    }
}

#[test]
fn the_table_covers_every_method() {
    for method in Method::ALL.iter().map(|method| method.as_str()) {
        assert_eq!(MODERN.iter().filter(|row| row.name == method).count(), 1, "{method}");
    }
}

// req: M-BASE-051 M-DISC-011 M-BASE-028
#[test]
fn server_serves_only_requests_of_the_revision() {
    for versions in [modern_only(), VersionSet::ALL] {
        for row in MODERN {
            for missing in [None, row.needs] {
                for extension in [false, true] {
                    let mut server = server(versions, missing);
                    let message = modern_with(1, row.name, json!({}), json!({CAPABILITIES: declared(extension)}));
                    server.feed(&message);
                    let (events, sent) = (server.take_events(), server.sent());
                    let context = format!("{} without {missing:?}, extension: {extension}", row.name);
                    match refusal(&row, missing, extension) {
                        Some(code) => {
                            assert_eq!(sent.len(), 1, "{context}: {sent:?}");
                            assert_eq!(
                                (&sent[0]["id"], &sent[0]["error"]["code"]),
                                (&json!(1), &json!(code)),
                                "{context}"
                            );
                            assert!(matches!(events[..], [Event::Violation(_)]), "{context}: {events:?}");
                        }
                        None if row.name == "server/discover" => assert!(sent[0]["result"].is_object(), "{sent:?}"),
                        // The filter is missing.
                        None if row.name == "subscriptions/listen" => assert_eq!(sent[0]["error"]["code"], -32602),
                        None => {
                            assert!(sent.is_empty(), "{context}: {sent:?}");
                            assert!(matches!(events[..], [Event::Request { .. }]), "{context}: {events:?}");
                        }
                    }
                }
            }
        }
    }
}

// req: M-META-009
#[test]
fn required_meta_fields_are_type_checked() {
    for versions in [modern_only(), VersionSet::ALL] {
        for method in ["tools/list", "server/discover", "tools/call", "subscriptions/listen", "vendor/own"] {
            for value in every_json_type() {
                let refused = |field: &str| {
                    let mut server = server(versions, None);
                    server.feed(&modern_with(1, method, json!({}), json!({field: value})));
                    let (events, sent) = (server.take_events(), server.sent());
                    let code = sent.first().and_then(|answer| answer["error"]["code"].as_i64());
                    let event = matches!(events[..], [Event::Violation(Violation::BadMeta)]);
                    assert!(!event || code == Some(-32602), "{field}: {value}: {sent:?}");
                    event.then_some(code)
                };
                assert_eq!(refused(CAPABILITIES).is_some(), !value.is_object(), "{method}, capabilities: {value}");
                assert_eq!(refused(VERSION).is_some(), !value.is_string(), "{method}, version: {value}");
            }
        }
    }
}

// req: M-META-010
#[test]
fn client_info_is_optional() {
    let mut named = vec![None];
    named.extend(every_json_type().map(Some));
    named.push(Some(json!({"name": "client", "version": "1"})));
    for info in named {
        let meta = info.clone().map_or(json!({}), |info| json!({keys::CLIENT_INFO: info}));
        let mut server = server(modern_only(), None);
        let key = server.receive_request(&modern_with(1, "tools/list", json!({}), meta));
        let client = server.conn.context(key).expect("the request is open").client_info;
        let is_whole = info.as_ref().is_some_and(|info| info.get("name").is_some());
        assert_eq!(client.map(|client| client.name.as_str()), is_whole.then_some("client"), "{info:?}");
    }
}

#[test]
fn rejects_unknown_log_levels() {
    let mut values = every_json_type().to_vec();
    values.extend(["debug", "emergency", "Debug", "trace"].map(Value::from));
    for value in values {
        let mut server = server(modern_only(), None);
        server.feed(&modern_with(1, "tools/list", json!({}), json!({keys::LOG_LEVEL: value})));
        let is_level = value == "debug" || value == "emergency";
        let events = server.take_events();
        assert_eq!(matches!(events[..], [Event::Request { .. }]), is_level, "{value}");
        let code = server.sent().first().map(|answer| answer["error"]["code"].clone());
        assert_eq!(code, (!is_level).then_some(json!(-32602)), "{value}");
    }
}

/// Returns a client of a server that declares all capabilities but `missing`.
fn client(missing: Option<Capability>, extension: bool) -> Harness<ClientRole> {
    let config: ClientConfig = full_client_with(modern_only());
    let extensions = serde_json::from_value(declared(extension)).expect("capabilities");
    let mut client = Harness::client(ClientConfig { capabilities: extensions, ..config });
    let probe = client.sent_one();
    client.feed(&answer(
        &probe,
        json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
            "capabilities": all_but(missing)}),
    ));
    assert_eq!(client.take_events(), [Event::Ready]);
    client
}

// req: M-BASE-051
#[test]
fn client_sends_only_requests_of_the_revision() {
    for row in MODERN.iter().filter(|row| !row.is_notification()) {
        for missing in [None, row.needs] {
            for extension in [false, true] {
                let mut client = client(missing, extension);
                let outcome = client.conn.request_raw(client.now, row.name, None, RequestOptions::default());
                let is_sent = refusal(row, missing, extension).is_none();
                let context = format!("{} without {missing:?}, extension: {extension}: {outcome:?}", row.name);
                assert_eq!(client.sent().len(), usize::from(is_sent), "{context}");
                match outcome {
                    Ok(_) => assert!(is_sent, "{context}"),
                    Err(
                        SendError::WrongDirection(_)
                        | SendError::NotInRevision { .. }
                        | SendError::Undeclared(_)
                        | SendError::WrongKind(Method::Initialize),
                    ) => assert!(!is_sent, "{context}"),
                    Err(_) => panic!("{context}"),
                }
            }
        }
    }
}
