//! Requests that are held back for those that follow them.

use std::{
    io,
    sync::{Arc, Mutex},
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use mcp_blocking::{ByteWriter, Client, DriverOptions, Server, StopHandle, Transport};
use mcp_driver::{Watched, memory};
use mcp_proto::schema::CallToolResult;
use mcp_service::{Host, Service, Tool, block_on};

/// A timeout that no operation of a passing test reaches.
const LONG: Duration = Duration::from_secs(60);

/// How many calls are made one after the other.
const CALLS: usize = 32;

/// The threads that have written, in order.
type Writes = Arc<Mutex<Vec<ThreadId>>>;

/// A call of the tool `count`.
type Call = mcp_service::Pending<CallToolResult>;

/// A writer that records its threads.
struct Recorded<W> {
    writer: W,
    writes: Writes,
}

impl<W: ByteWriter> ByteWriter for Recorded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writes.lock().expect("no panic").push(thread::current().id());
        self.writer.write(bytes)
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writes.lock().expect("no panic").push(thread::current().id());
        self.writer.try_write(bytes)
    }

    fn stop_handle(&self) -> Option<StopHandle> {
        self.writer.stop_handle()
    }
}

/// Calls `test` with a client, the writes of its threads, and the number of calls of the tool `count` so far.
fn with_client(test: impl FnOnce(&Client, &Writes, &Watched<usize>)) {
    let count = Arc::new(Watched::<usize>::default());
    let counted = count.clone();
    let tool = Tool::new("count", move || counted.update(|count| *count += 1));
    let service = Service::builder("x", "1").tool(tool).build().expect("one tool");
    let ((reader, to_us), (from_us, writer)) = (memory::pipe(1 << 16), memory::pipe(1 << 16));
    let server = Server::start(&service, Transport::new(from_us, to_us), &DriverOptions::default());
    let writes = Writes::default();
    let writer = Recorded { writer, writes: writes.clone() };
    let client = Client::connect(Transport::new(reader, writer), &Host::builder("x", "1").build()).expect("it serves");
    test(&client, &writes, &count);
    drop((client, server));
}

fn call(client: &Client) -> Call {
    client.call_tool("count", ()).expect("it is sent")
}

/// Repeats `attempt` until it returns true. A busy machine may stop this thread for so long that a worker takes over.
fn repeat_until(what: &str, mut attempt: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !attempt() {
        assert!(begun.elapsed() < LONG, "{what}");
    }
}

#[test]
fn requests_before_a_wait_leave_in_one_write() {
    with_client(|client, writes, _| {
        let waits: [fn(Call); 2] =
            [|call: Call| drop(call.wait().expect("a result")), |call: Call| drop(block_on(call).expect("a result"))];
        for wait in waits {
            repeat_until("all requests leave in one write of this thread", || {
                // While callers read, requests are held back.
                call(client).wait().expect("a result");
                writes.lock().expect("no panic").clear();
                let calls: Vec<_> = (0..CALLS).map(|_| call(client)).collect();
                calls.into_iter().for_each(wait);
                *writes.lock().expect("no panic") == [thread::current().id()]
            });
        }
    });
}

#[test]
fn requests_without_a_wait_are_sent_soon() {
    with_client(|client, writes, count| {
        repeat_until("a worker writes requests that were held back", || {
            call(client).wait().expect("a result");
            writes.lock().expect("no panic").clear();
            let before = count.read(|count| *count);
            let calls: Vec<_> = (0..CALLS).map(|_| call(client)).collect();
            assert!(count.wait_until(LONG, |count| *count == before + CALLS), "all of them are sent");
            drop(calls);
            let writers = writes.lock().expect("no panic");
            writers.first().is_some_and(|writer| *writer != thread::current().id())
        });
    });
}
