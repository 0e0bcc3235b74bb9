//! A program that writes to a server on the pipe of a client: requests of the other era than the client's, and
//! other messages that a server may get.

use std::collections::BTreeMap;

use mcp_tests::{
    message::{CAPABILITIES, VERSION, cancelled, listen, modern, modern_with, notification, request_with, result},
    testbed::Testbed,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A message to write. Numbers select among the current candidates.
#[derive(Clone, Debug)]
pub(crate) enum WriterStep {
    Discover,
    Request(u8),
    Listen(u8),
    Cancel(usize),
    /// Repeats a request with the responses to its input requests.
    Again(usize),
    Wrong(u8),
    Junk(u8),
    /// Sends `initialize`, or a message of the session that it opens, if the client has none.
    Initialize,
    Initialized,
    RequestInSession(u8),
    Reply(usize),
}

pub(crate) fn write() -> impl Strategy<Value = WriterStep> {
    prop_oneof![
        1 => Just(WriterStep::Discover),
        6 => any::<u8>().prop_map(WriterStep::Request),
        3 => any::<u8>().prop_map(WriterStep::Listen),
        4 => any::<usize>().prop_map(WriterStep::Cancel),
        3 => any::<usize>().prop_map(WriterStep::Again),
        2 => any::<u8>().prop_map(WriterStep::Wrong),
        1 => any::<u8>().prop_map(WriterStep::Junk),
        2 => Just(WriterStep::Initialize),
        1 => Just(WriterStep::Initialized),
        4 => any::<u8>().prop_map(WriterStep::RequestInSession),
        3 => any::<usize>().prop_map(WriterStep::Reply),
    ]
}

/// The messages that this program has sent and waits for. Its ids and tokens are strings that begin with `s`.
#[derive(Debug, Default)]
pub(crate) struct SecondWriter {
    next: u32,
    /// Open requests with their methods and params.
    open: BTreeMap<String, (String, Value)>,
    listening: Vec<String>,
    /// Requests that got input requests, and these input requests.
    input_requests: Vec<(String, Value, Value)>,
    /// Requests of the server in that session.
    requested: Vec<Value>,
    has_session: bool,
    /// Whether this program may open a session, because the client has none.
    may_open: bool,
}

/// Returns whether a line is for this program when the client has the session.
pub(crate) fn is_modern_aside(line: &str) -> bool {
    let Ok(line) = serde_json::from_str::<Value>(line) else { return false };
    let params = &line["params"];
    let names = [&line["id"], &params["requestId"], &params["progressToken"]];
    let subscription = &params["_meta"]["io.modelcontextprotocol/subscriptionId"];
    names.into_iter().chain([subscription]).any(|name| name.as_str().is_some_and(|name| name.starts_with('s')))
}

/// Returns whether a line is for this program when the client has no session: then the session is this program's.
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

/// Lines that are no messages, or that no request belongs to.
const JUNK: [&[u8]; 8] = [
    b"hello",
    b"{\"jsonrpc\":\"2.0\"",
    b"[]",
    b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"tools/list\"}",
    b"{\"jsonrpc\":\"2.0\",\"id\":\"sx\",\"result\":{}}",
    b"\xff\xfe",
    b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":[]}}",
    b"{\"jsonrpc\":\"2.0\",\"method\":\"vendor/noise\"}",
];

fn initialize(id: String) -> Value {
    let client = json!({"name": "old", "version": "1"});
    let capabilities = json!({"roots": {"listChanged": true}});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client});
    request_with(id, "initialize", params)
}

/// Returns a request that the server refuses.
fn wrong(id: String, kind: u8) -> Value {
    let meta = |meta| json!({ "_meta": meta });
    match kind % 6 {
        0 => modern_with(id, "tools/list", json!({}), json!({VERSION: "2031-01-01"})),
        1 => request_with(id, "tools/list", meta(json!({VERSION: "2026-07-28"}))),
        2 => modern(id, "ping", json!({})),
        3 => modern(id, "initialize", json!({})),
        4 => listen(id, json!("everything")),
        _ => modern_with(id, "tools/call", json!({}), json!({"io.modelcontextprotocol/logLevel": "loud"})),
    }
}

impl SecondWriter {
    pub(crate) fn new(may_open: bool) -> Self {
        Self { may_open, ..Self::default() }
    }

    fn id(&mut self) -> String {
        self.next += 1;
        format!("s{}", self.next)
    }

    fn send_request(&mut self, testbed: &mut Testbed, message: Value) {
        let id = message["id"].as_str().expect("a text").to_owned();
        let method = message["method"].as_str().expect("a text").to_owned();
        self.open.insert(id, (method, message["params"].clone()));
        testbed.client.inject(message.to_string().as_bytes());
    }

    pub(crate) fn write(&mut self, testbed: &mut Testbed, what: &WriterStep) {
        self.receive(testbed);
        match *what {
            WriterStep::Discover => {
                let message = modern(self.id(), "server/discover", json!({}));
                self.send_request(testbed, message);
            }
            WriterStep::Request(kind) => {
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
                self.send_request(testbed, modern_with(id, method, json!({"name": "t", "uri": "a:b"}), meta));
            }
            WriterStep::Listen(kind) => {
                let id = self.id();
                let mut filter = json!({"toolsListChanged": kind & 1 != 0, "promptsListChanged": kind & 2 != 0});
                if kind & 4 != 0 {
                    filter["resourceSubscriptions"] = json!(["a:b", "a:c"]);
                }
                self.listening.push(id.clone());
                self.send_request(testbed, listen(id, filter));
            }
            WriterStep::Cancel(n) => {
                let can_be = |(_, (method, _)): &(&String, &(String, Value))| method != "initialize";
                let open: Vec<String> = self.open.iter().filter(can_be).map(|(id, _)| id.clone()).collect();
                if let Some(id) = open.get(n % open.len().max(1)) {
                    self.cancel(testbed, id);
                }
            }
            WriterStep::Again(n) => {
                if !self.input_requests.is_empty() {
                    let (method, mut params, requires_input) =
                        self.input_requests.swap_remove(n % self.input_requests.len());
                    if let Some(state) = requires_input.get("requestState") {
                        params["requestState"] = state.clone();
                    }
                    params["inputResponses"] = json!({"r": {"roots": []}, "e": {"action": "cancel"}});
                    let message = request_with(self.id(), &method, params);
                    self.send_request(testbed, message);
                }
            }
            WriterStep::Wrong(kind) => {
                let message = wrong(self.id(), kind);
                self.send_request(testbed, message);
            }
            WriterStep::Junk(kind) => {
                testbed.client.inject(JUNK[usize::from(kind) % JUNK.len()]);
            }
            WriterStep::Initialize | WriterStep::RequestInSession(_) if self.may_open && !self.has_session => {
                let message = initialize(self.id());
                self.send_request(testbed, message);
            }
            WriterStep::Initialized | WriterStep::Initialize if self.may_open => {
                testbed.client.inject(notification("notifications/initialized").to_string().as_bytes());
            }
            WriterStep::RequestInSession(kind) if self.has_session => {
                let id = self.id();
                let method = ["tools/call", "ping", "tools/list", "resources/read"][usize::from(kind) % 4];
                let meta = if kind & 16 != 0 { json!({"progressToken": id}) } else { json!({}) };
                self.send_request(testbed, request_with(id, method, json!({"name": "t", "uri": "a:b", "_meta": meta})));
            }
            WriterStep::Reply(n) => {
                if !self.requested.is_empty() {
                    let id = self.requested.swap_remove(n % self.requested.len());
                    testbed.client.inject(result(id, json!({"roots": []})).to_string().as_bytes());
                }
            }
            WriterStep::Initialize | WriterStep::Initialized | WriterStep::RequestInSession(_) => {}
        }
    }

    fn cancel(&mut self, testbed: &mut Testbed, id: &str) {
        self.open.remove(id);
        self.listening.retain(|listening| listening != id);
        testbed.client.inject(cancelled(id).to_string().as_bytes());
    }

    /// Processes the lines for this program.
    pub(crate) fn receive(&mut self, testbed: &mut Testbed) {
        for line in std::mem::take(&mut testbed.client.foreign) {
            let message: Value = serde_json::from_str(&line).expect("lines are JSON");
            match (message["method"].as_str(), message.get("id")) {
                (Some(_), Some(id)) => self.requested.push(id.clone()),
                (None, Some(id)) => {
                    // A cancelled request may have been answered before the server processed the cancellation.
                    let Some((method, params)) = self.open.remove(id.as_str().unwrap_or_default()) else { continue };
                    self.listening.retain(|listening| listening != id);
                    let result = &message["result"];
                    self.has_session |= method == "initialize" && result.is_object();
                    if result["resultType"] == "input_required" {
                        self.input_requests.push((method, params, result.clone()));
                    }
                }
                _ => {}
            }
        }
    }

    /// Ends the subscriptions and requests that do not end by themselves.
    pub(crate) fn leave(&mut self, testbed: &mut Testbed) {
        self.receive(testbed);
        for id in std::mem::take(&mut self.listening) {
            self.cancel(testbed, &id);
        }
        while !self.requested.is_empty() {
            self.write(testbed, &WriterStep::Reply(0));
        }
    }
}
