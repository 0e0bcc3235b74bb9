//! A program that writes to a server on the pipe of a client, by hand: requests of the other era than the client's, and
//! whatever else servers are sent.

use std::collections::BTreeMap;

use mcp_tests::{
    bed::Bed,
    message::{CAPABILITIES, VERSION, cancelled, listen, modern, modern_with, notification, request_with, result},
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Something to write. Numbers pick among what there is at the moment.
#[derive(Clone, Debug)]
pub(crate) enum Say {
    Discover,
    Ask(u8),
    Listen(u8),
    Cancel(usize),
    /// A request again, with the answers to its questions.
    Again(usize),
    Wrong(u8),
    Junk(u8),
    /// `initialize`, and what belongs to the session that it opens, if the client has none.
    Initialize,
    Initialized,
    AskInSession(u8),
    Reply(usize),
}

pub(crate) fn say() -> impl Strategy<Value = Say> {
    prop_oneof![
        1 => Just(Say::Discover),
        6 => any::<u8>().prop_map(Say::Ask),
        3 => any::<u8>().prop_map(Say::Listen),
        4 => any::<usize>().prop_map(Say::Cancel),
        3 => any::<usize>().prop_map(Say::Again),
        2 => any::<u8>().prop_map(Say::Wrong),
        1 => any::<u8>().prop_map(Say::Junk),
        2 => Just(Say::Initialize),
        1 => Just(Say::Initialized),
        4 => any::<u8>().prop_map(Say::AskInSession),
        3 => any::<usize>().prop_map(Say::Reply),
    ]
}

/// What the stranger has said and waits for. The ids and tokens are texts that begin with `s`.
#[derive(Debug, Default)]
pub(crate) struct Stranger {
    next: u32,
    /// Requests that wait for an answer, with their methods and params.
    open: BTreeMap<String, (String, Value)>,
    listening: Vec<String>,
    /// Requests that were answered with questions, and with which.
    questions: Vec<(String, Value, Value)>,
    /// What the server wants to know in that session.
    asked: Vec<Value>,
    has_session: bool,
    /// Whether the stranger may open a session: there is none of the client.
    may_open: bool,
}

/// Whether a line is for the stranger where the client has the session.
pub(crate) fn is_modern_aside(line: &str) -> bool {
    let Ok(line) = serde_json::from_str::<Value>(line) else { return false };
    let params = &line["params"];
    let names = [&line["id"], &params["requestId"], &params["progressToken"]];
    let subscription = &params["_meta"]["io.modelcontextprotocol/subscriptionId"];
    names.into_iter().chain([subscription]).any(|name| name.as_str().is_some_and(|name| name.starts_with('s')))
}

/// Whether a line is for the stranger where the client has none: the session is the stranger's then.
pub(crate) fn is_session_aside(line: &str) -> bool {
    let Ok(message) = serde_json::from_str::<Value>(line) else { return false };
    let is_untagged = message["params"]["_meta"].get("io.modelcontextprotocol/subscriptionId").is_none();
    let is_of_session = match (message["method"].as_str(), message.get("id")) {
        (Some(_), Some(_)) => true,
        (Some("notifications/progress"), None) => false,
        (Some("notifications/cancelled"), None) => message["params"]["reason"].is_string(),
        (Some(_), None) => is_untagged,
        _ => false,
    };
    is_of_session || is_modern_aside(line)
}

impl Stranger {
    pub(crate) fn new(may_open: bool) -> Self {
        Self { may_open, ..Self::default() }
    }

    fn id(&mut self) -> String {
        self.next += 1;
        format!("s{}", self.next)
    }

    fn ask(&mut self, bed: &mut Bed, message: Value) {
        let id = message["id"].as_str().expect("a text").to_owned();
        let method = message["method"].as_str().expect("a text").to_owned();
        self.open.insert(id, (method, message["params"].clone()));
        bed.client.inject(message.to_string().as_bytes());
    }

    pub(crate) fn say(&mut self, bed: &mut Bed, what: &Say) {
        self.hear(bed);
        match *what {
            Say::Discover => {
                let message = modern(self.id(), "server/discover", json!({}));
                self.ask(bed, message);
            }
            Say::Ask(kind) => {
                let id = self.id();
                let method = ["tools/call", "tools/list", "resources/read", "vendor/custom"][usize::from(kind) % 4];
                let mut meta = json!({});
                if kind & 16 != 0 {
                    meta["progressToken"] = json!(id);
                }
                if kind & 32 != 0 {
                    meta["io.modelcontextprotocol/logLevel"] = json!("info");
                }
                if kind & 64 != 0 {
                    meta[CAPABILITIES] = json!({"roots": {}, "elicitation": {}});
                }
                self.ask(bed, modern_with(id, method, json!({"name": "t", "uri": "a:b"}), meta));
            }
            Say::Listen(kind) => {
                let id = self.id();
                let mut filter = json!({"toolsListChanged": kind & 1 != 0, "promptsListChanged": kind & 2 != 0});
                if kind & 4 != 0 {
                    filter["resourceSubscriptions"] = json!(["a:b", "a:c"]);
                }
                self.listening.push(id.clone());
                self.ask(bed, listen(id, filter));
            }
            Say::Cancel(n) => {
                let can_be = |(_, (method, _)): &(&String, &(String, Value))| method != "initialize";
                let open: Vec<String> = self.open.iter().filter(can_be).map(|(id, _)| id.clone()).collect();
                if let Some(id) = open.get(n % open.len().max(1)) {
                    self.cancel(bed, id);
                }
            }
            Say::Again(n) => {
                if !self.questions.is_empty() {
                    let (method, mut params, asks) = self.questions.swap_remove(n % self.questions.len());
                    if let Some(state) = asks.get("requestState") {
                        params["requestState"] = state.clone();
                    }
                    params["inputResponses"] = json!({"r": {"roots": []}, "e": {"action": "cancel"}});
                    let message = request_with(self.id(), &method, params);
                    self.ask(bed, message);
                }
            }
            Say::Wrong(kind) => {
                let (id, meta) = (self.id(), |meta| json!({ "_meta": meta }));
                let message = match kind % 6 {
                    0 => modern_with(id, "tools/list", json!({}), json!({VERSION: "2031-01-01"})),
                    1 => request_with(id, "tools/list", meta(json!({VERSION: "2026-07-28"}))),
                    2 => modern(id, "ping", json!({})),
                    3 => modern(id, "initialize", json!({})),
                    4 => listen(id, json!("everything")),
                    _ => modern_with(id, "tools/call", json!({}), json!({"io.modelcontextprotocol/logLevel": "loud"})),
                };
                self.ask(bed, message);
            }
            Say::Junk(kind) => {
                let junk: [&[u8]; 8] = [
                    b"hello",
                    b"{\"jsonrpc\":\"2.0\"",
                    b"[]",
                    b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"tools/list\"}",
                    b"{\"jsonrpc\":\"2.0\",\"id\":\"sx\",\"result\":{}}",
                    b"\xff\xfe",
                    b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":[]}}",
                    b"{\"jsonrpc\":\"2.0\",\"method\":\"vendor/noise\"}",
                ];
                bed.client.inject(junk[usize::from(kind) % junk.len()]);
            }
            Say::Initialize | Say::AskInSession(_) if self.may_open && !self.has_session => {
                let client = json!({"name": "old", "version": "1"});
                let capabilities = json!({"roots": {"listChanged": true}});
                let params =
                    json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client});
                let message = request_with(self.id(), "initialize", params);
                self.ask(bed, message);
            }
            Say::Initialized | Say::Initialize if self.may_open => {
                bed.client.inject(notification("notifications/initialized").to_string().as_bytes());
            }
            Say::AskInSession(kind) if self.has_session => {
                let id = self.id();
                let method = ["tools/call", "ping", "tools/list", "resources/read"][usize::from(kind) % 4];
                let meta = if kind & 16 != 0 { json!({"progressToken": id}) } else { json!({}) };
                self.ask(bed, request_with(id, method, json!({"name": "t", "uri": "a:b", "_meta": meta})));
            }
            Say::Reply(n) => {
                if !self.asked.is_empty() {
                    let id = self.asked.swap_remove(n % self.asked.len());
                    bed.client.inject(result(id, json!({"roots": []})).to_string().as_bytes());
                }
            }
            Say::Initialize | Say::Initialized | Say::AskInSession(_) => {}
        }
    }

    fn cancel(&mut self, bed: &mut Bed, id: &str) {
        self.open.remove(id);
        self.listening.retain(|listening| listening != id);
        bed.client.inject(cancelled(id).to_string().as_bytes());
    }

    /// Takes what has come for the stranger.
    pub(crate) fn hear(&mut self, bed: &mut Bed) {
        for line in std::mem::take(&mut bed.client.aside) {
            let message: Value = serde_json::from_str(&line).expect("lines are JSON");
            match (message["method"].as_str(), message.get("id")) {
                (Some(_), Some(id)) => self.asked.push(id.clone()),
                (None, Some(id)) => {
                    // What was cancelled may have been answered before the server heard of it.
                    let Some((method, params)) = self.open.remove(id.as_str().unwrap_or_default()) else { continue };
                    self.listening.retain(|listening| listening != id);
                    let result = &message["result"];
                    self.has_session |= method == "initialize" && result.is_object();
                    if result["resultType"] == "input_required" {
                        self.questions.push((method, params, result.clone()));
                    }
                }
                _ => {}
            }
        }
    }

    /// Ends what does not end by itself.
    pub(crate) fn leave(&mut self, bed: &mut Bed) {
        self.hear(bed);
        for id in std::mem::take(&mut self.listening) {
            self.cancel(bed, &id);
        }
        while !self.asked.is_empty() {
            self.say(bed, &Say::Reply(0));
        }
    }
}
