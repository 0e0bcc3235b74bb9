//! Calls, their outcomes, and peers that violate the protocol.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::channel,
    },
    thread,
    time::{Duration, Instant},
};

use mcp_driver::DriverOptions;
use mcp_proto::{
    connection::{ClientConfig, ClientRole, CloseReason, Event, RequestOptions, SendError},
    wire::RawJson,
};
use mcp_service::{
    CallError, Pending,
    driver_api::{Job, Schedule},
};
use serde_json::json;

use crate::{
    SOON,
    adapter::{Adapter, Handle},
    minimal_peer::{self, End, Gate, client, client_config, client_with, joined, send_request},
    raw::Raw,
    scenario::scenarios,
};

scenarios![
    // A11
    cancel_does_not_wait_for_a_stalled_peer,
    // req: LIFE-034 LIFE-036
    calls_time_out_while_the_peer_does_not_read,
    // A14
    // req: LIFE-035 CANC-001 CANC-002
    timed_out_calls_are_cancelled,
    // A17
    // req: LIFE-037 LIFE-038
    progress_extends_idle_but_not_total_timeout,
    // req: CANC-011 CANC-012
    dropped_calls_leak_nothing,
    a_hundred_threads_share_one_connection,
    ten_thousand_calls_in_flight,
    // A28
    outbox_is_bounded_when_the_peer_does_not_read,
];

/// A client configuration with a short drain timeout, for peers that do not read.
fn short_drain() -> ClientConfig {
    let mut config = client_config();
    config.settings.limits.drain = Duration::from_millis(50);
    config
}

/// Fills all buffers between a client and a peer that has stopped reading.
fn fill_buffers<A: Adapter>(client: &End<A, ClientRole>) -> Vec<Pending<RawJson<'static>>> {
    let params = json!({ "text": "x".repeat(100_000) }).to_string();
    (0..20).map(|_| client.send_request("test/stuff", &params)).collect()
}

fn cancel_does_not_wait_for_a_stalled_peer<A: Adapter>() {
    let (transport, mut peer) = Raw::pair::<A>();
    let client = client_with::<A>(short_drain(), transport, |_| None);
    peer.handshake_as_server();
    let stuck = fill_buffers(&client);
    let start = Instant::now();
    for pending in &stuck {
        pending.cancel(Some("not worth it"));
    }
    for pending in stuck {
        assert_eq!(pending.wait(), Err(CallError::Cancelled));
    }
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    assert_eq!(client.usage().calls, 0);
    client.handle.close();
}

fn calls_time_out_while_the_peer_does_not_read<A: Adapter>() {
    let (transport, mut peer) = Raw::pair::<A>();
    let client = client_with::<A>(short_drain(), transport, |_| None);
    peer.handshake_as_server();
    let _stuck = fill_buffers(&client);
    let start = Instant::now();
    let hurried = client.peer.within(Duration::from_millis(50));
    assert_eq!(send_request(&hurried, "test/any", "{}").wait(), Err(CallError::TimedOut { total: true }));
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(50) && took < SOON, "{took:?}");
}

fn timed_out_calls_are_cancelled<A: Adapter>() {
    let (transport, mut peer) = Raw::pair::<A>();
    let client = client::<A>(transport);
    peer.handshake_as_server();
    assert_eq!(client.event(), Event::Ready);
    // The request has to be written before its timeout, and how long that takes depends on the machine.
    let left = (0..10).any(|attempt| {
        let limit = Duration::from_millis(20 << attempt);
        let pending = send_request(&client.peer.within(limit), "test/any", "{}");
        assert_eq!(pending.wait(), Err(CallError::TimedOut { total: true }));
        let pending = client.send_request("test/next", "{}");
        let mut next = peer.receive().expect("a request");
        let left = next["method"] == "test/any";
        if left {
            let cancelled = peer.receive().expect("the cancellation");
            assert_eq!(cancelled["method"], "notifications/cancelled");
            assert_eq!(cancelled["params"]["requestId"], next["id"]);
            // A later response is reported as late.
            peer.send(&json!({"jsonrpc": "2.0", "id": next["id"], "result": {}}));
            assert!(matches!(client.event(), Event::Late(_)));
            next = peer.receive().expect("the next request");
        }
        assert_eq!(next["method"], "test/next");
        peer.send(&json!({"jsonrpc": "2.0", "id": next["id"], "result": {}}));
        assert!(pending.wait().is_ok());
        left
    });
    assert!(left, "no request has left within ten seconds");
}

fn progress_extends_idle_but_not_total_timeout<A: Adapter>() {
    let (transport, mut peer) = Raw::pair::<A>();
    let client = client::<A>(transport);
    peer.handshake_as_server();
    let options = RequestOptions {
        idle_timeout: Some(Duration::from_millis(1000)),
        total_timeout: Some(Duration::from_millis(2500)),
        ..RequestOptions::default()
    };
    let start = Instant::now();
    let pending = send_request(&client.peer.with_options(options), "test/any", "{}");
    let token = peer.receive().expect("the request")["params"]["_meta"]["progressToken"].clone();
    let (done, stop) = channel::<()>();
    let reporter = thread::spawn(move || {
        let mut progress = 0;
        while stop.recv_timeout(Duration::from_millis(50)).is_err() {
            progress += 1;
            let params = json!({"progressToken": token, "progress": progress});
            peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
        }
    });
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    let result = pending.on_progress(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(result.wait(), Err(CallError::TimedOut { total: true }));
    assert!(start.elapsed() >= Duration::from_millis(2500), "{:?}", start.elapsed());
    assert!(seen.load(Ordering::Relaxed) >= 4);
    done.send(()).expect("the reporter is there");
    reporter.join().expect("it does not panic");
}

fn dropped_calls_leak_nothing<A: Adapter>() {
    let (transport, mut peer) = Raw::pair::<A>();
    let client = client::<A>(transport);
    peer.handshake_as_server();
    let reader = thread::spawn(move || {
        let (mut requests, mut cancellations) = (Vec::new(), Vec::new());
        let last = loop {
            let message = peer.receive().expect("more comes");
            match message["method"].as_str() {
                Some("test/drop") => requests.push(message["id"].clone()),
                Some("notifications/cancelled") => cancellations.push(message["params"]["requestId"].clone()),
                Some("test/last") => break message["id"].clone(),
                other => panic!("what is {other:?}?"),
            }
        };
        // Responses to calls that were dropped.
        for id in &requests {
            peer.send(&json!({"jsonrpc": "2.0", "id": id, "result": {}}));
        }
        peer.send(&json!({"jsonrpc": "2.0", "id": last, "result": {}}));
        (requests, cancellations, peer)
    });
    for _ in 0..1000 {
        drop(client.send_request("test/drop", "{}"));
    }
    client.send_request("test/last", "{}").wait().expect("it is answered");
    let (requests, cancellations, _peer) = reader.join().expect("it does not panic");
    // Requests that were not written were removed from the outbox. All others were cancelled, in order.
    assert_eq!(requests, cancellations);
    let usage = client.usage();
    assert_eq!((usage.calls, usage.outbox_frames, usage.outbox_bytes, usage.events), (0, 0, 0, 0));
}

fn a_hundred_threads_share_one_connection<A: Adapter>() {
    let (client, _server) = joined::<A>(A::pair(4096), |received| received.echo());
    let threads: Vec<_> = (0..100)
        .map(|number| {
            let peer = client.peer.clone();
            thread::spawn(move || {
                for round in 0..20 {
                    let result = send_request(&peer, "test/echo", &format!("{{\"who\":{number},\"round\":{round}}}"));
                    let result = result.wait().expect("it is answered");
                    assert_eq!(result.member("who").map(|who| who.get().to_owned()), Some(number.to_string()));
                    assert_eq!(result.member("round").map(|it| it.get().to_owned()), Some(round.to_string()));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("it does not panic");
    }
    assert_eq!(client.usage().calls, 0);
}

fn ten_thousand_calls_in_flight<A: Adapter>() {
    let gate = Gate::default();
    let open = gate.clone();
    let count = AtomicUsize::new(0);
    let (transport, far) = A::pair(64 * 1024);
    let client = client::<A>(transport);
    let server = minimal_peer::server_with::<A>(minimal_peer::server_config(), far, &DriverOptions::default(), {
        let (gate, count) = (gate.clone(), Arc::new(count));
        move |requested| {
            let (gate, count) = (gate.clone(), count.clone());
            // All have arrived before the first response.
            if count.fetch_add(1, Ordering::SeqCst) + 1 == 10_000 {
                open.open();
            }
            Some(Job::new(Schedule::Concurrent, move || {
                gate.pass();
                requested.echo();
            }))
        }
    });
    assert_eq!(client.event(), Event::Ready);
    let calls: Vec<_> = (0..10_000).map(|n| client.send_request("test/echo", &format!("{{\"n\":{n}}}"))).collect();
    for (number, call) in calls.into_iter().enumerate() {
        let result = call.wait().expect("it is answered");
        assert_eq!(result.member("n").map(|n| n.get().to_owned()), Some(number.to_string()));
    }
    assert_eq!(server.usage().requests, 0);
    assert_eq!(client.usage().calls, 0);
}

fn outbox_is_bounded_when_the_peer_does_not_read<A: Adapter>() {
    let (transport, mut peer) = Raw::pair::<A>();
    let mut config = client_config();
    config.settings.limits.outbox_bytes = 1 << 20;
    let client = client_with::<A>(config, transport, |_| None);
    peer.handshake_as_server();
    let text = serde_json::to_string(&json!({ "text": "x".repeat(1000) })).expect("JSON");
    let params = mcp_proto::wire::Json::parse(text).expect("JSON");
    let mut refused = 0;
    for _ in 0..100_000 {
        match client.peer.notify_raw("test/flood", Some(&RawJson::from(&params))) {
            Ok(()) => {}
            Err(SendError::Busy) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 90_000, "{refused}");
    assert!(client.usage().outbox_bytes < (1 << 20) + 2000);
    // A caller that waits for a slot gets it when the peer reads again.
    let waiting = client.peer.clone();
    let waiter = thread::spawn(move || waiting.wait_for_request_slot().wait());
    let reader = thread::spawn(move || while peer.receive().is_some() {});
    waiter.join().expect("it does not panic");
    assert_eq!(client.handle.close(), Some(CloseReason::Local));
    reader.join().expect("it does not panic");
}
