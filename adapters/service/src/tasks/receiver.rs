//! The receiving side of tasks (2025-11-25): `tasks/*`, and requests that become tasks.

use std::{collections::VecDeque, mem, sync::Arc};

use mcp_proto::{
    connection::{CancelCause, SendError},
    protocol::{Capability, Method, ProtocolVersion},
    rpc::ReplyKey,
    schema::{
        At, CancelTaskParams, CancelTaskResult, CreateTaskResult, Encode, GetTaskParams, GetTaskPayloadParams,
        GetTaskPayloadResult, GetTaskResult, ListTasksParams, ListTasksResult, Meta, TaskMetadata,
    },
    wire::{ErrorObject, Json},
};

use crate::{
    driver_api::{
        connection_handle::ConnectionHandle,
        deferred::Deferred,
        job::{HandlerKind, Job, Schedule},
    },
    inbound::{
        context::Context,
        custom_methods::Dispatch,
        in_flight::{InFlight, RequestOrigin},
        replaceable::Replaceable,
        request::{InboundRequest, params},
        responder::Responder,
        rpc_result::{ResponseKind, RpcResult, refuse, respond},
        session_tasks::{Effects, TaskOutcome, notify_status},
        span::Span,
        state::SessionState,
    },
};

/// Returns whether the sender of a request has scopes.
pub(crate) type HasScopes<'a> = &'a dyn Fn(&[String]) -> bool;

/// Responses for which the outbox had no room. Dropping them responds with errors.
struct DueResponses<E: Dispatch> {
    shared: Arc<SessionState<E>>,
    connection: Arc<dyn ConnectionHandle<E>>,
    answers: VecDeque<(ReplyKey, TaskOutcome)>,
}

impl<E: Dispatch> DueResponses<E> {
    /// Sends the responses, each as soon as there is room for it.
    async fn send(mut self) {
        while let Some((key, answer)) = self.answers.pop_front() {
            Responder::new(&self.shared, &self.connection, key).send_when_writable(&*answer).await;
        }
    }

    /// Responds without waiting for room: a result that does not fit is replaced by an error.
    fn give_up(&mut self) {
        let answers = mem::take(&mut self.answers);
        if answers.is_empty() {
            return;
        }
        let dropped = ErrorObject::internal("Too many requests wait to be served");
        self.connection.update_untimed(|conn| {
            for (key, answer) in answers {
                refuse(conn, key, (*answer).as_ref().err().unwrap_or(&dropped));
            }
        });
    }
}

impl<E: Dispatch> Drop for DueResponses<E> {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// The only revision with these tasks.
const VERSION: ProtocolVersion = ProtocolVersion::V2025_11_25;

fn json<T: Encode>(result: &T) -> RpcResult<Json> {
    At(result, Some(VERSION))
        .to_json()
        .map_err(|error| ErrorObject::internal(format!("The result cannot be sent: {error}")))
}

impl<E: Dispatch> SessionState<E> {
    /// Handles `tasks/*`. Lists contain the tasks whose scopes `has_scopes` accepts.
    pub(crate) fn handle_session_task_request(
        self: &Arc<Self>,
        method: Method,
        inbound: &InboundRequest<'_, E>,
        has_scopes: HasScopes<'_>,
    ) -> Option<Job> {
        let span = Span::of(inbound);
        span.within(|| self.deal_with_tasks(method, inbound, has_scopes, &span))
    }

    fn deal_with_tasks(
        self: &Arc<Self>,
        method: Method,
        inbound: &InboundRequest<'_, E>,
        has_scopes: HasScopes<'_>,
        span: &Span,
    ) -> Option<Job> {
        let InboundRequest { connection, key, .. } = *inbound;
        let mut effects = connection.update(|_, now| self.tasks.expire(now));
        let answer = self.about_tasks(method, inbound, (has_scopes, span), &mut effects);
        if let Some(answer) = answer.transpose() {
            effects.answers.push((key, span.clone(), answer.unwrap_or_else(|error| Arc::new(Err(error)))));
        }
        self.apply(connection, effects)
    }

    fn about_tasks(
        &self,
        method: Method,
        inbound: &InboundRequest<'_, E>,
        (has_scopes, span): (HasScopes<'_>, &Span),
        effects: &mut Effects<E::InFlight>,
    ) -> RpcResult<Option<TaskOutcome>> {
        let InboundRequest { connection, key, .. } = *inbound;
        let raw = inbound.params.as_ref();
        let result = match method {
            Method::GetTask => {
                let GetTaskParams { task_id, .. } = params(raw)?;
                json(&GetTaskResult::from(self.tasks.get(&task_id)?))
            }
            Method::GetTaskResult => {
                let GetTaskPayloadParams { task_id, .. } = params(raw)?;
                return Ok(self.tasks.result(&task_id, key, span));
            }
            Method::ListTasks => {
                let ListTasksParams { cursor, .. } = params(raw)?;
                let (tasks, next_cursor) = self.tasks.list(cursor.as_deref(), has_scopes)?;
                json(&ListTasksResult { next_cursor, ..ListTasksResult::new(tasks) })
            }
            Method::CancelTask => {
                let CancelTaskParams { task_id, .. } = params(raw)?;
                let (task, more) = connection.update(|_, now| self.tasks.cancel(now, &task_id))?;
                effects.answers.extend(more.answers);
                effects.changed.extend(more.changed);
                effects.stop.extend(more.stop);
                json(&CancelTaskResult::from(task))
            }
            other => Err(ErrorObject::method_not_found(other.as_str())),
        };
        Ok(Some(Arc::new(result)))
    }

    /// Applies the effects of a change. Returns a job if the outbox had no room for all responses.
    fn apply(
        self: &Arc<Self>,
        connection: &Arc<dyn ConnectionHandle<E>>,
        effects: Effects<E::InFlight>,
    ) -> Option<Job> {
        let left = self.apply_now(connection, effects);
        (!left.answers.is_empty()).then(|| Job::future(Schedule::Concurrent, left.send()))
    }

    /// Applies the effects of a change. Returns the responses for which the outbox had no room.
    fn apply_now(
        self: &Arc<Self>,
        connection: &Arc<dyn ConnectionHandle<E>>,
        effects: Effects<E::InFlight>,
    ) -> DueResponses<E> {
        let Effects { answers, changed, stop } = effects;
        for in_flight in stop {
            self.stop(connection, &in_flight, CancelCause::Peer(None));
        }
        let ended = |(key, span, answer): (ReplyKey, Span, TaskOutcome)| {
            span.end(false, || ResponseKind::of(&answer));
            (key, answer)
        };
        let mut answers: VecDeque<_> = answers.into_iter().map(ended).collect();
        connection.update(|conn, _| {
            for task in changed {
                notify_status(conn, task);
            }
            answers.retain(|(key, answer)| !respond(conn, *key, (**answer).as_ref()));
        });
        DueResponses { shared: self.clone(), connection: connection.clone(), answers }
    }

    /// Returns whether a request of this capability can become a task. If not, its `task` member is ignored.
    pub(crate) fn has_tasks(
        &self,
        connection: &Arc<dyn ConnectionHandle<E>>,
        key: ReplyKey,
        capability: Capability,
    ) -> bool {
        connection.read(|conn| E::info(conn, Some(key)).version == VERSION && conn.capabilities().contains(capability))
    }

    /// Responds to a request with a task, and returns the job of this kind that runs it.
    ///
    /// `task` has the scopes that requests about the task need. `fault` returns the reason if a result means that the
    /// task has failed.
    pub(crate) fn session_task_job<T: Encode + Send + Sync + 'static>(
        self: &Arc<Self>,
        inbound: &InboundRequest<'_, E>,
        meta: Option<Meta>,
        (task, scopes): (TaskMetadata, Vec<String>),
        kind: HandlerKind,
        fault: fn(&T) -> Option<String>,
        f: impl FnOnce(&Context<E>) -> Deferred<RpcResult<T>> + Send + 'static,
    ) -> Job {
        let InboundRequest { connection, key, .. } = *inbound;
        let (scope, received) = (self.request_scope(inbound), self.received_for_task(inbound));
        // The task is created at once, so that the response is sent before any other message about the task.
        let weight = inbound.params.as_ref().map_or(0, |params| params.get().len());
        let mut begun =
            self.begin_task(connection, Responder::new(self, connection, key), meta.clone(), (&task, &scopes, weight));
        let (shared, connection) = (self.clone(), connection.clone());
        let future = async move {
            let execution = loop {
                match begun {
                    TaskCreation::Task(execution) => break execution,
                    TaskCreation::Ended => return,
                    TaskCreation::Refused(responder, error) => {
                        return responder.send(RpcResult::<Json>::Err(error)).await;
                    }
                    TaskCreation::Busy(responder) => {
                        let has_room =
                            || connection.read(|conn| if conn.has_room() { Ok(()) } else { Err(SendError::Busy) });
                        // It is only ever refused as busy.
                        let _ = connection.when_writable(has_room).await;
                        begun = shared.begin_task(&connection, responder, meta.clone(), (&task, &scopes, weight));
                    }
                }
            };
            if let Some(received) = received {
                let _ = execution.in_flight.received.set(received);
            }
            let context = shared.context(&connection, execution.in_flight.clone());
            let answer = if context.is_cancelled() {
                Err(ErrorObject::internal("Cancelled"))
            } else {
                scope.run(&context, f).await
            };
            execution.end(answer, fault).await;
        };
        Job::of(kind, Schedule::Concurrent, move || Deferred::new(future))
    }

    /// Creates a task and responds with it, unless the outbox has no room.
    fn begin_task(
        self: &Arc<Self>,
        connection: &Arc<dyn ConnectionHandle<E>>,
        responder: Responder<E>,
        meta: Option<Meta>,
        (task, scopes, params): (&TaskMetadata, &[String], usize),
    ) -> TaskCreation<E> {
        let key = responder.key();
        let effects = connection.update(|_, now| self.tasks.expire(now));
        // A client that waits for an expired task and does not read gets no more than one attempt.
        drop(self.apply_now(connection, effects));
        // Another token of the same client may have opened the stream that carries notifications.
        let is_announced = scopes.is_empty() || !connection.authenticates();
        let begun = connection.update(|conn, now| {
            if !conn.is_open(key) {
                return Ok(Announcement::Ended);
            }
            // A task that cannot be announced yet must not take the place of an older one.
            if !conn.has_room() {
                return Ok(Announcement::Busy);
            }
            let mut in_flight = None;
            let task =
                self.tasks.create(now, task.ttl, (params, || connection.holder()), (scopes, is_announced), |id| {
                    let begun = InFlight::of_task(id, meta);
                    let _ = begun.info.set(Box::new(E::info(conn, Some(key))));
                    in_flight = Some(begun.clone());
                    begun
                })?;
            let id = task.task_id.clone();
            let refused = match conn.respond_task(key, &CreateTaskResult::new(task)) {
                Ok(progress) => {
                    self.tasks.follow(&id, progress);
                    return Ok(in_flight.map_or(Announcement::Ended, Announcement::Sent));
                }
                Err(SendError::Busy) => Announcement::Busy,
                // The connection has ended, or is about to: so has the task.
                Err(_) => Announcement::Ended,
            };
            self.tasks.discard(&id, params);
            Ok(refused)
        });
        match begun {
            Ok(Announcement::Sent(in_flight)) => {
                responder.disarm();
                let (shared, connection) = (self.clone(), connection.clone());
                TaskCreation::Task(TaskExecution { shared, connection, in_flight, params, owed: true })
            }
            Ok(Announcement::Busy) => TaskCreation::Busy(responder),
            Ok(Announcement::Ended) => TaskCreation::Ended,
            Err(error) => TaskCreation::Refused(responder, error),
        }
    }
}

/// The outcome of a request for a task.
enum TaskCreation<E: Dispatch> {
    Task(TaskExecution<E>),
    Refused(Responder<E>, ErrorObject),
    /// The outbox had no room for the response.
    Busy(Responder<E>),
    /// The request was cancelled or answered, or the connection has ended. Nothing is run.
    Ended,
}

/// The outcome of the response to a request that becomes a task.
enum Announcement<I> {
    Sent(Arc<InFlight<I>>),
    /// The outbox had no room for it.
    Busy,
    /// The request is not open.
    Ended,
}

/// The execution of a task. Dropping it early ends the task, with an error.
struct TaskExecution<E: Dispatch> {
    shared: Arc<SessionState<E>>,
    connection: Arc<dyn ConnectionHandle<E>>,
    in_flight: Arc<InFlight<E::InFlight>>,
    /// The size of the params, which are counted until the handler has ended.
    params: usize,
    owed: bool,
}

impl<E: Dispatch> TaskExecution<E> {
    async fn end<T: Encode>(mut self, answer: RpcResult<Replaceable<T>>, fault: fn(&T) -> Option<String>) {
        let left = self.finish(answer, fault);
        self.owed = false;
        if let Some(left) = left {
            left.send().await;
        }
    }

    /// Finishes the task. Returns the responses for which the outbox had no room.
    fn finish<T: Encode>(
        &self,
        answer: RpcResult<Replaceable<T>>,
        fault: fn(&T) -> Option<String>,
    ) -> Option<DueResponses<E>> {
        let RequestOrigin::Task(id) = &self.in_flight.origin else { return None };
        let fault = answer.as_ref().ok().and_then(|result| result.fault(fault));
        // The result of `tasks/result` names its task.
        let outcome = answer.and_then(|result| {
            let payload = GetTaskPayloadResult::of(&result, id.as_str());
            payload
                .map_err(|error| ErrorObject::internal(format!("The result cannot be sent: {error}")))
                .and_then(|payload| json(&payload))
        });
        let effects = self.connection.update(|_, now| self.shared.tasks.finish(now, (id, self.params), outcome, fault));
        Some(self.shared.apply_now(&self.connection, effects))
    }
}

impl<E: Dispatch> Drop for TaskExecution<E> {
    fn drop(&mut self) {
        if self.owed {
            let error = ErrorObject::internal("The handler of this task was dropped");
            drop(self.finish(RpcResult::<Replaceable<Json>>::Err(error), |_| None));
        }
    }
}
