//! The times of a connection that is served in memory, whose timer fires when a test says so.

use std::{
    future::Future,
    io,
    net::{IpAddr, Ipv4Addr},
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use hyper::rt::{Read, ReadBufCursor, Write};
use mcp_proto::http::{Policy, server::EndpointOptions};
use mcp_service::Service;

use super::{Endpoint, Shutdown, lingering_close::DRAIN_TIMEOUT, serve};
use crate::{
    options::DriverOptions,
    runtime::{Runtime, Timer},
    sync::lock,
};

const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// How much later than the clock a deadline may be set.
const TOLERANCE: Duration = Duration::from_secs(20);

/// A runtime whose tasks are not run, and the client of its only connection.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    timers: usize,
    /// The last deadline of the timer of the connection.
    deadline: Option<Instant>,
    /// Whether it fires.
    fires: bool,
    tasks: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Whether the client reads nothing.
    is_blocked: bool,
    /// What the client sends when it has received something.
    next: Vec<u8>,
    /// Whether it sends that each time.
    repeats: bool,
    reads_after_writes: bool,
    is_shut: bool,
}

impl Runtime for Memory {
    type Task = ();
    type Timer = TestTimer;

    fn current() -> io::Result<Self> {
        Ok(Self::default())
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        lock(&self.0).tasks.push(Box::pin(future));
    }

    fn detach((): ()) {}

    fn spawn_blocking(&self, f: impl FnOnce() + Send + 'static) {
        f();
    }

    fn reads_after_writes(&self) -> bool {
        lock(&self.0).reads_after_writes
    }

    fn timer(&self) -> TestTimer {
        let mut state = lock(&self.0);
        state.timers += 1;
        TestTimer((state.timers == 1).then(|| self.clone()))
    }
}

/// The timer of the connection, or one of a session, which never fires.
struct TestTimer(Option<Memory>);

impl Timer for TestTimer {
    fn poll_until(&mut self, at: Instant, _: &mut Context<'_>) -> Poll<()> {
        let Some(memory) = &self.0 else { return Poll::Pending };
        let mut state = lock(&memory.0);
        state.deadline = Some(at);
        if state.fires { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Read for Memory {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let mut state = lock(&self.0);
        if state.input.is_empty() {
            return Poll::Pending;
        }
        let len = buffer.remaining().min(state.input.len());
        buffer.put_slice(&state.input[..len]);
        state.input.drain(..len);
        Poll::Ready(Ok(()))
    }
}

impl Write for Memory {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = lock(&self.0);
        if state.is_blocked {
            return Poll::Pending;
        }
        state.output.extend_from_slice(bytes);
        let next = if state.repeats { state.next.clone() } else { std::mem::take(&mut state.next) };
        state.input.extend_from_slice(&next);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0).is_shut = true;
        Poll::Ready(Ok(()))
    }
}

/// What is left of a deadline, which the last poll of the connection has set.
fn left(memory: &Memory) -> Option<Duration> {
    let deadline = lock(&memory.0).deadline.take();
    deadline.map(|at| at.saturating_duration_since(Instant::now()))
}

/// Runs `test` with a client, and with a function that sends bytes, polls the connection, and returns whether it has
/// ended and what it has written.
fn with_connection(test: impl FnOnce(&Memory, &mut dyn FnMut(&str) -> (bool, String))) {
    let memory = Memory::default();
    let options = EndpointOptions::new(Policy::loopback());
    let service = Service::builder("server", "1.0.0").build().expect("a service");
    let endpoint = Endpoint::on(&service, options, &DriverOptions::default(), memory.clone());
    let endpoint = endpoint.read_timeout(READ_TIMEOUT);
    let arrivals = Shutdown::default().connection();
    let mut connection = pin!(serve(memory.clone(), Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), &endpoint, &arrivals));
    test(&memory, &mut |bytes| {
        lock(&memory.0).input.extend_from_slice(bytes.as_bytes());
        let is_over = connection.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        let mut tasks = std::mem::take(&mut lock(&memory.0).tasks);
        tasks.retain_mut(|task| task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        lock(&memory.0).tasks.append(&mut tasks);
        (is_over, String::from_utf8(std::mem::take(&mut lock(&memory.0).output)).expect("text"))
    });
}

fn request(method: &str, params: &str, headers: &str) -> String {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}{meta}}}}}"#);
    format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n\
         Content-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}

#[test]
fn a_head_has_a_limited_time() {
    for (begin, more) in [("", "PO"), ("POST /mcp HT", "TP/1.1\r\nHo")] {
        with_connection(|memory, poll| {
            assert_eq!(poll(begin), (false, String::new()));
            let first = lock(&memory.0).deadline.expect("a deadline");
            assert_eq!(poll(more), (false, String::new()));
            assert_eq!(lock(&memory.0).deadline, Some(first), "bytes do not extend it");
            assert!(left(memory).is_some_and(|left| left > READ_TIMEOUT - TOLERANCE && left <= READ_TIMEOUT));
            lock(&memory.0).fires = true;
            assert_eq!(poll(""), (true, String::new()));
        });
    }
}

#[test]
fn each_head_has_a_time_of_its_own() {
    with_connection(|memory, poll| {
        poll("");
        let first = lock(&memory.0).deadline.take().expect("a deadline");
        let (is_over, response) = poll(&request("server/discover", "", ""));
        assert!(!is_over && response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        let second = lock(&memory.0).deadline.take().expect("a deadline");
        assert!(second > first);
        let (is_over, response) = poll("DELETE /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        assert!(!is_over && response.starts_with("HTTP/1.1 4"), "{response}");
        assert!(lock(&memory.0).deadline.take().expect("a deadline") > second);
        lock(&memory.0).fires = true;
        assert!(poll("").0);
    });
}

#[test]
fn a_body_has_a_limited_time() {
    with_connection(|memory, poll| {
        let whole = request("server/discover", "", "");
        assert_eq!(poll(&whole[..whole.len() - 1]), (false, String::new()));
        assert!(left(memory).is_some_and(|left| left > READ_TIMEOUT - TOLERANCE && left <= READ_TIMEOUT));
        lock(&memory.0).fires = true;
        let (is_over, response) = poll("");
        assert!(is_over && response.starts_with("HTTP/1.1 408 "), "{response}");
    });
}

#[test]
fn a_stream_has_no_limited_time() {
    with_connection(|memory, poll| {
        let listen = request("subscriptions/listen", r#""notifications":{},"#, "");
        let (is_over, response) = poll(&listen);
        assert!(!is_over && response.contains("text/event-stream"), "{response}");
        lock(&memory.0).deadline = None;
        lock(&memory.0).fires = true;
        assert!(!poll("").0, "the response goes on");
        assert_eq!(lock(&memory.0).deadline, None, "no head is awaited");
    });
}

/// hyper has the whole response long before its client.
#[test]
fn a_response_that_is_being_written_has_no_limited_time() {
    with_connection(|memory, poll| {
        lock(&memory.0).is_blocked = true;
        assert_eq!(poll(&request("server/discover", "", "")), (false, String::new()));
        (lock(&memory.0).deadline, lock(&memory.0).fires) = (None, true);
        assert!(!poll("").0, "the client reads slowly");
        assert_eq!(lock(&memory.0).deadline, None, "no head is awaited");
        (lock(&memory.0).is_blocked, lock(&memory.0).fires) = (false, false);
        assert!(poll("").1.starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(left(memory).is_some(), "now the next head is awaited");
    });
}

#[test]
fn a_runtime_can_read_after_each_response() {
    for (reads, responses) in [(false, 1), (true, 2)] {
        with_connection(|memory, poll| {
            let next = request("server/discover", "", "");
            (lock(&memory.0).reads_after_writes, lock(&memory.0).next) = (reads, next.clone().into_bytes());
            let (_, output) = poll(&next);
            assert_eq!(output.matches("HTTP/1.1 200 OK").count(), responses);
        });
    }
}

#[test]
fn an_endless_client_does_not_hold_its_task() {
    with_connection(|memory, poll| {
        let next = request("server/discover", "", "");
        {
            let mut state = lock(&memory.0);
            (state.reads_after_writes, state.repeats, state.next) = (true, true, next.clone().into_bytes());
        }
        let (is_over, output) = poll(&next);
        let responses = output.matches("HTTP/1.1 200 OK").count();
        assert!(!is_over && (2..100).contains(&responses), "{responses}");
    });
}

#[test]
fn a_connection_that_closes_awaits_no_head() {
    with_connection(|memory, poll| {
        let (is_over, response) = poll(&request("server/discover", "", "Connection: close\r\n"));
        assert!(!is_over && response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(lock(&memory.0).is_shut);
        assert!(left(memory).is_some_and(|left| left <= DRAIN_TIMEOUT), "input is discarded for a shorter time");
        lock(&memory.0).fires = true;
        assert!(poll("").0);
    });
}
