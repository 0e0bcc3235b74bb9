//! Checks each message that a peer reads and writes against the specification, with its own parser.

use std::collections::BTreeMap;

use serde_json::Value;

/// A request of the other side, or several with one id.
#[derive(Debug, Default)]
struct ReceivedRequest {
    /// The number of responses that may still be sent.
    unanswered: u32,
    token: Option<String>,
    progress: Option<f64>,
    /// Its cancellation was handled.
    is_cancelled: bool,
}

/// A request of this side.
#[derive(Debug, Default)]
struct SentRequest {
    method: String,
    is_task: bool,
    is_answered: bool,
    is_cancelled: bool,
}

/// The messages of one side.
#[derive(Debug)]
pub struct MessageObserver {
    received: BTreeMap<String, ReceivedRequest>,
    sent: BTreeMap<String, SentRequest>,
    /// Tokens of requests that have become tasks. Their progress continues.
    tasks: Vec<String>,
    /// The number of messages that may be answered without an id.
    unreadable: u32,
    /// The number of messages that are not valid JSON: truncated, or nested too deeply. Any id in them may be answered.
    unparsable: u32,
    /// Whether the other side conforms, so that it uses each id once.
    peer_conforms: bool,
}

impl MessageObserver {
    /// Returns the observer of a side without messages.
    #[must_use]
    pub const fn new(peer_conforms: bool) -> Self {
        Self {
            received: BTreeMap::new(),
            sent: BTreeMap::new(),
            tasks: Vec::new(),
            unreadable: 0,
            unparsable: 0,
            peer_conforms,
        }
    }

    /// Records a message before the connection handles it.
    pub fn before_reading(&mut self, frame: &[u8]) {
        match serde_json::from_slice(frame) {
            Ok(Value::Array(members)) => {
                self.unreadable += 1;
                members.iter().for_each(|member| self.on_read(member));
            }
            Ok(message) => self.on_read(&message),
            Err(_) => {
                self.unreadable += 1;
                self.unparsable += 1;
            }
        }
    }

    fn on_read(&mut self, message: &Value) {
        self.unreadable += 1;
        let Some(id) = id_of(message) else { return };
        let is_answer = message.get("method").is_none();
        if let Some(sent) = self.sent.get_mut(&id)
            && is_answer
        {
            sent.is_answered = true;
            sent.is_task |= message["result"].get("task").is_some();
        }
        if is_answer && self.peer_conforms {
            return;
        }
        let received = self.received.entry(id).or_default();
        let params = &message["params"];
        *received = ReceivedRequest {
            unanswered: received.unanswered + 1,
            token: params["_meta"].get("progressToken").map(Value::to_string),
            ..ReceivedRequest::default()
        };
    }

    /// Records a message after the connection has handled it.
    pub fn after_reading(&mut self, frame: &[u8]) {
        if !self.peer_conforms || !frame.windows(23).any(|part| part == b"notifications/cancelled") {
            return;
        }
        let message: Value = serde_json::from_slice(frame).unwrap_or_default();
        if message["method"] == "notifications/cancelled"
            && let Some(received) = self.received.get_mut(&message["params"]["requestId"].to_string())
        {
            received.is_cancelled = true;
        }
    }

    /// Checks a written message.
    pub fn on_write(&mut self, line: &[u8]) {
        let Some((b'\n', frame)) = line.split_last() else { panic!("a message ends with a line feed") };
        assert!(!frame.contains(&b'\n'), "a message is one line");
        match serde_json::from_slice(frame).expect("output is JSON") {
            Value::Array(members) => members.iter().for_each(|member| self.on_sent(member)),
            message => self.on_sent(&message),
        }
    }

    fn on_sent(&mut self, message: &Value) {
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        let method = message.get("method").map(|method| method.as_str().expect("a method is a text"));
        match (method, id_of(message)) {
            (Some(method), Some(id)) => {
                let is_task = message["params"].get("task").is_some();
                let sent = SentRequest { method: method.to_owned(), is_task, ..SentRequest::default() };
                assert!(self.sent.insert(id, sent).is_none(), "an id is used for the second time: {message}");
            }
            (Some("notifications/cancelled"), None) => self.on_cancelled(message),
            (Some("notifications/progress"), None) => self.on_progress(message),
            (Some(_), None) => assert!(message.get("id").is_none(), "a notification has no id: {message}"),
            (None, id) => self.on_response(id, message),
        }
    }

    fn on_response(&mut self, id: Option<String>, message: &Value) {
        assert!(message.get("result").is_some() != message.get("error").is_some(), "one of both: {message}");
        let Some(id) = id else {
            assert!(message.get("error").is_some() && self.unreadable > 0, "a response without a request: {message}");
            self.unreadable -= 1;
            return;
        };
        let is_unanswered = self.received.get(&id).is_some_and(|received| received.unanswered > 0);
        if !is_unanswered && self.unparsable > 0 {
            // It responds to an unparsable message, or an earlier response did.
            self.unparsable -= 1;
            return;
        }
        let received = self.received.get_mut(&id).unwrap_or_else(|| panic!("a response without a request: {message}"));
        assert!(received.unanswered > 0, "a second response: {message}");
        assert!(!received.is_cancelled, "a response after its cancellation: {message}");
        received.unanswered -= 1;
        if message["result"].get("task").is_some() {
            self.tasks.extend(received.token.clone());
        }
    }

    fn on_cancelled(&mut self, message: &Value) {
        let id = message["params"]["requestId"].to_string();
        match self.sent.get_mut(&id) {
            Some(sent) if !sent.is_cancelled => {
                assert_ne!(sent.method, "initialize", "the handshake is not cancelled");
                sent.is_cancelled = true;
            }
            // Otherwise it ends a subscription, after its result.
            _ => assert!(self.received.contains_key(&id), "an unknown request, or a second cancellation: {message}"),
        }
    }

    fn on_progress(&mut self, message: &Value) {
        let params = &message["params"];
        let (token, progress) = (params["progressToken"].to_string(), params["progress"].as_f64().expect("a number"));
        if self.tasks.contains(&token) {
            return;
        }
        let received = self
            .received
            .values_mut()
            .find(|received| received.unanswered > 0 && received.token.as_ref() == Some(&token));
        let Some(received) = received else {
            // A peer that uses an id twice hides one of its requests from this table.
            return assert!(!self.peer_conforms, "progress without an open request: {message}");
        };
        assert!(!received.is_cancelled, "progress after the cancellation: {message}");
        let grows = received.progress.is_none_or(|before| progress > before);
        assert!(grows || !self.peer_conforms, "progress falls back: {message}");
        received.progress = Some(progress);
    }

    /// Checks that all requests have a response.
    pub fn assert_idle(&self) {
        // The probe is not cancelled, and a task is cancelled with a request.
        let ends_quietly = |sent: &SentRequest| sent.is_task || sent.method == "server/discover";
        let is_open = |sent: &SentRequest| !sent.is_answered && !sent.is_cancelled && !ends_quietly(sent);
        let open = self.sent.iter().filter(|(_, sent)| is_open(sent)).collect::<Vec<_>>();
        // The responses to some may have exceeded the frame limit.
        assert!(open.len() <= self.unparsable as usize, "neither answered nor cancelled: {open:?}");
        for (id, received) in &self.received {
            assert!(
                received.unanswered == 0 || received.is_cancelled || !self.peer_conforms,
                "{id} has no response: {received:?}"
            );
        }
    }
}

/// Returns the id of a message as JSON text, so that numbers differ from strings.
fn id_of(message: &Value) -> Option<String> {
    match message.get("id")? {
        id @ Value::String(_) => Some(id.to_string()),
        id @ Value::Number(number) if !number.is_f64() => Some(id.to_string()),
        _ => None,
    }
}
