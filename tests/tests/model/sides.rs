//! Both sides, the model and the connection, which execute the same steps.

use std::{fmt::Write as _, time::Duration};

use mcp_proto::{
    connection::{ClientConfig, Limits, RequestOptions, SendError, ServerConfig, Settings},
    protocol::{Era, ProtocolVersion, Role, VersionSet},
    rpc::{CallId, ReplyKey},
    wire::{ErrorObject, Json, RawJson},
};
use mcp_tests::{
    harness::{Harness, full_client, full_server},
    model::{AppEvent, CALLS, Model, REQUESTS, RESUBSCRIPTIONS, ROUNDS, Reply, Step, params_of, refusal, result_of},
    modern::discovered,
};
use serde_json::{Value, json};

/// The start of a conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) role: Role,
    pub(crate) revision: ProtocolVersion,
    /// Whether the handshake or discovery is over.
    pub(crate) is_ready: bool,
}

/// A connection of either role, and its model.
pub(crate) trait Sides {
    /// Returns the model.
    fn model(&self) -> &Model;

    /// Returns how often reading was paused.
    fn pauses(&self) -> usize;

    /// Executes a step on both. If they differ, returns the steps so far.
    fn step(&mut self, step: &Step) -> Result<(), String>;

    /// Sends all pending output.
    fn send_everything(&mut self) -> Result<(), String> {
        while !self.model().sendable().is_empty() {
            self.step(&Step::Send)?;
        }
        self.step(&Step::Send)
    }
}

/// Runs `play` with both sides at the start of a conversation.
pub(crate) fn with<R>(start: Start, play: impl FnOnce(&mut dyn Sides) -> R) -> R {
    let Start { role, revision, is_ready } = start;
    let model = if is_ready { Model::ready(role, revision) } else { Model::opening(role, revision) };
    match role {
        Role::Client => play(&mut Pair::new(client(revision, is_ready), model)),
        Role::Server => play(&mut Pair::new(server(revision, is_ready), model)),
    }
}

fn settle(settings: &mut Settings, revision: ProtocolVersion) {
    let mut limits = Limits::default();
    (limits.calls, limits.requests, limits.rounds, limits.resubscriptions) = (CALLS, REQUESTS, ROUNDS, RESUBSCRIPTIONS);
    (settings.limits, settings.versions) = (limits, VersionSet::only(revision));
}

fn client(revision: ProtocolVersion, is_ready: bool) -> Harness<mcp_proto::connection::ClientRole> {
    let mut config: ClientConfig = full_client();
    settle(&mut config.settings, revision);
    match (is_ready, revision.era()) {
        (true, Era::Legacy) => Harness::ready_client_with(config, revision),
        (true, Era::Modern) => {
            let mut harness = Harness::client(config);
            let probe = harness.sent_one();
            harness.feed(&discovered(&probe["id"], &[revision.as_str()]));
            assert!(harness.conn.is_ready());
            harness.take_events();
            harness
        }
        (false, _) => Harness::client(config),
    }
}

fn server(revision: ProtocolVersion, is_ready: bool) -> Harness<mcp_proto::connection::ServerRole> {
    let mut config: ServerConfig = full_server();
    settle(&mut config.settings, revision);
    if is_ready && revision.era() == Era::Legacy {
        Harness::ready_server_with(config, revision)
    } else {
        Harness::server(config)
    }
}

struct Pair<E> {
    harness: Harness<E>,
    model: Model,
    calls: Vec<CallId>,
    keys: Vec<ReplyKey>,
    script: String,
    pauses: usize,
}

impl<E> Sides for Pair<E> {
    fn model(&self) -> &Model {
        &self.model
    }

    fn pauses(&self) -> usize {
        self.pauses
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        writeln!(self.script, "  {step}").expect("a string takes everything");
        match step {
            Step::Send => return self.send(),
            Step::Read => {
                let reads = self.model.wants_input();
                self.pauses += usize::from(!reads);
                let (conn, now) = (&mut self.harness.conn, self.harness.now);
                let wanted = conn.wants_input(now);
                self.agree("wants input", &reads, &wanted)?;
                return self.compare_state();
            }
            _ => {}
        }
        let (heard, outcome) = self.model.step(step);
        let done = self.act(step).map_err(|error| refusal(&error));
        self.agree("refusal", &outcome.err().map(str::to_owned), &done.err())?;
        let events = self.harness.take_events();
        let keys = &mut self.keys;
        let told: Vec<AppEvent> = events
            .into_iter()
            .map(|event| {
                AppEvent::of(event, |key| {
                    keys.iter().position(|known| *known == key).unwrap_or_else(|| {
                        keys.push(key);
                        keys.len() - 1
                    })
                })
            })
            .collect();
        for event in &heard {
            writeln!(self.script, "    {event:?}").expect("a string takes everything");
        }
        self.agree("events", &heard, &told)?;
        self.compare_state()
    }
}

impl<E> Pair<E> {
    fn new(harness: Harness<E>, model: Model) -> Self {
        Self { harness, model, calls: Vec::new(), keys: Vec::new(), script: String::new(), pauses: 0 }
    }

    fn agree<T: PartialEq + std::fmt::Debug>(&self, what: &str, model: &T, core: &T) -> Result<(), String> {
        if model == core {
            return Ok(());
        }
        Err(format!("{what}\n   model: {model:?}\n    core: {core:?}\nafter\n{}", self.script))
    }

    /// Compares the state that is visible from outside.
    fn compare_state(&self) -> Result<(), String> {
        let conn = &self.harness.conn;
        let deadline = conn.poll_timeout().map(|deadline| deadline.at.as_nanos() / 1_000_000);
        self.agree("deadline", &self.model.next_deadline(), &deadline)?;
        let usage = conn.usage();
        self.agree("tables", &self.model.holds(), &[usage.calls, usage.requests, usage.outbox_frames])?;
        self.agree("drained", &self.model.is_drained(), &conn.is_drained())
    }

    /// Takes the next frame from both.
    fn send(&mut self) -> Result<(), String> {
        let possible = self.model.sendable();
        let mut out = Vec::new();
        let sent =
            self.harness.conn.poll_transmit(&mut out).map(|_| plain(serde_json::from_slice(&out).expect("JSON")));
        let possible: Vec<Value> = possible.into_iter().map(plain).collect();
        let texts = |frames: &[Value]| frames.iter().map(Value::to_string).collect::<Vec<_>>();
        let Some(sent) = sent else { return self.agree("frame", &texts(&possible), &Vec::new()) };
        if !possible.contains(&sent) {
            return self.agree("frame", &texts(&possible), &texts(&[sent]));
        }
        writeln!(self.script, "    {sent}").expect("a string takes everything");
        self.model.sent(&sent);
        self.compare_state()
    }

    fn act(&mut self, step: &Step) -> Result<(), SendError> {
        let (conn, now) = (&mut self.harness.conn, self.harness.now);
        match step {
            Step::Request { method, progress, idle, total, resubscribe } => {
                let params = Some(params_of(method)).filter(|params| !params.is_null());
                let params = params.map(|params| Json::new(&params).expect("JSON"));
                let options = RequestOptions {
                    idle_timeout: idle.map(Duration::from_millis),
                    total_timeout: total.map(Duration::from_millis),
                    progress: *progress,
                    resubscribe: *resubscribe,
                    ..RequestOptions::no_timeout()
                };
                let call = conn.request_raw(now, method, params.as_ref().map(RawJson::from).as_ref(), options)?;
                self.calls.push(call);
            }
            Step::Cancel(id) => {
                let call = self.calls.iter().find(|call| call.as_u64() == *id).expect("it was made");
                conn.cancel(*call, Some("no reason"))?;
            }
            Step::Respond(request, Reply::Result) => {
                let result = Json::new(&result_of(*request)).expect("JSON");
                conn.respond_raw(self.keys[*request], &RawJson::from(&result))?;
            }
            Step::Respond(request, Reply::Error) => {
                conn.respond_error(self.keys[*request], &ErrorObject::internal("no"))?;
            }
            Step::Report(request, progress) => {
                conn.progress(self.keys[*request], f64::from(*progress), None, None)?;
            }
            Step::Notify(method, level) => {
                let params = level.map_or_else(|| json!({}), |level| json!({"level": level}));
                let params = Json::new(&params).expect("JSON");
                conn.notify_raw(method, Some(&RawJson::from(&params)))?;
            }
            Step::Close => conn.close(now),
            Step::Receive(message) => self.harness.feed(message),
            Step::Eof => conn.handle_eof(now),
            Step::FailWrite => conn.handle_disconnect(),
            Step::Wait(time) => self.harness.advance(Duration::from_millis(*time)),
            Step::Read | Step::Send => unreachable!("these are compared"),
        }
        Ok(())
    }
}

/// Returns a frame without what the model ignores: error texts, client and server info, the order in a batch.
fn plain(mut frame: Value) -> Value {
    if let Value::Array(members) = &mut frame {
        members.iter_mut().for_each(|member| *member = plain(member.take()));
        members.sort_by_key(ToString::to_string);
        return frame;
    }
    if frame["id"].is_null() {
        frame.as_object_mut().expect("a message").remove("id");
    }
    if let Some(code) = frame["error"].get("code").cloned() {
        frame["error"] = json!({"code": code});
    }
    for part in ["params", "result"] {
        let Some(part) = frame.get_mut(part) else { continue };
        if part.get("supportedVersions").is_some() {
            *part = json!("what the server is");
        } else if let Some(version) = part.get("protocolVersion").cloned() {
            *part = json!({"protocolVersion": version});
        }
        if let Some(object) = part.as_object_mut() {
            object.remove("reason");
        }
        for key in ["protocolVersion", "clientInfo", "clientCapabilities", "serverInfo"] {
            if let Some(value) = part.pointer_mut(&format!("/_meta/io.modelcontextprotocol~1{key}")) {
                *value = json!("…");
            }
        }
    }
    frame
}
