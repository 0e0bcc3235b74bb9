//! The `_meta` of every request and every result of 2026-07-28, and its effects.

use mcp_proto::{
    connection::{ClientConfig, Event, RequestOptions, ServerConfig, ServerRole},
    protocol::{ProtocolVersion, VersionSet},
    schema::{
        CallToolParams, Extensions, Implementation, ListToolsParams, SubscriptionFilter, SubscriptionsListenParams,
        keys,
    },
    wire::{Json, JsonObject},
};
use mcp_tests::{
    harness::{Harness, full_client, full_server},
    message::{CAPABILITIES, VERSION, cancelled, listen, modern, modern_with, notification, request_with, result},
};
use serde_json::{Value, json};

fn one(mut sent: Vec<Value>) -> Value {
    assert_eq!(sent.len(), 1, "{sent:?}");
    sent.remove(0)
}

// req: M-META-017 M-BASE-010
#[test]
fn every_result_carries_server_info() {
    let mut config = modern_server_config();
    config.info = Implementation { title: Some("Barn".into()), ..Implementation::new("barn", "2.1.0") };
    let info = json!({"name": "barn", "version": "2.1.0", "title": "Barn"});
    let mut server = Harness::server(config);
    server.feed(&modern(0, "server/discover", json!({})));
    let mut results = server.sent();
    for (method, result) in [
        ("tools/list", json!({"tools": []})),
        ("tools/call", json!({"content": [], "_meta": {"com.example/own": 1}})),
        ("tools/call", json!({"resultType": "input_required", "requestState": "s", "_meta": {}})),
        ("resources/read", json!({"contents": []})),
        ("prompts/get", json!({"messages": []})),
        ("completion/complete", json!({"completion": {"values": []}})),
        ("vendor/own", json!({})),
    ] {
        let key = server.receive_request(&modern(1, method, json!({})));
        server.respond(key, &result);
        results.extend(server.sent());
    }
    assert_eq!(results.len(), 8);
    for answer in &results {
        assert_eq!(answer["result"]["_meta"][keys::SERVER_INFO], info, "{answer}");
        assert!(answer["result"]["resultType"].is_string(), "{answer}");
    }
    assert_eq!(results[2]["result"]["_meta"]["com.example/own"], 1, "it stands beside what the application says");
}

// req: STDIO-004 STDIO-005
#[test]
fn implementation_info_is_kept_on_one_line() {
    let broken = Json::parse("[1,\n2,\r3]").expect("JSON");
    let info = || Implementation { extra: [("x-broken", broken.clone())].into(), ..Implementation::new("barn", "2") };
    let check = |sent: Vec<String>| {
        assert!(!sent.is_empty());
        for text in sent {
            assert!(text.contains("[1, 2, 3]") && !text.contains(['\n', '\r']), "{text}");
        }
    };

    let mut server = Harness::server(ServerConfig { info: info(), ..modern_server_config() });
    server.feed(&modern(0, "server/discover", json!({})));
    check(server.sent_text());
    for result in [json!({}), json!({"content": []}), json!({"_meta": {}}), json!({"resultType": "complete"})] {
        let key = server.receive_request(&modern(1, "tools/call", json!({})));
        server.respond(key, &result);
        check(server.sent_text());
    }

    let mut config = ClientConfig { info: info(), ..full_client() };
    config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
    check(Harness::client(config).sent_text());
}

/// Returns the config of a server of all revisions, 2026-07-28 among them.
fn modern_server_config() -> ServerConfig {
    let mut config = full_server();
    config.settings.versions = VersionSet::ALL;
    config
}

fn extensions<const N: usize>(given: [(&str, &str); N]) -> Extensions {
    let mut extensions = Extensions::new();
    for (name, settings) in given {
        extensions.insert(name, JsonObject::parse(settings).expect("an object")).expect("a good name");
    }
    extensions
}

/// Returns the capabilities that a request declares.
fn declared(request: &Value) -> &Value {
    &request["params"]["_meta"][CAPABILITIES]
}

// req: M-META-002 M-META-030 M-ROOT-001 M-SAMP-001 M-SAMP-002 M-ELIC-001 M-VERS-010 M-ROOT-006
#[test]
fn every_request_declares_client_capabilities() {
    let mut config = full_client();
    config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
    config.capabilities.extensions = Some(extensions([("com.example/barn", r#"{"depth":2}"#)]));
    let expected = json!({"roots": {}, "sampling": {"context": {}, "tools": {}}, "elicitation": {"form": {}, "url": {}},
        "extensions": {"com.example/barn": {"depth": 2}}});
    let mut client = Harness::client(config);
    let probe = one(client.sent());
    assert_eq!(*declared(&probe), expected, "what is of sessions only is not there");
    client.feed(&result(
        probe["id"].clone(),
        json!({"supportedVersions": ["2026-07-28"], "resultType": "complete",
        "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}),
    ));
    client.take_events();
    let options = RequestOptions::default();
    client.conn.request(client.now, &ListToolsParams::default(), options.clone()).expect("it is ready");
    client.conn.request(client.now, &CallToolParams::new("t"), options.clone()).expect("it is ready");
    let listen = SubscriptionsListenParams::new(SubscriptionFilter::default());
    client.conn.request(client.now, &listen, options.clone()).expect("it is ready");
    client.conn.request_raw(client.now, "vendor/own", None, options.clone()).expect("it is ready");
    let mut requests = client.sent();
    client.feed(&result(requests[1]["id"].clone(), json!({"resultType": "input_required", "requestState": "s"})));
    requests.extend(client.sent());
    assert_eq!(requests.len(), 5);
    for request in &requests {
        assert_eq!(*declared(request), expected, "{request}");
        assert_eq!(request["params"]["_meta"][VERSION], "2026-07-28");
    }
    // A client without capabilities declares an empty object.
    let mut config = ClientConfig::new(Implementation::new("plain", "1"), 1);
    config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
    assert_eq!(*declared(&one(Harness::client(config).sent())), json!({}));
}

// req: M-VERS-002 M-VERS-004 M-VERS-008 M-VERS-014
#[test]
fn versions_are_compared_exactly() {
    let mut server = Harness::with_versions(VersionSet::ALL);
    for odd in [
        "",
        "2026",
        "2026-07",
        "2026-7-28",
        "2026-07-28 ",
        " 2026-07-28",
        "2026-07-28\u{0}",
        "2026-07-280",
        "2026-07-28-draft",
        "2026-07-27",
        "2026-07-29",
        "2027-01-01",
        "9999-99-99",
        "latest",
        "2025-11-25",
        "2024-11-05",
        "\u{ff12}026-07-28",
    ] {
        server.feed(&modern_with(1, "tools/list", json!({}), json!({VERSION: odd})));
        let error = one(server.sent())["error"].clone();
        assert_eq!((&error["code"], &error["data"]["requested"]), (&json!(-32022), &json!(odd)), "{odd:?}");
        server.take_events();
        // Each request is checked by itself.
        let key = server.receive_request(&modern_with(1, "tools/list", json!({}), json!({VERSION: "2026-07-28"})));
        server.respond(key, &json!({"tools": []}));
        assert!(one(server.sent()).get("result").is_some());
    }
}

// req: M-VERS-003 M-DISC-003 M-DISC-012 M-DISC-013
#[test]
fn version_errors_list_the_discovered_versions() {
    let since = |first| VersionSet::since(first);
    for versions in
        [VersionSet::only(ProtocolVersion::V2026_07_28), VersionSet::ALL, since(ProtocolVersion::V2025_11_25)]
    {
        let mut server = Harness::with_versions(versions);
        server.feed(&modern(1, "server/discover", json!({})));
        let listed = one(server.sent())["result"]["supportedVersions"].clone();
        assert!(listed.as_array().expect("a list").iter().all(Value::is_string));
        assert_eq!(listed[0], "2026-07-28");
        for method in ["server/discover", "tools/list", "vendor/own", "subscriptions/listen"] {
            server.feed(&modern_with(2, method, json!({}), json!({VERSION: "2031-01-01"})));
            let error = one(server.sent())["error"].clone();
            assert_eq!((&error["code"], &error["data"]["supported"]), (&json!(-32022), &listed), "{method}");
        }
    }
}

// req: M-VERS-009 M-VERS-010
#[test]
fn server_extensions_are_declared_with_settings() {
    let mut config = ServerConfig::new(Implementation::new("s", "1"), 1);
    config.settings.versions = VersionSet::ALL;
    config.capabilities.extensions =
        Some(extensions([("com.example/barn", r#"{"doors":[1,2]}"#), ("com.example/plain", "{}")]));
    for bad in ["barn", "com.example barn/x", "com.example/"] {
        let mut refused = Extensions::new();
        assert_eq!(refused.insert(bad, JsonObject::empty()).is_ok(), bad == "com.example/", "{bad}");
    }
    let mut server = Harness::server(config);
    server.feed(&modern(1, "server/discover", json!({})));
    assert_eq!(
        one(server.sent())["result"]["capabilities"],
        json!({"extensions": {"com.example/barn": {"doors": [1, 2]}, "com.example/plain": {}}})
    );
    // Sessions of 2025-11-25 get the extensions, except those that need 2026-07-28.
    for (version, told) in [("2025-11-25", true), ("2025-06-18", false)] {
        let mut config = ServerConfig::new(Implementation::new("s", "1"), 1);
        let plain = [("com.example/plain", "{}"), ("io.modelcontextprotocol/tasks", "{}")];
        config.capabilities.extensions = Some(extensions(plain));
        let mut server = Harness::server(config);
        let who = json!({"name": "old", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": who});
        server.feed(&request_with("init", "initialize", params));
        let expected = if told { json!({"extensions": {"com.example/plain": {}}}) } else { json!({}) };
        assert_eq!(one(server.sent())["result"]["capabilities"], expected, "{version}");
    }
}

/// Earlier messages on the connection.
type Past = fn(&mut Harness<ServerRole>);

// req: M-STDIO-011 M-STDIO-021 M-BASE-040 M-META-011 M-DUAL-039
#[test]
fn requests_do_not_depend_on_earlier_messages() {
    let pasts: [Past; 6] = [
        |_| {},
        |server| {
            let meta = json!({CAPABILITIES: {"sampling": {}, "elicitation": {"url": {}}}, keys::LOG_LEVEL: "debug",
                keys::CLIENT_INFO: {"name": "other", "version": "9"}, "progressToken": "p"});
            let key = server.receive_request(&modern_with("other", "tools/call", json!({"name": "t"}), meta));
            server.respond(key, &json!({"content": []}));
        },
        |server| {
            let meta = json!({CAPABILITIES: {"roots": {}}, "progressToken": "q"});
            server.receive_request(&modern_with("open", "tools/call", json!({"name": "t"}), meta));
        },
        |server| {
            server.feed(&listen("s", json!({"toolsListChanged": true})));
            server.feed(&listen("t", json!({"toolsListChanged": true})));
            server.feed(&cancelled("t"));
        },
        |server| {
            server.feed(&modern_with("bad", "tools/list", json!({}), json!({VERSION: "2031-01-01"})));
            server.feed(&modern_with("bad", "tools/list", json!({}), json!({CAPABILITIES: []})));
            server.feed_text("junk");
        },
        |server| {
            server.feed(&request_with(
                "init",
                "initialize",
                json!({"protocolVersion": "2025-06-18",
                "capabilities": {"sampling": {}, "roots": {}}, "clientInfo": {"name": "old", "version": "1"}}),
            ));
            server.feed(&notification("notifications/initialized"));
            let key = server.take_events().into_iter().next();
            assert_eq!(key, Some(Event::Ready));
            let key = server.receive_request(&request_with("level", "logging/setLevel", json!({"level": "debug"})));
            server.respond(key, &json!({}));
        },
    ];
    let meta = json!({CAPABILITIES: {"elicitation": {}}, keys::LOG_LEVEL: "error",
        keys::CLIENT_INFO: {"name": "new", "version": "2"}});
    let full = modern_with(7, "tools/call", json!({"name": "t"}), meta);
    let bare = modern(7, "tools/call", json!({"name": "t"}));
    for message in [full, bare] {
        let seen = pasts.map(|past| {
            let mut server = Harness::with_versions(VersionSet::ALL);
            past(&mut server);
            server.sent();
            server.take_events();
            let key = server.receive_request(&message);
            let context = server.conn.context(key).expect("it is open");
            let context = format!("{:?} {context:?}", context.era());
            server.conn.progress(key, 1.0, None, None).expect("not asked for");
            server.respond(key, &json!({"content": []}));
            (context, server.sent_text())
        });
        assert!(seen[0].0.contains("V2026_07_28"), "{seen:?}");
        for other in &seen[1..] {
            assert_eq!(*other, seen[0]);
        }
    }
}
