//! Looks at every message that an end reads and writes, with a parser of its own, and confirms what the specification says
//! of a conversation.

use std::collections::BTreeMap;

use serde_json::Value;

/// A request of the peer, or several under one id.
#[derive(Debug, Default)]
struct Asked {
    /// Answers that it may still get.
    owed: u32,
    token: Option<String>,
    progress: Option<f64>,
    /// Its cancellation has been handled.
    is_cancelled: bool,
}

/// A request of this end.
#[derive(Debug, Default)]
struct Made {
    method: String,
    is_task: bool,
    is_answered: bool,
    is_cancelled: bool,
}

/// One end's messages.
#[derive(Debug)]
pub struct Wiretap {
    asked: BTreeMap<String, Asked>,
    made: BTreeMap<String, Made>,
    /// Tokens of requests that have become tasks, whose progress goes on.
    tasks: Vec<String>,
    /// Messages that may be answered without an id.
    unreadable: u32,
    /// Messages that are no JSON: cut off, or nested too deeply. Whatever id is in them may be answered.
    torn: u32,
    /// Whether the peer is a client of the core, which never uses an id twice.
    peer_is_good: bool,
}

impl Wiretap {
    /// An end that has not read or written anything.
    #[must_use]
    pub const fn new(peer_is_good: bool) -> Self {
        Self { asked: BTreeMap::new(), made: BTreeMap::new(), tasks: Vec::new(), unreadable: 0, torn: 0, peer_is_good }
    }

    /// This end is about to handle a message.
    pub fn before_reading(&mut self, frame: &[u8]) {
        match serde_json::from_slice(frame) {
            Ok(Value::Array(members)) => {
                self.unreadable += 1;
                members.iter().for_each(|member| self.reads(member));
            }
            Ok(message) => self.reads(&message),
            Err(_) => {
                self.unreadable += 1;
                self.torn += 1;
            }
        }
    }

    fn reads(&mut self, message: &Value) {
        self.unreadable += 1;
        let Some(id) = id_of(message) else { return };
        let is_answer = message.get("method").is_none();
        if let Some(made) = self.made.get_mut(&id)
            && is_answer
        {
            made.is_answered = true;
            made.is_task |= message["result"].get("task").is_some();
        }
        if is_answer && self.peer_is_good {
            return;
        }
        let asked = self.asked.entry(id).or_default();
        let params = &message["params"];
        *asked = Asked {
            owed: asked.owed + 1,
            token: params["_meta"].get("progressToken").map(Value::to_string),
            ..Asked::default()
        };
    }

    /// This end has handled a message.
    pub fn after_reading(&mut self, frame: &[u8]) {
        if !self.peer_is_good || !frame.windows(23).any(|part| part == b"notifications/cancelled") {
            return;
        }
        let message: Value = serde_json::from_slice(frame).unwrap_or_default();
        if message["method"] == "notifications/cancelled"
            && let Some(asked) = self.asked.get_mut(&message["params"]["requestId"].to_string())
        {
            asked.is_cancelled = true;
        }
    }

    /// This end has written a message.
    pub fn writes(&mut self, line: &[u8]) {
        let Some((b'\n', frame)) = line.split_last() else { panic!("a message ends with a line feed") };
        assert!(!frame.contains(&b'\n'), "a message is one line");
        match serde_json::from_slice(frame).expect("what leaves is JSON") {
            Value::Array(members) => members.iter().for_each(|member| self.sends(member)),
            message => self.sends(&message),
        }
    }

    fn sends(&mut self, message: &Value) {
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        let method = message.get("method").map(|method| method.as_str().expect("a method is a text"));
        match (method, id_of(message)) {
            (Some(method), Some(id)) => {
                let is_task = message["params"].get("task").is_some();
                let made = Made { method: method.to_owned(), is_task, ..Made::default() };
                assert!(self.made.insert(id, made).is_none(), "an id is used for the second time: {message}");
            }
            (Some("notifications/cancelled"), None) => self.cancels(message),
            (Some("notifications/progress"), None) => self.reports(message),
            (Some(_), None) => assert!(message.get("id").is_none(), "a notification has no id: {message}"),
            (None, id) => self.answers(id, message),
        }
    }

    fn answers(&mut self, id: Option<String>, message: &Value) {
        assert!(message.get("result").is_some() != message.get("error").is_some(), "one of both: {message}");
        let Some(id) = id else {
            assert!(message.get("error").is_some() && self.unreadable > 0, "an answer to nothing: {message}");
            self.unreadable -= 1;
            return;
        };
        let is_owed = self.asked.get(&id).is_some_and(|asked| asked.owed > 0);
        if !is_owed && self.torn > 0 {
            // It is for one of those, or one of those has had what is owed to this one.
            self.torn -= 1;
            return;
        }
        let asked = self.asked.get_mut(&id).unwrap_or_else(|| panic!("an answer to nothing: {message}"));
        assert!(asked.owed > 0, "a second answer: {message}");
        assert!(!asked.is_cancelled, "an answer behind its cancellation: {message}");
        asked.owed -= 1;
        if message["result"].get("task").is_some() {
            self.tasks.extend(asked.token.clone());
        }
    }

    fn cancels(&mut self, message: &Value) {
        let id = message["params"]["requestId"].to_string();
        match self.made.get_mut(&id) {
            Some(made) if !made.is_cancelled => {
                assert_ne!(made.method, "initialize", "the handshake is not cancelled");
                made.is_cancelled = true;
            }
            // Else it is the end of a subscription, behind its result.
            _ => assert!(self.asked.contains_key(&id), "it was never asked, or is cancelled already: {message}"),
        }
    }

    fn reports(&mut self, message: &Value) {
        let params = &message["params"];
        let (token, progress) = (params["progressToken"].to_string(), params["progress"].as_f64().expect("a number"));
        if self.tasks.contains(&token) {
            return;
        }
        let asked = self.asked.values_mut().find(|asked| asked.owed > 0 && asked.token.as_ref() == Some(&token));
        let Some(asked) = asked else {
            // Who uses an id twice has hidden one of its requests from this table.
            return assert!(!self.peer_is_good, "progress of what is not open: {message}");
        };
        assert!(!asked.is_cancelled, "progress behind the cancellation: {message}");
        let grows = asked.progress.is_none_or(|before| progress > before);
        assert!(grows || !self.peer_is_good, "progress falls back: {message}");
        asked.progress = Some(progress);
    }

    /// Confirms that no call waits.
    pub fn assert_at_rest(&self) {
        // The probe is not cancelled, and a task has to be ended by name.
        let ends_quietly = |made: &Made| made.is_task || made.method == "server/discover";
        let is_open = |made: &Made| !made.is_answered && !made.is_cancelled && !ends_quietly(made);
        let open = self.made.iter().filter(|(_, made)| is_open(made)).collect::<Vec<_>>();
        // The answers of some may have been too long to be read.
        assert!(open.len() <= self.torn as usize, "neither answered nor cancelled: {open:?}");
        for (id, asked) in &self.asked {
            assert!(asked.owed == 0 || asked.is_cancelled || !self.peer_is_good, "{id} is owed an answer: {asked:?}");
        }
    }
}

/// The id of a message, as text: numbers and strings stay apart.
fn id_of(message: &Value) -> Option<String> {
    match message.get("id")? {
        id @ Value::String(_) => Some(id.to_string()),
        id @ Value::Number(number) if !number.is_f64() => Some(id.to_string()),
        _ => None,
    }
}
