//! Requests of the server that the user answers: forms, pages, and texts of a model.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    time::Duration,
};

use mcp_proto::wire::{ErrorCode, ErrorObject};
use mcp_proto::{
    connection::ClientRole,
    schema::{
        At, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitResult, ElicitUrlParams,
        ElicitValue, Encode, Map, Role, SamplingContent,
    },
};
use mcp_service::{Context, Failure, HostBuilder};
use serde_json::Value;

use super::{
    inbox::Inbox,
    model::Message,
    request::{Answer, Question, QuestionKind},
    session::Live,
};

/// How often it is checked whether the server still waits.
const LOOK: Duration = Duration::from_millis(100);

/// The code that the specification has for a sampling request that the user rejects.
const REJECTED: ErrorCode = ErrorCode(-1);

/// Passes questions on to the interface.
#[derive(Clone)]
pub(crate) struct Questions {
    inbox: Arc<Inbox>,
    live: Arc<Mutex<Live>>,
    next: Arc<AtomicU64>,
}

impl Questions {
    pub(crate) fn new(inbox: Arc<Inbox>, live: Arc<Mutex<Live>>) -> Self {
        Self { inbox, live, next: Arc::default() }
    }

    /// Adds the handlers.
    pub(crate) fn add(&self, host: HostBuilder) -> HostBuilder {
        let (forms, pages, texts) = (self.clone(), self.clone(), self.clone());
        host.elicitation(move |params: ElicitFormParams, context| {
            let about = json(&params.requested_schema);
            Ok::<_, Failure>(match forms.ask(QuestionKind::Form, params.message, about, &context) {
                Answer::Accept(values) => {
                    let values = values.into_iter().map(|(name, value)| Ok((name, serde_json::from_value(value)?)));
                    ElicitResult::accept(values.collect::<Result<Map<ElicitValue>, serde_json::Error>>()?)
                }
                Answer::Decline => ElicitResult::decline(),
                Answer::Cancel => ElicitResult::cancel(),
            })
        })
        .elicitation_url(move |params: ElicitUrlParams, context| {
            let message = page_text(&params.url, &params.message);
            Ok::<_, Failure>(match pages.ask(QuestionKind::Page, message, Value::Null, &context) {
                Answer::Accept(_) => ElicitAction::Accept,
                Answer::Decline => ElicitAction::Decline,
                Answer::Cancel => ElicitAction::Cancel,
            })
        })
        .sampling(move |params: CreateMessageParams, context| {
            let message = conversation(&json(&params));
            match texts.ask(QuestionKind::Sampling, message, Value::Null, &context) {
                Answer::Accept(values) => {
                    let text = values.get("text").and_then(Value::as_str).unwrap_or_default();
                    Ok(CreateMessageResult::new(Role::Assistant, SamplingContent::text(text), "a person"))
                }
                Answer::Decline | Answer::Cancel => {
                    Err(Failure::rpc(ErrorObject::new(REJECTED, "the user rejected the request")))
                }
            }
        })
    }

    /// Waits for the answer of the user, or until the server waits no more.
    fn ask(&self, kind: QuestionKind, message: String, about: Value, context: &Context<ClientRole>) -> Answer {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = mpsc::channel();
        self.live.lock().unwrap_or_else(PoisonError::into_inner).questions.insert(number, sender);
        let has_room = self.inbox.send(Message::Question(Question { number, kind, message, about }));
        while has_room && !context.is_cancelled() {
            match answer.recv_timeout(LOOK) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Answer::Cancel,
            }
        }
        self.live.lock().unwrap_or_else(PoisonError::into_inner).questions.remove(&number);
        self.inbox.send(Message::Withdrawn(number));
        Answer::Cancel
    }
}

/// Returns what is asked for a page: its address first, so that no text hides it.
pub(super) fn page_text(url: &str, message: &str) -> String {
    format!("{url}\n\n{message}")
}

/// Returns a sampling request as lines.
fn conversation(params: &Value) -> String {
    let system = params.get("systemPrompt").and_then(Value::as_str).map(|text| format!("system: {text}"));
    let messages = params.get("messages").and_then(Value::as_array).into_iter().flatten().map(|message| {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        let content = message.get("content").unwrap_or(&Value::Null);
        let text = content.get("text").and_then(Value::as_str).map_or_else(|| content.to_string(), str::to_owned);
        format!("{role}: {text}")
    });
    system.into_iter().chain(messages).collect::<Vec<_>>().join("\n")
}

fn json<T: Encode>(value: &T) -> Value {
    At(value, None).to_json().ok().and_then(|json| json.decode().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sampling_requests_are_lines() {
        let messages = json!([{"role": "user", "content": {"type": "text", "text": "2 + 2?"}}, {"role": "assistant",
            "content": [{"type": "text", "text": "4"}]}]);
        let text = conversation(&json!({"systemPrompt": "Be short.", "messages": messages}));
        let expected = "system: Be short.\nuser: 2 + 2?\nassistant: [{\"text\":\"4\",\"type\":\"text\"}]";
        assert_eq!(text, expected);
        assert_eq!(conversation(&json!({})), "");
    }
}
