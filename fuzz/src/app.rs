//! An application that handles all events of a connection and checks them.

use std::collections::{BTreeMap, BTreeSet};

use mcp_proto::{
    connection::{Connection, Event, SendError, Violation},
    rpc::{CallId, ReplyKey},
    schema::{LogMessageParams, LoggingLevel},
    wire::{ErrorObject, Json, RawJson},
};

/// The state of one application.
#[derive(Debug, Default)]
pub(crate) struct App {
    /// Requests of the peer without a response, in the order of arrival.
    pub(crate) open: Vec<ReplyKey>,
    /// The open calls of the application.
    pub(crate) calls: BTreeSet<CallId>,
    /// All events, if they are recorded.
    pub(crate) events: Option<Vec<Event<'static>>>,
    /// Whether requests are answered as soon as they arrive.
    pub(crate) immediate: bool,
    /// The violations of the peer.
    pub(crate) violations: Vec<Violation<'static>>,
    keys: BTreeSet<ReplyKey>,
    cancelled: BTreeSet<ReplyKey>,
    ended: BTreeSet<CallId>,
    progress: BTreeMap<ReplyKey, u32>,
    ready: bool,
    closed: bool,
}

/// A result that is valid for every method.
const RESULT: &str =
    r#"{"tools":[],"prompts":[],"resources":[],"roots":[],"messages":[],"contents":[],"content":[],"action":"cancel"}"#;

/// An `input_required` result (2026-07-28).
const INPUT_REQUIRED: &str = r#"{"resultType":"input_required","requestState":"s","inputRequests":{
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
        if let Some(events) = &mut self.events {
            events.push(event.clone().into_owned());
        }
        match event {
            Event::Request { key, .. } if self.immediate => self.respond(conn, key, true),
            // The application stops working on the request. The response frees the slot.
            Event::Cancelled { key, .. } if self.open.contains(&key) => self.respond(conn, key, false),
            _ => {}
        }
    }

    /// Responds to the `nth` open request.
    pub(crate) fn respond_nth<E>(&mut self, conn: &mut Connection<E>, nth: usize, good: bool) {
        if let Some(key) = self.nth(nth) {
            self.respond(conn, key, good);
        }
    }

    pub(crate) fn respond_all<E>(&mut self, conn: &mut Connection<E>) {
        for key in self.open.clone() {
            self.respond(conn, key, true);
        }
    }

    fn respond<E>(&mut self, conn: &mut Connection<E>, key: ReplyKey, good: bool) {
        let answered = if good {
            conn.respond_raw(key, &json(RESULT))
        } else {
            conn.respond_error(key, &ErrorObject::internal("no"))
        };
        self.settle(conn, key, answered);
    }

    /// Responds to the `nth` request with `input_required`, if its revision allows that.
    pub(crate) fn require_input_nth<E>(&mut self, conn: &mut Connection<E>, nth: usize) {
        if let Some(key) = self.nth(nth) {
            match conn.respond_raw(key, &json(INPUT_REQUIRED)) {
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
            // The response was not accepted, so the request stays open.
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
        // The call may have ended before its event was handled.
        let _ = call.map(|call| conn.cancel(call, Some("changed my mind")));
    }

    /// Checks that the connection has closed and that no call and no request is open.
    pub(crate) fn assert_over(&self) {
        assert!(self.closed, "the end was never told");
        assert!(self.calls.is_empty(), "calls that never ended: {:?}", self.calls);
        assert!(self.open.is_empty(), "requests that cannot be answered: {:?}", self.open);
    }
}

/// Returns a JSON text as a raw value.
pub(crate) fn json(text: &str) -> RawJson<'static> {
    let json = Json::parse(text).unwrap_or_else(|error| panic!("{error} in {text}"));
    RawJson::from(&json).into_owned()
}

pub(crate) fn log_message() -> LogMessageParams {
    LogMessageParams::new(LoggingLevel::Warning, Json::new("text").expect("a text is JSON"))
}
