//! Judges each message of a client, whatever the check is about.

use std::time::Instant;

use mcp_proto::{codec::FrameEnd, protocol::ProtocolVersion, schema::decode_base64};
use serde_json::Value;

use super::{
    answers::{META, claim},
    link::HttpRequest,
    stage::{Message, Stage},
};
use crate::{
    check::{
        era::Era,
        outcome::Rules,
        probe::{MODERN, header_value},
        wire::header,
    },
    messages::Line,
    record::Origin,
    replay::{Judge, Setup},
};

/// Rules that the state machines cannot tell from lawful messages of a client that is judged.
const OWN: [&str; 3] = ["LIFE-007", "M-META-001", "M-META-002"];

/// The id of a request that no server sends: its response is the matter of one check.
pub(super) const PROVOKED: &str = "mcp-check-request";

impl Stage {
    fn notice(&mut self, rule: &'static str, what: &str, text: &str) {
        let text = format!("{what}: {text}");
        for &rule in [rule].iter().chain(implied(rule)) {
            self.observed.notice(rule, &text);
        }
    }

    /// Judges a line that is no JSON.
    pub(super) fn judge_noise(&mut self, text: &str) {
        let rule = if self.script.is_modern { "M-STDIO-004" } else { self.of_noise() };
        self.notice(rule, "a line is no message", text);
    }

    /// Returns the rule of sessions for a line that is no message. 2025-03-26, which has batches, has only one of both.
    fn of_noise(&self) -> &'static str {
        match self.session.version.as_deref() {
            Some("2024-11-05" | "2025-06-18" | "2025-11-25") => "STDIO-006",
            _ => "STDIO-008",
        }
    }

    /// Judges the body of a POST that is no JSON.
    pub(super) fn judge_body(&mut self, text: &str) {
        let rule = match self.session.version.as_deref() {
            _ if self.script.is_modern => "M-HTTP-009",
            Some("2025-03-26") => "HTTP-010",
            Some("2025-06-18" | "2025-11-25") => "HTTP-011",
            _ => return,
        };
        self.notice(rule, "the body is no message", text);
    }

    /// Judges a message.
    pub(super) fn judge(&mut self, message: &Message) {
        let Message { value, text, .. } = message;
        self.see("message");
        if value.is_object() {
            self.see(if message.is_response() { "response" } else { message.method() });
            if value.get("error").is_some() {
                self.see("error");
                // JSON-RPC has a null where the id of a message could not be read.
                if value["id"].is_null() {
                    return;
                }
            }
        }
        // A server with sessions does not know what these are.
        if !self.script.is_modern && claim(value).is_some() {
            return;
        }
        if message.is_response() && value["id"] == PROVOKED {
            return;
        }
        if self.script.is_modern {
            self.judge_modern(message);
        } else {
            self.judge_legacy(message);
        }
        if message.is_request() {
            self.judge_token(message);
        }
        self.feed(Origin::Client, text);
    }

    fn judge_legacy(&mut self, message: &Message) {
        let (value, text) = (&message.value, message.text.as_str());
        if message.method() == "initialize" {
            if message.is_request() {
                self.session.initialize = Some(text.to_owned());
                self.judge_initialize(&value["params"], text);
            }
        } else if message.is_request() && message.method() != "ping" {
            match (&self.session.initialize, &self.session.version) {
                (None, _) => self.notice("LIFE-001", "a request comes before initialize", text),
                (Some(_), None) => self.notice("LIFE-007", "a request comes before the answer to initialize", text),
                _ => {}
            }
            if message.method() == "completion/complete" {
                self.judge_completion(&value["params"], text);
            }
        }
    }

    fn judge_completion(&mut self, params: &Value, text: &str) {
        let (reference, argument) = (&params["ref"], &params["argument"]);
        let has_reference = match reference["type"].as_str() {
            Some("ref/prompt") => reference["name"].is_string(),
            Some("ref/resource") => reference["uri"].is_string(),
            _ => false,
        };
        let [of_reference, of_argument, of_context] = match self.script.is_modern {
            false => ["COMPL-001", "COMPL-002", "COMPL-003"],
            true => ["M-COMPL-003", "M-COMPL-002", "M-COMPL-004"],
        };
        if !has_reference {
            self.notice(of_reference, "`ref` does not have its shape", text);
        }
        if !argument["name"].is_string() || !argument["value"].is_string() {
            self.notice(of_argument, "`argument` does not have its shape", text);
        }
        // The rules are about this member only.
        let Some(resolved) = params["context"].get("arguments") else { return };
        // Earlier revisions have no such member.
        if !self.script.is_modern && self.session.version.as_deref() < Some("2025-06-18") {
            return;
        }
        self.see("completion context");
        if !resolved.as_object().is_some_and(|map| map.values().all(Value::is_string)) {
            self.notice(of_context, "the arguments of `context` are not a map of strings", text);
        }
    }

    fn judge_initialize(&mut self, params: &Value, text: &str) {
        let info = &params["clientInfo"];
        // The state machine of a server has no session after a wrong handshake.
        self.session.is_partial = !info["name"].is_string() || !info["version"].is_string();
        if !params["protocolVersion"].is_string() || !params["capabilities"].is_object() || !info.is_object() {
            self.notice("LIFE-002", "a member is missing", text);
        } else if !info["name"].is_string() || !info["version"].is_string() {
            self.notice("LIFE-003", "the name or the version is no text", text);
        }
        let version = params["protocolVersion"].as_str().unwrap_or_default();
        let (is_newest, capabilities) = (version >= "2025-11-25", &params["capabilities"]);
        let has_lists = capabilities["roots"].get("listChanged").is_none_or(Value::is_boolean);
        let has_tasks = !is_newest || capabilities.get("tasks").is_none_or(Value::is_object);
        if !are_capabilities(capabilities, version >= "2025-06-18", is_newest) || !has_lists || !has_tasks {
            let rule = if is_newest { "LIFE-028" } else { "LIFE-027" };
            self.notice(rule, "a capability does not have its shape", text);
            self.session.is_partial = true;
        }
    }

    fn judge_modern(&mut self, message: &Message) {
        let (value, text) = (&message.value, message.text.as_str());
        if !message.is_request() {
            let is_known = self.session.is_modern;
            if is_known && message.is_response() && value.is_object() {
                self.notice("M-BASE-024", "a response", text);
            }
            if is_known && matches!(message.method(), "notifications/initialized" | "notifications/roots/list_changed")
            {
                self.notice("M-BASE-052", "a notification that was removed", text);
            }
            return;
        }
        let meta = &value["params"]["_meta"];
        let Some(version) = claim(value) else {
            // A client of sessions may try, also beside this one over HTTP.
            let may_try = message.method() == "initialize" || message.method() == "ping" && self.is_http();
            if self.session.is_modern && !may_try {
                self.notice("M-META-001", "the request has no protocol version", text);
            }
            return;
        };
        self.session.is_modern = true;
        if !version.is_string() {
            self.notice("M-META-001", "the protocol version is no text", text);
        }
        let capabilities = &meta[format!("{META}clientCapabilities")];
        if !capabilities.is_object() {
            self.notice("M-META-002", "the request has no client capabilities", text);
        } else if !are_capabilities(capabilities, true, true) {
            self.notice("M-META-030", "a capability is no object", text);
        }
        match meta.get(format!("{META}clientInfo")) {
            None => self.notice("M-META-003", "the request has no client info", text),
            Some(info) if !info["name"].is_string() || !info["version"].is_string() => {
                self.notice("M-META-004", "the name or the version is no text", text);
            }
            Some(_) => {}
        }
        let params = value["params"].as_object();
        if message.method() == "server/discover" && params.is_some_and(|params| params.len() != 1) {
            self.notice("M-DISC-002", "server/discover has params", text);
        }
        if message.method() == "completion/complete" {
            self.judge_completion(&value["params"], text);
        }
        if message.method() == "subscriptions/listen" {
            self.judge_filter(&value["params"]["notifications"], text);
        }
        if self.session.judge.is_none() && version == MODERN {
            self.begin_modern(capabilities);
        }
    }

    fn judge_filter(&mut self, filter: &Value, text: &str) {
        let Some(members) = filter.as_object() else {
            return self.notice("M-SUBS-001", "there is no filter", text);
        };
        let is_good = |(name, value): (&String, &Value)| match name.as_str() {
            "toolsListChanged" | "promptsListChanged" | "resourcesListChanged" => value.is_boolean(),
            "resourceSubscriptions" => value.as_array().is_some_and(|uris| uris.iter().all(Value::is_string)),
            _ => true,
        };
        if !members.iter().all(is_good) {
            self.notice("M-SUBS-002", "a member of the filter does not have its type", text);
        }
    }

    fn judge_token(&mut self, message: &Message) {
        let (modern, text) = (self.script.is_modern, message.text.as_str());
        let Some(token) = message.value["params"]["_meta"].get("progressToken") else { return };
        self.see("progress token");
        if !token.is_string() && !token.is_i64() && !token.is_u64() {
            self.notice(if modern { "M-PROG-002" } else { "PROG-002" }, "the token is no text and no integer", text);
        }
        let (id, token) = (message.value["id"].to_string(), token.to_string());
        // Over HTTP without sessions, two clients of one program may use a token at once. A request that is sent again
        // has its token, and another id if the one before may have been lost.
        let is_one = (!modern || !self.is_http()) && !self.session.has_lost;
        if is_one && self.session.tokens.iter().any(|(other, its)| *other != id && *its == token) {
            self.notice(if modern { "M-PROG-003" } else { "PROG-003" }, "another request has this token", text);
        }
        if self.session.tokens.len() < 1000 {
            self.session.tokens.insert(id, token);
        }
    }

    /// Begins to judge a session by the state machines.
    pub(super) fn begin_session(&mut self, answer: &Value) {
        let Some(initialize) = self.session.initialize.clone() else { return };
        let request: Value = serde_json::from_str(&initialize).unwrap_or_default();
        let decode = |value: &Value| serde_json::from_value(value.clone()).ok();
        let setup = Setup {
            version: self.session.version.as_deref().and_then(ProtocolVersion::parse),
            is_modern: false,
            server: serde_json::from_value(answer["result"]["capabilities"].clone()).ok(),
            client: decode(&request["params"]["capabilities"]),
        };
        self.session.is_partial |= setup.client.is_none();
        // Without a revision that both know there is nothing to judge by.
        if setup.version.is_none() {
            return;
        }
        self.session.judge = Some(Judge::new(setup, false));
        self.feed(Origin::Client, &initialize);
        self.feed(Origin::Server, &answer.to_string());
    }

    fn begin_modern(&mut self, capabilities: &Value) {
        let server = serde_json::from_value(super::answers::capabilities(true)).ok();
        let client = serde_json::from_value(capabilities.clone()).ok();
        let setup = Setup { version: None, is_modern: true, server, client };
        self.session.judge = Some(Judge::new(setup, false));
    }

    /// Notes a message of the server, for the state machines.
    pub(super) fn judge_own(&mut self, text: &str) {
        self.feed(Origin::Server, text);
    }

    fn feed(&mut self, from: Origin, text: &str) {
        let Some(judge) = &mut self.session.judge else { return };
        let start: &Instant = self.session.began.get_or_insert_with(Instant::now);
        let at = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        let judged = judge.take(&Line { at, from, bytes: text.as_bytes().to_vec(), end: FrameEnd::Complete });
        let method = judged.steps.first().and_then(|step| step.method.clone()).unwrap_or_default();
        let (is_http, is_partial) = (self.is_http(), self.session.is_partial);
        // Without sessions, two clients of one program may use an id at once.
        let has_lost = self.session.has_lost || self.script.is_modern;
        for mut finding in judged.findings {
            // Over HTTP a notification may overtake the one before.
            let is_unsure = match finding.rule {
                Some("PROG-007") => is_http,
                Some("PROG-009") => is_partial,
                _ => false,
            };
            if is_unsure || is_http && !finding.holds_over_http(has_lost) {
                continue;
            }
            let rule = match finding.rule {
                Some("STDIO-006" | "STDIO-008") => Some(self.of_noise()),
                // These are about requests.
                Some("BASE-003" | "BASE-004") if is_response(text) => Some("BASE-008"),
                Some("M-BASE-003" | "M-BASE-004") if is_response(text) => Some("M-BASE-024"),
                rule => rule.or_else(|| of_shape(&method, self.script.is_modern)),
            };
            if let Some(rule) = rule.filter(|rule| finding.by == Origin::Client && !OWN.contains(rule)) {
                self.notice(rule, &finding.what, text);
            }
        }
    }

    /// Judges that the input of the server was closed before it was ended.
    pub(super) fn take_end(&mut self, is_clean: bool) {
        self.see("end of input");
        if !is_clean && !self.session.is_over {
            let rule = if self.script.is_modern { "M-STDIO-015" } else { "STDIO-011" };
            self.notice(rule, "the server is ended", "its standard input was open");
        }
    }
}

/// Returns whether the capabilities of a client have their shapes, as far as their revision has them.
fn are_capabilities(capabilities: &Value, has_elicitation: bool, has_members: bool) -> bool {
    let is_object = |value: Option<&Value>| value.is_none_or(Value::is_object);
    let inner = [("sampling", "context"), ("sampling", "tools"), ("elicitation", "form"), ("elicitation", "url")];
    is_object(capabilities.get("roots"))
        && is_object(capabilities.get("sampling"))
        && (!has_elicitation || is_object(capabilities.get("elicitation")))
        && (!has_members || inner.iter().all(|(name, member)| is_object(capabilities[*name].get(*member))))
}

/// Returns the rules that are broken wherever another one is, and that share a check with it.
fn implied(rule: &str) -> Rules {
    match rule {
        "BASE-004" => &["BASE-003"],
        "STDIO-006" => &["STDIO-008"],
        "M-BASE-004" => &["M-BASE-003"],
        "M-BASE-052" => &["M-BASE-053"],
        "M-STDIO-002" => &["M-STDIO-004"],
        "M-STDIO-004" => &["M-STDIO-002"],
        _ => &[],
    }
}

fn is_response(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object() && value.get("method").is_none())
}

/// Returns the rule for params or a result that do not fit their method.
fn of_shape(method: &str, is_modern: bool) -> Option<&'static str> {
    let (legacy, modern) = match method {
        "tools/call" => ("TOOL-014", "M-TOOL-011"),
        "prompts/get" => ("PROMPT-007", "M-PROMPT-008"),
        "resources/read" => ("RES-007", "M-RES-010"),
        "roots/list" => ("ROOT-003", "M-ROOT-004"),
        "sampling/createMessage" => ("SAMP-010", "M-SAMP-019"),
        "elicitation/create" => ("ELIC-024", "M-ELIC-019"),
        _ => return None,
    };
    Some(if is_modern { modern } else { legacy })
}

impl Stage {
    /// Judges the headers of a message.
    pub(super) fn judge_post(&mut self, message: &Message) {
        let (headers, text) = (&message.headers, message.text.as_str());
        let is_session = message.is_request() || message.is_session_batch();
        let is_claim = claim(&message.value).is_some() || self.session.is_modern && !is_session;
        if self.script.is_modern != is_claim {
            return;
        }
        let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        let accepts = list(headers, "accept");
        if !accepts.contains("application/json") || !accepts.contains("text/event-stream") {
            let rule = if self.script.is_modern { "M-HTTP-008" } else { "HTTP-009" };
            self.notice(rule, "the header Accept does not have both types", &format!("{lines}\n{text}"));
        }
        if self.script.is_modern {
            self.judge_mirrors(message, &lines);
            return;
        }
        if self.may_come_first(message) {
            return;
        }
        if message.value.is_array() && self.session.version.as_deref() >= Some("2025-06-18") {
            self.notice("HTTP-011", "the body is an array", text);
        }
        if message.method() != "initialize" {
            self.judge_session_headers(&message.headers, text);
        }
    }

    /// Judges the headers that a request has in a session.
    pub(super) fn judge_session_headers(&mut self, headers: &[(String, String)], text: &str) {
        let Some(version) = self.session.version.clone() else { return };
        if version.as_str() < "2025-03-26" {
            return;
        }
        let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        let shown = format!("{lines}\n{text}");
        // A client that could not read the answer knows neither the session nor the revision.
        if self.needs_session_id() {
            self.see("session");
            if !header(headers, "mcp-session-id").is_some_and(|given| self.is_session_id(given)) {
                self.notice("HTTP-058", "the header Mcp-Session-Id does not have the id of the session", &shown);
                return;
            }
        }
        let is_its = header(headers, "mcp-session-id").map(str::to_owned) == self.session.id;
        if version.as_str() < "2025-06-18" || !self.session.is_ready || !is_its && self.has_others() {
            return;
        }
        self.see("version header");
        match header(headers, "mcp-protocol-version") {
            None => self.notice("HTTP-065", "there is no header MCP-Protocol-Version", &shown),
            Some(value) if value != version => {
                self.notice("HTTP-066", &format!("the header MCP-Protocol-Version is not {version}"), &shown);
            }
            Some(_) => {}
        }
    }

    pub(super) fn judge_get(&mut self, request: &HttpRequest) {
        let lines: String = request.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        if self.script.is_modern {
            return;
        }
        if !list(&request.headers, "accept").contains("text/event-stream") {
            self.notice("HTTP-036", "the header Accept does not have text/event-stream", &format!("GET\n{lines}"));
        }
        if !self.is_foreign(request) {
            self.see("GET");
            self.judge_session_headers(&request.headers, "GET");
        }
    }

    /// Judges the headers that mirror a message of 2026-07-28.
    fn judge_mirrors(&mut self, message: &Message, lines: &str) {
        let (value, headers, method) = (&message.value, &message.headers, message.method());
        let shown = format!("{lines}\n{}", message.text);
        let get = |name: &str| header(headers, name);
        if get("last-event-id").is_some() {
            self.notice("M-HTTP-024", "there is a header Last-Event-ID", &shown);
        }
        match get("mcp-protocol-version") {
            None => self.notice("M-HTTP-029", "there is no header MCP-Protocol-Version", &shown),
            Some(version) if claim(value).is_some_and(|claim| claim != version) => {
                self.notice("M-HTTP-030", "the header MCP-Protocol-Version differs from the body", &shown);
            }
            Some(_) => {}
        }
        let content_type = get("content-type").unwrap_or_default().to_ascii_lowercase();
        if !content_type.starts_with("application/json") {
            self.notice("M-HTTP-094", "the header Content-Type is not application/json", &shown);
        }
        if !message.is_request() {
            return;
        }
        if get("mcp-method") != Some(method) {
            self.notice("M-HTTP-036", "the header Mcp-Method differs from the body", &shown);
        }
        self.judge_param(message, &shown);
        let (member, rule) = match method {
            "tools/call" | "prompts/get" => ("name", "M-HTTP-037"),
            "resources/read" => ("uri", "M-HTTP-038"),
            _ => return,
        };
        if member == "name" {
            self.see("call by a name");
        }
        let expected = value["params"][member].as_str();
        if expected.is_some() && get("mcp-name").and_then(decode).as_deref() != expected {
            self.notice(rule, "the header Mcp-Name differs from the body", &shown);
        }
    }

    /// Judges the header of the argument `message` of the tool `echo`. A call without it may be that of another client
    /// of the program, which has not listed the tools.
    fn judge_param(&mut self, message: &Message, shown: &str) {
        let params = &message.value["params"];
        let Some(given) = header(&message.headers, "mcp-param-message") else { return };
        if message.method() != "tools/call" || params["name"] != "echo" {
            return;
        }
        match params["arguments"]["message"].as_str() {
            Some(argument) => {
                self.see("mirrored argument");
                if decode(given).as_deref() != Some(argument) {
                    let expected = header_value(argument);
                    self.notice("M-HTTP-050", &format!("the header Mcp-Param-Message is not `{expected}`"), shown);
                }
            }
            None if params["arguments"]["message"].is_null() => {
                self.notice("M-HTTP-060", "there is a header Mcp-Param-Message without the argument", shown);
            }
            None => {}
        }
    }

    /// Returns whether the client has declared a capability in the era of the check.
    pub(super) fn capability(&self, name: &str) -> Option<&Value> {
        match self.era {
            Era::Legacy => self.facts.legacy.as_ref()?["capabilities"].get(name),
            Era::Modern => self.facts.modern.as_ref()?[format!("{META}clientCapabilities")].get(name),
        }
    }
}

/// Returns the values of a header that is a list, in lower case.
fn list(headers: &[(String, String)], name: &str) -> String {
    let lines = headers.iter().filter(|(it, _)| it.eq_ignore_ascii_case(name));
    lines.map(|(_, value)| value.to_ascii_lowercase()).collect::<Vec<_>>().join(", ")
}

/// Decodes the value of a header that mirrors a text.
fn decode(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(inner) => String::from_utf8(decode_base64(inner)?).ok(),
        None => Some(value.to_owned()),
    }
}
