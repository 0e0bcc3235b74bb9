//! `input_required` results (2026-07-28) on the client's side: the application gets the input requests, and the client
//! sends the request again with their responses. For the application it remains one call.

use alloc::{borrow::Cow, format, string::ToString, vec::Vec};

use crate::{
    connection::{
        engine::Engine,
        state::{
            input_round::{InputRequest, InputRequestRef, InputResponseState, parse_input_requests},
            retries::RetainedCall,
            tags::{Origin, RequestTag, Token},
        },
        types::{CancelCause, Event, InputRequestOrigin, Outcome},
    },
    protocol::{Capability, Method, MethodName, ProtocolVersion},
    rpc::{CallId, EntryState, ReplyKey},
    wire::{ErrorObject, RawJson, Repetition, RequestId},
};

impl Engine {
    /// Handles a result of the modern era by its `resultType`.
    pub(crate) fn receive_modern_result<'a>(
        &mut self,
        call: CallId,
        method: Option<Method>,
        result: RawJson<'a>,
        repetition: Repetition,
    ) -> Option<Event<'a>> {
        if repetition.is_found && self.retries.get(call).is_some_and(RetainedCall::is_plain) {
            return self.finish_call(call, Outcome::Result(result));
        }
        // A `resultType` that is not a string is treated as an unknown type.
        let kind = match repetition.is_found {
            true => Some(Cow::Borrowed("complete")),
            false => result.member("resultType").map(|kind| kind.into_text().unwrap_or_default()),
        };
        let has_poller = self.has_poller(call);
        let may_become_task = !has_poller
            && method.is_some_and(Method::may_become_task)
            && self.local.contains(Capability::TasksExtension);
        match kind.as_deref() {
            // Some servers respond to `tasks/get` with `resultType` `task` instead of `complete`.
            None | Some("complete" | "task") if has_poller => self.task_answered(call, result),
            Some("task") if method == Some(Method::ExtGetTask) => self.finish_call(call, Outcome::Result(result)),
            None | Some("complete") if self.listens(call) => self.subscription_ended(call, Outcome::Result(result)),
            None | Some("complete") => {
                if kind.is_some() && !repetition.is_found {
                    self.modern.repeated.note_result(&result);
                }
                self.keep_result(call, &result);
                self.finish_call(call, Outcome::Result(result))
            }
            Some("task") if may_become_task && self.retries.follows_tasks(call) => self.became_task(call, result),
            Some("task") if may_become_task => self.finish_call(call, Outcome::Result(result)),
            Some("input_required") if !has_poller && self.may_need_input(call) => {
                if self.start_round(call, &result).is_err() {
                    self.stats.violations += 1;
                    self.drop_input_requests(call);
                    return self.finish_call(call, Outcome::Malformed);
                }
                None
            }
            _ => self.end_malformed(call),
        }
    }

    /// Returns whether the result of a request may be `input_required`.
    fn may_need_input(&self, call: CallId) -> bool {
        self.retries.get(call).is_some_and(|retry| retry.method.known().is_some_and(Method::may_require_input))
    }

    /// Hands the input requests of a result to the application.
    fn start_round(&mut self, call: CallId, result: &RawJson<'_>) -> Result<(), ()> {
        let state = result.member("requestState");
        let limits = self.limits();
        let (most_rounds, max_input_requests, most_bytes) = (limits.rounds, limits.input_requests, limits.call_bytes);
        let input_requests = match result.member("inputRequests") {
            Some(requests) => parse_input_requests(&requests, max_input_requests)?,
            None => Vec::new(),
        };
        if state.as_ref().map_or(input_requests.is_empty(), |state| !state.get().starts_with('"')) {
            return Err(());
        }
        // All are checked before the first is handed to the application.
        if !input_requests.iter().all(|input_request| self.is_input_request_allowed(input_request)) {
            return Err(());
        }
        let round = self.retries.change(call, |retry| {
            let round = &mut retry.state.round;
            round.count += 1;
            round.deferrals = if input_requests.is_empty() { round.deferrals + 1 } else { 0 };
            round.state = state.map(|state| state.get().to_string());
            round.answers = input_requests
                .iter()
                .map(|input_request| (input_request.name.clone(), InputResponseState::Unsent))
                .collect();
            (round.count, round.deferrals)
        });
        let (count, deferrals) = round.ok_or(())?;
        if count > most_rounds || self.retries.bytes() > most_bytes {
            return Err(());
        }
        if input_requests.is_empty() {
            // The first retry has no delay: a server may send such a result only to move its state to the client.
            self.send_later(call, deferrals - 1);
            return Ok(());
        }
        self.calls.suspend(self.clock, call);
        let mut keys = Vec::with_capacity(input_requests.len());
        let count = input_requests.len();
        for (index, input_request) in input_requests.into_iter().enumerate() {
            let id = RequestId::from(&*format!("{}/{}", call.as_u64(), index));
            let origin = Origin {
                bytes: input_request.params.as_ref().map_or(0, |params| params.get().len()),
                ..Origin::default()
            };
            let (method, source) = (Some(input_request.method), Some(InputRequestRef { call, index }));
            let tag = RequestTag { input_request: source, ..RequestTag::new(method, Token::None, origin) };
            let Ok(key) = self.admit(id, tag, origin) else { break };
            keys.push(key);
            self.events.push_back(Event::Request {
                key,
                method: MethodName::Known(input_request.method),
                params: input_request.params,
            });
        }
        let all = keys.len() == count;
        self.retries.change(call, |retry| {
            for ((_, answer), key) in retry.state.round.answers.iter_mut().zip(keys) {
                *answer = InputResponseState::Open(key);
            }
        });
        if all { Ok(()) } else { Err(()) }
    }

    /// Returns where an input request comes from.
    pub(crate) fn input_request_origin(
        &self,
        InputRequestRef { call, index }: InputRequestRef,
    ) -> Option<InputRequestOrigin> {
        let retry = self.retries.get(call)?;
        let name = match &retry.state.poller {
            Some(poller) => poller.input_requests.name(index),
            None => &retry.state.round.answers.get(index)?.0,
        };
        Some(InputRequestOrigin {
            call,
            name: serde_json::from_str(name).ok()?,
            open: retry.open_input_requests().len(),
        })
    }

    /// Returns whether this client has declared the capability for an input request.
    pub(crate) fn is_input_request_allowed(&self, input_request: &InputRequest) -> bool {
        let needed = input_request.method.needs(ProtocolVersion::LATEST_LEGACY);
        needed.is_some_and(|needed| self.local.contains(needed))
            && self.undeclared_form(input_request.method, input_request.params.as_ref()).is_none()
    }

    /// Stores the application's response to an input request, and sends the call again when all responses are complete.
    pub(crate) fn respond_to_input_request(
        &mut self,
        key: ReplyKey,
        input_request: InputRequestRef,
        answer: Result<Vec<u8>, &ErrorObject>,
    ) {
        if self.has_poller(input_request.call) {
            return self.respond_to_task(key, input_request, answer);
        }
        self.release(key);
        let outcome = match answer {
            Ok(text) => {
                let complete = self.retries.change(input_request.call, |retry| {
                    let answers = &mut retry.state.round.answers;
                    if let Some((_, answer)) = answers.get_mut(input_request.index) {
                        *answer = InputResponseState::Ready(text);
                    }
                    answers.iter().all(|(_, answer)| answer.is_ready())
                });
                let fits = self.retries.bytes() <= self.limits().call_bytes;
                match complete {
                    Some(true) if fits => return self.resend(input_request.call),
                    Some(false) if fits => return,
                    Some(_) => Outcome::Error(ErrorObject::internal("The input responses are larger than the limit")),
                    None => return,
                }
            }
            // The protocol has no way to refuse an input request, so the call ends here.
            Err(error) => Outcome::Error(error.clone()),
        };
        self.drop_input_requests(input_request.call);
        let event = self.finish_call(input_request.call, outcome);
        self.events.extend(event.map(Event::into_owned));
    }

    /// Withdraws the open input requests of a call.
    pub(crate) fn drop_input_requests(&mut self, call: CallId) {
        let Some(retry) = self.retries.get(call).filter(|retry| retry.has_open_input()) else { return };
        for key in retry.open_input_requests() {
            self.withdraw(key);
        }
    }

    /// Withdraws an input request from the application.
    pub(crate) fn withdraw(&mut self, key: ReplyKey) {
        if matches!(self.requests.get(key), Some((_, EntryState::Open))) {
            self.cancel_request(key);
            self.events.push_back(Event::Cancelled { key, cause: CancelCause::Peer(None) });
        }
    }
}
