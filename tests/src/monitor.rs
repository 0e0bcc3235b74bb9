//! What a server may say on a pipe, in both eras, held against what it was told. It knows the rules and nothing of the
//! implementation: it sees the lines in the order in which the server saw them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    bed::Line,
    message::{VERSION, subscription_of},
};

/// How far the session on the pipe is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Session {
    None,
    /// `initialize` has been answered.
    Opened,
    Ready,
}

/// A request of a client.
#[derive(Debug)]
struct Asked {
    modern: bool,
    method: String,
    /// The progress token, as JSON.
    token: Option<String>,
    wants_logs: bool,
    /// Others that came with the same id meanwhile, and are refused.
    twins: u32,
    cancelled: bool,
    answered: bool,
    /// It was answered with a task, whose progress goes on under its token.
    is_task: bool,
    /// What a subscription hears of, once it is acknowledged.
    filter: Option<Value>,
}

impl Asked {
    const fn is_open(&self) -> bool {
        !self.cancelled && !self.answered
    }
}

/// Watches a server.
#[derive(Debug)]
pub struct Monitor {
    session: Session,
    /// `notifications/initialized` has overtaken `initialize`.
    early: bool,
    /// By id, as JSON.
    asked: BTreeMap<String, Asked>,
    /// Lines that were no messages, and may be answered by an error without an id.
    junk: usize,
    /// Results that were questions.
    pub questions: usize,
    /// Messages of subscriptions.
    pub news: usize,
    /// Results of each era: of sessions, and without.
    pub results: [usize; 2],
}

impl Monitor {
    /// A server without a message yet, or one behind its handshake.
    #[must_use]
    pub fn new(has_session: bool) -> Self {
        let session = if has_session { Session::Ready } else { Session::None };
        Self { session, early: false, asked: BTreeMap::new(), junk: 0, questions: 0, news: 0, results: [0, 0] }
    }

    /// Looks at lines in their order.
    ///
    /// # Panics
    /// If the server said something that it must not say.
    #[track_caller]
    pub fn watch(&mut self, trace: &[Line]) {
        for line in trace {
            let checked = match line {
                Line::In(line) => {
                    self.heard(line);
                    Ok(())
                }
                Line::Out(line) => self.said(line).map_err(|why| format!("{why}: {line}")),
            };
            if let Err(why) = checked {
                panic!("{why}");
            }
        }
    }

    fn heard(&mut self, line: &str) {
        let Ok(message @ Value::Object(_)) = serde_json::from_str::<Value>(line) else {
            self.junk += 1;
            return;
        };
        let id = &message["id"];
        let Some(method) = message["method"].as_str() else {
            // A response, or nothing.
            self.junk += usize::from(message.get("result").is_none() && message.get("error").is_none());
            return;
        };
        if message.get("id").is_none() {
            return self.noted(method, &message["params"]);
        }
        if !(id.is_string() || id.is_i64() || id.is_u64()) {
            self.junk += 1;
            return;
        }
        if let Some(open) = self.asked.get_mut(&id.to_string()).filter(|asked| asked.is_open()) {
            open.twins += 1;
            return;
        }
        let meta = &message["params"]["_meta"];
        let asked = Asked {
            modern: meta.get(VERSION).is_some(),
            method: method.to_owned(),
            token: meta.get("progressToken").map(Value::to_string),
            wants_logs: meta.get("io.modelcontextprotocol/logLevel").is_some(),
            twins: 0,
            cancelled: false,
            answered: false,
            is_task: false,
            filter: None,
        };
        self.asked.insert(id.to_string(), asked);
    }

    fn noted(&mut self, method: &str, params: &Value) {
        match method {
            "notifications/initialized" => match self.session {
                Session::None => self.early = true,
                Session::Opened | Session::Ready => self.session = Session::Ready,
            },
            "notifications/cancelled" => {
                if let Some(asked) = self.asked.get_mut(&params["requestId"].to_string())
                    && !asked.answered
                    && asked.method != "initialize"
                {
                    asked.cancelled = true;
                }
            }
            _ => {}
        }
    }

    fn said(&mut self, line: &str) -> Result<(), String> {
        let message: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        expect(message.is_object() && message["jsonrpc"] == "2.0", "no message")?;
        match (message["method"].as_str(), message.get("id")) {
            (Some(_), Some(id)) => {
                expect(id.is_string() || id.is_u64(), "an id of no kind")?;
                expect(self.session >= Session::Opened, "a request where there is no session")
            }
            (Some(method), None) => self.said_news(method, &message),
            (None, None | Some(Value::Null)) => {
                expect(message["error"]["code"].is_i64(), "an answer without an id")?;
                expect(self.junk > 0, "an answer to nothing")?;
                self.junk -= 1;
                Ok(())
            }
            (None, Some(id)) => self.answered(&id.to_string(), &message),
        }
    }

    fn answered(&mut self, id: &str, message: &Value) -> Result<(), String> {
        let session = self.session;
        let asked = self.asked.get_mut(id).ok_or("an answer to nothing")?;
        let (result, error) = (message.get("result"), message.get("error"));
        if let Some(error) = error {
            expect(result.is_none() && error["message"].is_string(), "an error of no shape")?;
            let code = error["code"].as_i64().ok_or("an error without a code")?;
            let reserved = (-32099..=-32000).contains(&code) && !(-32022..=-32020).contains(&code);
            expect(!asked.modern || !reserved, "a code that the revision does not have")?;
            if asked.twins > 0 && error["code"] == -32600 {
                asked.twins -= 1;
                return Ok(());
            }
        }
        expect(!asked.answered, "a second answer")?;
        expect(!asked.cancelled, "an answer behind a cancellation")?;
        asked.answered = true;
        let Some(result) = result else { return expect(error.is_some(), "an answer that is none") };
        expect(result.is_object(), "a result that is no object")?;
        asked.is_task = !asked.modern && result.get("task").is_some();
        self.results[usize::from(asked.modern)] += 1;
        self.questions += usize::from(result["resultType"] == "input_required");
        if asked.modern {
            expect(result["resultType"].is_string(), "a result without its kind")?;
            expect(asked.method != "subscriptions/listen" || asked.filter.is_some(), "an end before the beginning")?;
        } else {
            expect(result.get("resultType").is_none(), "a session does not know kinds of results")?;
            expect(result.get("_meta").is_none(), "a session is told once who its server is")?;
            if asked.method == "initialize" {
                expect(session == Session::None, "a second session")?;
                self.session = if self.early { Session::Ready } else { Session::Opened };
            } else {
                expect(session >= Session::Opened || asked.method == "ping", "a result before the handshake")?;
            }
        }
        Ok(())
    }

    fn said_news(&mut self, method: &str, message: &Value) -> Result<(), String> {
        let params = &message["params"];
        if let Some(id) = subscription_of(message) {
            self.news += 1;
            let asked = self.asked.get_mut(&id.to_string()).ok_or("news for an unknown subscription")?;
            expect(asked.modern && asked.method == "subscriptions/listen", "news for a request that does not listen")?;
            expect(asked.is_open(), "news behind the end")?;
            if method == "notifications/subscriptions/acknowledged" {
                expect(asked.filter.is_none(), "acknowledged twice")?;
                asked.filter = Some(params["notifications"].clone());
                return Ok(());
            }
            let filter = asked.filter.as_ref().ok_or("news before the acknowledgement")?;
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
            return expect(wanted, "news outside of the filter");
        }
        match method {
            "notifications/progress" => {
                let token = params["progressToken"].to_string();
                let mut open = self.asked.values().filter(|asked| asked.is_open() || asked.is_task);
                expect(open.any(|asked| asked.token.as_ref() == Some(&token)), "progress of nothing that is open")
            }
            "notifications/message" => {
                let mut open = self.asked.values().filter(|asked| asked.is_open());
                let wanted = open.any(|asked| asked.modern && asked.wants_logs);
                expect(wanted || self.session >= Session::Opened, "a log message without a request for it")
            }
            "notifications/cancelled" => {
                let ended = self.asked.get(&params["requestId"].to_string());
                let ended = ended.is_some_and(|asked| asked.answered && asked.filter.is_some());
                expect(ended || self.session >= Session::Opened, "a cancellation of nothing")
            }
            _ => expect(self.session == Session::Ready, "news where there is no session"),
        }
    }

    /// Requests that were neither answered nor cancelled.
    #[must_use]
    pub fn open(&self) -> Vec<Value> {
        let open = self.asked.iter().filter(|(_, asked)| asked.is_open());
        open.map(|(id, asked)| json!({"id": id, "method": asked.method})).collect()
    }
}

fn expect(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}
