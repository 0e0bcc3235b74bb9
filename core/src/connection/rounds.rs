//! Results that are questions (2026-07-28), as a client sees them: the questions go to the application, and the
//! request is sent again with the answers. For the application it stays one call.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};

use super::{
    CancelCause, Event, Outcome,
    engine::{Engine, RequestTag, Token},
    receive::Origin,
    splice,
};
use crate::{
    protocol::{Capability, Method, MethodName, ProtocolVersion},
    rpc::{CallId, ReplyKey, State},
    wire::{
        ErrorObject, RawJson, RequestId,
        scan::{MAX_DEPTH, Scanner},
    },
};

/// What a request was answered with, if that were questions.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    /// How often that was so.
    count: u32,
    /// How often in a row there was nothing to answer, but only a state to come back with.
    put_off: u32,
    /// The state that the latest result came with, as JSON.
    state: Option<String>,
    /// The questions of the latest result: their names as JSON, and the answers that are there.
    answers: Vec<(String, Option<Vec<u8>>)>,
}

impl Round {
    pub(super) fn weight(&self) -> usize {
        let answer = |(name, answer): &(String, Option<Vec<u8>>)| {
            size_of::<(String, Option<Vec<u8>>)>() + name.len() + answer.as_ref().map_or(0, Vec::len)
        };
        self.state.as_ref().map_or(0, String::len) + self.answers.iter().map(answer).sum::<usize>()
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.count > 0
    }

    /// Whether answers are waited for.
    pub(super) fn is_open(&self) -> bool {
        self.answers.iter().any(|(_, answer)| answer.is_none())
    }

    /// Adds what belongs to the latest result to the params of the next request.
    pub(super) fn add(&self, params: &mut Vec<u8>) {
        if let Some(state) = &self.state {
            splice::set(params, 0, "requestState", state);
        }
        if self.answers.is_empty() {
            return;
        }
        let mut answers = Vec::new();
        for (name, answer) in &self.answers {
            answers.push(if answers.is_empty() { b'{' } else { b',' });
            answers.extend_from_slice(name.as_bytes());
            answers.push(b':');
            answers.extend_from_slice(answer.as_deref().unwrap_or_default());
        }
        answers.push(b'}');
        splice::set(params, 0, "inputResponses", core::str::from_utf8(&answers).unwrap_or("{}"));
    }
}

/// A question of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) call: CallId,
    pub(super) index: usize,
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
        let pursues = self.pursues(call);
        let may_become_task =
            !pursues && method.is_some_and(Method::may_become_task) && self.local.contains(Capability::TasksExtension);
        match kind.as_deref() {
            // Some servers call a task by the wrong name when they are asked for it.
            None | Some("complete" | "task") if pursues => self.task_answered(call, result),
            Some("task") if method == Some(Method::ExtGetTask) => self.finish_call(call, Outcome::Result(result)),
            None | Some("complete") if self.listens(call) => self.subscription_ended(call, Outcome::Result(result)),
            None | Some("complete") => {
                self.keep_result(call, &result);
                self.finish_call(call, Outcome::Result(result))
            }
            Some("task") if may_become_task && self.repeats.follows_tasks(call) => self.became_task(call, result),
            Some("task") if may_become_task => self.finish_call(call, Outcome::Result(result)),
            Some("input_required") if !pursues && self.may_ask(call) => {
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

    /// Whether a request may be answered with questions.
    fn may_ask(&self, call: CallId) -> bool {
        self.repeats.get(call).is_some_and(|kept| kept.method.known().is_some_and(Method::may_ask))
    }

    /// Hands the questions of a result to the application.
    fn ask(&mut self, call: CallId, result: &RawJson<'_>) -> Result<(), ()> {
        let state = result.member("requestState");
        let questions = result.member("inputRequests").as_ref().map_or_else(|| Ok(Vec::new()), questions)?;
        if state.as_ref().map_or(questions.is_empty(), |state| !state.get().starts_with('"')) {
            return Err(());
        }
        // All are looked at before the first is asked.
        if !questions.iter().all(|question| self.may_be_asked(question)) {
            return Err(());
        }
        let limits = self.limits();
        let (most_rounds, most_questions, most_bytes) = (limits.rounds, limits.questions, limits.call_bytes);
        if questions.len() > most_questions {
            return Err(());
        }
        let round = self.repeats.change(call, |kept| {
            let round = &mut kept.round;
            round.count += 1;
            round.put_off = if questions.is_empty() { round.put_off + 1 } else { 0 };
            round.state = state.map(|state| state.get().to_string());
            round.answers = questions.iter().map(|question| (question.name.clone(), None)).collect();
            (round.count, round.put_off)
        });
        let (count, put_off) = round.ok_or(())?;
        if count > most_rounds || self.repeats.bytes() > most_bytes {
            return Err(());
        }
        if questions.is_empty() {
            // The first time may be a matter of where the server keeps things.
            self.send_later(call, put_off - 1);
            return Ok(());
        }
        self.calls.suspend(call);
        for (index, question) in questions.into_iter().enumerate() {
            let id = RequestId::from(&*format!("{}/{}", call.as_u64(), index));
            let origin =
                Origin { bytes: question.params.as_ref().map_or(0, |params| params.get().len()), ..Origin::default() };
            let tag = RequestTag { question: Some(Question { call, index }), ..RequestTag::new(Token::None, origin) };
            let key = self.admit(id, tag, origin).map_err(|_| ())?;
            self.events.push_back(Event::Request {
                key,
                method: MethodName::Known(question.method),
                params: question.params,
            });
        }
        Ok(())
    }

    /// Whether this client has declared that it can be asked this.
    pub(super) fn may_be_asked(&self, question: &Asked) -> bool {
        let needed = question.method.needs(ProtocolVersion::LATEST_LEGACY);
        needed.is_some_and(|needed| self.local.contains(needed))
            && self.undeclared_form(question.method, question.params.as_ref()).is_none()
    }

    /// The application has answered a question.
    pub(super) fn answer_question(&mut self, key: ReplyKey, question: Question, answer: Result<Vec<u8>, &ErrorObject>) {
        if self.pursues(question.call) {
            return self.answer_task(key, question, answer);
        }
        self.release(key);
        let outcome = match answer {
            Ok(text) => {
                let complete = self.repeats.change(question.call, |kept| {
                    let answers = &mut kept.round.answers;
                    if let Some((_, answer)) = answers.get_mut(question.index) {
                        *answer = Some(text);
                    }
                    answers.iter().all(|(_, answer)| answer.is_some())
                });
                let fits = self.repeats.bytes() <= self.limits().call_bytes;
                match complete {
                    Some(true) if fits => return self.send_again(question.call),
                    Some(false) if fits => return,
                    Some(_) => Outcome::Error(ErrorObject::internal("The answers are larger than the limit")),
                    None => return,
                }
            }
            // There is no way to tell the server that a question was refused, so the call ends here.
            Err(error) => Outcome::Error(error.clone()),
        };
        self.drop_questions(question.call);
        let event = self.finish_call(question.call, outcome);
        self.events.extend(event.map(Event::into_owned));
    }

    /// Nobody waits for the answers to a call's questions any more.
    pub(super) fn drop_questions(&mut self, call: CallId) {
        if self.repeats.get(call).is_none_or(|kept| !kept.is_asking()) {
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

/// A question that a server asks.
pub(super) struct Asked {
    /// The name, as JSON.
    pub(super) name: String,
    pub(super) method: Method,
    pub(super) params: Option<RawJson<'static>>,
}

/// The members of `inputRequests`.
pub(super) fn questions(requests: &RawJson<'_>) -> Result<Vec<Asked>, ()> {
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
        let name = format!("\"{}\"", name.written());
        if asked.iter().any(|asked: &Asked| asked.name == name) {
            return Err(());
        }
        asked.push(Asked { name, method, params });
    }
    Ok(asked)
}
