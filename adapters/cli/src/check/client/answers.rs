//! The responses of the server of a check, unless the check sets others: a small catalogue, in all revisions.

use serde_json::{Value, json};

use crate::check::probe::{LEGACY, MODERN, NEWEST};

/// The prefix of the members of metadata of 2026-07-28.
pub(super) const META: &str = "io.modelcontextprotocol/";

/// Returns the revision that a request of 2026-07-28 names in its metadata.
pub(super) fn claim(request: &Value) -> Option<&Value> {
    request["params"]["_meta"].get(format!("{META}protocolVersion"))
}

/// Returns an error.
pub(super) fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// Returns the error for a revision that the server does not speak.
pub(super) fn unsupported(id: &Value, supported: &[&str], requested: &Value) -> Value {
    let mut answer = error(id, -32022, "Unsupported protocol version");
    answer["error"]["data"] = json!({"supported": supported, "requested": requested});
    answer
}

/// Returns the capabilities of the server.
pub(super) fn capabilities(is_modern: bool) -> Value {
    let mut all = json!({
        "tools": {"listChanged": true}, "prompts": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true}, "completions": {},
    });
    if !is_modern {
        all["logging"] = json!({});
    }
    all
}

fn server() -> Value {
    json!({"name": "mcp-check", "version": env!("CARGO_PKG_VERSION")})
}

/// Returns the response of a server with sessions.
pub(super) fn legacy(request: &Value, version: Option<&str>) -> Value {
    let (id, method) = (&request["id"], request["method"].as_str().unwrap_or_default());
    if claim(request).is_some() {
        // It knows neither the method nor the metadata.
        return match method {
            "server/discover" => error(id, -32601, "Method not found"),
            _ => error(id, -32600, "Invalid request"),
        };
    }
    let result = match method {
        "initialize" => {
            let asked = request["params"]["protocolVersion"].as_str().unwrap_or(NEWEST);
            let known = if LEGACY.contains(&asked) { asked } else { NEWEST };
            let version = version.unwrap_or(known);
            json!({"protocolVersion": version, "capabilities": capabilities(false), "serverInfo": server()})
        }
        "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => json!({}),
        _ => match feature(request, false) {
            Some(result) => result,
            None => return error(id, -32601, "Method not found"),
        },
    };
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// Returns the response of a server of 2026-07-28. `None` is a subscription, whose response comes at its end.
pub(super) fn modern(request: &Value) -> Option<Value> {
    let (id, method) = (&request["id"], request["method"].as_str().unwrap_or_default());
    let Some(version) = claim(request) else {
        let asked = &request["params"]["protocolVersion"];
        return Some(match method {
            "initialize" => unsupported(id, &[MODERN], asked),
            _ => error(id, -32602, "The request has no protocol version"),
        });
    };
    if version != MODERN {
        return Some(unsupported(id, &[MODERN], version));
    }
    let mut result = match method {
        "subscriptions/listen" => return None,
        "server/discover" => json!({"supportedVersions": [MODERN], "capabilities": capabilities(true)}),
        _ => match feature(request, true) {
            Some(result) => result,
            None => return Some(error(id, -32601, "Method not found")),
        },
    };
    result["resultType"] = json!("complete");
    result["_meta"] = json!({format!("{META}serverInfo"): server()});
    if method == "server/discover" || method.ends_with("/list") || method == "resources/read" {
        result["ttlMs"] = json!(0);
        result["cacheScope"] = json!("private");
    }
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// Returns the acknowledgment of a subscription.
pub(super) fn acknowledgment(request: &Value) -> Value {
    let params = json!({
        "notifications": request["params"]["notifications"],
        "_meta": {format!("{META}subscriptionId"): request["id"]},
    });
    json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})
}

/// Returns the result of a method of a feature. Any name exists, so that clients get as far as they can.
fn feature(request: &Value, is_modern: bool) -> Option<Value> {
    let params = &request["params"];
    Some(match request["method"].as_str()? {
        "tools/list" => json!({"tools": tools(is_modern)}),
        "tools/call" => json!({"content": [{"type": "text", "text": "checked"}]}),
        "resources/list" => json!({"resources": [{"uri": "check://notes", "name": "notes", "mimeType": "text/plain"}]}),
        "resources/templates/list" => {
            json!({"resourceTemplates": [{"uriTemplate": "check://notes/{id}", "name": "note"}]})
        }
        "resources/read" => json!({"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": "checked"}]}),
        "prompts/list" => {
            let argument = json!({"name": "name", "required": true});
            json!({"prompts": [{"name": "greet", "description": "Greets", "arguments": [argument]}]})
        }
        "prompts/get" => {
            let content = json!({"type": "text", "text": "checked"});
            json!({"messages": [{"role": "user", "content": content}]})
        }
        "completion/complete" => json!({"completion": {"values": ["checked"], "total": 1, "hasMore": false}}),
        _ => return None,
    })
}

fn tools(is_modern: bool) -> Value {
    let mut message = json!({"type": "string", "description": "A text"});
    if is_modern {
        message["x-mcp-header"] = json!("Message");
    }
    let echo = json!({"type": "object", "properties": {"message": message}, "required": ["message"]});
    let number = json!({"type": "number"});
    let add = json!({"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]});
    json!([
        {"name": "echo", "description": "Returns a text", "inputSchema": echo},
        {"name": "add", "description": "Adds numbers", "inputSchema": add},
    ])
}
