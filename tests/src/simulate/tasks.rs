//! Tasks of the extension (2026-07-28). They belong to the server and outlive the connections on which they began.

use std::{collections::BTreeMap, time::Duration};

use mcp_proto::{protocol::CapabilitySet, wire::ErrorObject};
use serde_json::Value;

use super::{
    environment::{Action, Environment},
    handler::{self, INPUT_METHODS},
};

/// The longest time between two changes of a task.
const PAUSE: Duration = Duration::from_secs(600);

/// The most input requests of one task.
const MAX_REQUESTS: u64 = 4;

/// The status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

/// A task of the server.
#[derive(Debug)]
struct Task {
    /// The number that the result repeats.
    number: u64,
    status: Status,
    /// The capabilities of the client.
    declared: CapabilitySet,
    /// The number of its input requests so far.
    requested: u64,
    /// Its open input requests, by name.
    open: BTreeMap<String, String>,
    /// The poll interval of clients, in milliseconds.
    interval: u64,
}

/// The tasks of the server, by number.
#[derive(Debug, Default)]
pub struct Tasks(BTreeMap<u64, Task>);

/// An operation of a client on a task.
#[derive(Clone, Debug)]
pub enum TaskOperation {
    /// `tasks/get`.
    Get,
    /// `tasks/update`, with the responses to input requests.
    Update(BTreeMap<String, Value>),
    /// `tasks/cancel`.
    Cancel,
}

impl Task {
    /// Returns its members, without braces.
    fn members(&self, id: u64) -> String {
        let (status, more) = match self.status {
            Status::Working => ("working", String::new()),
            Status::InputRequired => {
                let open = self.open.iter().map(|(name, input_request)| format!(r#""{name}":{input_request}"#));
                let open = open.collect::<Vec<_>>().join(",");
                ("input_required", format!(r#","inputRequests":{{{open}}}"#))
            }
            Status::Completed => ("completed", format!(r#","result":{{"number":{},"content":[]}}"#, self.number)),
            Status::Failed => ("failed", r#","error":{"code":-32603,"message":"it went wrong"}"#.to_owned()),
            Status::Cancelled => ("cancelled", String::new()),
        };
        let times = format!(r#""createdAt":"{0}","lastUpdatedAt":"{0}","ttlMs":null"#, handler::WHEN);
        format!(r#""taskId":"{id}","status":"{status}",{times},"pollIntervalMs":{}{more}"#, self.interval)
    }

    const fn is_over(&self) -> bool {
        matches!(self.status, Status::Completed | Status::Failed | Status::Cancelled)
    }
}

impl Environment<'_> {
    /// Creates a task. Returns the result of the request that becomes the task.
    pub fn create_task(&mut self, number: u64, declared: CapabilitySet) -> String {
        let id = self.next_number();
        let interval = self.rng.log_uniform(1, 600_000);
        let task = Task { number, status: Status::Working, declared, requested: 0, open: BTreeMap::new(), interval };
        let result = format!(r#"{{"resultType":"task",{}}}"#, task.members(id));
        self.tasks.0.insert(id, task);
        self.advance_later(id);
        result
    }

    fn advance_later(&mut self, id: u64) {
        let most = if self.winding_down { Duration::from_secs(1) } else { PAUSE };
        self.schedule_within(most, Action::AdvanceTask(id));
    }

    /// Returns whether the server has this task.
    #[must_use]
    pub fn has_task(&self, id: &str) -> bool {
        id.parse().is_ok_and(|id| self.tasks.0.contains_key(&id))
    }

    /// Returns all tasks.
    #[must_use]
    pub fn all_tasks(&self) -> Vec<u64> {
        self.tasks.0.keys().copied().collect()
    }

    /// Performs the operation of a client on a task, and returns the result. A conforming client responds only to input
    /// requests of the task.
    ///
    /// # Errors
    /// If the task does not exist.
    pub fn handle_task_request(
        &mut self,
        id: &str,
        operation: &TaskOperation,
        is_conforming: bool,
    ) -> Result<String, ErrorObject> {
        let unknown = || ErrorObject::invalid_params("there is no such task");
        let number: u64 = id.parse().map_err(|_| unknown())?;
        let task = self.tasks.0.get_mut(&number).ok_or_else(unknown)?;
        match operation {
            TaskOperation::Get => return Ok(format!(r#"{{"resultType":"complete",{}}}"#, task.members(number))),
            TaskOperation::Update(answers) => {
                for (name, answer) in answers {
                    let was_requested = (0..task.requested).any(|requested| *name == format!("q{requested}"));
                    assert!(
                        was_requested && answer.is_object() || !is_conforming,
                        "{name} was not requested: {answer}"
                    );
                    task.open.remove(name);
                }
                if task.open.is_empty() && task.status == Status::InputRequired {
                    task.status = Status::Working;
                }
            }
            TaskOperation::Cancel if !task.is_over() => task.status = Status::Cancelled,
            TaskOperation::Cancel => {}
        }
        Ok("{}".to_owned())
    }

    /// Advances a task. Returns its notification, or `None` if the task was removed.
    pub fn advance_task(&mut self, id: u64) -> Option<String> {
        let (chance, requires_input, first) = (self.rng.below(100), self.rng.percent(70), self.next_number());
        let winding_down = self.winding_down;
        let task = self.tasks.0.get_mut(&id)?;
        let can: Vec<_> = INPUT_METHODS.iter().filter(|(_, needed)| task.declared.contains(*needed)).collect();
        match task.status {
            Status::Working if requires_input && task.requested < MAX_REQUESTS && !can.is_empty() && !winding_down => {
                for number in 0..1 + chance % 2 {
                    let (method, _) = can[(chance + number) as usize % can.len()];
                    let params = format!(r#"{{"number":{}}}"#, first * 1000 + number);
                    let input_request = format!(r#"{{"method":"{method}","params":{params}}}"#);
                    task.open.insert(format!("q{}", task.requested), input_request);
                    task.requested += 1;
                }
                task.status = Status::InputRequired;
            }
            // The task continues without the responses.
            Status::InputRequired if chance < 30 || winding_down => {
                task.open.clear();
                task.status = Status::Working;
            }
            Status::InputRequired => {}
            Status::Working => {
                task.status = match chance {
                    0..70 => Status::Completed,
                    70..85 => Status::Failed,
                    _ => Status::Cancelled,
                };
            }
            Status::Completed | Status::Failed | Status::Cancelled => {
                // A client that has not polled the task before its removal does not receive its result.
                if chance < 20 && !winding_down {
                    self.tasks.0.remove(&id);
                    return None;
                }
                return Some(format!("{{{}}}", task.members(id)));
            }
        }
        let notification = format!("{{{}}}", task.members(id));
        self.advance_later(id);
        Some(notification)
    }
}
