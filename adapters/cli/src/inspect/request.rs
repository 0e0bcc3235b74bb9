//! Requests that the user makes, and what the user is asked for.

use serde_json::{Map, Value};

/// A request of the user.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request {
    Tool {
        name: String,
        arguments: Map<String, Value>,
        as_task: bool,
    },
    Prompt {
        name: String,
        arguments: Map<String, Value>,
    },
    Read {
        uri: String,
    },
    Subscribe {
        uri: String,
    },
    TaskResult {
        id: String,
    },
    CancelTask {
        id: String,
    },
    /// A request as it was sent before, without its `_meta`.
    Raw {
        method: String,
        params: Value,
    },
}

impl Request {
    /// Describes the request in a few words.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Tool { name, as_task: false, .. } => format!("tools/call {name}"),
            Self::Tool { name, as_task: true, .. } => format!("tools/call {name} as a task"),
            Self::Prompt { name, .. } => format!("prompts/get {name}"),
            Self::Read { uri } => format!("resources/read {uri}"),
            Self::Subscribe { uri } => format!("subscription to {uri}"),
            Self::TaskResult { id } => format!("result of task {id}"),
            Self::CancelTask { id } => format!("cancellation of task {id}"),
            Self::Raw { method, .. } => method.clone(),
        }
    }

    /// Reads a request from the text of a message of the client.
    pub(crate) fn of_message(text: &str) -> Option<Self> {
        let mut message: Value = serde_json::from_str(text).ok()?;
        let method = message.get("method")?.as_str()?.to_owned();
        let mut params = message.get_mut("params").map_or(Value::Null, Value::take);
        if let Value::Object(members) = &mut params {
            members.remove("_meta");
        }
        let text = |name: &str| params.get(name).and_then(Value::as_str).map(str::to_owned);
        let arguments = || params.get("arguments").and_then(Value::as_object).cloned().unwrap_or_default();
        match method.as_str() {
            "tools/call" => {
                Some(Self::Tool { name: text("name")?, arguments: arguments(), as_task: params.get("task").is_some() })
            }
            "prompts/get" => Some(Self::Prompt { name: text("name")?, arguments: arguments() }),
            "resources/read" => Some(Self::Read { uri: text("uri")? }),
            "resources/subscribe" => Some(Self::Subscribe { uri: text("uri")? }),
            // The connection makes these by itself.
            "initialize" | "server/discover" | "subscriptions/listen" => None,
            _ => Some(Self::Raw { method, params }),
        }
    }
}

/// A request of the server that the user answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Question {
    pub(crate) number: u64,
    pub(crate) kind: QuestionKind,
    /// The reason, for the user.
    pub(crate) message: String,
    /// The schema of the form, or the params of a sampling request.
    pub(crate) about: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuestionKind {
    Form,
    Page,
    Sampling,
}

/// The answer of the user.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Accept(Map<String, Value>),
    Decline,
    /// The question was closed without a choice.
    Cancel,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_read_from_messages() {
        let text =
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"b":1},"_meta":{}}}"#;
        let arguments = json!({"b": 1}).as_object().cloned().expect("an object");
        assert_eq!(Request::of_message(text), Some(Request::Tool { name: "a".into(), arguments, as_task: false }));
        let text = r#"{"method":"tools/list","params":{"cursor":"x","_meta":{}}}"#;
        let expected = Request::Raw { method: "tools/list".into(), params: json!({"cursor": "x"}) };
        assert_eq!(Request::of_message(text), Some(expected));
        for text in ["{", "[]", "{}", r#"{"method":"initialize"}"#, r#"{"method":"tools/call","params":7}"#] {
            assert_eq!(Request::of_message(text), None, "{text}");
        }
    }
}
