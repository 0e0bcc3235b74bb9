//! What an application does of its own: it asks, tells, gives up, pages through lists.

use std::time::Duration;

use mcp_proto::{
    connection::{Connection, Outcome, RequestOptions, SendError},
    protocol::Role,
    rpc::{CallId, ReplyKey, Timestamp},
    wire::{Json, RawJson},
};

use super::{
    desk::{Desk, End, NUMBER, Other, attempt, member},
    memory::Memory,
    stage::{Deed, Stage},
};

/// A request of an application.
#[derive(Clone, Debug)]
pub struct Made {
    method: &'static str,
    /// What a good peer repeats in its result.
    number: u64,
    at: Timestamp,
    options: RequestOptions,
    /// When the peer was last known to be at it.
    heard: Timestamp,
    progress: f64,
    /// The application has given up on it.
    is_given_up: bool,
    /// It is a subscription that the server has agreed to.
    pub is_acknowledged: bool,
    /// It asks for a task (2025-11-25).
    pub is_task: bool,
    /// It has become a task that the connection follows (2026-07-28).
    pub is_pursued: bool,
    /// The request of the peer that cannot go on without it.
    pub job: Option<ReplyKey>,
    /// How many pages of its list came before.
    pages: u64,
}

const LISTEN: &str = "subscriptions/listen";
const GET_TASK: &str = "tasks/get";

/// What clients ask, and how often.
const ASKED: &[(u64, &str)] = &[
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

/// What servers ask, and how often.
const ASKED_BACK: &[(u64, &str)] =
    &[(2, "roots/list"), (2, "sampling/createMessage"), (2, "elicitation/create"), (1, "ping"), (1, "vendor/ask")];

/// The most pages of a list that are asked for.
const PAGES: u64 = 5;

impl Made {
    /// What was asked.
    #[must_use]
    pub const fn method(&self) -> &'static str {
        self.method
    }

    /// Its number.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// When it was asked.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// The peer is at it.
    pub fn progresses(&mut self, now: Timestamp, progress: f64, in_order: bool) {
        assert!(self.options.progress, "progress without a token");
        if in_order {
            assert!(progress > self.progress, "progress from {} to {progress}", self.progress);
        }
        (self.progress, self.heard) = (progress, now);
    }

    /// Whether its peer may answer it with questions, whose time does not count.
    fn may_ask(&self) -> bool {
        matches!(self.method, "tools/call" | "prompts/get" | "resources/read")
    }

    fn total_at(&self) -> Option<Timestamp> {
        self.options.total_timeout.map(|total| self.at + total).filter(|_| !self.is_acknowledged)
    }

    fn idle_at(&self) -> Option<Timestamp> {
        self.options.idle_timeout.map(|idle| self.heard + idle).filter(|_| !self.is_acknowledged)
    }

    /// Whether it may have been sent again meanwhile, so that it has as much time to be answered as at first: with
    /// answers, after a pause, or because a server says that it does not speak the revision after all.
    fn may_go_again(&self, is_good: bool) -> bool {
        !is_good || self.may_ask() || self.method == LISTEN && self.options.resubscribe
    }

    /// Whether it should have ended.
    pub fn is_overdue(&self, now: Timestamp, other: Other, is_modern: bool) -> bool {
        let has_passed = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        let is_idle = has_passed(self.idle_at()) && !(is_modern && self.may_go_again(other.is_good));
        has_passed(self.total_at()) || is_idle
    }

    /// Confirms that it may end like this.
    pub fn check_end(&self, now: Timestamp, other: Other, is_modern: bool, outcome: &Outcome<'_>, memory: &Memory) {
        match outcome {
            Outcome::Result(result) => {
                let echoes = !matches!(self.method, "ping" | LISTEN) && result.member("task").is_none();
                if other.is_good && echoes {
                    let number: u64 = member(Some(result), "number").expect("its answers have a number");
                    let is_known = !self.options.bypass_cache && memory.has(self.at, self.method, number);
                    assert!(number == self.number || is_known, "{number} answers another request than {self:?}");
                }
            }
            // It may be longer than the limits allow, or ask more.
            Outcome::Malformed => {
                let asks_too_much = is_modern && self.may_ask();
                assert!(!other.is_good || !other.is_calm || asks_too_much, "a good peer answers {self:?}");
            }
            Outcome::TimedOut { total } => {
                let at = if *total { self.total_at() } else { self.idle_at() };
                assert!(at.is_some_and(|at| at <= now), "it has time left: {self:?}");
            }
            Outcome::Cancelled => {
                let by_server = self.method == LISTEN || self.is_pursued;
                assert!(self.is_given_up || by_server, "neither side has cancelled {self:?}");
            }
            Outcome::Failed(why) => panic!("no request travels on its own here: {why:?}"),
            Outcome::Error(_) | Outcome::Closed(_) => {}
        }
    }

    /// Whether nothing but its answer, or giving up on it, can end it. A task is asked about again and again, and each
    /// time counts for itself.
    #[must_use]
    pub fn is_endless(&self) -> bool {
        let is_patient = self.options.idle_timeout.is_none() || self.is_pursued;
        self.is_acknowledged || is_patient && self.options.total_timeout.is_none()
    }
}

impl Desk {
    /// Does something of its own.
    pub fn step<E: End>(&mut self, stage: &mut Stage<'_>, conn: &mut Connection<E>, pause: Duration) {
        if stage.winding_down {
            return self.ask_for_tasks(stage, conn);
        }
        if self.closed.is_some() || self.steps == 0 {
            return;
        }
        self.steps -= 1;
        stage.plan_within(pause, Deed::Step(self.who));
        let who = self.who;
        if stage.dice.percent(self.habits.trouble) {
            let deed = match stage.dice.below(3) {
                0 => Deed::Close(who),
                1 => Deed::Vanish(who),
                _ => Deed::Stall(who, stage.dice.time(Duration::from_secs(3600))),
            };
            return stage.plan(Duration::ZERO, deed);
        }
        match stage.dice.below(10) {
            0..7 => {
                let asked = if E::ROLE == Role::Client { ASKED } else { ASKED_BACK };
                let method = stage.dice.weigh(asked);
                self.call(stage, conn, method, None, 0);
            }
            7..9 => self.tell(stage, conn),
            _ => {
                // Something that has ended, or never was, cannot be given up on.
                if let Some(call) = self.ended.first() {
                    assert_eq!(attempt(conn, |conn| conn.cancel(*call, None)), Err(SendError::UnknownCall));
                }
            }
        }
    }

    /// Asks the peer for something.
    pub fn call<E: End>(
        &mut self,
        stage: &mut Stage<'_>,
        conn: &mut Connection<E>,
        method: &'static str,
        job: Option<ReplyKey>,
        pages: u64,
    ) -> Option<CallId> {
        let number = stage.number();
        let is_task = method == "tools/call"
            && conn.version().is_some_and(|version| version.has_tasks())
            && stage.dice.percent(20);
        // Those may be answered from memory: the number must not make a difference.
        let mut params = match method {
            "tools/list" | "resources/read" => format!(r#"{{"_meta":{{"{NUMBER}":{number}}}"#),
            _ => format!(r#"{{"number":{number}"#),
        };
        match method {
            "logging/setLevel" => params += &format!(r#","level":"{}""#, stage.level().as_str()),
            "resources/subscribe" | "resources/read" => params += r#","uri":"test://a""#,
            LISTEN => params += &format!(r#","notifications":{}"#, self.filter(stage)),
            _ if is_task => params += r#","task":{"ttl":60000}"#,
            GET_TASK => {
                params += &format!(r#","taskId":"{}""#, self.followed.first_key_value().map_or("", |(_, task)| task))
            }
            _ => {}
        }
        let options = self.options(stage, method);
        let params = Json::parse(params + "}").expect("it is JSON");
        let made =
            attempt(conn, |conn| conn.request_raw(stage.now, method, Some(&RawJson::from(&params)), options.clone()));
        stage.note(self.who, "call", format_args!("{method} {number} {made:?}"));
        match made {
            Ok(call) => {
                let newest = self.calls.keys().next_back().into_iter().chain(self.ended.last()).max();
                assert!(newest.is_none_or(|newest| call > *newest), "ids grow");
                if stage.dice.percent(self.habits.fickleness) {
                    stage.plan_within(self.habits.patience, Deed::GiveUp(self.who, call));
                }
                let made = Made {
                    method,
                    number,
                    at: stage.now,
                    options,
                    heard: stage.now,
                    progress: f64::NEG_INFINITY,
                    is_given_up: false,
                    is_acknowledged: false,
                    is_task,
                    is_pursued: false,
                    job,
                    pages,
                };
                self.calls.insert(call, made);
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
                assert!(refused || no_room && !self.other.is_calm, "{method}: {error}");
                None
            }
        }
    }

    fn options(&self, stage: &mut Stage<'_>, method: &str) -> RequestOptions {
        let least = self.habits.patience / 20;
        let mut time = |never| {
            let time = least + stage.dice.time(self.habits.patience);
            if stage.dice.percent(never) { None } else { Some(time) }
        };
        let idle_timeout = time(20);
        let total_timeout = time(40).map(|total| total * 4);
        let log_level = stage.dice.percent(20).then(|| stage.level());
        RequestOptions {
            idle_timeout,
            total_timeout,
            progress: stage.dice.percent(60) && !matches!(method, "ping" | LISTEN),
            log_level,
            bypass_cache: stage.dice.percent(30),
            resubscribe: stage.dice.percent(50),
            ..RequestOptions::no_timeout()
        }
    }

    /// Asks what has become of the oldest task, and then of the others.
    pub fn ask_for_tasks<E: End>(&mut self, stage: &mut Stage<'_>, conn: &mut Connection<E>) {
        if !self.followed.is_empty() && self.call(stage, conn, GET_TASK, None, 0).is_none() && self.closed.is_none() {
            stage.plan(Duration::from_millis(100), Deed::Step(self.who));
        }
    }

    /// Asks to hear of a task.
    pub fn listen_to<E: End>(&mut self, stage: &mut Stage<'_>, conn: &mut Connection<E>, task: &str) {
        self.wanted_task = Some(task.to_owned());
        self.call(stage, conn, LISTEN, None, 0);
        self.wanted_task = None;
    }

    /// What a client listens to.
    fn filter(&self, stage: &mut Stage<'_>) -> String {
        const FILTERS: [&str; 4] = [
            r#""toolsListChanged":true"#,
            r#""toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["test://a"]"#,
            r#""promptsListChanged":true"#,
            "",
        ];
        match &self.wanted_task {
            Some(task) => format!(r#"{{"toolsListChanged":true,"taskIds":["{task}","no such task"]}}"#),
            None => format!("{{{}}}", stage.dice.pick(&FILTERS)),
        }
    }

    /// Tells the peer something.
    fn tell<E: End>(&mut self, stage: &mut Stage<'_>, conn: &mut Connection<E>) {
        let number = self.heard.said + 1;
        let (method, params) = match (stage.dice.below(3), E::ROLE) {
            (0, Role::Server) => {
                ("notifications/message", format!(r#"{{"level":"{}","data":{number}}}"#, stage.level().as_str()))
            }
            (0, Role::Client) => ("notifications/roots/list_changed", "{}".to_owned()),
            _ => ("vendor/said", format!(r#"{{"number":{number}}}"#)),
        };
        let params = Json::parse(params).expect("it is JSON");
        let told = attempt(conn, |conn| conn.notify_raw(method, Some(&RawJson::from(&params))));
        stage.note(self.who, "tell", format_args!("{method} {told:?}"));
        if method == "vendor/said" && told.is_ok() {
            self.heard.said = number;
        }
    }

    /// What the server offers has changed.
    pub fn change<E: End>(&mut self, stage: &mut Stage<'_>, conn: &mut Connection<E>, what: u64) {
        let (method, params) = match what % 4 {
            0 => ("notifications/prompts/list_changed", "{}"),
            1 if stage.dice.percent(50) => ("notifications/resources/updated", r#"{"uri":"test://a/b"}"#),
            1 => ("notifications/resources/updated", r#"{"uri":"test://a"}"#),
            _ => ("notifications/tools/list_changed", "{}"),
        };
        let params = Json::parse(params).expect("it is JSON");
        let told = attempt(conn, |conn| conn.notify_raw(method, Some(&RawJson::from(&params))));
        stage.note(self.who, "change", format_args!("{method} {told:?}"));
        if told.is_ok() && what % 4 > 1 && self.is_ready {
            self.heard.changed_at = Some(stage.now);
        }
    }

    /// What a task of the server has come to.
    pub fn tell_of_task<E: End>(&mut self, stage: &mut Stage<'_>, conn: &mut Connection<E>, task: &str) {
        let params = Json::parse(task).expect("it is JSON");
        let told = attempt(conn, |conn| conn.notify_raw("notifications/tasks", Some(&RawJson::from(&params))));
        stage.note(self.who, "tell", format_args!("{task} {told:?}"));
    }

    /// Gives up on a request, if it has not ended.
    pub fn give_up<E: End>(&mut self, stage: &mut Stage<'_>, conn: &mut Connection<E>, call: CallId) {
        let given_up = attempt(conn, |conn| conn.cancel(call, Some("not wanted any more")));
        stage.note(self.who, "give up", format_args!("{call:?} {given_up:?}"));
        match self.calls.get_mut(&call) {
            Some(made) => {
                assert_eq!(given_up, Ok(()));
                made.is_given_up = true;
            }
            None => assert_eq!(given_up, Err(SendError::UnknownCall)),
        }
    }

    /// Does what the end of a request makes possible.
    pub fn follow_up<E: End>(
        &mut self,
        stage: &mut Stage<'_>,
        conn: &mut Connection<E>,
        made: &Made,
        outcome: &Outcome<'_>,
    ) {
        if let Some(key) = made.job
            && let Some(job) = self.jobs.get_mut(&key)
        {
            job.waits_for = None;
            stage.plan_within(self.habits.thinking, Deed::Work(self.who, key));
        }
        if let Outcome::Result(result) = outcome
            && made.pages < PAGES
            && !stage.winding_down
            && member::<String>(Some(result), "nextCursor").is_some()
        {
            self.call(stage, conn, "tools/list", None, made.pages + 1);
        }
        if made.method == GET_TASK {
            if matches!(outcome, Outcome::Result(_)) {
                self.followed.pop_first();
            }
            stage.plan(Duration::from_millis(100), Deed::Step(self.who));
        }
    }
}
