//! Handlers: their order, their number, their actions, and that they do not delay other work.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::channel,
    },
    thread,
    time::{Duration, Instant},
};

use mcp_driver::DriverOptions;
use mcp_proto::{
    connection::{CancelCause, CloseReason, Event, Server, ServerRole},
    protocol::MethodName,
    rpc::ReplyKey,
    wire::RawJson,
};
use mcp_service::{
    Calls, Peer,
    driver_api::{Application, ConnectionHandle, Job, Schedule},
};
use serde_json::json;

use crate::{
    LONG, SOON,
    adapter::{Adapter, Handle},
    minimal_peer::{
        Gate, ReceivedRequest, client, client_config, client_with, in_jobs, send_request, server_config, server_with,
    },
    raw::Raw,
    scenario::scenarios,
};

scenarios![
    // A21
    // req: LIFE-042 PING-003
    a_blocked_handler_receives_responses,
    // A22
    waiting_handlers_do_not_block_responses,
    // A25
    notifications_run_in_order_before_later_requests,
    // A16
    each_request_is_cancelled_once_on_disconnect,
    // A23 A62
    a_handler_can_close_its_own_connection,
    // A23
    a_notification_handler_can_send_requests,
    responses_are_sent_while_a_later_request_runs,
    // A28
    drops_notifications_over_the_queue_limit,
    // A63
    a_panicking_job_does_not_stop_the_worker_pool,
];

fn handlers(handlers: usize) -> DriverOptions {
    DriverOptions { handlers, ..DriverOptions::default() }
}

fn a_blocked_handler_receives_responses<A: Adapter>() {
    let (left, right) = A::pair(64);
    let client = client_with::<A>(client_config(), left, in_jobs(|inbound| inbound.echo()));
    let calls = Arc::new(Mutex::new(None::<Peer<ServerRole>>));
    let peer = calls.clone();
    let server = server_with::<A>(
        server_config(),
        right,
        &handlers(1),
        in_jobs(move |inbound| {
            let peer = peer.lock().expect("no panics").clone().expect("the server has started");
            for round in 0..10 {
                let pending = if round % 2 == 0 {
                    send_request(&peer, "test/back", "{}")
                } else {
                    send_request(&peer, "ping", "{}")
                };
                pending.wait().expect("the client answers");
            }
            inbound.echo();
        }),
    );
    *calls.lock().expect("no panics") = Some(server.peer.clone());
    assert_eq!(client.event(), Event::Ready);
    client.send_request("test/asks", "{}").wait().expect("it is answered");
}

fn waiting_handlers_do_not_block_responses<A: Adapter>() {
    let (left, right) = A::pair(256);
    let gate = Gate::default();
    let server_requests = Arc::new(AtomicUsize::new(0));
    let client = client_with::<A>(client_config(), left, {
        let (gate, server_requests) = (gate.clone(), server_requests.clone());
        in_jobs(move |inbound| {
            // The first responses are held back until a hundred more requests wait for a handler.
            server_requests.fetch_add(1, Ordering::SeqCst);
            gate.pass();
            inbound.echo();
        })
    });
    let home = Arc::new(Mutex::new(None::<Peer<ServerRole>>));
    let peer = home.clone();
    let arrived = AtomicUsize::new(0);
    let server = server_with::<A>(server_config(), right, &handlers(4), {
        let act = in_jobs(move |inbound: &ReceivedRequest<ServerRole>| {
            let peer = peer.lock().expect("no panics").clone().expect("the server has started");
            send_request(&peer, "test/back", "{}").wait().expect("the client answers");
            inbound.echo();
        });
        let gate = gate.clone();
        move |inbound| {
            if arrived.fetch_add(1, Ordering::SeqCst) + 1 == 104 {
                gate.open();
            }
            act(inbound)
        }
    });
    *home.lock().expect("no panics") = Some(server.peer.clone());
    assert_eq!(client.event(), Event::Ready);
    let calls: Vec<_> = (0..104).map(|n| client.send_request("test/asks", &format!("{{\"n\":{n}}}"))).collect();
    for call in calls {
        call.wait().expect("it is answered");
    }
    assert_eq!(server_requests.load(Ordering::SeqCst), 104);
}

/// With one thread for handlers, so that the same thread runs both.
fn responses_are_sent_while_a_later_request_runs<A: Adapter>() {
    let (transport, mut peer) = Raw::pair::<A>();
    let gate = Gate::default();
    let server = server_with::<A>(server_config(), transport, &handlers(1), {
        let gate = gate.clone();
        in_jobs(move |inbound: &ReceivedRequest<ServerRole>| {
            if inbound.method == "test/slow" {
                gate.pass();
            }
            inbound.echo();
        })
    });
    peer.handshake_as_client();
    let quick = json!({"jsonrpc": "2.0", "id": 1, "method": "test/quick", "params": {}});
    let slow = json!({"jsonrpc": "2.0", "id": 2, "method": "test/slow", "params": {}});
    peer.send_line(&format!("{quick}\n{slow}"));
    assert_eq!(peer.receive().expect("an answer")["id"], 1, "before the slow one is done");
    gate.open();
    assert_eq!(peer.receive().expect("an answer")["id"], 2);
    drop(server);
}

/// Runs notifications in sequence and requests concurrently, and records the order in which they begin.
struct Log {
    calls: Arc<Calls<ServerRole>>,
    begun: Arc<Mutex<Vec<String>>>,
    running: Arc<AtomicBool>,
}

impl Application<ServerRole> for Log {
    fn handle(&self, connection: &Arc<dyn ConnectionHandle<ServerRole>>, event: Event<'_>) -> Option<Job> {
        match self.calls.handle(event)? {
            Event::Notification { method: MethodName::Custom(_), params, .. } => {
                let (begun, running) = (self.begun.clone(), self.running.clone());
                let number = params.as_ref().and_then(|params| params.member("n")).map(|n| n.get().to_owned());
                Some(Job::new(Schedule::Serial, move || {
                    assert!(!running.swap(true, Ordering::SeqCst), "two at the same time");
                    let number = number.unwrap_or_default();
                    // Some take longer than others.
                    if number.ends_with('7') {
                        thread::yield_now();
                    }
                    begun.lock().expect("no panics").push(number);
                    running.store(false, Ordering::SeqCst);
                }))
            }
            Event::Request { key, params, .. } => {
                let (begun, connection) = (self.begun.clone(), connection.clone());
                let number = params.as_ref().and_then(|params| params.member("n")).map(|n| n.get().to_owned());
                Some(Job::new(Schedule::Concurrent, move || {
                    begun.lock().expect("no panics").push(format!("r{}", number.unwrap_or_default()));
                    let json = mcp_proto::wire::Json::parse("{}".to_owned()).expect("JSON");
                    connection.update(|conn, _| conn.respond_raw(key, &RawJson::from(&json))).expect("there is room");
                }))
            }
            _ => None,
        }
    }
}

fn notifications_run_in_order_before_later_requests<A: Adapter>() {
    let (left, right) = A::pair(4096);
    let client = client::<A>(left);
    let begun = Arc::new(Mutex::new(Vec::new()));
    let app = Log { calls: Arc::default(), begun: begun.clone(), running: Arc::default() };
    let server = A::start(|now| Server::new(server_config(), now), Arc::new(app), right, &handlers(8));
    assert_eq!(client.event(), Event::Ready);
    // Notifications have priority over requests in the outbox, so the test waits for each request before the next
    // notification.
    let mut expected = Vec::new();
    for round in 0..100 {
        for n in 0..10 {
            let n = 10 * round + n;
            let json = mcp_proto::wire::Json::parse(format!("{{\"n\":{n}}}")).expect("JSON");
            client.peer.notify_raw("test/note", Some(&RawJson::from(&json))).expect("there is room");
            expected.push(n.to_string());
        }
        expected.push(format!("r{round}"));
        client.send_request("test/ask", &format!("{{\"n\":{round}}}")).wait().expect("it is answered");
    }
    assert_eq!(*begun.lock().expect("no panics"), expected);
    server.close();
}

fn each_request_is_cancelled_once_on_disconnect<A: Adapter>() {
    let (transport, mut peer) = Raw::pair::<A>();
    let gate = Gate::default();
    let mut config = server_config();
    config.settings.limits.drain = Duration::from_millis(50);
    let hold = gate.clone();
    let server = server_with::<A>(
        config,
        transport,
        &handlers(64),
        in_jobs(move |inbound: &ReceivedRequest<ServerRole>| {
            hold.pass();
            inbound.echo();
        }),
    );
    peer.handshake_as_client();
    for id in 1..=50 {
        peer.send(&json!({"jsonrpc": "2.0", "id": id, "method": "test/hold"}));
    }
    // All of them have arrived when this request gets its response.
    peer.send(&json!({"jsonrpc": "2.0", "id": "ping", "method": "ping"}));
    assert_eq!(peer.receive().expect("an answer")["id"], "ping");
    drop(peer);
    let mut events = server.rest();
    assert_eq!(events.remove(0), Event::Ready);
    let keys: Vec<ReplyKey> = events[..50]
        .iter()
        .map(|event| match event {
            Event::Cancelled { key, cause: CancelCause::Closed } => *key,
            event => panic!("what is {event:?}?"),
        })
        .collect();
    assert!(keys.is_sorted() && keys.windows(2).all(|pair| pair[0] != pair[1]), "each once");
    assert_eq!(events.len(), 51);
    assert!(matches!(events[50], Event::Closed(CloseReason::Eof | CloseReason::TransportError(_))), "{:?}", events[50]);
    gate.open();
    server.handle.wait();
}

fn a_handler_can_close_its_own_connection<A: Adapter>() {
    let (left, right) = A::pair(4096);
    let client = client::<A>(left);
    let (handle, took) = (Arc::new(Mutex::new(None::<Arc<A::Handle<ServerRole>>>)), channel());
    let (own, notify) = (handle.clone(), Mutex::new(took.0));
    let notify = Arc::new(notify);
    let server = server_with::<A>(
        server_config(),
        right,
        &handlers(2),
        in_jobs(move |inbound: &ReceivedRequest<ServerRole>| {
            let start = Instant::now();
            let handle = own.lock().expect("no panics").clone().expect("the server has started");
            handle.close();
            handle.close();
            notify.lock().expect("no panics").send(start.elapsed()).expect("the test listens");
            inbound.echo();
        }),
    );
    let server_handle = Arc::new(server.handle);
    *handle.lock().expect("no panics") = Some(server_handle.clone());
    assert_eq!(client.event(), Event::Ready);
    // The response of the handler is sent after the close.
    client.send_request("test/close", "{}").wait().expect("it is answered");
    let took = took.1.recv_timeout(LONG).expect("it is told");
    assert!(took < SOON, "{took:?}");
    assert_eq!(server_handle.wait(), Some(CloseReason::Local));
    assert_eq!(client.handle.wait(), Some(CloseReason::Eof));
    handle.lock().expect("no panics").take();
}

fn a_notification_handler_can_send_requests<A: Adapter>() {
    let (left, right) = A::pair(4096);
    let done = Gate::default();
    struct SendsRequests(Arc<Calls<ServerRole>>, Gate);
    impl Application<ServerRole> for SendsRequests {
        fn handle(&self, connection: &Arc<dyn ConnectionHandle<ServerRole>>, event: Event<'_>) -> Option<Job> {
            match self.0.handle(event)? {
                Event::Notification { .. } => {
                    let (peer, done) = (Peer::new(connection.clone(), self.0.clone()), self.1.clone());
                    Some(Job::new(Schedule::Serial, move || {
                        send_request(&peer, "test/back", "{}").wait().expect("the client answers");
                        send_request(&peer, "ping", "{}").wait().expect("the client answers");
                        done.open();
                    }))
                }
                _ => None,
            }
        }
    }
    let client = client_with::<A>(client_config(), left, in_jobs(|inbound| inbound.echo()));
    let app = Arc::new(SendsRequests(Arc::default(), done.clone()));
    let server = A::start(|now| Server::new(server_config(), now), app, right, &handlers(1));
    assert_eq!(client.event(), Event::Ready);
    client.peer.notify_raw("test/news", None).expect("there is room");
    done.pass();
    server.close();
}

fn drops_notifications_over_the_queue_limit<A: Adapter>() {
    let (transport, mut peer) = Raw::pair::<A>();
    let (gate, first) = (Gate::default(), Gate::default());
    let received = Arc::new(AtomicUsize::new(0));
    struct Slow(Arc<Calls<ServerRole>>, Gate, Gate, Arc<AtomicUsize>);
    impl Application<ServerRole> for Slow {
        fn handle(&self, _: &Arc<dyn ConnectionHandle<ServerRole>>, event: Event<'_>) -> Option<Job> {
            if !matches!(self.0.handle(event)?, Event::Notification { .. }) {
                return None;
            }
            let (gate, first, received) = (self.1.clone(), self.2.clone(), self.3.clone());
            Some(Job::new(Schedule::Serial, move || {
                first.open();
                gate.pass();
                received.fetch_add(1, Ordering::SeqCst);
            }))
        }
    }
    let app = Arc::new(Slow(Arc::default(), gate.clone(), first.clone(), received.clone()));
    let options = DriverOptions { handlers: 4, max_notification_bytes: 10 * 1300, ..DriverOptions::default() };
    let server = A::start(|now| Server::new(server_config(), now), app, transport, &options);
    peer.handshake_as_client();
    let note = json!({"jsonrpc": "2.0", "method": "test/note", "params": {"text": "x".repeat(1000)}});
    peer.send(&note);
    first.pass();
    for _ in 0..1000 {
        peer.send(&note);
    }
    peer.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    assert_eq!(peer.receive().expect("an answer")["id"], 1);
    gate.open();
    drop(peer);
    server.wait();
    assert_eq!(received.load(Ordering::SeqCst), 11);
}

fn a_panicking_job_does_not_stop_the_worker_pool<A: Adapter>() {
    let (left, right) = A::pair(4096);
    let client = client::<A>(left);
    let _server = server_with::<A>(
        server_config(),
        right,
        &handlers(1),
        in_jobs(|inbound: &ReceivedRequest<ServerRole>| {
            inbound.echo();
            assert_ne!(inbound.method, "test/panic", "on purpose");
        }),
    );
    assert_eq!(client.event(), Event::Ready);
    for _ in 0..10 {
        client.send_request("test/panic", "{}").wait().expect("it was answered before");
        client.send_request("test/calm", "{}").wait().expect("the worker pool is there");
    }
}
