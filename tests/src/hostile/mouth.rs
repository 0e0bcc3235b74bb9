//! How peers that do not keep the rules speak.

use std::{collections::VecDeque, fmt::Display};

use mcp_proto::protocol::{Era, ProtocolVersion, Role};
use serde_json::Value;

/// A request of the other side.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Its id, as JSON.
    pub id: String,
    /// Its method.
    pub method: String,
    /// Its progress token, as JSON.
    pub token: Option<String>,
}

/// What a peer says, and what it has heard.
pub struct Mouth {
    role: Role,
    version: ProtocolVersion,
    /// How long a message to the other side may be.
    pub frame_bytes: usize,
    out: Vec<u8>,
    heard: VecDeque<Heard>,
    has_greeted: bool,
}

/// Requests that a peer remembers.
const REMEMBERED: usize = 20;

const CAN: &str = r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}},"tasks":{"list":{},"cancel":{},"requests":{"sampling":{"createMessage":{}},"elicitation":{"create":{}}}},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

const OFFERS: &str = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{},"completions":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

impl Mouth {
    pub(super) fn new(role: Role, version: ProtocolVersion, frame_bytes: usize) -> Self {
        Self { role, version, frame_bytes, out: Vec::new(), heard: VecDeque::new(), has_greeted: false }
    }

    /// Which end it is.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Whether each of its requests stands alone.
    #[must_use]
    pub fn is_modern(&self) -> bool {
        self.version.era() == Era::Modern
    }

    pub(super) const fn has_greeted(&self) -> bool {
        self.has_greeted
    }

    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Begins as a client should.
    pub(super) fn greet(&mut self) {
        self.has_greeted = true;
        if !self.is_modern() {
            self.hello("hello", CAN);
            self.tell("notifications/initialized", "");
        }
    }

    /// The first message of a session.
    pub fn hello(&mut self, id: &str, capabilities: &str) {
        let version = if self.is_modern() { ProtocolVersion::LATEST_LEGACY } else { self.version };
        self.line(&format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"initialize","params":{{"protocolVersion":"{}","capabilities":{capabilities},"clientInfo":{{"name":"hostile","version":"1"}}}}}}"#,
            version.as_str()
        ));
    }

    /// Takes in a message. If it means to begin as it should, it answers the first one.
    pub(super) fn hear(&mut self, line: &[u8], greets: bool) {
        let message: Value = serde_json::from_slice(line).unwrap_or_default();
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else { return };
        let id = id.to_string();
        if greets && matches!(method, "initialize" | "server/discover") && !self.has_greeted {
            self.has_greeted = true;
            let offer = self.offer(OFFERS, "");
            return self.answer(&id, &offer);
        }
        if self.heard.len() == REMEMBERED {
            self.heard.pop_front();
        }
        let token = message["params"]["_meta"].get("progressToken").map(Value::to_string);
        self.heard.push_back(Heard { id, method: method.to_owned(), token });
    }

    /// The oldest request of the other side that it has not taken yet.
    pub fn take_heard(&mut self) -> Option<Heard> {
        self.heard.pop_front()
    }

    /// What a server says of itself.
    #[must_use]
    pub fn offer(&self, capabilities: &str, more: &str) -> String {
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

    /// Says a line, whatever is in it.
    pub fn line(&mut self, text: &str) {
        self.raw(text.as_bytes());
        self.raw(b"\n");
    }

    /// Says these bytes.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Asks for something. `members` are those of the params.
    pub fn ask(&mut self, id: impl Display, method: &str, members: &str) {
        self.ask_with(id, method, members, CAN, "");
    }

    /// [`ask`](Self::ask), with what the client can do and more members of `_meta`.
    pub fn ask_with(&mut self, id: impl Display, method: &str, members: &str, capabilities: &str, meta: &str) {
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

    /// Tells something. `members` are those of the params.
    pub fn tell(&mut self, method: &str, members: &str) {
        self.line(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{{members}}}}}"#));
    }

    /// Answers with a result.
    pub fn answer(&mut self, id: &str, result: &str) {
        self.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
    }

    /// Answers with an error. `more` is added to it.
    pub fn fail(&mut self, id: &str, code: i32, more: &str) {
        self.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"no"{more}}}}}"#));
    }

    /// Pieces that `make` writes, each with a comma before it but for the first, as many as fit into `bytes`.
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
