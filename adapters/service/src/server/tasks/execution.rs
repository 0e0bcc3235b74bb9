//! The execution of requests that may become tasks.

use std::sync::Arc;

use mcp_proto::{
    connection::{Connection, SendError, ServerRole},
    protocol::{Capability, Era, Method},
    rpc::{ReplyKey, Timestamp},
    schema::{CallToolResult, tasks_extension::CreateTaskResult},
    wire::{ErrorObject, RawJson},
};

use super::{
    running::RunningHandler,
    shares::TaskHolder,
    store::{Task, Tasks},
};
use crate::{
    driver_api::{
        connection_handle::ConnectionHandle,
        deferred::Deferred,
        job::{HandlerKind, Job, Schedule},
    },
    inbound::{
        context::Context,
        in_flight::{InFlight, RequestOrigin},
        log,
        replaceable::Replaceable,
        request::InboundRequest,
        responder::Responder,
        rpc_result::RpcResult,
        state::{Role, SessionState},
    },
    outbound::error::CallError,
    server::{
        in_flight::ServerInFlight,
        input_required::{CallerId, InputRounds, RoundResult},
    },
};

/// The permit of a request to become a task. Its client has to have declared the extension.
pub(crate) struct TaskUpgrade {
    /// The principal of the request.
    owner: Option<String>,
    /// The scopes of the tool.
    scopes: Vec<String>,
    /// The size of the params, in bytes.
    weight: usize,
}

/// The time at which a request becomes a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum TaskStart {
    /// Before its handler runs.
    Immediate,
    /// When its handler calls `become_task`.
    Deferred,
}

/// The reason for which a request has not become a task.
enum UpgradeError {
    /// The outbox had no room for the response.
    Busy,
    /// There is no room for another task, or another error.
    Refused(ErrorObject),
    /// The client has cancelled the request.
    Cancelled,
    /// A request for input has no response yet.
    InputRequired,
}

impl SessionState<ServerRole> {
    /// Returns whether a request may become a task: its client has declared the extension. `None` if the request is not
    /// of the modern era, or this server has not declared the extension.
    pub(in crate::server) fn may_become_task(conn: &Connection<ServerRole>, key: ReplyKey) -> Option<bool> {
        let context = conn.context(key).filter(|context| context.era() == Era::Modern)?;
        let offered = conn.capabilities().contains(Capability::TasksExtension);
        offered.then(|| context.client_capabilities.set().contains(Capability::TasksExtension))
    }

    /// Runs a handler whose request becomes a task.
    pub(in crate::server) fn task_job(
        self: &Arc<Self>,
        inbound: &InboundRequest<'_, ServerRole>,
        meta: Option<&RawJson<'_>>,
        (kind, task_start, scopes): (HandlerKind, TaskStart, Vec<String>),
        run: impl FnOnce(&Context) -> Deferred<RpcResult<CallToolResult>> + Send + 'static,
    ) -> RpcResult<Option<Job>> {
        let InboundRequest { connection, key, params, .. } = inbound;
        let (caller, info) = connection.read(|conn| (CallerId::of(conn, *key), ServerRole::info(conn, Some(*key))));
        let Some(caller) = caller else { return Ok(None) };
        let owner = caller.principal.clone();
        let rounds = || InputRounds::begin(&self.app.0.state_signer, Method::CallTool, params.as_ref(), caller);
        let rounds = (task_start == TaskStart::Deferred).then(rounds).transpose()?;
        let in_flight = self.begin_request(inbound, meta, true);
        let scope = self.request_scope(inbound);
        if let Some(received) = in_flight.received.get().filter(|_| self.has_layers()) {
            // The connection will not know the request any more once it is a task.
            let _ = received.id(|| connection.read(|conn| conn.request_id(*key).cloned()));
        }
        let weight = params.as_ref().map_or(0, |params| params.get().len());
        let _ = (
            in_flight.info.set(Box::new(info)),
            in_flight.role.task_upgrade.set(TaskUpgrade { owner, scopes, weight }),
        );
        if let Some(rounds) = rounds {
            let _ = in_flight.role.rounds.set(rounds);
        }
        let run = move |context: &Context| {
            let request = context.clone();
            run(context).map(move |answer| finish_round(&request, answer))
        };
        let responder = Responder::of(self.context(connection, in_flight.clone()), *key);
        let mut execution = TaskExecution {
            shared: self.clone(),
            connection: (*connection).clone(),
            in_flight,
            responder: Some(responder),
            _running: self.app.tasks().running.clone().begin(),
        };
        // A task that starts at once starts before any other event, and even if no thread is free to run it.
        let is_stored = self.app.tasks().store().is_some();
        let is_immediate = task_start == TaskStart::Immediate;
        let mut begun = if is_immediate && !is_stored { execution.begin_task() } else { Ok(()) };
        let future = async move {
            if is_immediate && is_stored {
                begun = execution.begin_stored_task().await;
            }
            while let Err(UpgradeError::Busy) = begun {
                execution.wait_for_capacity().await;
                begun = execution.begin_task();
            }
            if let Err(UpgradeError::Refused(error)) = begun {
                return execution.end(Err(error)).await;
            }
            execution.responder.iter_mut().for_each(Responder::begin);
            let context = execution.shared.context(&execution.connection, execution.in_flight.clone());
            let answer = if context.is_cancelled() {
                Err(ErrorObject::internal("Cancelled"))
            } else {
                scope.run(&context, run).await
            };
            execution.end(answer).await;
        };
        Ok(Some(Job::of(kind, Schedule::Concurrent, move || Deferred::new(future)).outliving()))
    }

    /// Makes a request a task, and responds with the task.
    fn begin_shared_task(
        self: &Arc<Self>,
        connection: &Arc<dyn ConnectionHandle<ServerRole>>,
        in_flight: &Arc<InFlight<ServerInFlight>>,
    ) -> Result<(), UpgradeError> {
        let (RequestOrigin::Request(key), Some(task_upgrade)) = (&in_flight.origin, in_flight.role.task_upgrade.get())
        else {
            return Ok(());
        };
        self.expire_tasks(connection);
        let tasks = self.app.tasks();
        let holder = TaskHolder::of(task_upgrade.owner.as_deref(), &**connection, self.calls.number());
        connection.update(|conn, now| {
            // A task that cannot be announced yet must not take the place of an older one.
            has_room(conn).map_err(|_| UpgradeError::Busy)?;
            let task = self.create_task(conn, now, holder, in_flight)?;
            let announced = announce_task(conn, tasks, *key, &task);
            match announced {
                Ok(()) => self.note_task(*key, in_flight, task),
                Err(_) => tasks.discard(&task),
            }
            announced
        })?;
        self.watch_tasks(connection);
        Ok(())
    }

    /// Makes a request a task as [`begin_shared_task`](Self::begin_shared_task) does, after the task was stored for
    /// other processes.
    async fn begin_stored_task(
        self: Arc<Self>,
        connection: Arc<dyn ConnectionHandle<ServerRole>>,
        in_flight: Arc<InFlight<ServerInFlight>>,
    ) -> Result<(), UpgradeError> {
        let (RequestOrigin::Request(key), Some(task_upgrade), Some(store)) =
            (&in_flight.origin, in_flight.role.task_upgrade.get(), self.app.tasks().store())
        else {
            return Ok(());
        };
        self.expire_tasks(&connection);
        let holder = TaskHolder::of(task_upgrade.owner.as_deref(), &*connection, self.calls.number());
        let task = loop {
            let created = connection.update(|conn, now| {
                // A task that cannot be announced yet must not take the place of an older one.
                has_room(conn).map_err(|_| UpgradeError::Busy)?;
                self.create_task(conn, now, holder.clone(), &in_flight)
            });
            match created {
                Err(UpgradeError::Busy) => wait_for_room(&connection, &in_flight).await?,
                created => break created?,
            }
        };
        let tasks = self.app.tasks();
        let unannounced = UnannouncedTask { tasks, task: Some(task.clone()) };
        let stored = in_flight.unless_cancelled(store.put(tasks.record_of(&task))).await;
        stored.ok_or(UpgradeError::Cancelled)?.map_err(|_| {
            log::failed("a task cannot be stored");
            UpgradeError::Refused(ErrorObject::internal("The task cannot be stored"))
        })?;
        loop {
            // The handler may have done other things while it was stored.
            if in_flight.role.task.get().is_some() {
                return Ok(());
            }
            if has_open_requests(&in_flight) {
                return Err(UpgradeError::InputRequired);
            }
            let announced = connection.update(|conn, _| match conn.is_open(*key) {
                true => {
                    let announced = announce_task(conn, tasks, *key, &task);
                    announced.map(|()| self.note_task(*key, &in_flight, task.clone()))
                }
                false => Err(UpgradeError::Cancelled),
            });
            match announced {
                Err(UpgradeError::Busy) => wait_for_room(&connection, &in_flight).await?,
                announced => break announced?,
            }
        }
        unannounced.keep();
        self.watch_tasks(&connection);
        Ok(())
    }

    /// Notes that a request is a task now: the end of its connection does not cancel its handler any more. To be called
    /// under the lock of the connection, since the connection may end as soon as the response with the task was sent.
    fn note_task(&self, key: ReplyKey, in_flight: &InFlight<ServerInFlight>, task: Arc<Task>) {
        let _ = in_flight.role.task.set(task);
        self.in_flight.end(key);
    }

    /// Creates the task of a request that is open.
    fn create_task(
        &self,
        conn: &Connection<ServerRole>,
        now: Timestamp,
        holder: TaskHolder,
        in_flight: &Arc<InFlight<ServerInFlight>>,
    ) -> Result<Arc<Task>, UpgradeError> {
        let (RequestOrigin::Request(key), Some(task_upgrade)) = (&in_flight.origin, in_flight.role.task_upgrade.get())
        else {
            return Err(UpgradeError::Cancelled);
        };
        if !conn.is_open(*key) {
            return Err(UpgradeError::Cancelled);
        }
        let owner = (task_upgrade.owner.clone(), task_upgrade.scopes.clone());
        let now = self.task_time_at(now);
        self.app.tasks().create(now, owner, holder, in_flight, task_upgrade.weight).map_err(UpgradeError::Refused)
    }
}

/// Responds to a request with its task.
fn announce_task(
    conn: &mut Connection<ServerRole>,
    tasks: &Tasks,
    key: ReplyKey,
    task: &Task,
) -> Result<(), UpgradeError> {
    conn.respond(key, &CreateTaskResult::from(tasks.show(task))).map_err(|error| match error {
        SendError::Busy => UpgradeError::Busy,
        error => UpgradeError::Refused(ErrorObject::internal(error.to_string())),
    })
}

/// A task whose id was not sent to its client yet. Dropping it removes the task.
struct UnannouncedTask<'a> {
    tasks: &'a Tasks,
    task: Option<Arc<Task>>,
}

impl UnannouncedTask<'_> {
    fn keep(mut self) {
        self.task = None;
    }
}

impl Drop for UnannouncedTask<'_> {
    fn drop(&mut self) {
        self.task.iter().for_each(|task| self.tasks.discard(task));
    }
}

impl Context<ServerRole> {
    /// Makes the request a task, if it can be one (2026-07-28): its client gets a handle at once and fetches the result
    /// later. Later requests of the handler for input belong to the task. Returns whether the request is a task now.
    ///
    /// This is for tools with [`defer_task`](crate::Tool::defer_task): calls of other tools become tasks before the
    /// handler runs. In a session the client decides (2025-11-25), and this does nothing.
    ///
    /// The future is pending only while the client does not read and the outbox is full, or while the task is
    /// [stored](crate::ServiceBuilder::task_store). It fails if an earlier request
    /// for input has no response yet, or the request was cancelled.
    pub fn become_task(&self) -> Deferred<Result<bool, CallError>> {
        match self.may_become_task() {
            Ok(None) => {}
            Ok(Some(is_task)) => return Deferred::ready(Ok(is_task)),
            Err(error) => return Deferred::ready(Err(error)),
        }
        let context = self.clone();
        if self.service().tasks().store().is_some() {
            return Deferred::new(async move {
                let Self { shared, connection, in_flight, .. } = context;
                upgraded(shared.begin_stored_task(connection, in_flight).await)
            });
        }
        match self.shared.begin_shared_task(&self.connection, &self.in_flight) {
            Err(UpgradeError::Busy) => Deferred::new(async move {
                loop {
                    let room = context.connection.when_writable(|| context.connection.read(has_room));
                    let waited = context.in_flight.unless_cancelled(room).await;
                    waited.ok_or(CallError::Cancelled)??;
                    if let Some(is_task) = context.may_become_task()? {
                        return Ok(is_task);
                    }
                    match context.shared.begin_shared_task(&context.connection, &context.in_flight) {
                        Err(UpgradeError::Busy) => {}
                        begun => return upgraded(begun),
                    }
                }
            }),
            begun => Deferred::ready(upgraded(begun)),
        }
    }

    /// Returns whether the request is a task; `None` if it may become one now.
    fn may_become_task(&self) -> Result<Option<bool>, CallError> {
        self.check()?;
        if self.task_id().is_some() {
            return Ok(Some(true));
        }
        if self.in_flight.role.task_upgrade.get().is_none() {
            return Ok(Some(false));
        }
        if has_open_requests(&self.in_flight) { Err(CallError::InputRequired) } else { Ok(None) }
    }
}

/// Returns whether a request has become a task.
fn upgraded(begun: Result<(), UpgradeError>) -> Result<bool, CallError> {
    match begun {
        Ok(()) => Ok(true),
        // The handler continues without a task, as for clients that have no tasks.
        Err(UpgradeError::Refused(_)) => Ok(false),
        Err(UpgradeError::Busy) => Err(SendError::Busy.into()),
        Err(UpgradeError::Cancelled) => Err(CallError::Cancelled),
        // The client sends the request again with the input, which would make a second task.
        Err(UpgradeError::InputRequired) => Err(CallError::InputRequired),
    }
}

/// Returns whether a request for input has no response yet.
fn has_open_requests(in_flight: &InFlight<ServerInFlight>) -> bool {
    in_flight.role.rounds.get().is_some_and(|rounds| rounds.has_open_requests())
}

/// Returns the result of a request after a run of its handler. A task has no rounds of input.
fn finish_round(context: &Context, answer: RpcResult<CallToolResult>) -> RpcResult<RoundResult<CallToolResult>> {
    let ServerInFlight { rounds, task, .. } = &context.in_flight.role;
    match rounds.get().filter(|_| task.get().is_none()) {
        Some(rounds) => rounds.finish(&context.service().0.state_signer, answer, CallToolResult::is_error),
        None => answer.map(RoundResult::Complete),
    }
}

/// Returns the result of a task.
fn task_result(result: Replaceable<RoundResult<CallToolResult>>) -> RpcResult<CallToolResult> {
    let internal = || ErrorObject::internal("Internal error");
    let result = match result {
        Replaceable::Handler(result) => result,
        Replaceable::Encoded(encoded) => encoded.0,
        Replaceable::Replaced(replaced) => return replaced.result.decode().map_err(|_| internal()),
    };
    match result {
        RoundResult::Complete(result) => Ok(result),
        RoundResult::InputRequired(_) => Err(internal()),
    }
}

fn has_room(conn: &Connection<ServerRole>) -> Result<(), SendError> {
    if conn.has_room() { Ok(()) } else { Err(SendError::Busy) }
}

/// Waits until the outbox has room for a response. Fails if the request is cancelled before.
async fn wait_for_room(
    connection: &Arc<dyn ConnectionHandle<ServerRole>>,
    in_flight: &InFlight<ServerInFlight>,
) -> Result<(), UpgradeError> {
    let room = connection.when_writable(|| connection.read(has_room));
    // It is only ever refused as busy.
    in_flight.unless_cancelled(room).await.map(drop).ok_or(UpgradeError::Cancelled)
}

/// The execution of a request that may become a task. Dropping it early ends the request or the task, too.
struct TaskExecution {
    shared: Arc<SessionState<ServerRole>>,
    connection: Arc<dyn ConnectionHandle<ServerRole>>,
    in_flight: Arc<InFlight<ServerInFlight>>,
    /// The responder of the request. Taken when it was used.
    responder: Option<Responder<ServerRole>>,
    /// Dropped last, when the end of the task was noted for its store.
    _running: RunningHandler,
}

impl TaskExecution {
    fn begin_task(&mut self) -> Result<(), UpgradeError> {
        self.shared.begin_shared_task(&self.connection, &self.in_flight)
    }

    async fn begin_stored_task(&self) -> Result<(), UpgradeError> {
        let Self { shared, connection, in_flight, .. } = self;
        shared.clone().begin_stored_task(connection.clone(), in_flight.clone()).await
    }

    async fn wait_for_capacity(&self) {
        // It is only ever refused as busy.
        let _ = self.connection.when_writable(|| self.connection.read(has_room)).await;
    }

    async fn end(mut self, answer: RpcResult<Replaceable<RoundResult<CallToolResult>>>) {
        let Some(responder) = self.responder.take() else { return };
        if self.in_flight.role.task.get().is_some() {
            responder.disarm();
            return self.finish(answer.and_then(task_result));
        }
        responder.send(answer).await;
    }

    /// Finishes the task.
    fn finish(&self, answer: RpcResult<CallToolResult>) {
        let Some(task) = self.in_flight.role.task.get() else { return };
        let tasks = self.shared.app.tasks();
        tasks.finish(self.shared.task_time(&self.connection), task, answer);
        tasks.notify_subscribers(task);
    }
}

impl Drop for TaskExecution {
    fn drop(&mut self) {
        if let Some(responder) = self.responder.take()
            && self.in_flight.role.task.get().is_some()
        {
            responder.disarm();
            self.finish(Err(ErrorObject::internal("The handler of this task was dropped")));
        }
    }
}
