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
    pub(in crate::server) fn request_in_task<R>(
        &self,
        task: &Arc<Task>,
        name: Option<&str>,
        input_request: R,
    ) -> Deferred<Result<R::Result, CallError>>
    where
        R: Request<Result: Send> + Into<InputRequest> + Send + 'static,
    {
        let registered = self.check().and_then(|()| self.register_input_request(task, name, input_request));
        let (slot, pending_request) = match registered {
            Ok(registered) => registered,
            Err(error) => return Deferred::ready(Err(error)),
        };
        let timeout = self.options().and_then(|options| options.total_timeout);
        Deferred::new(async move {
            let Context { connection, in_flight, shared, .. } = &pending_request.context;
            let responded = async {
                in_flight.unless_cancelled(wait_for_response(&slot)).await.unwrap_or(Err(CallError::Cancelled))
            };
            let response = match timeout {
                None => responded.await,
                Some(timeout) => {
                    let until = connection.update(|_, now| now) + timeout;
                    let responded = select_biased(responded, sleep_detached(connection, &shared.calls, until)).await;
                    responded.unwrap_or(Err(CallError::TimedOut { total: true }))
                }
            };
            response?.decode().map_err(|error| CallError::Decode(error.to_string()))
        })
    }

    fn register_input_request<R: Request + Into<InputRequest>>(
        &self,
        task: &Arc<Task>,
        name: Option<&str>,
        input_request: R,
    ) -> Result<(Arc<ResponseSlot>, PendingInputRequest), CallError> {
        let declared = self.info().client_capabilities.set();
        let mut needed = R::METHOD.needs(ProtocolVersion::LATEST).into_iter().chain(input_request.needs().iter());
        if let Some(missing) = needed.find(|needed| !declared.contains(*needed)) {
            return Err(SendError::Undeclared(missing).into());
        }
        drop(needed);
        let tasks = self.service().tasks();
        let added = tasks.add_input_request(self.shared.task_time(&self.connection), task, name, input_request.into());
        let Some((key, slot)) = added else {
            // The task was cancelled or has expired in the meantime, or has no room for the request.
            self.check()?;
            return Err(SendError::Busy.into());
        };
        tasks.notify_subscribers(task);
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
            tasks.notify_subscribers(&self.task);
        }
    }
}

async fn wait_for_response(slot: &ResponseSlot) -> Result<RawJson<'static>, CallError> {
    loop {
        if let ResponseEvent::End(end) = poll_fn(|cx| slot.poll(cx)).await {
            return end;
        }
    }
}

impl Tasks {
    /// Delivers the client's responses to a task's requests for input. Responses to other requests are ignored. If one
    /// response is invalid, none is delivered.
    pub(super) fn deliver_responses(&self, now: Timestamp, task: &Task, responses: &InputResponses) -> RpcResult<()> {
        let mut given = Vec::new();
        for (key, response) in responses {
            let Some((input_request, slot)) = self.pending_input(task, key) else { continue };
            check_response(key, &input_request, response)?;
            given.push((key, response, slot));
        }
        for (key, response, slot) in given {
            // Another response may have completed it in between.
            if self.withdraw(now, task, key) {
                slot.complete(Ok(RawJson::from(&Json::from(response.clone())).into_owned()));
            }
        }
        Ok(())
    }
}

/// Checks a response against its request.
pub(super) fn check_response(key: &str, input_request: &InputRequest, response: &JsonObject) -> RpcResult<()> {
    check(input_request, response).map_err(|why| {
        ErrorObject::invalid_params(excerpt(&format_args!("Invalid params: inputResponses: {key}: {why}")))
    })
}

/// Checks a response against its request. The error says why it is invalid.
fn check(input_request: &InputRequest, response: &JsonObject) -> Result<(), String> {
    fn read<T: DeserializeOwned>(response: &JsonObject) -> Result<T, String> {
        response.decode().map_err(|error| error.to_string())
    }
    match input_request {
        InputRequest::CreateMessage(_) => read::<CreateMessageResult>(response).map(|_| ()),
        InputRequest::ListRoots(_) => read::<ListRootsResult>(response).map(|_| ()),
        InputRequest::Elicit(request) => {
            let response: ElicitResult = read(response)?;
            match &request.params {
                ElicitParams::Form(form) => form::check_answer(&form.requested_schema, &response),
                _ => Ok(()),
            }
        }
        InputRequest::Other(_) => Ok(()),
    }
}
