//! How connections end, and that they always do.

use std::{
    future::poll_fn,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use mcp_driver::{ByteReader, ByteWriter, DriverOptions, memory::pipe};
use mcp_proto::connection::{CloseReason, Event, ServerRole};
use mcp_service::{CallError, block_on};
use serde_json::{Value, json};

use crate::{
    LONG, SOON,
    adapter::{Adapter, Handle},
    minimal_peer::{
        Gate, ReceivedRequest, client, client_config, client_with, echo, in_jobs, joined, server, server_config,
        server_with,
    },
    raw::Raw,
    scenario::scenarios,
};

scenarios![
    // A57
    // req: STDIO-015
    requests_before_eof_are_answered,
    close_waits_a_bounded_time_for_handlers,
    // A55
    // req: STDIO-005 STDIO-006
    concurrent_responses_are_not_interleaved,
    // A56
    // req: LIFE-041 STDIO-014
    disconnect_at_any_byte_closes_once,
    // A56
    close_reason_contains_the_system_error,
    // A27 A62
    close_is_idempotent_and_works_from_any_thread,
    // A62
    close_does_not_wait_for_a_stalled_peer,
    close_does_not_wait_for_a_stuck_writer,
    // A13
    // req: LIFE-033
    unanswered_handshake_times_out,
    dropping_the_handle_closes_the_connection,
];

const HELLO: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n"
);

fn requests_before_eof_are_answered<A: Adapter>() {
    let ((mut output, answers), (requests, mut far)) = (io::pipe().expect("a pipe"), io::pipe().expect("a pipe"));
    let mut input = HELLO.to_owned();
    for id in 1..=200 {
        input += &format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"test/slow\"}}\n");
    }
    far.write_all(input.as_bytes()).expect("a pipe holds as much");
    drop(far);
    let server = server::<A>(A::from_io(requests, answers), |received| {
        thread::yield_now();
        received.echo();
    });
    let mut answers = String::new();
    output.read_to_string(&mut answers).expect("text comes");
    let mut ids: Vec<u64> = answers
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("each line is a message")["id"].as_u64().expect("an id"))
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..=200).collect::<Vec<_>>());
    assert_eq!(server.handle.wait(), Some(CloseReason::Eof));
}

fn close_waits_a_bounded_time_for_handlers<A: Adapter>() {
    let (transport, mut peer) = Raw::pair::<A>();
    let (gate, begun) = (Gate::default(), Gate::default());
    let mut config = server_config();
    config.settings.limits.drain = Duration::from_millis(100);
    let (hold, begin) = (gate.clone(), begun.clone());
    let server = server_with::<A>(
        config,
        transport,
        &DriverOptions::default(),
        in_jobs(move |_: &ReceivedRequest<ServerRole>| {
            begin.open();
            hold.pass();
        }),
    );
    peer.handshake_as_client();
    peer.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "test/hang"}));
    begun.pass();
    let start = Instant::now();
    assert_eq!(server.handle.close(), Some(CloseReason::Local));
    // The timeouts of responses, of the peer's disconnection, and of the last output.
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    gate.open();
}

fn concurrent_responses_are_not_interleaved<A: Adapter>() {
    let mut input = HELLO.to_owned();
    for id in 1..=100 {
        input += &format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"test/echo\",\"params\":{{\"text\":\"{}\"}}}}\n",
            "a\\nb".repeat(id)
        );
    }
    // One byte is written at a time.
    let ((source, mut requests), (mut answers, sink)) = (pipe(1 << 20), pipe(1));
    let barrier = Arc::new(Barrier::new(100));
    let mut config = server_config();
    config.settings.limits.drain = LONG;
    let server = server_with::<A>(
        config,
        A::memory(source, sink),
        &DriverOptions { handlers: 100, ..DriverOptions::default() },
        in_jobs(move |received: &ReceivedRequest<ServerRole>| {
            barrier.wait();
            received.echo();
        }),
    );
    assert_eq!(block_on(poll_fn(|cx| requests.poll_write(cx, input.as_bytes()))).expect("it is read"), input.len());
    drop(requests);
    let mut written = Vec::new();
    let mut chunk = [0; 64];
    while let len @ 1.. = block_on(poll_fn(|cx| answers.poll_read(cx, &mut chunk))).expect("it is written") {
        written.extend_from_slice(&chunk[..len]);
    }
    assert_eq!(server.handle.wait(), Some(CloseReason::Eof));
    let text = str::from_utf8(&written).expect("text");
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        let message: Value = serde_json::from_str(line).expect("each line is a message");
        let id = message["id"].as_u64().expect("an id");
        if id > 0 {
            let id = usize::try_from(id).expect("a small number");
            assert_eq!(message["result"]["text"], "a\nb".repeat(id));
        }
    }
    assert_eq!(text.lines().count(), 101);
}

fn disconnect_at_any_byte_closes_once<A: Adapter>() {
    for bytes in (0..1500).step_by(37) {
        let (near, mut far) = UnixStream::pair().expect("there are sockets");
        let client = client::<A>(A::unix(near));
        let mut peer = Raw::new(far.try_clone().expect("there are descriptors"));
        peer.handshake_as_server();
        let params = json!({"text": "x".repeat(100)}).to_string();
        let calls: Vec<_> = (0..10).map(|_| client.send_request("test/any", &params)).collect();
        let mut some = vec![0; bytes];
        far.read_exact(&mut some).or_else(|_| far.write_all(b"")).expect("it is there");
        drop((peer, far));
        for call in calls {
            assert!(matches!(call.wait(), Err(CallError::Closed(_))));
        }
        let events = client.rest();
        assert!(
            matches!(events[..], [Event::Ready, Event::Closed(CloseReason::Eof | CloseReason::TransportError(_))]),
            "{events:?}"
        );
        assert!(matches!(client.peer.notify_raw("test/late", None), Err(mcp_proto::connection::SendError::Closed)));
    }
}

fn close_reason_contains_the_system_error<A: Adapter>() {
    let (input, _writer) = io::pipe().expect("a pipe");
    let (reader, mut output) = io::pipe().expect("a pipe");
    drop(reader);
    // A process that another test is starting holds a copy of the reader until its `exec`.
    while output.write(b"\n").is_ok() {}
    let client = client::<A>(A::from_io(input, output));
    let Event::Closed(CloseReason::TransportError(why)) = client.event() else { panic!("it is lost") };
    assert!(why.contains("Broken pipe"), "{why}");
}

fn close_is_idempotent_and_works_from_any_thread<A: Adapter>() {
    for round in 0..200 {
        let (client, server) = joined::<A>(A::pair(64), |received| received.echo());
        let client = Arc::new(client.handle);
        let barrier = Arc::new(Barrier::new(3));
        let threads: Vec<_> = (0..3)
            .map(|number| {
                let (client, barrier) = (client.clone(), barrier.clone());
                thread::spawn(move || {
                    barrier.wait();
                    // Some wait before another thread closes, some after.
                    if (number + round) % 3 == 0 { client.wait() } else { client.close() }
                })
            })
            .collect();
        for thread in threads {
            assert_eq!(thread.join().expect("it does not panic"), Some(CloseReason::Local));
        }
        assert_eq!(client.close(), Some(CloseReason::Local));
        assert_eq!(server.handle.wait(), Some(CloseReason::Eof));
    }
}

fn close_does_not_wait_for_a_stalled_peer<A: Adapter>() {
    let (transport, mut peer) = Raw::pair::<A>();
    let mut config = client_config();
    config.settings.limits.drain = Duration::from_millis(100);
    let client = client_with::<A>(config, transport, |_| None);
    peer.handshake_as_server();
    let params = json!({"text": "x".repeat(1 << 20)}).to_string();
    let calls: Vec<_> = (0..3).map(|_| client.send_request("test/any", &params)).collect();
    let start = Instant::now();
    assert_eq!(client.handle.close(), Some(CloseReason::Local));
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    for call in calls {
        assert_eq!(call.wait(), Err(CallError::Closed(CloseReason::Local)));
    }
}

fn close_does_not_wait_for_a_stuck_writer<A: Adapter>() {
    let (input, mut to_client) = io::pipe().expect("a pipe");
    let (from_client, output) = io::pipe().expect("a pipe");
    let mut config = client_config();
    config.settings.limits.drain = Duration::from_millis(100);
    let client = client_with::<A>(config, A::from_io(input, output), |_| None);
    // The handshake: the request of the client, and its response.
    let mut from_client = BufReader::new(from_client);
    from_client.read_line(&mut String::new()).expect("it asks");
    to_client
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"serverInfo\":{\"name\":\"x\",\"version\":\"1\"}}}\n")
        .expect("it reads");
    assert_eq!(client.event(), Event::Ready);
    // Far more than a pipe holds, so the write blocks.
    let call = client.send_request("test/any", &json!({"text": "x".repeat(1 << 20)}).to_string());
    let start = Instant::now();
    call.cancel(None);
    assert_eq!(call.wait(), Err(CallError::Cancelled));
    assert_eq!(client.handle.close(), Some(CloseReason::Local));
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    drop((from_client, to_client));
}

fn unanswered_handshake_times_out<A: Adapter>() {
    let (transport, mut peer) = Raw::pair::<A>();
    let mut config = client_config();
    config.settings.handshake_timeout = Duration::from_millis(50);
    let client = client_with::<A>(config, transport, |_| None);
    assert_eq!(client.rest(), [Event::Closed(CloseReason::HandshakeTimeout)]);
    client.handle.wait();
    // On a busy machine the timeout may pass before anything was sent. No other message is sent: the handshake cannot
    // be cancelled.
    let said = peer.receive();
    assert!(said.as_ref().is_none_or(|said| said["method"] == "initialize"), "{said:?}");
    assert_eq!(peer.receive(), None);
}

fn dropping_the_handle_closes_the_connection<A: Adapter>() {
    let (left, right) = A::pair(64);
    let server = echo::<A>(right);
    let client = client::<A>(left);
    assert_eq!(client.event(), Event::Ready);
    let peer = client.peer.clone();
    drop(client);
    assert_eq!(peer.closed().wait(), CloseReason::Local);
    assert_eq!(server.handle.wait(), Some(CloseReason::Eof));
}
