//! A peer that violates the protocol: it floods, sends invalid messages, misuses ids, and conforms long enough to reach
//! later states.

use mcp_proto::{codec::LineDecoder, connection::Route, protocol::Role};
use serde_json::Value;

use super::{
    environment::{Action, Environment},
    rng::Rng,
    trace::PeerId,
    transport::{Input, Transport},
};

/// The side of a connection that violates the protocol.
pub struct RoguePeer {
    peer_id: PeerId,
    lines: LineDecoder,
    out: Vec<u8>,
    /// Ids of requests that it has read, as JSON.
    seen: Vec<String>,
    /// The percentage of requests that it answers correctly.
    compliance_percent: u64,
    /// Whether it reads at all.
    reads: bool,
    /// The number of steps that remain.
    steps: u64,
    /// It has ended, or its peer has disconnected.
    is_over: bool,
}

/// The most messages of a flood.
const FLOOD: u64 = 300;

const METHODS: &[&str] = &[
    "ping",
    "initialize",
    "server/discover",
    "tools/list",
    "tools/call",
    "subscriptions/listen",
    "roots/list",
    "sampling/createMessage",
    "logging/setLevel",
    "vendor/x",
    "",
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/message",
    "notifications/subscriptions/acknowledged",
];

const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"sampling":{}}"#;

const HELLO: &str = r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{"roots":{},"sampling":{}},"clientInfo":{"name":"rogue","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
"#;

const OFFERS: &str = r#""capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},"logging":{},"completions":{}}"#;

impl RoguePeer {
    /// Returns a peer before its first message.
    #[must_use]
    pub fn new(env: &mut Environment<'_>, peer_id: PeerId) -> Self {
        let rng = &mut env.rng;
        let mut rogue = Self {
            peer_id,
            lines: LineDecoder::new(1 << 20),
            out: Vec::new(),
            seen: Vec::new(),
            compliance_percent: *rng.pick(&[0, 50, 95]),
            reads: !rng.percent(25),
            steps: rng.log_uniform(1, 40),
            is_over: false,
        };
        if peer_id.role == Role::Client && rng.percent(70) {
            rogue.out.extend_from_slice(HELLO.as_bytes());
        }
        rogue
    }

    /// Reads input and writes pending output. Returns whether there was anything to do.
    pub fn tick(&mut self, env: &mut Environment<'_>, input: &mut Transport, output: &mut Transport) -> bool {
        if self.is_over {
            return false;
        }
        let mut moved = false;
        if self.reads
            && let Some(input) = input.read(env.now, &mut env.rng)
        {
            moved = true;
            match input {
                Input::Bytes(bytes) => {
                    self.lines.feed(&bytes);
                    while let Some(frame) = self.lines.next_frame() {
                        let frame = frame.bytes().to_vec();
                        self.reply_to(&mut env.rng, &frame);
                    }
                }
                Input::Message(message) => self.reply_to(&mut env.rng, &message),
                Input::End => {
                    output.end();
                    self.is_over = true;
                }
            }
        }
        moved | self.write(env, output)
    }

    fn write(&mut self, env: &mut Environment<'_>, output: &mut Transport) -> bool {
        if self.out.is_empty() {
            return false;
        }
        let written = if output.carries_messages() {
            let messages = std::mem::take(&mut self.out);
            let messages = messages.split(|byte| *byte == b'\n').filter(|message| !message.is_empty());
            messages.map(<[u8]>::to_vec).try_fold(1, |count, message| {
                output.send(env.now, &mut env.rng, Route::Connection, message, false).map(|()| count)
            })
        } else {
            output.write(env.now, &mut env.rng, &mut self.out)
        };
        if written.is_err() {
            self.is_over = true;
            self.out.clear();
        }
        written != Ok(0)
    }

    /// Performs a step that violates the protocol.
    pub fn step(&mut self, env: &mut Environment<'_>, pause: std::time::Duration) {
        if self.is_over || self.steps == 0 || env.winding_down {
            return;
        }
        self.steps -= 1;
        env.schedule_within(pause, Action::Step(self.peer_id));
        let start = self.out.len();
        self.violate_rules(&mut env.rng);
        let shown = &self.out[start..];
        env.note(self.peer_id, "mischief", String::from_utf8_lossy(&shown[..shown.len().min(200)]));
        if env.rng.percent(5) {
            env.schedule(std::time::Duration::ZERO, Action::Kill(self.peer_id));
        }
    }

    fn send_line(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'\n');
    }

    fn violate_rules(&mut self, rng: &mut Rng) {
        match rng.below(14) {
            0..4 => {
                let message = self.message(rng);
                self.send_line(&message);
            }
            4 => {
                for _ in 0..rng.log_uniform(1, FLOOD) {
                    let message = self.message(rng);
                    self.send_line(&message);
                }
            }
            5 => {
                let members: Vec<_> = (0..rng.below(12)).map(|_| self.message(rng)).collect();
                self.send_line(&format!("[{}]", members.join(",")));
            }
            6 => {
                let bytes: Vec<u8> = (0..rng.below(60)).map(|_| rng.below(256) as u8).collect();
                self.out.extend_from_slice(&bytes);
                self.out.push(b'\n');
            }
            7 => {
                let padding = "x".repeat(rng.size(0..=30_000));
                let id = self.id(rng);
                let long = format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"number":0,"a":"{padding}"}}}}"#
                );
                self.send_line(&long);
            }
            8 => {
                let open = *rng.pick(&["[", "{\"a\":", "{\"id\":1,\"a\":["]);
                self.send_line(&open.repeat(rng.size(1..=300)));
            }
            9 => {
                for _ in 0..rng.log_uniform(1, FLOOD) {
                    let id = self.id(rng);
                    self.send_line(&format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
                    ));
                }
            }
            10 => {
                let filter = r#"{"toolsListChanged":true,"resourceSubscriptions":["test://a"]}"#;
                for id in 0..rng.log_uniform(1, FLOOD) {
                    self.send_line(&format!(r#"{{"jsonrpc":"2.0","id":"l{id}","method":"subscriptions/listen","params":{{"notifications":{filter},"_meta":{{{META}}}}}}}"#));
                    if rng.percent(70) {
                        self.send_line(&format!(
                            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"l{id}"}}}}"#
                        ));
                    }
                }
            }
            11 => {
                for id in 0..rng.log_uniform(1, FLOOD) {
                    self.send_line(&format!(r#"{{"jsonrpc":"2.0","id":"p{id}","method":"ping"}}"#));
                }
            }
            12 => {
                for _ in 0..rng.log_uniform(1, FLOOD) {
                    let (token, progress) = (self.id(rng), rng.below(100));
                    self.send_line(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{progress}}}}}"#));
                }
            }
            _ => self.out.extend_from_slice(
                rng.pick(&["\n\n", "\r\n", "\u{feff}{}\n", "half a line", " \n", "{}\n"]).as_bytes(),
            ),
        }
    }

    fn id(&self, rng: &mut Rng) -> String {
        match rng.below(10) {
            0..4 if !self.seen.is_empty() => rng.pick(&self.seen).clone(),
            0..6 => rng.below(6).to_string(),
            6 => format!("\"{}\"", rng.below(6)),
            7 => format!("\"{}\"", "i".repeat(rng.size(0..=100))),
            8 => (*rng.pick(&["null", "1.5", "-1", "18446744073709551615", "true", "{}"])).to_owned(),
            _ => rng.below(1 << 40).to_string(),
        }
    }

    fn params(&self, rng: &mut Rng) -> String {
        let id = self.id(rng);
        match rng.below(10) {
            0 => "null".to_owned(),
            1 => "[1]".to_owned(),
            2 => format!(r#"{{"requestId":{id},"reason":"because"}}"#),
            3 => format!(r#"{{"progressToken":{id},"progress":0.5}}"#),
            4 => format!(r#"{{"level":"info","_meta":{{"progressToken":{id}}}}}"#),
            5 => format!(r#"{{"_meta":{{{META},"progressToken":{id}}},"number":0,"notifications":{{}}}}"#),
            6 => format!(r#"{{"_meta":{{{META}}},"requestState":"x","inputResponses":{{"q0":1}}}}"#),
            7 => r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"1999-01-01","io.modelcontextprotocol/clientCapabilities":{}}}"#.to_owned(),
            8 => format!(r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}"#),
            _ => "{}".to_owned(),
        }
    }

    fn message(&self, rng: &mut Rng) -> String {
        let (id, params, method) = (self.id(rng), self.params(rng), rng.pick(METHODS));
        match rng.below(10) {
            0..4 => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#),
            4 | 5 => format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#),
            6 => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{params}}}"#),
            7 => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"m"}}}}"#),
            8 => format!(r#"{{"jsonrpc":"1.0","id":{id},"method":{params}}}"#),
            _ => format!(r#"{{"id":{id},"result":{params},"error":{params}}}"#),
        }
    }

    /// Responds to a request: correctly, wrongly, or not at all.
    fn reply_to(&mut self, rng: &mut Rng, frame: &[u8]) {
        let message: Value = serde_json::from_slice(frame).unwrap_or_default();
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else { return };
        let id = id.to_string();
        if self.seen.len() < 50 {
            self.seen.push(id.clone());
        }
        let number = &message["params"]["number"];
        let result = match method {
            "initialize" => format!(
                r#"{{"protocolVersion":{},{OFFERS},"serverInfo":{{"name":"rogue","version":"1"}}}}"#,
                message["params"]["protocolVersion"]
            ),
            "server/discover" => format!(
                r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],{OFFERS},"ttlMs":0,"cacheScope":"private"}}"#
            ),
            "ping" => "{}".to_owned(),
            _ => format!(r#"{{"number":{number}}}"#),
        };
        if rng.percent(self.compliance_percent) {
            return self.send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
        }
        let requires_input = r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"sampling/createMessage","params":{}}},"requestState":"s"}"#;
        match rng.below(8) {
            0 => {}
            1 => (0..2).for_each(|_| self.send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))),
            2 => self.send_line(&format!(r#"{{"jsonrpc":"2.0","id":"{}","result":{result}}}"#, id.trim_matches('"'))),
            3 => self.send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":7}}"#)),
            4 => self.send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{requires_input}}}"#)),
            5 => self.send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required"}}}}"#)),
            6 => self.send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32022,"message":"m","data":{{"supported":["2026-07-28"],"requested":"x"}}}}}}"#)),
            _ => self.send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"task":{{"taskId":"t","status":"working"}}}}}}"#)),
        }
    }
}
