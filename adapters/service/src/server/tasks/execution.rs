//! The work on a request that may become a task, or has.

use std::sync::Arc;

use mcp_proto::{
    connection::{Connection, SendError, ServerRole},
    protocol::{Capability, Era, Method},
    rpc::ReplyKey,
    schema::{CallToolResult, Meta, tasks_extension::CreateTaskResult},
    wire::ErrorObject,
};

use super::shares::Holder;
use crate::{
    driver_api::{
        connection_handle::ConnectionHandle,
        deferred::Deferred,
        job::{HandlerKind, Job, Schedule},
    },
    inbound::{
        answer::Answer,
        context::Context,
        in_flight::{Origin, Work},
        request::Asked,
        responder::Reply,
        state::{Role, Shared},
    },
    outbound::error::CallError,
    server::{
        in_flight::ServerWork,
        input_required::{Asker, Rounds},
    },
};

/// That a request may become a task, which its client has to have declared.
pub(crate) struct Permit {
    /// Who begins the task.
    owner: Option<String>,
    /// What it was asked, in bytes.
    weight: usize,
}

/// When a request becomes a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Beginning {
    /// Before its handler runs.
    AtOnce,
    /// When its handler says so.
    Later,
}

/// Why a request has not become a task.
enum NotBegun {
    /// There was no room to tell the client.
    Busy,
    /// There are too many tasks, or something else is missing.
    Refused(ErrorObject),
    /// The client does not want it any more.
    Cancelled,
}

impl Shared<ServerRole> {
    /// Whether a request may become a task: it is one of the modern era, and both sides have the extension. `None` if this
    /// side does not offer tasks to it at all.
    pub(in crate::server) fn may_become_task(conn: &Connection<ServerRole>, key: ReplyKey) -> Option<bool> {
        let context = conn.context(key).filter(|context| context.era() == Era::Modern)?;
        let offered = conn.capabilities().contains(Capability::TasksExtension);
        offered.then(|| context.client_capabilities.set().contains(Capability::TasksExtension))
    }

    /// Runs a handler whose request becomes a task.
    pub(in crate::server) fn work_on_task(
        self: &Arc<Self>,
        asked: &Asked<'_, ServerRole>,
        meta: Option<Meta>,
        (kind, beginning): (HandlerKind, Beginning),
        run: impl FnOnce(&Context) -> Deferred<Answer<CallToolResult>> + Send + 'static,
    ) -> Answer<Option<Job>> {
        let Asked { connection, key, params, .. } = asked;
        let (asker, info) = connection.read(|conn| (Asker::of(conn, *key), ServerRole::info(conn, Some(*key))));
        let Some(asker) = asker else { return Ok(None) };
        let owner = asker.principal.clone();
        let rounds = || Rounds::begin(&self.home.0.seal, Method::CallTool, params.as_ref(), asker);
        let rounds = (beginning == Beginning::Later).then(rounds).transpose()?;
        let work = self.works.begin(*key, meta);
        let scope = self.request_scope(asked);
        let weight = params.as_ref().map_or(0, |params| params.get().len());
        let _ = (work.info.set(Box::new(info)), work.role.permit.set(Permit { owner, weight }));
        if let Some(rounds) = rounds {
            let _ = work.role.rounds.set(Box::new(rounds));
        }
        let reply = Reply::of(self.context(connection, work.clone()), *key);
        let mut duty = Duty { shared: self.clone(), connection: (*connection).clone(), work, reply: Some(reply) };
        // A task that starts at once starts before any other event, and even if no thread is free to run it.
        let mut begun = if beginning == Beginning::AtOnce { duty.begin_task() } else { Ok(()) };
        let work = async move {
            while let Err(NotBegun::Busy) = begun {
                duty.room().await;
                begun = duty.begin_task();
            }
            if let Err(NotBegun::Refused(error)) = begun {
                return duty.end(Err(error)).await;
            }
            duty.reply.iter_mut().for_each(Reply::begin);
            let context = duty.shared.context(&duty.connection, duty.work.clone());
            let answer = if context.is_cancelled() {
                Err(ErrorObject::internal("Cancelled"))
            } else {
                scope.run(&context, run).await
            };
            duty.end(answer).await;
        };
        Ok(Some(Job::of(kind, Schedule::Concurrent, move || Deferred::new(work)).outliving()))
    }

    /// Makes a task of a request, and tells the client.
    fn begin_shared_task(
        self: &Arc<Self>,
        connection: &Arc<dyn ConnectionHandle<ServerRole>>,
        work: &Arc<Work<ServerWork>>,
    ) -> Result<(), NotBegun> {
        let (Origin::Request(key), Some(permit)) = (&work.origin, work.role.permit.get()) else { return Ok(()) };
        self.tend_tasks(connection);
        let tasks = self.home.tasks();
        let holder = Holder::of(permit.owner.as_deref(), &**connection, self.calls.number());
        connection.update(|conn, now| {
            if !conn.is_open(*key) {
                return Err(NotBegun::Cancelled);
            }
            let now = self.task_time_at(now);
            let owner = permit.owner.clone();
            let task = tasks.create(now, owner, holder, work, permit.weight).map_err(NotBegun::Refused)?;
            match conn.respond(*key, &CreateTaskResult::from(tasks.show(&task))) {
                Ok(()) => {
                    let _ = work.role.task.set(task);
                    Ok(())
                }
                Err(error) => {
                    tasks.discard(&task);
                    Err(match error {
                        SendError::Busy => NotBegun::Busy,
                        error => NotBegun::Refused(ErrorObject::internal(error.to_string())),
                    })
                }
            }
        })?;
        // What happens to the request or its connection from now on does not concern the work any more.
        self.works.end(*key);
        self.watch_tasks(connection);
        Ok(())
    }
}

impl Context<ServerRole> {
    /// Makes the request a task, if it can be one (2026-07-28): its client gets a handle at once and comes back for the
    /// result, and what is asked from now on is asked by the task. Whether it is a task from now on.
    ///
    /// This is for tools that [begin inline](crate::Tool::defer_task): all others have become tasks before they run, where
    /// they can. In a session it is the client who decides (2025-11-25), and nothing happens.
    ///
    /// It waits only while a client that does not read leaves no room. It fails if a question that was asked before has
    /// no answer yet, or the request was cancelled.
    pub fn become_task(&self) -> Deferred<Result<bool, CallError>> {
        match self.try_to_become_task() {
            Err(CallError::Send(SendError::Busy)) => {
                let context = self.clone();
                Deferred::new(async move {
                    loop {
                        let room = context.connection.when_writable(|| context.connection.read(has_room));
                        let waited = context.work.unless_cancelled(room).await;
                        waited.ok_or(CallError::Cancelled)??;
                        match context.try_to_become_task() {
                            Err(CallError::Send(SendError::Busy)) => {}
                            become_task => return become_task,
                        }
                    }
                })
            }
            become_task => Deferred::ready(become_task),
        }
    }

    fn try_to_become_task(&self) -> Result<bool, CallError> {
        self.check()?;
        if self.task_id().is_some() {
            return Ok(true);
        }
        if self.work.role.permit.get().is_none() {
            return Ok(false);
        }
        if self.work.role.rounds.get().is_some_and(|rounds| rounds.is_asking()) {
            // It comes back with the answers, and would be a second task then.
            return Err(CallError::InputRequired);
        }
        match self.shared.begin_shared_task(&self.connection, &self.work) {
            Ok(()) => Ok(true),
            // It can be done without, as for clients that have no tasks.
            Err(NotBegun::Refused(_)) => Ok(false),
            Err(NotBegun::Busy) => Err(SendError::Busy.into()),
            Err(NotBegun::Cancelled) => Err(CallError::Cancelled),
        }
    }
}

fn has_room(conn: &Connection<ServerRole>) -> Result<(), SendError> {
    if conn.has_room() { Ok(()) } else { Err(SendError::Busy) }
}

/// The execution of a request that may become a task. Dropping it early ends the request or the task, too.
struct Duty {
    shared: Arc<Shared<ServerRole>>,
    connection: Arc<dyn ConnectionHandle<ServerRole>>,
    work: Arc<Work<ServerWork>>,
    /// What the request is owed, until it was given.
    reply: Option<Reply<ServerRole>>,
}

impl Duty {
    fn begin_task(&mut self) -> Result<(), NotBegun> {
        self.shared.begin_shared_task(&self.connection, &self.work)
    }

    async fn room(&self) {
        // It is only ever refused as busy.
        let _ = self.connection.when_writable(|| self.connection.read(has_room)).await;
    }

    async fn end(mut self, answer: Answer<CallToolResult>) {
        let Some(reply) = self.reply.take() else { return };
        if self.work.role.task.get().is_some() {
            reply.given();
            return self.finish(answer);
        }
        match self.work.role.rounds.get() {
            Some(rounds) => {
                let answer = rounds.finish(&self.shared.home.0.seal, answer, CallToolResult::is_error);
                reply.send(answer).await;
            }
            None => reply.send(answer).await,
        }
    }

    /// The task is over.
    fn finish(&self, answer: Answer<CallToolResult>) {
        let Some(task) = self.work.role.task.get() else { return };
        let tasks = self.shared.home.tasks();
        tasks.finish(self.shared.task_time(&self.connection), task, answer);
        tasks.tell(task);
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take()
            && self.work.role.task.get().is_some()
        {
            reply.given();
            self.finish(Err(ErrorObject::internal("The work on this task was given up")));
        }
    }
}
