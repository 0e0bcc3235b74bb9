//! The tasks of a service in Redis, and the commands for them.

use std::{
    collections::BTreeSet,
    future::{Future, poll_fn},
    io, mem,
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
    task::Poll,
    time::Duration,
};

use mcp_service::{Deferred, LocalTasks, StoredTask, TaskRecord, TaskStore};
use redis::cmd;
use tokio::time::{sleep, timeout};

use super::{Follower, RedisStore, lost, millis, process::LEASE};
use mcp_driver::Watched;

/// The most bytes of commands that wait for one process.
const MAX_COMMANDS: usize = 16 << 20;

/// The time after which a process looks for commands whose announcement was lost, and ends if its service has ended.
const CHECK: Duration = Duration::from_secs(5);

/// The time until a write that has failed is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// The tasks of this process whose states have to be written.
#[derive(Default)]
pub(super) struct ChangedTasks {
    queue: Watched<Queue>,
    is_attached: AtomicBool,
}

#[derive(Default)]
struct Queue {
    changed: BTreeSet<String>,
    /// Set while a state is being written.
    is_writing: bool,
}

/// Keeps tasks with the id of their process. A task lives as long as the service says, and beyond the end of its
/// process.
///
/// The limits of the store do not count tasks. Each process bounds the tasks that it has, in number and in bytes, and
/// so what it keeps here ([`TaskPolicy`](mcp_service::TaskPolicy)). Those of processes that have ended add to that
/// until their time is over. At most 16 MiB of commands wait for a process.
///
/// A service is attached once: two services in one process have stores of their own, with different prefixes.
///
/// # Panics
/// [`attach`](TaskStore::attach) panics if another service uses this store or a clone of it.
impl TaskStore for RedisStore {
    fn attach(&self, tasks: LocalTasks) {
        let was_attached = self.changed.is_attached.swap(true, Ordering::Relaxed);
        assert!(!was_attached, "another service keeps its tasks in this store");
        let store = self.without_process();
        let process = self.process.name().to_owned();
        self.runtime.spawn(async move { store.run_tasks(&process, tasks).await });
    }

    fn put(&self, task: TaskRecord) -> Deferred<io::Result<()>> {
        let written = self.write_task(self.process.name(), &task);
        let store = self.clone();
        Deferred::new(async move {
            store.process.keep(&store);
            written.await
        })
    }

    fn changed(&self, id: &str) {
        self.changed.queue.update(|queue| queue.changed.insert(id.to_owned()));
    }

    fn find(&self, id: &str) -> Deferred<io::Result<Option<StoredTask>>> {
        let found = self.run::<Vec<String>>(self.step("task-find", id));
        Deferred::new(async move {
            let mut found = found.await?.into_iter();
            let state = found.next();
            Ok(state.map(|state| StoredTask { state, is_running: found.next().is_some() }))
        })
    }

    fn send(&self, id: &str, command: String) -> Deferred<io::Result<()>> {
        let mut step = self.step("task-send", id);
        step.add(command).add(MAX_COMMANDS);
        let (sent, store) = (self.run::<String>(step), self.clone());
        Deferred::new(async move {
            let process = match &*sent.await? {
                "gone" => return Err(io::ErrorKind::NotFound.into()),
                "full" => return Err(io::ErrorKind::QuotaExceeded.into()),
                process => process.to_owned(),
            };
            let mut publish = cmd("PUBLISH");
            publish.arg(store.task_channel(&process)).arg("");
            publish.query_async::<()>(&mut store.connection.clone()).await.map_err(lost)
        })
    }
}

impl RedisStore {
    /// Waits until the states of all tasks are written. A process that ends calls it after its server has stopped, and
    /// before it drops the service: tasks that have ended just before would count as failed otherwise.
    ///
    /// It waits for as long as Redis does not respond, so limit the time. Dropping it changes nothing.
    pub async fn tasks_written(&self) {
        let is_written = |queue: &Queue| (queue.changed.is_empty() && !queue.is_writing).then_some(());
        self.changed.queue.wait_for(is_written).await;
    }

    /// Removes the entry of this process in Redis, so that others know at once that its streams and tasks have ended.
    /// Otherwise they know it 30 seconds later.
    ///
    /// A process that ends calls it last, after [`tasks_written`](Self::tasks_written). Its tasks that have not ended
    /// have failed then. Does nothing if the process has had no sessions and no tasks.
    ///
    /// Dropping it may leave the entry until its lease has ended.
    ///
    /// # Errors
    /// If Redis cannot be reached.
    pub async fn leave(&self) -> io::Result<()> {
        match self.process.leave() {
            Some(left) => left.await.map(drop),
            None => Ok(()),
        }
    }

    /// Returns the channel on which commands for the tasks of a process are announced.
    fn task_channel(&self, process: &str) -> String {
        format!("{}:tasks:{process}", self.tag())
    }

    fn write_task(&self, process: &str, task: &TaskRecord) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let mut step = self.step("task", &task.id);
        step.add(process).add(millis(task.lifetime)).add(millis(LEASE)).add(task.revision).add(&task.state);
        let written = self.run::<i64>(step);
        async move { written.await.map(drop) }
    }

    /// Writes the tasks that have changed and passes on commands, until the service has ended.
    async fn run_tasks(self, process: &str, tasks: LocalTasks) {
        let channel = self.task_channel(process);
        let follower = loop {
            match Follower::new(&self, channel.clone()).await {
                Ok(follower) => break follower,
                Err(_) if tasks.is_gone() => return,
                Err(_) => sleep(RETRY).await,
            }
        };
        while !tasks.is_gone() {
            let notifications = follower.notifications();
            // Commands are passed on although a state cannot be written.
            let (written, received) = (self.write_changed(process, &tasks).await, self.receive(process, &tasks).await);
            if written.is_err() || received.is_err() {
                sleep(RETRY).await;
                continue;
            }
            let mut changed = pin!(self.changed.queue.wait_for(|queue| (!queue.changed.is_empty()).then_some(())));
            let mut commands = pin!(follower.wait_for_more_than(notifications));
            let either = poll_fn(|cx| match changed.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => commands.as_mut().poll(cx),
            });
            let _ = timeout(CHECK, either).await;
        }
        // Nothing is left to be written: the tasks went with the service.
        self.changed.queue.update(|queue| *queue = Queue::default());
    }

    /// Writes the tasks that have changed so far, and removes those that the service has removed.
    async fn write_changed(&self, process: &str, tasks: &LocalTasks) -> io::Result<()> {
        let queue = &self.changed.queue;
        let mut changed = queue.update(|queue| {
            queue.is_writing = !queue.changed.is_empty();
            mem::take(&mut queue.changed)
        });
        let mut result = Ok(());
        while let Some(id) = changed.pop_first() {
            result = match tasks.record(&id) {
                Some(task) => self.write_task(process, &task).await,
                // The tasks of a service that has ended stay as they are.
                None if tasks.is_gone() => Ok(()),
                None => self.run::<i64>(self.step("task-remove", &id)).await.map(drop),
            };
            if result.is_err() {
                changed.insert(id);
                break;
            }
        }
        if !changed.is_empty() || queue.read(|queue| queue.is_writing) {
            queue.update(|queue| {
                queue.changed.append(&mut changed);
                queue.is_writing = false;
            });
        }
        result
    }

    /// Passes on the commands for tasks of this process.
    async fn receive(&self, process: &str, tasks: &LocalTasks) -> io::Result<()> {
        loop {
            let received = self.run::<Vec<String>>(self.step("task-receive", process)).await?;
            if received.is_empty() {
                return Ok(());
            }
            for command in &received {
                let (id, command) = command.split_once(' ').unwrap_or_default();
                tasks.handle(id, command);
            }
        }
    }
}
