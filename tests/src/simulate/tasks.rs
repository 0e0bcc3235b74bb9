//! Tasks of the extension (2026-07-28): they belong to the server and outlive the connections on which they began.

use std::{collections::BTreeMap, time::Duration};

use mcp_proto::{protocol::CapabilitySet, wire::ErrorObject};
use serde_json::Value;

use super::{
    handler::{self, QUESTIONS},
    stage::{Deed, Stage},
};

/// The longest that a task stays as it is.
const PAUSE: Duration = Duration::from_secs(600);

/// Questions that one task asks at most.
const MOST: u64 = 4;

/// How a task stands.
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
    /// What the client wants to see again in the result.
    number: u64,
    status: Status,
    /// What the client can be asked.
    declared: CapabilitySet,
    /// Questions that it has asked so far.
    asked: u64,
    /// Those that wait for an answer, and what they are.
    open: BTreeMap<String, String>,
    /// How long clients are to wait between two looks, in milliseconds.
    interval: u64,
}

/// The tasks of the server, by number.
#[derive(Debug, Default)]
pub struct Tasks(BTreeMap<u64, Task>);

/// What a client wants of a task.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// To know how it stands.
    Look,
    /// To answer its questions.
    Update(BTreeMap<String, Value>),
    /// To end it.
    Cancel,
}

impl Task {
    /// Its members, without the braces around them.
    fn members(&self, id: u64) -> String {
        let (status, more) = match self.status {
            Status::Working => ("working", String::new()),
            Status::InputRequired => {
                let open = self.open.iter().map(|(name, question)| format!(r#""{name}":{question}"#));
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

impl Stage<'_> {
    /// Begins a task, and says what the request is answered with that has become it.
    pub fn begin_task(&mut self, number: u64, declared: CapabilitySet) -> String {
        let id = self.number();
        let interval = self.dice.scale(1, 600_000);
        let task = Task { number, status: Status::Working, declared, asked: 0, open: BTreeMap::new(), interval };
        let result = format!(r#"{{"resultType":"task",{}}}"#, task.members(id));
        self.tasks.0.insert(id, task);
        self.advance_later(id);
        result
    }

    fn advance_later(&mut self, id: u64) {
        let most = if self.winding_down { Duration::from_secs(1) } else { PAUSE };
        self.plan_within(most, Deed::Advance(id));
    }

    /// Whether the server has this task.
    #[must_use]
    pub fn has_task(&self, id: &str) -> bool {
        id.parse().is_ok_and(|id| self.tasks.0.contains_key(&id))
    }

    /// Every task, so that all of them come to an end.
    #[must_use]
    pub fn all_tasks(&self) -> Vec<u64> {
        self.tasks.0.keys().copied().collect()
    }

    /// What a client hears that wants something of a task. A good one answers only what was asked.
    ///
    /// # Errors
    /// If there is no such task.
    pub fn about_task(&mut self, id: &str, wanted: &Wanted, is_good: bool) -> Result<String, ErrorObject> {
        let unknown = || ErrorObject::invalid_params("there is no such task");
        let number: u64 = id.parse().map_err(|_| unknown())?;
        let task = self.tasks.0.get_mut(&number).ok_or_else(unknown)?;
        match wanted {
            Wanted::Look => return Ok(format!(r#"{{"resultType":"complete",{}}}"#, task.members(number))),
            Wanted::Update(answers) => {
                for (name, answer) in answers {
                    let was_asked = (0..task.asked).any(|asked| *name == format!("q{asked}"));
                    assert!(was_asked && answer.is_object() || !is_good, "{name} was not asked: {answer}");
                    task.open.remove(name);
                }
                if task.open.is_empty() && task.status == Status::InputRequired {
                    task.status = Status::Working;
                }
            }
            Wanted::Cancel if !task.is_over() => task.status = Status::Cancelled,
            Wanted::Cancel => {}
        }
        Ok("{}".to_owned())
    }

    /// A task goes on. Gives back what those hear who listen, unless it is forgotten.
    pub fn advance_task(&mut self, id: u64) -> Option<String> {
        let (chance, asks, first) = (self.dice.below(100), self.dice.percent(70), self.number());
        let winding_down = self.winding_down;
        let task = self.tasks.0.get_mut(&id)?;
        let can: Vec<_> = QUESTIONS.iter().filter(|(_, needed)| task.declared.contains(*needed)).collect();
        match task.status {
            Status::Working if asks && task.asked < MOST && !can.is_empty() && !winding_down => {
                for number in 0..1 + chance % 2 {
                    let (method, _) = can[(chance + number) as usize % can.len()];
                    let params = format!(r#"{{"number":{}}}"#, first * 1000 + number);
                    let question = format!(r#"{{"method":"{method}","params":{params}}}"#);
                    task.open.insert(format!("q{}", task.asked), question);
                    task.asked += 1;
                }
                task.status = Status::InputRequired;
            }
            // It gets along without the answers.
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
                // A client that has not looked by now will not hear of it.
                if chance < 20 && !winding_down {
                    self.tasks.0.remove(&id);
                    return None;
                }
                return Some(format!("{{{}}}", task.members(id)));
            }
        }
        let said = format!("{{{}}}", task.members(id));
        self.advance_later(id);
        Some(said)
    }
}
