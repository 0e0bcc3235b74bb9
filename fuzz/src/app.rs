//! An application that handles whatever a connection says, and keeps books about it.

use std::collections::{BTreeMap, BTreeSet};

use mcp_proto::{
    connection::{Connection, Event, SendError, Violation},
    rpc::{CallId, ReplyKey},
    schema::{LogMessageParams, LoggingLevel},
    wire::{ErrorObject, Json, RawJson},
};

/// What one end has seen and owes.
#[derive(Debug, Default)]
pub(crate) struct App {
    /// Requests of the peer that wait for an answer, in the order in which they came.
    pub(crate) open: Vec<ReplyKey>,
    /// Our calls that have not ended.
    pub(crate) calls: BTreeSet<CallId>,
    /// Every event, if they are kept.
    pub(crate) seen: Option<Vec<Event<'static>>>,
    /// Whether requests are answered as soon as they come.
    pub(crate) eager: bool,
    /// Things that the peer did wrong.
    pub(crate) violations: Vec<Violation<'static>>,
    keys: BTreeSet<ReplyKey>,
    cancelled: BTreeSet<ReplyKey>,
    ended: BTreeSet<CallId>,
    progress: BTreeMap<ReplyKey, u32>,
    ready: bool,
    closed: bool,
}

/// An answer that is good enough for every method.
const ANSWER: &str =
    r#"{"tools":[],"prompts":[],"resources":[],"roots":[],"messages":[],"contents":[],"content":[],"action":"cancel"}"#;

/// A result that asks for what a client may be asked for (2026-07-28).
const QUESTIONS: &str = r#"{"resultType":"input_required","requestState":"s","inputRequests":{
    "a":{"method":"roots/list"},"b":{"method":"elicitation/create","params":{"message":"m",
    "requestedSchema":{"type":"object","properties":{}}}}}}"#;

impl App {
    pub(crate) fn on_event<E>(&mut self, conn: &mut Connection<E>, event: Event<'_>) {
        assert!(!self.closed, "an event behind the last one: {event:?}");
        match &event {
            Event::Ready => assert!(!std::mem::replace(&mut self.ready, true), "ready for the second time"),
            Event::Request { key, .. } => {
                assert!(self.keys.insert(*key), "one key for two requests");
                self.open.push(*key);
            }
            Event::Cancelled { key, .. } => {
                assert!(self.keys.contains(key), "a cancellation of nothing");
                assert!(self.cancelled.insert(*key), "cancelled for the second time");
            }
            Event::Response { call, .. } => {
                assert!(self.calls.remove(call), "a call that was never made has ended, or one has ended twice");
                self.ended.insert(*call);
            }
            Event::Progress { call, .. } => {
                assert!(self.calls.contains(call) || self.ended.contains(call), "progress of a call never made");
            }
            Event::Violation(violation) => self.violations.push(violation.clone().into_owned()),
            Event::Closed(_) => self.closed = true,
            _ => {}
        }
        if let Some(seen) = &mut self.seen {
            seen.push(event.clone().into_owned());
        }
        match event {
            Event::Request { key, .. } if self.eager => self.answer(conn, key, true),
            // It has stopped working on it: the answer frees the slot.
            Event::Cancelled { key, .. } if self.open.contains(&key) => self.answer(conn, key, false),
            _ => {}
        }
    }

    /// Answers one request, the `nth` of those that wait.
    pub(crate) fn answer_nth<E>(&mut self, conn: &mut Connection<E>, nth: usize, good: bool) {
        if let Some(key) = self.nth(nth) {
            self.answer(conn, key, good);
        }
    }

    pub(crate) fn answer_all<E>(&mut self, conn: &mut Connection<E>) {
        for key in self.open.clone() {
            self.answer(conn, key, true);
        }
    }

    fn answer<E>(&mut self, conn: &mut Connection<E>, key: ReplyKey, good: bool) {
        let answered = if good {
            conn.respond_raw(key, &json(ANSWER))
        } else {
            conn.respond_error(key, &ErrorObject::internal("no"))
        };
        self.settle(conn, key, answered);
    }

    /// Answers the `nth` request with questions, if its client takes such an answer.
    pub(crate) fn ask_nth<E>(&mut self, conn: &mut Connection<E>, nth: usize) {
        if let Some(key) = self.nth(nth) {
            match conn.respond_raw(key, &json(QUESTIONS)) {
                Err(SendError::WrongResult) => {}
                answered => self.settle(conn, key, answered),
            }
        }
    }

    fn settle<E>(&mut self, conn: &mut Connection<E>, key: ReplyKey, answered: Result<(), SendError>) {
        match answered {
            Ok(()) => {
                self.open.retain(|open| *open != key);
                let twice = conn.respond_error(key, &ErrorObject::internal("twice"));
                assert_eq!(twice, Err(SendError::Answered), "a second answer");
            }
            // It is still owed.
            Err(SendError::Busy | SendError::TooLarge) => {}
            Err(error) => panic!("an answer is owed, and refused: {error}"),
        }
    }

    pub(crate) fn progress_nth<E>(&mut self, conn: &mut Connection<E>, nth: usize) {
        let Some(key) = self.nth(nth) else { return };
        let count = self.progress.entry(key).or_default();
        *count += 1;
        match conn.progress(key, f64::from(*count), Some(9.5), Some("on the way")) {
            Ok(()) | Err(SendError::Busy | SendError::TooLarge) => {}
            Err(error) => panic!("progress of an open request is refused: {error}"),
        }
    }

    pub(crate) fn nth(&self, nth: usize) -> Option<ReplyKey> {
        self.open.get(nth % self.open.len().max(1)).copied()
    }

    pub(crate) fn cancel_nth<E>(&mut self, conn: &mut Connection<E>, nth: usize) {
        let call = self.calls.iter().nth(nth % self.calls.len().max(1)).copied();
        // It may have ended, and the event is under way.
        let _ = call.map(|call| conn.cancel(call, Some("changed my mind")));
    }

    /// Everything that has begun has ended.
    pub(crate) fn assert_over(&self) {
        assert!(self.closed, "the end was never told");
        assert!(self.calls.is_empty(), "calls that never ended: {:?}", self.calls);
        assert!(self.open.is_empty(), "requests that cannot be answered: {:?}", self.open);
    }
}

/// A JSON text as something to send.
pub(crate) fn json(text: &str) -> RawJson<'static> {
    let json = Json::parse(text).unwrap_or_else(|error| panic!("{error} in {text}"));
    RawJson::from(&json).into_owned()
}

pub(crate) fn log_message() -> LogMessageParams {
    LogMessageParams::new(LoggingLevel::Warning, Json::new("text").expect("a text is JSON"))
}
