//! Tests of `mcp replay` with records of HTTP that are written by hand.

use std::fs;

use serde_json::Value;

use crate::{mcp, recorder::Folder};

/// Exchanges of a record that is written by hand.
struct Exchanges(String, u64);

impl Exchanges {
    fn new() -> Self {
        let header = serde_json::json!({"mcp_record": 1, "started": "2026", "transport": "http",
            "server": "http://a:1/mcp", "masked": true});
        Self(format!("{header}\n"), 0)
    }

    fn line(&mut self, exchange: u64, from: &str, stream: &str, member: &str, value: impl Into<Value>) {
        let t = self.0.len();
        let line =
            serde_json::json!({"t": t, "exchange": exchange, "from": from, "stream": stream, member: value.into()});
        self.0.push_str(&format!("{line}\n"));
    }

    /// Adds a whole exchange.
    fn add(&mut self, request: &str, fields: &str, body: &str, response: &str, answer: &str) -> &mut Self {
        self.1 += 1;
        let number = self.1;
        self.line(number, "client", "request-head", "text", format!("{request} HTTP/1.1\r\n{fields}\r\n"));
        if !body.is_empty() {
            self.line(number, "client", "request-body", "text", body);
        }
        self.line(number, "client", "request-body", "end", true);
        self.line(number, "server", "response-head", "text", format!("HTTP/1.1 {response}\r\n\r\n"));
        if !answer.is_empty() {
            self.line(number, "server", "response-body", "text", answer);
        }
        self.line(number, "server", "response-body", "end", true);
        self
    }

    /// Adds the handshake of a session with this id, or without one.
    fn open(&mut self, version: &str, id: &str) -> &mut Self {
        let params = serde_json::json!({"protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"}});
        let result = serde_json::json!({"protocolVersion": version, "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"}});
        let request = serde_json::json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let response = serde_json::json!({"jsonrpc": "2.0", "id": 0, "result": result});
        let status = format!("{JSON}{id}");
        self.add("POST /mcp", ACCEPT, &request.to_string(), &status, &response.to_string());
        let id = if id.is_empty() { String::new() } else { format!("{}\r\n", id.trim_start()) };
        let fields = format!("{ACCEPT}{id}MCP-Protocol-Version: {version}\r\n");
        self.add("POST /mcp", &fields, READY, "202 Accepted", "")
    }

    /// Adds an exchange whose body from this side is not in the record.
    fn lose(&mut self, from: &str, fields: &str, body: &str, answer: &str) -> &mut Self {
        self.1 += 1;
        let number = self.1;
        self.line(number, "client", "request-head", "text", format!("POST /mcp HTTP/1.1\r\n{fields}\r\n"));
        for (side, stream, head, bytes) in
            [("client", "request-body", "", body), ("server", "response-body", JSON, answer)]
        {
            if !head.is_empty() {
                self.line(number, side, "response-head", "text", format!("HTTP/1.1 {head}\r\n\r\n"));
            }
            if side == from {
                self.line(number, side, stream, "omitted", bytes.len());
            } else {
                self.line(number, side, stream, "text", bytes);
            }
            self.line(number, side, stream, "end", true);
        }
        self
    }

    fn broken(&self, folder: &Folder) -> (i32, Vec<String>, String) {
        let file = folder.file("hand.jsonl");
        fs::write(&file, &self.0).expect("it is written");
        let (code, out, error) = mcp(&["replay", "--json", file.to_str().expect("UTF-8")]);
        assert_eq!(error, "");
        let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let name = |it: &Value| format!("{} {}", it["by"].as_str().unwrap_or("?"), it["rule"].as_str().unwrap_or("-"));
        let broken = lines
            .filter(|line| line["kind"] != "end")
            .flat_map(|line| line["broken"].as_array().into_iter().flatten().map(name).collect::<Vec<_>>())
            .collect();
        (code, broken, out)
    }
}

const ACCEPT: &str = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
const JSON: &str = "200 OK\r\nContent-Type: application/json";
const EVENTS: &str = "200 OK\r\nContent-Type: text/event-stream";
const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a?b=c"}}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
const ID: &str = "\r\nMcp-Session-Id: id-1";

/// Request, headers, body, status and headers of the response, its body, and the rules.
type Row<'a> = (&'a str, &'a str, &'a str, &'a str, &'a str, &'a [&'a str]);

pub(crate) fn broken_rules_of_http() {
    let folder = Folder::new("listen-rules");
    let fields = |more: &str| format!("{ACCEPT}Mcp-Session-Id: id-1\r\n{more}");
    let version = "MCP-Protocol-Version: 2025-11-25\r\n";
    let good = fields(version);
    let bare = "Mcp-Session-Id: id-1\r\nMCP-Protocol-Version: 2025-11-25\r\n";
    let event = format!("id: 1\ndata: {RESULT}\n\n");
    let rows: &[Row<'_>] = &[
        ("POST /mcp", &good, CALL, JSON, RESULT, &[]),
        ("POST /mcp", &good, CALL, EVENTS, &event, &[]),
        ("POST /mcp", bare, CALL, JSON, RESULT, &["client HTTP-009"]),
        ("POST /mcp", &fields(""), CALL, JSON, RESULT, &["client HTTP-065"]),
        ("POST /mcp", &good, CALL, "200 OK\r\nContent-Type: text/plain", "x", &["server HTTP-017"]),
        ("POST /mcp", &good, READY, "200 OK", "", &["server HTTP-013"]),
        ("POST /mcp", &good, READY, "401 No", "", &[]),
        ("GET /mcp", &good, "", EVENTS, ": hi\n\n", &[]),
        ("GET /mcp", bare, "", EVENTS, ": hi\n\n", &["client HTTP-036"]),
        ("GET /mcp", &good, "", "405 No", "", &[]),
        ("GET /mcp", &good, "", JSON, "", &["server HTTP-037"]),
        ("POST /mcp", &good, CALL, JSON, r#"{"jsonrpc":"2.0","id":1,"result":1}"#, &["server BASE-017"]),
        ("POST /mcp", &good, CALL, JSON, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, &["server BASE-008"]),
        ("POST /mcp", &good, CALL, JSON, "no message", &["server -"]),
        ("POST /mcp", &good, CALL, "503 No", "no message", &[]),
        // Not for messages of the protocol.
        ("POST /token", "", "a=b", "200 OK\r\nContent-Type: text/plain", "x", &[]),
        ("GET /.well-known/x", "", "", JSON, "{}", &[]),
    ];
    for (request, fields, body, response, answer, expected) in rows {
        let mut record = Exchanges::new();
        record.open("2025-11-25", ID).add(request, fields, body, response, answer);
        let (code, broken, out) = record.broken(&folder);
        assert_eq!(broken, *expected, "{request} {fields} {response}: {out}");
        assert_eq!(code, i32::from(!expected.is_empty()));
    }

    // After the end of a session, and a response on a stream of its own.
    let mut record = Exchanges::new();
    record.open("2025-11-25", ID).add("DELETE /mcp", &good, "", "204 No Content", "");
    record.add("POST /mcp", &good, CALL, "404 Not Found", "").add("POST /mcp", &good, CALL, JSON, RESULT);
    assert_eq!(record.broken(&folder).1, ["server HTTP-064"]);
    let mut record = Exchanges::new();
    record.open("2025-11-25", ID).add("DELETE /mcp", &good, "", "204 No Content", "");
    for status in ["400 Bad Request", "401 Unauthorized", "503 Service Unavailable"] {
        record.add("POST /mcp", &good, CALL, status, "");
    }
    assert_eq!(record.broken(&folder).1, ["server HTTP-060"]);
    let mut record = Exchanges::new();
    record.open("2025-11-25", ID).add("POST /mcp", &good, CALL, EVENTS, "id: 0\ndata:\n\n");
    record.add("GET /mcp", &good, "", EVENTS, &event);
    assert_eq!(record.broken(&folder).1, ["server HTTP-041"]);
    // A stream that is resumed has it, and may send it again.
    let mut record = Exchanges::new();
    record.open("2025-11-25", ID).add("POST /mcp", &good, CALL, EVENTS, "id: 0\ndata:\n\n");
    let resumed = fields(&format!("{version}Last-Event-ID: 0\r\n"));
    record.add("GET /mcp", &resumed, "", EVENTS, &event).add("GET /mcp", &resumed, "", EVENTS, &event);
    assert_eq!(record.broken(&folder).1, Vec::<String>::new());
}

pub(crate) fn broken_rules_of_http_of_2026() {
    let folder = Folder::new("listen-2026");
    let body = |version: &str, method: &str| {
        serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "a?b=c", "_meta": {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {}}}})
        .to_string()
    };
    let call = body("2026-07-28", "tools/call");
    let result = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}"#;
    let fields = |version: &str, method: &str, name: &str| {
        format!("{ACCEPT}MCP-Protocol-Version: {version}\r\nMcp-Method: {method}\r\nMcp-Name: {name}\r\n")
    };
    let good = fields("2026-07-28", "tools/call", "a?b=id-1");
    let unknown = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"x"}}"#;
    let rows: &[(&str, &str, &str, &str, &[&str])] = &[
        (&good, &call, JSON, result, &[]),
        (&fields("2026-07-28", "tools/call", "=?base64?YT9iPWM=?="), &call, JSON, result, &[]),
        (&fields("2026-07-28", "tools/call", "b"), &call, JSON, result, &["client M-HTTP-037"]),
        (&fields("2026-07-28", "tools/Call", "a?b=c"), &call, JSON, result, &["client M-HTTP-036"]),
        (&fields("2025-11-25", "tools/call", "a?b=c"), &call, JSON, result, &["client M-HTTP-030"]),
        (
            "Accept: application/json\r\nLast-Event-ID: 7\r\n",
            &call,
            JSON,
            result,
            &["client M-HTTP-008", "client M-HTTP-024", "client M-HTTP-029", "client M-HTTP-036", "client M-HTTP-037"],
        ),
        (&good, &call, "200 OK\r\nContent-Type: text/html", "", &["server M-HTTP-015"]),
        (&good, &call, JSON, RESULT, &["server M-BASE-009"]),
        (&good, &call, JSON, unknown, &[]),
        (&fields("2026-07-28", "no/such", "x"), &body("2026-07-28", "no/such"), JSON, unknown, &["server M-HTTP-033"]),
        (
            &fields("2026-07-28", "no/such", "x"),
            &body("2026-07-28", "no/such"),
            "404 Not Found\r\nContent-Type: application/json",
            unknown,
            &[],
        ),
    ];
    for (fields, body, response, answer, expected) in rows {
        let mut record = Exchanges::new();
        // Two clients with the same ids, so the same request has been sent before.
        record.add("POST /mcp", &good, &call, JSON, result).add("POST /mcp", fields, body, response, answer);
        let (code, broken, out) = record.broken(&folder);
        assert_eq!(broken, *expected, "{fields} {response}: {out}");
        assert_eq!(code, i32::from(!expected.is_empty()));
    }
}

pub(crate) fn sessions_over_http_are_told_apart() {
    let folder = Folder::new("listen-sessions");
    let fields = |id: &str| format!("{ACCEPT}Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
    let mut record = Exchanges::new();
    record.open("2025-11-25", ID).open("2025-11-25", "\r\nMcp-Session-Id: id-2");
    record.add("POST /mcp", &fields("id-1"), CALL, JSON, RESULT).add("POST /mcp", &fields("id-2"), CALL, JSON, RESULT);
    let (code, broken, out) = record.broken(&folder);
    assert_eq!((code, broken), (0, Vec::new()), "the same ids are those of two sessions: {out}");
    assert!(out.contains("\"session\":1") && out.contains("\"session\":2"), "{out}");
    // One session that uses an id twice, after its first use was refused, and then once more.
    let mut record = Exchanges::new();
    record.open("2025-11-25", ID).add("POST /mcp", &fields("id-1"), CALL, "401 Unauthorized", "");
    record.add("POST /mcp", &fields("id-1"), CALL, JSON, RESULT);
    assert_eq!(record.broken(&folder).1, Vec::<String>::new());
    record.add("POST /mcp", &fields("id-1"), CALL, JSON, RESULT);
    assert_eq!(record.broken(&folder).1, ["client BASE-006"]);
    // Two clients without ids of sessions cannot be told apart.
    let mut record = Exchanges::new();
    let bare = format!("{ACCEPT}MCP-Protocol-Version: 2025-11-25\r\n");
    record.open("2025-11-25", "").add("POST /mcp", &bare, CALL, JSON, RESULT).add(
        "POST /mcp",
        &bare,
        CALL,
        JSON,
        RESULT,
    );
    assert_eq!(record.broken(&folder).1, ["client BASE-006"]);
    record.open("2025-11-25", "").add("POST /mcp", &bare, CALL, JSON, RESULT);
    let (_, broken, out) = record.broken(&folder);
    assert_eq!(broken, Vec::<String>::new(), "{out}");
    assert!(out.contains("\"not_judged\":"), "{out}");
    // A session whose beginning is not in the record.
    let mut record = Exchanges::new();
    record.add("POST /mcp", &fields("id-7"), CALL, JSON, r#"{"jsonrpc":"2.0","id":9,"result":1}"#);
    let (code, broken, out) = record.broken(&folder);
    assert_eq!((code, broken), (0, Vec::new()), "{out}");
    let file = folder.file("hand.jsonl");
    let (code, _, error) = mcp(&["replay", "--against", "x", file.to_str().expect("UTF-8")]);
    assert!(code == 2 && error.contains("the record is one of http, and this needs one of stdio"), "{error}");
}

pub(crate) fn what_is_lost_accuses_no_side() {
    let folder = Folder::new("listen-lost");
    let good = format!("{ACCEPT}Mcp-Session-Id: id-1\r\nMCP-Protocol-Version: 2025-11-25\r\n");
    let mut record = Exchanges::new();
    record.open("2025-11-25", ID).lose("client", &good, CALL, RESULT);
    let (code, broken, out) = record.broken(&folder);
    assert_eq!((code, broken), (0, Vec::new()), "{out}");
    // A response that is lost is no missing one.
    let mut record = Exchanges::new();
    record.open("2025-11-25", ID).lose("server", &good, CALL, RESULT);
    let (code, broken, out) = record.broken(&folder);
    assert_eq!((code, broken), (0, Vec::new()), "{out}");
    assert!(out.contains("its response is compressed, too long, or not in the record"), "{out}");
    // A request of the server was in a response that is lost.
    let answer = r#"{"jsonrpc":"2.0","id":"s","result":{}}"#;
    record.add("POST /mcp", &good, answer, "202 Accepted", "");
    assert_eq!(record.broken(&folder).1, Vec::<String>::new());
    let body = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a", "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}}}})
    .to_string();
    let fields = format!("{ACCEPT}MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: a\r\n");
    let result = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}"#;
    let mut record = Exchanges::new();
    record.add("POST /mcp", &fields, &body, JSON, result).lose("client", &fields, &body, result);
    let (code, broken, out) = record.broken(&folder);
    assert_eq!((code, broken), (0, Vec::new()), "{out}");
    // The server responds before it has the request.
    let mut record = Exchanges::new();
    record.line(1, "client", "request-head", "text", "POST /mcp HTTP/1.1\r\nContent-Length: 9\r\n\r\n");
    record.line(1, "server", "response-head", "text", "HTTP/1.1 413 Too \u{202e}\u{9b}Large\r\n\r\n");
    record.line(1, "server", "response-body", "end", true);
    record.line(2, "client", "request-head", "text", "GET /\u{202e}\u{9b}\u{2028} HTTP/1.1\r\n\r\n");
    record.line(2, "client", "request-body", "end", true);
    let (_, _, out) = record.broken(&folder);
    assert!(out.contains("413 for POST /mcp"), "{out}");
    assert!(out.contains("GET /\\u202e\\u009b\\u2028"), "{out}");
}

pub(crate) fn sessions_that_were_given_up_are_silent() {
    let folder = Folder::new("listen-given-up");
    let fields = |id: &str| format!("{ACCEPT}Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
    let mut record = Exchanges::new();
    record.open("2025-11-25", ID);
    // A request whose response comes after many other sessions.
    let open = 1_000_000;
    let head = |id: &str| format!("POST /mcp HTTP/1.1\r\n{}\r\n", fields(id));
    record.line(open, "client", "request-head", "text", head("id-1"));
    record.line(open, "client", "request-body", "text", CALL);
    record.line(open, "client", "request-body", "end", true);
    record.open("2025-11-25", "\r\nMcp-Session-Id: id-used");
    for number in 2..=1_100 {
        record.open("2025-11-25", &format!("\r\nMcp-Session-Id: id-{number}"));
        record.add("POST /mcp", &fields("id-used"), READY, "202 Accepted", "");
    }
    record.line(open, "server", "response-head", "text", format!("HTTP/1.1 {JSON}\r\n\r\n"));
    record.line(open, "server", "response-body", "text", RESULT);
    record.line(open, "server", "response-body", "end", true);
    // One that is used all the time is still judged.
    let wrong = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
    record.add("POST /mcp", &fields("id-used"), CALL, JSON, wrong);
    let (_, broken, out) = record.broken(&folder);
    let end = out.lines().last().expect("a line");
    assert_eq!(broken, ["server BASE-008"], "{end}");
    // Values without a name of their own are those of any session.
    let mut record = Exchanges::new();
    record.open("2025-11-25", "\r\nMcp-Session-Id: id-more").open("2025-11-25", "\r\nMcp-Session-Id: id-more");
    record.add("POST /mcp", &fields("id-more"), CALL, JSON, RESULT);
    record.add("POST /mcp", &fields("id-more"), CALL, JSON, RESULT);
    assert_eq!(record.broken(&folder).1, Vec::<String>::new());
    // A client that opens a new session may still send the id of the old one.
    let mut record = Exchanges::new();
    record.open("2025-11-25", ID);
    let request = serde_json::json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
    let result = serde_json::json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}});
    let stale = format!("{ACCEPT}Mcp-Session-Id: id-1\r\n");
    let status = format!("{JSON}\r\nMcp-Session-Id: id-2");
    record.add("POST /mcp", &stale, &request.to_string(), &status, &result.to_string());
    assert_eq!(record.broken(&folder).1, Vec::<String>::new());
    // Two clients without ids of sessions, both of which begin before one of them goes on.
    let mut record = Exchanges::new();
    let bare = format!("{ACCEPT}MCP-Protocol-Version: 2025-11-25\r\n");
    record.open("2025-11-25", "").open("2025-11-25", "");
    record.add("POST /mcp", &bare, CALL, JSON, RESULT).add("POST /mcp", &bare, CALL, JSON, RESULT);
    assert_eq!(record.broken(&folder).1, Vec::<String>::new());
}

pub(crate) fn addresses_are_relative_to_their_stream() {
    let folder = Folder::new("listen-relative");
    for (address, target) in [("m?s=id-1", "/x/m?s=id-1"), ("?s=id-1", "/x/sse?s=id-1"), ("/m?s=id-1", "/m?s=id-1")] {
        let mut record = Exchanges::new();
        record.line(900, "client", "request-head", "text", "GET /x/sse?a=/b HTTP/1.1\r\n\r\n");
        record.line(900, "client", "request-body", "end", true);
        record.line(900, "server", "response-head", "text", format!("HTTP/1.1 {EVENTS}\r\n\r\n"));
        record.line(900, "server", "response-body", "text", format!("event: endpoint\ndata: {address}\n\n"));
        record.add(&format!("POST {target}"), ACCEPT, CALL, "202 Accepted", "");
        let (_, _, out) = record.broken(&folder);
        let call = out.lines().find(|line| line.contains("tools/call")).expect(&out);
        assert!(call.contains("\"session\":1"), "{address}: {call}");
    }
}
