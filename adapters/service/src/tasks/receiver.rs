//! `tasks/*`, and requests that become tasks.

use std::sync::Arc;

use mcp_proto::{
    connection::{CancelCause, SendError},
    protocol::{Capability, Method, ProtocolVersion},
    rpc::ReplyKey,
    schema::{
        At, CancelTaskParams, CancelTaskResult, CreateTaskResult, Encode, GetTaskParams, GetTaskPayloadParams,
        GetTaskPayloadResult, GetTaskResult, ListTasksParams, ListTasksResult, Meta, TaskMetadata,
    },
    wire::{ErrorObject, Json, RawJson, decode_params},
};
use serde_core::de::DeserializeOwned;

use super::store::{Effects, tell};
use crate::{
    Context, Job, Link, Order, Role,
    reply::{Answer, Reply, guarded, respond},
    role::Asked,
    session::Shared,
    work::Work,
};

/// Tasks exist only here.
const VERSION: ProtocolVersion = ProtocolVersion::V2025_11_25;

/// Reads params, or says what is wrong with them.
pub(crate) fn params<T: DeserializeOwned>(params: Option<&RawJson<'_>>) -> Answer<T> {
    decode_params(params).map_err(|error| ErrorObject::invalid_params(format!("Invalid params: {error}")))
}

fn json<T: Encode>(result: &T) -> Answer<Json> {
    Json::new(&At(result, Some(VERSION)))
        .map_err(|error| ErrorObject::internal(format!("The result cannot be sent: {error}")))
}

impl<E: Role> Shared<E> {
    /// Answers `tasks/*`.
    pub(crate) fn asked_about_tasks(self: &Arc<Self>, method: Method, asked: &Asked<'_, E>) -> Option<Job> {
        let Asked { link, key, params, .. } = asked;
        let (key, params) = (*key, params.as_ref());
        let mut effects = link.run(|_, now| self.tasks.expire(now));
        match self.about_tasks(link, method, key, params, &mut effects) {
            Ok(None) => {}
            Ok(Some(result)) => effects.answers.push((key, Ok(result))),
            Err(error) => effects.answers.push((key, Err(error))),
        }
        self.carry_out(link, effects)
    }

    fn about_tasks(
        &self,
        link: &Arc<dyn Link<E>>,
        method: Method,
        key: ReplyKey,
        raw: Option<&RawJson<'_>>,
        effects: &mut Effects,
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
                let (task, more) = link.run(|_, now| self.tasks.cancel(now, &task_id))?;
                effects.answers.extend(more.answers);
                effects.changed.extend(more.changed);
                effects.stop.extend(more.stop);
                json(&CancelTaskResult::from(task)).map(Some)
            }
            other => Err(ErrorObject::method_not_found(other.as_str())),
        }
    }

    /// Does what follows from a change. A job is left over if the peer does not read its answers.
    fn carry_out(self: &Arc<Self>, link: &Arc<dyn Link<E>>, effects: Effects) -> Option<Job> {
        let Effects { answers, changed, stop } = effects;
        for work in stop {
            self.stop(link, &work, CancelCause::Peer(None));
        }
        let left: Vec<_> = link.run(|conn, _| {
            for task in changed {
                tell(conn, task);
            }
            answers.into_iter().filter(|(key, answer)| !respond(conn, *key, answer)).collect()
        });
        if left.is_empty() {
            return None;
        }
        let (shared, link) = (self.clone(), link.clone());
        Some(Job::new(Order::Concurrent, move || {
            for (key, answer) in left {
                Reply::new(&shared, &link, key).send(&answer);
            }
        }))
    }

    /// Whether a request of the kind that `capability` stands for can become a task. Where it cannot, that it asks for it is
    /// not seen.
    pub(crate) fn has_tasks(&self, link: &Arc<dyn Link<E>>, key: ReplyKey, capability: Capability) -> bool {
        link.run(|conn, _| E::info(conn, Some(key)).version == VERSION && conn.capabilities().contains(capability))
    }

    /// Answers a request with a task, and makes a job of the work on it.
    ///
    /// `fault` finds out from a result whether the task has failed all the same.
    pub(crate) fn work_as_task<T: Encode + 'static>(
        self: &Arc<Self>,
        link: &Arc<dyn Link<E>>,
        key: ReplyKey,
        meta: Option<Meta>,
        task: TaskMetadata,
        fault: fn(&T) -> Option<String>,
        f: impl FnOnce(Context<E>) -> Answer<T> + Send + 'static,
    ) -> Job {
        let begun = self.begin_task(link, key, meta.clone(), &task);
        let (shared, link) = (self.clone(), link.clone());
        match begun {
            Ok(Some(work)) => {
                let context = self.context(&link, work.clone());
                Job::new(Order::Concurrent, move || {
                    let answer = if work.is_cancelled() {
                        Err(ErrorObject::internal("Cancelled"))
                    } else {
                        guarded(|| f(context))
                    };
                    shared.finish_task(&link, &work, answer, fault);
                })
            }
            // There is no room for the answer: the task begins when there is.
            Ok(None) => Job::new(Order::Concurrent, move || {
                link.wait_for_room();
                shared.work_as_task(&link, key, meta, task, fault, f).run();
            }),
            Err(error) => {
                let reply = Reply::new(self, &link, key);
                Job::new(Order::Concurrent, move || reply.send(&Answer::<Json>::Err(error)))
            }
        }
    }

    /// The work on a new task, once the peer is told of it; `None` if there is no room to do so.
    fn begin_task(
        self: &Arc<Self>,
        link: &Arc<dyn Link<E>>,
        key: ReplyKey,
        meta: Option<Meta>,
        task: &TaskMetadata,
    ) -> Answer<Option<Arc<Work>>> {
        let effects = link.run(|_, now| self.tasks.expire(now));
        if let Some(job) = self.carry_out(link, effects) {
            job.run();
        }
        link.run(|conn, now| {
            let mut work = None;
            let task = self.tasks.create(now, task.ttl, |id| {
                let begun = Work::of_task(id, meta);
                let _ = begun.info.set(E::info(conn, Some(key)));
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
        })
    }

    fn finish_task<T: Encode>(
        self: &Arc<Self>,
        link: &Arc<dyn Link<E>>,
        work: &Work,
        answer: Answer<T>,
        fault: fn(&T) -> Option<String>,
    ) {
        let crate::work::Origin::Task(id) = &work.origin else { return };
        let fault = answer.as_ref().ok().and_then(fault);
        // `tasks/result` says to which task it belongs.
        let outcome = answer.and_then(|result| {
            let payload = GetTaskPayloadResult::of(&result, id.as_str());
            payload
                .map_err(|error| ErrorObject::internal(format!("The result cannot be sent: {error}")))
                .and_then(|payload| json(&payload))
        });
        let effects = link.run(|_, now| self.tasks.finish(now, id, outcome, fault));
        if let Some(job) = self.carry_out(link, effects) {
            job.run();
        }
    }
}
