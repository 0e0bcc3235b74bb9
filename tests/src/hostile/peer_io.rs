//! Input and output of hostile peers.

use std::{collections::VecDeque, fmt::Display};

use mcp_proto::protocol::{Era, ProtocolVersion, Role};
use serde_json::Value;

/// A request that a hostile peer received.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    /// Its id, as JSON.
    pub id: String,
    /// Its method.
    pub method: String,
    /// Its progress token, as JSON.
    pub token: Option<String>,
}

/// The output of a hostile peer, and the requests that it received.
pub struct PeerIo {
    role: Role,
    version: ProtocolVersion,
    /// The size limit of messages to the other side.
    pub frame_bytes: usize,
    out: Vec<u8>,
    requests: VecDeque<ReceivedRequest>,
    has_completed_handshake: bool,
}

/// The most requests in the queue.
const MAX_QUEUED: usize = 20;

const CLIENT_CAPABILITIES: &str = r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}},"tasks":{"list":{},"cancel":{},"requests":{"sampling":{"createMessage":{}},"elicitation":{"create":{}}}},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

const SERVER_CAPABILITIES: &str = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{},"completions":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

impl PeerIo {
    pub(super) fn new(role: Role, version: ProtocolVersion, frame_bytes: usize) -> Self {
        Self { role, version, frame_bytes, out: Vec::new(), requests: VecDeque::new(), has_completed_handshake: false }
    }

    /// Returns its role.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Returns whether its requests are stateless.
    #[must_use]
    pub fn is_modern(&self) -> bool {
        self.version.era() == Era::Modern
    }

    pub(super) const fn has_completed_handshake(&self) -> bool {
        self.has_completed_handshake
    }

    pub(super) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Completes the handshake of a client.
    pub(super) fn start_handshake(&mut self) {
        self.has_completed_handshake = true;
        if !self.is_modern() {
            self.initialize("hello", CLIENT_CAPABILITIES);
            self.notify("notifications/initialized", "");
        }
    }

    /// Writes `initialize`.
    pub fn initialize(&mut self, id: &str, capabilities: &str) {
        let version = if self.is_modern() { ProtocolVersion::LATEST_LEGACY } else { self.version };
        self.line(&format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"initialize","params":{{"protocolVersion":"{}","capabilities":{capabilities},"clientInfo":{{"name":"hostile","version":"1"}}}}}}"#,
            version.as_str()
        ));
    }

    /// Handles a message. With `completes_handshake` it responds to the first request of a handshake.
    pub(super) fn receive(&mut self, line: &[u8], completes_handshake: bool) {
        let message: Value = serde_json::from_slice(line).unwrap_or_default();
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else { return };
        let id = id.to_string();
        if completes_handshake && matches!(method, "initialize" | "server/discover") && !self.has_completed_handshake {
            self.has_completed_handshake = true;
            // The client keeps them, as much as its limits allow.
            let instructions = "i".repeat((self.frame_bytes - self.frame_bytes / 8).saturating_sub(800));
            let more = format!(r#","instructions":"{instructions}""#);
            let offer = self.handshake_result(SERVER_CAPABILITIES, &more);
            return self.respond(&id, &offer);
        }
        if self.requests.len() == MAX_QUEUED {
            self.requests.pop_front();
        }
        let token = message["params"]["_meta"].get("progressToken").map(Value::to_string);
        self.requests.push_back(ReceivedRequest { id, method: method.to_owned(), token });
    }

    /// Takes the oldest request from the queue.
    pub fn next_request(&mut self) -> Option<ReceivedRequest> {
        self.requests.pop_front()
    }

    /// Returns the result of a server's handshake or discovery.
    #[must_use]
    pub fn handshake_result(&self, capabilities: &str, more: &str) -> String {
        match self.is_modern() {
            true => format!(
                r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{capabilities},"ttlMs":0,"cacheScope":"private"{more}}}"#
            ),
            false => format!(
                r#"{{"protocolVersion":"{}","capabilities":{capabilities},"serverInfo":{{"name":"hostile","version":"1"}}{more}}}"#,
                self.version.as_str()
            ),
        }
    }

    /// Writes a line with any content.
    pub fn line(&mut self, text: &str) {
        self.raw(text.as_bytes());
        self.raw(b"\n");
    }

    /// Writes these bytes.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Writes a request. `members` are those of the params.
    pub fn request(&mut self, id: impl Display, method: &str, members: &str) {
        self.request_with(id, method, members, CLIENT_CAPABILITIES, "");
    }

    /// Writes a request with these capabilities of the client and more members of `_meta`.
    pub fn request_with(&mut self, id: impl Display, method: &str, members: &str, capabilities: &str, meta: &str) {
        let comma = if members.is_empty() { "" } else { "," };
        let meta = match (self.is_modern() && self.role == Role::Client, meta) {
            (true, meta) => {
                let more = if meta.is_empty() { "" } else { "," };
                format!(
                    r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"hostile","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{capabilities}{more}{meta}"#
                )
            }
            (false, meta) => meta.to_owned(),
        };
        self.line(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{{{meta}}}{comma}{members}}}}}"#
        ));
    }

    /// Writes a notification. `members` are those of the params.
    pub fn notify(&mut self, method: &str, members: &str) {
        self.line(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{{members}}}}}"#));
    }

    /// Writes a result.
    pub fn respond(&mut self, id: &str, result: &str) {
        self.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
    }

    /// Writes an error. `more` is added to it.
    pub fn respond_error(&mut self, id: &str, code: i32, more: &str) {
        self.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"no"{more}}}}}"#));
    }

    /// Returns as many pieces of `make` as fit into `bytes`, separated by commas.
    #[must_use]
    pub fn fill(bytes: usize, make: impl Fn(usize) -> String) -> String {
        let mut text = String::new();
        for number in 0.. {
            let piece = make(number);
            if text.len() + piece.len() + 1 > bytes {
                break;
            }
            if number > 0 {
                text.push(',');
            }
            text.push_str(&piece);
        }
        text
    }
}
