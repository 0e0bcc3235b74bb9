//! Clients that break one rule each.

use serde_json::{Value, json};

use super::client::Profile;
use crate::check::{
    client::{answers::META, link::HttpRequest},
    wire::header,
};

/// The transport of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Stdio,
    Http,
}

/// A mistake of a client of a test.
#[derive(Clone, Copy, Debug)]
pub(super) enum Spoil {
    Nothing,
    /// A message that it sends. Null is not sent.
    Out(fn(&mut Value)),
    /// A request over HTTP.
    Http(fn(&Value, &mut HttpRequest)),
    /// A mistake that the client itself makes, by name.
    Flag(&'static str),
}

pub(super) struct Fault {
    pub(super) check: &'static str,
    pub(super) place: Place,
    pub(super) profile: Profile,
    pub(super) spoil: Spoil,
    /// Other checks that the same fault concerns.
    pub(super) also: &'static [&'static str],
    /// The broken rules of the check. Empty is all.
    pub(super) broken: &'static [&'static str],
}

use Place::{Http, Stdio};
use Profile::{Full, Plain, Sessions};

const fn fault(check: &'static str, place: Place, profile: Profile, spoil: Spoil) -> Fault {
    Fault { check, place, profile, spoil, also: &[], broken: &[] }
}

impl Fault {
    const fn breaks(mut self, broken: &'static [&'static str]) -> Self {
        self.broken = broken;
        self
    }

    const fn also(mut self, also: &'static [&'static str]) -> Self {
        self.also = also;
        self
    }
}

const fn flag(check: &'static str, place: Place, profile: Profile, name: &'static str) -> Fault {
    fault(check, place, profile, Spoil::Flag(name))
}

const fn out(check: &'static str, place: Place, profile: Profile, change: fn(&mut Value)) -> Fault {
    fault(check, place, profile, Spoil::Out(change))
}

const fn web(check: &'static str, profile: Profile, change: fn(&Value, &mut HttpRequest)) -> Fault {
    fault(check, Http, profile, Spoil::Http(change))
}

/// Returns whether a message is the last call of the client.
fn is_last(message: &Value) -> bool {
    message["method"] == "completion/complete"
}

fn set(request: &mut HttpRequest, name: &str, value: Option<&str>) {
    request.headers.retain(|(it, _)| !it.eq_ignore_ascii_case(name));
    if let Some(value) = value {
        request.headers.push((name.to_owned(), value.to_owned()));
    }
}

fn remove(value: &mut Value, name: &str) {
    if let Some(object) = value.as_object_mut() {
        object.remove(name);
    }
}

fn succeed(message: &mut Value, about: &str, result: Value) {
    if message["about"] == about {
        remove(message, "error");
        message["result"] = result;
    }
}

fn text_instead(message: &mut Value) {
    if is_last(message) {
        *message = json!("a line of a log");
    }
}

fn other_version(message: &mut Value) {
    if is_last(message) {
        message["jsonrpc"] = json!("1.0");
    }
}

fn fraction_as_id(message: &mut Value) {
    if is_last(message) {
        message["id"] = json!(1.5);
    }
}

fn number_in_context(message: &mut Value) {
    if is_last(message) {
        message["params"]["context"]["arguments"]["title"] = json!(1);
    }
}

fn batch_of_one(message: &mut Value) {
    if is_last(message) {
        *message = json!([message.clone()]);
    }
}

fn fraction_as_token(message: &mut Value) {
    if message["method"] == "tools/call" {
        message["params"]["_meta"]["progressToken"] = json!(1.5);
    }
}

fn no_tool_name(message: &mut Value) {
    if message["method"] == "tools/call" {
        remove(&mut message["params"], "name");
    }
}

fn number_for_prompt(message: &mut Value) {
    if message["method"] == "prompts/get" {
        message["params"]["arguments"]["name"] = json!(5);
    }
}

fn no_uri(message: &mut Value) {
    if message["method"] == "resources/read" {
        remove(&mut message["params"], "uri");
    }
}

fn spoil_id(message: &mut Value) {
    if message["id"] == 900_001 {
        message["id"] = json!("900001");
    }
}

fn stay_json(message: &Value, request: &mut HttpRequest) {
    if message["method"] == "tools/call" {
        set(request, "Accept", Some("application/json"));
    }
}

const LEGACY: &[Fault] = &[
    flag("initialized", Stdio, Sessions, "not initialized").also(&["open-capabilities"]),
    flag("initialized", Http, Sessions, "not initialized").also(&["open-capabilities", "http-stream-answers"]),
    flag("older-version", Stdio, Sessions, "hangs at older revisions"),
    flag("unsupported-version", Stdio, Sessions, "any revision"),
    flag("unsupported-version", Http, Plain, "any revision"),
    flag("open-capabilities", Stdio, Sessions, "closed capabilities"),
    flag("ping", Stdio, Sessions, "no pings").also(&["ping-early", "id-number", "id-string", "same-id", "batch"]),
    flag("ping", Http, Sessions, "no pings").also(&["ping-early", "id-number", "id-string", "same-id", "batch"]),
    flag("ping-early", Http, Sessions, "no early pings"),
    out("id-number", Stdio, Sessions, spoil_id).also(&["one-response"]),
    out("id-string", Http, Sessions, |message| {
        if message["id"] == "007" {
            message["id"] = json!(7);
        }
    })
    .also(&["one-response"]),
    flag("same-id", Stdio, Sessions, "one id space"),
    out("unknown-method", Stdio, Sessions, |message| {
        if message["about"] == "mcp-check/unknown" {
            message["error"]["code"] = json!(-32600);
        }
    }),
    out("undeclared-sampling", Stdio, Plain, |message| {
        let content = json!({"type": "text", "text": "yes"});
        succeed(message, "sampling/createMessage", json!({"role": "assistant", "content": content, "model": "a"}));
    }),
    out("undeclared-elicitation", Http, Plain, |message| {
        succeed(message, "elicitation/create", json!({"action": "decline"}));
    }),
    out("undeclared-roots", Stdio, Plain, |message| succeed(message, "roots/list", json!({"roots": []}))),
    out("roots", Stdio, Sessions, |message| {
        if message["result"]["roots"].is_array() {
            message["result"]["roots"][0]["uri"] = json!("https://a");
        }
    })
    .breaks(&["ROOT-004"]),
    out("roots", Stdio, Sessions, |message| {
        if message["result"]["roots"].is_array() {
            message["result"] = json!({});
        }
    })
    .breaks(&["ROOT-003"]),
    out("sampling", Stdio, Sessions, |message| {
        if message["result"]["model"].is_string() {
            remove(&mut message["result"], "model");
        }
    }),
    out("elicitation", Http, Sessions, |message| {
        if message["result"]["action"].is_string() {
            message["result"]["action"] = json!("perhaps");
        }
    }),
    flag("unknown-notification", Stdio, Sessions, "answers notifications").also(&["batch"]),
    flag("unknown-notification", Http, Sessions, "answers notifications").also(&["batch"]),
    flag("bad-notification", Stdio, Sessions, "answers bad notifications").also(&["unknown-progress"]),
    flag("unknown-notification-end", Http, Sessions, "strict notifications"),
    flag("bad-notification-end", Http, Sessions, "strict bad progress"),
    flag("unknown-progress", Http, Sessions, "strict progress").also(&["bad-notification-end"]),
    flag("cancel-unknown", Stdio, Sessions, "strict cancellations"),
    flag("list-changed", Http, Sessions, "strict changes").breaks(&["TOOL-028"]),
    flag("error-without-id", Stdio, Sessions, "strict errors").also(&["parse-error"]),
    flag("unknown-response", Stdio, Sessions, "strict responses").also(&["late-response"]),
    flag("late-response", Http, Sessions, "strict responses"),
    flag("parse-error", Stdio, Sessions, "strict lines"),
    flag("batch", Stdio, Sessions, "no batches"),
    flag("batch", Http, Sessions, "no batches"),
    flag("server-end", Stdio, Sessions, "waits for ended servers"),
    flag("undeclared-features", Stdio, Sessions, "undeclared"),
    flag("cursor", Stdio, Sessions, "trims cursors"),
    flag("open-results", Stdio, Sessions, "strict results"),
    flag("http-stream-answers", Http, Sessions, "no streams").also(&["ping-early"]),
    flag("http-no-get", Http, Sessions, "needs GET"),
    flag("http-session-gone", Http, Sessions, "keeps sessions"),
    flag("http-delete", Http, Sessions, "no delete"),
    flag("sse-parsing", Http, Sessions, "strict streams"),
    flag("sse-empty-data", Http, Sessions, "needs data").also(&["sse-resumption"]),
    flag("sse-resumption", Http, Sessions, "no resumption"),
    flag("sse-retry", Http, Sessions, "no retry"),
    flag("initialize-first", Stdio, Sessions, "requests first"),
    out("initialize-params", Stdio, Sessions, |message| {
        if message["method"] == "initialize" {
            remove(&mut message["params"]["clientInfo"], "version");
        }
    })
    .breaks(&["LIFE-003"]),
    out("client-capabilities", Stdio, Sessions, |message| {
        if message["method"] == "initialize" {
            message["params"]["capabilities"]["sampling"] = json!(true);
        }
    })
    .breaks(&["LIFE-028"]),
    flag("early-requests", Stdio, Sessions, "early request"),
    out("stdin-messages", Stdio, Sessions, text_instead),
    flag("stdin-closed", Stdio, Sessions, "kills its server"),
    out("jsonrpc-member", Stdio, Sessions, other_version),
    out("id-type", Stdio, Sessions, fraction_as_id).breaks(&["BASE-003"]),
    flag("id-unique", Stdio, Sessions, "same id"),
    out("notification-id", Stdio, Sessions, |message| {
        if message["method"] == "notifications/cancelled" {
            message["id"] = json!(77);
        }
    }),
    out("params-object", Stdio, Sessions, |message| {
        if message["method"] == "prompts/list" {
            message["params"] = json!([1]);
        }
    }),
    out("one-response", Http, Sessions, spoil_id).also(&["id-number"]),
    out("result-object", Stdio, Sessions, |message| {
        if message["result"]["roots"].is_array() {
            message["result"] = json!([]);
        }
    })
    .also(&["roots"]),
    out("error-object", Stdio, Sessions, |message| {
        if message["error"].is_object() {
            remove(&mut message["error"], "message");
        }
    }),
    out("no-batches", Stdio, Sessions, batch_of_one),
    out("cancellation", Stdio, Sessions, |message| {
        if message["method"] == "notifications/cancelled" {
            message["params"]["requestId"] = json!(4242);
        }
    })
    .breaks(&["CANC-004"]),
    out("progress", Stdio, Sessions, |message| {
        if is_last(message) {
            let params = json!({"progressToken": "none", "progress": 1});
            *message = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        }
    })
    .breaks(&["PROG-009"]),
    flag("progress", Stdio, Sessions, "shrinking progress").breaks(&["PROG-007"]),
    out("progress-token", Stdio, Sessions, fraction_as_token).breaks(&["PROG-002"]),
    out("tool-params", Stdio, Sessions, no_tool_name),
    out("prompt-params", Stdio, Sessions, number_for_prompt),
    out("resource-params", Http, Sessions, no_uri),
    out("completion-params", Stdio, Sessions, |message| {
        if is_last(message) {
            remove(&mut message["params"], "ref");
        }
    })
    .breaks(&["COMPL-001"]),
    out("completion-params", Stdio, Sessions, |message| {
        if is_last(message) {
            remove(&mut message["params"]["argument"], "value");
        }
    })
    .breaks(&["COMPL-002"]),
    out("completion-context", Stdio, Sessions, number_in_context),
    web("http-accept", Sessions, stay_json),
    web("http-body", Sessions, |message, request| {
        if is_last(message) {
            request.body = b"no JSON".to_vec();
        }
    })
    .breaks(&["HTTP-011"]),
    out("http-body", Http, Sessions, batch_of_one).breaks(&["HTTP-011"]).also(&["no-batches"]),
    web("http-get-accept", Sessions, |_, request| {
        if request.method == "GET" {
            set(request, "Accept", Some("*/*"));
        }
    }),
    web("http-session", Sessions, |message, request| {
        if message["method"] == "tools/call" {
            set(request, "Mcp-Session-Id", None);
        }
    }),
    web("http-session", Sessions, |_, request| {
        // Not the one that resumes a stream.
        if request.method == "GET" && header(&request.headers, "last-event-id").is_none() {
            set(request, "Mcp-Session-Id", None);
        }
    }),
    web("http-version", Sessions, |message, request| {
        if message["method"] == "tools/call" {
            set(request, "MCP-Protocol-Version", None);
        }
    }),
    web("http-version-value", Sessions, |message, request| {
        if message["method"] == "tools/call" {
            set(request, "MCP-Protocol-Version", Some("2025-03-26"));
        }
    }),
];

fn spoil_meta(message: &mut Value, name: &str, value: Value) {
    if is_last(message) {
        let name = format!("{META}{name}");
        if value.is_null() {
            remove(&mut message["params"]["_meta"], &name);
        } else {
            message["params"]["_meta"][name] = value;
        }
    }
}

fn instead(message: &mut Value, notification: Value) {
    if is_last(message) {
        *message = notification;
    }
}

const MODERN: &[Fault] = &[
    flag("unsupported-revisions", Stdio, Full, "falls back blindly"),
    flag("unsupported-attempts", Http, Full, "tries again"),
    flag("discovered-revision", Stdio, Full, "newest revision"),
    flag("fallback", Stdio, Full, "one code"),
    flag("http-fallback", Http, Full, "no fallback"),
    flag("modern-cursor", Http, Full, "trims cursors"),
    flag("modern-empty-cursor", Stdio, Full, "empty cursors end"),
    flag("modern-open-results", Stdio, Full, "strict results"),
    flag("modern-unknown-notification", Stdio, Full, "strict notifications"),
    flag("modern-unknown-progress", Http, Full, "strict progress"),
    flag("server-request", Stdio, Full, "answers requests"),
    flag("server-request", Http, Full, "answers requests"),
    out("state-echo", Stdio, Full, |message| {
        if let Some(state) = message["params"]["requestState"].as_str() {
            message["params"]["requestState"] = json!(state.trim());
        }
    }),
    flag("state-dropped", Http, Full, "keeps states"),
    flag("retry-id", Stdio, Full, "same retry id"),
    out("retry-params", Stdio, Full, |message| {
        if message["params"]["requestState"].is_string() {
            remove(&mut message["params"], "arguments");
        }
    }),
    out("input-responses", Http, Full, |message| {
        let responses = message["params"].get_mut("inputResponses").and_then(Value::as_object_mut);
        if let Some(response) = responses.and_then(|all| all.values_mut().next()) {
            *response = json!({"result": response.take()});
        }
    })
    .breaks(&["M-MRTR-027"]),
    out("input-responses", Http, Full, |message| {
        if message["params"]["inputResponses"].is_object() {
            message["params"]["inputResponses"] = json!({});
        }
    })
    .breaks(&["M-MRTR-026"]),
    flag("modern-http-stream", Http, Full, "no comments").breaks(&["M-HTTP-023"]).also(&["modern-sse-parsing"]),
    flag("modern-sse-parsing", Http, Full, "strict streams"),
    flag("http-error-status", Http, Full, "falls back after 404").breaks(&["M-DUAL-014"]),
    flag("http-bad-tool", Http, Full, "keeps bad tools"),
    out("modern-stdin-messages", Stdio, Full, text_instead),
    flag("modern-stdin-closed", Stdio, Full, "kills its server"),
    out("modern-jsonrpc-member", Stdio, Full, other_version),
    out("modern-id-type", Stdio, Full, fraction_as_id).breaks(&["M-BASE-003"]),
    out("modern-id-unique", Stdio, Full, |message| {
        // The id of the subscription.
        if is_last(message) {
            message["id"] = json!(2);
        }
    }),
    out("modern-notification-id", Stdio, Full, |message| {
        let params = json!({"requestId": 2});
        let wrong = json!({"jsonrpc": "2.0", "id": 5, "method": "notifications/cancelled", "params": params});
        instead(message, wrong);
    })
    .also(&["meta-version"]),
    out("modern-no-responses", Http, Full, |message| {
        instead(message, json!({"jsonrpc": "2.0", "id": 2, "result": {}}))
    }),
    out("modern-notifications", Stdio, Full, |message| {
        instead(message, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }),
    out("meta-version", Stdio, Full, |message| spoil_meta(message, "protocolVersion", Value::Null)),
    out("meta-capabilities", Stdio, Full, |message| spoil_meta(message, "clientCapabilities", Value::Null)),
    out("meta-client-info", Http, Full, |message| spoil_meta(message, "clientInfo", Value::Null)),
    out("meta-client-name", Stdio, Full, |message| spoil_meta(message, "clientInfo", json!({"name": "a"}))),
    out("modern-capabilities", Stdio, Full, |message| {
        spoil_meta(message, "clientCapabilities", json!({"elicitation": {"form": true}}));
    }),
    out("discover-params", Stdio, Full, |message| {
        if message["method"] == "server/discover" {
            message["params"]["more"] = json!(1);
        }
    }),
    out("modern-cancellation", Stdio, Full, |message| {
        let params = json!({"requestId": 4242});
        instead(message, json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    })
    .breaks(&["M-CANC-003"]),
    out("modern-progress-token", Http, Full, fraction_as_token).breaks(&["M-PROG-002"]),
    out("modern-tool-params", Stdio, Full, no_tool_name),
    out("modern-prompt-params", Stdio, Full, number_for_prompt),
    out("modern-resource-params", Stdio, Full, no_uri),
    out("modern-completion-params", Stdio, Full, number_in_context).breaks(&["M-COMPL-004"]),
    out("modern-completion-params", Stdio, Full, |message| {
        if is_last(message) {
            message["params"]["ref"] = json!({"type": "ref/resource"});
            remove(&mut message["params"]["argument"], "name");
        }
    })
    .breaks(&["M-COMPL-002", "M-COMPL-003"]),
    out("listen-filter", Http, Full, |message| {
        if message["method"] == "subscriptions/listen" {
            message["params"]["notifications"] = json!({"toolsListChanged": "yes"});
        }
    })
    .breaks(&["M-SUBS-002"]),
    out("listen-filter", Http, Full, |message| {
        if message["method"] == "subscriptions/listen" {
            remove(&mut message["params"], "notifications");
        }
    })
    .breaks(&["M-SUBS-001"]),
    web("modern-http-accept", Full, stay_json),
    web("modern-http-content-type", Full, |message, request| {
        if is_last(message) {
            set(request, "Content-Type", Some("text/plain"));
        }
    }),
    web("modern-http-body", Full, |message, request| {
        if is_last(message) {
            request.body = b"no JSON".to_vec();
        }
    }),
    // Its requests have no metadata, but the header tells the revision.
    web("modern-http-body", Full, |message, request| {
        if is_last(message) {
            let mut bare = message.clone();
            remove(&mut bare["params"], "_meta");
            request.body = json!([bare]).to_string().into_bytes();
        }
    }),
    web("modern-http-version", Full, |message, request| {
        if is_last(message) {
            set(request, "MCP-Protocol-Version", None);
        }
    }),
    web("modern-http-version-value", Full, |message, request| {
        if is_last(message) {
            set(request, "MCP-Protocol-Version", Some("2025-11-25"));
        }
    }),
    web("modern-http-method", Full, |message, request| {
        if is_last(message) {
            set(request, "Mcp-Method", Some("COMPLETION/COMPLETE"));
        }
    }),
    web("modern-http-name", Full, |message, request| {
        if message["method"] == "prompts/get" {
            set(request, "Mcp-Name", None);
        }
    }),
    web("modern-http-uri", Full, |message, request| {
        if message["method"] == "resources/read" {
            set(request, "Mcp-Name", Some("check://other"));
        }
    }),
    web("modern-http-param", Full, |message, request| {
        if message["method"] == "tools/call" {
            set(request, "Mcp-Param-Message", Some("a text"));
        }
    })
    .breaks(&["M-HTTP-050"]),
    web("modern-http-no-resumption", Full, |message, request| {
        if is_last(message) {
            set(request, "Last-Event-ID", Some("1"));
        }
    }),
];

pub(super) fn faults() -> impl Iterator<Item = &'static Fault> {
    LEGACY.iter().chain(MODERN)
}
