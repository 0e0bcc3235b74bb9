//! The model: results that are questions, as a client of 2026-07-28 sees them.

use serde_json::Value;

use super::{
    call::CallState,
    peer::Model,
    request::{Request, RequestState},
    step::{By, Ending, Seen},
    table::{REQUESTS, ROUNDS},
};

/// Questions, and the answers that are there.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    pub(super) count: u32,
    pub(super) put_off: u32,
    pub(super) state: Option<Value>,
    pub(super) answers: Vec<(String, Option<Value>)>,
    pub(super) due: Option<u64>,
}

impl Model {
    pub(super) fn hear_modern_result(&mut self, index: usize, result: &Value) {
        let (id, method) = (self.calls[index].id, self.calls[index].method);
        let complete = result.get("resultType").is_none_or(|kind| kind == "complete");
        if complete && self.calls[index].listening.is_some() {
            return self.subscription_ended(index, Ending::Result(result.clone()));
        }
        let asks = result["resultType"] == "input_required" && method == "tools/call";
        if asks && self.hear_questions(index, result) {
            return;
        }
        let ending = if complete { Ending::Result(result.clone()) } else { Ending::Malformed };
        self.drop_questions(id);
        self.over(index);
        self.events.push(Seen::Ended(id, ending));
    }

    /// A result that is questions, or that only puts the call off. Whether it is a good one.
    fn hear_questions(&mut self, index: usize, result: &Value) -> bool {
        let empty = serde_json::Map::new();
        let questions = match result.get("inputRequests") {
            None => &empty,
            Some(Value::Object(questions)) => questions,
            Some(_) => return false,
        };
        let state = result.get("requestState");
        if state.map_or(questions.is_empty(), |state| !state.is_string()) {
            return false;
        }
        // All are looked at before the first is asked. The client can list its roots and show forms.
        let declared = ["roots/list", "elicitation/create", "sampling/createMessage"];
        if !questions.values().all(|question| declared.iter().any(|method| question["method"] == *method)) {
            return false;
        }
        let call = &mut self.calls[index];
        let round = &mut call.round;
        round.count += 1;
        round.put_off = if questions.is_empty() { round.put_off + 1 } else { 0 };
        round.state = state.cloned();
        round.answers = questions.keys().map(|name| (name.clone(), None)).collect();
        if round.count > ROUNDS {
            round.answers.clear();
            return false;
        }
        // It waits for its own side, which is not the other one's silence.
        (call.state, call.idle_at) = (CallState::Waits, None);
        let (id, put_off) = (call.id, round.put_off);
        if questions.is_empty() {
            // The first time it goes at once, then after a quarter of a second, and twice as long each time.
            match put_off - 1 {
                0 => self.send_again(index),
                n => self.calls[index].round.due = Some(self.now + (250 << (n - 1))),
            }
            return true;
        }
        for (number, question) in questions.values().enumerate() {
            if self.holds()[1] >= REQUESTS {
                return false;
            }
            let method = question["method"].as_str().expect("it was looked at").to_owned();
            self.requests.push(Request {
                id: Value::Null,
                method: method.clone(),
                token: None,
                reported: None,
                state: RequestState::Open,
                batch: None,
                question: Some((id, number)),
            });
            self.hand(self.requests.len() - 1, &method, &question["params"]);
        }
        true
    }

    /// The application has answered a question, with a result or not.
    pub(super) fn question_answered(&mut self, call: u64, question: usize, answer: Option<Value>) {
        let found = self.calls.iter().position(|known| known.id == call && known.state == CallState::Waits);
        let Some(index) = found else { return };
        let Some(answer) = answer else {
            // The server cannot be told that a question was refused, so the call ends here.
            self.drop_questions(call);
            self.over(index);
            return self.events.push(Seen::Ended(call, Ending::Error(-32603)));
        };
        let answers = &mut self.calls[index].round.answers;
        answers[question].1 = Some(answer);
        if answers.iter().all(|(_, answer)| answer.is_some()) {
            self.send_again(index);
        }
    }

    /// The answers to the questions of a call are not waited for any more.
    pub(super) fn drop_questions(&mut self, call: u64) {
        for index in 0..self.requests.len() {
            let request = &mut self.requests[index];
            if request.state == RequestState::Open && request.question.is_some_and(|(asked, _)| asked == call) {
                request.state = RequestState::Cancelled;
                self.unhand(index, By::Peer);
            }
        }
    }
}
