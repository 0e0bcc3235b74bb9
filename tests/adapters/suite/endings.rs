//! How connections end, on purpose and otherwise, and that they always do.

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
    end::{Asked, Gate, client, client_config, client_with, echo, in_jobs, joined, server, server_config, server_with},
    raw::Raw,
    scenario::scenarios,
};

scenarios![
    // A57
    // req: STDIO-015
    what_was_asked_before_the_end_of_input_is_answered,
    a_handler_that_never_ends_delays_the_end_for_a_bounded_time,
    // A55
    // req: STDIO-005 STDIO-006
    lines_of_many_writers_stay_whole,
    // A56
    // req: LIFE-041 STDIO-014
    a_peer_that_leaves_at_any_point_ends_the_connection_once,
    // A56
    what_the_system_says_is_the_reason,
    // A27 A62
    closing_works_from_anywhere_and_twice,
    // A62
    a_peer_that_is_a_black_hole_is_left,
    a_plain_reader_and_writer_that_are_stuck_hold_nothing_up,
    // A13
    // req: LIFE-033
    a_handshake_that_is_not_answered_ends,
    dropping_the_handle_closes,
];

const HELLO: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n"
);

fn what_was_asked_before_the_end_of_input_is_answered<A: Adapter>() {
    let ((mut output, answers), (requests, mut far)) = (io::pipe().expect("a pipe"), io::pipe().expect("a pipe"));
    let mut input = HELLO.to_owned();
    for id in 1..=200 {
        input += &format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"test/slow\"}}\n");
    }
    far.write_all(input.as_bytes()).expect("a pipe holds as much");
    drop(far);
    let server = server::<A>(A::from_io(requests, answers), |asked| {
        thread::yield_now();
        asked.echo();
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

fn a_handler_that_never_ends_delays_the_end_for_a_bounded_time<A: Adapter>() {
    let (transport, mut peer) = Raw::pair::<A>();
    let (gate, begun) = (Gate::default(), Gate::default());
    let mut config = server_config();
    config.settings.limits.drain = Duration::from_millis(100);
    let (hold, begin) = (gate.clone(), begun.clone());
    let server = server_with::<A>(
        config,
        transport,
        &DriverOptions::default(),
        in_jobs(move |_: &Asked<ServerRole>| {
            begin.open();
            hold.pass();
        }),
    );
    peer.shake_hands_as_client();
    peer.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "test/hang"}));
    begun.pass();
    let start = Instant::now();
    assert_eq!(server.handle.close(), Some(CloseReason::Local));
    // The time for answers, for the peer to leave, and for last words.
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    gate.open();
}

fn lines_of_many_writers_stay_whole<A: Adapter>() {
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
        in_jobs(move |asked: &Asked<ServerRole>| {
            barrier.wait();
            asked.echo();
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

fn a_peer_that_leaves_at_any_point_ends_the_connection_once<A: Adapter>() {
    for bytes in (0..1500).step_by(37) {
        let (near, mut far) = UnixStream::pair().expect("there are sockets");
        let client = client::<A>(A::unix(near));
        let mut peer = Raw::new(far.try_clone().expect("there are descriptors"));
        peer.shake_hands_as_server();
        let params = json!({"text": "x".repeat(100)}).to_string();
        let calls: Vec<_> = (0..10).map(|_| client.ask("test/any", &params)).collect();
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

fn what_the_system_says_is_the_reason<A: Adapter>() {
    let (input, _writer) = io::pipe().expect("a pipe");
    let (reader, output) = io::pipe().expect("a pipe");
    drop(reader);
    let client = client::<A>(A::from_io(input, output));
    let Event::Closed(CloseReason::TransportError(why)) = client.event() else { panic!("it is lost") };
    assert!(why.contains("Broken pipe"), "{why}");
}

fn closing_works_from_anywhere_and_twice<A: Adapter>() {
    for round in 0..200 {
        let (client, server) = joined::<A>(A::pair(64), |asked| asked.echo());
        let client = Arc::new(client.handle);
        let barrier = Arc::new(Barrier::new(3));
        let threads: Vec<_> = (0..3)
            .map(|number| {
                let (client, barrier) = (client.clone(), barrier.clone());
                thread::spawn(move || {
                    barrier.wait();
                    // Some wait before anybody closes, some after.
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

fn a_peer_that_is_a_black_hole_is_left<A: Adapter>() {
    let (transport, mut peer) = Raw::pair::<A>();
    let mut config = client_config();
    config.settings.limits.drain = Duration::from_millis(100);
    let client = client_with::<A>(config, transport, |_| None);
    peer.shake_hands_as_server();
    let params = json!({"text": "x".repeat(1 << 20)}).to_string();
    let calls: Vec<_> = (0..3).map(|_| client.ask("test/any", &params)).collect();
    let start = Instant::now();
    assert_eq!(client.handle.close(), Some(CloseReason::Local));
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    for call in calls {
        assert_eq!(call.wait(), Err(CallError::Closed(CloseReason::Local)));
    }
}

fn a_plain_reader_and_writer_that_are_stuck_hold_nothing_up<A: Adapter>() {
    let (input, mut to_client) = io::pipe().expect("a pipe");
    let (from_client, output) = io::pipe().expect("a pipe");
    let mut config = client_config();
    config.settings.limits.drain = Duration::from_millis(100);
    let client = client_with::<A>(config, A::from_io(input, output), |_| None);
    // It is answered when it has asked.
    let mut from_client = BufReader::new(from_client);
    from_client.read_line(&mut String::new()).expect("it asks");
    to_client
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"serverInfo\":{\"name\":\"x\",\"version\":\"1\"}}}\n")
        .expect("it reads");
    assert_eq!(client.event(), Event::Ready);
    // Far more than a pipe takes, so the writer is stuck in a write.
    let call = client.ask("test/any", &json!({"text": "x".repeat(1 << 20)}).to_string());
    let start = Instant::now();
    call.cancel(None);
    assert_eq!(call.wait(), Err(CallError::Cancelled));
    assert_eq!(client.handle.close(), Some(CloseReason::Local));
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    drop((from_client, to_client));
}

fn a_handshake_that_is_not_answered_ends<A: Adapter>() {
    let (transport, mut peer) = Raw::pair::<A>();
    let mut config = client_config();
    config.settings.handshake_timeout = Duration::from_millis(50);
    let client = client_with::<A>(config, transport, |_| None);
    assert_eq!(client.rest(), [Event::Closed(CloseReason::HandshakeTimeout)]);
    client.handle.wait();
    // Where there is much else to do, it can be too late before anything was sent. Nothing else was: the handshake cannot be
    // cancelled.
    let said = peer.receive();
    assert!(said.as_ref().is_none_or(|said| said["method"] == "initialize"), "{said:?}");
    assert_eq!(peer.receive(), None);
}

fn dropping_the_handle_closes<A: Adapter>() {
    let (left, right) = A::pair(64);
    let server = echo::<A>(right);
    let client = client::<A>(left);
    assert_eq!(client.event(), Event::Ready);
    let peer = client.peer.clone();
    drop(client);
    assert_eq!(peer.closed().wait(), CloseReason::Local);
    assert_eq!(server.handle.wait(), Some(CloseReason::Eof));
}
