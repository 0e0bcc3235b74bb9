//! The model: requests of the other side.

use serde_json::{Value, json};

use super::{
    output::About,
    peer::Model,
    step::{AppEvent, CancelSource, Reply, result_of},
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
    /// The batch that contained it.
    pub(super) batch: Option<usize>,
    /// The call that it is an input request of, and its index there.
    pub(super) input_request: Option<(u64, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestState {
    /// The application has to respond.
    Open,
    /// Its response is queued.
    Answered,
    /// It was cancelled, and the application has not responded yet.
    Cancelled,
    /// Its response was sent or withdrawn.
    Done,
}

impl Model {
    /// Registers a request, unless the table is full.
    pub(super) fn register(&mut self, id: &Value, method: &str, params: &Value, batch: Option<usize>) -> Option<usize> {
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
            input_request: None,
        });
        if let Some(batch) = batch.and_then(|batch| self.batches[batch].as_mut()) {
            batch.open += 1;
        }
        Some(self.requests.len() - 1)
    }

    /// Registers a request, unless the table is full, and delivers it to the application.
    pub(super) fn admit(&mut self, id: &Value, method: &str, params: &Value, batch: Option<usize>) -> Option<usize> {
        let request = self.register(id, method, params, batch)?;
        self.deliver(request, method, params);
        Some(request)
    }

    /// Delivers a request to the application.
    pub(super) fn deliver(&mut self, request: usize, method: &str, params: &Value) {
        self.events.push(AppEvent::Request(self.delivered.len(), method.to_owned(), params.clone()));
        self.delivered.push(request);
    }

    /// Reports the cancellation of a delivered request to the application.
    pub(super) fn cancel_delivered(&mut self, request: usize, by: CancelSource) {
        let number = self.delivered.iter().position(|delivered| *delivered == request);
        self.events.push(AppEvent::Cancelled(number.expect("it was handed out"), by));
    }

    pub(super) fn respond(&mut self, number: usize, reply: Reply) -> Result<(), &'static str> {
        let index = self.delivered[number];
        let request = self.requests[index].clone();
        match request.state {
            RequestState::Answered | RequestState::Done => return Err("Answered"),
            RequestState::Cancelled => {
                self.requests[index].state = RequestState::Done;
                self.note_progress();
                return Ok(());
            }
            RequestState::Open => self.note_progress(),
        }
        if let Some((call, input_request)) = request.input_request {
            self.requests[index].state = RequestState::Done;
            self.answer_input_request(call, input_request, (reply == Reply::Result).then(|| result_of(number)));
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
        if request.batch.is_none() {
            self.queue_list_changes();
        }
        self.requests[index].state = RequestState::Answered;
        let about = About::Reply { request: index, last: true };
        match request.batch {
            None => self.control.push((about, message)),
            Some(batch) => {
                let batch = self.batches[batch].as_mut().expect("the batch waits for this response");
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

    pub(super) fn report_progress(&mut self, number: usize, progress: u8) -> Result<(), &'static str> {
        let index = self.delivered[number];
        let request = &mut self.requests[index];
        match request.state {
            RequestState::Answered | RequestState::Done => return Err("Answered"),
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

    /// Handles the cancellation of a request: its queued frames are removed. A later response of the handler is
    /// discarded.
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
            request.state = RequestState::Done;
            self.note_progress();
        }
        self.remove_empty_batches();
    }
}
