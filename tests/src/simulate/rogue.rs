//! A peer that does not keep the rules: it floods, babbles, plays with ids, and is well-behaved just long enough to get
//! where that hurts.

use mcp_proto::{codec::LineDecoder, connection::Route, protocol::Role};
use serde_json::Value;

use super::{
    dice::Dice,
    stage::{Deed, Stage},
    trace::Who,
    way::{Input, Way},
};

/// One end of a connection that does not keep the rules.
pub struct Rogue {
    who: Who,
    lines: LineDecoder,
    out: Vec<u8>,
    /// Ids of requests that it has read, as JSON.
    seen: Vec<String>,
    /// Of a hundred requests that it reads, how many it answers as it should.
    decency: u64,
    /// Whether it reads at all.
    reads: bool,
    /// What it still does.
    steps: u64,
    /// Whether it has said goodbye, or lost its peer.
    is_over: bool,
}

/// Messages of a flood.
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

impl Rogue {
    /// A peer that has not said anything yet.
    #[must_use]
    pub fn new(stage: &mut Stage<'_>, who: Who) -> Self {
        let dice = &mut stage.dice;
        let mut rogue = Self {
            who,
            lines: LineDecoder::new(1 << 20),
            out: Vec::new(),
            seen: Vec::new(),
            decency: *dice.pick(&[0, 50, 95]),
            reads: !dice.percent(25),
            steps: dice.scale(1, 40),
            is_over: false,
        };
        if who.role == Role::Client && dice.percent(70) {
            rogue.out.extend_from_slice(HELLO.as_bytes());
        }
        rogue
    }

    /// Reads and writes what there is. Whether anything moved.
    pub fn turn(&mut self, stage: &mut Stage<'_>, input: &mut Way, output: &mut Way) -> bool {
        if self.is_over {
            return false;
        }
        let mut moved = false;
        if self.reads
            && let Some(input) = input.read(stage.now, &mut stage.dice)
        {
            moved = true;
            match input {
                Input::Bytes(bytes) => {
                    self.lines.feed(&bytes);
                    while let Some(frame) = self.lines.next_frame() {
                        let frame = frame.bytes().to_vec();
                        self.react(&mut stage.dice, &frame);
                    }
                }
                Input::Letter(letter) => self.react(&mut stage.dice, &letter),
                Input::End => {
                    output.end();
                    self.is_over = true;
                }
            }
        }
        moved | self.write(stage, output)
    }

    fn write(&mut self, stage: &mut Stage<'_>, output: &mut Way) -> bool {
        if self.out.is_empty() {
            return false;
        }
        let written = if output.has_letters() {
            let letters = std::mem::take(&mut self.out);
            let letters = letters.split(|byte| *byte == b'\n').filter(|letter| !letter.is_empty());
            letters.map(<[u8]>::to_vec).try_fold(1, |count, letter| {
                output.send(stage.now, &mut stage.dice, Route::Connection, letter, false).map(|()| count)
            })
        } else {
            output.write(stage.now, &mut stage.dice, &mut self.out)
        };
        if written.is_err() {
            self.is_over = true;
            self.out.clear();
        }
        written != Ok(0)
    }

    /// Does something that it should not do.
    pub fn step(&mut self, stage: &mut Stage<'_>, pause: std::time::Duration) {
        if self.is_over || self.steps == 0 || stage.winding_down {
            return;
        }
        self.steps -= 1;
        stage.plan_within(pause, Deed::Step(self.who));
        let start = self.out.len();
        self.misbehave(&mut stage.dice);
        let shown = &self.out[start..];
        stage.note(self.who, "mischief", String::from_utf8_lossy(&shown[..shown.len().min(200)]));
        if stage.dice.percent(5) {
            stage.plan(std::time::Duration::ZERO, Deed::Vanish(self.who));
        }
    }

    fn say(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'\n');
    }

    fn misbehave(&mut self, dice: &mut Dice) {
        match dice.below(14) {
            0..4 => {
                let message = self.message(dice);
                self.say(&message);
            }
            4 => {
                for _ in 0..dice.scale(1, FLOOD) {
                    let message = self.message(dice);
                    self.say(&message);
                }
            }
            5 => {
                let members: Vec<_> = (0..dice.below(12)).map(|_| self.message(dice)).collect();
                self.say(&format!("[{}]", members.join(",")));
            }
            6 => {
                let bytes: Vec<u8> = (0..dice.below(60)).map(|_| dice.below(256) as u8).collect();
                self.out.extend_from_slice(&bytes);
                self.out.push(b'\n');
            }
            7 => {
                let padding = "x".repeat(dice.size(0..=30_000));
                let id = self.id(dice);
                let long = format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"number":0,"a":"{padding}"}}}}"#
                );
                self.say(&long);
            }
            8 => {
                let open = *dice.pick(&["[", "{\"a\":", "{\"id\":1,\"a\":["]);
                self.say(&open.repeat(dice.size(1..=300)));
            }
            9 => {
                for _ in 0..dice.scale(1, FLOOD) {
                    let id = self.id(dice);
                    self.say(&format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
                    ));
                }
            }
            10 => {
                let filter = r#"{"toolsListChanged":true,"resourceSubscriptions":["test://a"]}"#;
                for id in 0..dice.scale(1, FLOOD) {
                    self.say(&format!(r#"{{"jsonrpc":"2.0","id":"l{id}","method":"subscriptions/listen","params":{{"notifications":{filter},"_meta":{{{META}}}}}}}"#));
                    if dice.percent(70) {
                        self.say(&format!(
                            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"l{id}"}}}}"#
                        ));
                    }
                }
            }
            11 => {
                for id in 0..dice.scale(1, FLOOD) {
                    self.say(&format!(r#"{{"jsonrpc":"2.0","id":"p{id}","method":"ping"}}"#));
                }
            }
            12 => {
                for _ in 0..dice.scale(1, FLOOD) {
                    let (token, progress) = (self.id(dice), dice.below(100));
                    self.say(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{progress}}}}}"#));
                }
            }
            _ => self.out.extend_from_slice(
                dice.pick(&["\n\n", "\r\n", "\u{feff}{}\n", "half a line", " \n", "{}\n"]).as_bytes(),
            ),
        }
    }

    fn id(&self, dice: &mut Dice) -> String {
        match dice.below(10) {
            0..4 if !self.seen.is_empty() => dice.pick(&self.seen).clone(),
            0..6 => dice.below(6).to_string(),
            6 => format!("\"{}\"", dice.below(6)),
            7 => format!("\"{}\"", "i".repeat(dice.size(0..=100))),
            8 => (*dice.pick(&["null", "1.5", "-1", "18446744073709551615", "true", "{}"])).to_owned(),
            _ => dice.below(1 << 40).to_string(),
        }
    }

    fn params(&self, dice: &mut Dice) -> String {
        let id = self.id(dice);
        match dice.below(10) {
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

    fn message(&self, dice: &mut Dice) -> String {
        let (id, params, method) = (self.id(dice), self.params(dice), dice.pick(METHODS));
        match dice.below(10) {
            0..4 => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#),
            4 | 5 => format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#),
            6 => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{params}}}"#),
            7 => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"m"}}}}"#),
            8 => format!(r#"{{"jsonrpc":"1.0","id":{id},"method":{params}}}"#),
            _ => format!(r#"{{"id":{id},"result":{params},"error":{params}}}"#),
        }
    }

    /// Answers a request, or not, or wrongly.
    fn react(&mut self, dice: &mut Dice, frame: &[u8]) {
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
        if dice.percent(self.decency) {
            return self.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
        }
        let asks = r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"sampling/createMessage","params":{}}},"requestState":"s"}"#;
        match dice.below(8) {
            0 => {}
            1 => (0..2).for_each(|_| self.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))),
            2 => self.say(&format!(r#"{{"jsonrpc":"2.0","id":"{}","result":{result}}}"#, id.trim_matches('"'))),
            3 => self.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":7}}"#)),
            4 => self.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{asks}}}"#)),
            5 => self.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required"}}}}"#)),
            6 => self.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32022,"message":"m","data":{{"supported":["2026-07-28"],"requested":"x"}}}}}}"#)),
            _ => self.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"task":{{"taskId":"t","status":"working"}}}}}}"#)),
        }
    }
}
