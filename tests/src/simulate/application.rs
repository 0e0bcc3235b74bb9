//! The application of one side of a connection, and the checks of its events.

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
    cache_model::CacheModel,
    environment::{Action, Environment},
    handler::{Job, Rounds, Tasks},
    outbound::{LISTEN, OutgoingRequest},
    plan::Behavior,
    trace::PeerId,
};

/// The operations of an application that depend on its role.
pub trait RoleExt: Sized {
    /// The role.
    const ROLE: Role;

    /// Returns the revision of a request of the peer, and the capabilities that the peer declares for it.
    fn context(conn: &Connection<Self>, key: ReplyKey) -> Option<(ProtocolVersion, CapabilitySet)>;

    /// Opens a subscription that names tasks.
    fn accept(conn: &mut Connection<Self>, key: ReplyKey, is_there: impl FnMut(&str) -> bool) -> Result<(), SendError>;

    /// Checks that the cache stays within its limits.
    fn check_cache(_: &Connection<Self>) {}
}

impl RoleExt for ClientRole {
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

impl RoleExt for ServerRole {
    const ROLE: Role = Role::Server;

    fn context(conn: &Connection<Self>, key: ReplyKey) -> Option<(ProtocolVersion, CapabilitySet)> {
        let context = conn.context(key)?;
        Some((context.version, context.client_capabilities.set()))
    }

    fn accept(conn: &mut Connection<Self>, key: ReplyKey, is_there: impl FnMut(&str) -> bool) -> Result<(), SendError> {
        conn.accept_subscription(key, is_there)
    }
}

/// The properties of the peer.
#[derive(Clone, Copy, Debug)]
pub struct PeerTraits {
    /// It follows the protocol.
    pub is_conforming: bool,
    /// Its messages arrive in the order in which they were sent.
    pub in_order: bool,
    /// The connection is undisturbed.
    pub is_undisturbed: bool,
}

/// The notifications of an application, to compare the two sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotificationState {
    /// The custom notifications that it has sent.
    pub sent: u64,
    /// The custom notifications that it has received.
    pub received: u64,
    /// The time of the last change of its own tools.
    pub changed_at: Option<Timestamp>,
    /// The time at which it last received a change of the peer's tools.
    pub change_received_at: Option<Timestamp>,
}

/// The application of one side of a connection.
pub struct Application {
    /// Its side.
    pub peer_id: PeerId,
    /// The properties of the peer.
    pub other: PeerTraits,
    /// Its behaviour.
    pub behavior: Behavior,
    /// Its open calls.
    pub calls: BTreeMap<CallId, OutgoingRequest>,
    /// Its calls that have ended.
    pub ended: BTreeSet<CallId>,
    /// Requests of the peer without a response.
    pub jobs: BTreeMap<ReplyKey, Job>,
    /// Requests of the peer that were not cancelled, with or without a response.
    pub uncancelled: BTreeSet<ReplyKey>,
    /// The latest request of the peer.
    pub last_job: Option<ReplyKey>,
    /// Requests of the peer that were answered with `input_required` (2026-07-28).
    pub rounds: Rounds,
    /// Requests of the peer that have become tasks (2025-11-25).
    pub tasks: Tasks,
    /// Its own requests that have become tasks.
    pub followed: BTreeMap<CallId, String>,
    /// The task of the next subscription (2026-07-28).
    pub task_to_watch: Option<String>,
    /// Whether the handshake is over.
    pub is_ready: bool,
    /// The reason for the end of the connection.
    pub closed: Option<CloseReason>,
    /// The notifications that it has sent and received.
    pub notifications: NotificationState,
    /// The model of the connection's cache.
    pub cache: CacheModel,
    /// The number of steps that remain.
    pub steps: u64,
}

impl Application {
    /// Returns an application before its first step.
    #[must_use]
    pub fn new(peer_id: PeerId, other: PeerTraits, behavior: Behavior, steps: u64) -> Self {
        Self {
            peer_id,
            other,
            behavior,
            calls: BTreeMap::new(),
            ended: BTreeSet::new(),
            jobs: BTreeMap::new(),
            uncancelled: BTreeSet::new(),
            last_job: None,
            rounds: Rounds::default(),
            tasks: Tasks::default(),
            followed: BTreeMap::new(),
            task_to_watch: None,
            is_ready: false,
            closed: None,
            notifications: NotificationState::default(),
            cache: CacheModel::default(),
            steps,
        }
    }

    /// Handles an event of the connection.
    pub fn on_event<E: RoleExt>(&mut self, env: &mut Environment<'_>, conn: &mut Connection<E>, event: Event<'_>) {
        env.note(self.peer_id, "event", format_args!("{event:?}"));
        assert_eq!(self.closed, None, "an event after the last one");
        match event {
            Event::Ready => {
                // A client falls back to a session if a rogue server stops supporting the modern era.
                assert!(!self.is_ready || !self.other.is_conforming, "a second `Ready` event");
                if !self.is_ready {
                    env.schedule_within(self.behavior.max_think_time, Action::Step(self.peer_id));
                }
                self.is_ready = true;
            }
            Event::Request { key, method, params } => self.accept_request(env, conn, key, &method, params.as_ref()),
            Event::Cancelled { key, .. } => {
                assert!(self.uncancelled.remove(&key), "a cancellation without a request, or a second one");
                // It may have been answered before this event was polled.
                if let Some(job) = self.jobs.get_mut(&key) {
                    job.is_cancelled = true;
                    env.schedule_within(self.behavior.max_think_time, Action::Continue(self.peer_id, key));
                }
            }
            Event::Response { call, outcome } => self.ended(env, conn, call, &outcome),
            Event::Progress { call, progress } => {
                let is_modern = is_modern(conn);
                let in_order = self.other.is_conforming && self.other.in_order && !is_modern;
                if let Some(request) = self.calls.get_mut(&call) {
                    request.on_progress(env.now, progress.progress, in_order);
                } else {
                    assert!(self.followed.contains_key(&call), "progress of a call that has ended");
                }
            }
            Event::Task { call, task } => {
                let request = self.calls.get_mut(&call).expect("a call that has become a task is open");
                let is_new = !std::mem::replace(&mut request.has_followed_task, true);
                if is_new && env.winding_down && request.is_endless() {
                    env.schedule(Duration::from_secs(1), Action::Cancel(self.peer_id, call));
                }
                let task: Option<String> = member(Some(&task), "taskId");
                if let Some(task) = task.filter(|_| is_new && env.rng.percent(20)) {
                    self.subscribe_to_task(env, conn, &task);
                }
            }
            Event::Late(call) => assert!(!self.calls.contains_key(&call), "a late response to an open call"),
            Event::Notification { method, params, .. } => self.on_notification(env, &method, params.as_ref()),
            Event::PeerError(error) => assert!(!self.other.is_conforming, "a conforming peer sends {error}"),
            Event::Violation(violation) => self.check_violation(&violation),
            Event::Closed(reason) => {
                assert!(self.calls.is_empty(), "the connection has ended and a call has not");
                assert!(
                    self.jobs.values().all(|job| job.is_cancelled),
                    "the connection has ended and a request has not"
                );
                if self.other.is_undisturbed && self.is_ready {
                    assert!(reason.is_clean(), "an undisturbed connection has ended: {reason}");
                }
                self.followed.clear();
                self.closed = Some(reason);
            }
            _ => {}
        }
    }

    /// Checks that a conforming peer commits only violations that it cannot avoid.
    fn check_violation(&self, violation: &Violation<'_>) {
        let can_happen = match violation {
            // The peer has no information about the limits of this side or the cut of the link.
            Violation::TooManyRequests | Violation::Oversized | Violation::Truncated => !self.other.is_undisturbed,
            // The peer may send messages before it has received the response that determines the era.
            Violation::NotReady(_) => !self.is_ready,
            Violation::NotSupported(method) => !self.is_ready || *method == Method::Discover,
            _ => false,
        };
        assert!(can_happen || !self.other.is_conforming, "a violation of a conforming peer: {violation}");
    }

    fn on_notification(&mut self, env: &mut Environment<'_>, method: &MethodName<'_>, params: Option<&RawJson<'_>>) {
        self.cache.on_notification(env.now, method, params);
        match method {
            MethodName::Custom(_) if self.other.is_conforming => {
                let number: u64 = member(params, "number").expect("its notifications have a number");
                if self.other.in_order {
                    assert_eq!(number, self.notifications.received + 1, "a notification is lost, or out of order");
                }
                self.notifications.received += 1;
            }
            MethodName::Known(Method::ToolsListChanged) => self.notifications.change_received_at = Some(env.now),
            MethodName::Known(Method::SubscriptionsAcknowledged) => {
                let params = params.and_then(|params| params.member("_meta"));
                let id: Option<u64> = member(params.as_ref(), "io.modelcontextprotocol/subscriptionId");
                // A hostile peer also names other requests.
                let is_named =
                    |call: &CallId, request: &OutgoingRequest| Some(call.as_u64()) == id && request.method() == LISTEN;
                let listens = self.calls.iter_mut().find(|(call, request)| is_named(call, request));
                if let Some((call, request)) = listens {
                    request.is_acknowledged = true;
                    if env.winding_down {
                        env.schedule(Duration::from_secs(1), Action::Cancel(self.peer_id, *call));
                    }
                }
            }
            _ => {}
        }
    }

    fn ended<E: RoleExt>(
        &mut self,
        env: &mut Environment<'_>,
        conn: &mut Connection<E>,
        call: CallId,
        outcome: &Outcome<'_>,
    ) {
        assert!(!self.ended.contains(&call), "a call has ended for the second time");
        let request = self.calls.remove(&call).expect("the call exists");
        self.ended.insert(call);
        request.check_end(env.now, self.other, is_modern(conn), outcome, &self.cache);
        if let Outcome::Result(result) = outcome {
            self.cache.store(env.now, &request, result);
        }
        if request.is_task
            && let Outcome::Result(result) = outcome
            && let Some(task) = result.member("task").and_then(|task| member(Some(&task), "taskId"))
        {
            self.followed.insert(call, task);
        }
        self.follow_up(env, conn, &request, outcome);
    }

    /// Checks that no call is overdue after the timeouts were handled.
    pub fn check_deadlines<E>(&self, conn: &Connection<E>, now: Timestamp) {
        for (call, request) in &self.calls {
            let is_overdue = request.is_overdue(now, self.other, is_modern(conn));
            assert!(!is_overdue, "{call:?} has run out of time and has not ended: {request:?}");
        }
    }

    /// Checks the tables of the connection against those of the application.
    pub fn check_tables<E: RoleExt>(&self, conn: &Connection<E>) {
        E::check_cache(conn);
        let ResourceUsage { calls, requests, tasks, .. } = conn.usage();
        // The core has its own calls: the handshake, pings and cancellations of tasks.
        assert!(calls >= self.calls.len(), "{calls} calls");
        assert!(requests >= self.jobs.len(), "{requests} requests");
        assert!(tasks <= self.followed.len(), "{tasks} tasks");
    }

    /// Checks that no call and no request is open.
    pub fn assert_done(&self) {
        assert!(self.calls.is_empty() && self.jobs.is_empty(), "{}: {:?} {:?}", self.peer_id, self.calls, self.jobs);
    }
}

/// Returns whether requests are stateless.
pub fn is_modern<E>(conn: &Connection<E>) -> bool {
    conn.version().is_some_and(|version| version.era() == Era::Modern)
}

/// Returns a member of params or of a result.
pub fn member<T: serde::de::DeserializeOwned>(object: Option<&RawJson<'_>>, name: &str) -> Option<T> {
    object?.member(name)?.decode().ok()
}

/// Calls the API of a connection. Checks that a rejected call changes nothing.
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

/// Returns the number of a request. Requests that the cache may answer contain it in `_meta`, where it does not
/// influence the cache.
pub fn number_of(params: Option<&RawJson<'_>>) -> Option<u64> {
    member(params, "number").or_else(|| member(params?.member("_meta").as_ref(), NUMBER))
}

/// The key of the number in `_meta`.
pub const NUMBER: &str = "com.example/number";
