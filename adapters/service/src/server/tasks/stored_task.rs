//! The state of tasks and the commands for them, as they pass through a store.

use std::{sync::Arc, time::Duration};

use mcp_proto::{
    schema::{At, InputResponses, TaskStatus, tasks_extension::GetTaskResult},
    wire::{ErrorObject, Json, JsonObject, RawJson},
};
use serde_json::Value;

use super::{
    VERSION,
    store::{Task, Tasks},
    task_store::{StoredTask, TaskRecord, TaskStore, TaskTable},
};

/// How long a store keeps a task without a lifetime after the last change of it.
const UNLIMITED: Duration = Duration::from_secs(24 * 3600);

/// The text of a command that cancels a task. Other commands are JSON objects.
const CANCEL: &str = "cancel";

/// A command of a client that another process has received.
#[derive(Debug)]
pub(super) enum TaskCommand {
    Cancel,
    Respond(InputResponses),
}

impl TaskCommand {
    pub(super) fn to_text(&self) -> String {
        match self {
            Self::Cancel => CANCEL.to_owned(),
            Self::Respond(responses) => {
                let responses: Vec<_> = responses
                    .iter()
                    .map(|(key, response)| format!("{}:{}", Value::from(key), response.get()))
                    .collect();
                format!("{{{}}}", responses.join(","))
            }
        }
    }

    fn parse(text: &str) -> Option<Self> {
        if text == CANCEL {
            return Some(Self::Cancel);
        }
        JsonObject::parse(text).ok()?.decode().ok().map(Self::Respond)
    }
}

/// The state of a task of another process.
pub(super) struct RemoteTask {
    pub(super) owner: Option<String>,
    pub(super) scopes: Vec<String>,
    pub(super) shown: GetTaskResult,
}

impl RemoteTask {
    /// Reads what [`Tasks::record_of`] has written. A task whose process has ended before it has failed.
    pub(super) fn read(stored: &StoredTask) -> Option<Self> {
        let state = JsonObject::parse(stored.state.as_str()).ok()?;
        let state = RawJson::from(&state);
        let mut shown: GetTaskResult = state.member("task")?.decode().ok()?;
        if !stored.is_running && !shown.status.is_terminal() {
            let error = ErrorObject::internal("The process of the task has ended");
            shown.status = TaskStatus::Failed;
            shown.status_message = Some(error.message.to_string());
            shown.input_requests = None;
            shown.error = Some(error.into());
        }
        let (owner, scopes) = (state.member("owner")?.decode().ok()?, state.member("scopes")?.decode().ok()?);
        Some(Self { owner, scopes, shown })
    }
}

impl Tasks {
    /// Returns the store that other processes share.
    pub(in crate::server) fn store(&self) -> Option<&Arc<dyn TaskStore>> {
        self.store.as_ref()
    }

    /// Returns the state of a task for the store.
    pub(super) fn record_of(&self, task: &Task) -> TaskRecord {
        // A change in between makes the state newer than its number, and is written again.
        let revision = self.revision(task);
        let shown = At(&GetTaskResult::from(self.show(task)), Some(VERSION)).to_json();
        let shown = shown.as_ref().map_or("null", Json::get);
        let (owner, scopes) = (Value::from(task.owner.as_deref()), Value::from(task.scopes()));
        let state = format!(r#"{{"owner":{owner},"scopes":{scopes},"task":{shown}}}"#);
        let lifetime = task.expiry().map_or(UNLIMITED, |expiry| expiry.saturating_since(self.now()));
        TaskRecord { id: task.id.clone(), revision, state, lifetime: lifetime.max(Duration::from_secs(1)) }
    }
}

impl TaskTable for Tasks {
    fn record(&self, id: &str) -> Option<TaskRecord> {
        self.any(id).map(|task| self.record_of(&task))
    }

    fn handle(&self, id: &str, command: &str) {
        let (Some(task), Some(command)) = (self.any(id), TaskCommand::parse(command)) else { return };
        match command {
            TaskCommand::Cancel => self.cancel(self.now(), &task),
            // The process that has sent it has checked the responses, and answered to its client.
            TaskCommand::Respond(responses) => drop(self.deliver_responses(self.now(), &task, &responses)),
        }
        self.notify_subscribers(&task);
    }
}
