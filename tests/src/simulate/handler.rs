//! What an application does with what it is asked: it answers, fails, says nothing, reports progress, asks back, or makes
//! a task of it.

use std::{collections::BTreeMap, time::Duration};

use mcp_proto::{
    connection::{Connection, SendError, TaskProgress},
    protocol::{Capability, CapabilitySet, Era, MethodName, Role},
    rpc::{CallId, ReplyKey},
    schema::{CreateTaskResult, LogMessageParams, Task, TaskStatus, TaskStatusParams},
    wire::{ErrorObject, Json, RawJson},
};

use super::{
    desk::{Desk, End, attempt, member, number_of},
    stage::{Deed, Stage},
    tasks::Wanted,
};

/// How a request is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Result,
    Error,
    Silence,
    Task,
}

/// A request of the peer that is worked on.
#[derive(Clone, Debug)]
pub struct Job {
    /// What the peer wants to see again in the answer.
    number: Option<u64>,
    is_list: bool,
    /// The task that it asks for (2025-11-25).
    task: Option<String>,
    /// What it wants of a task (2026-07-28), and of which.
    wanted: Option<(Wanted, String)>,
    /// It is a subscription.
    listens: bool,
    /// How long its result is good, in milliseconds (2026-07-28).
    good: Option<u64>,
    /// The peer does not want the answer any more.
    pub is_cancelled: bool,
    /// The question without whose answer it does not go on.
    pub waits_for: Option<CallId>,
    /// How often it says how far it is.
    reports: u64,
    reported: f64,
    /// How often it asks back.
    questions: u64,
    /// What the peer can do for it.
    declared: CapabilitySet,
    /// In which round it is, if its questions are its answers (2026-07-28).
    round: Option<u64>,
    ending: Ending,
}

/// Requests that were answered with questions, and what they have to come back with: by number, the names of the questions
/// and the state.
pub type Rounds = BTreeMap<u64, (Vec<String>, Option<String>)>;

/// Requests that have become tasks, by number.
pub type Tasks = BTreeMap<u64, Option<TaskProgress>>;

/// What a peer can be asked, and what it needs for that.
pub const QUESTIONS: [(&str, Capability); 3] = [
    ("roots/list", Capability::Roots),
    ("sampling/createMessage", Capability::Sampling),
    ("elicitation/create", Capability::ElicitationForm),
];

/// Rounds that a request takes at most.
const ROUNDS: u64 = 3;

impl Desk {
    /// Begins to work on a request.
    pub fn take_on<E: End>(
        &mut self,
        stage: &mut Stage<'_>,
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
        let wanted = if stands_alone { wanted(method.as_str(), params) } else { None };
        assert!(number.is_some() || wanted.is_some() || !self.other.is_good, "its requests have a number");
        let may_ask = matches!(method.as_str(), "tools/call" | "prompts/get" | "resources/read");
        let round = number.filter(|_| stands_alone && may_ask).map(|number| self.next_round(number, params));
        let has_task = method.as_str() == "tools/call" && params.is_some_and(|params| params.member("task").is_some());
        let can_be_task = method.as_str() == "tools/call" && number.is_some();
        let extension = conn.capabilities().contains(Capability::TasksExtension)
            && declared.contains(Capability::TasksExtension)
            && stage.dice.percent(50);
        let is_task = match stands_alone {
            true => can_be_task && extension,
            false => has_task && version.has_tasks() && E::ROLE == Role::Server,
        };
        let is_cacheable = stands_alone && matches!(method.as_str(), "tools/list" | "resources/read");
        let job = Job {
            number,
            is_list: method.as_str() == "tools/list",
            task: member::<String>(params, "taskId").filter(|_| !stands_alone),
            wanted,
            listens: method.as_str() == "subscriptions/listen",
            good: is_cacheable.then(|| stage.dice.scale(1, 3_600_000) - 1),
            is_cancelled: false,
            waits_for: None,
            reports: if stage.dice.percent(30) { stage.dice.below(5) } else { 0 },
            reported: 0.0,
            questions: u64::from(stage.dice.percent(self.habits.curiosity)),
            declared,
            round,
            ending: self.ending(stage, is_task),
        };
        self.jobs.insert(key, job);
        // Some answers are there at once.
        if stage.dice.percent(40) { self.work(stage, conn, key) } else { self.later(stage, key) }
    }

    fn ending(&self, stage: &mut Stage<'_>, is_task: bool) -> Ending {
        match stage.dice.below(100) {
            percent if percent < self.habits.silence => Ending::Silence,
            _ if is_task && stage.dice.percent(80) => Ending::Task,
            _ if stage.dice.percent(15) => Ending::Error,
            _ => Ending::Result,
        }
    }

    /// A request that was answered with questions comes back with the answers, and with nothing else.
    fn next_round(&mut self, number: u64, params: Option<&RawJson<'_>>) -> u64 {
        let state: Option<String> = member(params, "requestState");
        let answers: Option<BTreeMap<String, serde_json::Value>> = member(params, "inputResponses");
        let (names, expected) = self.rounds.remove(&number).unwrap_or_default();
        if !self.other.is_good {
            return 0;
        }
        assert_eq!(state, expected, "the state comes back as it was");
        assert_eq!(answers.unwrap_or_default().into_keys().collect::<Vec<_>>(), names, "every question is answered");
        state.map_or(0, |state| state.rsplit('/').next().and_then(|round| round.parse().ok()).expect("it is ours"))
    }

    fn later(&self, stage: &mut Stage<'_>, key: ReplyKey) {
        let most = if stage.winding_down { Duration::from_millis(1) } else { self.habits.thinking };
        stage.plan_within(most, Deed::Work(self.who, key));
    }

    /// Goes on with a request.
    pub fn work<E: End>(&mut self, stage: &mut Stage<'_>, conn: &mut Connection<E>, key: ReplyKey) {
        let Some(job) = self.jobs.get(&key).cloned() else { return };
        if job.is_cancelled {
            if let Some(call) = job.waits_for {
                self.give_up(stage, conn, call);
            }
            let error = ErrorObject::internal("too late");
            assert_eq!(attempt(conn, |conn| conn.respond_error(key, &error)), Ok(()), "it is swallowed");
            stage.note(self.who, "drop", format_args!("{key:?}"));
            self.jobs.remove(&key);
            return;
        }
        if job.waits_for.is_some() {
            return;
        }
        if job.reports > 0 {
            return self.report(stage, conn, key, &job);
        }
        if job.questions > 0 && self.ask(stage, conn, key, &job) {
            return;
        }
        self.finish(stage, conn, key, &job);
    }

    fn report<E: End>(&mut self, stage: &mut Stage<'_>, conn: &mut Connection<E>, key: ReplyKey, job: &Job) {
        let value = job.reported + 0.5;
        let reported = attempt(conn, |conn| conn.progress(key, value, Some(10.0), Some("on the way")));
        stage.note(self.who, "report", format_args!("{key:?} {value} {reported:?}"));
        match reported {
            Ok(()) if self.may_log(conn) => self.log(stage, conn, key),
            Ok(()) | Err(SendError::Busy | SendError::TooLarge) => {}
            Err(error) => panic!("{error}"),
        }
        let again = attempt(conn, |conn| conn.progress(key, f64::NAN, None, None));
        assert!(matches!(again, Ok(()) | Err(SendError::ProgressNotGrowing)), "{again:?}");
        let job = self.jobs.get_mut(&key).expect("it is open");
        (job.reports, job.reported) = (job.reports - 1, value);
        self.later(stage, key);
    }

    fn may_log<E: End>(&self, conn: &Connection<E>) -> bool {
        E::ROLE == Role::Server && conn.capabilities().contains(Capability::Logging)
    }

    fn log<E: End>(&self, stage: &mut Stage<'_>, conn: &mut Connection<E>, key: ReplyKey) {
        let data = Json::parse("\"at work\"").expect("it is JSON");
        let message = LogMessageParams::new(stage.level(), data);
        match attempt(conn, |conn| conn.log(key, &message)) {
            Ok(()) | Err(SendError::Busy | SendError::TooLarge) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Asks the peer for something that the request needs; whether that is possible.
    fn ask<E: End>(&mut self, stage: &mut Stage<'_>, conn: &mut Connection<E>, key: ReplyKey, job: &Job) -> bool {
        let can: Vec<_> = QUESTIONS.into_iter().filter(|(_, needed)| job.declared.contains(*needed)).collect();
        if can.is_empty() || E::ROLE == Role::Client {
            return false;
        }
        if let Some(round) = job.round {
            return round < ROUNDS && self.answer_with_questions(stage, conn, key, job, round, &can);
        }
        let (method, _) = *stage.dice.pick(&can);
        let Some(call) = self.call(stage, conn, method, Some(key), 0) else { return false };
        let job = self.jobs.get_mut(&key).expect("it is open");
        (job.questions, job.waits_for) = (0, Some(call));
        true
    }

    fn answer_with_questions<E: End>(
        &mut self,
        stage: &mut Stage<'_>,
        conn: &mut Connection<E>,
        key: ReplyKey,
        job: &Job,
        round: u64,
        can: &[(&str, Capability)],
    ) -> bool {
        let Some(number) = job.number else { return false };
        let count = stage.dice.below(4);
        let names: Vec<String> = (0..count).map(|index| format!("q{index}")).collect();
        let questions = names.iter().map(|name| {
            let (method, _) = stage.dice.pick(can);
            format!(r#""{name}":{{"method":"{method}","params":{{"number":{}}}}}"#, stage.number())
        });
        let questions = questions.collect::<Vec<_>>().join(",");
        let state = (count == 0 || stage.dice.percent(80)).then(|| format!("\"\\\u{e9}{number}/{}", round + 1));
        let mut result = format!(r#"{{"resultType":"input_required","number":{number}"#);
        if count > 0 {
            result += &format!(r#","inputRequests":{{{questions}}}"#);
        }
        if let Some(state) = &state {
            result += &format!(r#","requestState":{}"#, serde_json::Value::from(state.as_str()));
        }
        let result = Json::parse(result + "}").expect("it is JSON");
        self.answer(stage, conn, key, Ok(&result));
        if !self.jobs.contains_key(&key) {
            self.rounds.insert(number, (names, state));
        }
        true
    }

    fn finish<E: End>(&mut self, stage: &mut Stage<'_>, conn: &mut Connection<E>, key: ReplyKey, job: &Job) {
        let ending = match job.ending {
            Ending::Silence if stage.winding_down => Ending::Result,
            ending => ending,
        };
        if ending == Ending::Result && job.listens {
            return self.accept(stage, conn, key);
        }
        match ending {
            Ending::Silence => stage.note(self.who, "silence", format_args!("{key:?}")),
            Ending::Error => self.answer(stage, conn, key, Err(&ErrorObject::internal("it went wrong"))),
            Ending::Task => self.become_task(stage, conn, key, job),
            Ending::Result if job.wanted.is_some() => self.answer_about_task(stage, conn, key, job),
            Ending::Result => {
                let number = job.number.map_or("null".to_owned(), |number| number.to_string());
                let more = if job.is_list && stage.dice.percent(50) { r#","nextCursor":"more""# } else { "" };
                let padding = if stage.dice.percent(10) { stage.dice.size(0..=2000) } else { 0 };
                let padding = "x".repeat(padding);
                let good =
                    job.good.map_or_else(String::new, |good| format!(r#","ttlMs":{good},"cacheScope":"private""#));
                let text = match &job.task {
                    // All tasks are over when a client asks.
                    Some(task) => format!(r#"{{"number":{number},"taskId":"{task}","status":"completed"}}"#),
                    None => format!(r#"{{"number":{number},"tools":[],"roots":[],"padding":"{padding}"{more}{good}}}"#),
                };
                let result = Json::parse(text).expect("it is JSON");
                self.answer(stage, conn, key, Ok(&result));
            }
        }
    }

    fn answer<E: End>(
        &mut self,
        stage: &mut Stage<'_>,
        conn: &mut Connection<E>,
        key: ReplyKey,
        answer: Result<&Json, &ErrorObject>,
    ) {
        let answered = attempt(conn, |conn| match answer {
            Ok(result) => conn.respond_raw(key, &RawJson::from(result)),
            Err(error) => conn.respond_error(key, error),
        });
        stage.note(self.who, "answer", format_args!("{key:?} {answered:?}"));
        match answered {
            Ok(()) => {
                self.jobs.remove(&key);
                let again = attempt(conn, |conn| conn.respond_error(key, &ErrorObject::internal("again")));
                assert_eq!(again, Err(SendError::Answered), "a second answer");
            }
            // There is room when something has left.
            Err(SendError::Busy) => stage.plan(Duration::from_millis(100), Deed::Work(self.who, key)),
            Err(SendError::TooLarge) => self.answer(stage, conn, key, Err(&ErrorObject::internal("too large"))),
            Err(error) => panic!("{error}"),
        }
    }

    /// Opens a subscription that names tasks.
    fn accept<E: End>(&mut self, stage: &mut Stage<'_>, conn: &mut Connection<E>, key: ReplyKey) {
        let accepted = attempt(conn, |conn| E::accept(conn, key, |task| stage.has_task(task)));
        stage.note(self.who, "accept", format_args!("{key:?} {accepted:?}"));
        match accepted {
            Ok(()) => _ = self.jobs.remove(&key),
            Err(SendError::Busy) => stage.plan(Duration::from_millis(100), Deed::Work(self.who, key)),
            Err(error) => panic!("{error}"),
        }
    }

    fn answer_about_task<E: End>(&mut self, stage: &mut Stage<'_>, conn: &mut Connection<E>, key: ReplyKey, job: &Job) {
        let Some((wanted, task)) = &job.wanted else { return };
        match stage.about_task(task, wanted, self.other.is_good) {
            Ok(result) => self.answer(stage, conn, key, Ok(&Json::parse(result).expect("it is JSON"))),
            Err(error) => self.answer(stage, conn, key, Err(&error)),
        }
    }

    fn become_task<E: End>(&mut self, stage: &mut Stage<'_>, conn: &mut Connection<E>, key: ReplyKey, job: &Job) {
        if job.round.is_some() {
            let result = stage.begin_task(job.number.unwrap_or_default(), job.declared);
            return self.answer(stage, conn, key, Ok(&Json::parse(result).expect("it is JSON")));
        }
        let number = stage.number();
        let result = CreateTaskResult::new(task(number, TaskStatus::Working));
        let started = attempt(conn, |conn| conn.respond_task(key, &result));
        stage.note(self.who, "task", format_args!("{key:?} {number} {}", started.is_ok()));
        match started {
            Ok(progress) => {
                self.jobs.remove(&key);
                self.tasks.insert(number, progress);
                stage.plan_within(self.habits.thinking, Deed::Task(self.who, number));
            }
            Err(SendError::Busy | SendError::TooLarge) => {
                stage.plan(Duration::from_millis(100), Deed::Work(self.who, key));
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// A task goes on: it reports, or is done.
    pub fn go_on<E: End>(&mut self, stage: &mut Stage<'_>, conn: &mut Connection<E>, number: u64) {
        if self.closed.is_some() {
            self.tasks.clear();
        }
        let Some(progress) = self.tasks.get_mut(&number) else { return };
        if let Some(progress) = progress
            && !stage.winding_down
            && stage.dice.percent(60)
        {
            let value = stage.number();
            #[expect(clippy::cast_precision_loss, reason = "a small number")]
            let reported = attempt(conn, |conn| conn.task_progress(progress, value as f64, None, None));
            assert!(matches!(reported, Ok(()) | Err(SendError::Busy | SendError::TooLarge)), "{reported:?}");
            return stage.plan_within(self.habits.thinking, Deed::Task(self.who, number));
        }
        let done = TaskStatusParams::from(task(number, TaskStatus::Completed));
        match attempt(conn, |conn| conn.notify(&done)) {
            Err(SendError::Busy) => stage.plan(Duration::from_millis(100), Deed::Task(self.who, number)),
            told => {
                stage.note(self.who, "done", format_args!("{number} {told:?}"));
                self.tasks.remove(&number);
            }
        }
    }
}

/// What a request wants of a task.
fn wanted(method: &str, params: Option<&RawJson<'_>>) -> Option<(Wanted, String)> {
    let wanted = match method {
        "tasks/get" => Wanted::Look,
        "tasks/update" => Wanted::Update(member(params, "inputResponses").unwrap_or_default()),
        "tasks/cancel" => Wanted::Cancel,
        _ => return None,
    };
    Some((wanted, member(params, "taskId")?))
}

/// When everything happens, as far as tasks say so.
pub const WHEN: &str = "2025-11-25T00:00:00Z";

fn task(number: u64, status: TaskStatus) -> Task {
    Task::new(number.to_string(), status, WHEN, WHEN)
}
