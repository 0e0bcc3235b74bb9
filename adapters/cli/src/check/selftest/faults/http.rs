//! Servers that break rules of HTTP.

use serde_json::{Value, json};

use super::Fault;
use crate::check::{
    probe::MODERN,
    selftest::{
        faults::Place,
        server::Profile::ModernOnly,
        wires::{Plain, Spoil},
    },
    wire::{Request, header},
};

fn body(request: &Request) -> Value {
    serde_json::from_slice(&request.body).unwrap_or_default()
}

/// Returns whether a request is one of 2026-07-28.
fn is_modern(request: &Request) -> bool {
    header(&request.headers, "mcp-protocol-version") >= Some(MODERN)
}

fn new(request: &Request, method: &str) -> bool {
    is_modern(request) && body(request)["method"] == method
}

fn old(request: &Request, method: &str) -> bool {
    !is_modern(request) && body(request)["method"] == method
}

fn has(request: &Request, name: &str, value: &str) -> bool {
    header(&request.headers, name) == Some(value)
}

fn lacks(request: &Request, name: &str) -> bool {
    header(&request.headers, name).is_none()
}

fn has_upper(request: &Request, name: &str) -> bool {
    request.headers.iter().any(|(it, _)| it == name)
}

fn kind(plain: &mut Plain, value: &str) {
    for (name, it) in &mut plain.headers {
        if name == "Content-Type" {
            *it = value.to_owned();
        }
    }
}

/// Replaces the response by an error.
fn refuse(request: &Request, plain: &mut Plain, status: u16) {
    plain.status = status;
    let error = json!({"code": -32020, "message": "no"});
    plain.body = json!({"jsonrpc": "2.0", "id": body(request)["id"], "error": error}).to_string();
    kind(plain, "application/json");
}

pub(super) const FAULTS: &[Fault] = &[
    Fault::http("listen-stream", |q, a| {
        if new(q, "subscriptions/listen") {
            let ack = a.body.lines().filter_map(|line| line.strip_prefix("data: ")).next();
            if let Some(ack) = ack.map(str::to_owned) {
                (a.body, a.stays_open) = (ack, false);
                kind(a, "application/json");
            }
        }
    }),
    Fault::http("modern-content-type", |q, a| {
        if new(q, "server/discover") {
            kind(a, "text/plain");
        }
    }),
    Fault::http("modern-http-notification", |q, a| {
        if new(q, "notifications/cancelled") {
            a.status = 200;
        }
    }),
    Fault::http("modern-origin", |q, a| {
        if is_modern(q) && !lacks(q, "origin") {
            a.status = 400;
        }
    }),
    Fault::http("modern-http-batch", |q, a| {
        if is_modern(q) && body(q).is_array() {
            a.status = 200;
        }
    }),
    Fault::http("modern-unknown-method-status", |q, a| {
        if new(q, "mcp-check/unknown") {
            a.status = 200;
        }
    }),
    Fault::http("modern-meta-status", |q, a| {
        let meta = &body(q)["params"]["_meta"];
        if is_modern(q) && meta.is_object() && meta["io.modelcontextprotocol/clientCapabilities"].is_null() {
            a.status = 200;
        }
    }),
    Fault::http("modern-version-status", |q, a| {
        let is_there = body(q)["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2999-01-01";
        if is_there && has(q, "mcp-protocol-version", "2999-01-01") {
            a.status = 200;
        }
    }),
    Fault::http("version-mismatch", |q, a| {
        let is_there = body(q)["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == MODERN;
        if is_there && has(q, "mcp-protocol-version", "2999-01-01") {
            a.status = 404;
        }
    }),
    Fault::http("method-header-missing", |q, a| {
        if new(q, "server/discover") && lacks(q, "mcp-method") {
            a.status = 404;
        }
    }),
    Fault::http("method-header-other", |q, a| {
        if new(q, "server/discover") && has(q, "mcp-method", "tools/list") {
            a.status = 404;
        }
    }),
    Fault::http("method-header-case", |q, a| {
        if has(q, "mcp-method", "SERVER/DISCOVER") {
            a.status = 404;
        }
    }),
    Fault::http("name-header-missing", |q, a| {
        if new(q, "tools/call") && lacks(q, "mcp-name") {
            a.status = 404;
        }
    }),
    Fault::http("name-header-other", |q, a| {
        if has(q, "mcp-name", "mcp-check-other") {
            a.status = 404;
        }
    }),
    Fault::http("name-header-encoded", |q, a| {
        let name = header(&q.headers, "mcp-name").unwrap_or_default();
        if name.starts_with("=?base64?") && !name.contains('*') {
            refuse(q, a, 400);
        }
    }),
    Fault::http("name-header-bad-base64", |q, a| {
        if header(&q.headers, "mcp-name").is_some_and(|name| name.contains('*')) {
            a.status = 404;
        }
    }),
    Fault::http("mismatch-id", |q, a| {
        if new(q, "server/discover") && has(q, "mcp-method", "tools/list") {
            a.body = json!({"jsonrpc": "2.0", "error": {"code": -32020, "message": "no"}}).to_string();
        }
    }),
    Fault::http("header-spaces", |q, a| {
        if header(&q.headers, "mcp-method").is_some_and(|value| value.starts_with(' ')) {
            refuse(q, a, 400);
        }
    }),
    Fault::http("modern-header-case", |q, a| {
        if has_upper(q, "MCP-METHOD") {
            refuse(q, a, 400);
        }
    }),
    Fault::http("unknown-param-header", |q, a| {
        if !lacks(q, "mcp-param-mcp-check") {
            refuse(q, a, 400);
        }
    }),
    Fault::http("modern-stream-ends", |q, a| a.stays_open |= new(q, "server/discover")).at(Place::Stream),
    Fault::http("modern-stream-ends", |q, a| a.is_cut |= new(q, "server/discover")).at(Place::Stream),
    Fault::http("modern-get", |q, a| {
        if q.method == "GET" {
            a.status = 200;
        }
    })
    .of(ModernOnly),
    Fault::http("no-session-id", |q, a| {
        if new(q, "server/discover") {
            a.headers.push(("Mcp-Session-Id".into(), "one".into()));
        }
    }),
    Fault::http("modern-sse-data", |q, a| {
        if new(q, "prompts/list") {
            a.body.push_str("data: 5\n\n");
        }
    })
    .at(Place::Stream),
    Fault::http("http-content-type", |q, a| {
        if old(q, "ping") {
            kind(a, "text/plain");
        }
    }),
    Fault::http("http-notification", |q, a| {
        if old(q, "notifications/initialized") {
            a.status = 200;
        }
    }),
    Fault::http("http-origin", |q, a| {
        if !is_modern(q) && !lacks(q, "origin") {
            a.status = 400;
        }
    }),
    Fault::http("http-origin-processed", |q, a| {
        if !is_modern(q) && !lacks(q, "origin") {
            a.body = json!({"jsonrpc": "2.0", "id": body(q)["id"], "result": {}}).to_string();
        }
    }),
    Fault::http("http-get", |q, a| {
        if q.method == "GET" {
            kind(a, "text/html");
        }
    }),
    Fault::new("session-id", Spoil::SessionIds(|number| format!("a {:x}", number.wrapping_mul(0x9e37_79b9_7f4a))))
        .at(Place::Json),
    Fault::new("session-id-unique", Spoil::SessionIds(|number| number.to_string())).at(Place::Json),
    Fault::http("session-missing", |q, a| {
        if old(q, "ping") && lacks(q, "mcp-session-id") {
            a.status = 404;
        }
    }),
    Fault::http("session-deleted", |q, a| {
        if !is_modern(q) && a.status == 404 {
            a.status = 400;
        }
    }),
    Fault::http("header-case", |q, a| {
        if has_upper(q, "MCP-SESSION-ID") {
            refuse(q, a, 400);
        }
    }),
    Fault::http("version-header-unknown", |q, a| {
        if has(q, "mcp-protocol-version", "1999-01-01") {
            a.status = 404;
        }
    }),
    Fault::http("version-header-missing", |q, a| {
        if old(q, "ping") && lacks(q, "mcp-protocol-version") && lacks(q, "origin") && !lacks(q, "mcp-session-id") {
            refuse(q, a, 400);
        }
    }),
    Fault::http("stream-ends", |q, a| a.stays_open |= old(q, "ping")).at(Place::Stream),
    Fault::http("stream-ends", |q, a| a.is_cut |= old(q, "ping")).at(Place::Stream),
    Fault::http("stream-priming", |q, a| {
        if old(q, "ping")
            && let Some((_, rest)) = a.body.split_once("\n\n")
        {
            a.body = rest.to_owned();
        }
    })
    .at(Place::Stream),
    Fault::http("sse-data", |q, a| {
        if old(q, "prompts/list") {
            a.body.push_str("data: 5\n\n");
        }
    })
    .at(Place::Stream),
    Fault::http("event-ids", |q, a| {
        if old(q, "prompts/list") {
            a.body.push_str("id: same\ndata:\n\n");
        }
    })
    .at(Place::Stream),
];
