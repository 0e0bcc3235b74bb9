//! The checks that each request passes before it reaches a session, and the statuses of refusals.

use http::{HeaderValue, Method, Request, header};
use mcp_proto::{
    connection::{Event, ServerConfig, Violation},
    http::{
        AuthRefusal, Policy,
        server::{Caller, EndpointOptions, Paths},
    },
    protocol::VersionSet,
};
use mcp_tests::{
    harness::full_server,
    http_server::{HttpServer, bytes, get, initialize, modern, post},
};
use serde_json::{Value, json};

const ROUTES: [(&str, &str); 6] = [
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("DELETE", "/mcp"),
    ("GET", "/sse"),
    ("POST", "/message?sessionId=x"),
    ("PUT", "/"),
];

fn both_eras() -> ServerConfig {
    let mut config = full_server();
    config.settings.versions = VersionSet::ALL;
    config
}

fn modern_only() -> ServerConfig {
    let mut config = full_server();
    config.settings.versions = VersionSet::MODERN;
    config
}

fn route((method, uri): (&str, &str)) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(uri)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream")
}

fn empty(request: http::request::Builder) -> Request<Vec<u8>> {
    request.body(Vec::new()).expect("a request")
}

#[track_caller]
fn status(server: &mut HttpServer, request: http::request::Builder) -> u16 {
    server.request(request.body(initialize("2025-11-25").to_string().into_bytes()).expect("a request")).status()
}

// req: HTTP-003 HTTP-004 SSE-010 M-HTTP-002 M-HTTP-003
#[test]
fn rejects_foreign_hosts_and_origins_on_every_route() {
    for config in [full_server(), both_eras(), modern_only()] {
        let mut server = HttpServer::new(config);
        for way in ROUTES {
            for host in ["evil.com", "localhost.evil.com:8001", "[::2]", "localhost.", ""] {
                assert_eq!(status(&mut server, route(way).header(header::HOST, host)), 403, "{way:?} as {host:?}");
            }
            assert_eq!(status(&mut server, route(way)), 400, "{way:?} without a name");
            for origin in ["http://evil.com", "null", "http://localhost.evil.com", "https://127.0.0.1.nip.io"] {
                let request = route(way).header(header::HOST, "localhost").header(header::ORIGIN, origin);
                let reply = server.request(empty(request));
                assert_eq!(reply.status(), 403, "{way:?} from {origin:?}");
                let error = reply.json();
                assert!(error.get("id").is_none() && error["error"]["code"].is_i64(), "{error}");
            }
        }
        assert!(server.endpoint.is_empty() && server.sessions.is_empty());
    }
    let mut server = HttpServer::new(full_server());
    let local = post("/mcp").header(header::ORIGIN, "http://localhost:6274");
    assert_eq!(status(&mut server, local), 200);
    // A foreign page with the id of a session is refused.
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut server = HttpServer::new(full_server());
        let id = server.begin(version);
        server.take_events();
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let mut request = server.in_session(&id, &list);
        request.headers_mut().insert(header::ORIGIN, HeaderValue::from_static("http://evil.com"));
        assert_eq!(server.request(request).status(), 403, "{version}");
        assert_eq!((server.take_events(), server.endpoint.len()), (vec![], 1), "{version}: nothing was processed");
    }
}

// req: SEC-001
#[test]
fn unauthorized_requests_are_challenged_on_each_route() {
    let how = || HeaderValue::from_static("Bearer resource_metadata=\"https://a.example/.well-known\"");
    for way in ROUTES.into_iter().filter(|(method, _)| *method != "PUT") {
        let mut server = HttpServer::new(both_eras());
        server.caller = Caller::Refused(AuthRefusal::unauthorized(how()).or(HeaderValue::from_static("Basic")));
        let reply = server.request(empty(route(way).header(header::HOST, "localhost")));
        assert_eq!(reply.status(), 401, "{way:?}");
        let headers = &reply.head.as_ref().expect("it has come").headers;
        let challenges: Vec<_> = headers.get_all(header::WWW_AUTHENTICATE).iter().collect();
        assert_eq!(challenges, [&how(), &HeaderValue::from_static("Basic")]);
        // A foreign page gets no challenge.
        let stranger = route(way).header(header::HOST, "localhost").header(header::ORIGIN, "http://evil.com");
        assert_eq!(server.request(empty(stranger)).status(), 403);
        server.caller = Caller::Refused(AuthRefusal::forbidden(None));
        let reply = server.request(empty(route(way).header(header::HOST, "localhost")));
        assert_eq!((reply.status(), reply.header("www-authenticate")), (403, None));
        assert!(server.sessions.is_empty());
    }
}

// req: AUTH-010 AUTH-020 AUTH-021 AUTH-022 AUTH-023
#[test]
fn every_session_request_is_authorized() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let how = || HeaderValue::from_static("Bearer error=\"invalid_token\"");
        let refusals = [(AuthRefusal::unauthorized(how()), 401), (AuthRefusal::forbidden(Some(how())), 403)];
        let mut server = HttpServer::new(full_server());
        server.set_principal("ada");
        let id = server.begin(version);
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        for (challenge, status) in refusals {
            server.caller = Caller::Refused(challenge);
            server.take_events();
            let stream = server.listen(&id, None);
            let replies =
                [server.request(server.in_session(&id, &list)), server.delete(&id), server.request(begin(version))];
            for reply in replies.iter().chain([server.reply(stream)]) {
                assert_eq!(
                    (reply.status(), reply.header("www-authenticate")),
                    (status, Some("Bearer error=\"invalid_token\""))
                );
            }
            assert_eq!((server.take_events(), server.sessions.len()), (vec![], 1), "{version}: nothing was processed");
        }
        server.set_principal("ada");
        let requested = server.send_message(&id, &list);
        let key = server.take_request();
        server.respond(key, &json!({"tools": []}));
        assert_eq!(server.reply(requested).status(), 200);
    }
}

/// Returns the POST that begins another session.
fn begin(version: &str) -> Request<Vec<u8>> {
    post("/mcp").body(initialize(version).to_string().into_bytes()).expect("a request")
}

// req: M-AUTH-033 M-AUTH-055
#[test]
fn every_stateless_request_is_authorized() {
    let mut server = HttpServer::new(modern_only());
    let how = || HeaderValue::from_static("Bearer");
    for (refused, status) in [
        (None, 200),
        (Some(AuthRefusal::unauthorized(how())), 401),
        (None, 200),
        (Some(AuthRefusal::forbidden(Some(how()))), 403),
        (None, 200),
    ] {
        server.set_principal("ada");
        if let Some(challenge) = refused {
            server.caller = Caller::Refused(challenge);
        }
        let requested = server.send(modern(&json!(1), "tools/list", json!({})));
        if status == 200 {
            let key = server.take_request();
            server.respond(key, &json!({"tools": []}));
        } else {
            assert_eq!(server.reply(requested).header("www-authenticate"), Some("Bearer"));
        }
        assert_eq!(server.reply(requested).status(), status);
        assert!(server.sessions.is_empty());
    }
}

#[test]
fn posts_require_content_type_json() {
    let mut server = HttpServer::new(both_eras());
    let table = [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("text/plain", 415),
        ("text/plain; a=application/json", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
    ];
    for (media_type, expected) in table {
        let request = Request::post("/mcp").header(header::HOST, "localhost").header(header::CONTENT_TYPE, media_type);
        assert_eq!(status(&mut server, request), expected, "{media_type:?}");
        let request = Request::post("/message?sessionId=x").header(header::HOST, "localhost");
        let refused = if expected == 200 { 404 } else { 415 };
        assert_eq!(status(&mut server, request.header(header::CONTENT_TYPE, media_type)), refused, "{media_type:?}");
    }
    assert_eq!(status(&mut server, Request::post("/mcp").header(header::HOST, "localhost")), 415);
    assert_eq!(status(&mut server, post("/mcp").header(header::CONTENT_TYPE, "application/json")), 415);
    assert_eq!(status(&mut server, post("/mcp").header(header::CONTENT_ENCODING, "gzip")), 415);
    assert_eq!(status(&mut server, post("/mcp").header(header::CONTENT_ENCODING, "identity")), 200);
}

#[test]
fn accept_header_must_allow_the_response_types() {
    let mut server = HttpServer::new(both_eras());
    let table = [
        (Some("application/json, text/event-stream"), 200),
        (Some("*/*"), 200),
        (None, 200),
        (Some("application/json"), 406),
        (Some("text/event-stream"), 406),
        (Some("application/json, text/event-stream;q=0"), 406),
        (Some("text/html"), 406),
    ];
    for (accept, expected) in table {
        let mut request = Request::post("/mcp").header(header::HOST, "localhost");
        if let Some(accept) = accept {
            request = request.header(header::ACCEPT, accept);
        }
        let request = request.header(header::CONTENT_TYPE, "application/json");
        assert_eq!(status(&mut server, request), expected, "{accept:?}");
    }
    let id = server.begin("2025-11-25");
    for (accept, expected) in [("text/event-stream", 200), ("text/*", 200), ("application/json", 406)] {
        let request = Request::get("/mcp").header(header::HOST, "localhost").header("mcp-session-id", &id);
        assert_eq!(status(&mut server, request.header(header::ACCEPT, accept)), expected, "{accept:?}");
        let request = Request::get("/sse").header(header::HOST, "localhost");
        assert_eq!(status(&mut server, request.header(header::ACCEPT, accept)), expected, "{accept:?}");
    }
}

#[test]
fn oversized_requests_are_refused_before_buffering() {
    let mut config = both_eras();
    config.settings.limits.frame_bytes = 1000;
    let mut options = EndpointOptions::new(Policy::loopback());
    options.limits.head_bytes = 2000;
    options.paths = Paths::at("/mcp").with_http_sse("/sse", "/message");
    let mut server = HttpServer::with(config, options);
    let long = "x".repeat(2000);
    assert_eq!(status(&mut server, post(&format!("/mcp?{long}"))), 414);
    assert_eq!(status(&mut server, post("/mcp").header("x-more", &long)), 431);
    let many = (0..100).fold(post("/mcp"), |request, n| request.header(format!("mcp-param-{n}"), "0123456789"));
    assert_eq!(status(&mut server, many), 431);
    for (length, expected) in [("1001", 413), ("18446744073709551615", 413), ("99999999999999999999", 400), ("x", 400)]
    {
        // The declared length is enough: the body is never read.
        let (head, ()) = post("/mcp").header(header::CONTENT_LENGTH, length).body(()).expect("a request").into_parts();
        let refused = server.endpoint.begin(&head, Caller::Anybody).expect_err("it is too large");
        assert_eq!(refused.status().as_u16(), expected, "{length}");
    }
    let (head, ()) = post("/mcp").body(()).expect("a request").into_parts();
    let mut reader = server.endpoint.begin(&head, Caller::Anybody).expect("it says nothing of its size");
    for _ in 0..10 {
        reader.feed(&[b' '; 100]).expect("it fits");
    }
    assert_eq!(reader.feed(b" ").expect_err("it does not fit").status(), 413);
    assert_eq!(reader.feed(b" ").expect_err("it still does not").status(), 413);
    // The body of a GET is not kept, and its size is limited.
    let id = server.begin("2025-11-25");
    let request = get("/mcp").header("mcp-session-id", &id).body(vec![b'x'; 1001]).expect("a request");
    assert_eq!(server.request(request).status(), 413);
    assert!(server.sessions.len() == 1);
}

#[test]
fn concurrent_bodies_share_one_limit() {
    let mut options = EndpointOptions::new(Policy::loopback());
    options.limits.body_bytes = 1000;
    let mut server = HttpServer::with(both_eras(), options);
    let (head, ()) = post("/mcp").body(()).expect("a request").into_parts();
    let mut begin = || server.endpoint.begin(&head, Caller::Anybody).expect("a head takes nothing");
    let [mut first, mut second] = [begin(), begin()];
    first.feed(&[b' '; 600]).expect("there is room");
    second.feed(&[b' '; 400]).expect("there is room");
    for _ in 0..2 {
        let refused = second.feed(b" ").expect_err("there is none");
        assert_eq!((refused.status().as_u16(), refused.headers().contains_key("retry-after")), (503, true));
    }
    // A refused exchange takes no capacity, however long its driver keeps it.
    first.feed(&[b' '; 400]).expect("there is room again");
    drop(second);
    assert!(first.end().is_err(), "it is no message");
    assert_eq!(status(&mut server, post("/mcp")), 200);
}

#[test]
fn rejects_content_length_with_transfer_encoding() {
    let mut server = HttpServer::new(both_eras());
    let request = || post("/mcp").header(header::CONTENT_LENGTH, "5");
    assert_eq!(status(&mut server, request().header(header::TRANSFER_ENCODING, "chunked")), 400);
    assert_eq!(status(&mut server, request()), 200);
}

#[test]
fn rejects_repeated_headers() {
    let mut server = HttpServer::new(both_eras());
    let id = server.begin("2025-11-25");
    let ping = || json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string().into_bytes();
    let twice =
        |request: http::request::Builder, name: &str, value: &str| request.header(name, value).header(name, value);
    let request = twice(post("/mcp"), "mcp-session-id", &id).body(ping()).expect("a request");
    assert_eq!(server.request(request).status(), 400);
    let request = twice(get("/mcp"), "mcp-session-id", &id);
    assert_eq!(server.request(empty(request)).status(), 400);
    let request = twice(get("/mcp").header("mcp-session-id", &id), "last-event-id", "g1-0");
    assert_eq!(server.request(empty(request)).status(), 400);
    for version in ["2025-11-25", "2026-07-28"] {
        let request = twice(post("/mcp").header("mcp-session-id", &id), "mcp-protocol-version", version);
        assert_eq!(server.request(request.body(ping()).expect("a request")).status(), 400);
        let request = twice(get("/mcp").header("mcp-session-id", &id), "mcp-protocol-version", version);
        assert_eq!(server.request(empty(request)).status(), 400);
    }
    let request = twice(post("/mcp"), "content-length", "2").body(b"{}".to_vec()).expect("a request");
    assert_eq!(server.request(request).status(), 400);
    let request = twice(post("/mcp"), "host", "localhost").body(ping()).expect("a request");
    assert_eq!(server.request(request).status(), 400);
}

// req: M-HTTP-086 M-HTTP-087 M-HTTP-088
#[test]
fn unknown_paths_and_methods_return_404_or_405() {
    let mut server = HttpServer::new(both_eras());
    for path in ["/", "/mcp/", "/MCP", "/sse/x", "/other"] {
        assert_eq!(server.request(empty(get(path))).status(), 404, "{path}");
    }
    for (method, path, allowed) in [
        (Method::PUT, "/mcp", "GET, POST, DELETE"),
        (Method::OPTIONS, "/mcp", "GET, POST, DELETE"),
        (Method::HEAD, "/mcp", "GET, POST, DELETE"),
        (Method::POST, "/sse", "GET"),
        (Method::GET, "/message", "POST"),
    ] {
        let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        let reply = server.request(empty(request));
        assert_eq!((reply.status(), reply.header("allow")), (405, Some(allowed)), "{path}");
    }
    let mut server = HttpServer::new(modern_only());
    for method in [Method::GET, Method::DELETE] {
        let request = Request::builder().method(method).uri("/mcp").header(header::HOST, "localhost");
        let reply = server.request(empty(request.header("mcp-session-id", "x").header("last-event-id", "1-1")));
        assert_eq!((reply.status(), reply.header("allow")), (405, Some("POST")));
    }
    assert_eq!(server.request(empty(get("/sse"))).status(), 404);
}

// req: HTTP-011 HTTP-014 M-HTTP-011 M-HTTP-013
#[test]
fn rejects_bodies_that_are_not_messages() {
    let mut server = HttpServer::new(both_eras());
    let id = server.begin("2025-11-25");
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let table: [(&[u8], i64, Value); 9] = [
        (b"", -32700, Value::Null),
        (b"{\"jsonrpc\":\"2.0\"", -32700, Value::Null),
        (b"\xff\xfe", -32700, Value::Null),
        (b"1", -32600, Value::Null),
        (b"{}", -32600, Value::Null),
        (b"{\"jsonrpc\":\"1.0\",\"id\":7,\"method\":\"ping\"}", -32600, json!(7)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\",\"params\":[]}", -32602, json!(7)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600, Value::Null),
        (deep.as_bytes(), -32600, Value::Null),
    ];
    for (body, code, named) in table {
        for request in [
            post("/mcp").header("mcp-session-id", &id),
            post("/mcp"),
            post("/mcp").header("mcp-protocol-version", "2026-07-28"),
        ] {
            let reply = server.request(request.body(body.to_vec()).expect("a request"));
            let error = reply.json();
            assert_eq!((reply.status(), &error["error"]["code"]), (400, &json!(code)), "{body:?}");
            assert_eq!(error.get("id"), Some(&named).filter(|named| !named.is_null()), "{body:?}");
        }
    }
    // A response to an unknown request, and a notification that only servers send.
    for message in [
        json!({"jsonrpc": "2.0", "id": 99, "result": {}}),
        json!({"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "no"}}),
        json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
        json!({"jsonrpc": "2.0", "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "method": "notifications/progress"}),
    ] {
        let reply = server.request(server.in_session(&id, &message));
        let error = reply.json();
        assert_eq!((reply.status(), error.get("id")), (400, None), "{message}");
    }
    for message in [
        json!([{"jsonrpc": "2.0", "id": 1, "method": "server/discover"}]),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
    ] {
        let request = post("/mcp").header("mcp-protocol-version", "2026-07-28");
        let reply = server.request(request.body(message.to_string().into_bytes()).expect("a request"));
        assert_eq!((reply.status(), &reply.json()["error"]["code"]), (400, &json!(-32600)), "{message}");
    }
}

/// The subject of the report may have ended, and no handler expects a report on that.
#[test]
fn progress_with_an_unknown_token_returns_202() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    server.take_events();
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": "x", "progress": 1}});
    let reply = server.request(server.in_session(&id, &progress));
    assert_eq!((reply.status(), reply.body.len()), (202, 0));
    assert_eq!(server.take_events(), [Event::Violation(Violation::UnknownProgress)]);
}

#[test]
fn refused_requests_leave_no_state() {
    let mut server = HttpServer::new(both_eras());
    let bodies = [
        b"junk".to_vec(),
        b"{}".to_vec(),
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"}).to_string().into_bytes(),
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 5}})
            .to_string()
            .into_bytes(),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string().into_bytes(),
        json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": {}}})
            .to_string()
            .into_bytes(),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string().into_bytes(),
        json!([initialize("2025-03-26")]).to_string().into_bytes(),
    ];
    for round in 0..10_000 {
        let mut request = post("/mcp");
        if round % 3 == 0 {
            request = request.header("mcp-protocol-version", ["2026-07-28", "2025-11-25", "x"][round % 9 / 3]);
        }
        if round % 7 == 0 {
            request = request.header("mcp-session-id", "0123456789abcdef0123456789abcdef");
        }
        let reply = server.request(request.body(bodies[round % bodies.len()].clone()).expect("a request"));
        assert!(reply.ended && reply.head.is_some());
        assert!(reply.header("mcp-session-id").is_none());
    }
    assert!(server.endpoint.is_empty() && server.sessions.is_empty());
}

#[test]
fn survives_header_values_that_are_not_text() {
    let mut server = HttpServer::new(both_eras());
    let junk = bytes(b"\xff\xfe");
    for name in ["host", "origin", "accept", "content-type", "mcp-session-id", "mcp-protocol-version", "last-event-id"]
    {
        for request in [route(("POST", "/mcp")), route(("GET", "/mcp")), route(("GET", "/sse"))] {
            let request = if name == "host" { request } else { request.header("host", "localhost") };
            let reply = server.request(empty(request.header(name, &junk)));
            assert!(reply.status() >= 400 || name == "mcp-session-id" || reply.status() == 200, "{name}");
        }
    }
}
