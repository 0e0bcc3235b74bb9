//! `input_required` results (2026-07-28) on the client's side: the input requests go to the application, and the
//! request is sent again with the answers. For the application it remains one call.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};

use crate::{
    connection::{
        engine::Engine,
        state::{
            input_round::{Answer, InputRequest, InputRequestRef, parse_input_requests},
            tags::{Origin, RequestTag, Token},
        },
        types::{CancelCause, Event, Outcome},
    },
    protocol::{Capability, Method, MethodName, ProtocolVersion},
    rpc::{CallId, ReplyKey, State},
    wire::{ErrorObject, RawJson, RequestId},
};

impl Engine {
    /// Handles a result of the modern era by its `resultType`.
    pub(crate) fn receive_modern_result<'a>(
        &mut self,
        call: CallId,
        method: Option<Method>,
        result: RawJson<'a>,
    ) -> Option<Event<'a>> {
        // A `resultType` that is not a string is treated as an unknown type.
        let kind = result.member("resultType").map(|kind| kind.decode::<String>().unwrap_or_default());
        let has_poller = self.has_poller(call);
        let may_become_task = !has_poller
            && method.is_some_and(Method::may_become_task)
            && self.local.contains(Capability::TasksExtension);
        match kind.as_deref() {
            // Some servers answer `tasks/get` with `resultType` `task` instead of `complete`.
            None | Some("complete" | "task") if has_poller => self.task_answered(call, result),
            Some("task") if method == Some(Method::ExtGetTask) => self.finish_call(call, Outcome::Result(result)),
            None | Some("complete") if self.listens(call) => self.subscription_ended(call, Outcome::Result(result)),
            None | Some("complete") => {
                self.keep_result(call, &result);
                self.finish_call(call, Outcome::Result(result))
            }
            Some("task") if may_become_task && self.retries.follows_tasks(call) => self.became_task(call, result),
            Some("task") if may_become_task => self.finish_call(call, Outcome::Result(result)),
            Some("input_required") if !has_poller && self.may_ask(call) => {
                if self.ask(call, &result).is_err() {
                    self.stats.violations += 1;
                    self.drop_questions(call);
                    return self.finish_call(call, Outcome::Malformed);
                }
                None
            }
            _ => self.answered_badly(call),
        }
    }

    /// Returns whether the result of a request may be `input_required`.
    fn may_ask(&self, call: CallId) -> bool {
        self.retries.get(call).is_some_and(|kept| kept.method.known().is_some_and(Method::may_ask))
    }

    /// Hands the input requests of a result to the application.
    fn ask(&mut self, call: CallId, result: &RawJson<'_>) -> Result<(), ()> {
        let state = result.member("requestState");
        let limits = self.limits();
        let (most_rounds, most_questions, most_bytes) = (limits.rounds, limits.questions, limits.call_bytes);
        let questions = match result.member("inputRequests") {
            Some(requests) => parse_input_requests(&requests, most_questions)?,
            None => Vec::new(),
        };
        if state.as_ref().map_or(questions.is_empty(), |state| !state.get().starts_with('"')) {
            return Err(());
        }
        // All are checked before the first is handed to the application.
        if !questions.iter().all(|question| self.may_be_asked(question)) {
            return Err(());
        }
        let round = self.retries.change(call, |kept| {
            let round = &mut kept.round;
            round.count += 1;
            round.put_off = if questions.is_empty() { round.put_off + 1 } else { 0 };
            round.state = state.map(|state| state.get().to_string());
            round.answers = questions.iter().map(|question| (question.name.clone(), Answer::Unasked)).collect();
            (round.count, round.put_off)
        });
        let (count, put_off) = round.ok_or(())?;
        if count > most_rounds || self.retries.bytes() > most_bytes {
            return Err(());
        }
        if questions.is_empty() {
            // The first retry has no delay: a server may answer this way only to move its state to the client.
            self.send_later(call, put_off - 1);
            return Ok(());
        }
        self.calls.suspend(call);
        let mut keys = Vec::with_capacity(questions.len());
        let most = questions.len();
        for (index, question) in questions.into_iter().enumerate() {
            let id = RequestId::from(&*format!("{}/{}", call.as_u64(), index));
            let origin =
                Origin { bytes: question.params.as_ref().map_or(0, |params| params.get().len()), ..Origin::default() };
            let (method, asked_by) = (Some(question.method), Some(InputRequestRef { call, index }));
            let tag = RequestTag { question: asked_by, ..RequestTag::new(method, Token::None, origin) };
            let Ok(key) = self.admit(id, tag, origin) else { break };
            keys.push(key);
            self.events.push_back(Event::Request {
                key,
                method: MethodName::Known(question.method),
                params: question.params,
            });
        }
        let all = keys.len() == most;
        self.retries.change(call, |kept| {
            for ((_, answer), key) in kept.round.answers.iter_mut().zip(keys) {
                *answer = Answer::Open(key);
            }
        });
        if all { Ok(()) } else { Err(()) }
    }

    /// Returns whether this client has declared the capability for an input request.
    pub(crate) fn may_be_asked(&self, question: &InputRequest) -> bool {
        let needed = question.method.needs(ProtocolVersion::LATEST_LEGACY);
        needed.is_some_and(|needed| self.local.contains(needed))
            && self.undeclared_form(question.method, question.params.as_ref()).is_none()
    }

    /// Takes the application's answer to an input request, and sends the call again when all answers are there.
    pub(crate) fn answer_question(
        &mut self,
        key: ReplyKey,
        question: InputRequestRef,
        answer: Result<Vec<u8>, &ErrorObject>,
    ) {
        if self.has_poller(question.call) {
            return self.answer_task(key, question, answer);
        }
        self.release(key);
        let outcome = match answer {
            Ok(text) => {
                let complete = self.retries.change(question.call, |kept| {
                    let answers = &mut kept.round.answers;
                    if let Some((_, answer)) = answers.get_mut(question.index) {
                        *answer = Answer::Given(text);
                    }
                    answers.iter().all(|(_, answer)| answer.is_given())
                });
                let fits = self.retries.bytes() <= self.limits().call_bytes;
                match complete {
                    Some(true) if fits => return self.send_again(question.call),
                    Some(false) if fits => return,
                    Some(_) => Outcome::Error(ErrorObject::internal("The answers are larger than the limit")),
                    None => return,
                }
            }
            // The protocol has no way to refuse an input request, so the call ends here.
            Err(error) => Outcome::Error(error.clone()),
        };
        self.drop_questions(question.call);
        let event = self.finish_call(question.call, outcome);
        self.events.extend(event.map(Event::into_owned));
    }

    /// Withdraws the open input requests of a call.
    pub(crate) fn drop_questions(&mut self, call: CallId) {
        let Some(kept) = self.retries.get(call).filter(|kept| kept.is_asking()) else { return };
        for key in kept.open_questions() {
            self.withdraw(key);
        }
    }

    /// Withdraws an input request from the application.
    pub(crate) fn withdraw(&mut self, key: ReplyKey) {
        if matches!(self.requests.get(key), Some((_, State::Open))) {
            self.cancel_request(key);
            self.events.push_back(Event::Cancelled { key, cause: CancelCause::Peer(None) });
        }
    }
}
