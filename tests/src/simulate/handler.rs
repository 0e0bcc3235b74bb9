//! The handling of requests: an application responds with a result or an error, does not respond, reports progress,
//! requests input, or creates a task.

use std::{collections::BTreeMap, time::Duration};

use mcp_proto::{
    connection::{Connection, SendError, TaskProgress},
    protocol::{Capability, CapabilitySet, Era, MethodName, Role},
    rpc::{CallId, ReplyKey},
    schema::{CreateTaskResult, LogMessageParams, Task, TaskStatus, TaskStatusParams},
    wire::{ErrorObject, Json, RawJson},
};

use super::{
    application::{Application, RoleExt, attempt, member, number_of},
    environment::{Action, Environment},
    tasks::TaskOperation,
};

/// The planned end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Result,
    Error,
    NoReply,
    Task,
}

/// A request of the peer in progress.
#[derive(Clone, Debug)]
pub struct Job {
    /// The number that the response repeats.
    number: Option<u64>,
    is_list: bool,
    /// The id of the task in a request for a task of a session (2025-11-25).
    task: Option<String>,
    /// The operation on a task (2026-07-28), and the id of the task.
    operation: Option<(TaskOperation, String)>,
    /// It is a subscription.
    listens: bool,
    /// The time to live of its result, in milliseconds (2026-07-28).
    good: Option<u64>,
    /// The peer has cancelled it.
    pub is_cancelled: bool,
    /// The call that it waits for.
    pub waiting_for: Option<CallId>,
    /// The number of progress reports left.
    reports: u64,
    reported: f64,
    /// The number of input requests left.
    input_requests: u64,
    /// The capabilities of the peer for this request.
    declared: CapabilitySet,
    /// Its round of `input_required` responses (2026-07-28).
    round: Option<u64>,
    ending: Ending,
}

/// Requests that were answered with `input_required`, by number: the names of the input requests and the state that the
/// retry has to contain.
pub type Rounds = BTreeMap<u64, (Vec<String>, Option<String>)>;

/// Requests that have become tasks, by number.
pub type Tasks = BTreeMap<u64, Option<TaskProgress>>;

/// The requests of a server, with the capability that each requires.
pub const INPUT_METHODS: [(&str, Capability); 3] = [
    ("roots/list", Capability::Roots),
    ("sampling/createMessage", Capability::Sampling),
    ("elicitation/create", Capability::ElicitationForm),
];

/// The most rounds of one request.
const ROUNDS: u64 = 3;

impl Application {
    /// Accepts a request.
    pub fn accept_request<E: RoleExt>(
        &mut self,
        env: &mut Environment<'_>,
        conn: &mut Connection<E>,
        key: ReplyKey,
        method: &MethodName<'_>,
        params: Option<&RawJson<'_>>,
    ) {
        assert!(self.last_job.is_none_or(|last| key > last), "keys are in the order of arrival");
        self.last_job = Some(key);
        self.uncancelled.insert(key);
        let (version, declared) = E::context(conn, key).expect("it is open");
        let stands_alone = E::ROLE == Role::Server && version.era() == Era::Modern;
        let number = number_of(params);
        let operation = if stands_alone { operation(method.as_str(), params) } else { None };
        assert!(number.is_some() || operation.is_some() || !self.other.is_conforming, "its requests have a number");
        let may_require_input = matches!(method.as_str(), "tools/call" | "prompts/get" | "resources/read");
        let round = number.filter(|_| stands_alone && may_require_input).map(|number| self.next_round(number, params));
        let has_task = method.as_str() == "tools/call" && params.is_some_and(|params| params.member("task").is_some());
        let can_be_task = method.as_str() == "tools/call" && number.is_some();
        let extension = conn.capabilities().contains(Capability::TasksExtension)
            && declared.contains(Capability::TasksExtension)
            && env.rng.percent(50);
        let is_task = match stands_alone {
            true => can_be_task && extension,
            false => has_task && version.has_tasks() && E::ROLE == Role::Server,
        };
        let is_cacheable = stands_alone && matches!(method.as_str(), "tools/list" | "resources/read");
        let job = Job {
            number,
            is_list: method.as_str() == "tools/list",
            task: member::<String>(params, "taskId").filter(|_| !stands_alone),
            operation,
            listens: method.as_str() == "subscriptions/listen",
            good: is_cacheable.then(|| env.rng.log_uniform(1, 3_600_000) - 1),
            is_cancelled: false,
            waiting_for: None,
            reports: if env.rng.percent(30) { env.rng.below(5) } else { 0 },
            reported: 0.0,
            input_requests: u64::from(env.rng.percent(self.behavior.input_percent)),
            declared,
            round,
            ending: self.draw_ending(env, is_task),
        };
        self.jobs.insert(key, job);
        // Some requests are answered immediately.
        if env.rng.percent(40) { self.work(env, conn, key) } else { self.continue_later(env, key) }
    }

    fn draw_ending(&self, env: &mut Environment<'_>, is_task: bool) -> Ending {
        match env.rng.below(100) {
            percent if percent < self.behavior.no_reply_percent => Ending::NoReply,
            _ if is_task && env.rng.percent(80) => Ending::Task,
            _ if env.rng.percent(15) => Ending::Error,
            _ => Ending::Result,
        }
    }

    /// Checks that the retry of a request contains the responses to all input requests and the state. Returns its
    /// round.
    fn next_round(&mut self, number: u64, params: Option<&RawJson<'_>>) -> u64 {
        let state: Option<String> = member(params, "requestState");
        let answers: Option<BTreeMap<String, serde_json::Value>> = member(params, "inputResponses");
        let (names, expected) = self.rounds.remove(&number).unwrap_or_default();
        if !self.other.is_conforming {
            return 0;
        }
        assert_eq!(state, expected, "the state is repeated unchanged");
        assert_eq!(
            answers.unwrap_or_default().into_keys().collect::<Vec<_>>(),
            names,
            "every input request has a response"
        );
        state.map_or(0, |state| {
            state.rsplit('/').next().and_then(|round| round.parse().ok()).expect("the state contains the round")
        })
    }

    fn continue_later(&self, env: &mut Environment<'_>, key: ReplyKey) {
        let most = if env.winding_down { Duration::from_millis(1) } else { self.behavior.max_think_time };
        env.schedule_within(most, Action::Continue(self.peer_id, key));
    }

    /// Continues to work on a request.
    pub fn work<E: RoleExt>(&mut self, env: &mut Environment<'_>, conn: &mut Connection<E>, key: ReplyKey) {
        let Some(job) = self.jobs.get(&key).cloned() else { return };
        if job.is_cancelled {
            if let Some(call) = job.waiting_for {
                self.cancel_call(env, conn, call);
            }
            let error = ErrorObject::internal("too late");
            assert_eq!(attempt(conn, |conn| conn.respond_error(key, &error)), Ok(()), "the response is discarded");
            env.note(self.peer_id, "drop", format_args!("{key:?}"));
            self.jobs.remove(&key);
            return;
        }
        if job.waiting_for.is_some() {
            return;
        }
        if job.reports > 0 {
            return self.report_progress(env, conn, key, &job);
        }
        if job.input_requests > 0 && self.request_input(env, conn, key, &job) {
            return;
        }
        self.finish(env, conn, key, &job);
    }

    fn report_progress<E: RoleExt>(
        &mut self,
        env: &mut Environment<'_>,
        conn: &mut Connection<E>,
        key: ReplyKey,
        job: &Job,
    ) {
        let value = job.reported + 0.5;
        let reported = attempt(conn, |conn| conn.progress(key, value, Some(10.0), Some("on the way")));
        env.note(self.peer_id, "report", format_args!("{key:?} {value} {reported:?}"));
        match reported {
            Ok(()) if self.may_log(conn) => self.log(env, conn, key),
            Ok(()) | Err(SendError::Busy | SendError::TooLarge) => {}
            Err(error) => panic!("{error}"),
        }
        let again = attempt(conn, |conn| conn.progress(key, f64::NAN, None, None));
        assert!(matches!(again, Ok(()) | Err(SendError::ProgressNotGrowing)), "{again:?}");
        let job = self.jobs.get_mut(&key).expect("it is open");
        (job.reports, job.reported) = (job.reports - 1, value);
        self.continue_later(env, key);
    }

    fn may_log<E: RoleExt>(&self, conn: &Connection<E>) -> bool {
        E::ROLE == Role::Server && conn.capabilities().contains(Capability::Logging)
    }

    fn log<E: RoleExt>(&self, env: &mut Environment<'_>, conn: &mut Connection<E>, key: ReplyKey) {
        let data = Json::parse("\"at work\"").expect("it is JSON");
        let message = LogMessageParams::new(env.log_level(), data);
        match attempt(conn, |conn| conn.log(key, &message)) {
            Ok(()) | Err(SendError::Busy | SendError::TooLarge) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Requests input from the peer. Returns whether that is possible.
    fn request_input<E: RoleExt>(
        &mut self,
        env: &mut Environment<'_>,
        conn: &mut Connection<E>,
        key: ReplyKey,
        job: &Job,
    ) -> bool {
        let can: Vec<_> = INPUT_METHODS.into_iter().filter(|(_, needed)| job.declared.contains(*needed)).collect();
        if can.is_empty() || E::ROLE == Role::Client {
            return false;
        }
        if let Some(round) = job.round {
            return round < ROUNDS && self.respond_input_required(env, conn, key, job, round, &can);
        }
        let (method, _) = *env.rng.pick(&can);
        let Some(call) = self.call(env, conn, method, Some(key), 0) else { return false };
        let job = self.jobs.get_mut(&key).expect("it is open");
        (job.input_requests, job.waiting_for) = (0, Some(call));
        true
    }

    fn respond_input_required<E: RoleExt>(
        &mut self,
        env: &mut Environment<'_>,
        conn: &mut Connection<E>,
        key: ReplyKey,
        job: &Job,
        round: u64,
        can: &[(&str, Capability)],
    ) -> bool {
        let Some(number) = job.number else { return false };
        let count = env.rng.below(4);
        let names: Vec<String> = (0..count).map(|index| format!("q{index}")).collect();
        let input_requests = names.iter().map(|name| {
            let (method, _) = env.rng.pick(can);
            format!(r#""{name}":{{"method":"{method}","params":{{"number":{}}}}}"#, env.next_number())
        });
        let input_requests = input_requests.collect::<Vec<_>>().join(",");
        let state = (count == 0 || env.rng.percent(80)).then(|| format!("\"\\\u{e9}{number}/{}", round + 1));
        let mut result = format!(r#"{{"resultType":"input_required","number":{number}"#);
        if count > 0 {
            result += &format!(r#","inputRequests":{{{input_requests}}}"#);
        }
        if let Some(state) = &state {
            result += &format!(r#","requestState":{}"#, serde_json::Value::from(state.as_str()));
        }
        let result = Json::parse(result + "}").expect("it is JSON");
        self.respond(env, conn, key, Ok(&result));
        if !self.jobs.contains_key(&key) {
            self.rounds.insert(number, (names, state));
        }
        true
    }

    fn finish<E: RoleExt>(&mut self, env: &mut Environment<'_>, conn: &mut Connection<E>, key: ReplyKey, job: &Job) {
        let ending = match job.ending {
            Ending::NoReply if env.winding_down => Ending::Result,
            ending => ending,
        };
        if ending == Ending::Result && job.listens {
            return self.accept(env, conn, key);
        }
        match ending {
            Ending::NoReply => env.note(self.peer_id, "silence", format_args!("{key:?}")),
            Ending::Error => self.respond(env, conn, key, Err(&ErrorObject::internal("it went wrong"))),
            Ending::Task => self.respond_with_task(env, conn, key, job),
            Ending::Result if job.operation.is_some() => self.respond_to_task_request(env, conn, key, job),
            Ending::Result => {
                let number = job.number.map_or("null".to_owned(), |number| number.to_string());
                let more = if job.is_list && env.rng.percent(50) { r#","nextCursor":"more""# } else { "" };
                let padding = if env.rng.percent(10) { env.rng.size(0..=2000) } else { 0 };
                let padding = "x".repeat(padding);
                let good =
                    job.good.map_or_else(String::new, |good| format!(r#","ttlMs":{good},"cacheScope":"private""#));
                let text = match &job.task {
                    // Each task is completed when a client requests its state.
                    Some(task) => format!(r#"{{"number":{number},"taskId":"{task}","status":"completed"}}"#),
                    None => format!(r#"{{"number":{number},"tools":[],"roots":[],"padding":"{padding}"{more}{good}}}"#),
                };
                let result = Json::parse(text).expect("it is JSON");
                self.respond(env, conn, key, Ok(&result));
            }
        }
    }

    fn respond<E: RoleExt>(
        &mut self,
        env: &mut Environment<'_>,
        conn: &mut Connection<E>,
        key: ReplyKey,
        answer: Result<&Json, &ErrorObject>,
    ) {
        let answered = attempt(conn, |conn| match answer {
            Ok(result) => conn.respond_raw(key, &RawJson::from(result)),
            Err(error) => conn.respond_error(key, error),
        });
        env.note(self.peer_id, "answer", format_args!("{key:?} {answered:?}"));
        match answered {
            Ok(()) => {
                self.jobs.remove(&key);
                let again = attempt(conn, |conn| conn.respond_error(key, &ErrorObject::internal("again")));
                assert_eq!(again, Err(SendError::Answered), "a second response");
            }
            // The outbox has capacity again after some output was written.
            Err(SendError::Busy) => env.schedule(Duration::from_millis(100), Action::Continue(self.peer_id, key)),
            Err(SendError::TooLarge) => self.respond(env, conn, key, Err(&ErrorObject::internal("too large"))),
            Err(error) => panic!("{error}"),
        }
    }

    /// Opens a subscription that names tasks.
    fn accept<E: RoleExt>(&mut self, env: &mut Environment<'_>, conn: &mut Connection<E>, key: ReplyKey) {
        let accepted = attempt(conn, |conn| E::accept(conn, key, |task| env.has_task(task)));
        env.note(self.peer_id, "accept", format_args!("{key:?} {accepted:?}"));
        match accepted {
            Ok(()) => _ = self.jobs.remove(&key),
            Err(SendError::Busy) => env.schedule(Duration::from_millis(100), Action::Continue(self.peer_id, key)),
            Err(error) => panic!("{error}"),
        }
    }

    fn respond_to_task_request<E: RoleExt>(
        &mut self,
        env: &mut Environment<'_>,
        conn: &mut Connection<E>,
        key: ReplyKey,
        job: &Job,
    ) {
        let Some((operation, task)) = &job.operation else { return };
        match env.handle_task_request(task, operation, self.other.is_conforming) {
            Ok(result) => self.respond(env, conn, key, Ok(&Json::parse(result).expect("it is JSON"))),
            Err(error) => self.respond(env, conn, key, Err(&error)),
        }
    }

    fn respond_with_task<E: RoleExt>(
        &mut self,
        env: &mut Environment<'_>,
        conn: &mut Connection<E>,
        key: ReplyKey,
        job: &Job,
    ) {
        if job.round.is_some() {
            let result = env.create_task(job.number.unwrap_or_default(), job.declared);
            return self.respond(env, conn, key, Ok(&Json::parse(result).expect("it is JSON")));
        }
        let number = env.next_number();
        let result = CreateTaskResult::new(task(number, TaskStatus::Working));
        let started = attempt(conn, |conn| conn.respond_task(key, &result));
        env.note(self.peer_id, "task", format_args!("{key:?} {number} {}", started.is_ok()));
        match started {
            Ok(progress) => {
                self.jobs.remove(&key);
                self.tasks.insert(number, progress);
                env.schedule_within(self.behavior.max_think_time, Action::AdvanceSessionTask(self.peer_id, number));
            }
            Err(SendError::Busy | SendError::TooLarge) => {
                env.schedule(Duration::from_millis(100), Action::Continue(self.peer_id, key));
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Advances a task: reports progress, or completes it.
    pub fn advance_session_task<E: RoleExt>(
        &mut self,
        env: &mut Environment<'_>,
        conn: &mut Connection<E>,
        number: u64,
    ) {
        if self.closed.is_some() {
            self.tasks.clear();
        }
        let Some(progress) = self.tasks.get_mut(&number) else { return };
        if let Some(progress) = progress
            && !env.winding_down
            && env.rng.percent(60)
        {
            let value = env.next_number();
            #[expect(clippy::cast_precision_loss, reason = "a small number")]
            let reported = attempt(conn, |conn| conn.task_progress(progress, value as f64, None, None));
            assert!(matches!(reported, Ok(()) | Err(SendError::Busy | SendError::TooLarge)), "{reported:?}");
            return env.schedule_within(self.behavior.max_think_time, Action::AdvanceSessionTask(self.peer_id, number));
        }
        let done = TaskStatusParams::from(task(number, TaskStatus::Completed));
        match attempt(conn, |conn| conn.notify(&done)) {
            Err(SendError::Busy) => {
                env.schedule(Duration::from_millis(100), Action::AdvanceSessionTask(self.peer_id, number))
            }
            sent => {
                env.note(self.peer_id, "done", format_args!("{number} {sent:?}"));
                self.tasks.remove(&number);
            }
        }
    }
}

/// Returns the operation of a request on a task.
fn operation(method: &str, params: Option<&RawJson<'_>>) -> Option<(TaskOperation, String)> {
    let operation = match method {
        "tasks/get" => TaskOperation::Get,
        "tasks/update" => TaskOperation::Update(member(params, "inputResponses").unwrap_or_default()),
        "tasks/cancel" => TaskOperation::Cancel,
        _ => return None,
    };
    Some((operation, member(params, "taskId")?))
}

/// The timestamp of all tasks.
pub const WHEN: &str = "2025-11-25T00:00:00Z";

fn task(number: u64, status: TaskStatus) -> Task {
    Task::new(number.to_string(), status, WHEN, WHEN)
}
