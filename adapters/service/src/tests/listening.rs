//! The subscriptions of a client (2026-07-28), on one connection and on the next.

use std::{
    cell::Cell,
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

use mcp_proto::{
    connection::SendError,
    protocol::{ProtocolVersion, VersionSet},
    schema::{SubscriptionFilter, ToolsListChangedParams},
};
use serde_json::{Value, json};

use super::echo;
use super::pair::Pair;
use crate::{
    client::{Host, subscription::Subscription},
    outbound::error::CallError,
    server::{service::Service, tool::Tool},
};

const V: ProtocolVersion = ProtocolVersion::V2026_07_28;

fn filter() -> SubscriptionFilter {
    SubscriptionFilter {
        tools_list_changed: Some(true),
        prompts_list_changed: Some(true),
        resource_subscriptions: Some(vec!["test://a".into()]),
        ..SubscriptionFilter::default()
    }
}

/// A client that counts the notifications about changes of tools that it receives.
fn host(received: &Arc<AtomicUsize>) -> Host {
    let received = received.clone();
    Host::builder("client", "1")
        .on(move |_: ToolsListChangedParams, _| {
            received.fetch_add(1, Ordering::SeqCst);
        })
        .build()
}

fn service() -> Service {
    echo().subscriptions().enable_resources().build().expect("a good service")
}

fn listen(pair: &Pair) -> Subscription {
    let pending = pair.to_server().listen(filter()).expect("it can be sent");
    pair.wait(pending).expect("it is acknowledged")
}

fn change(pair: &Pair, service: &Service) {
    assert!(service.add(Tool::new("new", || ())).is_ok() && service.remove_tool("new"));
    pair.settle();
}

/// Returns how many requests for subscriptions the client has sent, and how many it has cancelled.
fn sent(pair: &Pair) -> (usize, usize) {
    let lines = pair.client.take_lines();
    let count = |method: &str| lines.iter().filter(|line| line["method"] == method).count();
    (count("subscriptions/listen"), count("notifications/cancelled"))
}

// req: M-SUBS-009 M-SUBS-014
#[test]
fn subscription_lasts_until_closed() {
    let (received, service) = (Arc::new(AtomicUsize::new(0)), service());
    let pair = Pair::new(&host(&received), &service, V);
    let listening = listen(&pair);
    let told = SubscriptionFilter { prompts_list_changed: None, ..filter() };
    assert_eq!(listening.agreed(), Some(told));
    let missing = SubscriptionFilter { prompts_list_changed: Some(true), ..SubscriptionFilter::default() };
    assert_eq!((listening.missing(), listening.filter()), (missing, &filter()));
    assert!(!listening.is_over());
    assert_eq!(pair.to_server().subscriptions().len(), 1);
    change(&pair, &service);
    assert_eq!(received.load(Ordering::SeqCst), 1);
    assert_eq!(sent(&pair), (1, 0));
    // The timeout of responses does not apply.
    pair.pass(Duration::from_secs(100_000));
    change(&pair, &service);
    assert_eq!(received.load(Ordering::SeqCst), 2);
    listening.close();
    pair.settle();
    assert_eq!(sent(&pair), (0, 1));
    change(&pair, &service);
    assert_eq!(received.load(Ordering::SeqCst), 2);
    assert!(pair.to_server().subscriptions().is_empty());
    pair.assert_clean();
}

/// A waiter may compare all resources that a backend has acknowledged, so it checks only when a subscription changes.
#[test]
fn responses_to_other_calls_wake_no_waiter() {
    let pair = Pair::new(&host(&Arc::default()), &service(), V);
    let first = listen(&pair);
    let (peer, checks) = (pair.to_server(), Cell::new(0));
    let mut waiting = pin!(peer.subscriptions().wait_for(|| {
        checks.set(checks.get() + 1);
        None::<()>
    }));
    // Of a waker in a static, the clone may count as another waker.
    let waker = Waker::noop().clone();
    let mut poll = || {
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        checks.take()
    };
    assert_eq!(poll(), 2, "before and after it has registered");
    pair.send_request("tools/list", json!({})).expect("tools");
    assert_eq!(poll(), 0);
    let second = listen(&pair);
    assert_eq!(poll(), 1);
    drop((first, second));
}

#[test]
fn dropped_listen_call_leaves_no_subscription() {
    let pair = Pair::new(&host(&Arc::default()), &service(), V);
    drop(pair.to_server().listen(filter()).expect("it can be sent"));
    pair.settle();
    assert!(pair.to_server().subscriptions().is_empty());
    // The server acknowledges it after the call was dropped.
    let pending = pair.to_server().listen(filter()).expect("it can be sent");
    pair.settle();
    drop(pending);
    pair.settle();
    assert!(pair.to_server().subscriptions().is_empty());
    pair.assert_clean();
}

// req: M-SUBS-020 M-STDIO-020 M-SUBS-021
#[test]
fn subscriptions_resume_on_the_next_connection() {
    let (received, service) = (Arc::new(AtomicUsize::new(0)), service());
    let host = host(&received);
    let pair = Pair::new(&host, &service, V);
    let (kept, given_up) = (listen(&pair), listen(&pair));
    let subscriptions = pair.to_server().subscriptions().clone();
    pair.cut();
    assert_eq!((kept.agreed(), kept.is_over()), (None, false), "it rests");
    assert_eq!(kept.missing(), filter());
    drop(given_up);

    let next = |versions: VersionSet| {
        Pair::with(&host, &service, |joining| {
            joining.client.settings.versions = versions;
            joining.subscriptions = subscriptions.clone();
        })
    };
    // A session has no such subscriptions.
    let session = next(VersionSet::LEGACY);
    assert_eq!((kept.agreed(), sent(&session)), (None, (0, 0)));
    session.cut();
    let pair = next(VersionSet::ALL);
    assert!(kept.agreed().is_some());
    received.store(0, Ordering::SeqCst);
    change(&pair, &service);
    assert_eq!(received.load(Ordering::SeqCst), 1);
    assert_eq!(subscriptions.len(), 1);
    kept.close();
    pair.settle();
    assert_eq!(sent(&pair), (0, 1));
    pair.assert_clean();
}

#[test]
fn active_subscription_is_not_taken_over() {
    let (received, service) = (Arc::new(AtomicUsize::new(0)), service());
    let host = host(&received);
    let first = Pair::new(&host, &service, V);
    let listening = listen(&first);
    let second = Pair::with(&host, &service, |joining| {
        joining.client.settings.versions = VersionSet::only(V);
        joining.subscriptions = first.to_server().subscriptions().clone();
    });
    second.cut();
    assert!(listening.agreed().is_some(), "it is on the first");
    first.cut();
    assert!(listening.agreed().is_none());
}

/// A pair in which the test responds for the server.
fn alone() -> Pair {
    Pair::new(&host(&Arc::default()), &service(), V)
}

/// Returns the last request for a subscription, which does not reach the server.
fn request(pair: &Pair) -> Value {
    pair.client.flush();
    let mut lines = pair.client.take_lines();
    lines.retain(|line| line["method"] == "subscriptions/listen");
    lines.pop().expect("it was sent")
}

// req: M-SUBS-032
#[test]
fn unsupported_subscription_is_an_error() {
    let pair = alone();
    let pending = pair.to_server().listen(filter()).expect("it can be sent");
    let request = request(&pair);
    let error = json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no"}});
    pair.input_to_client(&error.to_string());
    let error = pending.wait().expect_err("it was refused");
    assert_eq!(error.rpc().map(|error| error.code.0), Some(-32601));
    assert!(pair.to_server().subscriptions().is_empty());

    let session = Pair::simple(&service());
    assert!(matches!(session.to_server().listen(filter()), Err(SendError::NotInRevision { .. })));
    assert!(session.to_server().subscriptions().is_empty());
}

// req: M-SUBS-022
#[test]
fn resubscribes_a_limited_number_of_times() {
    let pair = alone();
    let next = || request(&pair);
    let acknowledge = |request: &Value| {
        let params = json!({
            "notifications": {"toolsListChanged": true},
            "_meta": {"io.modelcontextprotocol/subscriptionId": request["id"]}
        });
        let method = "notifications/subscriptions/acknowledged";
        pair.input_to_client(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    };
    let end = |request: &Value| {
        let done = json!({"jsonrpc": "2.0", "id": request["id"], "result": {"resultType": "complete"}});
        pair.input_to_client(&done.to_string());
    };
    let pending = pair.to_server().listen(filter()).expect("it can be sent");
    let mut request = next();
    acknowledge(&request);
    let listening = pending.wait().expect("it is acknowledged");
    for _ in 0..8 {
        end(&request);
        pair.client.elapse(Duration::from_secs(8));
        request = next();
        acknowledge(&request);
        assert!(listening.agreed().is_some());
    }
    assert!(!listening.is_over());
    end(&request);
    assert_eq!((listening.is_over(), listening.agreed(), listening.error()), (true, None, None));
    // An error ends the subscription, and is reported.
    let pending = pair.to_server().listen(filter()).expect("it can be sent");
    let request = next();
    acknowledge(&request);
    let another = pending.wait().expect("it is acknowledged");
    end(&request);
    pair.client.elapse(Duration::from_secs(8));
    let request = next();
    let error = json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32603, "message": "no"}});
    pair.input_to_client(&error.to_string());
    assert!(matches!(another.error(), Some(CallError::Rpc(error)) if error.code.0 == -32603));
    assert_eq!(pair.to_server().subscriptions().len(), 2);
    drop((listening, another));
    assert!(pair.to_server().subscriptions().is_empty());
}
