//! For each check a server that breaks its rule.

mod http;
mod legacy;
mod modern;

use serde_json::{Value, json};

use super::{
    server::Profile,
    wires::{Plain, Spoil},
};
use crate::check::wire::Request;

/// How the server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Stdio,
    /// HTTP, with responses in JSON.
    Json,
    /// HTTP, with responses as streams.
    Stream,
}

/// A server that breaks a rule.
pub(super) struct Fault {
    pub(super) check: &'static str,
    /// Other checks that notice it, too.
    pub(super) also: &'static [&'static str],
    /// The broken rules of the check. Empty is all.
    pub(super) broken: &'static [&'static str],
    pub(super) place: Place,
    pub(super) profile: Profile,
    pub(super) spoil: Spoil,
}

/// Returns all of them.
pub(super) fn faults() -> impl Iterator<Item = &'static Fault> {
    [modern::FAULTS, http::FAULTS, legacy::FAULTS].into_iter().flatten()
}

impl Fault {
    const fn new(check: &'static str, spoil: Spoil) -> Self {
        Self { check, also: &[], broken: &[], place: Place::Stdio, profile: Profile::Full, spoil }
    }

    const fn messages(check: &'static str, spoil: fn(&Value, &mut Vec<Value>)) -> Self {
        Self::new(check, Spoil::Messages(spoil))
    }

    const fn lines(check: &'static str, spoil: fn(&str, &mut Vec<String>)) -> Self {
        Self::new(check, Spoil::Lines(spoil))
    }

    const fn http(check: &'static str, spoil: fn(&Request, &mut Plain)) -> Self {
        let mut fault = Self::new(check, Spoil::Http(spoil));
        fault.place = Place::Json;
        fault
    }

    const fn also(mut self, also: &'static [&'static str]) -> Self {
        self.also = also;
        self
    }

    const fn breaks(mut self, broken: &'static [&'static str]) -> Self {
        self.broken = broken;
        self
    }

    const fn of(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    const fn at(mut self, place: Place) -> Self {
        self.place = place;
        self
    }
}

/// Returns whether a message is a request of 2026-07-28.
fn is_modern(message: &Value) -> bool {
    message["params"]["_meta"].get("io.modelcontextprotocol/protocolVersion").is_some()
}

/// Returns whether a message is a request of a method in 2026-07-28.
fn new(message: &Value, method: &str) -> bool {
    is_modern(message) && message["method"] == method
}

/// Returns whether a message is a request of a method in a session.
fn old(message: &Value, method: &str) -> bool {
    !is_modern(message) && message["method"] == method
}

/// Sets a member of the first message, if it is there.
fn set(messages: &mut [Value], pointer: &str, value: Value) {
    if let Some(place) = messages.first_mut().and_then(|message| message.pointer_mut(pointer)) {
        *place = value;
    }
}

/// Sets a member of an object of the first message, whether it is there or not.
fn put(messages: &mut [Value], pointer: &str, member: &str, value: Value) {
    if let Some(object) = messages.first_mut().and_then(|message| message.pointer_mut(pointer)) {
        object[member] = value;
    }
}

/// Removes a member of an object of the first message.
fn remove(messages: &mut [Value], pointer: &str, member: &str) {
    let object = messages.first_mut().and_then(|message| message.pointer_mut(pointer)).and_then(Value::as_object_mut);
    if let Some(object) = object {
        object.remove(member);
    }
}

/// Replaces the code of the error.
fn code(messages: &mut [Value], code: i64) {
    set(messages, "/error/code", json!(code));
}

/// Replaces the response by a result.
fn result(request: &Value, messages: &mut Vec<Value>, result: Value) {
    *messages = vec![json!({"jsonrpc": "2.0", "id": request["id"], "result": result})];
}

/// Replaces the response by an error.
fn error(request: &Value, messages: &mut Vec<Value>, code: i64) {
    *messages = vec![json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "no"}})];
}

/// Adds a message before the response.
fn add(messages: &mut Vec<Value>, message: Value) {
    messages.insert(0, message);
}

/// Returns a notification.
fn notification(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": {"progressToken": 1, "progress": 1, "level": "info", "data": 1}})
}

/// Returns an error without an id.
fn nameless() -> Value {
    json!({"jsonrpc": "2.0", "error": {"code": -32600, "message": "no"}})
}
