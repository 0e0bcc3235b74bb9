//! A store for the tasks of a service that runs in several processes.

use std::{
    fmt, io,
    sync::{Arc, Weak},
    time::Duration,
};

use mcp_proto::{
    schema::{At, InputResponses, TaskStatus, tasks_extension::GetTaskResult},
    wire::{ErrorObject, Json, JsonObject, RawJson},
};
use serde_json::Value;

use super::{
    VERSION,
    store::{Task, Tasks},
};
use crate::{driver_api::deferred::Deferred, server::inner::Inner};

/// How long a store keeps a task without a lifetime after the last change of it.
const UNLIMITED: Duration = Duration::from_secs(24 * 3600);

/// The text of a command that cancels a task. Other commands are JSON objects.
const CANCEL: &str = "cancel";

/// A store for the tasks of a service that runs in several processes (2026-07-28): see
/// [`ServiceBuilder::task_store`](crate::ServiceBuilder::task_store).
///
/// The handler of a task runs in the process that began it. This process writes the state of its tasks to the store.
/// Other processes read it there, and send commands through the store.
pub trait TaskStore: Send + Sync + 'static {
    /// Connects the store with the tasks of this process. It is called once, when the service is built.
    ///
    /// From then on the store writes the changes of these tasks in the background, and passes on the commands for them.
    /// It stops when [`LocalTasks::is_gone`].
    fn attach(&self, tasks: LocalTasks);

    /// Stores a new task, before its client learns its id.
    fn create(&self, task: TaskRecord) -> Deferred<io::Result<()>>;

    /// Notes that the state of a task has changed, or that the task was removed. The store reads the state with
    /// [`LocalTasks::record`] later, as often as it likes, and writes it; if there is none, it removes the task.
    ///
    /// It is called while a lock is held. It must not block, nor call a method of [`LocalTasks`].
    fn changed(&self, id: &str);

    /// Returns a task of any process, if it is stored.
    fn find(&self, id: &str) -> Deferred<io::Result<Option<StoredTask>>>;

    /// Sends a command to the process of a task, which passes it to [`LocalTasks::handle`]. Commands for one task
    /// arrive in order.
    ///
    /// Fails with [`QuotaExceeded`](io::ErrorKind::QuotaExceeded) if too many commands wait for that process, and with
    /// [`NotFound`](io::ErrorKind::NotFound) if the process does not run any more.
    fn send(&self, id: &str, command: String) -> Deferred<io::Result<()>>;
}

/// The state of a task, as a [`TaskStore`] keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskRecord {
    /// The id: 32 hexadecimal digits.
    pub id: String,
    /// The state, as JSON. It contains the principal, and the result of an ended task.
    pub state: String,
    /// How long the store keeps the task from now on.
    pub lifetime: Duration,
}

/// A task that was found in a [`TaskStore`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTask {
    /// The state that was written last.
    pub state: String,
    /// Whether the process of the task still runs. A task of another process has failed, unless it had ended.
    pub is_running: bool,
}

/// The tasks of a service in this process, for its [`TaskStore`]. It is cheap to clone, and does not keep the service.
#[derive(Clone)]
pub struct LocalTasks(pub(in crate::server) Weak<Inner>);

impl LocalTasks {
    /// Returns whether the service was dropped.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }

    /// Returns the current state of a task; `None` if this process does not have it any more.
    #[must_use]
    pub fn record(&self, id: &str) -> Option<TaskRecord> {
        let service = self.0.upgrade()?;
        let task = service.shared_tasks.any(id)?;
        Some(service.shared_tasks.record(&task))
    }

    /// Handles a command that another process has [sent](TaskStore::send). A command that is invalid, or is for a task
    /// that this process does not have, is ignored.
    pub fn handle(&self, id: &str, command: &str) {
        let Some(service) = self.0.upgrade() else { return };
        let tasks = &service.shared_tasks;
        let (Some(task), Some(command)) = (tasks.any(id), TaskCommand::parse(command)) else { return };
        match command {
            TaskCommand::Cancel => tasks.cancel(tasks.now(), &task),
            // The process that has sent it has checked the responses, and answered to its client.
            TaskCommand::Respond(responses) => drop(tasks.deliver_responses(tasks.now(), &task, &responses)),
        }
        tasks.notify_subscribers(&task);
    }
}

impl fmt::Debug for LocalTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalTasks").field("is_gone", &self.is_gone()).finish()
    }
}

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
                    .map(|(key, response)| format!("{}:{}", Value::from(&*key), response.get()))
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
    /// Reads what [`Tasks::record`] has written. A task whose process has ended before it has failed.
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
    pub(super) fn record(&self, task: &Task) -> TaskRecord {
        let shown = At(&GetTaskResult::from(self.show(task)), Some(VERSION)).to_json();
        let shown = shown.as_ref().map_or("null", Json::get);
        let (owner, scopes) = (Value::from(task.owner.as_deref()), Value::from(task.scopes()));
        let state = format!(r#"{{"owner":{owner},"scopes":{scopes},"task":{shown}}}"#);
        let lifetime = task.expiry().map_or(UNLIMITED, |expiry| expiry.saturating_since(self.now()));
        TaskRecord { id: task.id.clone(), state, lifetime: lifetime.max(Duration::from_secs(1)) }
    }
}
