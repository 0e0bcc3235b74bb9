//! One request of a client at a backend, and the questions of the backend about it.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use mcp_proto::{
    schema::InputRequest,
    wire::{ErrorObject, JsonObject},
};

use crate::{
    inbound::context::Context,
    outbound::error::CallError,
    proxy::one_result::OneResult,
    util::{lock::lock, wait_queue::WaitQueue},
};

/// The most questions of one call that wait for the client at once.
const MAX_WAITING: usize = 64;

/// The most questions of one call.
const MAX_NAMES: usize = 1024;

/// The answer to a question, or `None` after the end of the call that the question was sent with.
pub(in crate::proxy) type Answer = OneResult<Option<Result<JsonObject, CallError>>>;

/// A question of a backend that waits for the client.
pub(in crate::proxy) struct Question {
    /// The name in the `input_required` result of this service.
    pub(in crate::proxy) name: String,
    pub(in crate::proxy) question: InputRequest,
    pub(in crate::proxy) answer: Arc<Answer>,
}

/// A request of a client at a backend.
pub(in crate::proxy) struct CallEntry {
    /// The current request of the client: it sends another one with its input (2026-07-28).
    context: Mutex<Context>,
    questions: Mutex<Questions>,
    /// Waits for questions.
    waiters: WaitQueue,
    /// The id under which the call waits for the client, once it is set.
    id: OnceLock<String>,
    /// The error with which an input request was refused (2026-07-28). It ends the call.
    refused: OnceLock<ErrorObject>,
    /// Whether the backend may send messages about the call: the request has begun, and has no response.
    is_open: AtomicBool,
    /// The row of the table, once the request has begun.
    pub(super) row: OnceLock<u64>,
}

#[derive(Default)]
struct Questions {
    waiting: Vec<Question>,
    /// The names of all questions so far.
    names: BTreeSet<String>,
    /// The number of questions of one round, which the client gets together.
    expected: usize,
    /// Whether the call has ended.
    is_over: bool,
}

impl CallEntry {
    pub(in crate::proxy) fn new(context: Context) -> Arc<Self> {
        Arc::new(Self {
            context: Mutex::new(context),
            questions: Mutex::default(),
            waiters: WaitQueue::default(),
            id: OnceLock::new(),
            refused: OnceLock::new(),
            is_open: AtomicBool::new(false),
            row: OnceLock::new(),
        })
    }

    /// Records that an input request was refused. In 2026-07-28 there is no message for this.
    pub(in crate::proxy) fn refuse(&self, error: &ErrorObject) {
        self.refused.get_or_init(|| error.clone());
    }

    /// Returns whether this error is that of a refused input request.
    pub(in crate::proxy) fn is_refusal(&self, error: &ErrorObject) -> bool {
        self.refused.get() == Some(error)
    }

    /// Returns the id under which the call waits for the client. It is the same in every round.
    pub(in crate::proxy) fn id(&self, new: impl FnOnce() -> Option<String>) -> Option<String> {
        if let Some(id) = self.id.get() {
            return Some(id.clone());
        }
        let new = new()?;
        Some(self.id.get_or_init(|| new).clone())
    }

    /// Returns the context of the client's current request.
    pub(in crate::proxy) fn context(&self) -> Context {
        lock(&self.context).clone()
    }

    pub(in crate::proxy) fn set_context(&self, context: Context) {
        let before = std::mem::replace(&mut *lock(&self.context), context);
        drop(before);
    }

    /// Adds a question for the next round. `open` is the number of questions of the backend in this round.
    pub(in crate::proxy) fn ask(
        &self,
        name: Option<String>,
        open: usize,
        question: InputRequest,
    ) -> Option<Arc<Answer>> {
        let answer = Arc::new(Answer::default());
        {
            let mut questions = lock(&self.questions);
            if questions.is_over {
                answer.provide(None);
                return Some(answer);
            }
            if questions.waiting.len() >= MAX_WAITING || questions.names.len() >= MAX_NAMES {
                return None;
            }
            let wanted = name.unwrap_or_else(|| "question".into());
            // A backend may use a name again in a later round, with another meaning.
            let numbered = (2..).map(|number| format!("{wanted}-{number}"));
            let name = std::iter::once(wanted.clone()).chain(numbered).find(|name| !questions.names.contains(name));
            let name = name.unwrap_or(wanted);
            questions.names.insert(name.clone());
            questions.expected = open.max(1);
            questions.waiting.push(Question { name, question, answer: answer.clone() });
        }
        self.waiters.notify_all();
        Some(answer)
    }

    /// Waits until all questions of a round have arrived.
    pub(in crate::proxy) async fn questions(&self) -> Vec<Question> {
        let take = || {
            let mut questions = lock(&self.questions);
            questions.waiting.retain(|question| !question.answer.is_over());
            let is_complete = !questions.waiting.is_empty() && questions.waiting.len() >= questions.expected;
            is_complete.then(|| std::mem::take(&mut questions.waiting))
        };
        self.waiters.wait_for(take).await
    }

    /// Puts questions back that the client has not responded to yet.
    pub(in crate::proxy) fn put_back(&self, mut open: Vec<Question>) {
        let mut questions = lock(&self.questions);
        open.append(&mut questions.waiting);
        questions.expected = questions.expected.min(open.len()).max(1);
        questions.waiting = open;
    }

    /// Returns whether the backend may send messages about the call.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    pub(super) fn set_open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::Relaxed);
    }

    /// Ends the call. Its questions get no answers.
    pub(super) fn end(&self) {
        let left = {
            let mut questions = lock(&self.questions);
            questions.is_over = true;
            std::mem::take(&mut questions.waiting)
        };
        left.iter().for_each(|question| question.answer.provide(None));
    }

    /// Records that the backend has withdrawn a question.
    pub(in crate::proxy) fn withdrawn(&self) {
        let mut questions = lock(&self.questions);
        questions.expected = questions.expected.saturating_sub(1).max(1);
        drop(questions);
        self.waiters.notify_all();
    }
}
