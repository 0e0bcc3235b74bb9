//! The model: requests of the other side.

use serde_json::{Value, json};

use super::{
    output::About,
    peer::Model,
    step::{By, Reply, Seen, result_of},
    table::REQUESTS,
};

/// A request of the other side.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) token: Option<Value>,
    pub(super) reported: Option<u8>,
    pub(super) state: RequestState,
    /// The batch that it came in.
    pub(super) batch: Option<usize>,
    /// The call that it is a question of, and which one.
    pub(super) question: Option<(u64, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestState {
    /// It is owed an answer.
    Open,
    /// Its answer waits to be written.
    Answered,
    /// The other side does not want it, and the application has not said anything yet.
    Cancelled,
    /// Nothing is left of it.
    Gone,
}

impl Model {
    /// Lets a request in, if there is room for it.
    pub(super) fn enter(&mut self, id: &Value, method: &str, params: &Value, batch: Option<usize>) -> Option<usize> {
        if self.holds()[1] >= REQUESTS {
            self.refuse(id, -32603, batch, "TooManyRequests");
            return None;
        }
        let token = params["_meta"].get("progressToken").cloned();
        self.requests.push(Request {
            id: id.clone(),
            method: method.to_owned(),
            token,
            reported: None,
            state: RequestState::Open,
            batch,
            question: None,
        });
        if let Some(batch) = batch.and_then(|batch| self.batches[batch].as_mut()) {
            batch.open += 1;
        }
        Some(self.requests.len() - 1)
    }

    /// Lets a request in, if there is room for it, and hands it to the application.
    pub(super) fn admit(&mut self, id: &Value, method: &str, params: &Value, batch: Option<usize>) -> Option<usize> {
        let request = self.enter(id, method, params, batch)?;
        self.hand(request, method, params);
        Some(request)
    }

    /// A request goes to the application.
    pub(super) fn hand(&mut self, request: usize, method: &str, params: &Value) {
        self.events.push(Seen::Request(self.handed.len(), method.to_owned(), params.clone()));
        self.handed.push(request);
    }

    /// The application hears that a request is not wanted any more.
    pub(super) fn unhand(&mut self, request: usize, by: By) {
        let number = self.handed.iter().position(|handed| *handed == request);
        self.events.push(Seen::Cancelled(number.expect("it was handed out"), by));
    }

    pub(super) fn answer(&mut self, number: usize, reply: Reply) -> Result<(), &'static str> {
        let index = self.handed[number];
        let request = self.requests[index].clone();
        match request.state {
            RequestState::Answered | RequestState::Gone => return Err("Answered"),
            RequestState::Cancelled => {
                self.requests[index].state = RequestState::Gone;
                self.progressed();
                return Ok(());
            }
            RequestState::Open => self.progressed(),
        }
        if let Some((call, question)) = request.question {
            self.requests[index].state = RequestState::Gone;
            self.question_answered(call, question, (reply == Reply::Result).then(|| result_of(number)));
            return Ok(());
        }
        let message = match reply {
            Reply::Result => {
                let mut result = result_of(number);
                if self.is_modern() {
                    result["resultType"] = json!("complete");
                    result["_meta"] = json!({"io.modelcontextprotocol/serverInfo": "…"});
                    if request.method == "tools/list" {
                        (result["ttlMs"], result["cacheScope"]) = (json!(0), json!("private"));
                    }
                }
                json!({"jsonrpc": "2.0", "id": request.id, "result": result})
            }
            Reply::Error => json!({"jsonrpc": "2.0", "id": request.id, "error": {"code": -32603}}),
        };
        self.requests[index].state = RequestState::Answered;
        let about = About::Reply { request: index, last: true };
        match request.batch {
            None => self.control.push((about, message)),
            Some(batch) => {
                let batch = self.batches[batch].as_mut().expect("it waits for this answer");
                batch.open -= 1;
                batch.answers.push((about, message));
            }
        }
        if let Some((_, level)) = self.levels.iter().find(|(request, _)| *request == index)
            && reply == Reply::Result
        {
            self.level = *level;
        }
        self.end_if_drained();
        Ok(())
    }

    pub(super) fn report(&mut self, number: usize, progress: u8) -> Result<(), &'static str> {
        let index = self.handed[number];
        let request = &mut self.requests[index];
        match request.state {
            RequestState::Answered | RequestState::Gone => return Err("Answered"),
            RequestState::Cancelled => return Ok(()),
            RequestState::Open => {}
        }
        let Some(token) = request.token.clone() else { return Ok(()) };
        if request.reported.is_some_and(|last| progress <= last) {
            return Err("ProgressNotGrowing");
        }
        request.reported = Some(progress);
        let params = json!({"progressToken": token, "progress": progress});
        let message = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        self.control.push((About::Reply { request: index, last: false }, message));
        Ok(())
    }

    /// A request is not wanted any more: nothing of it leaves, and its handler may answer into the void.
    pub(super) fn withdraw(&mut self, index: usize) {
        self.control.retain(|(about, _)| !matches!(about, About::Reply { request, .. } if *request == index));
        let request = &mut self.requests[index];
        if let Some(batch) = request.batch.and_then(|batch| self.batches[batch].as_mut()) {
            let answered = batch.answers.len();
            batch.answers.retain(|(about, _)| !matches!(about, About::Reply { request, .. } if *request == index));
            batch.open -= usize::from(batch.answers.len() == answered);
        }
        if request.state == RequestState::Open {
            request.state = RequestState::Cancelled;
        } else {
            request.state = RequestState::Gone;
            self.progressed();
        }
        self.tidy();
    }
}
