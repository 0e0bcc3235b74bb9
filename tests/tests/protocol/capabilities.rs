//! The capabilities and the info of both sides in the handshake, and how the peer reads them.

use mcp_proto::{
    protocol::{
        Capability::{self, *},
        CapabilitySet, ProtocolVersion, VersionSet,
    },
    schema::{ClientCapabilities, ServerCapabilities},
};
use mcp_tests::{
    harness::{Harness, full_client, full_server},
    message::{request_with, result},
};
use serde_json::{Value, json};

fn set(capabilities: &[Capability]) -> CapabilitySet {
    capabilities.iter().copied().collect()
}

/// Returns how a client reads the capabilities of a server.
fn seen_by_client(version: ProtocolVersion, capabilities: &Value) -> CapabilitySet {
    let mut client = Harness::client(full_client());
    let id = client.sent()[0]["id"].clone();
    let server = json!({"name": "s", "version": "1"});
    let answer = json!({"protocolVersion": version.as_str(), "capabilities": capabilities, "serverInfo": server});
    client.feed(&result(id, answer));
    assert!(client.conn.is_ready(), "{capabilities} at {version}");
    client.conn.peer_capabilities()
}

fn initialize(version: ProtocolVersion, capabilities: &Value) -> Value {
    let client = json!({"name": "c", "version": "1"});
    request_with(
        1,
        "initialize",
        json!({"protocolVersion": version.as_str(), "capabilities": capabilities, "clientInfo": client}),
    )
}

/// Returns how a server reads the capabilities of a client.
fn seen_by_server(version: ProtocolVersion, capabilities: &Value) -> CapabilitySet {
    let mut server = Harness::server(full_server());
    server.feed(&initialize(version, capabilities));
    assert!(server.sent()[0]["result"].is_object(), "{capabilities} at {version}");
    server.conn.peer_capabilities()
}

// req: LIFE-024 LIFE-025 LIFE-029
#[test]
fn server_capabilities_are_declared_by_objects() {
    let table = [
        (json!({}), set(&[])),
        (json!({"tools": {}}), set(&[Tools])),
        (json!({"tools": {"listChanged": false}}), set(&[Tools])),
        (json!({"tools": {"listChanged": true}}), set(&[Tools, ToolsListChanged])),
        (json!({"prompts": {}}), set(&[Prompts])),
        (json!({"prompts": {"listChanged": true}}), set(&[Prompts, PromptsListChanged])),
        (json!({"resources": {}}), set(&[Resources])),
        (json!({"resources": {"subscribe": true, "listChanged": false}}), set(&[Resources, ResourcesSubscribe])),
        (json!({"resources": {"listChanged": true}}), set(&[Resources, ResourcesListChanged])),
        (json!({"logging": {}, "completions": {}}), set(&[Logging, Completions])),
        (json!({"tools": null, "logging": null}), set(&[])),
        (json!({"Tools": {}, "LOGGING": {}}), set(&[])),
        (json!({"vendor": {"x": 1}, "tools": {"vendor": [1]}, "future": true}), set(&[Tools])),
        (json!({"tasks": {}}), set(&[Tasks])),
        (json!({"tasks": {"list": {}, "cancel": {}, "requests": {}}}), set(&[Tasks, TasksList, TasksCancel])),
        (json!({"tasks": {"requests": {"tools": {}}}}), set(&[Tasks])),
        (json!({"tasks": {"requests": {"tools": {"call": {}}}}}), set(&[Tasks, TasksToolsCall])),
    ];
    for version in ProtocolVersion::LEGACY {
        for (capabilities, expected) in &table {
            assert_eq!(seen_by_client(version, capabilities), *expected, "{capabilities} at {version}");
        }
    }
}

// req: LIFE-024 LIFE-025 LIFE-030
#[test]
fn client_capabilities_are_declared_by_objects() {
    let table = [
        (json!({}), set(&[])),
        (json!({"roots": {}}), set(&[Roots])),
        (json!({"roots": {"listChanged": false}}), set(&[Roots])),
        (json!({"roots": {"listChanged": true}}), set(&[Roots, RootsListChanged])),
        (json!({"sampling": {}}), set(&[Sampling])),
        (json!({"sampling": {"context": {}, "tools": {}}}), set(&[Sampling, SamplingContext, SamplingTools])),
        (json!({"elicitation": {}}), set(&[Elicitation, ElicitationForm])),
        (json!({"elicitation": {"form": {}}}), set(&[Elicitation, ElicitationForm])),
        (json!({"elicitation": {"url": {}}}), set(&[Elicitation, ElicitationUrl])),
        (json!({"elicitation": {"form": {}, "url": {}}}), set(&[Elicitation, ElicitationForm, ElicitationUrl])),
        (json!({"sampling": null}), set(&[])),
        (json!({"vendor": {}, "roots": {"vendor": {}}, "future": 1}), set(&[Roots])),
        (
            json!({"tasks": {"requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}}}),
            set(&[Tasks, TasksSampling, TasksElicitation]),
        ),
    ];
    for version in ProtocolVersion::LEGACY {
        for (capabilities, expected) in &table {
            assert_eq!(seen_by_server(version, capabilities), *expected, "{capabilities} at {version}");
        }
    }
}

// req: LIFE-026
#[test]
fn experimental_capabilities_reach_the_peer() {
    let experimental = json!({"vendor/streams": {"max": 3}, "vendor/empty": {}});
    for version in ProtocolVersion::LEGACY {
        let mut client = full_client();
        client.settings.versions = VersionSet::only(version);
        client.capabilities =
            serde_json::from_value::<ClientCapabilities>(json!({"experimental": experimental})).expect("capabilities");
        let mut server = full_server();
        server.capabilities =
            serde_json::from_value::<ServerCapabilities>(json!({"experimental": experimental})).expect("capabilities");
        let mut testbed = mcp_tests::testbed::Testbed::new(client, server, Default::default(), Default::default());
        testbed.settle();
        let seen = |experimental: Option<&mcp_proto::schema::Map<_>>| {
            let map = experimental.expect("it was declared");
            serde_json::to_value(map).expect("it is JSON")
        };
        let by_client = &testbed.client.conn.server().expect("ready").capabilities;
        let by_server = &testbed.server.conn.client().expect("ready").capabilities;
        assert_eq!(seen(by_client.experimental.as_ref()), experimental, "{version}");
        assert_eq!(seen(by_server.experimental.as_ref()), experimental, "{version}");
    }
}

// req: LIFE-010 LIFE-020 LIFE-024 LIFE-027 LIFE-028
#[test]
fn client_declares_capabilities_of_its_revision() {
    let tasks = json!({"list": {}, "cancel": {},
        "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}});
    let roots = json!({"listChanged": true});
    let table = [
        ("2024-11-05", json!({"roots": roots, "sampling": {}})),
        ("2025-03-26", json!({"roots": roots, "sampling": {}})),
        ("2025-06-18", json!({"roots": roots, "sampling": {}, "elicitation": {}})),
        (
            "2025-11-25",
            json!({"roots": roots, "sampling": {"context": {}, "tools": {}}, "elicitation": {"form": {}, "url": {}},
                "tasks": tasks}),
        ),
    ];
    for (version, (name, expected)) in ProtocolVersion::LEGACY.into_iter().zip(table) {
        let mut config = full_client();
        config.settings.versions = VersionSet::only(version);
        let sent = Harness::client(config).sent();
        assert_eq!(sent[0]["params"]["protocolVersion"], name);
        assert_eq!(sent[0]["params"]["capabilities"], expected, "{name}");
    }
    let mut config = full_client();
    config.capabilities = ClientCapabilities::default();
    assert_eq!(Harness::client(config).sent()[0]["params"]["capabilities"], json!({}));
}

// req: LIFE-020 LIFE-024 LIFE-029
#[test]
fn server_declares_capabilities_of_the_revision() {
    let listed = json!({"listChanged": true});
    let resources = json!({"listChanged": true, "subscribe": true});
    let base = json!({"tools": listed, "prompts": listed, "resources": resources, "logging": {}});
    let mut spring = base.clone();
    spring["completions"] = json!({});
    let mut november = spring.clone();
    november["tasks"] = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    november["extensions"] = json!({"io.modelcontextprotocol/skills": {"directoryRead": true}});
    let table = [base, spring.clone(), spring, november];
    for (version, expected) in ProtocolVersion::LEGACY.into_iter().zip(table) {
        let mut server = Harness::server(full_server());
        server.feed(&initialize(version, &json!({})));
        assert_eq!(server.sent()[0]["result"]["capabilities"], expected, "{version}");
    }
    let mut config = full_server();
    config.capabilities = ServerCapabilities::default();
    let mut server = Harness::server(config);
    server.feed(&initialize(ProtocolVersion::V2025_06_18, &json!({})));
    assert_eq!(server.sent()[0]["result"]["capabilities"], json!({}));
}

// req: LIFE-016 LIFE-031 LIFE-032
#[test]
fn server_info_matches_the_negotiated_revision() {
    let info = json!({"name": "n", "title": "t", "version": "1", "description": "d", "websiteUrl": "https://e.org",
        "icons": [{"src": "https://e.org/i.png"}]});
    let table = [
        json!({"name": "n", "version": "1"}),
        json!({"name": "n", "version": "1"}),
        json!({"name": "n", "title": "t", "version": "1"}),
        info.clone(),
    ];
    for (version, expected) in ProtocolVersion::LEGACY.into_iter().zip(table) {
        let mut config = full_server();
        config.info = serde_json::from_value(info.clone()).expect("an implementation");
        let mut server = Harness::server(config);
        server.feed(&initialize(version, &json!({})));
        let sent = server.sent();
        assert_eq!(sent[0]["result"]["serverInfo"], expected, "{version}");
        assert_eq!(sent[0]["result"]["protocolVersion"], version.as_str());
    }
}
