//! Calls that end without a response.

use std::time::Duration;

use mcp_proto::{
    connection::{Event, Outcome, RequestOptions},
    protocol::VersionSet,
    rpc::{CallId, ReplyKey},
    wire::{ErrorObject, JsonObject, RawJson},
};

use crate::{ARGUMENTS, Case, Pair, Work};

/// The number of calls in flight.
const CALLS: usize = 64;

/// How the calls end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Cancelled after the server has received them.
    Cancelled,
    /// Cancelled before they were sent.
    TakenBack,
    /// Timed out.
    TimedOut,
}

pub(super) fn cases() -> Vec<Case> {
    [("cancelled", End::Cancelled), ("taken back", End::TakenBack), ("timed out", End::TimedOut)]
        .map(|(name, end)| Case::new("churn", name, move || calls(end)))
        .into()
}

fn calls(end: End) -> Work {
    let mut pair = Pair::new(VersionSet::LEGACY);
    let params = format!(r#"{{"name":"echo","arguments":{ARGUMENTS}}}"#);
    let params = JsonObject::parse(params).expect("an object");
    let (mut calls, mut keys) = (Vec::new(), Vec::new());
    pair.bytes = 0;
    round(&mut pair, end, &params, &mut calls, &mut keys);
    let bytes = pair.bytes;
    Work::new(CALLS, bytes, move || round(&mut pair, end, &params, &mut calls, &mut keys))
}

fn round(pair: &mut Pair, end: End, params: &JsonObject, calls: &mut Vec<CallId>, keys: &mut Vec<ReplyKey>) {
    const TIMEOUT: Duration = Duration::from_secs(1);
    let params = RawJson::from(params);
    for _ in 0..CALLS {
        pair.send_request(|client, now| {
            let options = RequestOptions { idle_timeout: Some(TIMEOUT), ..RequestOptions::default() };
            calls.push(client.request_raw(now, "tools/call", Some(&params), options).expect("it is allowed"));
        });
    }
    if end != End::TakenBack {
        pair.up(|_, _, event| {
            let Event::Request { key, .. } = event else { panic!("{event:?}") };
            keys.push(key);
        });
    }
    if end == End::TimedOut {
        calls.clear();
        pair.now = pair.now + TIMEOUT;
        pair.client.handle_timeout(pair.now);
    }
    for call in calls.drain(..) {
        pair.client.cancel(call, None).expect("it is in flight");
    }
    for _ in 0..CALLS {
        let event = pair.client.poll_event();
        let Some(Event::Response { outcome: Outcome::Cancelled | Outcome::TimedOut { .. }, .. }) = event else {
            panic!("{event:?}")
        };
    }
    // The server receives the cancellations.
    let mut stopped = 0;
    pair.up(|server, _, event| {
        let Event::Cancelled { key, .. } = event else { panic!("{event:?}") };
        server.respond_error(key, &ErrorObject::internal("stopped")).expect("it is swallowed");
        stopped += 1;
    });
    assert_eq!(stopped, keys.len());
    keys.clear();
}
