//! Tasks of the extension that calls of this client have become (2026-07-28). Each task is polled until it is over. Its
//! input requests go to the application, each of them once. For the application it stays one call.

use alloc::{
    boxed::Box,
    collections::BTreeSet,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::time::Duration;

use crate::{
    connection::{
        engine::Engine,
        state::{
            input_round::{InputRequest, InputRequestRef, parse_input_requests},
            tags::{CallTag, Origin, RequestTag, Token},
            task_input_requests::TaskInputResponse,
            task_poller::{INPUT_REQUIRED_FACTOR, TaskPoller, TaskStatusUpdate},
        },
        steps::core::responses::call_of,
        types::{Event, Outcome, RequestOptions, SendError},
    },
    protocol::{Capability, CapabilitySet, Method, MethodKind, MethodName, Phase},
    rpc::{CallId, Priority, ReplyKey, Timestamp},
    schema::{TaskStatus, tasks_extension::TaskError},
    wire::{ErrorCode, ErrorObject, RawJson, RequestId, encode},
};

/// How long the server may take to respond to `tasks/cancel`.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(60);

impl Engine {
    /// Returns whether a call has become a task that is polled.
    pub(crate) fn has_poller(&self, call: CallId) -> bool {
        self.poller(call).is_some()
    }

    /// Returns the task that a call has become, if cancelling the call cancels the task.
    pub(crate) fn own_task(&self, call: CallId) -> Option<String> {
        self.poller(call).filter(|poller| poller.is_own).map(|poller| poller.task.clone())
    }

    fn poller(&self, call: CallId) -> Option<&TaskPoller> {
        self.retries.get(call)?.state.poller.as_deref()
    }

    fn change_poller<R>(&mut self, call: CallId, f: impl FnOnce(&mut TaskPoller) -> R) -> Option<R> {
        self.retries.change(call, |retry| retry.state.allocated_mut()?.poller.as_deref_mut().map(f)).flatten()
    }

    /// Starts to poll a task whose id the application provides.
    pub(crate) fn follow_task(
        &mut self,
        now: Timestamp,
        task: &str,
        options: RequestOptions,
    ) -> Result<CallId, SendError> {
        self.may_send(&Method::ExtGetTask.into(), MethodKind::Request, CapabilitySet::EMPTY)?;
        self.has_room_for_request()?;
        let mut poller = TaskPoller { is_own: false, ..TaskPoller::new(task.to_string(), now) };
        let options = RequestOptions { progress: false, ..options };
        // The call ends with the result of the request that became the task.
        let tag = CallTag::User { method: Some(Method::CallTool), task: false, stream: None };
        let mut params = Vec::new();
        poller.write(&mut params);
        let call = self.start(now, Priority::Request, &Method::ExtGetTask.into(), tag, &options, &|out| {
            out.extend_from_slice(&params);
            Ok(())
        })?;
        self.retries.add_poller(call, Box::new(poller));
        Ok(call)
    }

    /// Starts to poll the task in the response to a request. This result carries neither input requests nor the
    /// outcome.
    pub(crate) fn became_task<'a>(&mut self, call: CallId, result: RawJson<'a>) -> Option<Event<'a>> {
        let Some(TaskStatusUpdate { task: Some(id), status, ttl, interval }) = TaskStatusUpdate::read(&result) else {
            self.stats.violations += 1;
            return self.finish_call(call, Outcome::Malformed);
        };
        // Task ids are unique. Without this check, each state of the task would be reported once for each call with its
        // id.
        if self.retries.calls_of_task(&id).into_iter().any(|other| self.own_task(other).is_some()) {
            self.stats.violations += 1;
            return self.finish_call(call, Outcome::Malformed);
        }
        let bytes = self.retries.bytes();
        let poller = TaskPoller { ttl, interval, ..TaskPoller::new(id, self.clock) };
        self.retries.add_poller(call, Box::new(poller));
        // The server chooses the id. It may be as long as the params that are dropped for it.
        if self.retries.bytes() > bytes.max(self.limits().call_bytes) {
            self.stats.violations += 1;
            return self.finish_call(call, Outcome::Malformed);
        }
        self.calls.suspend(self.clock, call);
        if let Some(call) = self.calls.get_mut(call) {
            // Tasks of the extension have no progress notifications.
            call.progress = false;
        }
        match status {
            TaskStatus::Working => self.schedule_poll(call),
            _ => self.resend(call),
        }
        self.task_event(call, result)
    }

    /// Handles the result of a request about the task that a call has become.
    pub(crate) fn task_answered<'a>(&mut self, call: CallId, result: RawJson<'a>) -> Option<Event<'a>> {
        self.calls.suspend(self.clock, call);
        if self.change_poller(call, |poller| poller.sent(true)) == Some(true) {
            // The acknowledgement does not carry the status, so the client polls again.
            self.change_poller(call, |poller| poller.failures = 0);
            self.schedule_poll(call);
            return None;
        }
        self.apply_task_status(call, result)
    }

    /// Handles an error in response to a request about the task that a call has become. The task may continue.
    pub(crate) fn task_refused(&mut self, call: CallId, error: ErrorObject) -> Option<Event<'static>> {
        // The task does not exist (any more), or the server will refuse every request about it.
        let is_final = matches!(
            error.code,
            ErrorCode::INVALID_PARAMS
                | ErrorCode::INVALID_REQUEST
                | ErrorCode::METHOD_NOT_FOUND
                | ErrorCode::MISSING_CLIENT_CAPABILITY
                | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
        );
        self.poll_failed(call, is_final, Outcome::Error(error))
    }

    /// Handles the timeout of a request about the task that a call has become.
    pub(crate) fn task_timed_out(&mut self, call: CallId) {
        if !self.take_back(call) {
            self.push_cancelled(self.calls.wire(call), Some("timed out"));
        }
        let event = self.poll_failed(call, false, Outcome::TimedOut { total: false });
        self.events.extend(event);
    }

    pub(crate) fn poll_failed(
        &mut self,
        call: CallId,
        is_final: bool,
        outcome: Outcome<'static>,
    ) -> Option<Event<'static>> {
        self.calls.suspend(self.clock, call);
        let clock = self.clock;
        let is_over = self.change_poller(call, |poller| {
            poller.sent(false);
            poller.failures = poller.failures.saturating_add(1);
            is_final || poller.has_expired(clock)
        });
        if is_over != Some(false) {
            self.drop_input_requests(call);
            return self.finish_call(call, outcome);
        }
        self.schedule_poll(call);
        None
    }

    /// Handles the state of a task, as the server reports it, for the calls that poll the task.
    pub(crate) fn handle_task_status(&mut self, task: &RawJson<'_>) {
        let Some(id) = TaskStatusUpdate::read(task).and_then(|update| update.task) else { return };
        for call in self.retries.calls_of_task(&id) {
            let event = self.apply_task_status(call, task.clone()).map(Event::into_owned);
            self.events.extend(event);
        }
    }

    /// Handles the state of a task, from a response or a notification.
    fn apply_task_status<'a>(&mut self, call: CallId, task: RawJson<'a>) -> Option<Event<'a>> {
        let update = TaskStatusUpdate::read(&task).filter(|update| {
            let id = update.task.as_deref();
            id.is_none_or(|id| self.poller(call).is_some_and(|poller| poller.task == id))
        });
        let Some(update) = update else { return self.end_malformed(call) };
        let ended = match update.status {
            TaskStatus::Working => {
                self.withdraw_input_requests(call, &[]);
                Ok(())
            }
            TaskStatus::InputRequired => match task.member("inputRequests") {
                Some(requests) => self.start_task_input_requests(call, &requests).map_err(|()| None),
                // The server should list its input requests. The next poll may contain them.
                None => Ok(()),
            },
            TaskStatus::Completed => match task.member("result").filter(RawJson::is_object) {
                Some(result) => Err(Some(Outcome::Result(result.into_owned()))),
                None => Err(None),
            },
            TaskStatus::Failed => match task.member("error").and_then(|error| error.decode::<TaskError>().ok()) {
                Some(error) => Err(Some(Outcome::Error(error.into()))),
                None => Err(None),
            },
            TaskStatus::Cancelled => Err(Some(Outcome::Cancelled)),
            TaskStatus::Other(_) => Err(None),
        };
        match ended {
            Ok(()) => {}
            Err(Some(outcome)) => {
                // The state may arrive in a notification while the next request waits in the outbox.
                self.take_back(call);
                self.drop_input_requests(call);
                return self.finish_call(call, outcome);
            }
            Err(None) => return self.end_malformed(call),
        }
        self.change_poller(call, |poller| {
            (poller.ttl, poller.interval, poller.failures) = (update.ttl, update.interval, 0);
        });
        if self.calls.get(call).is_some_and(|call| call.is_suspended) {
            self.schedule_poll(call);
        }
        self.task_event(call, task)
    }

    /// Returns the event with the state of a task, unless the call has ended: its response is its last event.
    fn task_event<'a>(&self, call: CallId, task: RawJson<'a>) -> Option<Event<'a>> {
        self.has_poller(call).then_some(Event::Task { call, task })
    }

    /// Schedules the next request about a task, after the poll interval or, after failures, the longer backoff delay.
    /// Input responses that are ready are sent at once if the last request did not fail.
    fn schedule_poll(&mut self, call: CallId) {
        let settings = self.settings();
        let (polling, backoff) = (settings.polling, settings.backoff);
        let Some(poller) = self.poller(call) else { return };
        let mut pause = polling.delay(poller.interval);
        if poller.has_open_input() {
            pause = pause.saturating_mul(INPUT_REQUIRED_FACTOR).min(polling.max.max(pause));
        }
        if poller.has_responses() && poller.failures == 0 {
            return self.resend(call);
        }
        pause = pause.max(backoff.delay(poller.failures));
        self.retries.schedule(call, self.clock + pause);
    }

    /// Hands the new input requests of a task to the application.
    fn start_task_input_requests(&mut self, call: CallId, requests: &RawJson<'_>) -> Result<(), ()> {
        let (most, most_ever) = (self.limits().input_requests, self.limits().task_input_requests);
        let input_requests = parse_input_requests(requests, most)?;
        if !input_requests.iter().all(|input_request| self.is_input_request_allowed(input_request)) {
            return Err(());
        }
        self.withdraw_input_requests(call, &input_requests);
        self.change_poller(call, |poller| poller.input_requests.begin_batch());
        for input_request in input_requests {
            let is_new = |poller: &&TaskPoller| !poller.input_requests.has(&input_request.name);
            let Some(poller) = self.poller(call).filter(is_new) else { continue };
            let index = poller.input_requests.len();
            if index >= most_ever {
                return Err(());
            }
            let id = RequestId::from(&*format!("{}/task/{index}", call.as_u64()));
            let bytes = input_request.params.as_ref().map_or(0, |params| params.get().len());
            let origin = Origin { bytes, ..Origin::default() };
            let (method, source) = (Some(input_request.method), Some(InputRequestRef { call, index }));
            let tag = RequestTag { input_request: source, ..RequestTag::new(method, Token::None, origin) };
            // Without room now, the input request is handed over after a later poll.
            let Ok(key) = self.admit(id, tag, origin) else { break };
            self.change_poller(call, |poller| poller.input_requests.insert(input_request.name, key));
            let method = MethodName::Known(input_request.method);
            self.events.push_back(Event::Request { key, method, params: input_request.params });
        }
        if self.retries.bytes() > self.limits().call_bytes { Err(()) } else { Ok(()) }
    }

    /// Withdraws the input requests of a task that are not among these.
    fn withdraw_input_requests(&mut self, call: CallId, outstanding: &[InputRequest]) {
        let Some(poller) = self.poller(call).filter(|poller| poller.has_open_input()) else { return };
        let names: BTreeSet<&str> = outstanding.iter().map(|input_request| &*input_request.name).collect();
        let withdrawn = |(index, _): &(usize, ReplyKey)| !names.contains(poller.input_requests.name(*index));
        let withdrawn: Vec<_> = poller.input_requests.open().filter(withdrawn).collect();
        for (index, key) in withdrawn {
            self.change_poller(call, |poller| poller.input_requests.set(index, TaskInputResponse::Done));
            self.withdraw(key);
        }
    }

    /// Handles the application's response to an input request of a task.
    pub(crate) fn respond_to_task(
        &mut self,
        key: ReplyKey,
        input_request: InputRequestRef,
        answer: Result<Vec<u8>, &ErrorObject>,
    ) {
        self.release(key);
        let InputRequestRef { call, index } = input_request;
        let outcome = match answer {
            Ok(text) => {
                self.change_poller(call, |poller| poller.input_requests.set(index, TaskInputResponse::Ready(text)));
                if self.retries.bytes() <= self.limits().call_bytes {
                    return self.send_responses(call);
                }
                Outcome::Error(ErrorObject::internal("The input responses are larger than the limit"))
            }
            // The protocol has no message that refuses an input request.
            Err(error) => Outcome::Error(error.clone()),
        };
        let event = self.end_call(call, outcome);
        self.events.extend(event.map(Event::into_owned));
    }

    /// Sends responses to input requests at once, rather than with the next poll.
    fn send_responses(&mut self, call: CallId) {
        let Some(poller) = self.poller(call).filter(|poller| poller.has_responses()) else { return };
        let is_suspended = self.calls.get(call).is_some_and(|call| call.is_suspended);
        if is_suspended && poller.failures > 0 {
            // After a failure, the backoff delay holds. The responses are sent with the next request.
            return;
        }
        if poller.input_requests.is_sending() {
            return;
        }
        if !is_suspended {
            // A poll in flight would only delay them. Its result will be late.
            self.take_back(call);
        }
        self.resend(call);
    }

    /// Ends a call before its task has ended, and cancels the task if it was created for this call.
    pub(crate) fn end_call<'a>(&mut self, call: CallId, outcome: Outcome<'a>) -> Option<Event<'a>> {
        self.take_back(call);
        self.drop_input_requests(call);
        let task = self.own_task(call);
        let event = self.finish_call(call, outcome);
        if let Some(task) = task {
            self.cancel_task(&task);
        }
        event
    }

    /// Sends `tasks/cancel` for a task whose result is not needed any more. The response is ignored.
    pub(crate) fn cancel_task(&mut self, task: &str) -> Option<CallId> {
        if self.phase != Phase::Ready || self.has_room_for_request().is_err() {
            return None;
        }
        let options = RequestOptions::within(CANCEL_TIMEOUT);
        let name = Method::ExtCancelTask.into();
        // The outbox has room, so this fails only if the task id makes the request larger than a frame may be.
        let call = self.start(self.clock, Priority::Request, &name, CallTag::CancelTask, &options, &|out| {
            out.extend_from_slice(b"{\"taskId\":");
            encode::text(out, task);
            out.push(b'}');
            Ok(())
        });
        call.ok()
    }

    /// Cancels the task of a late result: the request has ended before. If a call polls that task, the result is only a
    /// repetition. The number of such cancellations in flight is bounded.
    pub(crate) fn dismiss_late_task(&mut self, id: &RequestId, result: &RawJson<'_>) {
        let is_task = || result.member("resultType").and_then(RawJson::into_text).is_some_and(|kind| kind == "task");
        let declared = self.local.contains(Capability::TasksExtension);
        if self.is_modern_client()
            && declared
            && self.has_ended(id)
            && is_task()
            && let Some(task) = result.member("taskId").and_then(|task| task.decode::<String>().ok())
            && self.retries.calls_of_task(&task).is_empty()
            && let Some((late, _)) = call_of(id).filter(|(late, _)| {
                self.retries.may_dismiss(late.as_u64(), |cancel_call| self.calls.get(cancel_call).is_some())
            })
            && let Some(cancel_call) = self.cancel_task(&task)
        {
            self.retries.dismiss(late.as_u64(), cancel_call);
        }
    }
}
