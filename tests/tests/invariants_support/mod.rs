//! Random conversations of two applications and a stranger, and what is kept of them.

pub(crate) mod lines;
pub(crate) mod room;
pub(crate) mod stranger;

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
    bed::{Bed, End},
    link::LinkConfig,
    monitor::Monitor,
    solo::{full_client, full_server},
};
use proptest::prelude::*;
use serde_json::json;

use stranger::{Say, Stranger, is_modern_aside, is_session_aside, say};

/// Which end does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Client,
    Server,
}

/// What an application makes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Well,
    Badly,
    /// With questions, where they may be an answer.
    Asking,
    /// With nothing but a state.
    Putting,
}

/// Something that an application or the world may do. Numbers pick among what there is at the moment.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Request(Who, u8),
    Notify(Who),
    Cancel(Who, usize),
    Respond(Who, usize, How),
    Progress(Who, usize),
    Log(usize),
    Change(u8),
    Say(Say),
    Run,
    Wait(u16),
    Stall(Who, bool),
    Close(Who),
}

pub(crate) fn who() -> impl Strategy<Value = Who> {
    prop_oneof![Just(Who::Client), Just(Who::Server)]
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let how = prop_oneof![3 => Just(How::Well), 1 => Just(How::Badly), 4 => Just(How::Asking), 1 => Just(How::Putting)];
    prop_oneof![
        6 => (who(), any::<u8>()).prop_map(|(who, kind)| Op::Request(who, kind)),
        1 => who().prop_map(Op::Notify),
        3 => (who(), any::<usize>()).prop_map(|(who, n)| Op::Cancel(who, n)),
        8 => (who(), any::<usize>(), how).prop_map(|(who, n, how)| Op::Respond(who, n, how)),
        3 => (who(), any::<usize>()).prop_map(|(who, n)| Op::Progress(who, n)),
        1 => any::<usize>().prop_map(Op::Log),
        2 => any::<u8>().prop_map(Op::Change),
        9 => say().prop_map(Op::Say),
        9 => Just(Op::Run),
        2 => any::<u16>().prop_map(Op::Wait),
        1 => (who(), any::<bool>()).prop_map(|(who, stalled)| Op::Stall(who, stalled)),
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

/// Which eras the two ends speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Eras {
    client: VersionSet,
    server: VersionSet,
}

/// Every pair of ends that can talk to each other.
pub(crate) fn eras() -> impl Strategy<Value = Eras> {
    const OLD: VersionSet = VersionSet::LEGACY;
    const NEW: VersionSet = VersionSet::only(ProtocolVersion::V2026_07_28);
    const BOTH: VersionSet = VersionSet::ALL;
    let pairs = [(OLD, OLD), (OLD, BOTH), (BOTH, OLD), (BOTH, BOTH), (NEW, BOTH), (NEW, NEW), (BOTH, NEW)];
    prop::sample::select(pairs.map(|(client, server)| Eras { client, server }).to_vec())
}

/// What one end has seen, checked as it happens.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) calls: BTreeSet<CallId>,
    listening: BTreeSet<CallId>,
    pub(crate) ended: BTreeMap<CallId, u32>,
    open: Vec<(ReplyKey, Option<Method>)>,
    cancelled: BTreeSet<ReplyKey>,
    progress: BTreeMap<ReplyKey, u32>,
    closed: bool,
    /// Another program writes on the same pipe, and not only what is good.
    has_company: bool,
}

impl Ledger {
    fn take<E>(&mut self, end: &mut End<E>) {
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

pub(crate) struct Play {
    pub(crate) bed: Bed,
    pub(crate) client: Ledger,
    pub(crate) server: Ledger,
    pub(crate) monitor: Monitor,
    stranger: Option<Stranger>,
}

fn text(value: &serde_json::Value) -> Json {
    Json::new(value).expect("JSON")
}

fn request<E>(conn: &mut Connection<E>, ledger: &mut Ledger, now: Timestamp, who: Who, kind: u8) {
    let is_modern = conn.version().is_some_and(|version| version.era() == Era::Modern);
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]});
    let (method, params) = match (who, kind % 6) {
        (_, 0) => ("vendor/custom", None),
        (_, 1) => ("ping", None),
        (Who::Client, 2) if is_modern => ("subscriptions/listen", Some(json!({ "notifications": filter }))),
        (Who::Client, 2 | 3) => ("tools/list", None),
        (Who::Client, 4) => ("tools/call", Some(json!({"name": "t"}))),
        (Who::Client, _) => ("resources/read", Some(json!({"uri": "a:b"}))),
        (Who::Server, _) => ("roots/list", None),
    };
    let options = RequestOptions {
        idle_timeout: Some(Duration::from_millis(u64::from(kind) * 10 + 1)),
        total_timeout: Some(Duration::from_secs(2)),
        progress: kind & 0x80 != 0,
        ..RequestOptions::default()
    };
    let params = params.map(|params| text(&params));
    if let Ok(call) = conn.request_raw(now, method, params.as_ref().map(RawJson::from).as_ref(), options) {
        ledger.calls.insert(call);
        if method == "subscriptions/listen" {
            ledger.listening.insert(call);
        }
    }
}

fn respond<E>(conn: &mut Connection<E>, ledger: &mut Ledger, n: usize, how: How, may_ask: impl Fn(ReplyKey) -> bool) {
    if ledger.open.is_empty() {
        return;
    }
    let (key, method) = ledger.open.remove(n % ledger.open.len());
    let can_ask = method.is_some_and(Method::may_ask) && may_ask(key);
    let questions = json!({
        "r": {"method": "roots/list"},
        "e": {"method": "elicitation/create", "params": {
            "message": "m", "requestedSchema": {"type": "object", "properties": {}}}},
    });
    let answer = match how {
        How::Badly => return answered(conn, key, Err(&ErrorObject::internal("no"))),
        How::Asking if can_ask => {
            json!({"resultType": "input_required", "requestState": "s", "inputRequests": questions})
        }
        How::Putting if can_ask => json!({"resultType": "input_required", "requestState": "s"}),
        How::Well | How::Asking | How::Putting => json!({"tools": [], "roots": [], "action": "cancel", "content": []}),
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

fn apply<E>(conn: &mut Connection<E>, ledger: &mut Ledger, now: Timestamp, op: &Op) {
    match *op {
        Op::Request(who, kind) => request(conn, ledger, now, who, kind),
        Op::Cancel(_, n) => {
            let open = ledger.in_flight();
            if let Some(call) = open.get(n % open.len().max(1)) {
                // It may have ended without the ledger knowing it yet.
                let _ = conn.cancel(*call, Some("changed my mind"));
            }
        }
        Op::Progress(_, n) => {
            if let Some((key, _)) = ledger.open.get(n % ledger.open.len().max(1)) {
                let count = ledger.progress.entry(*key).or_default();
                *count += 1;
                assert_eq!(conn.progress(*key, f64::from(*count), None, None), Ok(()));
            }
        }
        Op::Notify(_) => {
            let _ = conn.notify_raw("vendor/noted", None);
        }
        Op::Log(n) => {
            if let Some((key, _)) = ledger.open.get(n % ledger.open.len().max(1)) {
                let message = LogMessageParams::new(LoggingLevel::Error, text(&json!("hm")));
                assert_eq!(conn.log(*key, &message), Ok(()));
            }
        }
        Op::Change(kind) => {
            let (method, uri) = match kind % 4 {
                0 => ("notifications/tools/list_changed", None),
                1 => ("notifications/prompts/list_changed", None),
                2 => ("notifications/resources/updated", Some("a:b")),
                _ => ("notifications/resources/updated", Some("a:b/c")),
            };
            let params = uri.map(|uri| text(&json!({ "uri": uri })));
            let _ = conn.notify_raw(method, params.as_ref().map(RawJson::from).as_ref());
        }
        Op::Close(_) => conn.close(now),
        Op::Respond(..) | Op::Say(_) | Op::Run | Op::Wait(_) | Op::Stall(..) => {}
    }
}

impl Play {
    pub(crate) fn new(eras: Eras, link: LinkConfig) -> Self {
        let (mut client, mut server) = (full_client(), full_server());
        client.settings.versions = eras.client;
        server.settings.versions = eras.server;
        let mut bed = Bed::new(client, server, link, link);
        bed.settle();
        assert_eq!(bed.client.take_events(), [Event::Ready]);
        let is_modern = bed.client.conn.version().is_some_and(|version| version.era() == Era::Modern);
        assert_eq!(is_modern, eras.client.intersection(eras.server).contains(ProtocolVersion::V2026_07_28));
        bed.server.take_events();
        bed.client.forget();
        bed.server.forget();
        let stranger = eras.server.contains(ProtocolVersion::V2026_07_28).then(|| {
            bed.client.is_aside = Some(if is_modern { is_session_aside } else { is_modern_aside });
            Stranger::new(is_modern)
        });
        let server = Ledger { has_company: stranger.is_some(), ..Ledger::default() };
        Self { bed, client: Ledger::default(), server, monitor: Monitor::new(!is_modern), stranger }
    }

    pub(crate) fn step(&mut self, op: &Op) {
        match *op {
            Op::Run => self.bed.run(),
            Op::Wait(millis) => self.bed.advance(Duration::from_millis(u64::from(millis) % 3000)),
            Op::Stall(Who::Client, stalled) => self.bed.down.stalled = stalled,
            Op::Stall(Who::Server, stalled) => self.bed.up.stalled = stalled,
            Op::Say(ref what) => {
                if let Some(stranger) = &mut self.stranger {
                    stranger.say(&mut self.bed, what);
                }
            }
            Op::Respond(Who::Client, n, how) => {
                respond(&mut self.bed.client.conn, &mut self.client, n, how, |_| false);
            }
            Op::Respond(Who::Server, n, how) => {
                let conn = &mut self.bed.server.conn;
                let modern: Vec<_> = self.server.open.iter().map(|(key, _)| *key).collect();
                let modern: BTreeSet<_> = modern
                    .into_iter()
                    .filter(|key| conn.context(*key).is_some_and(|context| context.era() == Era::Modern))
                    .collect();
                respond(conn, &mut self.server, n, how, |key| modern.contains(&key));
            }
            Op::Request(Who::Client, _)
            | Op::Notify(Who::Client)
            | Op::Cancel(Who::Client, _)
            | Op::Progress(Who::Client, _)
            | Op::Close(Who::Client) => apply(&mut self.bed.client.conn, &mut self.client, self.bed.now, op),
            _ => apply(&mut self.bed.server.conn, &mut self.server, self.bed.now, op),
        }
        self.collect();
    }

    pub(crate) fn collect(&mut self) {
        self.bed.client.poll_events();
        self.bed.server.poll_events();
        self.client.take(&mut self.bed.client);
        self.server.take(&mut self.bed.server);
        let trace = std::mem::take(&mut self.bed.server.trace);
        self.monitor.watch(&trace);
        // Without a session a client is asked for as long as it asks.
        let is_modern = self.bed.client.conn.version().is_some_and(|version| version.era() == Era::Modern);
        let is_asked = self.client.open.iter().any(|(key, _)| !self.client.cancelled.contains(key));
        assert!(!is_modern || !is_asked || !self.client.in_flight().is_empty(), "a question without a request");
    }

    /// Answers everything until there is nothing to answer, and gives the clock no more than bytes need to arrive.
    pub(crate) fn come_to_rest(&mut self) {
        loop {
            self.bed.settle();
            self.collect();
            if self.client.open.is_empty() && self.server.open.is_empty() {
                break;
            }
            self.answer_all();
        }
    }

    /// The client's calls and the server's that have not ended, other than those that listen, and those of a server that
    /// may have asked a stranger.
    pub(crate) fn unanswered(&self) -> Vec<CallId> {
        let calls = self.client.in_flight().into_iter().filter(|call| !self.client.listening.contains(call));
        let asked = if self.stranger.is_none() { self.server.in_flight() } else { Vec::new() };
        calls.chain(asked).collect()
    }

    fn answer_all(&mut self) {
        while !self.client.open.is_empty() {
            self.step(&Op::Respond(Who::Client, 0, How::Well));
        }
        while !self.server.open.is_empty() {
            self.step(&Op::Respond(Who::Server, 0, How::Well));
        }
    }

    /// Lets everything come to an end: answers what is open, waits for what is not answered, and listens no more.
    pub(crate) fn finish(&mut self) {
        self.bed.up.stalled = false;
        self.bed.down.stalled = false;
        self.bed.settle();
        self.collect();
        if let Some(stranger) = &mut self.stranger {
            stranger.leave(&mut self.bed);
        }
        for call in self.client.listening.clone() {
            let _ = self.bed.client.conn.cancel(call, None);
        }
        self.bed.settle();
        self.collect();
        self.answer_all();
        self.bed.advance(Duration::from_secs(5));
        self.collect();
        // What had to wait for its turn has come meanwhile.
        self.answer_all();
        self.bed.advance(Duration::from_secs(5));
        self.collect();
    }
}
