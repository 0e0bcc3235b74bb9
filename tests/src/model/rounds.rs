//! The model: `input_required` results, as a client of 2026-07-28 handles them.

use serde_json::Value;

use super::{
    call::CallState,
    peer::Model,
    request::{Request, RequestState},
    step::{AppEvent, CancelSource, Ending},
    table::{REQUESTS, ROUNDS},
};

/// The input requests of a round, and the responses so far.
#[derive(Clone, Debug, Default)]
pub(super) struct InputRound {
    pub(super) count: u32,
    pub(super) deferrals: u32,
    pub(super) state: Option<Value>,
    pub(super) answers: Vec<(String, Option<Value>)>,
    pub(super) due: Option<u64>,
}

impl Model {
    pub(super) fn receive_modern_result(&mut self, index: usize, result: &Value) {
        let (id, method) = (self.calls[index].id, self.calls[index].method);
        let complete = result.get("resultType").is_none_or(|kind| kind == "complete");
        if complete && self.calls[index].subscription.is_some() {
            return self.subscription_ended(index, Ending::Result(result.clone()));
        }
        let requires_input = result["resultType"] == "input_required" && method == "tools/call";
        if requires_input && self.receive_input_requests(index, result) {
            return;
        }
        let ending = if complete { Ending::Result(result.clone()) } else { Ending::Malformed };
        self.drop_input_requests(id);
        self.finish_call(index);
        self.events.push(AppEvent::Ended(id, ending));
    }

    /// Handles an `input_required` result. Returns whether it is valid. Without input requests it only defers the call.
    fn receive_input_requests(&mut self, index: usize, result: &Value) -> bool {
        let empty = serde_json::Map::new();
        let input_requests = match result.get("inputRequests") {
            None => &empty,
            Some(Value::Object(input_requests)) => input_requests,
            Some(_) => return false,
        };
        let state = result.get("requestState");
        if state.map_or(input_requests.is_empty(), |state| !state.is_string()) {
            return false;
        }
        // All input requests are validated before the first is delivered. The model's client supports these methods.
        let declared = ["roots/list", "elicitation/create", "sampling/createMessage"];
        if !input_requests
            .values()
            .all(|input_request| declared.iter().any(|method| input_request["method"] == *method))
        {
            return false;
        }
        let call = &mut self.calls[index];
        let round = &mut call.round;
        round.count += 1;
        round.deferrals = if input_requests.is_empty() { round.deferrals + 1 } else { 0 };
        round.state = state.cloned();
        round.answers = input_requests.keys().map(|name| (name.clone(), None)).collect();
        if round.count > ROUNDS {
            round.answers.clear();
            return false;
        }
        // The call waits for its own application, so the idle timeout of the peer does not apply.
        (call.state, call.idle_at) = (CallState::Waiting, None);
        let (id, deferrals) = (call.id, round.deferrals);
        if input_requests.is_empty() {
            // The first retry is immediate, the next follows after 250 ms, and each pause is twice as long as the
            // previous one.
            match deferrals - 1 {
                0 => self.send_again(index),
                n => self.calls[index].round.due = Some(self.now + (250 << (n - 1))),
            }
            return true;
        }
        for (number, input_request) in input_requests.values().enumerate() {
            if self.holds()[1] >= REQUESTS {
                return false;
            }
            let method = input_request["method"].as_str().expect("it was looked at").to_owned();
            self.requests.push(Request {
                id: Value::Null,
                method: method.clone(),
                token: None,
                reported: None,
                state: RequestState::Open,
                batch: None,
                input_request: Some((id, number)),
            });
            self.deliver(self.requests.len() - 1, &method, &input_request["params"]);
        }
        true
    }

    /// Handles the application's response to an input request: a result, or an error.
    pub(super) fn answer_input_request(&mut self, call: u64, input_request: usize, answer: Option<Value>) {
        let found = self.calls.iter().position(|known| known.id == call && known.state == CallState::Waiting);
        let Some(index) = found else { return };
        let Some(answer) = answer else {
            // There is no way to report the rejection of an input request to the server, so the call ends here.
            self.drop_input_requests(call);
            self.finish_call(index);
            return self.events.push(AppEvent::Ended(call, Ending::Error(-32603)));
        };
        let answers = &mut self.calls[index].round.answers;
        answers[input_request].1 = Some(answer);
        if answers.iter().all(|(_, answer)| answer.is_some()) {
            self.send_again(index);
        }
    }

    /// Cancels the open input requests of a call.
    pub(super) fn drop_input_requests(&mut self, call: u64) {
        for index in 0..self.requests.len() {
            let request = &mut self.requests[index];
            if request.state == RequestState::Open && request.input_request.is_some_and(|(owner, _)| owner == call) {
                request.state = RequestState::Cancelled;
                self.cancel_delivered(index, CancelSource::Peer);
            }
        }
    }
}
