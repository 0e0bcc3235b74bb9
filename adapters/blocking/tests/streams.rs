//! Custom readers, writers and transports. Tests that all adapters share are in `tests/adapters`.

use std::{
    io::{self, ErrorKind, Read, Write},
    sync::{
        Arc, Condvar, Mutex,
        mpsc::{Sender, channel},
    },
    thread,
    time::Duration,
};

use mcp_blocking::{ByteReader, ByteWriter, Client, DriverOptions, Server, StopHandle, Transport, serve};
use mcp_proto::connection::CloseReason;
use mcp_service::{Host, Service, Tool};
use serde_json::json;

/// A timeout that no operation of a passing test reaches.
const LONG: Duration = Duration::from_secs(60);

fn service() -> Service {
    let schema = mcp_proto::wire::JsonObject::parse(r#"{"type":"object"}"#).expect("an object");
    let echo = Tool::with_schema("echo", schema, |said: serde_json::Value| said["text"].to_string());
    Service::builder("x", "1").tool(echo).build().expect("a good name")
}

/// A stream that transfers one byte at a time and is interrupted before each.
struct Reluctant<T>(T, bool);

impl<T: Read> Read for Reluctant<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 { Err(ErrorKind::Interrupted.into()) } else { self.0.read(&mut buffer[..1]) }
    }
}

impl<T: Write> Write for Reluctant<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 { Err(ErrorKind::Interrupted.into()) } else { self.0.write(&bytes[..1.min(bytes.len())]) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[test]
fn slow_interrupted_streams_lose_no_data() {
    let ((a, b), (c, d)) = (io::pipe().expect("a pipe"), io::pipe().expect("a pipe"));
    let (left, right) =
        (Transport::from_io(Reluctant(a, false), d), Transport::from_io(Reluctant(c, false), Reluctant(b, false)));
    let server = Server::start(&service(), right, &DriverOptions::default()).expect("there are threads");
    let client = Client::connect(left, &Host::builder("x", "1").build()).expect("it serves");
    for text in ["", "ü \u{1F600} \\n", &"x".repeat(100_000)] {
        let result = client.call_tool("echo", json!({ "text": text })).expect("it is sent").wait();
        assert_eq!(result.expect("it is answered").content[0].as_text(), Some(json!(text).to_string().as_str()));
    }
    assert_eq!(client.close().reason, CloseReason::Local);
    assert_eq!(server.wait(), CloseReason::Eof);
}

/// A reader that reports each read, and ends when it is stopped.
struct Silent {
    released: Arc<(Mutex<bool>, Condvar)>,
    read: Sender<()>,
}

impl ByteReader for Silent {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.read.send(()).expect("the test listens");
        let guard = self.released.0.lock().expect("no panics");
        drop(self.released.1.wait_while(guard, |released| !*released).expect("no panics"));
        Ok(0)
    }

    fn stop_handle(&self) -> Option<StopHandle> {
        let released = self.released.clone();
        Some(Box::new(move || {
            *released.0.lock().expect("no panics") = true;
            released.1.notify_all();
        }))
    }
}

/// A writer that records when it is dropped.
struct Closing(Arc<Mutex<Vec<&'static str>>>);

impl ByteWriter for Closing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.lock().expect("no panics").push("sink");
    }
}

#[test]
fn transport_closes_sink_before_on_close() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let (read, reads) = channel();
    let released = Arc::new((Mutex::new(false), Condvar::new()));
    let source = Silent { released: released.clone(), read };
    let noted = order.clone();
    let transport = Transport::new(source, Closing(order.clone())).on_close(move || {
        assert!(!*released.0.lock().expect("no panics"), "it is still read");
        noted.lock().expect("no panics").push("end");
    });
    let server = Server::start(&service(), transport, &DriverOptions::default()).expect("there are threads");
    reads.recv_timeout(LONG).expect("it is read");
    server.close();
    assert_eq!(*order.lock().expect("no panics"), ["sink", "end"]);
}

const INITIALIZE: &str = concat!(
    r#"{"id":0,"jsonrpc":"2.0","method":"initialize","params":{"capabilities":{},"#,
    r#""clientInfo":{"name":"x","version":"1"},"protocolVersion":"2025-06-18"}}"#,
    "\n"
);

/// A client whose request is there before the first read, and which then disconnects. It records the thread of each
/// operation.
struct Early(Sender<(&'static str, thread::ThreadId)>);

impl Early {
    fn note(&self, what: &'static str) {
        self.0.send((what, thread::current().id())).expect("the test listens");
    }
}

impl ByteReader for Early {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.note("read");
        Ok(0)
    }

    fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.note("asked");
        INITIALIZE.as_bytes().read(buffer)
    }
}

impl ByteWriter for Early {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        panic!("it need not wait");
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.note("answered");
        Ok(bytes.len())
    }
}

#[test]
fn early_request_is_served_on_calling_thread() {
    let (note, noted) = channel();
    serve(&service(), Transport::new(Early(note.clone()), Early(note))).expect("its client has left");
    let here = thread::current().id();
    let noted: Vec<_> = noted.iter().map(|(what, thread)| (what, thread == here)).collect();
    assert_eq!(noted, [("asked", true), ("answered", true), ("read", false)]);
}
