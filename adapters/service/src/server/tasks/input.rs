//! Requests of a task for input. They are part of the task until the client responds.

use std::{future::poll_fn, sync::Arc};

use mcp_proto::{
    connection::{SendError, ServerRole},
    protocol::ProtocolVersion,
    rpc::Timestamp,
    schema::{CreateMessageResult, ElicitParams, ElicitResult, InputRequest, InputResponses, ListRootsResult, Request},
    wire::{ErrorObject, Json, JsonObject, RawJson},
};
use serde_core::de::DeserializeOwned;

use super::clock::sleep_detached;
use super::store::{Task, Tasks};
use crate::{
    driver_api::deferred::{Deferred, select_biased},
    inbound::{context::Context, rpc_result::RpcResult},
    outbound::{
        error::CallError,
        response_slot::{ResponseEvent, ResponseSlot},
    },
    util::{elicitation_form as form, text_arguments::excerpt},
};

impl Context<ServerRole> {
    /// Requests input on behalf of a task. The request is part of the task until the client responds or the returned
    /// result is dropped.
    pub(in crate::server) fn ask_in_task<R>(
        &self,
        task: &Arc<Task>,
        name: Option<&str>,
        question: R,
    ) -> Deferred<Result<R::Result, CallError>>
    where
        R: Request<Result: Send> + Into<InputRequest> + Send + 'static,
    {
        let asked = self.check().and_then(|()| self.register_input_request(task, name, question));
        let (slot, asking) = match asked {
            Ok(asked) => asked,
            Err(error) => return Deferred::ready(Err(error)),
        };
        let patience = self.options().and_then(|options| options.total_timeout);
        Deferred::new(async move {
            let Context { connection, in_flight, shared, .. } = &asking.context;
            let answered =
                async { in_flight.unless_cancelled(answer(&slot)).await.unwrap_or(Err(CallError::Cancelled)) };
            let answer = match patience {
                None => answered.await,
                Some(patience) => {
                    let until = connection.update(|_, now| now) + patience;
                    let answered = select_biased(answered, sleep_detached(connection, &shared.calls, until)).await;
                    answered.unwrap_or(Err(CallError::TimedOut { total: true }))
                }
            };
            answer?.decode().map_err(|error| CallError::Decode(error.to_string()))
        })
    }

    fn register_input_request<R: Request + Into<InputRequest>>(
        &self,
        task: &Arc<Task>,
        name: Option<&str>,
        question: R,
    ) -> Result<(Arc<ResponseSlot>, PendingInputRequest), CallError> {
        let declared = self.info().client_capabilities.set();
        let mut needed = R::METHOD.needs(ProtocolVersion::LATEST).into_iter().chain(question.needs().iter());
        if let Some(missing) = needed.find(|needed| !declared.contains(*needed)) {
            return Err(SendError::Undeclared(missing).into());
        }
        drop(needed);
        let tasks = self.service().tasks();
        let asked = tasks.ask(self.shared.task_time(&self.connection), task, name, question.into());
        let Some((key, slot)) = asked else {
            // The task was cancelled or has expired in the meantime, or has no room for the request.
            self.check()?;
            return Err(SendError::Busy.into());
        };
        tasks.tell(task);
        Ok((slot, PendingInputRequest { context: self.clone(), task: task.clone(), key }))
    }
}

/// A pending request of a task for input. Dropping it withdraws the request.
struct PendingInputRequest {
    context: Context<ServerRole>,
    task: Arc<Task>,
    key: String,
}

impl Drop for PendingInputRequest {
    fn drop(&mut self) {
        let Context { shared, connection, .. } = &self.context;
        let tasks = self.context.service().tasks();
        if tasks.withdraw(shared.task_time(connection), &self.task, &self.key) {
            tasks.tell(&self.task);
        }
    }
}

async fn answer(slot: &ResponseSlot) -> Result<RawJson<'static>, CallError> {
    loop {
        if let ResponseEvent::End(end) = poll_fn(|cx| slot.poll(cx)).await {
            return end;
        }
    }
}

impl Tasks {
    /// Delivers the client's responses to a task's requests for input. Responses to other requests are ignored. If one
    /// response is invalid, none is delivered.
    pub(super) fn answer(&self, now: Timestamp, task: &Task, answers: &InputResponses) -> RpcResult<()> {
        let mut given = Vec::new();
        for (key, answer) in answers {
            let Some((question, slot)) = self.asked(task, key) else { continue };
            check(&question, answer).map_err(|why| {
                ErrorObject::invalid_params(excerpt(&format_args!("Invalid params: inputResponses: {key}: {why}")))
            })?;
            given.push((key, answer, slot));
        }
        for (key, answer, slot) in given {
            // Another response may have completed it in between.
            if self.withdraw(now, task, key) {
                slot.complete(Ok(RawJson::from(&Json::from(answer.clone())).into_owned()));
            }
        }
        Ok(())
    }
}

/// Checks a response against its request. The error says why it is invalid.
fn check(question: &InputRequest, answer: &JsonObject) -> Result<(), String> {
    fn read<T: DeserializeOwned>(answer: &JsonObject) -> Result<T, String> {
        answer.decode().map_err(|error| error.to_string())
    }
    match question {
        InputRequest::CreateMessage(_) => read::<CreateMessageResult>(answer).map(|_| ()),
        InputRequest::ListRoots(_) => read::<ListRootsResult>(answer).map(|_| ()),
        InputRequest::Elicit(asked) => {
            let answer: ElicitResult = read(answer)?;
            match &asked.params {
                ElicitParams::Form(form) => form::check_answer(&form.requested_schema, &answer),
                _ => Ok(()),
            }
        }
        InputRequest::Other(_) => Ok(()),
    }
}
