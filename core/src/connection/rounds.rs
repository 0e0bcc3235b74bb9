//! Results that are questions (2026-07-28), as a client sees them: the questions go to the application, and the
//! request is sent again with the answers. For the application it stays one call.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};

use super::{
    CancelCause, Event, Outcome,
    engine::{CallTag, Engine, RequestTag},
    receive::Origin,
    splice,
};
use crate::{
    protocol::{Capability, Method, MethodName, ProtocolVersion},
    rpc::{CallId, Lane, Owner, ReplyKey, State},
    wire::{
        ErrorObject, RawJson, RequestId, encode,
        scan::{MAX_DEPTH, Scanner},
    },
};

/// What is kept of a request that may be answered with questions.
#[derive(Clone, Debug)]
pub(super) struct Round {
    method: Method,
    /// The params as the application gave them.
    params: Vec<u8>,
    /// How often it was sent.
    sent: u32,
    /// The state that the latest result came with, as JSON.
    state: Option<String>,
    /// The questions of the latest result: their names as JSON, and the answers that are there.
    answers: Vec<(String, Option<Vec<u8>>)>,
}

/// Calls that may be answered with questions.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds {
    calls: BTreeMap<CallId, Round>,
}

/// A question of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) call: CallId,
    index: usize,
}

impl Rounds {
    pub(super) fn begin(&mut self, call: CallId, method: Method, params: Vec<u8>) {
        self.calls.insert(call, Round { method, params, sent: 1, state: None, answers: Vec::new() });
    }

    pub(super) fn end(&mut self, call: CallId) {
        self.calls.remove(&call);
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }
}

impl Engine {
    /// A result of the modern era: the final one, questions, or nothing that is known.
    pub(super) fn receive_modern_result<'a>(
        &mut self,
        call: CallId,
        method: Option<Method>,
        result: RawJson<'a>,
    ) -> Option<Event<'a>> {
        // Anything but a text is a kind that nobody knows.
        let kind = result.member("resultType").map(|kind| kind.decode::<String>().unwrap_or_default());
        let task = method == Some(Method::CallTool) && self.local.contains(Capability::TasksExtension);
        match kind.as_deref() {
            None | Some("complete") => self.finish_call(call, Outcome::Result(result)),
            Some("task") if task => self.finish_call(call, Outcome::Result(result)),
            Some("input_required") if self.rounds.calls.contains_key(&call) => {
                if self.ask(call, &result).is_err() {
                    self.stats.violations += 1;
                    self.drop_questions(call);
                    return self.finish_call(call, Outcome::Malformed);
                }
                None
            }
            _ => {
                self.stats.violations += 1;
                self.finish_call(call, Outcome::Malformed)
            }
        }
    }

    /// Hands the questions of a result to the application.
    fn ask(&mut self, call: CallId, result: &RawJson<'_>) -> Result<(), ()> {
        let state = result.member("requestState");
        let requests = result.member("inputRequests");
        if state.is_none() && requests.is_none() {
            return Err(());
        }
        let limits = self.limits();
        let (most_rounds, most_questions) = (limits.rounds, limits.questions);
        let questions = requests.as_ref().map_or_else(|| Ok(Vec::new()), questions)?;
        let Some(round) = self.rounds.calls.get_mut(&call) else { return Err(()) };
        if round.sent > most_rounds || questions.len() > most_questions {
            return Err(());
        }
        round.state = state.map(|state| state.get().to_string());
        round.answers = questions.iter().map(|question| (question.name.clone(), None)).collect();
        // All are looked at before the first is asked.
        for question in &questions {
            let role = crate::protocol::Role::Client;
            let needed = question.method.needs(ProtocolVersion::LATEST_LEGACY).ok_or(())?;
            if self.role() != role
                || !self.local.contains(needed)
                || self.undeclared_form(question.method, question.params.as_ref()).is_some()
            {
                return Err(());
            }
        }
        if questions.is_empty() {
            self.ask_again(call);
            return Ok(());
        }
        self.calls.suspend(call);
        for (index, question) in questions.into_iter().enumerate() {
            let id = RequestId::from(&*format!("{}/{}", call.as_u64(), index));
            let tag =
                RequestTag { question: Some(Question { call, index }), ..RequestTag::new(None, Origin::default()) };
            let key = self.admit(id, tag, Origin::default()).map_err(|_| ())?;
            self.events.push_back(Event::Request {
                key,
                method: MethodName::Known(question.method),
                params: question.params,
            });
        }
        Ok(())
    }

    /// The application has answered a question.
    pub(super) fn answer_question(&mut self, key: ReplyKey, question: Question, answer: Result<Vec<u8>, &ErrorObject>) {
        self.release(key);
        let Some(round) = self.rounds.calls.get_mut(&question.call) else { return };
        match answer {
            Ok(text) => {
                if let Some((_, answer)) = round.answers.get_mut(question.index) {
                    *answer = Some(text);
                }
                if round.answers.iter().all(|(_, answer)| answer.is_some()) {
                    self.ask_again(question.call);
                }
            }
            // There is no way to tell the server that a question was refused, so the call ends here.
            Err(error) => {
                let error = error.clone();
                self.drop_questions(question.call);
                let event = self.finish_call(question.call, Outcome::Error(error));
                self.events.extend(event.map(Event::into_owned));
            }
        }
    }

    /// Sends the request again, under a new id, with the answers.
    fn ask_again(&mut self, call: CallId) {
        let Some(version) = self.modern_version(CallTag::User { method: None, task: false }) else { return };
        let Some(round) = self.rounds.calls.get_mut(&call) else { return };
        round.sent += 1;
        let mut params = round.params.clone();
        if params.is_empty() {
            params.extend_from_slice(b"{}");
        }
        if let Some(state) = round.state.take() {
            splice::set(&mut params, 0, "requestState", &state);
        }
        if !round.answers.is_empty() {
            let mut answers = Vec::new();
            for (name, answer) in round.answers.drain(..) {
                answers.push(if answers.is_empty() { b'{' } else { b',' });
                answers.extend_from_slice(name.as_bytes());
                answers.push(b':');
                answers.extend_from_slice(&answer.unwrap_or_default());
            }
            answers.push(b'}');
            splice::set(&mut params, 0, "inputResponses", core::str::from_utf8(&answers).unwrap_or("{}"));
        }
        let method = round.method;
        let (clock, max_len) = (self.clock, self.limits().frame_bytes);
        let wire = self.calls.next_id();
        let progress = self.calls.get(call).is_some_and(|call| call.progress);
        let Some(identity) = self.side.identity() else { return };
        super::probe::identify(&mut params, 0, version, identity);
        if progress {
            splice::progress_token(&mut params, 0, wire.as_u64());
        }
        let queued: Result<_, ()> = self.outbox.push(Lane::Request, Owner::Call(wire), max_len, |out| {
            encode::open_request(out, &RequestId::from(wire.as_u64()), method.as_str());
            out.extend_from_slice(b",\"params\":");
            out.extend_from_slice(&params);
            out.push(b'}');
            Ok(())
        });
        if matches!(queued, Ok(Some(_))) {
            self.calls.reissue(clock, call);
        } else {
            let error = ErrorObject::internal("The answers are larger than the limit");
            let event = self.finish_call(call, Outcome::Error(error));
            self.events.extend(event.map(Event::into_owned));
        }
    }

    /// Nobody waits for the answers to a call's questions any more.
    pub(super) fn drop_questions(&mut self, call: CallId) {
        if self.rounds.calls.get(&call).is_none_or(|round| round.answers.is_empty()) {
            return;
        }
        for key in self.requests.keys(State::Open) {
            let asked = self.requests.get(key).and_then(|(entry, _)| entry.tag.question);
            if asked.is_some_and(|question| question.call == call) {
                self.cancel_request(key);
                self.events.push_back(Event::Cancelled { key, cause: CancelCause::Peer(None) });
            }
        }
    }
}

struct Asked {
    /// The name, as JSON.
    name: String,
    method: Method,
    params: Option<RawJson<'static>>,
}

/// The members of `inputRequests`.
fn questions(requests: &RawJson<'_>) -> Result<Vec<Asked>, ()> {
    let mut scanner = Scanner::new(requests.get(), MAX_DEPTH);
    scanner.expect(b'{').map_err(|_| ())?;
    let mut asked = Vec::new();
    while let Some(name) = scanner.next_member(asked.is_empty()).map_err(|_| ())? {
        let request = RawJson::trusted(scanner.value(1).map_err(|_| ())?);
        let method: String = request.member("method").and_then(|method| method.decode().ok()).ok_or(())?;
        let method = Method::parse(&method)
            .filter(|method| matches!(method, Method::Elicit | Method::CreateMessage | Method::ListRoots))
            .ok_or(())?;
        let params = request.member("params").map(RawJson::into_owned);
        asked.push(Asked { name: format!("\"{}\"", name.inner), method, params });
    }
    Ok(asked)
}
