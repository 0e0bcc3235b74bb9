//! The tasks of a service.

pub(crate) mod accounting;
pub(crate) mod description;

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    sync::{Arc, Mutex, Weak, atomic::AtomicUsize},
    time::Duration,
};

use mcp_proto::{
    connection::{CancelCause, ServerRole},
    rpc::Timestamp,
    schema::{At, CallToolResult, InputRequest, TaskStatus},
    wire::{ErrorObject, JsonObject},
};

use super::{
    VERSION,
    detached_sleep::DetachedAlarm,
    running::RunningHandlers,
    shares::{Share, Shares, TaskHolder},
    task_store::TaskStore,
};
use crate::{
    inbound::{in_flight::InFlight, rpc_result::RpcResult, state::SessionState, task_policy::TaskPolicy},
    outbound::{error::CallError, response_slot::ResponseSlot},
    server::in_flight::ServerInFlight,
    util::{lock::lock, random::Random, time::Instant, wall_clock::Clock},
};

/// The tasks of a service, from all clients and connections.
///
/// Their number is limited, and so is their size: params, requests for input, and results. Each principal has a share
/// of that. If there is no room, ended tasks are removed, those with a fetched result first. Lock order: connection,
/// table, task. No waker of a handler is called under the locks of the table and of a task.
pub(crate) struct Tasks {
    policy: TaskPolicy,
    random: Random,
    clock: Clock,
    /// The zero of the service's clock. Each connection has its own clock.
    epoch: Instant,
    bytes: AtomicUsize,
    table: Mutex<Table>,
    pub(super) alarm: DetachedAlarm,
    pub(in crate::server) running: Arc<RunningHandlers>,
    /// The store that other processes share.
    pub(in crate::server) store: Option<Arc<dyn TaskStore>>,
}

#[derive(Default)]
struct Table {
    tasks: HashMap<String, Arc<Task>>,
    /// The times at which tasks expire. Tasks without a limit are not in it.
    expiries: BTreeSet<(Timestamp, String)>,
    shares: Shares,
}

/// A task.
pub(crate) struct Task {
    pub(super) id: String,
    /// The principal of the request, if it is known. Other principals cannot find the task.
    pub(super) owner: Option<String>,
    /// The scopes that requests about it need.
    scopes: Vec<String>,
    /// Weak, since the work owns its task.
    in_flight: Weak<InFlight<ServerInFlight>>,
    created: Timestamp,
    ttl: Option<Duration>,
    share: Arc<Share>,
    state: Mutex<TaskState>,
}

struct TaskState {
    status: TaskStatus,
    message: Option<String>,
    updated: Timestamp,
    /// The number of changes.
    revision: u64,
    /// The last change that was reported to the store.
    noted: u64,
    /// Set when the state of the ended task is in the store.
    is_stored: bool,
    /// The pending requests for input, oldest first.
    pending_inputs: Vec<PendingInput>,
    /// The number of requests for input so far.
    input_request_count: u64,
    outcome: Option<RpcResult<JsonObject>>,
    /// Set when the client has cancelled the task.
    cancelled: bool,
    /// Set when the client has fetched the ended task.
    fetched: bool,
    size: usize,
    subscribers: Vec<Subscriber>,
}

/// A pending request of a task for input.
struct PendingInput {
    key: String,
    input_request: InputRequest,
    size: usize,
    slot: Arc<ResponseSlot>,
}

/// A connection that is notified of the changes of a task.
struct Subscriber {
    session: Weak<SessionState<ServerRole>>,
    /// The number of the last change that was notified.
    notified: u64,
}

impl Tasks {
    pub(crate) fn new(policy: TaskPolicy, random: Random, store: Option<Arc<dyn TaskStore>>) -> Self {
        Self {
            store,
            policy,
            random,
            clock: Clock::default(),
            epoch: Instant::now(),
            bytes: AtomicUsize::new(0),
            table: Mutex::default(),
            alarm: DetachedAlarm::default(),
            running: Arc::default(),
        }
    }

    /// Returns the time of the service's clock.
    pub(super) fn now(&self) -> Timestamp {
        Timestamp::after_zero(self.epoch.elapsed())
    }

    /// Creates a working task.
    pub(super) fn create(
        &self,
        now: Timestamp,
        (owner, scopes): (Option<String>, Vec<String>),
        holder: TaskHolder,
        in_flight: &Arc<InFlight<ServerInFlight>>,
        size: usize,
    ) -> RpcResult<Arc<Task>> {
        let mut table = lock(&self.table);
        let share = table.shares.of(holder);
        let has_room = self.make_room(&mut table, &share, 1, size) && share.reserve(&self.bytes, size, &self.policy);
        if !has_room {
            table.shares.remove_if_empty(&share);
            return Err(ErrorObject::internal("Too many tasks"));
        }
        let task = self.random.name().map(|id| {
            let state = TaskState {
                status: TaskStatus::Working,
                message: None,
                updated: now,
                revision: 0,
                noted: 0,
                is_stored: false,
                pending_inputs: Vec::new(),
                input_request_count: 0,
                outcome: None,
                cancelled: false,
                fetched: false,
                size,
                subscribers: Vec::new(),
            };
            let (in_flight, ttl) = (Arc::downgrade(in_flight), self.policy.grant(None));
            let (share, state) = (share.clone(), Mutex::new(state));
            Arc::new(Task { id, owner, scopes, in_flight, created: now, ttl, share, state })
        });
        match task {
            Ok(task) if !table.tasks.contains_key(&task.id) => {
                share.add_task();
                table.tasks.insert(task.id.clone(), task.clone());
                table.expiries.extend(task.expiry().map(|at| (at, task.id.clone())));
                Ok(task)
            }
            // A source of randomness that repeats an id does not work.
            failed => {
                share.release(&self.bytes, size);
                table.shares.remove_if_empty(&share);
                failed.and(Err(ErrorObject::internal("No randomness available")))
            }
        }
    }

    /// Removes a task whose id was not sent to a client.
    pub(super) fn discard(&self, task: &Task) {
        self.remove(&mut lock(&self.table), task);
    }

    /// Returns the task with this id if `owner` started it.
    pub(in crate::server) fn find(&self, id: &str, owner: Option<&str>) -> RpcResult<Arc<Task>> {
        let task = lock(&self.table).tasks.get(id).filter(|task| task.owner.as_deref() == owner).cloned();
        task.ok_or_else(|| ErrorObject::invalid_params("Task not found"))
    }

    /// Returns the task with this id, of any principal.
    pub(super) fn any(&self, id: &str) -> Option<Arc<Task>> {
        lock(&self.table).tasks.get(id).cloned()
    }

    /// Returns whether a task has ended, and its state may not be in the store yet.
    pub(super) fn needs_storing(&self, task: &Task) -> bool {
        let state = lock(&task.state);
        self.store.is_some() && state.status.is_terminal() && !state.is_stored
    }

    /// Notes that the state of an ended task is in the store.
    pub(super) fn mark_stored(&self, task: &Task) {
        lock(&task.state).is_stored = true;
    }

    /// Returns the number of changes of a task.
    pub(super) fn revision(&self, task: &Task) -> u64 {
        lock(&task.state).revision
    }

    /// Returns the time at which the next task expires.
    pub(super) fn next_expiry(&self) -> Option<Timestamp> {
        lock(&self.table).expiries.first().map(|(at, _)| *at)
    }

    /// Removes expired tasks. Returns those that were still working: they have failed, and their clients may want a
    /// notification.
    pub(super) fn expire(&self, now: Timestamp) -> Vec<Arc<Task>> {
        let (mut failed, mut pending) = (Vec::new(), Vec::new());
        let mut table = lock(&self.table);
        while let Some((at, id)) = table.expiries.first().cloned().filter(|(at, _)| *at <= now) {
            table.expiries.remove(&(at, id.clone()));
            let Some(task) = table.tasks.remove(&id) else { continue };
            let mut state = lock(&task.state);
            let had_ended = state.status.is_terminal();
            if !had_ended {
                pending.extend(state.end(now, TaskStatus::Failed, Err(ErrorObject::internal("The task has expired"))));
            }
            drop(state);
            self.release(&mut table, &task);
            if !had_ended {
                failed.push(task);
            }
        }
        drop(table);
        cancel_input_requests(pending);
        failed.iter().for_each(|task| task.stop());
        failed
    }

    /// Finishes a task with the result of its handler, or with an error.
    pub(super) fn finish(&self, now: Timestamp, task: &Task, answer: RpcResult<CallToolResult>) {
        let failed = answer.as_ref().map_or(true, CallToolResult::is_error);
        let outcome = answer.and_then(|result| {
            At(&result, Some(VERSION))
                .to_json()
                .and_then(JsonObject::try_from)
                .map_err(|error| ErrorObject::internal(format!("The result cannot be sent: {error}")))
        });
        let size = match &outcome {
            Ok(result) => result.get().len(),
            // Its message is that of the task, too.
            Err(error) => 2 * error.message.len() + error.data.as_ref().map_or(0, |data| data.get().len()),
        };
        let message_len = |state: &TaskState| state.message.as_ref().map_or(0, String::len);
        // The lock of the table is taken before that of a task, and kept until the result has taken its room.
        let mut table = lock(&self.table);
        let more = {
            let state = lock(&task.state);
            if state.status.is_terminal() {
                return;
            }
            let kept = if outcome.is_ok() { message_len(&state) } else { 0 };
            (kept + size).saturating_sub(state.size)
        };
        self.make_room(&mut table, &task.share, 0, more);
        let mut state = lock(&task.state);
        if state.status.is_terminal() {
            return;
        }
        let message_len = message_len(&state);
        // A cancelled task ends as cancelled, unless its work was done before that.
        let pending = if state.cancelled && failed {
            let pending = state.end(now, TaskStatus::Cancelled, Err(ErrorObject::internal("Cancelled")));
            self.resize(task, &mut state, message_len);
            pending
        } else {
            let size = if outcome.is_ok() { message_len + size } else { size };
            // The params and the requests for input are not needed any more.
            self.resize(task, &mut state, 0);
            let outcome = if self.resize(task, &mut state, size) {
                outcome
            } else {
                Err(ErrorObject::internal("The results of tasks are larger than the limit"))
            };
            let status = if outcome.is_ok() { TaskStatus::Completed } else { TaskStatus::Failed };
            state.end(now, status, outcome)
        };
        drop(state);
        drop(table);
        cancel_input_requests(pending);
    }

    /// Cancels a task. It ends when its handler does, and perhaps with a result.
    pub(super) fn cancel(&self, now: Timestamp, task: &Task) {
        let mut state = lock(&task.state);
        if state.status.is_terminal() || state.cancelled {
            return;
        }
        state.cancelled = true;
        // Its open input requests are dropped, and the handler gets the cause.
        let pending = mem::take(&mut state.pending_inputs);
        state.set_status(now, TaskStatus::Working);
        drop(state);
        drop(pending);
        task.stop();
    }

    /// Sets the status message of a task.
    pub(crate) fn set_status_message(&self, now: Timestamp, task: &Task, message: &str) {
        let mut state = lock(&task.state);
        if !state.status.is_terminal() && state.message.as_deref() != Some(message) {
            let size = state.size.saturating_sub(state.message.as_ref().map_or(0, String::len)) + message.len();
            if self.resize(task, &mut state, size) {
                state.message = Some(message.to_owned());
                state.changed(now);
            }
        }
    }

    /// Adds a request for input. Returns its key and the slot of its response; `None` if there is no room, or the task
    /// has ended or was cancelled.
    pub(super) fn add_input_request(
        &self,
        now: Timestamp,
        task: &Task,
        name: Option<&str>,
        input_request: InputRequest,
    ) -> Option<(String, Arc<ResponseSlot>)> {
        let mut state = lock(&task.state);
        if state.status.is_terminal() || state.cancelled || state.pending_inputs.len() >= self.policy.max_input_requests
        {
            return None;
        }
        let size = At(&input_request, Some(VERSION)).to_json().ok()?.get().len();
        let sum = state.size + size;
        if !self.resize(task, &mut state, sum) {
            return None;
        }
        // The number after the last point is unique in the task.
        state.input_request_count += 1;
        let number = state.input_request_count;
        let key = name.map_or_else(|| format!("q{number}"), |name| format!("{name}.{number}"));
        let slot = Arc::new(ResponseSlot::default());
        state.pending_inputs.push(PendingInput { key: key.clone(), input_request, size, slot: slot.clone() });
        if !state.set_status(now, TaskStatus::InputRequired) {
            state.changed(now);
        }
        Some((key, slot))
    }

    /// Removes a request for input that has a response or was withdrawn. Returns whether it was still open.
    pub(super) fn withdraw(&self, now: Timestamp, task: &Task, key: &str) -> bool {
        let mut state = lock(&task.state);
        let Some(at) = state.pending_inputs.iter().position(|pending| pending.key == key) else { return false };
        let pending = state.pending_inputs.remove(at);
        let size = state.size.saturating_sub(pending.size);
        self.resize(task, &mut state, size);
        if !state.pending_inputs.is_empty() || !state.set_status(now, TaskStatus::Working) {
            state.changed(now);
        }
        true
    }

    /// Returns the pending request for input with this key, and the slot of its response.
    pub(super) fn pending_input(&self, task: &Task, key: &str) -> Option<(InputRequest, Arc<ResponseSlot>)> {
        let state = lock(&task.state);
        let pending = state.pending_inputs.iter().find(|pending| pending.key == key)?;
        Some((pending.input_request.clone(), pending.slot.clone()))
    }

    #[cfg(test)]
    pub(crate) fn usage(&self) -> (usize, usize) {
        (lock(&self.table).tasks.len(), self.bytes.load(std::sync::atomic::Ordering::Relaxed))
    }

    #[cfg(test)]
    pub(crate) fn holders(&self) -> usize {
        lock(&self.table).shares.len()
    }

    #[cfg(test)]
    pub(crate) fn contains(&self, id: &str, owner: Option<&str>) -> bool {
        self.find(id, owner).is_ok()
    }

    #[cfg(test)]
    pub(crate) fn has_ended(&self, id: &str) -> bool {
        lock(&self.table).tasks.get(id).is_none_or(|task| lock(&task.state).status.is_terminal())
    }
}

impl Task {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(in crate::server) fn scopes(&self) -> &[String] {
        &self.scopes
    }

    pub(super) fn expiry(&self) -> Option<Timestamp> {
        self.ttl.map(|ttl| self.created + ttl)
    }

    /// Cancels the handler.
    fn stop(&self) {
        if let Some(in_flight) = self.in_flight.upgrade() {
            // Its requests for input are part of the task.
            let _ = in_flight.cancel(CancelCause::Peer(None));
        }
    }
}

impl TaskState {
    /// Notes a change.
    fn changed(&mut self, now: Timestamp) {
        self.updated = self.updated.max(now);
        self.revision += 1;
    }

    /// Changes the status if the state machine allows it. Returns whether it has changed.
    fn set_status(&mut self, now: Timestamp, status: TaskStatus) -> bool {
        let is_allowed = self.status.may_become(&status);
        if is_allowed {
            self.status = status;
            self.changed(now);
        }
        is_allowed
    }

    /// Ends the task. Returns its pending requests for input, which the caller has to cancel outside of the locks.
    #[must_use]
    fn end(&mut self, now: Timestamp, status: TaskStatus, outcome: RpcResult<JsonObject>) -> Vec<PendingInput> {
        if let (TaskStatus::Failed, Err(error)) = (&status, &outcome) {
            self.message = Some(error.message.to_string());
        }
        self.set_status(now, status);
        self.outcome = Some(outcome);
        mem::take(&mut self.pending_inputs)
    }
}

/// Cancels pending requests for input. This wakes their waiters, so it must not be called under a lock.
fn cancel_input_requests(pending: Vec<PendingInput>) {
    for PendingInput { slot, .. } in pending {
        slot.complete(Err(CallError::Cancelled));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::response_slot::ResponseEvent;
    use mcp_proto::schema::ListRootsParams;
    use std::{
        sync::atomic::Ordering,
        task::{Context, Poll, Wake, Waker},
    };

    /// A waker that checks that no lock is held.
    struct LockCheck {
        tasks: Arc<Tasks>,
        task: Arc<Task>,
        woken: AtomicUsize,
    }

    impl Wake for LockCheck {
        fn wake(self: Arc<Self>) {
            assert!(self.tasks.table.try_lock().is_ok() && self.task.state.try_lock().is_ok(), "a lock is held");
            self.woken.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn wakes_tasks_without_holding_the_lock() {
        type End = fn(&Tasks, &Task);
        let ends: [End; 2] = [
            |tasks, _| drop(tasks.expire(Timestamp::after_zero(Duration::from_secs(7200)))),
            |tasks, task| tasks.finish(Timestamp::ZERO, task, Err(ErrorObject::internal("no"))),
        ];
        for end in ends {
            let tasks = Arc::new(Tasks::new(TaskPolicy::default(), Random::default(), None));
            let in_flight = InFlight::of_task("x".into(), None);
            let task = tasks
                .create(Timestamp::ZERO, (None, vec![]), TaskHolder::Connection(1), &in_flight, 100)
                .expect("a task");
            let input_request = ListRootsParams::default().into();
            let (_, slot) =
                tasks.add_input_request(Timestamp::ZERO, &task, None, input_request).expect("there is room");
            let lock_check =
                Arc::new(LockCheck { tasks: tasks.clone(), task: task.clone(), woken: AtomicUsize::new(0) });
            let waker = Waker::from(lock_check.clone());
            assert!(slot.poll(&Context::from_waker(&waker)).is_pending());
            end(&tasks, &task);
            assert_eq!(lock_check.woken.load(Ordering::Relaxed), 1);
            let ended = slot.poll(&Context::from_waker(&waker));
            assert!(matches!(ended, Poll::Ready(ResponseEvent::End(Err(CallError::Cancelled)))));
        }
    }

    pub(super) fn at(seconds: u64) -> Timestamp {
        Timestamp::after_zero(Duration::from_secs(seconds))
    }

    pub(super) fn create(tasks: &Tasks, size: usize) -> Arc<Task> {
        let in_flight = InFlight::of_task("x".into(), None);
        tasks.create(at(0), (None, vec![]), TaskHolder::Connection(1), &in_flight, size).expect("a task")
    }

    #[test]
    fn tasks_have_the_size_of_their_params_then_of_their_results() {
        let json = |text: &str| mcp_proto::wire::Json::parse(text).expect("JSON");
        let error = || ErrorObject::internal("no luck");
        let result = || CallToolResult::text("done");
        let written = At(&result(), Some(VERSION)).to_json().expect("JSON").get().len();
        for (answer, message, size) in [
            (Ok(result()), None, written),
            (Ok(result()), Some("half"), written + 4),
            (Err(error()), None, 14),
            (Err(error()), Some("half"), 14),
            (Err(error().with_data(json("\"data\""))), None, 20),
        ] {
            let begun = |params: usize, max_bytes_per_principal: usize| {
                let policy = TaskPolicy { max_bytes_per_principal, ..TaskPolicy::default() };
                let tasks = Tasks::new(policy, Random::default(), None);
                let task = create(&tasks, params);
                message.iter().for_each(|message| tasks.set_status_message(at(1), &task, message));
                assert_eq!(lock(&task.state).size, params + message.map_or(0, str::len));
                tasks.finish(at(2), &task, answer.clone());
                (tasks, task)
            };
            let (tasks, task) = begun(100, size.max(104));
            let state = lock(&task.state);
            assert_eq!((state.size, tasks.bytes.load(Ordering::Relaxed)), (size, size), "{answer:?}");
            let outcome = state.outcome.as_ref().expect("it has ended");
            assert_eq!(outcome.as_ref().err(), answer.as_ref().err());
            let (tasks, task) = begun(1, size - 1);
            let state = lock(&task.state);
            assert_eq!((state.size, tasks.bytes.load(Ordering::Relaxed)), (0, 0), "{answer:?}");
            assert_eq!(state.message.as_deref(), Some("The results of tasks are larger than the limit"));
        }
    }

    #[test]
    fn equal_messages_and_repeated_cancellations_change_nothing() {
        let tasks = Tasks::new(TaskPolicy::default(), Random::default(), None);
        let task = create(&tasks, 10);
        let state = || {
            let state = lock(&task.state);
            (state.revision, state.updated, state.size)
        };
        tasks.set_status_message(at(1), &task, "half");
        assert_eq!(state(), (1, at(1), 14));
        tasks.set_status_message(at(2), &task, "half");
        assert_eq!(state(), (1, at(1), 14));
        tasks.set_status_message(at(3), &task, "all");
        assert_eq!(state(), (2, at(3), 13));
        tasks.cancel(at(4), &task);
        let cancelled = state();
        tasks.cancel(at(5), &task);
        assert_eq!((state(), lock(&task.state).cancelled), (cancelled, true));
        let ended = create(&tasks, 10);
        tasks.finish(at(6), &ended, Ok(CallToolResult::text("done")));
        tasks.cancel(at(7), &ended);
        tasks.set_status_message(at(7), &ended, "late");
        let state = lock(&ended.state);
        assert_eq!((state.cancelled, &state.status, &state.message), (false, &TaskStatus::Completed, &None));
    }

    #[test]
    fn only_a_running_task_with_room_requests_input() {
        let policy = TaskPolicy { max_input_requests: 2, ..TaskPolicy::default() };
        let tasks = Tasks::new(policy, Random::default(), None);
        let add = |task: &Task| tasks.add_input_request(at(1), task, None, ListRootsParams::default().into()).is_some();
        let task = create(&tasks, 0);
        assert_eq!([add(&task), add(&task), add(&task)], [true, true, false]);
        let [cancelled, ended] = [(); 2].map(|()| create(&tasks, 0));
        tasks.cancel(at(2), &cancelled);
        tasks.finish(at(2), &ended, Ok(CallToolResult::text("done")));
        assert_eq!([add(&cancelled), add(&ended)], [false, false]);
    }
}
