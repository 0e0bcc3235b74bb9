//! Tasks that the server's application makes of calls (2026-07-28). They go on whatever becomes of the calls, until they
//! are over or not wanted any more.

use std::time::Duration;

use mcp_proto::{protocol::Method, wire::RawJson};
use serde_json::{Value, json};

use super::fault::{Fault, Rule, demand};

/// How often a client is to look at a task.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);

/// What the application does with a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Turn {
    /// It asks something, once for each task.
    Ask,
    /// It is done.
    Finish,
}

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum About {
    /// Work, which may become a task or lead to questions.
    Work,
    /// How a task stands.
    Look(usize),
    /// Answers for a task.
    Update(usize),
    /// A task that is not wanted any more.
    Cancel(usize),
    /// Anything else.
    Other,
}

impl About {
    pub(super) fn of(method: Option<Method>, params: Option<&RawJson<'_>>) -> Self {
        let id: Option<String> = params.and_then(|params| params.member("taskId")?.decode().ok());
        let task = id.and_then(|id| id.strip_prefix('t')?.parse().ok());
        match (method, task) {
            (Some(Method::CallTool), _) => Self::Work,
            (Some(Method::ExtGetTask), Some(task)) => Self::Look(task),
            (Some(Method::ExtUpdateTask), Some(task)) => Self::Update(task),
            (Some(Method::ExtCancelTask), Some(task)) => Self::Cancel(task),
            _ => Self::Other,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Status {
    Working,
    Asks,
    Done,
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Task {
    /// The number of the call.
    number: u64,
    status: Status,
    has_asked: bool,
    /// The client has said that it does not want it any more.
    is_unwanted: bool,
}

/// The tasks of a server, in the order in which they were made.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Tasks(Vec<Task>);

impl Tasks {
    /// What the application may do with them.
    pub(super) fn turns(&self) -> impl Iterator<Item = (usize, Turn)> {
        let working = self.0.iter().enumerate().filter(|(_, task)| task.status == Status::Working);
        working.flat_map(|(index, task)| {
            let ask = (!task.has_asked).then_some((index, Turn::Ask));
            ask.into_iter().chain([(index, Turn::Finish)])
        })
    }

    pub(super) fn turn(&mut self, index: usize, turn: Turn) {
        let task = &mut self.0[index];
        match turn {
            Turn::Ask => (task.status, task.has_asked) = (Status::Asks, true),
            Turn::Finish => task.status = Status::Done,
        }
    }

    /// Makes a task of the call with this number: the result that the call is answered with.
    pub(super) fn begin(&mut self, number: u64) -> Value {
        self.0.push(Task { number, status: Status::Working, has_asked: false, is_unwanted: false });
        let mut result = self.shown(self.0.len() - 1);
        result["resultType"] = json!("task");
        result
    }

    /// The result of a request about a task.
    pub(super) fn answer(&mut self, about: About) -> Value {
        match about {
            About::Look(index) => return self.shown(index),
            About::Update(index) if self.0[index].status == Status::Asks => self.0[index].status = Status::Working,
            About::Cancel(index) => {
                let task = &mut self.0[index];
                task.is_unwanted = true;
                if matches!(task.status, Status::Working | Status::Asks) {
                    task.status = Status::Cancelled;
                }
            }
            About::Update(_) | About::Work | About::Other => {}
        }
        json!({})
    }

    /// A request about a task is answered with an error. What is said once is said.
    pub(super) fn refuse(&mut self, about: About) {
        if let About::Cancel(index) = about {
            self.0[index].is_unwanted = true;
        }
    }

    /// No client will hear of the tasks of the call with this number.
    pub(super) fn forget(&mut self, number: Option<u64>) {
        for task in self.0.iter_mut().filter(|task| Some(task.number) == number) {
            task.is_unwanted = true;
        }
    }

    fn shown(&self, index: usize) -> Value {
        let Task { number, status, .. } = self.0[index];
        let time = "2026-08-01T10:00:00Z";
        let mut shown = json!({"taskId": format!("t{index}"), "createdAt": time, "lastUpdatedAt": time, "ttlMs": null,
            "pollIntervalMs": INTERVAL.as_millis()});
        shown["status"] = json!(match status {
            Status::Working => "working",
            Status::Asks => "input_required",
            Status::Done => "completed",
            Status::Cancelled => "cancelled",
        });
        match status {
            Status::Asks => {
                shown["inputRequests"] = json!({"q": {"method": "roots/list", "params": {"n": number}}});
            }
            Status::Done => shown["result"] = json!({"n": number}),
            Status::Working | Status::Cancelled => {}
        }
        shown
    }

    /// Whether each that is worked on has a client.
    pub(super) fn settled(&self) -> Result<(), Fault> {
        let is_over = |task: &Task| task.is_unwanted || matches!(task.status, Status::Done | Status::Cancelled);
        let left = self.0.iter().find(|task| !is_over(task));
        demand(left.is_none(), Rule::Rest, || format!("no client waits for {left:?}, and its server was not told"))
    }
}
