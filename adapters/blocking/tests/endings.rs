//! How connections end, on purpose and otherwise, and that they always do.

mod support;

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use mcp_blocking::{Options, Sink, Source, Stopper, Transport};
use mcp_proto::connection::{CloseReason, Event, ServerEnd};
use mcp_service::CallError;
use serde_json::{Value, json};
use support::{
    Asked, Gate, LONG, client, client_config, client_with, echo, joined, raw::Raw, server, server_config, server_with,
    within,
};

const HELLO: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n"
);

// req: STDIO-015
#[test]
fn what_was_asked_before_the_end_of_input_is_answered() {
    within(LONG, || {
        let (mut output, far) = io::pipe().expect("a pipe");
        let mut input = HELLO.to_owned();
        for id in 1..=200 {
            input += &format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"test/slow\"}}\n");
        }
        let server = server(Transport::over(io::Cursor::new(input.into_bytes()), far), |asked| {
            thread::yield_now();
            asked.echo();
        });
        let mut answers = String::new();
        output.read_to_string(&mut answers).expect("text comes");
        let mut ids: Vec<u64> = answers
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).expect("each line is a message")["id"].as_u64().expect("an id")
            })
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..=200).collect::<Vec<_>>());
        assert_eq!(server.handle.wait(), Some(CloseReason::Eof));
    });
}

#[test]
fn a_handler_that_never_ends_delays_the_end_for_a_bounded_time() {
    within(LONG, || {
        let (transport, mut peer) = Raw::pair();
        let (gate, begun) = (Gate::default(), Gate::default());
        let mut config = server_config();
        config.settings.limits.drain = Duration::from_millis(100);
        let (hold, begin) = (gate.clone(), begun.clone());
        let server = server_with(
            config,
            transport,
            &Options::default(),
            support::in_jobs(move |_: &Asked<ServerEnd>| {
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
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        gate.open();
    });
}

/// Writes one byte at a time, and keeps every line.
struct Slow(Arc<Mutex<Vec<u8>>>);

impl Sink for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panics").push(bytes[0]);
        Ok(1)
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes)
    }
}

// req: STDIO-005 STDIO-006
#[test]
fn lines_of_many_writers_stay_whole() {
    within(LONG, || {
        let mut input = HELLO.to_owned();
        for id in 1..=100 {
            input += &format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"test/echo\",\"params\":{{\"text\":\"{}\"}}}}\n",
                "a\\nb".repeat(id)
            );
        }
        struct Text(io::Cursor<Vec<u8>>);
        impl Source for Text {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0.read(buffer)
            }
        }
        let written = Arc::new(Mutex::new(Vec::new()));
        let barrier = Arc::new(Barrier::new(100));
        let transport = Transport::new(Text(io::Cursor::new(input.into_bytes())), Slow(written.clone()));
        let server = server_with(
            server_config(),
            transport,
            &Options { handlers: 100, ..Options::default() },
            support::in_jobs(move |asked: &Asked<ServerEnd>| {
                barrier.wait();
                asked.echo();
            }),
        );
        assert_eq!(server.handle.wait(), Some(CloseReason::Eof));
        let written = written.lock().expect("no panics");
        let text = std::str::from_utf8(&written).expect("text");
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
    });
}

// req: LIFE-041 STDIO-014
#[test]
fn a_peer_that_leaves_at_any_point_ends_the_connection_once() {
    within(3 * LONG, || {
        for bytes in (0..1500).step_by(37) {
            let (near, mut far) = UnixStream::pair().expect("there are sockets");
            let client = client(Transport::unix(near).expect("a socket"));
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
                matches!(events[..], [Event::Ready, Event::Closed(CloseReason::Eof | CloseReason::Lost(_))]),
                "{events:?}"
            );
            assert!(matches!(client.peer.notify_raw("test/late", None), Err(mcp_proto::connection::SendError::Closed)));
        }
    });
}

#[test]
fn what_the_system_says_is_the_reason() {
    within(LONG, || {
        let (input, _writer) = io::pipe().expect("a pipe");
        let (reader, output) = io::pipe().expect("a pipe");
        drop(reader);
        let client = client(Transport::over(input, output));
        let Event::Closed(CloseReason::Lost(why)) = client.event() else { panic!("it is lost") };
        assert!(why.contains("Broken pipe"), "{why}");
    });
}

#[test]
fn closing_works_from_anywhere_and_twice() {
    within(3 * LONG, || {
        for round in 0..200 {
            let (client, server) = joined(Transport::pair(64), |asked| asked.echo());
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
    });
}

#[test]
fn a_peer_that_is_a_black_hole_is_left() {
    within(LONG, || {
        let (transport, mut peer) = Raw::pair();
        let mut config = client_config();
        config.settings.limits.drain = Duration::from_millis(100);
        let client = client_with(config, transport, |_| None);
        peer.shake_hands_as_server();
        let params = json!({"text": "x".repeat(1 << 20)}).to_string();
        let calls: Vec<_> = (0..3).map(|_| client.ask("test/any", &params)).collect();
        let start = Instant::now();
        assert_eq!(client.handle.close(), Some(CloseReason::Local));
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        for call in calls {
            assert_eq!(call.wait(), Err(CallError::Closed(CloseReason::Local)));
        }
    });
}

#[test]
fn a_plain_reader_and_writer_that_are_stuck_hold_nothing_up() {
    within(LONG, || {
        let (input, mut to_client) = io::pipe().expect("a pipe");
        let (from_client, output) = io::pipe().expect("a pipe");
        let mut config = client_config();
        config.settings.limits.drain = Duration::from_millis(100);
        let client = client_with(config, Transport::over(input, output), |_| None);
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
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        drop((from_client, to_client));
    });
}

// req: LIFE-033
#[test]
fn a_handshake_that_is_not_answered_ends() {
    within(LONG, || {
        let (transport, mut peer) = Raw::pair();
        let mut config = client_config();
        config.settings.handshake_timeout = Duration::from_millis(50);
        let client = client_with(config, transport, |_| None);
        assert_eq!(peer.receive().expect("a message")["method"], "initialize");
        assert_eq!(client.rest(), [Event::Closed(CloseReason::HandshakeTimeout)]);
        client.handle.wait();
        // Nothing else was sent: the handshake cannot be cancelled.
        assert_eq!(peer.receive(), None);
    });
}

#[test]
fn dropping_the_handle_closes() {
    within(LONG, || {
        let (left, right) = Transport::pair(64);
        let server = echo(right);
        let client = client(left);
        assert_eq!(client.event(), Event::Ready);
        let peer = client.peer.clone();
        drop(client);
        assert_eq!(peer.close_reason(), Some(CloseReason::Local));
        assert_eq!(server.handle.wait(), Some(CloseReason::Eof));
    });
}

/// A source that says when it is read, and ends when it is told to.
struct Silent {
    told: Arc<(Mutex<bool>, std::sync::Condvar)>,
    read: Sender<()>,
}

impl Source for Silent {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.read.send(()).expect("the test listens");
        let guard = self.told.0.lock().expect("no panics");
        drop(self.told.1.wait_while(guard, |told| !*told).expect("no panics"));
        Ok(0)
    }

    fn stopper(&self) -> Option<Stopper> {
        let told = self.told.clone();
        Some(Box::new(move || {
            *told.0.lock().expect("no panics") = true;
            told.1.notify_all();
        }))
    }
}

#[test]
fn a_transport_ends_in_order() {
    within(LONG, || {
        let order = Arc::new(Mutex::new(Vec::new()));
        struct Closing(Arc<Mutex<Vec<&'static str>>>);
        impl Sink for Closing {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                Ok(bytes.len())
            }
        }
        impl Drop for Closing {
            fn drop(&mut self) {
                self.0.lock().expect("no panics").push("sink");
            }
        }
        let (read, reads) = channel();
        let told = Arc::new((Mutex::new(false), std::sync::Condvar::new()));
        let source = Silent { told: told.clone(), read };
        let noted = order.clone();
        let transport = Transport::new(source, Closing(order.clone())).at_end(move || {
            assert!(!*told.0.lock().expect("no panics"), "it is still read");
            noted.lock().expect("no panics").push("end");
        });
        let server = echo(transport);
        reads.recv_timeout(LONG).expect("it is read");
        server.handle.close();
        assert_eq!(*order.lock().expect("no panics"), ["sink", "end"]);
    });
}

#[test]
fn a_connection_without_a_peer_counts_its_threads_out() {
    // Many in a row, so that what is left of one would pile up.
    within(LONG, || {
        let count = AtomicUsize::new(0);
        for _ in 0..100 {
            let (left, right) = Transport::pair(64);
            drop(right);
            let client = client(left);
            assert!(matches!(client.event(), Event::Closed(_)));
            count.fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!(count.into_inner(), 100);
    });
}
