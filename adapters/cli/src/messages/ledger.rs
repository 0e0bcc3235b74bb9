//! Pairs requests with their responses, in both directions.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    hash::{BuildHasher, RandomState},
    mem,
};

use mcp_proto::wire::{Message, RawJson, RequestId};

use crate::{record::Origin, text::beginning};

/// The most requests in flight that are paired, and the most ids that are known as used.
const MAX_CALLS: usize = 1 << 16;

/// The method of a request for a subscription.
const LISTEN: &str = "subscriptions/listen";

/// The most bytes that are kept of a method, or of the name of a tool, prompt or resource.
const MAX_NAME: usize = 256;

/// An id or a token, by hashes of its value: many are known, also after the end of their requests, and the peers choose
/// their lengths.
type Key = [u64; 2];

/// Computes keys, with secrets that no peer knows.
#[derive(Debug, Default)]
struct Keys([RandomState; 2]);

impl Keys {
    /// Returns the key of an id. It does not depend on the spelling.
    fn of(&self, id: &RequestId) -> Key {
        self.0.each_ref().map(|state| state.hash_one(id))
    }
}

/// A request in flight.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The number of the message, from 0.
    pub(crate) number: u64,
    pub(crate) at: u64,
    pub(crate) method: String,
    /// The tool, prompt or resource.
    pub(crate) subject: Option<String>,
    pub(crate) cancelled: bool,
    /// Whether the record does not have its response.
    pub(crate) is_lost: bool,
    /// Whether it is a request of 2026-07-28.
    pub(crate) is_modern: bool,
    /// Whether its result may be a task (2025-11-25).
    pub(crate) may_be_task: bool,
    token: Option<Key>,
    progress: Option<f64>,
}

/// The effect of a message on the requests in flight.
#[derive(Clone, Debug)]
pub(crate) enum Fact {
    /// A request began. `is_reused`: its id was used before.
    /// `shares_token`: another request in flight, which was not cancelled, has its progress token.
    Began { is_reused: bool, shares_token: bool },
    /// The id is in flight already.
    Duplicate,
    /// The response to a request.
    Answered(Call),
    /// A response to a request that has ended, or was never sent.
    Unknown { was_used: bool },
    /// The request was cancelled.
    Cancelled(Call),
    /// The cancellation of a request that has ended, or was never sent.
    CancelledUnknown { was_used: bool },
    /// Progress of a request. `grows`: it is larger than before. `of_task`: the result of the request was a task.
    Progress { grows: bool, was_cancelled: bool, of_task: bool },
    /// Progress for a token that no request in flight has.
    ProgressUnknown,
    /// The response to what is no message, or to a member of an array that is none.
    OfInvalid { is_array: bool },
    /// Neither.
    Other,
}

#[derive(Debug, Default)]
struct Side {
    /// Only these ids are kept as they are.
    calls: HashMap<Key, (RequestId, Call)>,
    used: HashSet<Key>,
    /// Cancelled requests, the oldest first. Some may have a response by now.
    cancelled: VecDeque<Key>,
    /// Whether cancelled requests were removed to make room.
    has_removed: bool,
    /// By token.
    tokens: HashMap<Key, Key>,
    /// The requests whose results were tasks, by token: it stays valid as long as the task.
    tasks: HashMap<Key, Call>,
    /// The subscriptions that have their results: on standard streams, a server cancels each one after that.
    ended_subscriptions: HashSet<Key>,
    /// The ids in what is no message, and whether that was an array: the other side may respond to it.
    invalid: HashMap<Key, bool>,
}

/// The requests in flight of both sides.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    keys: Keys,
    client: Side,
    server: Side,
}

/// Returns whether a request with this `_meta` is one of 2026-07-28.
pub(crate) fn is_modern(meta: Option<&RawJson<'_>>) -> bool {
    member(meta, "io.modelcontextprotocol/protocolVersion").is_some()
}

/// Returns the name of a tool or prompt, or the URI of a resource.
pub(crate) fn subject(params: Option<&RawJson<'_>>) -> Option<String> {
    let params = params?;
    let text = |name| params.member(name).and_then(|value| value.decode::<String>().ok());
    text("name").or_else(|| text("uri")).map(|name| cut(&name))
}

/// Returns the beginning of a name, so that requests that never end hold little.
fn cut(name: &str) -> String {
    beginning(name, MAX_NAME).to_owned()
}

impl Ledger {
    fn side(&mut self, of: Origin) -> &mut Side {
        match of {
            Origin::Client => &mut self.client,
            Origin::Server => &mut self.server,
        }
    }

    /// Takes a message, the number of which is `number`.
    pub(crate) fn take(&mut self, number: u64, at: u64, from: Origin, message: &Message<'_>) -> Fact {
        match message {
            Message::Request { id: request, method, params, meta } => {
                let token = self.key(meta.as_ref().and_then(|meta| meta.member("progressToken")));
                let key = self.keys.of(request);
                let side = self.side(from);
                if side.calls.contains_key(&key) {
                    return Fact::Duplicate;
                }
                if !side.make_room() {
                    return Fact::Other;
                }
                let mut shares_token = false;
                if let Some(token) = token {
                    side.tasks.remove(&token);
                    let before = side.tokens.insert(token, key);
                    let other = before.and_then(|other| side.calls.get(&other));
                    shares_token = other.is_some_and(|(_, other)| !other.cancelled && !other.is_lost);
                }
                let is_reused = side.used.contains(&key);
                if side.used.len() < MAX_CALLS {
                    side.used.insert(key);
                }
                let call = Call {
                    number,
                    at,
                    method: cut(method),
                    subject: subject(params.as_ref()),
                    cancelled: false,
                    is_lost: false,
                    is_modern: is_modern(meta.as_ref()),
                    may_be_task: member(params.as_ref(), "task").is_some(),
                    token,
                    progress: None,
                };
                side.calls.insert(key, (request.clone(), call));
                Fact::Began { is_reused, shares_token }
            }
            Message::Response { id, .. } | Message::Error { id: Some(id), .. } => {
                let key = self.keys.of(id);
                let side = self.side(from.other());
                match side.calls.remove(&key) {
                    Some((_, call)) => {
                        side.forget(key, &call);
                        if call.method == LISTEN && side.ended_subscriptions.len() < MAX_CALLS {
                            side.ended_subscriptions.insert(key);
                        }
                        if call.may_be_task && is_task(message) {
                            side.keep(&call);
                        }
                        Fact::Answered(call)
                    }
                    None if side.invalid.contains_key(&key) => {
                        Fact::OfInvalid { is_array: side.invalid.remove(&key).unwrap_or_default() }
                    }
                    // It may be late, for a request that was removed.
                    None if side.has_removed && side.was_used(key) => Fact::Other,
                    None => Fact::Unknown { was_used: side.was_used(key) },
                }
            }
            Message::Error { id: None, .. } => Fact::Other,
            Message::Notification { method, params } => match &**method {
                "notifications/cancelled" => self.cancel(from, self.key(member(params.as_ref(), "requestId"))),
                "notifications/progress" => {
                    let token = self.key(member(params.as_ref(), "progressToken"));
                    let progress = member(params.as_ref(), "progress").and_then(|value| value.decode().ok());
                    self.progress(from, token, progress)
                }
                _ => Fact::Other,
            },
        }
    }

    /// Takes the id of what is no message.
    pub(crate) fn take_invalid(&mut self, from: Origin, id: &RequestId, is_array: bool) {
        let key = self.keys.of(id);
        let side = self.side(from);
        if side.invalid.len() < MAX_CALLS {
            side.invalid.insert(key, is_array);
        }
    }

    /// Returns the key of a member that is an id.
    fn key(&self, value: Option<RawJson<'_>>) -> Option<Key> {
        let id: RequestId = value.and_then(|value| value.decode().ok())?;
        Some(self.keys.of(&id))
    }

    fn cancel(&mut self, from: Origin, key: Option<Key>) -> Fact {
        // A server of 2026-07-28 ends a subscription of the client with it.
        let Some(key) = key else { return Fact::Other };
        if let Some(call) = self.side(from).cancel(key) {
            return Fact::Cancelled(call);
        }
        let other = self.side(from.other());
        if from == Origin::Server {
            let is_subscription = other.calls.get(&key).is_some_and(|(_, call)| call.method == LISTEN);
            if is_subscription && let Some(call) = other.cancel(key) {
                return Fact::Cancelled(call);
            }
            if other.ended_subscriptions.contains(&key) || other.ended_subscriptions.len() == MAX_CALLS {
                return Fact::CancelledUnknown { was_used: true };
            }
        }
        Fact::CancelledUnknown { was_used: self.side(from).was_used(key) }
    }

    fn progress(&mut self, from: Origin, token: Option<Key>, progress: Option<f64>) -> Fact {
        let side = self.side(from.other());
        let Some(token) = token else { return Fact::ProgressUnknown };
        let request = side.tokens.get(&token).and_then(|key| side.calls.get_mut(key)).map(|(_, call)| call);
        let of_task = request.is_none();
        let call = request.or_else(|| side.tasks.get_mut(&token));
        let (Some(call), Some(progress)) = (call, progress) else {
            // It may be one of a task that was not kept.
            return if side.tasks.len() == MAX_CALLS { Fact::Other } else { Fact::ProgressUnknown };
        };
        let grows = call.progress.is_none_or(|last| progress > last);
        call.progress = Some(progress);
        Fact::Progress { grows, was_cancelled: call.cancelled, of_task }
    }

    /// Takes it that the response to a request of the client may be there, and is not in the record.
    pub(crate) fn lose(&mut self, id: &RequestId) {
        if let Some((_, call)) = self.client.calls.get_mut(&self.keys.of(id)) {
            call.is_lost = true;
        }
    }

    /// Returns the requests in flight, in their order.
    pub(crate) fn open(&self) -> Vec<(Origin, &RequestId, &Call)> {
        let client = self.client.calls.values().map(|(id, call)| (Origin::Client, id, call));
        let server = self.server.calls.values().map(|(id, call)| (Origin::Server, id, call));
        let mut all: Vec<_> = client.chain(server).collect();
        // Members of a batch have one number.
        all.sort_by(|one, other| {
            let key = |it: &(Origin, &RequestId, &Call)| (it.2.number, it.0 == Origin::Server);
            key(one).cmp(&key(other)).then_with(|| one.1.as_json().cmp(other.1.as_json()))
        });
        all
    }

    /// Returns how many requests of a side are in flight.
    pub(crate) fn count(&self, of: Origin) -> usize {
        match of {
            Origin::Client => self.client.calls.len(),
            Origin::Server => self.server.calls.len(),
        }
    }
}

impl Side {
    /// Returns whether an id was used, or may have been: not all are known any more if there were too many.
    fn was_used(&self, key: Key) -> bool {
        self.used.contains(&key) || self.used.len() == MAX_CALLS
    }

    /// Marks a request as cancelled. It stays until its response, or until the room is needed.
    fn cancel(&mut self, key: Key) -> Option<Call> {
        let (_, call) = self.calls.get_mut(&key)?;
        if !mem::replace(&mut call.cancelled, true) {
            self.cancelled.push_back(key);
        }
        Some(call.clone())
    }

    /// Makes room for a request: removes the oldest one that was cancelled. Returns whether there is room.
    fn make_room(&mut self) -> bool {
        // Most requests have their responses: their ids go first.
        while self.calls.len() == MAX_CALLS || self.cancelled.len() > MAX_CALLS {
            let Some(key) = self.cancelled.pop_front() else { return false };
            if self.calls.get(&key).is_some_and(|(_, call)| call.cancelled)
                && let Some((_, call)) = self.calls.remove(&key)
            {
                self.forget(key, &call);
                self.has_removed = true;
            }
        }
        true
    }

    /// Forgets the token of a request, unless a later request has it.
    fn forget(&mut self, key: Key, call: &Call) {
        if let Some(token) = &call.token
            && self.tokens.get(token) == Some(&key)
        {
            self.tokens.remove(token);
        }
    }

    /// Keeps the token of a request whose result is a task.
    fn keep(&mut self, call: &Call) {
        if let Some(token) = call.token
            && self.tasks.len() < MAX_CALLS
        {
            self.tasks.insert(token, call.clone());
        }
    }
}

/// Returns whether a response has a task instead of a result.
fn is_task(message: &Message<'_>) -> bool {
    let Message::Response { result, .. } = message else { return false };
    result.member("task").is_some_and(|task| task.member("taskId").is_some())
}

fn member<'a>(params: Option<&'a RawJson<'_>>, name: &str) -> Option<RawJson<'a>> {
    params.and_then(|params| params.member(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_ended_requests_own_no_memory() {
        // A value that can be copied owns none.
        fn assert_copy<K: Copy>(_: impl IntoIterator<Item = K>) {}
        let Side { calls, used, cancelled, tokens, tasks, ended_subscriptions, invalid, has_removed: _ } =
            Side::default();
        assert_copy(used);
        assert_copy(cancelled);
        assert_copy(tokens);
        assert_copy(tasks.into_keys());
        assert_copy(ended_subscriptions);
        assert_copy(invalid);
        assert_copy(calls.into_values().filter_map(|(_, call)| call.token));
    }

    #[test]
    fn ids_are_paired_whatever_their_spelling_is() {
        let mut ledger = Ledger::default();
        let mut take = |from, text: &str| ledger.take(0, 0, from, &Message::parse(text, 8).expect("a message"));
        let long = "a".repeat(1000);
        for (one, other) in [("100", "1e2"), (r#""a""#, r#""\u0061""#), (&format!("{long:?}"), &format!("{long:?}"))] {
            let fact = take(Origin::Client, &format!(r#"{{"jsonrpc":"2.0","id":{one},"method":"ping"}}"#));
            assert!(matches!(fact, Fact::Began { is_reused: false, .. }), "{one}: {fact:?}");
            let fact = take(Origin::Server, &format!(r#"{{"jsonrpc":"2.0","id":{other},"result":{{}}}}"#));
            assert!(matches!(fact, Fact::Answered(_)), "{other}: {fact:?}");
        }
        let fact = take(Origin::Server, r#"{"jsonrpc":"2.0","id":"1e2","result":{}}"#);
        assert!(matches!(fact, Fact::Unknown { was_used: false }), "{fact:?}");
    }

    #[test]
    fn open_requests_of_one_batch_have_an_order() {
        let mut ledger = Ledger::default();
        for id in 0..64 {
            for from in [Origin::Server, Origin::Client] {
                let text = format!(r#"{{"jsonrpc":"2.0","id":"{id:02}","method":"ping"}}"#);
                let message = Message::parse(&text, 8).expect("a message");
                ledger.take(1, 0, from, &message);
            }
        }
        let open: Vec<_> = ledger.open().iter().map(|(from, id, _)| (*from, id.as_json().to_owned())).collect();
        let side = |from| (0..64).map(move |id| (from, format!("\"{id:02}\"")));
        assert_eq!(open, side(Origin::Client).chain(side(Origin::Server)).collect::<Vec<_>>());
    }

    #[test]
    fn cancelled_requests_leave_room_for_others() {
        let mut ledger = Ledger::default();
        let mut take = |number: u64, from, text: String| {
            ledger.take(number, 0, from, &Message::parse(&text, 8).expect("a message"))
        };
        let request = |id: usize| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let answer = |id: usize| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        for id in 0..=MAX_CALLS {
            let fact = take(0, Origin::Client, request(id));
            assert!(matches!(fact, Fact::Began { is_reused: false, .. }), "{id} {fact:?}");
            let cancel =
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
            take(0, Origin::Client, cancel);
        }
        let fact = take(0, Origin::Server, answer(MAX_CALLS));
        assert!(matches!(fact, Fact::Answered(Call { cancelled: true, .. })), "{fact:?}");
        // It is not known whether this one has a response.
        let fact = take(0, Origin::Server, answer(0));
        assert!(matches!(fact, Fact::Other), "{fact:?}");
    }

    #[test]
    fn a_token_belongs_to_the_last_request_that_has_it() {
        let mut ledger = Ledger::default();
        let mut take = |from, text: &str| ledger.take(0, 0, from, &Message::parse(text, 8).expect("a message"));
        let request = |id: u8| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","params":{{"_meta":{{"progressToken":"t"}}}}}}"#)
        };
        let progress =
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}"#;
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        assert!(matches!(take(Origin::Client, &request(1)), Fact::Began { shares_token: false, .. }));
        take(Origin::Client, cancel);
        // The cancelled request does not use it any more, and its late response does not end it.
        assert!(matches!(take(Origin::Client, &request(2)), Fact::Began { shares_token: false, .. }));
        take(Origin::Server, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        let fact = take(Origin::Server, progress);
        assert!(matches!(fact, Fact::Progress { grows: true, was_cancelled: false, .. }), "{fact:?}");
        assert!(matches!(take(Origin::Client, &request(3)), Fact::Began { shares_token: true, .. }));
    }
}
