//! What an application knows of one connection, and what has to be true of everything that it is told.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use mcp_proto::{
    connection::{
        ClientRole, CloseReason, Connection, Event, Outcome, ResourceUsage, SendError, ServerRole, Violation,
    },
    protocol::{CapabilitySet, Era, Method, MethodName, ProtocolVersion, Role},
    rpc::{CallId, ReplyKey, Timestamp},
    wire::RawJson,
};

use super::{
    caller::Made,
    handler::{Job, Rounds, Tasks},
    memory::Memory,
    plan::Habits,
    stage::{Deed, Stage},
    trace::Who,
};

/// Which of the two ends an application sits at.
pub trait End: Sized {
    /// It.
    const ROLE: Role;

    /// In which revision a request of the peer is made, and what the peer can do for the side that answers it.
    fn context(conn: &Connection<Self>, key: ReplyKey) -> Option<(ProtocolVersion, CapabilitySet)>;

    /// Opens a subscription that names tasks.
    fn accept(conn: &mut Connection<Self>, key: ReplyKey, is_there: impl FnMut(&str) -> bool) -> Result<(), SendError>;

    /// Confirms that no more is remembered than there is room for.
    fn check_cache(_: &Connection<Self>) {}
}

impl End for ClientRole {
    const ROLE: Role = Role::Client;

    fn context(conn: &Connection<Self>, _: ReplyKey) -> Option<(ProtocolVersion, CapabilitySet)> {
        conn.version().map(|version| (version, conn.peer_capabilities()))
    }

    fn accept(_: &mut Connection<Self>, _: ReplyKey, _: impl FnMut(&str) -> bool) -> Result<(), SendError> {
        Err(SendError::WrongResult)
    }

    fn check_cache(conn: &Connection<Self>) {
        let (cache, limits) = (conn.cache(), &conn.settings().limits);
        assert!(cache.len() <= limits.cache_entries && cache.bytes() <= limits.cache_bytes, "{cache:?}");
    }
}

impl End for ServerRole {
    const ROLE: Role = Role::Server;

    fn context(conn: &Connection<Self>, key: ReplyKey) -> Option<(ProtocolVersion, CapabilitySet)> {
        let context = conn.context(key)?;
        Some((context.version, context.client_capabilities.set()))
    }

    fn accept(conn: &mut Connection<Self>, key: ReplyKey, is_there: impl FnMut(&str) -> bool) -> Result<(), SendError> {
        conn.accept_subscription(key, is_there)
    }
}

/// What is known of the other end.
#[derive(Clone, Copy, Debug)]
pub struct Other {
    /// It keeps the rules.
    pub is_good: bool,
    /// What it sends arrives in the order in which it was sent.
    pub in_order: bool,
    /// Nothing disturbs the connection.
    pub is_calm: bool,
}

/// What an application has said and heard, for the two ends to be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Notifications of its own kind that it has sent.
    pub said: u64,
    /// Those that it has received.
    pub heard: u64,
    /// When it last said that its tools have changed.
    pub changed_at: Option<Timestamp>,
    /// When it last heard that the peer's have.
    pub told_at: Option<Timestamp>,
}

/// One application at one end of a connection.
pub struct Desk {
    /// Which end.
    pub who: Who,
    /// What is known of the other one.
    pub other: Other,
    /// How the application is.
    pub habits: Habits,
    /// Requests of its own that have not ended.
    pub calls: BTreeMap<CallId, Made>,
    /// Those that have.
    pub ended: BTreeSet<CallId>,
    /// Requests of the peer that have not been answered.
    pub jobs: BTreeMap<ReplyKey, Job>,
    /// Requests of the peer that it has not cancelled, answered or not.
    pub uncancelled: BTreeSet<ReplyKey>,
    /// The latest of them.
    pub last_job: Option<ReplyKey>,
    /// Requests of the peer that were answered with questions (2026-07-28).
    pub rounds: Rounds,
    /// Requests of the peer that have become tasks (2025-11-25).
    pub tasks: Tasks,
    /// Requests of its own that have become tasks.
    pub followed: BTreeMap<CallId, String>,
    /// The task that it is about to listen to (2026-07-28).
    pub wanted_task: Option<String>,
    /// Whether the handshake is over.
    pub is_ready: bool,
    /// Why the connection has ended.
    pub closed: Option<CloseReason>,
    /// What it has said and heard.
    pub heard: Heard,
    /// What its connection may know without asking.
    pub memory: Memory,
    /// What it still does of its own.
    pub steps: u64,
}

impl Desk {
    /// An application that has not done anything yet.
    #[must_use]
    pub fn new(who: Who, other: Other, habits: Habits, steps: u64) -> Self {
        Self {
            who,
            other,
            habits,
            calls: BTreeMap::new(),
            ended: BTreeSet::new(),
            jobs: BTreeMap::new(),
            uncancelled: BTreeSet::new(),
            last_job: None,
            rounds: Rounds::default(),
            tasks: Tasks::default(),
            followed: BTreeMap::new(),
            wanted_task: None,
            is_ready: false,
            closed: None,
            heard: Heard::default(),
            memory: Memory::default(),
            steps,
        }
    }

    /// Takes in what has happened.
    pub fn on_event<E: End>(&mut self, stage: &mut Stage<'_>, conn: &mut Connection<E>, event: Event<'_>) {
        stage.note(self.who, "event", format_args!("{event:?}"));
        assert_eq!(self.closed, None, "an event behind the last one");
        match event {
            Event::Ready => {
                // A server that forgets its era is asked for a session after all.
                assert!(!self.is_ready || !self.other.is_good, "it is ready for the second time");
                if !self.is_ready {
                    stage.plan_within(self.habits.thinking, Deed::Step(self.who));
                }
                self.is_ready = true;
            }
            Event::Request { key, method, params } => self.take_on(stage, conn, key, &method, params.as_ref()),
            Event::Cancelled { key, .. } => {
                assert!(self.uncancelled.remove(&key), "what is cancelled was asked for, and not cancelled before");
                // It may have been answered while this event was on its way.
                if let Some(job) = self.jobs.get_mut(&key) {
                    job.is_cancelled = true;
                    stage.plan_within(self.habits.thinking, Deed::Work(self.who, key));
                }
            }
            Event::Response { call, outcome } => self.ended(stage, conn, call, &outcome),
            Event::Progress { call, progress } => {
                let is_modern = is_modern(conn);
                let in_order = self.other.is_good && self.other.in_order && !is_modern;
                if let Some(made) = self.calls.get_mut(&call) {
                    made.progresses(stage.now, progress.progress, in_order);
                } else {
                    assert!(self.followed.contains_key(&call), "progress of a call that has ended");
                }
            }
            Event::Task { call, task } => {
                let made = self.calls.get_mut(&call).expect("a call that has become a task is open");
                let is_new = !std::mem::replace(&mut made.is_pursued, true);
                if is_new && stage.winding_down && made.is_endless() {
                    stage.plan(Duration::from_secs(1), Deed::GiveUp(self.who, call));
                }
                let task: Option<String> = member(Some(&task), "taskId");
                if let Some(task) = task.filter(|_| is_new && stage.dice.percent(20)) {
                    self.listen_to(stage, conn, &task);
                }
            }
            Event::Late(call) => assert!(!self.calls.contains_key(&call), "what is late has ended"),
            Event::Notification { method, params } => self.hear(stage, &method, params.as_ref()),
            Event::PeerError(error) => assert!(!self.other.is_good, "a good peer errs: {error}"),
            Event::Violation(violation) => self.tolerate(&violation),
            Event::Closed(reason) => {
                assert!(self.calls.is_empty(), "the connection has ended and a call has not");
                assert!(
                    self.jobs.values().all(|job| job.is_cancelled),
                    "the connection has ended and a request has not"
                );
                if self.other.is_calm && self.is_ready {
                    assert!(reason.is_clean(), "a connection that nothing disturbs has ended: {reason}");
                }
                self.followed.clear();
                self.closed = Some(reason);
            }
            _ => {}
        }
    }

    /// A good peer does nothing wrong, except for what it cannot know.
    fn tolerate(&self, violation: &Violation<'_>) {
        let can_happen = match violation {
            // It does not know the limits of this end, nor that the link was going to break.
            Violation::TooManyRequests | Violation::Oversized | Violation::Truncated => !self.other.is_calm,
            // It does not know yet which era this end is of, and has perhaps not waited for the answer.
            Violation::NotReady(_) => !self.is_ready,
            Violation::NotSupported(method) => !self.is_ready || *method == Method::Discover,
            _ => false,
        };
        assert!(can_happen || !self.other.is_good, "a good peer does something wrong: {violation}");
    }

    fn hear(&mut self, stage: &mut Stage<'_>, method: &MethodName<'_>, params: Option<&RawJson<'_>>) {
        self.memory.hear(stage.now, method, params);
        match method {
            MethodName::Custom(_) if self.other.is_good => {
                let number: u64 = member(params, "number").expect("its notifications have a number");
                if self.other.in_order {
                    assert_eq!(number, self.heard.heard + 1, "a notification is lost, or out of order");
                }
                self.heard.heard += 1;
            }
            MethodName::Known(Method::ToolsListChanged) => self.heard.told_at = Some(stage.now),
            MethodName::Known(Method::SubscriptionsAcknowledged) => {
                let params = params.and_then(|params| params.member("_meta"));
                let id: Option<u64> = member(params.as_ref(), "io.modelcontextprotocol/subscriptionId");
                let listens = self.calls.iter_mut().find(|(call, _)| Some(call.as_u64()) == id);
                if let Some((call, made)) = listens {
                    made.is_acknowledged = true;
                    if stage.winding_down {
                        stage.plan(Duration::from_secs(1), Deed::GiveUp(self.who, *call));
                    }
                }
            }
            _ => {}
        }
    }

    fn ended<E: End>(&mut self, stage: &mut Stage<'_>, conn: &mut Connection<E>, call: CallId, outcome: &Outcome<'_>) {
        assert!(!self.ended.contains(&call), "a call has ended for the second time");
        let made = self.calls.remove(&call).expect("what ends was begun");
        self.ended.insert(call);
        made.check_end(stage.now, self.other, is_modern(conn), outcome, &self.memory);
        if let Outcome::Result(result) = outcome {
            self.memory.learn(stage.now, &made, result);
        }
        if made.is_task
            && let Outcome::Result(result) = outcome
            && let Some(task) = result.member("task").and_then(|task| member(Some(&task), "taskId"))
        {
            self.followed.insert(call, task);
        }
        self.follow_up(stage, conn, &made, outcome);
    }

    /// Confirms that no call lives longer than it may, when time has been handed in.
    pub fn check_deadlines<E>(&self, conn: &Connection<E>, now: Timestamp) {
        for (call, made) in &self.calls {
            let is_overdue = made.is_overdue(now, self.other, is_modern(conn));
            assert!(!is_overdue, "{call:?} has run out of time and has not ended: {made:?}");
        }
    }

    /// Confirms that the tables of a connection are those of its application.
    pub fn check_tables<E: End>(&self, conn: &Connection<E>) {
        E::check_cache(conn);
        let ResourceUsage { calls, requests, tasks, .. } = conn.usage();
        // The handshake, pings and farewells to tasks are the core's own.
        assert!(calls >= self.calls.len(), "{calls} calls");
        assert!(requests >= self.jobs.len(), "{requests} requests");
        assert!(tasks <= self.followed.len(), "{tasks} tasks");
    }

    /// Confirms that nothing is open.
    pub fn assert_done(&self) {
        assert!(self.calls.is_empty() && self.jobs.is_empty(), "{}: {:?} {:?}", self.who, self.calls, self.jobs);
    }
}

/// Whether requests stand alone.
pub fn is_modern<E>(conn: &Connection<E>) -> bool {
    conn.version().is_some_and(|version| version.era() == Era::Modern)
}

/// A member of params or of a result.
pub fn member<T: serde::de::DeserializeOwned>(object: Option<&RawJson<'_>>, name: &str) -> Option<T> {
    object?.member(name)?.decode().ok()
}

/// Has a connection do something. If it does not, nothing has changed.
pub fn attempt<E, T>(
    conn: &mut Connection<E>,
    verb: impl FnOnce(&mut Connection<E>) -> Result<T, SendError>,
) -> Result<T, SendError> {
    let before = (conn.usage(), conn.stats(), conn.poll_timeout());
    let result = verb(conn);
    if let Err(error) = &result {
        assert_eq!((conn.usage(), conn.stats(), conn.poll_timeout()), before, "{error}, and yet something has changed");
    }
    result
}

/// The number by which a request is known. What may be answered from memory has it where it does not matter for that.
pub fn number_of(params: Option<&RawJson<'_>>) -> Option<u64> {
    member(params, "number").or_else(|| member(params?.member("_meta").as_ref(), NUMBER))
}

/// Where that is.
pub const NUMBER: &str = "com.example/number";
