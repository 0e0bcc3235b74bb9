//! A store for the tasks of a service that runs in several processes.

use std::{
    fmt, io,
    sync::{Arc, Weak},
    time::Duration,
};

use crate::driver_api::deferred::Deferred;

/// A store for the tasks of a service that runs in several processes (2026-07-28): see
/// [`ServiceBuilder::task_store`](crate::ServiceBuilder::task_store).
///
/// The handler of a task runs in the process that began it. This process writes the state of its tasks to the store.
/// Other processes read it there, and send commands through the store. A task without a limit of time is kept for 24
/// hours after its last change.
pub trait TaskStore: Send + Sync + 'static {
    /// Connects the store with the tasks of this process. It is called once, when the service is built.
    ///
    /// From then on the store writes the changes of these tasks in the background, and passes on the commands for them.
    /// It stops when [`LocalTasks::is_gone`].
    fn attach(&self, tasks: LocalTasks);

    /// Stores a task before its client learns its id, and again before a client that asks learns that it has ended. A
    /// notification of the end does not wait for that.
    fn put(&self, task: TaskRecord) -> Deferred<io::Result<()>>;

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
    /// The number of changes of the task so far. A state never replaces one with a higher number.
    pub revision: u64,
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

/// The tasks of this process, as its store sees them.
pub(crate) trait TaskTable: Send + Sync {
    /// Returns the current state of a task; `None` if this process does not have it any more.
    fn record(&self, id: &str) -> Option<TaskRecord>;

    /// Handles a command that another process has sent.
    fn handle(&self, id: &str, command: &str);
}

/// The tasks of a service in this process, for its [`TaskStore`]. It is cheap to clone, and does not keep the service.
#[derive(Clone)]
pub struct LocalTasks(Weak<dyn TaskTable>);

impl LocalTasks {
    pub(crate) fn new<T: TaskTable + 'static>(tasks: &Arc<T>) -> Self {
        let tasks: Weak<T> = Arc::downgrade(tasks);
        Self(tasks)
    }

    /// Returns whether the service was dropped.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }

    /// Returns the current state of a task; `None` if this process does not have it any more.
    #[must_use]
    pub fn record(&self, id: &str) -> Option<TaskRecord> {
        self.0.upgrade()?.record(id)
    }

    /// Handles a command that another process has [sent](TaskStore::send). A command that is invalid, or is for a task
    /// that this process does not have, is ignored.
    pub fn handle(&self, id: &str, command: &str) {
        self.0.upgrade().into_iter().for_each(|tasks| tasks.handle(id, command));
    }
}

impl fmt::Debug for LocalTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalTasks").field("is_gone", &self.is_gone()).finish()
    }
}
