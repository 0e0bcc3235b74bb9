//! Frames on the links, and their messages.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use serde_json::Value;

/// An id or a token, as JSON.
pub(super) type Id = Rc<str>;

/// A message, with the members that the wire rules depend on.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// A request.
    Request {
        /// Its id.
        id: Id,
        /// Its method.
        method: Rc<str>,
        /// Its progress token.
        token: Option<Id>,
        /// The number that the application put into its params.
        number: Option<u64>,
    },
    /// The response to the request with this id.
    Response(Option<Id>),
    /// The cancellation of a request.
    Cancelled(Id),
    /// Progress with this token.
    Progress(Id, f64),
    /// Another notification, and the subscription that it belongs to.
    Notification(Rc<str>, Option<Id>),
}

/// One line.
#[derive(Debug)]
pub(super) struct Frame {
    /// The number of the frame in this exploration. Frames with the same bytes have the same number.
    pub number: usize,
    /// The line, without its line feed.
    pub text: String,
    /// The message in it, or the messages of a batch.
    pub messages: Vec<Message>,
    /// Whether it is a batch.
    pub is_batch: bool,
}

impl Frame {
    /// Returns whether it is the response to the request with this id.
    pub(super) fn answers(&self, id: &str) -> bool {
        matches!(&self.messages[..], [Message::Response(Some(answered))] if &**answered == id)
    }
}

/// All frames so far, so that each is parsed once.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames(Rc<RefCell<HashMap<String, Rc<Frame>>>>);

impl Frames {
    /// Returns the frame of this line, which must be JSON-RPC.
    pub(super) fn of(&self, line: &str) -> Rc<Frame> {
        if let Some(frame) = self.0.borrow().get(line) {
            return frame.clone();
        }
        let value: Value = serde_json::from_str(line).expect("output is JSON");
        let messages = match &value {
            Value::Array(members) => members.iter().map(read).collect(),
            message => vec![read(message)],
        };
        let number = self.0.borrow().len();
        let frame = Rc::new(Frame { number, text: line.to_owned(), messages, is_batch: value.is_array() });
        self.0.borrow_mut().insert(line.to_owned(), frame.clone());
        frame
    }
}

fn id(value: &Value) -> Option<Id> {
    (value.is_number() || value.is_string()).then(|| value.to_string().into())
}

fn read(message: &Value) -> Message {
    let params = &message["params"];
    match (message["method"].as_str(), id(&message["id"])) {
        (Some(method), Some(id_of)) => Message::Request {
            id: id_of,
            method: method.into(),
            token: id(&params["_meta"]["progressToken"]),
            number: params["n"].as_u64(),
        },
        (None, answered) => Message::Response(answered),
        (Some("notifications/cancelled"), None) => {
            Message::Cancelled(id(&params["requestId"]).expect("a cancellation has a request id"))
        }
        (Some("notifications/progress"), None) => Message::Progress(
            id(&params["progressToken"]).expect("progress has a token"),
            params["progress"].as_f64().expect("progress is a number"),
        ),
        (Some(method), None) => {
            Message::Notification(method.into(), id(&params["_meta"]["io.modelcontextprotocol/subscriptionId"]))
        }
    }
}

/// Returns whether the progress notification with this number has a total and a message.
pub(super) fn progress_has_message(number: f64) -> bool {
    number % 2.0 == 0.0
}
