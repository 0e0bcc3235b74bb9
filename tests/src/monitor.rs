//! Checks the output of a server on a pipe against its input, in both eras. The monitor implements the rules of the
//! specification and shares no code with the core. It receives the lines in the order in which the server handled and
//! wrote them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    message::{VERSION, subscription_of},
    testbed::Line,
};

/// The state of the session on the pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Session {
    None,
    /// The server has responded to `initialize`.
    Opened,
    Ready,
}

/// A request of a client.
#[derive(Debug)]
struct ClientRequest {
    modern: bool,
    method: String,
    /// The progress token, as JSON.
    token: Option<String>,
    logs: bool,
    /// Requests that arrived with the same id while this one was open. The server rejects them.
    duplicates: u32,
    cancelled: bool,
    answered: bool,
    /// The response was a task. Its progress continues under the token.
    is_task: bool,
    /// The filter of a subscription, after its acknowledgement.
    filter: Option<Value>,
}

impl ClientRequest {
    const fn is_open(&self) -> bool {
        !self.cancelled && !self.answered
    }
}

/// Monitors a server.
#[derive(Debug)]
pub struct Monitor {
    session: Session,
    /// `notifications/initialized` arrived before `initialize`.
    early: bool,
    /// By id, as JSON.
    requests: BTreeMap<String, ClientRequest>,
    /// Lines that were not valid messages. Each allows one error without an id.
    invalid_lines: usize,
    /// Results of type `input_required`.
    pub input_requests: usize,
    /// Notifications of subscriptions.
    pub subscription_messages: usize,
    /// Results in sessions, and of stateless requests.
    pub results: [usize; 2],
}

impl Monitor {
    /// Returns the monitor of a server before its first message, or after its handshake.
    #[must_use]
    pub fn new(has_session: bool) -> Self {
        let session = if has_session { Session::Ready } else { Session::None };
        Self {
            session,
            early: false,
            requests: BTreeMap::new(),
            invalid_lines: 0,
            input_requests: 0,
            subscription_messages: 0,
            results: [0, 0],
        }
    }

    /// Checks lines in their order.
    ///
    /// # Panics
    /// If the server sent a message that breaks a rule.
    #[track_caller]
    pub fn watch(&mut self, trace: &[Line]) {
        for line in trace {
            let checked = match line {
                Line::In(line) => {
                    self.on_received(line);
                    Ok(())
                }
                Line::Out(line) => self.on_sent(line).map_err(|why| format!("{why}: {line}")),
            };
            if let Err(why) = checked {
                panic!("{why}");
            }
        }
    }

    fn on_received(&mut self, line: &str) {
        let Ok(message @ Value::Object(_)) = serde_json::from_str::<Value>(line) else {
            self.invalid_lines += 1;
            return;
        };
        let id = &message["id"];
        let Some(method) = message["method"].as_str() else {
            // A response, or an invalid message.
            self.invalid_lines += usize::from(message.get("result").is_none() && message.get("error").is_none());
            return;
        };
        if message.get("id").is_none() {
            return self.on_notification(method, &message["params"]);
        }
        if !(id.is_string() || id.is_i64() || id.is_u64()) {
            self.invalid_lines += 1;
            return;
        }
        if let Some(open) = self.requests.get_mut(&id.to_string()).filter(|requests| requests.is_open()) {
            open.duplicates += 1;
            return;
        }
        let meta = &message["params"]["_meta"];
        let requests = ClientRequest {
            modern: meta.get(VERSION).is_some(),
            method: method.to_owned(),
            token: meta.get("progressToken").map(Value::to_string),
            logs: meta.get("io.modelcontextprotocol/logLevel").is_some(),
            duplicates: 0,
            cancelled: false,
            answered: false,
            is_task: false,
            filter: None,
        };
        self.requests.insert(id.to_string(), requests);
    }

    fn on_notification(&mut self, method: &str, params: &Value) {
        match method {
            "notifications/initialized" => match self.session {
                Session::None => self.early = true,
                Session::Opened | Session::Ready => self.session = Session::Ready,
            },
            "notifications/cancelled" => {
                if let Some(requests) = self.requests.get_mut(&params["requestId"].to_string())
                    && !requests.answered
                    && requests.method != "initialize"
                {
                    requests.cancelled = true;
                }
            }
            _ => {}
        }
    }

    fn on_sent(&mut self, line: &str) -> Result<(), String> {
        let message: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        ensure(message.is_object() && message["jsonrpc"] == "2.0", "no message")?;
        match (message["method"].as_str(), message.get("id")) {
            (Some(_), Some(id)) => {
                ensure(id.is_string() || id.is_u64(), "an id of no kind")?;
                ensure(self.session >= Session::Opened, "a request without a session")
            }
            (Some(method), None) => self.on_sent_notification(method, &message),
            (None, None | Some(Value::Null)) => {
                ensure(message["error"]["code"].is_i64(), "a response without an id and without an error code")?;
                ensure(self.invalid_lines > 0, "a response without a request")?;
                self.invalid_lines -= 1;
                Ok(())
            }
            (None, Some(id)) => self.on_response(&id.to_string(), &message),
        }
    }

    fn on_response(&mut self, id: &str, message: &Value) -> Result<(), String> {
        let session = self.session;
        let requests = self.requests.get_mut(id).ok_or("a response without a request")?;
        let (result, error) = (message.get("result"), message.get("error"));
        if let Some(error) = error {
            ensure(result.is_none() && error["message"].is_string(), "an error of no shape")?;
            let code = error["code"].as_i64().ok_or("an error without a code")?;
            let reserved = (-32099..=-32000).contains(&code) && !(-32022..=-32020).contains(&code);
            ensure(!requests.modern || !reserved, "a code that the revision does not have")?;
            if requests.duplicates > 0 && error["code"] == -32600 {
                requests.duplicates -= 1;
                return Ok(());
            }
        }
        ensure(!requests.answered, "a second response")?;
        ensure(!requests.cancelled, "a response after the cancellation")?;
        requests.answered = true;
        let Some(result) = result else { return ensure(error.is_some(), "a response without result and error") };
        ensure(result.is_object(), "a result that is no object")?;
        requests.is_task = !requests.modern && result.get("task").is_some();
        self.results[usize::from(requests.modern)] += 1;
        self.input_requests += usize::from(result["resultType"] == "input_required");
        if requests.modern {
            ensure(result["resultType"].is_string(), "a result without `resultType`")?;
            ensure(
                requests.method != "subscriptions/listen" || requests.filter.is_some(),
                "the end of a subscription before its acknowledgement",
            )?;
        } else {
            ensure(result.get("resultType").is_none(), "`resultType` in a session")?;
            ensure(result.get("_meta").is_none(), "`_meta` with the server in a session")?;
            if requests.method == "initialize" {
                ensure(session == Session::None, "a second session")?;
                self.session = if self.early { Session::Ready } else { Session::Opened };
            } else {
                ensure(session >= Session::Opened || requests.method == "ping", "a result before the handshake")?;
            }
        }
        Ok(())
    }

    fn on_sent_notification(&mut self, method: &str, message: &Value) -> Result<(), String> {
        let params = &message["params"];
        if let Some(id) = subscription_of(message) {
            self.subscription_messages += 1;
            let requests =
                self.requests.get_mut(&id.to_string()).ok_or("a notification for an unknown subscription")?;
            ensure(
                requests.modern && requests.method == "subscriptions/listen",
                "a notification for a request that is not a subscription",
            )?;
            ensure(requests.is_open(), "a notification after the end")?;
            if method == "notifications/subscriptions/acknowledged" {
                ensure(requests.filter.is_none(), "acknowledged twice")?;
                requests.filter = Some(params["notifications"].clone());
                return Ok(());
            }
            let filter = requests.filter.as_ref().ok_or("a notification before the acknowledgement")?;
            let uri = params["uri"].as_str().unwrap_or_default();
            let wanted = match method {
                "notifications/tools/list_changed" => filter["toolsListChanged"] == true,
                "notifications/prompts/list_changed" => filter["promptsListChanged"] == true,
                "notifications/resources/list_changed" => filter["resourcesListChanged"] == true,
                "notifications/resources/updated" => {
                    let mut uris = filter["resourceSubscriptions"].as_array().into_iter().flatten();
                    uris.any(|subscribed| subscribed.as_str().is_some_and(|it| uri.starts_with(it)))
                }
                "notifications/tasks" => {
                    let mut tasks = filter["taskIds"].as_array().into_iter().flatten();
                    tasks.any(|listed| *listed == params["taskId"])
                }
                _ => false,
            };
            return ensure(wanted, "a notification outside of the filter");
        }
        match method {
            "notifications/progress" => {
                let token = params["progressToken"].to_string();
                let mut open = self.requests.values().filter(|requests| requests.is_open() || requests.is_task);
                ensure(open.any(|requests| requests.token.as_ref() == Some(&token)), "progress without an open request")
            }
            "notifications/message" => {
                let mut open = self.requests.values().filter(|requests| requests.is_open());
                let wanted = open.any(|requests| requests.modern && requests.logs);
                ensure(wanted || self.session >= Session::Opened, "a log message without a request for it")
            }
            "notifications/cancelled" => {
                let ended = self.requests.get(&params["requestId"].to_string());
                let ended = ended.is_some_and(|requests| requests.answered && requests.filter.is_some());
                ensure(ended || self.session >= Session::Opened, "a cancellation without a request")
            }
            _ => ensure(self.session == Session::Ready, "a notification without a session"),
        }
    }

    /// Returns the requests that were neither responded to nor cancelled.
    #[must_use]
    pub fn open(&self) -> Vec<Value> {
        let open = self.requests.iter().filter(|(_, requests)| requests.is_open());
        open.map(|(id, requests)| json!({"id": id, "method": requests.method})).collect()
    }
}

fn ensure(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}
