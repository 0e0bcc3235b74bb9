//! Servers that break rules of sessions.

use serde_json::{Value, json};

use super::{Fault, add, code, error, nameless, notification, old, put, remove, result, set};
use crate::check::selftest::{
    server::Profile::{LegacyOnly, Small},
    wires::Spoil,
};

const UNKNOWN: &str = "mcp-check-unknown";

fn offers(message: &Value, version: &str) -> bool {
    old(message, "initialize") && message["params"]["protocolVersion"] == version
}

pub(super) const FAULTS: &[Fault] = &[
    Fault::messages("ping", |q, m| {
        if old(q, "ping") {
            set(m, "/result", json!({"pong": true}));
        }
    }),
    Fault::messages("id-number", |q, m| {
        if old(q, "ping") && q["id"] == 900_001 {
            set(m, "/id", json!("900001"));
        }
    })
    .also(&["one-response"]),
    Fault::messages("id-string", |q, m| {
        if old(q, "ping") && q["id"] == "900002" {
            set(m, "/id", json!(900_002));
        }
    })
    .also(&["one-response"]),
    Fault::messages("unknown-method", |q, m| {
        if old(q, "mcp-check/unknown") {
            code(m, -32602);
        }
    }),
    Fault::messages("unknown-meta", |q, m| {
        if old(q, "ping") && !q["params"]["_meta"]["example.com/mcp-check"].is_null() {
            error(q, m, -32602);
        }
    }),
    Fault::messages("null-id", |q, m| {
        if old(q, "ping") && q["id"].is_null() {
            result(q, m, json!({}));
        }
    }),
    Fault::messages("other-jsonrpc", |q, m| {
        if q["jsonrpc"] == "1.0" {
            result(q, m, json!({}));
        }
    }),
    Fault::messages("invalid-request", |q, m| {
        if q["method"] == 5 && q["params"].is_null() {
            code(m, -32602);
        }
    }),
    Fault::lines("parse-error", |line, out| {
        if line.contains("910003") && line.contains("ping") {
            out.clear();
        }
    }),
    Fault::new("after-parse-error", Spoil::HangsAt(b"this is no JSON")),
    Fault::messages("notification-response", |q, m| {
        if q["method"] == "notifications/mcp-check/unknown" {
            m.push(nameless());
        }
    })
    .also(&["hostile-notifications"])
    .of(LegacyOnly),
    Fault::new("notification-end", Spoil::HangsAt(b"notifications/mcp-check/unknown"))
        .also(&["hostile-notifications", "batch"])
        .of(LegacyOnly),
    Fault::messages("hostile-notifications", |q, m| {
        if q["method"] == "notifications/mcp-check/unknown" {
            m.push(nameless());
        }
    })
    .also(&["notification-response"])
    .of(LegacyOnly),
    Fault::messages("bad-notification-response", |q, m| {
        if q["method"] == "notifications/progress" {
            m.push(nameless());
        }
    }),
    Fault::messages("cancel-unknown", |q, m| {
        if q["params"]["requestId"] == 4_000_000_001_u32 {
            m.push(nameless());
        }
    })
    .of(LegacyOnly),
    Fault::messages("cancel-nothing", |q, m| {
        if q["method"] == "notifications/cancelled" && q["params"]["requestId"].is_null() {
            m.push(nameless());
        }
    }),
    Fault::messages("concurrent-requests", |q, m| {
        if old(q, "mcp-check/unknown") && q["id"].as_u64().is_some_and(|id| id % 7 == 1) {
            m.clear();
        }
    }),
    Fault::messages("batch", |q, m| {
        if let Some(all) = m.first_mut().and_then(Value::as_array_mut).filter(|_| q[0]["id"] == "a") {
            all.pop();
        }
    }),
    Fault::messages("batch-empty", |q, m| {
        if q.as_array().is_some_and(Vec::is_empty) {
            code(m, -32700);
        }
    }),
    Fault::messages("batch-notifications", |q, m| {
        if q[0]["method"] == "notifications/mcp-check/unknown" {
            m.push(nameless());
        }
    }),
    Fault::messages("batch-refused", |q, m| {
        if q[0]["id"] == 910_004 {
            result(&q[0], m, json!({}));
        }
    }),
    Fault::messages("initialize-result", |q, m| {
        if old(q, "initialize") {
            remove(m, "/result/serverInfo", "version");
        }
    })
    .breaks(&["LIFE-003"]),
    Fault::messages("initialize-result", |q, m| {
        if old(q, "initialize") {
            remove(m, "/result", "protocolVersion");
        }
    })
    .breaks(&["LIFE-004"])
    .also(&["legacy-beside-modern"]),
    Fault::messages("initialize-result", |q, m| {
        if old(q, "initialize") {
            set(m, "/result/protocolVersion", json!("1.0"));
        }
    })
    .breaks(&["LIFE-017"]),
    Fault::messages("initialize-version", |q, m| {
        if offers(q, "2025-11-25") {
            set(m, "/result/protocolVersion", json!("2025-06-18"));
        }
    }),
    Fault::messages("unknown-version", |q, m| {
        if offers(q, "1999-01-01") {
            set(m, "/result/protocolVersion", json!("1999-01-01"));
        }
    })
    .also(&["newest-version"]),
    Fault::messages("malformed-version", |q, m| {
        if offers(q, "no version") {
            set(m, "/result/protocolVersion", json!("no version"));
        }
    }),
    Fault::messages("newest-version", |q, m| {
        if offers(q, "1999-01-01") {
            set(m, "/result/protocolVersion", json!("2024-11-05"));
        }
    }),
    Fault::messages("capabilities", |q, m| {
        if old(q, "initialize") {
            set(m, "/result/capabilities/logging", json!(true));
        }
    })
    .breaks(&["LIFE-024"]),
    Fault::messages("capabilities", |q, m| {
        if old(q, "initialize") {
            set(m, "/result/capabilities/tools/listChanged", json!("yes"));
        }
    })
    .breaks(&["LIFE-029"]),
    Fault::messages("capabilities", |q, m| {
        if old(q, "initialize") {
            put(m, "/result/capabilities", "experimental", json!({"a": true}));
        }
    })
    .breaks(&["LIFE-026"]),
    Fault::messages("unknown-capabilities", |q, m| {
        if q["params"]["capabilities"]["mcpCheckUnknown"].is_object() {
            error(q, m, -32602);
        }
    }),
    Fault::new("ping-in-handshake", Spoil::RefusesEarlyPings).of(LegacyOnly),
    Fault::new("request-before-initialize", Spoil::AnswersEarly),
    Fault::messages("icons", |q, m| {
        if old(q, "initialize") {
            set(m, "/result/serverInfo/icons/0/src", json!("./a.svg"));
        }
    })
    .breaks(&["ICON-002"]),
    Fault::messages("icons", |q, m| {
        if old(q, "initialize") {
            set(m, "/result/serverInfo/icons/0/theme", json!("blue"));
        }
    })
    .breaks(&["ICON-003"]),
    Fault::messages("undeclared-features", |q, m| {
        if old(q, "prompts/list") {
            result(q, m, json!({"prompts": [{"name": "a"}]}));
        }
    })
    .breaks(&["LIFE-023", "PROMPT-001"])
    .of(Small),
    Fault::new("stdin-end", Spoil::Stays).of(LegacyOnly),
    Fault::messages("tools-list", |q, m| {
        if old(q, "tools/list") {
            set(m, "/result/tools/0/inputSchema/type", json!("string"));
        }
    })
    .breaks(&["TOOL-004"]),
    Fault::messages("tool-names-unique", |q, m| {
        if old(q, "tools/list") {
            set(m, "/result/tools/0/name", json!("b"));
        }
    })
    .also(&["list-stable"]),
    Fault::messages("tool-names", |q, m| {
        if old(q, "tools/list") && q["params"]["cursor"].is_null() {
            set(m, "/result/tools/0/name", json!("a b"));
        }
    }),
    Fault::messages("tool-schemas", |q, m| {
        if old(q, "tools/list") {
            set(m, "/result/tools/0/inputSchema/properties/city/type", json!("text"));
        }
    }),
    Fault::messages("tool-tasks", |q, m| {
        if old(q, "tools/list") && q["params"]["cursor"].is_null() {
            set(
                m,
                "/result/tools/0",
                json!({"name": "a", "inputSchema": {"type": "object"}, "execution": {"taskSupport": 1}}),
            );
        }
    }),
    Fault::messages("tool-unknown", |q, m| {
        if old(q, "tools/call") && q["params"]["name"] == UNKNOWN {
            result(q, m, json!({"content": [], "isError": true}));
        }
    }),
    Fault::messages("call-without-name", |q, m| {
        if old(q, "tools/call") && q["params"]["name"].is_null() {
            code(m, -32603);
        }
    }),
    Fault::messages("list-cursor", |q, m| {
        if old(q, "tools/list") {
            set(m, "/result/nextCursor", json!(5));
        }
    })
    .breaks(&["PAGE-001"]),
    Fault::messages("list-end", |q, m| {
        if old(q, "tools/list") && q["params"]["cursor"] == "next" {
            put(m, "/result", "nextCursor", json!("next"));
        }
    }),
    Fault::messages("list-stable", |q, m| {
        if old(q, "tools/list") && q["params"]["cursor"] == "next" {
            set(m, "/result/tools/0/name", json!("a"));
        }
    })
    .also(&["tool-names-unique"]),
    Fault::messages("list-invalid-cursor", |q, m| {
        if old(q, "tools/list") && q["params"]["cursor"] == UNKNOWN {
            result(q, m, json!({"tools": []}));
        }
    }),
    Fault::messages("prompts-list", |q, m| {
        if old(q, "prompts/list") {
            set(m, "/result/prompts/0/arguments/0/required", json!("yes"));
        }
    })
    .breaks(&["PROMPT-005"]),
    Fault::messages("prompt-names-unique", |q, m| {
        if old(q, "prompts/list") {
            set(m, "/result/prompts/1/name", json!("greet"));
        }
    })
    .also(&["list-stable"]),
    Fault::messages("prompt-messages", |q, m| {
        if old(q, "prompts/get") {
            set(m, "/result/messages/0/content/type", json!("video"));
        }
    })
    .breaks(&["PROMPT-011"]),
    Fault::messages("prompt-messages", |q, m| {
        if old(q, "prompts/get") {
            set(m, "/result/messages/0/content", json!({"type": "image", "data": "?", "mimeType": "image/png"}));
        }
    })
    .breaks(&["CONT-011"]),
    Fault::messages("prompt-messages", |q, m| {
        if old(q, "prompts/get") {
            set(m, "/result/messages/0/content", json!({"type": "image", "data": "AAAA"}));
        }
    })
    .breaks(&["CONT-002"]),
    Fault::messages("prompt-messages", |q, m| {
        if old(q, "prompts/get") {
            remove(m, "/result/messages/0", "role");
        }
    })
    .breaks(&["PROMPT-008"]),
    Fault::messages("prompt-messages", |q, m| {
        if old(q, "prompts/get") {
            set(m, "/result/messages/0/role", json!("system"));
        }
    })
    .breaks(&["CONT-016"]),
    Fault::messages("prompt-unknown", |q, m| {
        if old(q, "prompts/get") && q["params"]["name"] == UNKNOWN {
            code(m, -32603);
        }
    }),
    Fault::messages("prompt-without-argument", |q, m| {
        if old(q, "prompts/get") && q["params"]["name"] == "greet" {
            code(m, -32603);
        }
    }),
    Fault::messages("resources-list", |q, m| {
        if old(q, "resources/list") {
            set(m, "/result/resources/0/uri", json!("no uri"));
        }
    })
    .breaks(&["RES-006"]),
    Fault::messages("templates-list", |q, m| {
        if old(q, "resources/templates/list") {
            set(m, "/result/resourceTemplates/0/uriTemplate", json!(5));
        }
    })
    .breaks(&["RES-012"]),
    Fault::messages("resource-contents", |q, m| {
        if old(q, "resources/read") {
            set(m, "/result/contents/0/blob", json!("*"));
        }
    })
    .breaks(&["CONT-011"]),
    Fault::messages("resource-unknown", |q, m| {
        if old(q, "resources/read") {
            code(m, -32602);
        }
    }),
    Fault::messages("resource-subscribe", |q, m| {
        if old(q, "resources/unsubscribe") {
            set(m, "/result", json!({"done": true}));
        }
    }),
    Fault::messages("completion", |q, m| {
        if old(q, "completion/complete") {
            let many: Vec<_> = (0..101).map(|number| number.to_string()).collect();
            set(m, "/result/completion/values", json!(many));
        }
    }),
    Fault::messages("completion-unknown", |q, m| {
        if old(q, "completion/complete") {
            code(m, -32603);
        }
    }),
    Fault::messages("completion-undeclared", |q, m| {
        if old(q, "completion/complete") {
            code(m, -32602);
        }
    })
    .of(Small),
    Fault::messages("log-levels", |q, m| {
        if old(q, "logging/setLevel") && q["params"]["level"] == "alert" {
            error(q, m, -32602);
        }
    }),
    Fault::messages("log-level-unknown", |q, m| {
        if old(q, "logging/setLevel") {
            code(m, -32603);
        }
    }),
    Fault::messages("task-unknown", |q, m| {
        if old(q, "tasks/result") {
            code(m, -32603);
        }
    }),
    Fault::messages("task-cursor", |q, m| {
        if old(q, "tasks/list") {
            code(m, -32603);
        }
    }),
    Fault::lines("stdout-messages", |line, out| {
        if line.contains("tools/list") && !line.contains("protocolVersion") {
            out.insert(0, "listening".into());
        }
    }),
    Fault::messages("jsonrpc-member", |q, m| {
        if old(q, "tools/list") {
            remove(m, "", "jsonrpc");
        }
    }),
    Fault::messages("result-object", |q, m| {
        if old(q, "tools/list") {
            add(m, json!({"jsonrpc": "2.0", "id": null, "result": []}));
        }
    }),
    Fault::messages("result-or-error", |q, m| {
        if old(q, "tools/list") {
            add(m, json!({"jsonrpc": "2.0", "id": null, "result": {}, "error": {"code": 1, "message": "no"}}));
        }
    }),
    Fault::messages("error-object", |q, m| {
        if old(q, "tools/list") {
            add(m, json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1.5, "message": "no"}}));
        }
    }),
    Fault::messages("one-response", |q, m| {
        if old(q, "tools/list") {
            m.extend(m.first().cloned());
        }
    }),
    Fault::messages("progress-without-token", |q, m| {
        if old(q, "tools/list") {
            add(m, notification("notifications/progress"));
        }
    }),
    Fault::messages("requests-before-initialized", |q, m| {
        if old(q, "initialize") {
            add(m, json!({"jsonrpc": "2.0", "id": 5, "method": "roots/list"}));
        }
    }),
    Fault::messages("tools-undeclared-changes", |q, m| {
        if old(q, "tools/list") {
            add(m, notification("notifications/tools/list_changed"));
        }
    })
    .of(Small),
    Fault::messages("prompts-undeclared-changes", |q, m| {
        if old(q, "tools/list") {
            add(m, notification("notifications/prompts/list_changed"));
        }
    })
    .of(Small),
    Fault::messages("resources-undeclared-changes", |q, m| {
        if old(q, "tools/list") {
            add(m, notification("notifications/resources/list_changed"));
        }
    })
    .of(Small),
    Fault::messages("undeclared-logging", |q, m| {
        if old(q, "tools/list") {
            add(m, notification("notifications/message"));
        }
    })
    .of(Small),
    Fault::new("hostile-bytes", Spoil::HangsAt(b"\xed\xa0\x80")).of(LegacyOnly),
    Fault::new("hostile-nul", Spoil::HangsAt(b"\x1b[2J")),
    Fault::new("hostile-large", Spoil::HangsAt(b"xxxxxxxxxxxxxxxx")).of(LegacyOnly),
    Fault::new("hostile-depth", Spoil::HangsAt(b"[[[[[[[[[[[[[[[[")).of(LegacyOnly),
    Fault::new("hostile-duplicates", Spoil::HangsAt(b"920002")),
    Fault::new("hostile-many", Spoil::ForgetsOfMany).of(LegacyOnly),
];
