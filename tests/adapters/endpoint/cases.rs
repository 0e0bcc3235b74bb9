//! Requests that are refused, each with its status and without any state.

use serde_json::json;

use crate::raw::Raw;

/// A request that is refused.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) status: u16,
    /// The code of the JSON-RPC error in the body.
    pub(crate) code: Option<i64>,
}

/// The code for `Mcp-*` headers that differ from the body.
const MISMATCH: i64 = -32020;

fn case(name: impl Into<String>, request: &Raw, status: u16) -> Case {
    Case { name: name.into(), bytes: request.bytes(), status, code: None }
}

/// One request for each feature of an endpoint.
fn ways() -> [(&'static str, Raw); 6] {
    let bare = |line| Raw::new(line).set("mcp-session-id", &"A".repeat(32));
    [
        ("initialize", Raw::initialize()),
        ("a request of 2026-07-28", Raw::modern("tools/list", json!({}))),
        ("a stream", bare("GET /mcp HTTP/1.1")),
        ("the end of a session", bare("DELETE /mcp HTTP/1.1")),
        ("an old stream", Raw::new("GET /sse HTTP/1.1")),
        ("an old message", Raw::post("/message?sessionId=x", &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}))),
    ]
}

/// Host names that are not of this machine, as in DNS rebinding, where a page resolves its own name to a loopback
/// address.
pub(crate) fn rebinding() -> Vec<Case> {
    let mut cases = Vec::new();
    for (way, request) in ways() {
        for host in [
            "evil.example",
            "evil.example:80",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1:80@evil.example",
            "localhost.",
            "0.0.0.0",
            "[::2]",
            "2130706433",
            "localhost, evil.example",
            "",
        ] {
            cases.push(case(format!("{way} at {host:?}"), &request.clone().set("host", host), 403));
        }
        cases.push(case(format!("{way} nowhere"), &request.clone().without("host"), 400));
        cases.push(case(format!("{way} in two places"), &request.add("host", "localhost"), 400));
    }
    let absolute = |target: &str| Raw::initialize().line(&format!("POST http://{target}/mcp HTTP/1.1"));
    cases.push(case("a target elsewhere", &absolute("evil.example").set("host", "evil.example"), 403));
    cases.push(case("a target that Host differs from", &absolute("localhost").set("host", "evil.example"), 400));
    cases.push(case("Host that the target differs from", &absolute("evil.example"), 400));
    cases.push(case("no name in HTTP/1.0", &Raw::initialize().without("host").line("POST /mcp HTTP/1.0"), 400));
    cases
}

/// Requests that a page of another site can cause in a browser, with or without a preflight.
pub(crate) fn cross_site() -> Vec<Case> {
    let mut cases = Vec::new();
    // A page can cause a GET request without `Origin`, and this one begins a session.
    let old_stream = Raw::new("GET /sse HTTP/1.1").set("sec-fetch-site", "cross-site");
    cases.push(case("an old stream for a page of another site", &old_stream, 403));
    for (way, request) in ways() {
        for origin in [
            "http://evil.example",
            "https://localhost.evil.example",
            "http://127.0.0.1.nip.io",
            "http://localhost@evil.example",
            "null",
            "file://",
            "",
        ] {
            cases.push(case(format!("{way} from {origin:?}"), &request.clone().set("origin", origin), 403));
        }
        let twice = request.add("origin", "http://localhost").add("origin", "http://localhost");
        cases.push(case(format!("{way} from two places"), &twice, 403));
    }
    // Content types that browsers send without a preflight.
    for simple in
        ["text/plain", "text/plain; a=application/json", "application/x-www-form-urlencoded", "multipart/form-data"]
    {
        cases.push(case(format!("a form as {simple}"), &Raw::initialize().set("content-type", simple), 415));
        let modern = Raw::modern("tools/list", json!({})).set("content-type", simple);
        cases.push(case(format!("a modern form as {simple}"), &modern, 415));
    }
    cases.push(case("no type", &Raw::initialize().without("content-type"), 415));
    let preflight = Raw::new("OPTIONS /mcp HTTP/1.1").add("access-control-request-method", "POST");
    cases.push(case("a preflight of a page", &preflight.clone().add("origin", "http://evil.example"), 403));
    cases.push(case("a preflight without an origin", &preflight, 405));
    cases
}

/// Unknown session ids.
pub(crate) fn guessing() -> Vec<Case> {
    let mut cases = Vec::new();
    let ids = [
        "A".repeat(32),
        "0".repeat(32),
        "x".into(),
        "A".repeat(31),
        "A".repeat(1000),
        "../../etc".into(),
        "é".repeat(16),
    ];
    for id in &ids {
        for line in ["GET /mcp HTTP/1.1", "DELETE /mcp HTTP/1.1"] {
            cases.push(case(format!("{line} with {id:.40}"), &Raw::new(line).set("mcp-session-id", id), 404));
        }
        let call = Raw::post("/mcp", &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
        cases.push(case(format!("a request with {id:.40}"), &call.set("mcp-session-id", id), 404));
        let first = Raw::initialize().set("mcp-session-id", id);
        cases.push(case(format!("a first one with {id:.40}"), &first, 404));
        let again = Raw::new("GET /mcp HTTP/1.1").set("mcp-session-id", id).set("last-event-id", "1-1");
        cases.push(case(format!("a stream of {id:.40}"), &again, 404));
    }
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for query in [format!("?sessionId={}", ids[0]), "?sessionId=x".into(), "?sessionId=%41".into()] {
        cases.push(case(
            format!("an old message with {query:.40}"),
            &Raw::post(&format!("/message{query}"), &ping),
            404,
        ));
    }
    cases.push(case("an old message without", &Raw::post("/message", &ping), 400));
    cases.push(case("a stream without", &Raw::new("GET /mcp HTTP/1.1"), 400));
    cases.push(case(
        "a request without",
        &Raw::post("/mcp", &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})),
        400,
    ));
    let twice = Raw::new("GET /mcp HTTP/1.1").add("mcp-session-id", &ids[0]).add("mcp-session-id", &ids[1]);
    cases.push(case("two ids", &twice, 400));
    cases
}

/// Headers for proxies that differ from the body.
pub(crate) fn mirrored() -> Vec<Case> {
    let other = |name: &str, value: &str| Raw::pick().set(name, value);
    let twice = |name: &str, value: &str| Raw::pick().add(name, value);
    let table = [
        ("another method", other("mcp-method", "tools/list")),
        ("a method in capitals", other("mcp-method", "TOOLS/CALL")),
        ("no method", Raw::pick().without("mcp-method")),
        ("two methods", twice("mcp-method", "tools/call")),
        ("another name", other("mcp-name", "harmless")),
        ("a name in capitals", other("mcp-name", "Pick")),
        ("no name", Raw::pick().without("mcp-name")),
        ("two names", twice("mcp-name", "pick")),
        ("a name that is no base64", other("mcp-name", "=?base64?cGljaw?=")),
        ("another name in base64", other("mcp-name", "=?base64?aGFybWxlc3M=?=")),
        ("another argument", other("mcp-param-row", "13")),
        ("no argument", Raw::pick().without("mcp-param-row")),
        ("an argument that is no number", other("mcp-param-row", "12x")),
        ("two arguments", twice("mcp-param-row", "12")),
        ("two arguments that differ", twice("mcp-param-row", "13")),
        ("an argument that is no text", other("mcp-param-row", "1\u{e9}2")),
        ("another revision", other("mcp-protocol-version", "2025-11-25")),
    ];
    table
        .into_iter()
        .map(|(name, request)| Case { code: Some(MISMATCH), ..case(name, &request, 400) })
        .chain([case("two revisions", &twice("mcp-protocol-version", "2026-07-28"), 400)])
        .collect()
}

/// Framing that two parsers could interpret in different ways.
pub(crate) fn framing() -> Vec<Case> {
    let fine = || Raw::initialize();
    let head = |text: &str| {
        let bytes = fine().bytes();
        [text.as_bytes(), &bytes[bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1)..]].concat()
    };
    let in_head = |text: &str| head(&format!("POST /mcp HTTP/1.1\r\n{text}\r\n"));
    let chunked = |body: &str| fine().set("transfer-encoding", "chunked").body(body).bytes();
    let table = [
        ("two lengths", fine().add("content-length", "1").bytes()),
        ("two lengths in one", fine().set("content-length", "5, 6").bytes()),
        ("a length with a sign", fine().set("content-length", "+5").bytes()),
        ("a length below zero", fine().set("content-length", "-1").bytes()),
        ("a length in hexadecimal", fine().set("content-length", "0x10").bytes()),
        ("a length that is none", fine().set("content-length", "").bytes()),
        ("a length that no number holds", fine().set("content-length", "99999999999999999999").bytes()),
        ("another encoding", fine().without("content-length").set("transfer-encoding", "gzip").bytes()),
        (
            "another encoding at the end",
            fine().without("content-length").set("transfer-encoding", "chunked, gzip").bytes(),
        ),
        (
            "an encoding in HTTP/1.0",
            fine().line("POST /mcp HTTP/1.0").set("transfer-encoding", "chunked").body("0\r\n\r\n").bytes(),
        ),
        ("a blank before the colon", in_head("content-length : 5")),
        ("a line that goes on", in_head("x-a: b\r\n c")),
        ("a bare CR in a value", in_head("x-a: b\rcontent-length: 5")),
        ("a bare CR as an end", in_head("x-a: b\rx-b: c")),
        ("a NUL", in_head("x-a: b\0c")),
        ("no colon", in_head("nothing")),
        ("no name", in_head(": value")),
        ("a blank in a name", in_head("x a: b")),
        ("no version", head("POST /mcp\r\n")),
        ("a version to come", head("POST /mcp HTTP/3.0\r\n")),
        ("a target with a blank", head("POST /m cp HTTP/1.1\r\n")),
        ("a chunk of no size", chunked("\r\nx\r\n0\r\n\r\n")),
        ("a chunk of a size that is none", chunked("5x\r\nhello\r\n0\r\n\r\n")),
        ("a chunk of a size below zero", chunked("-5\r\nhello\r\n0\r\n\r\n")),
        ("a chunk of a size that no number holds", chunked("fffffffffffffffff\r\nhello\r\n0\r\n\r\n")),
        ("a chunk that goes on", chunked("5\r\nhelloworld\r\n0\r\n\r\n")),
    ];
    table.into_iter().map(|(name, bytes)| Case { name: name.into(), bytes, status: 400, code: None }).collect()
}

/// Oversized heads.
pub(crate) fn heads() -> Vec<Case> {
    let large = |bytes: usize| "x".repeat(bytes);
    let many = (0..90).fold(Raw::initialize(), |request, n| request.add(&format!("x-{n}"), &large(1000)));
    let uri = |bytes| Raw::initialize().line(&format!("POST /mcp?{} HTTP/1.1", large(bytes)));
    vec![
        case("a large header", &Raw::initialize().add("x", &large(70_000)), 431),
        case("a header larger than any buffer", &Raw::initialize().add("x", &large(1 << 20)), 431),
        case("many headers", &many, 431),
        case(
            "more headers than there can be",
            &(0..2000).fold(Raw::initialize(), |it, n| it.add(&format!("x-{n}"), "")),
            431,
        ),
        case("a large target", &uri(64 << 10), 414),
        case("a large argument", &Raw::pick().set("mcp-param-row", &large(70_000)), 431),
    ]
}
