//! Servers that break rules of 2026-07-28.

use serde_json::{Value, json};

use super::{Fault, add, code, error, nameless, new, notification, put, remove, result, set};
use crate::check::selftest::{
    server::Profile::{ModernOnly, Small},
    wires::Spoil,
};

const UNKNOWN: &str = "mcp-check-unknown";
const META: &str = "io.modelcontextprotocol/clientCapabilities";

fn complete(mut value: Value) -> Value {
    value["resultType"] = json!("complete");
    value["ttlMs"] = json!(1);
    value["cacheScope"] = json!("public");
    value
}

fn version(message: &Value) -> &Value {
    &message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"]
}

pub(super) const FAULTS: &[Fault] = &[
    Fault::messages("modern-tools-list", |q, m| {
        if new(q, "tools/list") {
            set(m, "/result/tools/0/name", json!(5));
        }
    })
    .breaks(&["M-TOOL-007"]),
    Fault::messages("modern-tool-names-unique", |q, m| {
        if new(q, "tools/list") {
            set(m, "/result/tools/0/name", json!("b"));
        }
    }),
    Fault::messages("modern-tool-schemas", |q, m| {
        if new(q, "tools/list") {
            set(m, "/result/tools/0/inputSchema/required", json!("city"));
        }
    }),
    Fault::messages("modern-tool-headers", |q, m| {
        if new(q, "tools/list") {
            set(m, "/result/tools/0/inputSchema/properties/city/x-mcp-header", json!("a b"));
        }
    })
    .breaks(&["M-HTTP-053"]),
    Fault::messages("modern-tool-unknown", |q, m| {
        if new(q, "tools/call") && q["params"]["name"] == UNKNOWN {
            result(q, m, complete(json!({"content": [], "isError": true})));
        }
    }),
    Fault::messages("modern-call-without-name", |q, m| {
        if new(q, "tools/call") && q["params"]["name"].is_null() {
            code(m, -32603);
        }
    }),
    Fault::messages("modern-list-order", |q, m| {
        let tools = m.first_mut().and_then(|it| it.pointer_mut("/result/tools")).and_then(Value::as_array_mut);
        if let Some(tools) = tools.filter(|_| new(q, "tools/list") && q["id"].as_u64().is_some_and(|id| id % 2 == 0)) {
            tools.reverse();
        }
    }),
    Fault::messages("modern-list-hints", |q, m| {
        if new(q, "prompts/list") {
            remove(m, "/result", "ttlMs");
        }
    })
    .breaks(&["M-CACHE-001"]),
    Fault::messages("modern-list-cursor", |q, m| {
        if new(q, "tools/list") && q["params"]["cursor"] == "next" {
            set(m, "/result/cacheScope", json!("private"));
        }
    })
    .breaks(&["M-CACHE-025"]),
    Fault::messages("modern-list-end", |q, m| {
        if new(q, "tools/list") && q["params"]["cursor"] == "next" {
            put(m, "/result", "nextCursor", json!("next"));
        }
    }),
    Fault::messages("modern-invalid-cursor", |q, m| {
        if new(q, "tools/list") && q["params"]["cursor"] == UNKNOWN {
            result(q, m, complete(json!({"tools": []})));
        }
    }),
    Fault::messages("modern-prompts-list", |q, m| {
        if new(q, "prompts/list") {
            set(m, "/result/prompts/0/arguments/0/name", json!(5));
        }
    })
    .breaks(&["M-PROMPT-007"]),
    Fault::messages("modern-prompt-messages", |q, m| {
        if new(q, "prompts/get") {
            set(m, "/result/messages/0/role", json!("system"));
        }
    }),
    Fault::messages("modern-prompt-unknown", |q, m| {
        if new(q, "prompts/get") && q["params"]["name"] == UNKNOWN {
            code(m, -32603);
        }
    }),
    Fault::messages("modern-prompt-argument", |q, m| {
        if new(q, "prompts/get") && q["params"]["name"] == "greet" {
            code(m, -32603);
        }
    }),
    Fault::messages("modern-resources-list", |q, m| {
        if new(q, "resources/list") {
            set(m, "/result/resources/0/uri", json!("no uri"));
        }
    })
    .breaks(&["M-RES-008"]),
    Fault::messages("modern-templates-list", |q, m| {
        if new(q, "resources/templates/list") {
            set(m, "/result/resourceTemplates/0/name", json!(5));
        }
    })
    .breaks(&["M-RES-009"]),
    Fault::messages("modern-contents", |q, m| {
        if new(q, "resources/read") {
            set(m, "/result/contents/0/blob", json!("*"));
        }
    })
    .breaks(&["M-RES-012"]),
    Fault::messages("modern-resource-unknown", |q, m| {
        if new(q, "resources/read") {
            code(m, -32603);
        }
    }),
    Fault::messages("modern-completion", |q, m| {
        if new(q, "completion/complete") {
            set(m, "/result/completion/values/0", json!(5));
        }
    }),
    Fault::messages("modern-completion-unknown", |q, m| {
        if new(q, "completion/complete") {
            code(m, -32603);
        }
    }),
    Fault::messages("modern-completion-undeclared", |q, m| {
        if new(q, "completion/complete") {
            code(m, -32602);
        }
    })
    .of(Small),
    Fault::messages("modern-log-level", |q, m| {
        if new(q, "tools/list") && q["params"]["_meta"]["io.modelcontextprotocol/logLevel"] == "loud" {
            result(q, m, complete(json!({"tools": []})));
        }
    }),
    Fault::messages("listen-acknowledged", |q, m| {
        if new(q, "subscriptions/listen") {
            set(m, "/params/_meta/io.modelcontextprotocol~1subscriptionId", json!("other"));
        }
    })
    .breaks(&["M-SUBS-010"]),
    Fault::messages("listen-subset", |q, m| {
        if new(q, "subscriptions/listen") {
            set(m, "/params/notifications", q["params"]["notifications"].clone());
        }
    })
    .of(Small),
    Fault::messages("listen-empty", |q, m| {
        if new(q, "subscriptions/listen") && q["params"]["notifications"] == json!({}) {
            error(q, m, -32601);
        }
    }),
    Fault::messages("listen-without-filter", |q, m| {
        if new(q, "subscriptions/listen") && q["params"]["notifications"].is_null() {
            error(q, m, -32601);
        }
    }),
    Fault::messages("listen-without-filter", |q, m| {
        if new(q, "subscriptions/listen") {
            code(m, -32603);
        }
    }),
    Fault::messages("listen-cancelled", |q, m| {
        let id = &q["params"]["requestId"];
        if q["method"] == "notifications/cancelled" && id.as_u64().is_some_and(|id| id < 4_000_000_000) {
            m.push(json!({"jsonrpc": "2.0", "id": id, "result": complete(json!({}))}));
        }
    }),
    Fault::messages("discover", |q, m| {
        if new(q, "server/discover") {
            set(m, "/result/supportedVersions", json!(["2026-07-28", 5]));
        }
    })
    .breaks(&["M-DISC-003"]),
    Fault::messages("discover-hints", |q, m| {
        if new(q, "server/discover") {
            set(m, "/result/ttlMs", json!(-1));
        }
    }),
    Fault::messages("modern-capabilities", |q, m| {
        if new(q, "server/discover") {
            set(m, "/result/capabilities/logging", json!(true));
        }
    })
    .breaks(&["M-DISC-004"]),
    Fault::messages("modern-capabilities", |q, m| {
        if new(q, "server/discover") {
            set(m, "/result/capabilities/resources/subscribe", json!("yes"));
        }
    })
    .breaks(&["M-META-032"]),
    Fault::messages("modern-capabilities", |q, m| {
        if new(q, "server/discover") {
            put(m, "/result/capabilities", "extensions", json!({"example.com/a": true}));
        }
    })
    .breaks(&["M-META-031"]),
    Fault::messages("server-info", |q, m| {
        if new(q, "server/discover") {
            set(m, "/result/_meta/io.modelcontextprotocol~1serverInfo/version", json!(5));
        }
    }),
    Fault::messages("server-info-present", |q, m| {
        if new(q, "server/discover") {
            remove(m, "/result", "_meta");
        }
    }),
    Fault::messages("no-capabilities-of-client", |q, m| {
        if new(q, "server/discover") && q["params"]["_meta"].get(META).is_none() {
            code(m, -32603);
        }
    }),
    Fault::messages("wrong-capabilities-of-client", |q, m| {
        if new(q, "server/discover") && q["params"]["_meta"][META].is_string() {
            code(m, -32603);
        }
    }),
    Fault::messages("no-version", |q, m| {
        if q["params"]["_meta"].is_object() && version(q).is_null() {
            code(m, -32603);
        }
    })
    .of(ModernOnly),
    Fault::messages("no-meta", |q, m| {
        if q["method"] == "server/discover" && q["params"]["_meta"].is_null() {
            code(m, -32603);
        }
    })
    .of(ModernOnly),
    Fault::messages("client-info-optional", |q, m| {
        let meta = &q["params"]["_meta"];
        if new(q, "server/discover") && meta[META].is_object() && meta["io.modelcontextprotocol/clientInfo"].is_null() {
            error(q, m, -32602);
        }
    }),
    Fault::messages("unknown-members", |q, m| {
        if q["params"]["_meta"][META]["mcpCheckUnknown"].is_object() {
            error(q, m, -32602);
        }
    }),
    Fault::messages("modern-unknown-version", |q, m| {
        if version(q) == "2999-01-01" {
            code(m, -32602);
        }
    })
    .also(&["supported-versions"]),
    Fault::messages("supported-versions", |_, m| set(m, "/error/data/supported", json!(["1.0"]))),
    Fault::messages("modern-id-number", |q, m| {
        if new(q, "server/discover") && q["id"] == 900_001 {
            set(m, "/id", json!("900001"));
        }
    })
    .also(&["modern-one-response"]),
    Fault::messages("modern-id-string", |q, m| {
        if new(q, "server/discover") && q["id"] == "900002" {
            set(m, "/id", json!(900_002));
        }
    })
    .also(&["modern-one-response"]),
    Fault::messages("modern-unknown-method", |q, m| {
        if new(q, "mcp-check/unknown") {
            code(m, -32602);
        }
    }),
    Fault::messages("removed-methods", |q, m| {
        if new(q, "ping") {
            result(q, m, complete(json!({})));
        }
    }),
    Fault::messages("initialize-with-metadata", |q, m| {
        if new(q, "initialize") {
            code(m, -32602);
        }
    }),
    Fault::messages("modern-undeclared", |q, m| {
        if new(q, "prompts/list") {
            result(q, m, complete(json!({"prompts": []})));
        }
    })
    .of(Small),
    Fault::messages("modern-null-id", |q, m| {
        if new(q, "server/discover") && q["id"].is_null() {
            result(q, m, complete(json!({})));
        }
    }),
    Fault::lines("modern-parse-error", |line, out| {
        if line.contains("server/discover") && line.contains("910003") {
            out.clear();
        }
    }),
    Fault::messages("modern-invalid-request", |q, m| {
        if q["method"] == 5 && version(q).is_string() {
            code(m, -32602);
        }
    }),
    Fault::messages("modern-batch", |q, m| {
        if new(&q[0], "server/discover") {
            result(&q[0], m, complete(json!({})));
        }
    }),
    Fault::messages("modern-notification", |q, m| {
        if q["method"] == "notifications/mcp-check/unknown" {
            m.push(nameless());
        }
    })
    .of(ModernOnly),
    Fault::new("modern-notification-end", Spoil::HangsAt(b"notifications/mcp-check/unknown")).of(ModernOnly),
    Fault::messages("modern-cancel-unknown", |q, m| {
        if q["params"]["requestId"] == 4_000_000_001_u32 {
            m.push(nameless());
        }
    })
    .of(ModernOnly),
    Fault::new("legacy-beside-modern", Spoil::SilentInOtherEra).also(&["modern-beside-legacy"]).breaks(&["M-DUAL-020"]),
    Fault::messages("legacy-beside-modern", |q, m| {
        if q["method"] == "initialize" && version(q).is_null() {
            set(m, "/result/protocolVersion", json!("2026-07-28"));
        }
    })
    .breaks(&["M-DUAL-020"]),
    Fault::new("modern-beside-legacy", Spoil::SilentInOtherEra).also(&["legacy-beside-modern"]).breaks(&["M-DUAL-019"]),
    Fault::messages("modern-only-initialize", |q, m| {
        if q["method"] == "initialize" && version(q).is_null() {
            m.clear();
        }
    })
    .of(ModernOnly),
    Fault::new("modern-stdin-end", Spoil::Stays).of(ModernOnly),
    Fault::lines("modern-stdout-messages", |line, out| {
        if line.contains("tools/list") && line.contains("protocolVersion") {
            out.insert(0, "listening".into());
        }
    }),
    Fault::messages("modern-jsonrpc-member", |q, m| {
        if new(q, "tools/list") {
            set(m, "/jsonrpc", json!("1.0"));
        }
    }),
    Fault::messages("modern-result-object", |q, m| {
        if new(q, "tools/list") {
            add(m, json!({"jsonrpc": "2.0", "id": null, "result": 5}));
        }
    }),
    Fault::messages("modern-result-type", |q, m| {
        if new(q, "prompts/get") {
            remove(m, "/result", "resultType");
        }
    }),
    Fault::messages("modern-error-object", |q, m| {
        if new(q, "tools/list") {
            add(m, json!({"jsonrpc": "2.0", "error": {"code": "x", "message": "no"}}));
        }
    }),
    Fault::messages("modern-error-codes", |q, m| {
        if new(q, "tools/list") {
            add(m, json!({"jsonrpc": "2.0", "error": {"code": -32002, "message": "no"}}));
        }
    })
    .breaks(&["M-BASE-036"]),
    Fault::messages("modern-one-response", |q, m| {
        if new(q, "tools/list") {
            m.extend(m.first().cloned());
        }
    }),
    Fault::messages("modern-no-requests", |q, m| {
        if new(q, "tools/list") {
            add(m, json!({"jsonrpc": "2.0", "id": 77, "method": "roots/list"}));
        }
    }),
    Fault::messages("modern-progress-without-token", |q, m| {
        if new(q, "tools/list") {
            add(m, notification("notifications/progress"));
        }
    }),
    Fault::messages("modern-unasked-logging", |q, m| {
        if new(q, "tools/list") {
            add(m, notification("notifications/message"));
        }
    }),
    Fault::new("modern-hostile-bytes", Spoil::HangsAt(b"\xed\xa0\x80")).of(ModernOnly),
    Fault::new("modern-hostile-large", Spoil::HangsAt(b"xxxxxxxxxxxxxxxx")).of(ModernOnly),
    Fault::new("modern-hostile-depth", Spoil::HangsAt(b"[[[[[[[[[[[[[[[[")).of(ModernOnly),
    Fault::new("modern-hostile-many", Spoil::ForgetsOfMany).of(ModernOnly),
];
