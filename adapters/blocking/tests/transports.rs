//! The same conversation over every transport.

mod support;

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::net::UnixStream,
    sync::mpsc::{Receiver, Sender, channel},
};

use mcp_blocking::{MessageSink, MessageSource, Transport};
use mcp_proto::connection::{CloseReason, Event};
use support::{LONG, joined, within};

/// Answers small and large, one by one and many at once; then an end that both sides know of.
fn converse(pair: (Transport, Transport)) {
    within(3 * LONG, move || {
        let (client, server) = joined(pair, |asked| asked.echo());
        for text in ["", "ü \u{1F600} \\n", &"x".repeat(300_000)] {
            let params = serde_json::json!({ "text": text }).to_string();
            // The progress token is part of what is echoed.
            let result = client.ask("test/echo", &params).wait().expect("it is answered");
            assert_eq!(
                result.member("text").map(|text| text.get().to_owned()),
                Some(serde_json::json!(text).to_string())
            );
        }
        let pending: Vec<_> =
            (0..500).map(|number| client.ask("test/echo", &format!("{{\"number\":{number}}}"))).collect();
        for (number, pending) in pending.into_iter().enumerate() {
            let result = pending.wait().expect("it is answered");
            assert_eq!(result.member("number").map(|number| number.get().to_owned()), Some(number.to_string()));
        }
        assert_eq!(client.handle.close(), Some(CloseReason::Local));
        assert_eq!(server.handle.wait(), Some(CloseReason::Eof));
        assert_eq!(client.rest(), [Event::Closed(CloseReason::Local)]);
        assert_eq!(server.rest(), [Event::Closed(CloseReason::Eof)]);
    });
}

// req: TRANS-001 TRANS-002
#[test]
fn memory() {
    converse(Transport::pair(64 * 1024));
}

#[test]
fn memory_one_byte_at_a_time() {
    within(LONG, || {
        let (client, server) = joined(Transport::pair(1), |asked| asked.echo());
        for number in 0..20 {
            let pending: Vec<_> =
                (0..10).map(|_| client.ask("test/echo", &format!("{{\"number\":{number}}}"))).collect();
            assert!(pending.into_iter().all(|pending| pending.wait().is_ok()));
        }
        assert_eq!(client.handle.close(), Some(CloseReason::Local));
        assert_eq!(server.handle.wait(), Some(CloseReason::Eof));
    });
}

#[test]
fn tcp() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it has an address");
    let left = TcpStream::connect(address).expect("it listens");
    let (right, _) = listener.accept().expect("somebody connects");
    converse((Transport::tcp(left).expect("a socket"), Transport::tcp(right).expect("a socket")));
}

#[test]
fn unix() {
    let (left, right) = UnixStream::pair().expect("there are sockets");
    converse((Transport::unix(left).expect("a socket"), Transport::unix(right).expect("a socket")));
}

#[test]
fn any_reader_and_writer() {
    let ((a, b), (c, d)) = (io::pipe().expect("a pipe"), io::pipe().expect("a pipe"));
    converse((Transport::over(a, d), Transport::over(c, b)));
}

/// A stream that hands over one byte at a time and is interrupted all the time.
struct Reluctant<T>(T, bool);

impl<T: Read> Read for Reluctant<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 { Err(io::ErrorKind::Interrupted.into()) } else { self.0.read(&mut buffer[..1]) }
    }
}

impl<T: Write> Write for Reluctant<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 { Err(io::ErrorKind::Interrupted.into()) } else { self.0.write(&bytes[..1.min(bytes.len())]) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[test]
fn streams_that_are_slow_and_interrupted() {
    let ((a, b), (c, d)) = (io::pipe().expect("a pipe"), io::pipe().expect("a pipe"));
    converse((Transport::over(Reluctant(a, false), d), Transport::over(c, Reluctant(b, false))));
}

/// Messages that travel whole, with line breaks in them as some peers write them.
struct Post(Receiver<Vec<u8>>);

impl MessageSource for Post {
    fn receive(&mut self, message: &mut Vec<u8>) -> io::Result<bool> {
        assert!(message.is_empty());
        let Ok(received) = self.0.recv() else { return Ok(false) };
        message.extend_from_slice(&received);
        Ok(true)
    }
}

struct Letters(Sender<Vec<u8>>);

impl MessageSink for Letters {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let json: serde_json::Value = serde_json::from_slice(message).expect("a message is JSON");
        let pretty = serde_json::to_vec_pretty(&json).expect("JSON");
        self.0.send(pretty).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

#[test]
fn whole_messages() {
    let ((to_right, from_left), (to_left, from_right)) = (channel(), channel());
    let (left, right) = (
        Transport::messages(Post(from_right), Letters(to_right)),
        Transport::messages(Post(from_left), Letters(to_left)),
    );
    converse((left, right));
}
