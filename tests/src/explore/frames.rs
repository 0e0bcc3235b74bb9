//! Frames on the links, and what they say.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use serde_json::Value;

/// An id or a token, as JSON.
pub(super) type Id = Rc<str>;

/// What a message says, as far as the rules of the wire go.
#[derive(Clone, Debug)]
pub(super) enum Said {
    /// A request.
    Request {
        /// Its id.
        id: Id,
        /// What it asks.
        method: Rc<str>,
        /// The token under which it wants to hear of progress.
        token: Option<Id>,
        /// The number that its application has given to it.
        number: Option<u64>,
    },
    /// An answer, good or bad, to the request with this id.
    Answer(Option<Id>),
    /// The cancellation of a request.
    Cancelled(Id),
    /// Progress under a token.
    Progress(Id, f64),
    /// Any other notification, and the subscription that it belongs to.
    Note(Rc<str>, Option<Id>),
}

/// One line.
#[derive(Debug)]
pub(super) struct Frame {
    /// Frames of one exploration are numbered as they come; the same bytes have the same number.
    pub number: usize,
    /// The line, without its line feed.
    pub text: String,
    /// The message in it, or the messages of a batch.
    pub said: Vec<Said>,
    /// Whether it is a batch.
    pub is_batch: bool,
}

impl Frame {
    /// Whether it is the answer to the request with this id.
    pub(super) fn answers(&self, id: &str) -> bool {
        matches!(&self.said[..], [Said::Answer(Some(answered))] if &**answered == id)
    }
}

/// Every frame that was seen, so that each is read once.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames(Rc<RefCell<HashMap<String, Rc<Frame>>>>);

impl Frames {
    /// The frame with this line, which has to be JSON-RPC.
    pub(super) fn of(&self, line: &str) -> Rc<Frame> {
        if let Some(frame) = self.0.borrow().get(line) {
            return frame.clone();
        }
        let value: Value = serde_json::from_str(line).expect("what leaves is JSON");
        let said = match &value {
            Value::Array(members) => members.iter().map(read).collect(),
            message => vec![read(message)],
        };
        let number = self.0.borrow().len();
        let frame = Rc::new(Frame { number, text: line.to_owned(), said, is_batch: value.is_array() });
        self.0.borrow_mut().insert(line.to_owned(), frame.clone());
        frame
    }
}

fn id(value: &Value) -> Option<Id> {
    (value.is_number() || value.is_string()).then(|| value.to_string().into())
}

fn read(message: &Value) -> Said {
    let params = &message["params"];
    match (message["method"].as_str(), id(&message["id"])) {
        (Some(method), Some(id_of)) => Said::Request {
            id: id_of,
            method: method.into(),
            token: id(&params["_meta"]["progressToken"]),
            number: params["n"].as_u64(),
        },
        (None, answered) => Said::Answer(answered),
        (Some("notifications/cancelled"), None) => {
            Said::Cancelled(id(&params["requestId"]).expect("a cancellation names what it cancels"))
        }
        (Some("notifications/progress"), None) => Said::Progress(
            id(&params["progressToken"]).expect("progress has a token"),
            params["progress"].as_f64().expect("progress is a number"),
        ),
        (Some(method), None) => {
            Said::Note(method.into(), id(&params["_meta"]["io.modelcontextprotocol/subscriptionId"]))
        }
    }
}

/// Whether the progress notification with this number has a total and a message.
pub(super) fn progress_has_message(number: f64) -> bool {
    number % 2.0 == 0.0
}
