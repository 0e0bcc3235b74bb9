//! Random steps. Numbers select among the current candidates.

use mcp_tests::model::{LEVELS, Model, Reply, Step};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

/// A step whose details are chosen when it is executed.
#[derive(Clone, Debug)]
pub(crate) enum Random {
    Request { method: usize, progress: bool, idle: usize, total: usize, again: bool },
    Cancel(usize),
    Answer(usize, bool),
    Report(usize, u8),
    Notify(usize, usize),
    Close,
    Receive(Message),
    Batch(Vec<Message>),
    Eof,
    Break,
    Wait(usize),
    Read,
    Send(usize),
}

/// A message of the peer.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Request { id: usize, method: usize, token: usize, claim: usize },
    Cancelled(usize),
    Answer { to: usize, as_text: bool, with: usize },
    Progress { of: usize, progress: u8 },
    Note(usize),
    Subscription { of: usize, acknowledged: bool },
    Initialize(usize),
}

const REQUESTED: [&str; 10] = [
    "tools/call",
    "x/own",
    "ping",
    "tools/list",
    "roots/list",
    "sampling/createMessage",
    "elicitation/create",
    "logging/setLevel",
    "tasks/list",
    "subscriptions/listen",
];
const NOTES: [&str; 6] = [
    "x/noted",
    "notifications/tools/list_changed",
    "notifications/message",
    "notifications/roots/list_changed",
    "notifications/initialized",
    "tools/call",
];
const TIMES: [u64; 8] = [0, 50, 100, 250, 500, 1000, 5000, 40_000];

fn message() -> impl Strategy<Value = Message> {
    let n = any::<prop::sample::Index>().prop_map(|index| index.index(1000));
    prop_oneof![
        6 => (n.clone(), n.clone(), 0usize..3, 0usize..10)
            .prop_map(|(id, method, token, claim)| Message::Request { id, method, token, claim }),
        3 => n.clone().prop_map(Message::Cancelled),
        6 => (n.clone(), prop::bool::weighted(0.1), 0usize..11)
            .prop_map(|(to, as_text, with)| Message::Answer { to, as_text, with }),
        2 => (n.clone(), 0u8..9).prop_map(|(of, progress)| Message::Progress { of, progress }),
        1 => n.clone().prop_map(Message::Note),
        1 => (n.clone(), any::<bool>()).prop_map(|(of, acknowledged)| Message::Subscription { of, acknowledged }),
        1 => n.prop_map(Message::Initialize),
    ]
}

pub(crate) fn random() -> impl Strategy<Value = Random> {
    let n = any::<prop::sample::Index>().prop_map(|index| index.index(1000));
    prop_oneof![
        8 => (n.clone(), any::<bool>(), 0usize..4, 0usize..4, any::<bool>())
            .prop_map(|(method, progress, idle, total, again)| Random::Request { method, progress, idle, total, again }),
        3 => n.clone().prop_map(Random::Cancel),
        6 => (n.clone(), prop::bool::weighted(0.8)).prop_map(|(n, good)| Random::Answer(n, good)),
        3 => (n.clone(), 1u8..6).prop_map(|(n, progress)| Random::Report(n, progress)),
        2 => (n.clone(), n.clone()).prop_map(|(method, level)| Random::Notify(method, level)),
        1 => Just(Random::Close),
        14 => message().prop_map(Random::Receive),
        2 => vec(message(), 0..5).prop_map(Random::Batch),
        1 => prop_oneof![Just(Random::Eof), Just(Random::Break)],
        3 => n.clone().prop_map(Random::Wait),
        6 => Just(Random::Read),
        10 => (1usize..4).prop_map(Random::Send),
    ]
}

/// Returns steps in which the peer sends more requests than fit, so that reading pauses.
pub(crate) fn crowded() -> impl Strategy<Value = Random> {
    let n = any::<prop::sample::Index>().prop_map(|index| index.index(1000));
    // `x/own` is a request of either side, the others belong to one side.
    let method = prop::sample::select(vec![0usize, 1, 1, 3, 4, 5]);
    prop_oneof![
        1 => random(),
        16 => (n.clone(), method, 0usize..3)
            .prop_map(|(id, method, token)| Random::Receive(Message::Request { id, method, token, claim: 3 })),
        1 => n.clone().prop_map(|n| Random::Receive(Message::Cancelled(n))),
        4 => (n.clone(), prop::bool::weighted(0.8)).prop_map(|(n, good)| Random::Answer(n, good)),
        3 => n.prop_map(Random::Wait),
        8 => Just(Random::Read),
        3 => (1usize..4).prop_map(Random::Send),
        1 => prop::sample::select(vec![Random::Close, Random::Eof, Random::Break]),
    ]
}

fn pick<T: Clone>(among: &[T], n: usize) -> Option<T> {
    among.get(n % among.len().max(1)).cloned()
}

impl Random {
    /// Returns the concrete steps in the current state.
    pub(crate) fn steps(&self, model: &Model) -> Vec<Step> {
        let one = match self {
            Self::Request { method, progress, idle, total, again } => {
                let time = |n: usize, times: [u64; 3]| n.checked_sub(1).map(|n| times[n]);
                // Methods of both eras and roles are chosen more often.
                let method = pick(&REQUESTED, if method % 3 == 0 { method % 100 } else { method % 4 });
                method.map(|method| Step::Request {
                    method,
                    progress: *progress,
                    idle: time(*idle, [100, 1000, 5000]),
                    total: time(*total, [100, 300, 2000]),
                    resubscribe: *again,
                })
            }
            Self::Cancel(n) => pick(&model.calls(), *n).map(Step::Cancel),
            Self::Answer(n, good) => {
                let reply = if *good { Reply::Result } else { Reply::Error };
                request(model, *n).map(|request| Step::Respond(request, reply))
            }
            Self::Report(n, progress) => request(model, *n).map(|request| Step::Report(request, *progress)),
            Self::Notify(method, level) => {
                let method = pick(&NOTES[..4], *method).expect("there are some");
                let level = pick(&LEVELS, *level).filter(|_| method == "notifications/message");
                Some(Step::Notify(method, level))
            }
            Self::Close => Some(Step::Close),
            Self::Receive(message) => Some(Step::Receive(message.json(model))),
            Self::Batch(messages) => Some(Step::Receive(messages.iter().map(|message| message.json(model)).collect())),
            Self::Eof => Some(Step::Eof),
            Self::Break => Some(Step::FailWrite),
            Self::Wait(n) => pick(&TIMES, *n).map(Step::Wait),
            Self::Read => Some(Step::Read),
            Self::Send(count) => return vec![Step::Send; *count],
        };
        one.into_iter().collect()
    }
}

/// Returns one of the latest requests that the application received.
fn request(model: &Model, n: usize) -> Option<usize> {
    let from = model.delivered().saturating_sub(6);
    pick(&(from..model.delivered()).collect::<Vec<_>>(), n)
}

/// Returns a response to the request `id` of this side. `with` selects its kind.
fn response(model: &Model, id: Value, to: usize, with: usize) -> Value {
    let mut message = json!({"jsonrpc": "2.0", "id": id});
    match with {
        0 => message["error"] = json!({"code": -32000 - i64::try_from(to).expect("small"), "message": "no"}),
        1 => message["result"] = json!("no object"),
        2 => message["result"] = json!({"resultType": "unheard of"}),
        3 => message["result"] = json!({"resultType": "input_required"}),
        4 => message["result"] = json!({"resultType": "input_required", "requestState": "s"}),
        5 | 6 => {
            let input_request = json!({"method": "roots/list", "params": {"from": "the server"}});
            let input_requests =
                if with == 5 { json!({"a": input_request}) } else { json!({"a": input_request, "b": input_request}) };
            message["result"] = json!({"resultType": "input_required", "inputRequests": input_requests});
        }
        7 => {
            message["result"] = json!({"protocolVersion": model.revision().as_str(), "capabilities": {
                        "tools": {"listChanged": true}, "logging": {}, "tasks": {"list": {}}},
                        "serverInfo": {"name": "s", "version": "1"}})
        }
        _ => message["result"] = json!({"resultType": "complete", "n": to}),
    }
    message
}

impl Message {
    fn json(&self, model: &Model) -> Value {
        // Ids of this side, newest first, and one that was never used.
        let ours = |n: usize| {
            let mut ids = model.issued();
            ids.reverse();
            ids.truncate(4);
            ids.push(99);
            pick(&ids, n).expect("there is one")
        };
        let id = |n: usize| pick(&[json!(1), json!(2), json!(3), json!("1"), json!("a")], n).expect("there are some");
        match *self {
            Self::Request { id: number, method, token, claim } => {
                let method = pick(
                    &[&REQUESTED[..], &["server/discover", "x/own", "tools/call", "notifications/message"]].concat(),
                    method,
                )
                .expect("there are some");
                let mut params = match method {
                    "logging/setLevel" => json!({"level": LEVELS[number % 8]}),
                    "subscriptions/listen" => json!({"notifications": {"toolsListChanged": true}}),
                    _ => json!({"from": "the other side"}),
                };
                match token {
                    0 => {}
                    1 => params["_meta"]["progressToken"] = json!(7),
                    _ => params["_meta"]["progressToken"] = json!("t"),
                }
                if model.is_modern() && claim > 0 {
                    let version = if claim == 1 { "2031-01-01" } else { "2026-07-28" };
                    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(version);
                    if claim != 2 {
                        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
                    }
                }
                json!({"jsonrpc": "2.0", "id": id(number), "method": method, "params": params})
            }
            Self::Cancelled(n) => {
                let id = if model.is_modern() && n % 2 == 0 { json!(ours(n / 2)) } else { id(n / 2) };
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
            }
            Self::Answer { to, as_text, with } => {
                let id = if as_text { json!(ours(to).to_string()) } else { json!(ours(to)) };
                response(model, id, to, with)
            }
            Self::Progress { of, progress } => {
                let mut params = json!({"progressToken": ours(of), "progress": progress});
                if progress == 0 {
                    params["progress"] = json!("far");
                }
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            }
            Self::Note(n) => json!({"jsonrpc": "2.0", "method": pick(&NOTES, n), "params": {"from": "the other side"}}),
            Self::Subscription { of, acknowledged } => {
                let what = if acknowledged { "subscriptions/acknowledged" } else { "tools/list_changed" };
                json!({"jsonrpc": "2.0", "method": format!("notifications/{what}"),
                    "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": ours(of)}}})
            }
            Self::Initialize(n) => {
                let version = if n % 4 == 0 { json!(7) } else { json!(model.revision().as_str()) };
                json!({"jsonrpc": "2.0", "id": id(n), "method": "initialize", "params": {
                    "protocolVersion": version, "clientInfo": {"name": "c", "version": "1"}, "capabilities": {
                        "roots": {"listChanged": true}, "sampling": {}, "elicitation": {"form": {}}, "tasks": {"list": {}}}}})
            }
        }
    }
}
