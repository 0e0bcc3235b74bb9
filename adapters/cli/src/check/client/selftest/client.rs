//! A client that breaks no rule, in memory, as little as the checks need. It calls one method after another, and ends.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::faults::Spoil;
use crate::check::{
    client::answers::{META, claim},
    probe::{LEGACY, MODERN, NEWEST},
};

/// The behaviour of a client of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Profile {
    /// Both eras, with all capabilities.
    Full,
    /// Sessions only, with all capabilities.
    Sessions,
    /// Sessions only, with no capabilities.
    Plain,
    /// Sessions only. It calls nothing, and waits for the server.
    Quiet,
}

const CALLS: [&str; 7] = [
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
];

/// The state of a client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) profile: Profile,
    pub(super) spoil: Spoil,
    /// The revision in use.
    pub(super) version: Option<String>,
    pub(super) is_ready: bool,
    /// Messages to send.
    pub(super) out: VecDeque<Value>,
    /// The request without an answer.
    pub(super) pending: Option<Value>,
    pub(super) is_done: bool,
    /// Whether the program fails at its end.
    pub(super) has_failed: bool,
    next: u64,
    call: usize,
    tool: String,
    capabilities: Value,
    listens: bool,
    /// Whether the transport opens another connection.
    pub(super) reconnects: bool,
    /// Whether it is the second client of its program.
    pub(super) is_second: bool,
}

impl Client {
    pub(super) fn new(profile: Profile, spoil: Spoil) -> Self {
        Self {
            profile,
            spoil,
            version: None,
            is_ready: false,
            out: VecDeque::new(),
            pending: None,
            is_done: false,
            has_failed: false,
            next: 0,
            call: 0,
            tool: "echo".to_owned(),
            capabilities: Value::Null,
            listens: false,
            reconnects: false,
            is_second: false,
        }
    }

    pub(super) fn has(&self, flag: &str) -> bool {
        matches!(self.spoil, Spoil::Flag(it) if it == flag)
    }

    pub(super) fn is_modern(&self) -> bool {
        self.version.as_deref() == Some(MODERN)
    }

    /// Begins a new connection.
    pub(super) fn start(&mut self) {
        *self = Self::new(self.profile, self.spoil);
        if self.has("requests first") {
            self.send(json!({"jsonrpc": "2.0", "id": "early", "method": "tools/list"}));
        }
        if self.has("repeats a call") {
            self.version = Some(MODERN.to_owned());
            return self.request("tools/call", self.params_of("tools/call"));
        }
        if self.profile == Profile::Full {
            self.version = Some(MODERN.to_owned());
            self.request("server/discover", json!({}));
        } else {
            self.initialize();
        }
    }

    pub(super) fn initialize(&mut self) {
        (self.version, self.is_ready) = (None, false);
        if self.has("session per call") || self.has("ids begin again") {
            self.next = 0;
        }
        let capabilities = match self.profile {
            Profile::Full | Profile::Sessions => {
                json!({"roots": {"listChanged": true}, "sampling": {}, "elicitation": {}})
            }
            Profile::Plain | Profile::Quiet => json!({}),
        };
        let info = json!({"name": "fake", "version": "1"});
        let params = json!({"protocolVersion": NEWEST, "capabilities": capabilities, "clientInfo": info});
        self.request("initialize", params);
        if self.has("early request") {
            self.send(json!({"jsonrpc": "2.0", "id": "early", "method": "resources/templates/list"}));
        }
    }

    fn send(&mut self, mut message: Value) {
        if let Spoil::Out(spoil) = self.spoil {
            spoil(&mut message);
        }
        if !message.is_null() {
            self.out.push_back(message);
        }
    }

    pub(super) fn request(&mut self, method: &str, mut params: Value) {
        let is_again = self.has("same id") && self.next > 2;
        self.next += u64::from(!is_again);
        if self.is_modern() {
            let has_forms = !self.has("forms in discovery") || method == "server/discover";
            let capabilities = if has_forms { json!({"elicitation": {}}) } else { json!({}) };
            params["_meta"] = json!({
                format!("{META}protocolVersion"): MODERN,
                format!("{META}clientCapabilities"): capabilities,
                format!("{META}clientInfo"): {"name": "fake", "version": "1"},
            });
        }
        if method == "tools/call" || method == "tools/list" {
            let token = if self.has("same token") { json!("one") } else { json!(self.next) };
            params["_meta"]["progressToken"] = token;
        }
        let id = if self.has("text ids") { json!(format!("\u{e4} {}", self.next)) } else { json!(self.next) };
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.pending = Some(message.clone());
        self.send(message);
        if method == "tools/list" && self.has("pipelines") {
            let mut early = self.pending.clone().unwrap_or_default();
            early["id"] = json!(format!("early-call-{}", self.next));
            early["method"] = json!("tools/call");
            early["params"]["name"] = json!("echo");
            early["params"]["arguments"] = json!({"message": "early"});
            if let Some(meta) = early["params"]["_meta"].as_object_mut() {
                meta.remove("progressToken");
            }
            self.send(early);
        }
    }

    fn notify(&mut self, method: &str, params: Value) {
        let mut message = json!({"jsonrpc": "2.0", "method": method});
        if !params.is_null() {
            message["params"] = params;
        }
        self.send(message);
    }

    /// Cancels the request that has no answer.
    pub(super) fn cancel(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.notify("notifications/cancelled", json!({"requestId": pending["id"]}));
            self.continue_calls();
        }
    }

    fn params_of(&self, method: &str) -> Value {
        match method {
            "tools/call" => json!({"name": self.tool, "arguments": {"message": "ä text"}}),
            "resources/read" => json!({"uri": "check://notes"}),
            "prompts/get" => json!({"name": "greet", "arguments": {"name": "Ada"}}),
            "completion/complete" => {
                json!({
                    "ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "A"},
                    "context": {"arguments": {"title": "Lady"}},
                })
            }
            _ => json!({}),
        }
    }

    /// Sends the next call, or ends.
    fn continue_calls(&mut self) {
        if self.is_modern() && !self.listens {
            self.listens = true;
            self.next += 1;
            let id = self.next;
            let meta = json!({
                format!("{META}protocolVersion"): MODERN, format!("{META}clientCapabilities"): {},
                format!("{META}clientInfo"): {"name": "fake", "version": "1"},
            });
            let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
            self.send(json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params}));
        }
        while let Some(method) = CALLS.get(self.call).filter(|_| self.profile != Profile::Quiet) {
            let name = method.split('/').next().unwrap_or_default().replace("completion", "completions");
            if self.capabilities.get(&name).is_some() || self.has("undeclared") {
                self.request(method, self.params_of(method));
                return;
            }
            self.call += 1;
        }
        let has_own_ids = self.has("another client with other ids");
        if (self.has("another client") || has_own_ids)
            && self.is_modern()
            && !std::mem::replace(&mut self.is_second, true)
        {
            self.next = if has_own_ids { 1000 } else { 0 };
            return self.request("tools/call", self.params_of("tools/call"));
        }
        if self.has("another client probes") && !std::mem::replace(&mut self.is_second, true) {
            let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
            self.pending = Some(ping.clone());
            return self.send(ping);
        }
        self.is_done = self.profile != Profile::Quiet;
    }

    /// Takes a message of the server.
    pub(super) fn receive(&mut self, message: &Value) {
        if let Value::Array(batch) = message {
            if self.version.as_deref() == Some("2025-03-26") && !self.has("no batches") {
                batch.iter().for_each(|one| self.receive(one));
            }
            return;
        }
        match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(id)) => self.take_request(method, id, &message["params"]),
            (Some(method), None) => self.take_notification(method, &message["params"]),
            (None, Some(id)) => {
                let pending = self.pending.clone().filter(|pending| pending["id"] == *id);
                match pending {
                    Some(request) => {
                        self.pending = None;
                        self.take_answer(&request, message);
                    }
                    None if self.has("strict responses") => self.fail(),
                    None => {}
                }
            }
            (None, None) if self.has("strict errors") => self.fail(),
            (None, None) => {}
        }
    }

    pub(super) fn fail(&mut self) {
        (self.is_done, self.has_failed) = (true, true);
        self.pending = None;
    }

    fn take_notification(&mut self, method: &str, params: &Value) {
        let is_strict = match method {
            "notifications/mcp-check/unknown" => self.has("strict notifications"),
            "notifications/progress" if self.has("strict bad progress") => !params["progress"].is_number(),
            "notifications/progress" => self.has("strict progress"),
            "notifications/cancelled" => self.has("strict cancellations"),
            "notifications/tools/list_changed" => self.has("strict changes"),
            _ => false,
        };
        if is_strict {
            self.fail();
        }
        if method == "notifications/mcp-check/unknown" && self.has("answers notifications") {
            self.send(json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "no"}}));
        }
        if method == "notifications/progress" && self.has("answers bad notifications") {
            self.send(json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32602, "message": "no"}}));
        }
    }

    fn take_request(&mut self, method: &str, id: &Value, params: &Value) {
        if self.is_modern() && !self.has("answers requests") {
            return;
        }
        if method == "ping" && (self.has("no pings") || self.has("no early pings") && !self.is_ready) {
            return;
        }
        if self.has("one id space") && self.pending.as_ref().is_some_and(|pending| pending["id"] == *id) {
            return;
        }
        let declares = matches!(self.profile, Profile::Full | Profile::Sessions);
        let result = match method {
            "ping" => json!({}),
            "roots/list" if declares => json!({"roots": [{"uri": "file:///a", "name": "a"}]}),
            "sampling/createMessage" if declares => {
                json!({"role": "assistant", "content": {"type": "text", "text": "yes"}, "model": "none"})
            }
            "elicitation/create" if declares => json!({"action": "accept", "content": {"name": "Ada"}}),
            _ => {
                let error = json!({"code": -32601, "message": "Method not found"});
                self.send(json!({"jsonrpc": "2.0", "id": id, "error": error, "about": method}));
                return;
            }
        };
        if let Some(token) = params["_meta"].get("progressToken") {
            let values = if self.has("shrinking progress") { [2, 1] } else { [1, 2] };
            for value in values.into_iter().filter(|_| declares) {
                self.notify("notifications/progress", json!({"progressToken": token, "progress": value}));
            }
        }
        self.send(json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn take_answer(&mut self, request: &Value, answer: &Value) {
        let result = &answer["result"];
        if self.has("repeats a call") {
            self.call += 1;
            self.is_done = self.call == CALLS.len();
            if !self.is_done {
                self.request("tools/call", self.params_of("tools/call"));
            }
            return;
        }
        match request["method"].as_str().unwrap_or_default() {
            "server/discover" => self.take_discovery(answer),
            "initialize" => self.take_initialize(answer),
            _ if answer.get("error").is_some() => self.take_error(&answer["error"]),
            method if method.ends_with("/list") && result["nextCursor"].is_string() => {
                let mut cursor = result["nextCursor"].clone();
                if self.has("trims cursors") {
                    cursor = json!(cursor.as_str().unwrap_or_default().trim());
                }
                let is_cut = request["params"].get("cursor").is_some() && self.has("two pages");
                if cursor == "" && self.has("empty cursors end") || is_cut {
                    return self.advance();
                }
                // A server of a test has no end.
                if request["params"]["cursor"] == cursor {
                    return self.advance();
                }
                self.request(method, json!({"cursor": cursor}));
            }
            method => {
                if result.get("checks").is_some() && self.has("strict results") {
                    return self.fail();
                }
                if self.is_modern() && result["resultType"] == "input_required" {
                    return self.retry(request, method, result);
                }
                if method == "tools/list"
                    && let Some(tools) = result["tools"].as_array()
                {
                    let is_good = |tool: &&Value| tool["name"] != "left-out" || self.has("keeps bad tools");
                    let first = tools.iter().find(is_good).map(|tool| tool["name"].as_str().unwrap_or_default());
                    self.tool = first.unwrap_or("echo").to_owned();
                }
                self.advance();
            }
        }
    }

    fn advance(&mut self) {
        self.call += 1;
        if self.has("session per call") && !self.is_modern() && self.call < CALLS.len() {
            return self.initialize();
        }
        self.continue_calls();
    }

    fn take_error(&mut self, error: &Value) {
        match error["code"].as_i64() {
            Some(-32022) if self.is_modern() => self.unsupported(error),
            Some(-32601) if self.is_modern() && self.has("falls back after 404") => self.initialize(),
            _ => self.advance(),
        }
    }

    fn unsupported(&mut self, _: &Value) {
        if self.has("falls back blindly") {
            return self.initialize();
        }
        if self.has("waits after refusals") {
            return;
        }
        if self.has("tries again") && self.next < 20 {
            return self.request("server/discover", json!({}));
        }
        self.fail();
    }

    fn take_discovery(&mut self, answer: &Value) {
        let versions = answer["result"]["supportedVersions"].as_array().cloned().unwrap_or_default();
        if answer["error"]["code"] == -32022 {
            return self.unsupported(&answer["error"]);
        }
        if versions.is_empty() {
            // The fault knows one code only.
            if self.has("one code") && answer["error"]["code"] != -32601 {
                return self.fail();
            }
            return self.initialize();
        }
        if self.has("newest revision") {
            self.capabilities = answer["result"]["capabilities"].clone();
            let first = versions[0].clone();
            self.request("tools/list", json!({}));
            if let Some(message) = self.out.back_mut()
                && first != MODERN
            {
                message["params"]["_meta"][format!("{META}protocolVersion")] = first;
            }
            return;
        }
        self.capabilities = answer["result"]["capabilities"].clone();
        self.continue_calls();
    }

    fn take_initialize(&mut self, answer: &Value) {
        let version = answer["result"]["protocolVersion"].as_str().unwrap_or_default().to_owned();
        let is_closed = answer["result"]["capabilities"].get("checks").is_some() && self.has("closed capabilities");
        let is_known = LEGACY.contains(&version.as_str()) || self.has("any revision");
        if !is_known && self.has("reconnects") {
            self.reconnects = true;
            return;
        }
        if !is_known || is_closed {
            return self.fail();
        }
        if version != NEWEST && self.has("hangs at older revisions") {
            return;
        }
        self.capabilities = answer["result"]["capabilities"].clone();
        self.version = Some(version);
        self.is_ready = true;
        if !self.has("not initialized") {
            self.notify("notifications/initialized", Value::Null);
        }
        self.continue_calls();
    }

    /// Sends a request again with its input.
    fn retry(&mut self, request: &Value, method: &str, result: &Value) {
        let mut params = request["params"].clone();
        let had_state = params.get("requestState").cloned();
        if let Some(params) = params.as_object_mut() {
            ["requestState", "inputResponses", "_meta"].iter().for_each(|name| {
                params.remove(*name);
            });
        }
        if let Some(state) = result.get("requestState") {
            params["requestState"] = state.clone();
        } else if let Some(state) = had_state.filter(|_| self.has("keeps states")) {
            params["requestState"] = state;
        }
        if let Some(inputs) = result["inputRequests"].as_object() {
            let response = json!({"action": "accept", "content": {"name": "Ada"}});
            let responses: serde_json::Map<_, _> = inputs.keys().map(|key| (key.clone(), response.clone())).collect();
            params["inputResponses"] = Value::Object(responses);
        }
        if self.has("same retry id") {
            self.next -= 1;
        }
        self.request(method, params);
    }

    /// Returns whether a message is one of 2026-07-28.
    pub(super) fn is_claim(message: &Value) -> bool {
        claim(message).is_some()
    }
}
