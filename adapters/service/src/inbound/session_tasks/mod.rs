//! The tasks of one connection that this side runs for its peer.
//!
//! # Order of locks
//! The lock of the connection is taken first, then that of the store, then that of a task. Code that holds a lock of
//! this module calls no method of the connection, and nothing that may call one: it checks scopes and wakes handlers
//! after it has released the lock.

mod shares;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_proto::{
    connection::{CancelCause, Connection, SendError, TaskProgress},
    rpc::{ReplyKey, Timestamp},
    schema::{Task, TaskStatus},
    wire::{ErrorCode, ErrorObject, Json},
};

use super::{
    in_flight::{InFlight, RoleInFlight},
    rpc_result::{ResponseKind, RpcResult},
    span::Span,
    task_policy::TaskPolicy,
};
pub(crate) use shares::SessionShares;

use crate::{
    driver_api::{connection_handle::ConnectionHandle, holder::Holder},
    util::{lock::lock, paged_list::PagedList, random::Random, wall_clock::Clock},
};

use shares::{SessionUsage, TaskUsage};

/// The tasks of one connection. Each connection has its own, so no peer sees the tasks of another one.
pub(crate) struct TaskStore<X> {
    policy: Arc<TaskPolicy>,
    random: Random,
    clock: Clock,
    /// Its lock is taken before that of a task.
    tasks: Mutex<Table<X>>,
}

type Tasks<X> = PagedList<Mutex<Entry<X>>>;

/// The tasks that requests wait for.
type Awaiting<X> = BTreeMap<ReplyKey, Arc<Mutex<Entry<X>>>>;

struct Table<X> {
    tasks: Tasks<X>,
    awaiting: Awaiting<X>,
    /// The number and the bytes of all tasks.
    usage: SessionUsage,
}

/// One task.
struct Entry<X> {
    id: String,
    /// The scopes that requests about it need.
    scopes: Vec<String>,
    /// Whether messages about it may be sent on a stream that belongs to no request.
    is_announced: bool,
    /// Its request, which may be large. `None` once the status is final.
    in_flight: Option<Arc<InFlight<X>>>,
    status: TaskStatus,
    message: Option<String>,
    created: Timestamp,
    updated: Timestamp,
    ttl: Option<Duration>,
    /// The response that the request would have got. Set when the status is final.
    outcome: Option<TaskOutcome>,
    /// `tasks/result` requests that wait for it, with their spans.
    awaited_by: BTreeMap<ReplyKey, Span>,
    /// The number of requests to the peer that the task waits for.
    open_requests: usize,
    /// Its progress, if the peer has requested progress notifications.
    progress: Option<TaskProgress>,
    /// The size of its params, or of its result, in bytes.
    weight: usize,
    /// Set when the peer has fetched the result.
    fetched: bool,
}

/// The outcome of a task. All requests that wait for it share it, since it may be as large as a message.
pub(crate) type TaskOutcome = Arc<RpcResult<Json>>;

/// Where messages about a task may be sent, besides its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskCarrier {
    /// On any stream of the session.
    Session,
    /// Only on the stream of this request, which waits for the result of the task.
    Request(ReplyKey),
    /// Nowhere, as long as no request waits for the result.
    Nothing,
}

/// The effects of a change, to apply without a lock of the store.
#[derive(Default)]
pub(crate) struct Effects<X> {
    /// Responses to send, with the spans of their requests, which end with them: a subscriber may do anything.
    pub(crate) answers: Vec<(ReplyKey, Span, TaskOutcome)>,
    /// Tasks that have changed.
    pub(crate) changed: Vec<Task>,
    /// Handlers to cancel.
    pub(crate) stop: Vec<Arc<InFlight<X>>>,
}

impl<X: RoleInFlight> TaskStore<X> {
    /// Creates the store of a session. Its tasks are counted in `shares`, too.
    pub(crate) fn new(policy: Arc<TaskPolicy>, random: Random, shares: Option<Arc<SessionShares>>) -> Self {
        Self { policy, random, clock: Clock::default(), tasks: Mutex::new(Table::new(shares)) }
    }

    /// Creates a working task, and requests about it need `scopes`. If it is not announced, no message about it is
    /// sent, except to a request that waits for its result.
    ///
    /// The tasks of the session are charged to the `holder` of the first one. Its params take `params` bytes until it
    /// is [discarded](Self::discard) or its job [finishes](Self::finish): the job of a task that was cancelled or has
    /// expired keeps them.
    pub(crate) fn create(
        &self,
        now: Timestamp,
        ttl: Option<u64>,
        (params, holder): (usize, impl FnOnce() -> Holder),
        (scopes, is_announced): (&[String], bool),
        in_flight: impl FnOnce(String) -> Arc<InFlight<X>>,
    ) -> RpcResult<Task> {
        let id = self.random.name()?;
        let mut table = lock(&self.tasks);
        table.usage.charge(holder);
        let more = TaskUsage { tasks: 1, bytes: params };
        if table.tasks.len() >= self.policy.max_tasks || !table.take(more, self.policy.max_bytes) {
            return Err(ErrorObject::internal("Too many tasks"));
        }
        let entry = Entry {
            in_flight: Some(in_flight(id.clone())),
            id: id.clone(),
            scopes: scopes.to_vec(),
            is_announced,
            status: TaskStatus::Working,
            message: None,
            created: now,
            updated: now,
            ttl: self.policy.grant(ttl),
            outcome: None,
            awaited_by: BTreeMap::new(),
            open_requests: 0,
            progress: None,
            weight: 0,
            fetched: false,
        };
        let task = self.show(&entry);
        if !table.tasks.insert(&id, Arc::new(Mutex::new(entry))) {
            // A source of randomness that repeats itself is none.
            table.usage.release(more);
            return Err(ErrorObject::internal("No randomness available"));
        }
        Ok(task)
    }

    /// Removes a task whose id was not sent to the peer, and whose params take `params` bytes.
    pub(crate) fn discard(&self, id: &str, params: usize) {
        let mut table = lock(&self.tasks);
        table.remove(id);
        table.release(params);
    }

    /// Sets the progress of a task, which continues with the token of its request.
    pub(crate) fn follow(&self, id: &str, progress: Option<TaskProgress>) {
        if let Some(entry) = self.entry(id) {
            lock(&entry).progress = progress;
        }
    }

    /// Removes the tasks that have expired.
    pub(crate) fn expire(&self, now: Timestamp) -> Effects<X> {
        let mut effects = Effects::default();
        let mut table = lock(&self.tasks);
        let expired: Vec<_> = table.tasks.iter().filter(|entry| lock(entry).has_expired(now)).cloned().collect();
        for entry in expired {
            let mut entry = lock(&entry);
            table.tasks.remove(&entry.id);
            table.usage.release(TaskUsage { tasks: 1, bytes: entry.weight });
            let error = ErrorObject::invalid_params("The task has expired");
            effects.answers.extend(table.answered(&mut entry, &Arc::new(Err(error))));
            effects.stop.extend(entry.in_flight.take());
        }
        effects
    }

    pub(crate) fn get(&self, id: &str) -> RpcResult<Task> {
        let entry = self.find(id)?;
        let entry = lock(&entry);
        Ok(self.show(&entry))
    }

    /// Returns a page of the tasks whose scopes `has_scopes` accepts, which is called without a lock of the store.
    pub(crate) fn list(
        &self,
        cursor: Option<&str>,
        has_scopes: impl Fn(&[String]) -> bool,
    ) -> RpcResult<(Vec<Task>, Option<String>)> {
        let (page, next) = lock(&self.tasks).tasks.page(cursor, self.policy.page_size)?;
        let show = |entry: &Arc<Mutex<Entry<X>>>| {
            let (scopes, task) = {
                let entry = lock(entry);
                (entry.scopes.clone(), self.show(&entry))
            };
            has_scopes(&scopes).then_some(task)
        };
        Ok((page.iter().filter_map(show).collect(), next))
    }

    /// Returns the scopes that requests about a task need. None for an unknown task.
    pub(crate) fn scopes(&self, id: &str) -> Vec<String> {
        self.entry(id).map(|entry| lock(&entry).scopes.clone()).unwrap_or_default()
    }

    /// Returns whether messages about a task may be sent on any stream of the session.
    pub(crate) fn is_announced(&self, id: &str) -> bool {
        self.entry(id).is_some_and(|entry| lock(&entry).is_announced)
    }

    /// Returns where a message about a task may be sent now.
    pub(crate) fn carrier<E>(&self, conn: &Connection<E>, id: &str) -> TaskCarrier {
        match self.entry(id) {
            Some(entry) => lock(&entry).carrier(conn),
            None => TaskCarrier::Nothing,
        }
    }

    /// Returns the outcome of a task; `None` if the request `key` has to wait for it. Then its span ends with it.
    pub(crate) fn result(&self, id: &str, key: ReplyKey, span: &Span) -> Option<TaskOutcome> {
        let mut table = lock(&self.tasks);
        let found = match table.find(id) {
            Ok(entry) => entry,
            Err(error) => return Some(Arc::new(Err(error))),
        };
        let mut entry = lock(&found);
        if entry.outcome.is_none() {
            entry.awaited_by.insert(key, span.clone());
            table.awaiting.insert(key, found.clone());
        }
        entry.fetched |= entry.outcome.is_some();
        let outcome = entry.outcome.clone();
        let in_flight = entry.in_flight.clone();
        drop(entry);
        drop(table);
        if let Some(in_flight) = in_flight {
            // Its requests to the peer may have waited for this stream.
            in_flight.notify();
        }
        outcome
    }

    /// Removes a request that waits for a task. Returns whether it did.
    pub(crate) fn no_longer_awaited(&self, key: ReplyKey) -> bool {
        let Some(span) = self.take_awaiting(key) else { return false };
        span.end(true, || ResponseKind::Result);
        true
    }

    /// Removes a request that waits for a task. Returns its span.
    fn take_awaiting(&self, key: ReplyKey) -> Option<Span> {
        let entry = lock(&self.tasks).awaiting.remove(&key)?;
        lock(&entry).awaited_by.remove(&key)
    }

    /// Ends a task early.
    pub(crate) fn cancel(&self, now: Timestamp, id: &str) -> RpcResult<(Task, Effects<X>)> {
        let mut table = lock(&self.tasks);
        let entry = table.find(id)?;
        let mut entry = lock(&entry);
        if entry.status.is_terminal() {
            return Err(ErrorObject::invalid_params(format!("The task is already {}", entry.status)));
        }
        let outcome = Err(ErrorObject::new(ErrorCode::INTERNAL_ERROR, "The task was cancelled"));
        let (mut effects, in_flight) = self.end(&mut table, &mut entry, now, TaskStatus::Cancelled, None, outcome);
        effects.stop.extend(in_flight);
        Ok((self.show(&entry), effects))
    }

    /// Finishes a task with an outcome, unless it has ended before. A task fails if there is no room for its result,
    /// which may take that of its params: they take `params` bytes, and none any more.
    pub(crate) fn finish(
        &self,
        now: Timestamp,
        (id, params): (&str, usize),
        outcome: RpcResult<Json>,
        fault: Option<String>,
    ) -> Effects<X> {
        let mut table = lock(&self.tasks);
        table.release(params);
        let Some(entry) = table.tasks.get(id).cloned() else { return Effects::default() };
        let weight = match &outcome {
            Ok(result) => result.get().len() + fault.as_ref().map_or(0, String::len),
            // Its message is that of the task, too.
            Err(error) => 2 * error.message.len() + error.data.as_ref().map_or(0, |data| data.get().len()),
        };
        if lock(&entry).status.is_terminal() {
            return Effects::default();
        }
        let has_room = table.take(TaskUsage { tasks: 0, bytes: weight }, self.policy.max_bytes);
        let mut entry = lock(&entry);
        let (outcome, fault) = if has_room {
            entry.weight = weight;
            (outcome, fault)
        } else {
            (Err(ErrorObject::internal("The results of tasks are larger than the limit")), None)
        };
        let fault = match &outcome {
            Err(error) => Some(error.message.to_string()),
            Ok(_) => fault,
        };
        let status = if fault.is_some() { TaskStatus::Failed } else { TaskStatus::Completed };
        let (effects, in_flight) = self.end(&mut table, &mut entry, now, status, fault, outcome);
        drop((entry, table));
        // Outside of the locks, since wakers may go with it.
        drop(in_flight);
        effects
    }

    /// Ends a task. Returns its request, too, which is not kept any more.
    fn end(
        &self,
        table: &mut Table<X>,
        entry: &mut Entry<X>,
        now: Timestamp,
        status: TaskStatus,
        message: Option<String>,
        outcome: RpcResult<Json>,
    ) -> (Effects<X>, Option<Arc<InFlight<X>>>) {
        entry.turn(now, status);
        entry.message = message;
        entry.progress = None;
        // Requests that wait get it now.
        entry.fetched |= !entry.awaited_by.is_empty();
        let outcome = Arc::new(outcome);
        let answers = table.answered(entry, &outcome);
        entry.outcome = Some(outcome);
        let changed = entry.is_announced.then(|| self.show(entry)).into_iter().collect();
        (Effects { answers, changed, stop: Vec::new() }, entry.in_flight.take())
    }

    /// Changes the number of responses of its peer that a task waits for.
    pub(crate) fn count_input_requests<E: 'static>(
        &self,
        connection: &Arc<dyn ConnectionHandle<E>>,
        id: &str,
        difference: isize,
    ) {
        let Some(entry) = self.entry(id) else { return };
        connection.update(|conn, now| {
            let mut entry = lock(&entry);
            entry.open_requests = entry.open_requests.saturating_add_signed(difference);
            let status = if entry.open_requests > 0 { TaskStatus::InputRequired } else { TaskStatus::Working };
            if entry.turn(now, status) && entry.is_announced {
                notify_status(conn, self.show(&entry));
            }
        });
    }

    pub(crate) fn progress<E>(
        &self,
        conn: &mut Connection<E>,
        id: &str,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Result<(), SendError> {
        let Some(entry) = self.entry(id) else { return Ok(()) };
        let entry = &mut *lock(&entry);
        // A request that waits for the result takes it along: elsewhere the result could arrive first.
        match (&mut entry.progress, entry.awaited_by.keys().find(|key| conn.is_open(**key))) {
            (Some(token), Some(waiting)) => conn.task_progress_on(*waiting, token, progress, total, message),
            (Some(token), None) if entry.is_announced => conn.task_progress(token, progress, total, message),
            _ => Ok(()),
        }
    }

    /// Removes all tasks and cancels their handlers, because the connection has ended. The params of jobs that still
    /// run are counted until these [finish](Self::finish).
    pub(crate) fn close(&self) {
        let (tasks, awaiting) = lock(&self.tasks).clear();
        for entry in tasks.iter() {
            let (awaited_by, in_flight) = {
                let mut entry = lock(entry);
                (std::mem::take(&mut entry.awaited_by), entry.in_flight.take())
            };
            awaited_by.into_values().for_each(|span| span.end(true, || ResponseKind::Result));
            // Their input requests have ended with the connection.
            in_flight.iter().for_each(|in_flight| drop(in_flight.cancel(CancelCause::Closed)));
        }
        drop(awaiting);
    }

    /// Returns how many responses hold the outcome of a task.
    #[cfg(test)]
    pub(crate) fn outcome_holders(&self, id: &str) -> usize {
        let outcome = self.entry(id).and_then(|entry| lock(&entry).outcome.clone());
        outcome.map_or(0, |outcome| Arc::strong_count(&outcome) - 2)
    }

    /// Returns how many requests wait for tasks.
    #[cfg(test)]
    pub(crate) fn awaiting(&self) -> usize {
        let table = lock(&self.tasks);
        let waiting = table.tasks.iter().map(|entry| lock(entry).awaited_by.len()).sum();
        assert_eq!(table.awaiting.len(), waiting);
        waiting
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.tasks).tasks.len()
    }

    fn entry(&self, id: &str) -> Option<Arc<Mutex<Entry<X>>>> {
        lock(&self.tasks).tasks.get(id).cloned()
    }

    fn find(&self, id: &str) -> RpcResult<Arc<Mutex<Entry<X>>>> {
        lock(&self.tasks).find(id)
    }

    fn show(&self, entry: &Entry<X>) -> Task {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Task {
            status_message: entry.message.clone(),
            ttl: entry.ttl.map(millis),
            poll_interval: Some(millis(self.policy.poll_interval)),
            ..Task::new(&*entry.id, entry.status.clone(), self.clock.iso(entry.created), self.clock.iso(entry.updated))
        }
    }
}

impl<X: RoleInFlight> Table<X> {
    fn new(shares: Option<Arc<SessionShares>>) -> Self {
        Self { tasks: PagedList::new('k'), awaiting: BTreeMap::new(), usage: SessionUsage::new(shares) }
    }

    fn find(&self, id: &str) -> RpcResult<Arc<Mutex<Entry<X>>>> {
        self.tasks.get(id).cloned().ok_or_else(|| ErrorObject::invalid_params("Task not found"))
    }

    /// Removes all tasks, and returns them with those that requests wait for.
    fn clear(&mut self) -> (Tasks<X>, Awaiting<X>) {
        let tasks = std::mem::replace(&mut self.tasks, PagedList::new('k'));
        let bytes = tasks.iter().map(|entry| lock(entry).weight).sum();
        self.usage.release(TaskUsage { tasks: tasks.len(), bytes });
        (tasks, std::mem::take(&mut self.awaiting))
    }

    fn remove(&mut self, id: &str) {
        if let Some(entry) = self.tasks.remove(id) {
            self.usage.release(TaskUsage { tasks: 1, bytes: lock(&entry).weight });
        }
    }

    /// Counts the params of a task no more, whose job does not have them any more.
    fn release(&mut self, params: usize) {
        self.usage.release(TaskUsage { tasks: 0, bytes: params });
    }

    /// Takes this much more, if the session with `most` bytes, all sessions and the client have room for it.
    fn take(&mut self, more: TaskUsage, most: usize) -> bool {
        self.make_room(more.bytes, most) && (self.usage.take(more) || self.take_from_fetched(more))
    }

    /// Takes this much more in place of all ended tasks whose results were fetched, if that makes room in the share of
    /// the client and in that of all sessions.
    fn take_from_fetched(&mut self, more: TaskUsage) -> bool {
        let mut released = TaskUsage::default();
        let mut fetched = Vec::new();
        for entry in self.tasks.iter() {
            let entry = lock(entry);
            if entry.outcome.is_some() && entry.fetched {
                released = TaskUsage { tasks: released.tasks + 1, bytes: released.bytes + entry.weight };
                fetched.push(entry.id.clone());
            }
        }
        if fetched.is_empty() || !self.usage.would_fit(more, released) {
            return false;
        }
        fetched.iter().for_each(|id| self.remove(id));
        self.usage.take(more)
    }

    /// Makes room for this many more bytes. Ended tasks whose results were fetched are removed, oldest first.
    fn make_room(&mut self, more: usize, most: usize) -> bool {
        let Some(most) = most.checked_sub(more) else { return false };
        let mut bytes = self.usage.bytes();
        let mut evicted = Vec::new();
        for entry in self.tasks.iter() {
            if bytes <= most {
                break;
            }
            let entry = lock(entry);
            if entry.outcome.is_some() && entry.fetched && entry.weight > 0 {
                bytes -= entry.weight;
                evicted.push(entry.id.clone());
            }
        }
        // Tasks are removed only if that makes enough room.
        let fits = bytes <= most;
        if fits {
            evicted.iter().for_each(|id| self.remove(id));
        }
        fits
    }

    /// Returns the responses to the requests that wait for this outcome of a task.
    fn answered(&mut self, entry: &mut Entry<X>, outcome: &TaskOutcome) -> Vec<(ReplyKey, Span, TaskOutcome)> {
        let awaited_by = std::mem::take(&mut entry.awaited_by);
        awaited_by.keys().for_each(|key| drop(self.awaiting.remove(key)));
        awaited_by.into_iter().map(|(key, span)| (key, span, outcome.clone())).collect()
    }
}

impl<X: RoleInFlight> Entry<X> {
    /// Changes the status if the state machine allows it. Returns whether it has changed.
    fn turn(&mut self, now: Timestamp, status: TaskStatus) -> bool {
        let may = self.status.may_become(&status);
        if may {
            self.status = status;
            self.updated = now;
        }
        may
    }

    fn carrier<E>(&self, conn: &Connection<E>) -> TaskCarrier {
        if self.is_announced {
            return TaskCarrier::Session;
        }
        // One that was cancelled a moment ago may still be in the list.
        let waiting = self.awaited_by.keys().copied().find(|key| conn.is_open(*key));
        waiting.map_or(TaskCarrier::Nothing, TaskCarrier::Request)
    }

    fn has_expired(&self, now: Timestamp) -> bool {
        self.ttl.is_some_and(|ttl| self.created + ttl <= now)
    }
}

/// Notifies the peer of the status of a task. The peer cannot rely on this notification, so it is dropped if the outbox
/// is full.
pub(crate) fn notify_status<E>(conn: &mut Connection<E>, task: Task) {
    let _ = conn.notify(&mcp_proto::schema::TaskStatusParams::from(task));
}

#[cfg(test)]
mod tests;
