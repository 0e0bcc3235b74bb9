//! The receiving side of tasks (2025-11-25): `tasks/*`, and requests that become tasks.

use std::sync::Arc;

use mcp_proto::{
    connection::{CancelCause, SendError},
    protocol::{Capability, Method, ProtocolVersion},
    rpc::ReplyKey,
    schema::{
        At, CancelTaskParams, CancelTaskResult, CreateTaskResult, Encode, GetTaskParams, GetTaskPayloadParams,
        GetTaskPayloadResult, GetTaskResult, ListTasksParams, ListTasksResult, Meta, TaskMetadata,
    },
    wire::{ErrorObject, Json, RawJson},
};

use crate::{
    driver_api::{
        connection_handle::ConnectionHandle,
        deferred::Deferred,
        job::{HandlerKind, Job, Schedule},
    },
    inbound::{
        answer::{Answer, respond},
        context::Context,
        custom_methods::Dispatch,
        in_flight::{Origin, Work},
        request::{Asked, params},
        responder::Reply,
        session_tasks::{Effects, tell},
        span::Span,
        state::Shared,
    },
};

/// Responses for which the outbox had no room.
type Answers = Vec<(ReplyKey, Answer<Json>)>;

/// The only revision with these tasks.
const VERSION: ProtocolVersion = ProtocolVersion::V2025_11_25;

fn json<T: Encode>(result: &T) -> Answer<Json> {
    At(result, Some(VERSION))
        .to_json()
        .map_err(|error| ErrorObject::internal(format!("The result cannot be sent: {error}")))
}

impl<E: Dispatch> Shared<E> {
    /// Answers `tasks/*`.
    pub(crate) fn asked_about_tasks(self: &Arc<Self>, method: Method, asked: &Asked<'_, E>) -> Option<Job> {
        let span = Span::of(asked);
        span.within(|| self.deal_with_tasks(method, asked))
    }

    fn deal_with_tasks(self: &Arc<Self>, method: Method, asked: &Asked<'_, E>) -> Option<Job> {
        let Asked { connection, key, params, .. } = asked;
        let (key, params) = (*key, params.as_ref());
        let mut effects = connection.update(|_, now| self.tasks.expire(now));
        match self.about_tasks(connection, method, key, params, &mut effects) {
            Ok(None) => {}
            Ok(Some(result)) => effects.answers.push((key, Ok(result))),
            Err(error) => effects.answers.push((key, Err(error))),
        }
        self.carry_out(connection, effects)
    }

    fn about_tasks(
        &self,
        connection: &Arc<dyn ConnectionHandle<E>>,
        method: Method,
        key: ReplyKey,
        raw: Option<&RawJson<'_>>,
        effects: &mut Effects<E::Work>,
    ) -> Answer<Option<Json>> {
        match method {
            Method::GetTask => {
                let GetTaskParams { task_id, .. } = params(raw)?;
                json(&GetTaskResult::from(self.tasks.get(&task_id)?)).map(Some)
            }
            Method::GetTaskResult => {
                let GetTaskPayloadParams { task_id, .. } = params(raw)?;
                self.tasks.result(&task_id, key).transpose()
            }
            Method::ListTasks => {
                let ListTasksParams { cursor, .. } = params(raw)?;
                let (tasks, next_cursor) = self.tasks.list(cursor.as_deref())?;
                json(&ListTasksResult { next_cursor, ..ListTasksResult::new(tasks) }).map(Some)
            }
            Method::CancelTask => {
                let CancelTaskParams { task_id, .. } = params(raw)?;
                let (task, more) = connection.update(|_, now| self.tasks.cancel(now, &task_id))?;
                effects.answers.extend(more.answers);
                effects.changed.extend(more.changed);
                effects.stop.extend(more.stop);
                json(&CancelTaskResult::from(task)).map(Some)
            }
            other => Err(ErrorObject::method_not_found(other.as_str())),
        }
    }

    /// Applies the effects of a change. Returns a job if the outbox had no room for all responses.
    fn carry_out(
        self: &Arc<Self>,
        connection: &Arc<dyn ConnectionHandle<E>>,
        effects: Effects<E::Work>,
    ) -> Option<Job> {
        let left = self.carry_out_now(connection, effects);
        let (shared, connection) = (self.clone(), connection.clone());
        (!left.is_empty())
            .then(|| Job::future(Schedule::Concurrent, async move { shared.send_answers(&connection, left).await }))
    }

    /// Applies the effects of a change. Returns the responses for which the outbox had no room.
    fn carry_out_now(&self, connection: &Arc<dyn ConnectionHandle<E>>, effects: Effects<E::Work>) -> Answers {
        let Effects { answers, changed, stop } = effects;
        for work in stop {
            self.stop(connection, &work, CancelCause::Peer(None));
        }
        connection.update(|conn, _| {
            for task in changed {
                tell(conn, task);
            }
            answers.into_iter().filter(|(key, answer)| !respond(conn, *key, answer)).collect()
        })
    }

    async fn send_answers(self: &Arc<Self>, connection: &Arc<dyn ConnectionHandle<E>>, answers: Answers) {
        for (key, answer) in answers {
            Reply::new(self, connection, key).send(answer).await;
        }
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
    /// `fault` returns the reason if a result means that the task has failed.
    pub(crate) fn work_as_task<T: Encode + Send + 'static>(
        self: &Arc<Self>,
        asked: &Asked<'_, E>,
        meta: Option<Meta>,
        task: TaskMetadata,
        kind: HandlerKind,
        fault: fn(&T) -> Option<String>,
        f: impl FnOnce(&Context<E>) -> Deferred<Answer<T>> + Send + 'static,
    ) -> Job {
        let Asked { connection, key, .. } = *asked;
        let scope = self.request_scope(asked);
        // It begins at once, so that the peer is told before anything else is said of it.
        let weight = asked.params.as_ref().map_or(0, |params| params.get().len());
        let mut begun = self.begin_task(connection, Reply::new(self, connection, key), meta.clone(), (&task, weight));
        let (shared, connection) = (self.clone(), connection.clone());
        let work = async move {
            let duty = loop {
                match begun {
                    Begun::Task(duty) => break duty,
                    Begun::Refused(reply, error) => return reply.send(Answer::<Json>::Err(error)).await,
                    Begun::Busy(reply) => {
                        let has_room =
                            || connection.read(|conn| if conn.has_room() { Ok(()) } else { Err(SendError::Busy) });
                        // It is only ever refused as busy.
                        let _ = connection.when_writable(has_room).await;
                        begun = shared.begin_task(&connection, reply, meta.clone(), (&task, weight));
                    }
                }
            };
            let context = shared.context(&connection, duty.work.clone());
            let answer = if context.is_cancelled() {
                Err(ErrorObject::internal("Cancelled"))
            } else {
                scope.run(&context, f).await
            };
            duty.end(answer, fault).await;
        };
        Job::of(kind, Schedule::Concurrent, move || Deferred::new(work))
    }

    /// Creates a task and responds with it, unless the outbox has no room.
    fn begin_task(
        self: &Arc<Self>,
        connection: &Arc<dyn ConnectionHandle<E>>,
        reply: Reply<E>,
        meta: Option<Meta>,
        (task, weight): (&TaskMetadata, usize),
    ) -> Begun<E> {
        let key = reply.key();
        let effects = connection.update(|_, now| self.tasks.expire(now));
        // A client that waits for an expired task and does not read gets no more than one attempt.
        self.give_up(connection, self.carry_out_now(connection, effects));
        let begun = connection.update(|conn, now| {
            let mut work = None;
            let task = self.tasks.create(now, task.ttl, weight, |id| {
                let begun = Work::of_task(id, meta);
                let _ = begun.info.set(Box::new(E::info(conn, Some(key))));
                work = Some(begun.clone());
                begun
            })?;
            let id = task.task_id.clone();
            match conn.respond_task(key, &CreateTaskResult::new(task)) {
                Ok(progress) => self.tasks.follow(&id, progress),
                Err(SendError::Busy) => {
                    self.tasks.discard(&id);
                    return Ok(None);
                }
                // The connection has ended, or is about to: so has the task.
                Err(_) => self.tasks.discard(&id),
            }
            Ok(work)
        });
        match begun {
            Ok(Some(work)) => {
                reply.given();
                Begun::Task(Duty { shared: self.clone(), connection: connection.clone(), work, owed: true })
            }
            Ok(None) => Begun::Busy(reply),
            Err(error) => Begun::Refused(reply, error),
        }
    }

    /// Tries to respond to the requests that wait for these results with an error.
    fn give_up(self: &Arc<Self>, connection: &Arc<dyn ConnectionHandle<E>>, answers: Answers) {
        answers.into_iter().for_each(|(key, _)| drop(Reply::new(self, connection, key)));
    }
}

/// The outcome of a request for a task.
enum Begun<E: Dispatch> {
    Task(Duty<E>),
    Refused(Reply<E>, ErrorObject),
    /// The outbox had no room for the response.
    Busy(Reply<E>),
}

/// The execution of a task. Dropping it early ends the task, with an error.
struct Duty<E: Dispatch> {
    shared: Arc<Shared<E>>,
    connection: Arc<dyn ConnectionHandle<E>>,
    work: Arc<Work<E::Work>>,
    owed: bool,
}

impl<E: Dispatch> Duty<E> {
    async fn end<T: Encode>(mut self, answer: Answer<T>, fault: fn(&T) -> Option<String>) {
        self.owed = false;
        let left = self.finish(answer, fault);
        self.shared.send_answers(&self.connection, left).await;
    }

    /// Finishes the task. Returns the responses for which the outbox had no room.
    fn finish<T: Encode>(&self, answer: Answer<T>, fault: fn(&T) -> Option<String>) -> Answers {
        let Origin::Task(id) = &self.work.origin else { return Answers::new() };
        let fault = answer.as_ref().ok().and_then(fault);
        // `tasks/result` says to which task it belongs.
        let outcome = answer.and_then(|result| {
            let payload = GetTaskPayloadResult::of(&result, id.as_str());
            payload
                .map_err(|error| ErrorObject::internal(format!("The result cannot be sent: {error}")))
                .and_then(|payload| json(&payload))
        });
        let effects = self.connection.update(|_, now| self.shared.tasks.finish(now, id, outcome, fault));
        self.shared.carry_out_now(&self.connection, effects)
    }
}

impl<E: Dispatch> Drop for Duty<E> {
    fn drop(&mut self) {
        if self.owed {
            let error = ErrorObject::internal("The work on this task was given up");
            let left = self.finish(Answer::<Json>::Err(error), |_| None);
            self.shared.give_up(&self.connection, left);
        }
    }
}
