//! Both eras at one endpoint: the era of a request, and the revisions that its headers may name.

use mcp_proto::{connection::ServerConfig, protocol::VersionSet};
use mcp_tests::{
    harness::full_server,
    http_server::{HttpServer, initialize, modern, post},
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

/// Returns the status, and the code of the error if there is one.
fn outcome(server: &mut HttpServer, request: http::Request<Vec<u8>>) -> (u16, Option<i64>) {
    let reply = server.request(request);
    if reply.body.is_empty() {
        (reply.status(), None)
    } else {
        (reply.status(), reply.json()["error"]["code"].as_i64())
    }
}

// req: HTTP-067 HTTP-068 HTTP-069 HTTP-054
#[test]
fn rejects_unserved_version_headers_in_a_session() {
    for negotiated in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        for versions in [VersionSet::LEGACY, VersionSet::ALL] {
            let mut server = HttpServer::new(serving(versions));
            let id = server.begin(negotiated);
            let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
            for version in [None, Some("2025-03-26"), Some("2025-06-18"), Some(negotiated), Some(" 2025-11-25 ")] {
                assert_eq!(outcome(&mut server, with(version, Some(&id), &ping)), (200, None), "{version:?}");
            }
            for version in ["", "2025-11-26", "2031-01-01", "1", "2025-11-25, 2025-11-25", "2026-07-28"] {
                let (status, code) = outcome(&mut server, with(Some(version), Some(&id), &ping));
                assert_eq!(status, 400, "{version:?}");
                assert!(matches!(code, Some(-32600 | -32602 | -32020)), "{version:?}: {code:?}");
                let request = mcp_tests::http_server::get("/mcp")
                    .header("mcp-session-id", &id)
                    .header("mcp-protocol-version", version);
                assert_eq!(outcome(&mut server, request.body(Vec::new()).expect("a request")).0, 400, "{version:?}");
                let request = http::Request::delete("/mcp")
                    .header(http::header::HOST, "localhost")
                    .header("mcp-session-id", &id)
                    .header("mcp-protocol-version", version);
                assert_eq!(outcome(&mut server, request.body(Vec::new()).expect("a request")).0, 400, "{version:?}");
            }
            assert_eq!(server.endpoint.len(), 1, "the session goes on");
        }
    }
}

// req: M-HTTP-031 M-HTTP-034 M-HTTP-046 M-DUAL-019 M-DUAL-020 M-DUAL-021 M-DUAL-041
#[test]
fn header_and_body_determine_the_era_of_a_request() {
    let mut server = HttpServer::new(serving(VersionSet::ALL));
    let id = server.begin("2025-11-25");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let modern = claiming("2026-07-28");
    let unknown = claiming("2031-01-01");
    for session in [None, Some(&*id)] {
        // A header with the modern revision, or with an unknown one, makes the request modern.
        assert_eq!(outcome(&mut server, with(Some("2026-07-28"), session, &modern)), (200, None));
        assert_eq!(outcome(&mut server, with(Some("2026-07-28"), session, &list)), (400, Some(-32602)));
        assert_eq!(outcome(&mut server, with(Some("2031-01-01"), session, &list)), (400, Some(-32602)));
        assert_eq!(outcome(&mut server, with(Some("2031-01-01"), session, &unknown)), (400, Some(-32022)));
        assert_eq!(outcome(&mut server, with(Some("2031-01-01"), session, &modern)), (400, Some(-32020)));
        assert_eq!(outcome(&mut server, with(Some("2026-07-28"), session, &unknown)), (400, Some(-32020)));
        // A header of the legacy era with a body that claims to be modern.
        assert_eq!(outcome(&mut server, with(Some("2025-11-25"), session, &modern)), (400, Some(-32020)));
        assert_eq!(
            outcome(&mut server, with(Some("2025-11-25"), session, &claiming("2025-11-25"))),
            (400, Some(-32022))
        );
        assert_eq!(outcome(&mut server, with(None, session, &modern)), (400, Some(-32020)));
    }
    assert_eq!(outcome(&mut server, with(None, Some(&id), &list)), (200, None));
    assert_eq!(outcome(&mut server, with(Some("2025-11-25"), Some(&id), &list)), (200, None));
    assert_eq!(outcome(&mut server, with(None, None, &list)), (400, Some(-32600)));
    assert_eq!(outcome(&mut server, with(Some("2025-11-25"), None, &initialize("2025-11-25"))), (200, None));
    assert_eq!(server.endpoint.len(), 2);
}

// req: M-DUAL-023 M-DUAL-039 M-DUAL-040
#[test]
fn modern_requests_ignore_the_session_header() {
    let mut server = HttpServer::new(serving(VersionSet::ALL));
    let id = server.begin("2025-11-25");
    let level = json!({"jsonrpc": "2.0", "id": 9, "method": "logging/setLevel", "params": {"level": "debug"}});
    server.send_message(&id, &level);
    let key = server.take_request();
    server.respond(key, &json!({}));
    let mut request = modern(&json!(1), "tools/call", json!({"name": "t"}));
    request.headers_mut().insert("mcp-session-id", id.parse().expect("a value"));
    let requested = server.send(request);
    let (session, key) = server.take_request();
    let session = server.sessions.get_mut(&session).expect("it has one of its own");
    assert_eq!(session.id(), None);
    let context = session.connection(mcp_proto::rpc::Timestamp::ZERO).context(key).expect("it is open");
    assert_eq!((context.version.as_str(), context.log_level), ("2026-07-28", None));
    assert_eq!(context.client_capabilities.set().iter().count(), 0);
    server.respond((*server.sessions.keys().next_back().expect("it is there"), key), &json!({"content": []}));
    assert_eq!(server.reply(requested).status(), 200);
    assert_eq!(server.reply(requested).header("mcp-session-id"), None);
    let opening = modern(&json!(2), "initialize", json!({}));
    assert_eq!(outcome(&mut server, opening), (404, Some(-32601)));
}

// req: M-DUAL-024 M-DUAL-026
#[test]
fn modern_server_names_its_revision_to_old_clients() {
    let mut server = HttpServer::new(serving(VersionSet::MODERN));
    let reply = server.request(with(None, None, &initialize("2025-11-25")));
    assert_eq!((reply.status(), &reply.json()["id"]), (400, &json!(0)));
    assert_eq!(reply.json()["error"]["code"], -32020);
    assert!(reply.json()["error"]["message"].as_str().is_some_and(|message| message.contains("2026-07-28")));
    assert_eq!(server.request(with(Some("2025-11-25"), None, &initialize("2025-11-25"))).status(), 400);
    assert_eq!(outcome(&mut server, with(Some("2026-07-28"), None, &claiming("2026-07-28"))), (200, None));
}

#[test]
fn legacy_server_refuses_modern_requests_with_400() {
    let mut server = HttpServer::new(serving(VersionSet::LEGACY));
    let (status, code) = outcome(&mut server, with(Some("2026-07-28"), None, &claiming("2026-07-28")));
    assert_eq!(status, 400);
    assert!(!matches!(code, Some(-32022..=-32020)), "{code:?}");
    assert_eq!(outcome(&mut server, with(None, None, &initialize("2025-11-25"))), (200, None));
}
