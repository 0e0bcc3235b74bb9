//! Tasks that the server's application creates for calls (2026-07-28). A task continues after the end of its call,
//! until it is completed or cancelled.

use std::time::Duration;

use mcp_proto::{protocol::Method, wire::RawJson};
use serde_json::{Value, json};

use super::violation::{Rule, Violation, ensure};

/// The poll interval of tasks.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);

/// An action of the application on a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskStep {
    /// It requests input, once for each task.
    RequestInput,
    /// It completes.
    Complete,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RequestKind {
    /// A call, which may become a task or lead to input requests.
    Call,
    /// `tasks/get` for a task.
    Get(usize),
    /// `tasks/update` for a task.
    Update(usize),
    /// `tasks/cancel` for a task.
    Cancel(usize),
    /// Another method.
    Other,
}

impl RequestKind {
    pub(super) fn of(method: Option<Method>, params: Option<&RawJson<'_>>) -> Self {
        let id: Option<String> = params.and_then(|params| params.member("taskId")?.decode().ok());
        let task = id.and_then(|id| id.strip_prefix('t')?.parse().ok());
        match (method, task) {
            (Some(Method::CallTool), _) => Self::Call,
            (Some(Method::ExtGetTask), Some(task)) => Self::Get(task),
            (Some(Method::ExtUpdateTask), Some(task)) => Self::Update(task),
            (Some(Method::ExtCancelTask), Some(task)) => Self::Cancel(task),
            _ => Self::Other,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Status {
    Working,
    InputRequired,
    Done,
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Task {
    /// The number of the call.
    number: u64,
    status: Status,
    has_requested_input: bool,
    /// The client has cancelled the task, or cannot receive it.
    is_abandoned: bool,
}

/// The tasks of a server, in the order of creation.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Tasks(Vec<Task>);

impl Tasks {
    /// Returns the possible actions on tasks.
    pub(super) fn steps(&self) -> impl Iterator<Item = (usize, TaskStep)> {
        let working = self.0.iter().enumerate().filter(|(_, task)| task.status == Status::Working);
        working.flat_map(|(index, task)| {
            let request_input = (!task.has_requested_input).then_some((index, TaskStep::RequestInput));
            request_input.into_iter().chain([(index, TaskStep::Complete)])
        })
    }

    pub(super) fn apply_step(&mut self, index: usize, step: TaskStep) {
        let task = &mut self.0[index];
        match step {
            TaskStep::RequestInput => (task.status, task.has_requested_input) = (Status::InputRequired, true),
            TaskStep::Complete => task.status = Status::Done,
        }
    }

    /// Creates a task for the call with this number. Returns the result of the call.
    pub(super) fn create(&mut self, number: u64) -> Value {
        self.0.push(Task { number, status: Status::Working, has_requested_input: false, is_abandoned: false });
        let mut result = self.to_json(self.0.len() - 1);
        result["resultType"] = json!("task");
        result
    }

    /// Returns the result of a request for a task.
    pub(super) fn respond(&mut self, kind: RequestKind) -> Value {
        match kind {
            RequestKind::Get(index) => return self.to_json(index),
            RequestKind::Update(index) if self.0[index].status == Status::InputRequired => {
                self.0[index].status = Status::Working
            }
            RequestKind::Cancel(index) => {
                let task = &mut self.0[index];
                task.is_abandoned = true;
                if matches!(task.status, Status::Working | Status::InputRequired) {
                    task.status = Status::Cancelled;
                }
            }
            RequestKind::Update(_) | RequestKind::Call | RequestKind::Other => {}
        }
        json!({})
    }

    /// Handles an error response to a request for a task. The cancellation of the client is not repeated.
    pub(super) fn refuse(&mut self, kind: RequestKind) {
        if let RequestKind::Cancel(index) = kind {
            self.0[index].is_abandoned = true;
        }
    }

    /// Marks the tasks of the call with this number as abandoned: no client will receive them.
    pub(super) fn abandon(&mut self, number: Option<u64>) {
        for task in self.0.iter_mut().filter(|task| Some(task.number) == number) {
            task.is_abandoned = true;
        }
    }

    fn to_json(&self, index: usize) -> Value {
        let Task { number, status, .. } = self.0[index];
        let time = "2026-08-01T10:00:00Z";
        let mut json = json!({"taskId": format!("t{index}"), "createdAt": time, "lastUpdatedAt": time, "ttlMs": null,
            "pollIntervalMs": INTERVAL.as_millis()});
        json["status"] = json!(match status {
            Status::Working => "working",
            Status::InputRequired => "input_required",
            Status::Done => "completed",
            Status::Cancelled => "cancelled",
        });
        match status {
            Status::InputRequired => {
                json["inputRequests"] = json!({"q": {"method": "roots/list", "params": {"n": number}}});
            }
            Status::Done => json["result"] = json!({"n": number}),
            Status::Working | Status::Cancelled => {}
        }
        json
    }

    /// Checks that each open task has a client.
    pub(super) fn check_settled(&self) -> Result<(), Violation> {
        let is_over = |task: &Task| task.is_abandoned || matches!(task.status, Status::Done | Status::Cancelled);
        let open = self.0.iter().find(|task| !is_over(task));
        ensure(open.is_none(), Rule::Rest, || format!("{open:?} has no client, and its server got no cancellation"))
    }
}
