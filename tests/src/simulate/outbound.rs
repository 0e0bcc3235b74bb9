//! The own steps of an application: calls, notifications, cancellations, and pages of lists.

use std::time::Duration;

use mcp_proto::{
    connection::{Connection, Outcome, RequestOptions, SendError},
    protocol::Role,
    rpc::{CallId, ReplyKey, Timestamp},
    wire::{Json, RawJson},
};

use super::{
    application::{Application, NUMBER, PeerTraits, RoleExt, attempt, member},
    cache_model::CacheModel,
    environment::{Action, Environment},
};

/// A request of an application.
#[derive(Clone, Debug)]
pub struct OutgoingRequest {
    method: &'static str,
    /// The number that the result of a conforming peer repeats.
    number: u64,
    at: Timestamp,
    options: RequestOptions,
    /// The time of the last sign that the peer works on it.
    last_activity: Timestamp,
    progress: f64,
    /// The application has cancelled it.
    is_cancelled_here: bool,
    /// It is a subscription that the server has acknowledged.
    pub is_acknowledged: bool,
    /// It requests a task (2025-11-25).
    pub is_task: bool,
    /// It has become a task that the connection follows (2026-07-28).
    pub has_followed_task: bool,
    /// The request of the peer that waits for it.
    pub job: Option<ReplyKey>,
    /// The number of earlier pages of its list.
    pages: u64,
}

pub(super) const LISTEN: &str = "subscriptions/listen";
const GET_TASK: &str = "tasks/get";

/// The requests of clients, with their weights.
const CLIENT_METHODS: &[(u64, &str)] = &[
    (6, "tools/call"),
    (3, "tools/list"),
    (1, "prompts/get"),
    (1, "resources/read"),
    (1, "completion/complete"),
    (1, "logging/setLevel"),
    (1, "resources/subscribe"),
    (2, LISTEN),
    (2, "ping"),
    (2, "vendor/ask"),
];

/// The requests of servers, with their weights.
const SERVER_METHODS: &[(u64, &str)] =
    &[(2, "roots/list"), (2, "sampling/createMessage"), (2, "elicitation/create"), (1, "ping"), (1, "vendor/ask")];

/// The most pages of a list that are requested.
const PAGES: u64 = 5;

impl OutgoingRequest {
    /// Returns its method.
    #[must_use]
    pub const fn method(&self) -> &'static str {
        self.method
    }

    /// Returns its number.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Returns when it was sent.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// Handles its progress.
    pub fn on_progress(&mut self, now: Timestamp, progress: f64, in_order: bool) {
        assert!(self.options.progress, "progress without a token");
        if in_order {
            assert!(progress > self.progress, "progress from {} to {progress}", self.progress);
        }
        (self.progress, self.last_activity) = (progress, now);
    }

    /// Returns whether the peer may answer with `input_required`. The idle timeout does not run in such a round.
    fn may_require_input(&self) -> bool {
        matches!(self.method, "tools/call" | "prompts/get" | "resources/read")
    }

    fn total_at(&self) -> Option<Timestamp> {
        self.options.total_timeout.map(|total| self.at + total).filter(|_| !self.is_acknowledged)
    }

    fn idle_at(&self) -> Option<Timestamp> {
        self.options.idle_timeout.map(|idle| self.last_activity + idle).filter(|_| !self.is_acknowledged)
    }

    /// Returns whether the connection may have sent it again, which restarts its idle timeout: with responses to input
    /// requests, after a pause, or after the server has rejected the revision.
    fn may_be_resent(&self, is_conforming: bool) -> bool {
        !is_conforming || self.may_require_input() || self.method == LISTEN && self.options.resubscribe
    }

    /// Returns whether it should have ended.
    pub fn is_overdue(&self, now: Timestamp, other: PeerTraits, is_modern: bool) -> bool {
        let has_passed = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        let is_idle = has_passed(self.idle_at()) && !(is_modern && self.may_be_resent(other.is_conforming));
        has_passed(self.total_at()) || is_idle
    }

    /// Checks that it may end with this outcome.
    pub fn check_end(
        &self,
        now: Timestamp,
        other: PeerTraits,
        is_modern: bool,
        outcome: &Outcome<'_>,
        cache: &CacheModel,
    ) {
        match outcome {
            Outcome::Result(result) => {
                let echoes = !matches!(self.method, "ping" | LISTEN) && result.member("task").is_none();
                if other.is_conforming && echoes {
                    let number: u64 = member(Some(result), "number").expect("its answers have a number");
                    let is_known = !self.options.bypass_cache && cache.contains(self.at, self.method, number);
                    assert!(number == self.number || is_known, "{number} answers another request than {self:?}");
                }
            }
            // The result may exceed the limits, or contain too many input requests.
            Outcome::Malformed => {
                let requires_too_much = is_modern && self.may_require_input();
                assert!(
                    !other.is_conforming || !other.is_undisturbed || requires_too_much,
                    "a conforming peer answers {self:?}"
                );
            }
            Outcome::TimedOut { total } => {
                let at = if *total { self.total_at() } else { self.idle_at() };
                assert!(at.is_some_and(|at| at <= now), "it has time left: {self:?}");
            }
            Outcome::Cancelled => {
                let by_server = self.method == LISTEN || self.has_followed_task;
                assert!(self.is_cancelled_here || by_server, "neither side has cancelled {self:?}");
            }
            Outcome::Failed(why) => panic!("no request travels on its own here: {why:?}"),
            Outcome::Error(_) | Outcome::Closed(_) => {}
        }
    }

    /// Returns whether only its response or a cancellation can end it. A task is polled, and each poll has its own
    /// timeout.
    #[must_use]
    pub fn is_endless(&self) -> bool {
        let has_no_deadline = self.options.idle_timeout.is_none() || self.has_followed_task;
        self.is_acknowledged || has_no_deadline && self.options.total_timeout.is_none()
    }
}

impl Application {
    /// Performs the next step.
    pub fn step<E: RoleExt>(&mut self, env: &mut Environment<'_>, conn: &mut Connection<E>, pause: Duration) {
        if env.winding_down {
            return self.poll_tasks(env, conn);
        }
        if self.closed.is_some() || self.steps == 0 {
            return;
        }
        self.steps -= 1;
        env.schedule_within(pause, Action::Step(self.peer_id));
        let peer_id = self.peer_id;
        if env.rng.percent(self.behavior.disruption_percent) {
            let action = match env.rng.below(3) {
                0 => Action::Close(peer_id),
                1 => Action::Kill(peer_id),
                _ => Action::Stall(peer_id, env.rng.duration(Duration::from_secs(3600))),
            };
            return env.schedule(Duration::ZERO, action);
        }
        match env.rng.below(10) {
            0..7 => {
                let methods = if E::ROLE == Role::Client { CLIENT_METHODS } else { SERVER_METHODS };
                let method = env.rng.weighted(methods);
                self.call(env, conn, method, None, 0);
            }
            7..9 => self.send_notification(env, conn),
            _ => {
                // A call that has ended cannot be cancelled.
                if let Some(call) = self.ended.first() {
                    assert_eq!(attempt(conn, |conn| conn.cancel(*call, None)), Err(SendError::UnknownCall));
                }
            }
        }
    }

    /// Sends a request.
    pub fn call<E: RoleExt>(
        &mut self,
        env: &mut Environment<'_>,
        conn: &mut Connection<E>,
        method: &'static str,
        job: Option<ReplyKey>,
        pages: u64,
    ) -> Option<CallId> {
        let number = env.next_number();
        let is_task =
            method == "tools/call" && conn.version().is_some_and(|version| version.has_tasks()) && env.rng.percent(20);
        // These methods may be answered from the cache, so the number must not influence the key.
        let mut params = match method {
            "tools/list" | "resources/read" => format!(r#"{{"_meta":{{"{NUMBER}":{number}}}"#),
            _ => format!(r#"{{"number":{number}"#),
        };
        match method {
            "logging/setLevel" => params += &format!(r#","level":"{}""#, env.log_level().as_str()),
            "resources/subscribe" | "resources/read" => params += r#","uri":"test://a""#,
            LISTEN => params += &format!(r#","notifications":{}"#, self.filter(env)),
            _ if is_task => params += r#","task":{"ttl":60000}"#,
            GET_TASK => {
                params += &format!(r#","taskId":"{}""#, self.followed.first_key_value().map_or("", |(_, task)| task))
            }
            _ => {}
        }
        let options = self.options(env, method);
        let params = Json::parse(params + "}").expect("it is JSON");
        let request =
            attempt(conn, |conn| conn.request_raw(env.now, method, Some(&RawJson::from(&params)), options.clone()));
        env.note(self.peer_id, "call", format_args!("{method} {number} {request:?}"));
        match request {
            Ok(call) => {
                let newest = self.calls.keys().next_back().into_iter().chain(self.ended.last()).max();
                assert!(newest.is_none_or(|newest| call > *newest), "ids grow");
                if env.rng.percent(self.behavior.cancel_percent) {
                    env.schedule_within(self.behavior.max_wait, Action::Cancel(self.peer_id, call));
                }
                let request = OutgoingRequest {
                    method,
                    number,
                    at: env.now,
                    options,
                    last_activity: env.now,
                    progress: f64::NEG_INFINITY,
                    is_cancelled_here: false,
                    is_acknowledged: false,
                    is_task,
                    has_followed_task: false,
                    job,
                    pages,
                };
                self.calls.insert(call, request);
                Some(call)
            }
            Err(error) => {
                let refused = matches!(
                    error,
                    SendError::NotReady
                        | SendError::Closed
                        | SendError::NotInRevision { .. }
                        | SendError::Undeclared(_)
                        | SendError::WrongDirection(_)
                );
                let no_room = matches!(error, SendError::Busy | SendError::TooLarge);
                assert!(refused || no_room && !self.other.is_undisturbed, "{method}: {error}");
                None
            }
        }
    }

    fn options(&self, env: &mut Environment<'_>, method: &str) -> RequestOptions {
        let least = self.behavior.max_wait / 20;
        let mut time = |never| {
            let time = least + env.rng.duration(self.behavior.max_wait);
            if env.rng.percent(never) { None } else { Some(time) }
        };
        let idle_timeout = time(20);
        let total_timeout = time(40).map(|total| total * 4);
        let log_level = env.rng.percent(20).then(|| env.log_level());
        RequestOptions {
            idle_timeout,
            total_timeout,
            progress: env.rng.percent(60) && !matches!(method, "ping" | LISTEN),
            log_level,
            bypass_cache: env.rng.percent(30),
            resubscribe: env.rng.percent(50),
            ..RequestOptions::no_timeout()
        }
    }

    /// Requests the state of the oldest task. The others follow.
    pub fn poll_tasks<E: RoleExt>(&mut self, env: &mut Environment<'_>, conn: &mut Connection<E>) {
        if !self.followed.is_empty() && self.call(env, conn, GET_TASK, None, 0).is_none() && self.closed.is_none() {
            env.schedule(Duration::from_millis(100), Action::Step(self.peer_id));
        }
    }

    /// Subscribes to a task.
    pub fn subscribe_to_task<E: RoleExt>(&mut self, env: &mut Environment<'_>, conn: &mut Connection<E>, task: &str) {
        self.task_to_watch = Some(task.to_owned());
        self.call(env, conn, LISTEN, None, 0);
        self.task_to_watch = None;
    }

    /// Returns the filter of a subscription.
    fn filter(&self, env: &mut Environment<'_>) -> String {
        const FILTERS: [&str; 4] = [
            r#""toolsListChanged":true"#,
            r#""toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["test://a"]"#,
            r#""promptsListChanged":true"#,
            "",
        ];
        match &self.task_to_watch {
            Some(task) => format!(r#"{{"toolsListChanged":true,"taskIds":["{task}","no such task"]}}"#),
            None => format!("{{{}}}", env.rng.pick(&FILTERS)),
        }
    }

    /// Sends a notification.
    fn send_notification<E: RoleExt>(&mut self, env: &mut Environment<'_>, conn: &mut Connection<E>) {
        let number = self.notifications.sent + 1;
        let (method, params) = match (env.rng.below(3), E::ROLE) {
            (0, Role::Server) => {
                ("notifications/message", format!(r#"{{"level":"{}","data":{number}}}"#, env.log_level().as_str()))
            }
            (0, Role::Client) => ("notifications/roots/list_changed", "{}".to_owned()),
            _ => ("vendor/said", format!(r#"{{"number":{number}}}"#)),
        };
        let params = Json::parse(params).expect("it is JSON");
        let sent = attempt(conn, |conn| conn.notify_raw(method, Some(&RawJson::from(&params))));
        env.note(self.peer_id, "tell", format_args!("{method} {sent:?}"));
        if method == "vendor/said" && sent.is_ok() {
            self.notifications.sent = number;
        }
    }

    /// Notifies of a change of the server's offer.
    pub fn notify_change<E: RoleExt>(&mut self, env: &mut Environment<'_>, conn: &mut Connection<E>, what: u64) {
        let (method, params) = match what % 4 {
            0 => ("notifications/prompts/list_changed", "{}"),
            1 if env.rng.percent(50) => ("notifications/resources/updated", r#"{"uri":"test://a/b"}"#),
            1 => ("notifications/resources/updated", r#"{"uri":"test://a"}"#),
            _ => ("notifications/tools/list_changed", "{}"),
        };
        let params = Json::parse(params).expect("it is JSON");
        let sent = attempt(conn, |conn| conn.notify_raw(method, Some(&RawJson::from(&params))));
        env.note(self.peer_id, "change", format_args!("{method} {sent:?}"));
        if sent.is_ok() && what % 4 > 1 && self.is_ready {
            self.notifications.changed_at = Some(env.now);
        }
    }

    /// Notifies of the state of a task.
    pub fn notify_task<E: RoleExt>(&mut self, env: &mut Environment<'_>, conn: &mut Connection<E>, task: &str) {
        let params = Json::parse(task).expect("it is JSON");
        let sent = attempt(conn, |conn| conn.notify_raw("notifications/tasks", Some(&RawJson::from(&params))));
        env.note(self.peer_id, "tell", format_args!("{task} {sent:?}"));
    }

    /// Cancels a call, if it has not ended.
    pub fn cancel_call<E: RoleExt>(&mut self, env: &mut Environment<'_>, conn: &mut Connection<E>, call: CallId) {
        let given_up = attempt(conn, |conn| conn.cancel(call, Some("not wanted any more")));
        env.note(self.peer_id, "give up", format_args!("{call:?} {given_up:?}"));
        match self.calls.get_mut(&call) {
            Some(request) => {
                assert_eq!(given_up, Ok(()));
                request.is_cancelled_here = true;
            }
            None => assert_eq!(given_up, Err(SendError::UnknownCall)),
        }
    }

    /// Performs the steps that follow the end of a call.
    pub fn follow_up<E: RoleExt>(
        &mut self,
        env: &mut Environment<'_>,
        conn: &mut Connection<E>,
        request: &OutgoingRequest,
        outcome: &Outcome<'_>,
    ) {
        if let Some(key) = request.job
            && let Some(job) = self.jobs.get_mut(&key)
        {
            job.waiting_for = None;
            env.schedule_within(self.behavior.max_think_time, Action::Continue(self.peer_id, key));
        }
        if let Outcome::Result(result) = outcome
            && request.pages < PAGES
            && !env.winding_down
            && member::<String>(Some(result), "nextCursor").is_some()
        {
            self.call(env, conn, "tools/list", None, request.pages + 1);
        }
        if request.method == GET_TASK {
            if matches!(outcome, Outcome::Result(_)) {
                self.followed.pop_first();
            }
            env.schedule(Duration::from_millis(100), Action::Step(self.peer_id));
        }
    }
}
