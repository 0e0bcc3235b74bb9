//! Requests of clients, passed to a backend.

use std::{
    future::{Future, ready},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use mcp_proto::{
    connection::{CancelCause, ClientRole, Connection, Progress, RequestOptions},
    protocol::{Capability, CapabilitySet, Era, Method, ProtocolVersion},
    schema::{
        At, CallToolParams, CallToolResult, CancelTaskParams, ClientCapabilities, CompleteParams, Completion,
        CompletionArgument, CompletionContext, CompletionReference, GetPromptParams, GetPromptResult, LoggingLevel,
        Map, Meta, PromptReference, ReadResourceParams, ReadResourceResult, Request, ResourceTemplateReference,
        TaskMetadata, TaskSupport, keys,
    },
    wire::{ErrorCode, JsonObject, RawJson},
};
use serde_core::de::DeserializeOwned;

use super::{
    call_table::{CallEntry, CallTable, Permit, Question, Registered, WaitingCall},
    error::{BackendError, BackendFault},
    shared::Shared,
};
use crate::{
    driver_api::deferred::{Deferred, select_biased},
    inbound::{completion_request::CompletionRequest, context::Context, failure::Failure},
    outbound::{
        error::CallError,
        peer::Peer,
        pending::{Canceller, Pending, decode},
    },
    server::{
        client_key::ClientKey,
        mount::{prompt_result, read_result, tool_result},
        resource::{Begun, Origin},
        tool_result::ToolAnswer,
    },
    tasks::handle::ResultOrTask,
    util::lock::lock,
};

/// The name under which the state of a request keeps the id of the call that waits for it. Names of backends that are
/// equal to it get a number.
pub(super) const WAITING: &str = "io.modelcontextprotocol.proxy/call";

/// The longest time that a result waits for lists whose changes were announced before it.
const LIST_WAIT: Duration = Duration::from_secs(5);

/// A request in flight at the backend. Dropping it cancels the request.
struct Running<T> {
    result: Pin<Box<dyn Future<Output = Result<T, CallError>> + Send>>,
    canceller: Canceller,
    registered: Registered,
}

impl Shared {
    /// Calls a tool of the backend.
    pub(super) fn call_tool(
        self: &Arc<Self>,
        tool: &mcp_proto::schema::Tool,
        arguments: &RawJson<'_>,
        context: &Context,
    ) -> Deferred<Result<ToolAnswer, Failure>> {
        let arguments = match JsonObject::parse(arguments.get()) {
            Ok(arguments) => arguments,
            Err(error) => return Deferred::ready(Err(Failure::new(error.to_string()))),
        };
        let mut params = CallToolParams::new(&*tool.name);
        (params.arguments, params.meta) = (Some(arguments), meta_of(context));
        let needs_task = *tool.task_support() == TaskSupport::Required;
        let (shared, context) = (self.clone(), context.clone());
        Deferred::new(async move {
            if needs_task && shared.peer()?.version() == Some(ProtocolVersion::V2025_11_25) {
                params.task = Some(TaskMetadata::default());
            }
            let result = match shared.forward(&context, params).await {
                Err(failure) => shared.tool_failure(failure, &context)?,
                Ok(result) => result,
            };
            Ok(ToolAnswer::of(without_tasks(tool_result(&shared.prefix, result))))
        })
    }

    /// Returns the failed result of a tool in place of an error that sessions do not have.
    fn tool_failure(&self, failure: Failure, context: &Context) -> Result<CallToolResult, Failure> {
        let version = context.version();
        match failure.split(version) {
            Err(error) if error.code == ErrorCode::MISSING_CLIENT_CAPABILITY && version.era() == Era::Legacy => {
                Ok(CallToolResult::error(error.message))
            }
            Err(error) => Err(Failure::rpc(error)),
            Ok(why) => Ok(CallToolResult::error(why)),
        }
    }

    pub(super) fn get_prompt(
        self: &Arc<Self>,
        name: &str,
        arguments: &Map<String>,
        context: &Context,
    ) -> Deferred<Result<GetPromptResult, Failure>> {
        let mut params = GetPromptParams::new(name);
        params.arguments = Some(arguments.clone()).filter(|arguments| !arguments.is_empty());
        params.meta = meta_of(context);
        let (shared, context) = (self.clone(), context.clone());
        Deferred::new(async move {
            let mut result = prompt_result(&shared.prefix, shared.forward(&context, params).await?);
            result.meta = own_meta(result.meta);
            Ok(result)
        })
    }

    pub(super) fn complete(
        self: &Arc<Self>,
        reference: CompletionReference,
        argument: &str,
        request: &CompletionRequest,
    ) -> Deferred<Result<Completion, Failure>> {
        let mut params = CompleteParams::new(reference, CompletionArgument::new(argument, &*request.value));
        if !request.known.is_empty() {
            let known = Some(request.known.clone());
            params.context = Some(CompletionContext { arguments: known, ..CompletionContext::default() });
        }
        let (shared, context) = (self.clone(), request.context.clone());
        Deferred::new(async move { Ok(shared.forward(&context, params).await?.completion) })
    }

    /// Passes a request to the backend, and the questions of the backend about it to the client.
    async fn forward<P>(self: &Arc<Self>, context: &Context, params: P) -> Result<P::Result, Failure>
    where
        P: Request<Result: Send> + Send + Sync + 'static,
    {
        let resumed = self.resume(context, P::METHOD)?;
        let mut has_answers = resumed.is_some();
        let (entry, mut running, permit, peer) = match resumed {
            Some(WaitingCall { entry, pending, permit, peer, .. }) => {
                let running = pending.downcast().map_err(|_| ended())?;
                (entry, *running, permit, peer)
            }
            None => {
                let permit = self.permit(context)?;
                let (peer, entry) = (self.peer()?, CallEntry::new(context.clone()));
                self.want_log(&peer, context);
                let running = self.send(&peer, context, (&entry, &permit), params).await?;
                (entry, running, permit, peer)
            }
        };
        loop {
            let interrupted = select_biased(entry.questions(), context.cancelled());
            let is_resumed = std::mem::take(&mut has_answers);
            let next = if is_resumed {
                // Also if the result is there: the answers may be those to questions of another call.
                match select_biased(interrupted, &mut running.result).await {
                    Ok(interrupted) => Err(interrupted),
                    Err(result) => Ok(result),
                }
            } else {
                select_biased(&mut running.result, interrupted).await
            };
            match next {
                Ok(result) => return self.finish(context, &peer, &entry, &running.registered, result).await,
                Err(Ok(questions)) => {
                    let open = self.ask_client(context, questions).await;
                    match open {
                        Ok(open) if open.is_empty() => {}
                        Ok(open) => {
                            entry.put_back(open);
                            if is_resumed && let Ok(result) = select_biased(&mut running.result, ready(())).await {
                                context.in_flight.role.rounds.get().inspect(|rounds| rounds.withdraw());
                                return self.finish(context, &peer, &entry, &running.registered, result).await;
                            }
                            return Err(self.wait_for_input(context, (entry, running, permit, peer), P::METHOD));
                        }
                        Err((open, error)) => {
                            // The client may send a better response to the same questions.
                            entry.put_back(open);
                            self.wait_for_input(context, (entry, running, permit, peer), P::METHOD);
                            return Err(self.failure(error, context));
                        }
                    }
                }
                Err(Err(cause)) => {
                    let reason = match &cause {
                        CancelCause::Peer(reason) => reason.as_deref(),
                        _ => None,
                    };
                    running.canceller.cancel(reason);
                    return Err(CallError::Cancelled.into());
                }
            }
        }
    }

    /// Returns the result of a call for its client.
    async fn finish<T>(
        &self,
        context: &Context,
        peer: &Peer<ClientRole>,
        entry: &CallEntry,
        registered: &Registered,
        result: Result<T, CallError>,
    ) -> Result<T, Failure> {
        if has_responded(&result) {
            registered.responded();
        }
        if !self.is_listed() {
            // Changes that the backend has announced before the result are applied before the client gets the result.
            let listed = self.changed.wait_for(|| self.is_listed().then_some(()));
            let _ = select_biased(listed, peer.sleep(LIST_WAIT)).await;
        }
        result.map_err(|error| match error {
            CallError::Rpc(error) if entry.is_refusal(&error) => Failure::new(error.message),
            error => self.failure(error, context),
        })
    }

    /// Sends the request, as soon as there is room for it. Only one request of each client waits for the room, so that
    /// other clients do not wait for all requests of a client with many large ones.
    async fn send<P>(
        self: &Arc<Self>,
        peer: &Peer<ClientRole>,
        context: &Context,
        (entry, permit): (&Arc<CallEntry>, &Permit),
        params: P,
    ) -> Result<Running<P::Result>, Failure>
    where
        P: Request<Result: Send> + Send + Sync + 'static,
    {
        let options = self.options(context);
        // Questions of 2026-07-28 name their call, and log messages are sent on request only.
        let is_silent = peer.version().is_some_and(|it| it.era() == Era::Modern) && options.log_level.is_none();
        let late_time = if is_silent { Duration::ZERO } else { self.limits.late_time };
        let peer = peer.with_options(options);
        let registered = self.calls.register(&peer, entry, late_time);
        let is_task = params.is_task();
        let try_send = || {
            let began = |call| self.calls.began(&peer, entry, call, is_task);
            if is_task {
                let pending = peer.request_as_task_with(&params, began)?;
                return Ok(follow(&self.calls, &peer, pending, entry));
            }
            let begin = |conn: &mut Connection<ClientRole>, now, options| {
                conn.request(now, &params, options).inspect(|call| began(*call))
            };
            let pending = reporting(peer.call((P::METHOD.as_str(), false), begin, decode)?, entry);
            let canceller = pending.canceller();
            Ok((Box::pin(pending) as Pin<Box<dyn Future<Output = _> + Send>>, canceller))
        };
        let connection = peer.connection();
        let sent = async {
            let _turn = permit.turn().await;
            connection.when_shared_slot(try_send).await
        };
        let is_late = async {
            let until = connection.update(|_, now| now) + self.limits.call_time;
            connection.sleep_until(until).await;
        };
        match select_biased(select_biased(sent, is_late), context.cancelled()).await {
            Ok(Ok(Ok((result, canceller)))) => Ok(Running { result, canceller, registered }),
            Ok(Ok(Err(error))) => Err(self.failure(error.into(), context)),
            Ok(Err(())) => Err(self.failure(CallError::TimedOut { total: true }, context)),
            Err(_) => Err(CallError::Cancelled.into()),
        }
    }

    /// Returns the options of a request on behalf of another one.
    fn options(&self, context: &Context) -> RequestOptions {
        let info = context.info();
        let mut options = RequestOptions::no_timeout();
        options.total_timeout = Some(self.limits.call_time);
        options.progress = info.progress_token.is_some() || context.task_id().is_some();
        options.bypass_cache = true;
        // A session without a level gets all messages.
        let unlimited = (info.version.era() == Era::Legacy).then_some(LoggingLevel::Debug);
        options.log_level = info.log_level.or(unlimited);
        options.trace = context.trace().map(Arc::new);
        options.client_capabilities = Some(Arc::new(self.capabilities_for(&info.client_capabilities)));
        options
    }

    /// Returns the capabilities of a client that the proxy supports. Tasks of the backend are followed for every
    /// client.
    fn capabilities_for(&self, client: &ClientCapabilities) -> ClientCapabilities {
        let passed: CapabilitySet = client.set();
        let own = self.host().config().capabilities.set();
        let both = passed.iter().filter(|capability| own.contains(*capability));
        let mut capabilities: ClientCapabilities = both.chain([Capability::TasksExtension]).collect();
        capabilities.experimental.clone_from(&client.experimental);
        capabilities
    }

    fn permit(&self, context: &Context) -> Result<Permit, Failure> {
        self.calls.expire();
        let client = ClientKey::of(&context.connection, context.shared.calls.number());
        self.calls.admit(client, self.limits.calls).ok_or_else(|| self.error(BackendFault::Busy).into_failure())
    }

    /// Returns the connection to the backend.
    pub(super) fn peer(&self) -> Result<Peer<ClientRole>, Failure> {
        self.connected().map_err(BackendError::into_failure)
    }

    pub(super) fn error(&self, fault: BackendFault) -> BackendError {
        BackendError::new(&self.name, fault)
    }

    /// Returns the failure that the client gets.
    pub(super) fn failure(&self, error: CallError, context: &Context) -> Failure {
        if let Some(error) = BackendError::of(&self.name, &error) {
            return error.into_failure();
        }
        match error {
            CallError::Rpc(error) if error.code == ErrorCode::URL_ELICITATION_REQUIRED => {
                Failure::rpc(self.own_pages(error, context))
            }
            CallError::Rpc(error) => Failure::rpc(error),
            error => error.into(),
        }
    }

    /// Sends questions to the client. Returns the questions that need a response in its next request, or an error with
    /// the reason if a response is invalid.
    async fn ask_client(
        &self,
        context: &Context,
        questions: Vec<Question>,
    ) -> Result<Vec<Question>, (Vec<Question>, CallError)> {
        let (mut open, mut invalid) = (Vec::new(), None);
        for question in questions {
            match context.request_named(question.name.clone(), question.question.clone()).await {
                Ok((_, answer)) => question.answer.provide(Some(Ok(answer))),
                Err(CallError::InputRequired) => open.push(question),
                Err(error @ (CallError::Invalid(_) | CallError::Decode(_))) => {
                    invalid.get_or_insert(error);
                    open.push(question);
                }
                Err(error) => question.answer.provide(Some(Err(error))),
            }
        }
        match invalid {
            None => Ok(open),
            Some(error) => Err((open, error)),
        }
    }

    /// Keeps a call for the next request of its client, and returns the failure that stands for the questions.
    fn wait_for_input<T: Send + 'static>(
        &self,
        context: &Context,
        (entry, running, permit, peer): (Arc<CallEntry>, Running<T>, Permit, Peer<ClientRole>),
        method: Method,
    ) -> Failure {
        let Some(rounds) = context.in_flight.role.rounds.get() else { return CallError::Cancelled.into() };
        self.calls.expire();
        let connection = peer.calls().number();
        let kept = entry.id(|| self.new_id()).and_then(|id| {
            let state = JsonObject::new(&At(&Map::from_iter([("id".to_owned(), id.clone())]), None)).ok()?;
            rounds.keep(WAITING, state);
            let until = peer.connection().update(|_, now| now) + self.limits.input_time;
            let principal = rounds.principal().map(str::to_owned);
            let call = WaitingCall { entry, pending: Box::new(running), permit, method, principal, peer, until };
            Some(self.calls.keep(id, call, self.limits.waiting_calls))
        });
        if let Some(None) = kept {
            if lock(&self.link).peer.as_ref().is_none_or(|peer| peer.calls().number() != connection) {
                // The use of the connection has ended, and the timer of the call with it.
                self.calls.abandon(connection);
                rounds.withdraw();
                return self.error(BackendFault::NotConnected(None)).into_failure();
            }
            // The task of the connection may not wait yet for the time at which the call expires.
            self.wake.notify_all();
            return CallError::InputRequired.into();
        }
        // The questions are not sent: the request fails at once.
        rounds.withdraw();
        self.error(BackendFault::Busy).into_failure()
    }

    /// Takes out the call that waits for this request of its client, if there is one.
    fn resume(&self, context: &Context, method: Method) -> Result<Option<WaitingCall>, Failure> {
        let rounds = context.in_flight.role.rounds.get();
        let Some((rounds, kept)) = rounds.and_then(|rounds| Some((rounds, rounds.kept(WAITING)?))) else {
            return Ok(None);
        };
        let id = kept.decode::<Map<String>>().ok().and_then(|state| state.get("id").cloned()).ok_or_else(ended)?;
        let is_it = |call: &WaitingCall| call.method == method && call.principal.as_deref() == rounds.principal();
        self.calls.expire();
        let call = self.calls.take(&id, is_it).ok_or_else(ended)?;
        call.entry.set_context(context.clone());
        Ok(Some(call))
    }
}

/// Returns the failure of a request that continues a call which has ended.
fn ended() -> Failure {
    Failure::rpc(mcp_proto::wire::ErrorObject::invalid_params("Invalid params: requestState: the call has ended"))
}

/// Returns whether the backend has responded, so that it sends no messages about the request any more.
pub(super) const fn has_responded<T>(result: &Result<T, CallError>) -> bool {
    matches!(result, Ok(_) | Err(CallError::Rpc(_) | CallError::Invalid(_) | CallError::Decode(_)))
}

/// Passes the progress of a request to the client.
fn reporting<T>(pending: Pending<T>, entry: &Arc<CallEntry>) -> Pending<T> {
    let reported = entry.clone();
    pending.on_progress(move |Progress { progress, total, message }| {
        // Progress that cannot be sent now would be outdated later.
        drop(reported.context().progress(progress, total, message.as_deref()));
    })
}

type Following<T> = (Pin<Box<dyn Future<Output = Result<T, CallError>> + Send>>, Canceller);

/// Waits for the task that a request becomes (2025-11-25).
fn follow<T: DeserializeOwned + Send + 'static>(
    calls: &Arc<CallTable>,
    peer: &Peer<ClientRole>,
    pending: Pending<ResultOrTask<T, ClientRole>>,
    entry: &Arc<CallEntry>,
) -> Following<T> {
    let (pending, calls, peer, entry) = (reporting(pending, entry), calls.clone(), peer.clone(), entry.clone());
    let canceller = pending.canceller();
    let result = async move {
        match pending.await? {
            ResultOrTask::Result(result) => Ok(result),
            ResultOrTask::Task(task) => {
                let mut guard = CancelTask { peer: peer.clone(), id: Some(task.id().to_owned()) };
                let began = |call| calls.began(&peer, &entry, call, true);
                let result = reporting(task.result_with(began)?, &entry).await;
                guard.id = None;
                result
            }
        }
    };
    (Box::pin(result), canceller)
}

/// Cancels a task when it is dropped.
struct CancelTask {
    peer: Peer<ClientRole>,
    id: Option<String>,
}

impl Drop for CancelTask {
    fn drop(&mut self) {
        let Some(id) = &self.id else { return };
        self.peer.connection().update(|conn, now| {
            let options = conn.settings().request.clone();
            // Nothing waits for the response. If the request cannot be sent, the task expires.
            let _ = conn.request(now, &CancelTaskParams::new(&**id), options);
        });
    }
}

impl Origin for Shared {
    fn read(&self, uri: String, context: &Context) -> Deferred<Result<ReadResourceResult, Failure>> {
        let own = self.prefix.strip_uri(&uri).map(str::to_owned);
        let (Some(shared), Some(own)) = (self.this.upgrade(), own) else {
            return Deferred::ready(Err(Failure::resource_not_found(uri)));
        };
        let mut params = ReadResourceParams::new(own);
        params.meta = meta_of(context);
        let context = context.clone();
        Deferred::new(async move {
            let result = shared.forward(&context, params).await;
            let mut result = read_result(&shared.prefix, result.map_err(|failure| failure.for_resource(uri))?);
            result.meta = own_meta(result.meta);
            Ok(result)
        })
    }

    fn subscribe(&self, uri: &str, client: &ClientKey) -> Deferred<Result<Begun, Failure>> {
        match (self.this.upgrade(), self.prefix.strip_uri(uri)) {
            (Some(shared), Some(own)) => shared.watch(own, client),
            _ => Deferred::ready(Err(Failure::resource_not_found(uri))),
        }
    }
}

/// Returns the reference to a prompt of the backend.
pub(super) fn prompt_reference(name: &str) -> CompletionReference {
    PromptReference::new(name).into()
}

/// Returns the reference to a template of the backend.
pub(super) fn template_reference(uri_template: &str) -> CompletionReference {
    ResourceTemplateReference::new(uri_template).into()
}

/// Returns the metadata of a request of a client without the members that belong to the connection.
fn meta_of(context: &Context) -> Option<Meta> {
    let mut meta = context.meta()?.clone();
    for key in [
        keys::PROGRESS_TOKEN,
        keys::RELATED_TASK,
        keys::PROTOCOL_VERSION,
        keys::CLIENT_INFO,
        keys::CLIENT_CAPABILITIES,
        keys::LOG_LEVEL,
        keys::TRACEPARENT,
        keys::TRACESTATE,
        keys::BAGGAGE,
    ] {
        meta.remove(key);
    }
    Some(meta).filter(|meta| !meta.is_empty())
}

/// Returns the metadata of a result without the members that belong to the connection to the backend.
fn own_meta(meta: Option<Meta>) -> Option<Meta> {
    let mut meta = meta?;
    let removed = [keys::SERVER_INFO, keys::RELATED_TASK].map(|key| meta.remove(key));
    (removed == [None, None] || !meta.is_empty()).then_some(meta)
}

fn without_tasks(mut result: CallToolResult) -> CallToolResult {
    result.meta = own_meta(result.meta);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_of_the_connection_leaves_nothing_behind() {
        let meta = |text: &str| Some(serde_json::from_str::<Meta>(text).expect("metadata"));
        let removed = format!(r#"{{"{}":{{}},"{}":{{"taskId":"1"}}}}"#, keys::SERVER_INFO, keys::RELATED_TASK);
        let own = r#"{"com.example/own":1}"#;
        let mixed = format!(r#"{{"{}":{{}},"com.example/own":1}}"#, keys::SERVER_INFO);
        for (received, expected) in
            [(None, None), (meta("{}"), meta("{}")), (meta(&removed), None), (meta(&mixed), meta(own))]
        {
            assert_eq!(own_meta(received), expected);
        }
    }
}
