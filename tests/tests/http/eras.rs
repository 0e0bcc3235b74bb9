//! Both eras at one endpoint: which era a request is of, and which revisions its headers may name.

use mcp_proto::{connection::ServerConfig, protocol::VersionSet};
use mcp_tests::{
    solo::full_server,
    web::{Web, initialize, modern, post},
};
use serde_json::{Value, json};

fn serving(versions: VersionSet) -> ServerConfig {
    let mut config = full_server();
    config.settings.versions = versions;
    config
}

fn with(version: Option<&str>, session: Option<&str>, message: &Value) -> http::Request<Vec<u8>> {
    let mut request = post("/mcp");
    if let Some(version) = version {
        request = request.header("MCP-Protocol-Version", version);
    }
    if let Some(session) = session {
        request = request.header("MCP-Session-Id", session);
    }
    let method = message["method"].as_str().unwrap_or_default();
    request.header("Mcp-Method", method).body(message.to_string().into_bytes()).expect("a request")
}

fn claiming(version: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {}}}})
}

/// The status, and the code of the error if it is one.
fn outcome(web: &mut Web, request: http::Request<Vec<u8>>) -> (u16, Option<i64>) {
    let reply = web.ask(request);
    if reply.body.is_empty() {
        (reply.status(), None)
    } else {
        (reply.status(), reply.json()["error"]["code"].as_i64())
    }
}

// req: HTTP-067 HTTP-068 HTTP-069 HTTP-054
#[test]
fn a_session_names_a_revision_that_is_served_or_none() {
    for negotiated in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        for versions in [VersionSet::LEGACY, VersionSet::ALL] {
            let mut web = Web::new(serving(versions));
            let id = web.begin(negotiated);
            let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
            for version in [None, Some("2025-03-26"), Some("2025-06-18"), Some(negotiated), Some(" 2025-11-25 ")] {
                assert_eq!(outcome(&mut web, with(version, Some(&id), &ping)), (200, None), "{version:?}");
            }
            for version in ["", "2025-11-26", "2031-01-01", "1", "2025-11-25, 2025-11-25", "2026-07-28"] {
                let (status, code) = outcome(&mut web, with(Some(version), Some(&id), &ping));
                assert_eq!(status, 400, "{version:?}");
                assert!(matches!(code, Some(-32600 | -32602 | -32020)), "{version:?}: {code:?}");
                let request =
                    mcp_tests::web::get("/mcp").header("mcp-session-id", &id).header("mcp-protocol-version", version);
                assert_eq!(outcome(&mut web, request.body(Vec::new()).expect("a request")).0, 400, "{version:?}");
                let request = http::Request::delete("/mcp")
                    .header(http::header::HOST, "localhost")
                    .header("mcp-session-id", &id)
                    .header("mcp-protocol-version", version);
                assert_eq!(outcome(&mut web, request.body(Vec::new()).expect("a request")).0, 400, "{version:?}");
            }
            assert_eq!(web.endpoint.len(), 1, "the session goes on");
        }
    }
}

// req: M-HTTP-031 M-HTTP-034 M-HTTP-046 M-DUAL-019 M-DUAL-020 M-DUAL-021 M-DUAL-041
#[test]
fn the_era_of_a_request_is_where_the_table_says() {
    let mut web = Web::new(serving(VersionSet::ALL));
    let id = web.begin("2025-11-25");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let modern = claiming("2026-07-28");
    let unknown = claiming("2031-01-01");
    for session in [None, Some(&*id)] {
        // A header that names the modern era, or nothing that is known: modern, whatever else is there.
        assert_eq!(outcome(&mut web, with(Some("2026-07-28"), session, &modern)), (200, None));
        assert_eq!(outcome(&mut web, with(Some("2026-07-28"), session, &list)), (400, Some(-32602)));
        assert_eq!(outcome(&mut web, with(Some("2031-01-01"), session, &list)), (400, Some(-32602)));
        assert_eq!(outcome(&mut web, with(Some("2031-01-01"), session, &unknown)), (400, Some(-32022)));
        assert_eq!(outcome(&mut web, with(Some("2031-01-01"), session, &modern)), (400, Some(-32020)));
        assert_eq!(outcome(&mut web, with(Some("2026-07-28"), session, &unknown)), (400, Some(-32020)));
        // A header of the legacy era over a body that claims to be modern.
        assert_eq!(outcome(&mut web, with(Some("2025-11-25"), session, &modern)), (400, Some(-32020)));
        assert_eq!(outcome(&mut web, with(Some("2025-11-25"), session, &claiming("2025-11-25"))), (400, Some(-32022)));
        assert_eq!(outcome(&mut web, with(None, session, &modern)), (400, Some(-32020)));
    }
    assert_eq!(outcome(&mut web, with(None, Some(&id), &list)), (200, None));
    assert_eq!(outcome(&mut web, with(Some("2025-11-25"), Some(&id), &list)), (200, None));
    assert_eq!(outcome(&mut web, with(None, None, &list)), (400, Some(-32600)));
    assert_eq!(outcome(&mut web, with(Some("2025-11-25"), None, &initialize("2025-11-25"))), (200, None));
    assert_eq!(web.endpoint.len(), 2);
}

// req: M-DUAL-023 M-DUAL-039 M-DUAL-040
#[test]
fn a_session_makes_no_difference_to_a_modern_request() {
    let mut web = Web::new(serving(VersionSet::ALL));
    let id = web.begin("2025-11-25");
    let level = json!({"jsonrpc": "2.0", "id": 9, "method": "logging/setLevel", "params": {"level": "debug"}});
    web.say(&id, &level);
    let key = web.asked();
    web.answer(key, &json!({}));
    let mut request = modern(&json!(1), "tools/call", json!({"name": "t"}));
    request.headers_mut().insert("mcp-session-id", id.parse().expect("a value"));
    let asked = web.send(request);
    let (session, key) = web.asked();
    let session = web.sessions.get_mut(&session).expect("it has one of its own");
    assert_eq!(session.id(), None);
    let context = session.connection(mcp_proto::rpc::Timestamp::ZERO).context(key).expect("it is open");
    assert_eq!((context.version.as_str(), context.log_level), ("2026-07-28", None));
    assert_eq!(context.client_capabilities.set().iter().count(), 0);
    web.answer((*web.sessions.keys().next_back().expect("it is there"), key), &json!({"content": []}));
    assert_eq!(web.reply(asked).status(), 200);
    assert_eq!(web.reply(asked).header("mcp-session-id"), None);
    let opening = modern(&json!(2), "initialize", json!({}));
    assert_eq!(outcome(&mut web, opening), (404, Some(-32601)));
}

// req: M-DUAL-024 M-DUAL-026
#[test]
fn a_modern_server_tells_an_old_client_what_it_speaks() {
    let mut web = Web::new(serving(VersionSet::MODERN));
    let reply = web.ask(with(None, None, &initialize("2025-11-25")));
    assert_eq!((reply.status(), &reply.json()["id"]), (400, &json!(0)));
    assert_eq!(reply.json()["error"]["code"], -32020);
    assert!(reply.json()["error"]["message"].as_str().is_some_and(|message| message.contains("2026-07-28")));
    assert_eq!(web.ask(with(Some("2025-11-25"), None, &initialize("2025-11-25"))).status(), 400);
    assert_eq!(outcome(&mut web, with(Some("2026-07-28"), None, &claiming("2026-07-28"))), (200, None));
}

#[test]
fn an_old_server_sends_a_modern_client_back_without_claiming_to_be_modern() {
    let mut web = Web::new(serving(VersionSet::LEGACY));
    let (status, code) = outcome(&mut web, with(Some("2026-07-28"), None, &claiming("2026-07-28")));
    assert_eq!(status, 400);
    assert!(!matches!(code, Some(-32022..=-32020)), "{code:?}");
    assert_eq!(outcome(&mut web, with(None, None, &initialize("2025-11-25"))), (200, None));
}
