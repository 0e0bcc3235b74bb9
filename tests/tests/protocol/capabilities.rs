//! What the two ends declare of themselves in the handshake, and what the other end makes of it.

use mcp_proto::{
    protocol::{
        Capability::{self, *},
        CapabilitySet, ProtocolVersion, VersionSet,
    },
    schema::{ClientCapabilities, ServerCapabilities},
};
use mcp_tests::{
    message::{request_with, result},
    solo::{Solo, full_client, full_server},
};
use serde_json::{Value, json};

fn set(capabilities: &[Capability]) -> CapabilitySet {
    capabilities.iter().copied().collect()
}

/// What a client makes of the capabilities of a server.
fn seen_by_client(version: ProtocolVersion, capabilities: &Value) -> CapabilitySet {
    let mut client = Solo::client(full_client());
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

/// What a server makes of the capabilities of a client.
fn seen_by_server(version: ProtocolVersion, capabilities: &Value) -> CapabilitySet {
    let mut server = Solo::server(full_server());
    server.feed(&initialize(version, capabilities));
    assert!(server.sent()[0]["result"].is_object(), "{capabilities} at {version}");
    server.conn.peer_capabilities()
}

// req: LIFE-024 LIFE-025 LIFE-029
#[test]
fn an_object_declares_a_capability_of_a_server_and_its_absence_does_not() {
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
fn an_object_declares_a_capability_of_a_client_and_its_absence_does_not() {
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
fn experimental_capabilities_are_carried_to_the_other_end() {
    let experimental = json!({"vendor/streams": {"max": 3}, "vendor/empty": {}});
    for version in ProtocolVersion::LEGACY {
        let mut client = full_client();
        client.settings.versions = VersionSet::only(version);
        client.capabilities =
            serde_json::from_value::<ClientCapabilities>(json!({"experimental": experimental})).expect("capabilities");
        let mut server = full_server();
        server.capabilities =
            serde_json::from_value::<ServerCapabilities>(json!({"experimental": experimental})).expect("capabilities");
        let mut bed = mcp_tests::bed::Bed::new(client, server, Default::default(), Default::default());
        bed.settle();
        let seen = |experimental: Option<&mcp_proto::schema::Map<_>>| {
            let map = experimental.expect("it was declared");
            serde_json::to_value(map).expect("it is JSON")
        };
        let by_client = &bed.client.conn.server().expect("ready").capabilities;
        let by_server = &bed.server.conn.client().expect("ready").capabilities;
        assert_eq!(seen(by_client.experimental.as_ref()), experimental, "{version}");
        assert_eq!(seen(by_server.experimental.as_ref()), experimental, "{version}");
    }
}

// req: LIFE-010 LIFE-020 LIFE-024 LIFE-027 LIFE-028
#[test]
fn a_client_declares_what_the_revision_that_it_offers_has() {
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
        let sent = Solo::client(config).sent();
        assert_eq!(sent[0]["params"]["protocolVersion"], name);
        assert_eq!(sent[0]["params"]["capabilities"], expected, "{name}");
    }
    let mut config = full_client();
    config.capabilities = ClientCapabilities::default();
    assert_eq!(Solo::client(config).sent()[0]["params"]["capabilities"], json!({}));
}

// req: LIFE-020 LIFE-024 LIFE-029
#[test]
fn a_server_declares_what_the_negotiated_revision_has() {
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
        let mut server = Solo::server(full_server());
        server.feed(&initialize(version, &json!({})));
        assert_eq!(server.sent()[0]["result"]["capabilities"], expected, "{version}");
    }
    let mut config = full_server();
    config.capabilities = ServerCapabilities::default();
    let mut server = Solo::server(config);
    server.feed(&initialize(ProtocolVersion::V2025_06_18, &json!({})));
    assert_eq!(server.sent()[0]["result"]["capabilities"], json!({}));
}

// req: LIFE-016 LIFE-031 LIFE-032
#[test]
fn an_end_introduces_itself_in_the_words_of_the_negotiated_revision() {
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
        let mut server = Solo::server(config);
        server.feed(&initialize(version, &json!({})));
        let sent = server.sent();
        assert_eq!(sent[0]["result"]["serverInfo"], expected, "{version}");
        assert_eq!(sent[0]["result"]["protocolVersion"], version.as_str());
    }
}
