//! Random conversations of two applications and a second writer, and the record of them.

pub(crate) mod lines;
pub(crate) mod second_writer;
pub(crate) mod small_limits;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use mcp_proto::{
    connection::{CancelCause, Connection, Event, RequestOptions},
    protocol::{Era, Method, ProtocolVersion, VersionSet},
    rpc::{CallId, ReplyKey, Timestamp},
    schema::{LogMessageParams, LoggingLevel},
    wire::{ErrorObject, Json, RawJson},
};
use mcp_tests::{
    harness::{full_client, full_server},
    link::LinkConfig,
    monitor::Monitor,
    testbed::{Peer, Testbed},
};
use proptest::prelude::*;
use serde_json::json;

use second_writer::{SecondWriter, WriterStep, is_modern_aside, is_session_aside, write};

/// The side that acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    Client,
    Server,
}

/// How an application responds to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseChoice {
    Well,
    Badly,
    /// With input requests, where the method allows them.
    Asking,
    /// With only a request state.
    Putting,
}

/// A step of an application or of the environment. Numbers select among the current candidates.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Request(Actor, u8),
    Notify(Actor),
    Cancel(Actor, usize),
    Respond(Actor, usize, ResponseChoice),
    Progress(Actor, usize),
    Log(usize),
    Change(u8),
    WriterStep(WriterStep),
    Run,
    Wait(u16),
    Stall(Actor, bool),
    Close(Actor),
}

pub(crate) fn who() -> impl Strategy<Value = Actor> {
    prop_oneof![Just(Actor::Client), Just(Actor::Server)]
}

pub(crate) fn op() -> impl Strategy<Value = Step> {
    let how = prop_oneof![3 => Just(ResponseChoice::Well), 1 => Just(ResponseChoice::Badly), 4 => Just(ResponseChoice::Asking), 1 => Just(ResponseChoice::Putting)];
    prop_oneof![
        6 => (who(), any::<u8>()).prop_map(|(who, kind)| Step::Request(who, kind)),
        1 => who().prop_map(Step::Notify),
        3 => (who(), any::<usize>()).prop_map(|(who, n)| Step::Cancel(who, n)),
        8 => (who(), any::<usize>(), how).prop_map(|(who, n, how)| Step::Respond(who, n, how)),
        3 => (who(), any::<usize>()).prop_map(|(who, n)| Step::Progress(who, n)),
        1 => any::<usize>().prop_map(Step::Log),
        2 => any::<u8>().prop_map(Step::Change),
        9 => write().prop_map(Step::WriterStep),
        9 => Just(Step::Run),
        2 => any::<u16>().prop_map(Step::Wait),
        1 => (who(), any::<bool>()).prop_map(|(who, stalled)| Step::Stall(who, stalled)),
    ]
}

pub(crate) fn link() -> impl Strategy<Value = LinkConfig> {
    let size = prop_oneof![Just(1), Just(2), 1usize..64, Just(usize::MAX)];
    (size.clone(), size, prop_oneof![Just(0u64), 1u64..50]).prop_map(|(capacity, chunk, delay)| LinkConfig {
        capacity,
        chunk,
        delay: Duration::from_micros(delay),
        cut_after: None,
    })
}

/// The revisions of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Eras {
    client: VersionSet,
    server: VersionSet,
}

/// Returns every pair of sides that can talk to each other.
pub(crate) fn eras() -> impl Strategy<Value = Eras> {
    const OLD: VersionSet = VersionSet::LEGACY;
    const NEW: VersionSet = VersionSet::only(ProtocolVersion::V2026_07_28);
    const BOTH: VersionSet = VersionSet::ALL;
    let pairs = [(OLD, OLD), (OLD, BOTH), (BOTH, OLD), (BOTH, BOTH), (NEW, BOTH), (NEW, NEW), (BOTH, NEW)];
    prop::sample::select(pairs.map(|(client, server)| Eras { client, server }).to_vec())
}

/// The record of one side, checked at each step.
#[derive(Default)]
pub(crate) struct SideRecord {
    pub(crate) calls: BTreeSet<CallId>,
    listening: BTreeSet<CallId>,
    pub(crate) ended: BTreeMap<CallId, u32>,
    open: Vec<(ReplyKey, Option<Method>)>,
    cancelled: BTreeSet<ReplyKey>,
    progress: BTreeMap<ReplyKey, u32>,
    closed: bool,
    /// Another program writes to the same pipe, valid and invalid messages.
    has_company: bool,
}

impl SideRecord {
    fn take<E>(&mut self, end: &mut Peer<E>) {
        for event in end.take_events() {
            assert!(!self.closed, "an event after the last one: {event:?}");
            match event {
                Event::Closed(_) => {
                    self.closed = true;
                    let open = self.calls.iter().find(|call| !self.ended.contains_key(call));
                    assert_eq!(open, None, "the connection has ended and a call has not");
                }
                Event::Request { key, method, .. } => self.open.push((key, method.known())),
                Event::Cancelled { key, cause } => {
                    assert!(self.open.iter().any(|(open, _)| *open == key), "a cancellation of what is not open");
                    assert!(self.cancelled.insert(key), "cancelled twice");
                    let _: CancelCause<'_> = cause;
                }
                Event::Response { call, .. } => {
                    assert!(self.calls.contains(&call), "a call that was never made has ended");
                    *self.ended.entry(call).or_default() += 1;
                    assert_eq!(self.ended[&call], 1, "a call has ended twice");
                }
                Event::Progress { call, .. } => {
                    assert!(!self.ended.contains_key(&call), "progress for a call that has ended");
                }
                Event::Violation(violation) => {
                    assert!(self.has_company, "two good peers and yet: {violation}");
                }
                _ => {}
            }
        }
    }

    fn in_flight(&self) -> Vec<CallId> {
        self.calls.iter().filter(|call| !self.ended.contains_key(call)).copied().collect()
    }
}

pub(crate) struct Conversation {
    pub(crate) testbed: Testbed,
    pub(crate) client: SideRecord,
    pub(crate) server: SideRecord,
    pub(crate) monitor: Monitor,
    second_writer: Option<SecondWriter>,
}

fn text(value: &serde_json::Value) -> Json {
    Json::new(value).expect("JSON")
}

fn request<E>(conn: &mut Connection<E>, record: &mut SideRecord, now: Timestamp, who: Actor, kind: u8) {
    let is_modern = conn.version().is_some_and(|version| version.era() == Era::Modern);
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]});
    let (method, params) = match (who, kind % 6) {
        (_, 0) => ("vendor/custom", None),
        (_, 1) => ("ping", None),
        (Actor::Client, 2) if is_modern => ("subscriptions/listen", Some(json!({ "notifications": filter }))),
        (Actor::Client, 2 | 3) => ("tools/list", None),
        (Actor::Client, 4) => ("tools/call", Some(json!({"name": "t"}))),
        (Actor::Client, _) => ("resources/read", Some(json!({"uri": "a:b"}))),
        (Actor::Server, _) => ("roots/list", None),
    };
    let options = RequestOptions {
        idle_timeout: Some(Duration::from_millis(u64::from(kind) * 10 + 1)),
        total_timeout: Some(Duration::from_secs(2)),
        progress: kind & 0x80 != 0,
        ..RequestOptions::default()
    };
    let params = params.map(|params| text(&params));
    if let Ok(call) = conn.request_raw(now, method, params.as_ref().map(RawJson::from).as_ref(), options) {
        record.calls.insert(call);
        if method == "subscriptions/listen" {
            record.listening.insert(call);
        }
    }
}

fn respond<E>(
    conn: &mut Connection<E>,
    record: &mut SideRecord,
    n: usize,
    how: ResponseChoice,
    may_require_input: impl Fn(ReplyKey) -> bool,
) {
    if record.open.is_empty() {
        return;
    }
    let (key, method) = record.open.remove(n % record.open.len());
    let can_require_input = method.is_some_and(Method::may_require_input) && may_require_input(key);
    let input_requests = json!({
        "r": {"method": "roots/list"},
        "e": {"method": "elicitation/create", "params": {
            "message": "m", "requestedSchema": {"type": "object", "properties": {}}}},
    });
    let answer = match how {
        ResponseChoice::Badly => return answered(conn, key, Err(&ErrorObject::internal("no"))),
        ResponseChoice::Asking if can_require_input => {
            json!({"resultType": "input_required", "requestState": "s", "inputRequests": input_requests})
        }
        ResponseChoice::Putting if can_require_input => json!({"resultType": "input_required", "requestState": "s"}),
        ResponseChoice::Well | ResponseChoice::Asking | ResponseChoice::Putting => {
            json!({"tools": [], "roots": [], "action": "cancel", "content": []})
        }
    };
    answered(conn, key, Ok(&text(&answer)));
}

fn answered<E>(conn: &mut Connection<E>, key: ReplyKey, answer: Result<&Json, &ErrorObject>) {
    let answered = match answer {
        Ok(result) => conn.respond_raw(key, &RawJson::from(result)),
        Err(error) => conn.respond_error(key, error),
    };
    assert_eq!(answered, Ok(()), "a request is owed exactly one answer");
    assert!(conn.respond_error(key, &ErrorObject::internal("twice")).is_err(), "a second answer");
}

fn apply<E>(conn: &mut Connection<E>, record: &mut SideRecord, now: Timestamp, op: &Step) {
    match *op {
        Step::Request(who, kind) => request(conn, record, now, who, kind),
        Step::Cancel(_, n) => {
            let open = record.in_flight();
            if let Some(call) = open.get(n % open.len().max(1)) {
                // It may have ended before the ledger records it.
                let _ = conn.cancel(*call, Some("changed my mind"));
            }
        }
        Step::Progress(_, n) => {
            if let Some((key, _)) = record.open.get(n % record.open.len().max(1)) {
                let count = record.progress.entry(*key).or_default();
                *count += 1;
                assert_eq!(conn.progress(*key, f64::from(*count), None, None), Ok(()));
            }
        }
        Step::Notify(_) => {
            let _ = conn.notify_raw("vendor/noted", None);
        }
        Step::Log(n) => {
            if let Some((key, _)) = record.open.get(n % record.open.len().max(1)) {
                let message = LogMessageParams::new(LoggingLevel::Error, text(&json!("hm")));
                assert_eq!(conn.log(*key, &message), Ok(()));
            }
        }
        Step::Change(kind) => {
            let (method, uri) = match kind % 4 {
                0 => ("notifications/tools/list_changed", None),
                1 => ("notifications/prompts/list_changed", None),
                2 => ("notifications/resources/updated", Some("a:b")),
                _ => ("notifications/resources/updated", Some("a:b/c")),
            };
            let params = uri.map(|uri| text(&json!({ "uri": uri })));
            let _ = conn.notify_raw(method, params.as_ref().map(RawJson::from).as_ref());
        }
        Step::Close(_) => conn.close(now),
        Step::Respond(..) | Step::WriterStep(_) | Step::Run | Step::Wait(_) | Step::Stall(..) => {}
    }
}

impl Conversation {
    pub(crate) fn new(eras: Eras, link: LinkConfig) -> Self {
        let (mut client, mut server) = (full_client(), full_server());
        client.settings.versions = eras.client;
        server.settings.versions = eras.server;
        let mut testbed = Testbed::new(client, server, link, link);
        testbed.settle();
        assert_eq!(testbed.client.take_events(), [Event::Ready]);
        let is_modern = testbed.client.conn.version().is_some_and(|version| version.era() == Era::Modern);
        assert_eq!(is_modern, eras.client.intersection(eras.server).contains(ProtocolVersion::V2026_07_28));
        testbed.server.take_events();
        testbed.client.clear_logs();
        testbed.server.clear_logs();
        let second_writer = eras.server.contains(ProtocolVersion::V2026_07_28).then(|| {
            testbed.client.is_foreign = Some(if is_modern { is_session_aside } else { is_modern_aside });
            SecondWriter::new(is_modern)
        });
        let server = SideRecord { has_company: second_writer.is_some(), ..SideRecord::default() };
        Self { testbed, client: SideRecord::default(), server, monitor: Monitor::new(!is_modern), second_writer }
    }

    pub(crate) fn step(&mut self, op: &Step) {
        match *op {
            Step::Run => self.testbed.run(),
            Step::Wait(millis) => self.testbed.advance(Duration::from_millis(u64::from(millis) % 3000)),
            Step::Stall(Actor::Client, stalled) => self.testbed.down.stalled = stalled,
            Step::Stall(Actor::Server, stalled) => self.testbed.up.stalled = stalled,
            Step::WriterStep(ref what) => {
                if let Some(second_writer) = &mut self.second_writer {
                    second_writer.write(&mut self.testbed, what);
                }
            }
            Step::Respond(Actor::Client, n, how) => {
                respond(&mut self.testbed.client.conn, &mut self.client, n, how, |_| false);
            }
            Step::Respond(Actor::Server, n, how) => {
                let conn = &mut self.testbed.server.conn;
                let modern: Vec<_> = self.server.open.iter().map(|(key, _)| *key).collect();
                let modern: BTreeSet<_> = modern
                    .into_iter()
                    .filter(|key| conn.context(*key).is_some_and(|context| context.era() == Era::Modern))
                    .collect();
                respond(conn, &mut self.server, n, how, |key| modern.contains(&key));
            }
            Step::Request(Actor::Client, _)
            | Step::Notify(Actor::Client)
            | Step::Cancel(Actor::Client, _)
            | Step::Progress(Actor::Client, _)
            | Step::Close(Actor::Client) => {
                apply(&mut self.testbed.client.conn, &mut self.client, self.testbed.now, op)
            }
            _ => apply(&mut self.testbed.server.conn, &mut self.server, self.testbed.now, op),
        }
        self.collect();
    }

    pub(crate) fn collect(&mut self) {
        self.testbed.client.poll_events();
        self.testbed.server.poll_events();
        self.client.take(&mut self.testbed.client);
        self.server.take(&mut self.testbed.server);
        let trace = std::mem::take(&mut self.testbed.server.trace);
        self.monitor.watch(&trace);
        // Without a session, a client handles input requests as long as it has any.
        let is_modern = self.testbed.client.conn.version().is_some_and(|version| version.era() == Era::Modern);
        let is_requested = self.client.open.iter().any(|(key, _)| !self.client.cancelled.contains(key));
        assert!(
            !is_modern || !is_requested || !self.client.in_flight().is_empty(),
            "an input request without a request"
        );
    }

    /// Responds until no request is open, and advances the clock only as the link needs it.
    pub(crate) fn come_to_rest(&mut self) {
        loop {
            self.testbed.settle();
            self.collect();
            if self.client.open.is_empty() && self.server.open.is_empty() {
                break;
            }
            self.answer_all();
        }
    }

    /// Returns the calls of both sides that have not ended, except subscriptions and calls of a server whose request
    /// may have reached the other program.
    pub(crate) fn unanswered(&self) -> Vec<CallId> {
        let calls = self.client.in_flight().into_iter().filter(|call| !self.client.listening.contains(call));
        let requested = if self.second_writer.is_none() { self.server.in_flight() } else { Vec::new() };
        calls.chain(requested).collect()
    }

    fn answer_all(&mut self) {
        while !self.client.open.is_empty() {
            self.step(&Step::Respond(Actor::Client, 0, ResponseChoice::Well));
        }
        while !self.server.open.is_empty() {
            self.step(&Step::Respond(Actor::Server, 0, ResponseChoice::Well));
        }
    }

    /// Ends everything: responds to open requests, waits for open calls, and cancels subscriptions.
    pub(crate) fn finish(&mut self) {
        self.testbed.up.stalled = false;
        self.testbed.down.stalled = false;
        self.testbed.settle();
        self.collect();
        if let Some(second_writer) = &mut self.second_writer {
            second_writer.leave(&mut self.testbed);
        }
        for call in self.client.listening.clone() {
            let _ = self.testbed.client.conn.cancel(call, None);
        }
        self.testbed.settle();
        self.collect();
        self.answer_all();
        self.testbed.advance(Duration::from_secs(5));
        self.collect();
        // Requests that were queued have arrived in the meantime.
        self.answer_all();
        self.testbed.advance(Duration::from_secs(5));
        self.collect();
    }
}
