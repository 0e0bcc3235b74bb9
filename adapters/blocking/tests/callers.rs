//! Threads that wait for responses, and read them themselves.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use mcp_blocking::{ByteReader, Client, DriverOptions, Server, StopHandle, Transport, WaitingThread, http::Listener};
use mcp_driver::{Watched, memory};
use mcp_proto::wire::JsonObject;
use mcp_service::{CallError, Host, Service, Tool, block_on};
use serde_json::{Value, json};

/// A timeout that no operation of a passing test reaches.
const LONG: Duration = Duration::from_secs(60);

/// How many calls of the tool `hold` have begun, and whether they may end.
#[derive(Default)]
struct Gate {
    begun: Watched<usize>,
    open: Watched<bool>,
}

fn service(gate: &Arc<Gate>) -> Service {
    let schema = || JsonObject::parse(r#"{"type":"object"}"#).expect("an object");
    let (echo, gate) = (|arguments: Value| arguments["text"].to_string(), gate.clone());
    let hold = move |_: Value| {
        gate.begun.update(|begun| *begun += 1);
        assert!(gate.open.wait_until(LONG, |open| *open), "the test opens it");
        "held"
    };
    let service = Service::builder("x", "1").tool(Tool::with_schema("echo", schema(), echo)).tool(Tool::with_schema(
        "hold",
        schema(),
        hold,
    ));
    service.build().expect("two tools")
}

fn host() -> Host {
    Host::builder("x", "1").build()
}

/// Calls `test` with a client over each transport whose input a caller can read.
fn over_each_transport(test: impl Fn(&str, &Client, &Gate)) {
    let gate = Arc::new(Gate::default());
    let service = service(&gate);
    let start = |transport| Server::start(&service, transport, &DriverOptions::default()).expect("there are threads");
    let run = |name: &str, client: &Client| {
        test(name, client, &gate);
        gate.open.update(|open| *open = true);
        client.close();
        gate.open.update(|open| *open = false);
    };
    let (ours, theirs) = Transport::pair(1 << 16);
    let server = start(theirs);
    run("memory", &Client::connect(ours, &host()).expect("it serves"));
    drop(server);
    #[cfg(unix)]
    {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("two sockets");
        let server = start(Transport::unix(theirs).expect("descriptors"));
        run("socket", &Client::connect(Transport::unix(ours).expect("descriptors"), &host()).expect("it serves"));
        drop(server);
    }
    let listener = Listener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr());
    let stop = listener.stop_handle();
    thread::scope(|scope| {
        scope.spawn(|| listener.serve(&service).expect("it serves"));
        run("HTTP", &Client::connect_http(&url, &host()).expect("it serves"));
        stop();
    });
}

fn echo(client: &Client, text: &str) -> String {
    let call = client.call_tool("echo", json!({ "text": text })).expect("it is sent");
    call.wait().expect("a result").content[0].as_text().expect("a text").to_owned()
}

#[test]
fn responses_are_read_when_no_caller_waits() {
    over_each_transport(|name, client, _| {
        for number in 0..20 {
            assert_eq!(echo(client, "one"), "\"one\"", "{name}");
            // It awaits the response, and does no work of the driver.
            let call = client.call_tool("echo", json!({ "text": number })).expect("it is sent");
            let result = block_on(call).expect("a result");
            assert_eq!(result.content[0].as_text(), Some(number.to_string().as_str()), "{name}");
        }
    });
}

#[test]
fn cancelling_wakes_a_caller_that_reads() {
    over_each_transport(|name, client, gate| {
        let before = gate.begun.read(|begun| *begun);
        for number in 1..=20 {
            // The next caller reads.
            echo(client, "one");
            let call = client.call_tool("hold", json!({})).expect("it is sent");
            let canceller = call.canceller();
            thread::scope(|scope| {
                let waiting = scope.spawn(|| call.wait());
                assert!(gate.begun.wait_until(LONG, |begun| *begun == before + number), "{name}");
                canceller.cancel(None);
                let ended = waiting.join().expect("no panic");
                assert!(matches!(ended, Err(CallError::Cancelled)), "{name}: {ended:?}");
            });
        }
    });
}

#[test]
fn a_caller_whose_response_is_late_lets_others_read() {
    over_each_transport(|name, client, gate| {
        thread::scope(|scope| {
            let held = client.call_tool("hold", json!({})).expect("it is sent");
            let held = scope.spawn(|| held.wait().expect("a result").content[0].as_text() == Some("held"));
            let callers = [0, 1, 2].map(|caller| {
                scope.spawn(move || {
                    for number in 0..100 {
                        let text = format!("{caller}-{number}");
                        assert_eq!(echo(client, &text), format!("{text:?}"), "{name}");
                    }
                })
            });
            callers.into_iter().for_each(|caller| caller.join().expect("no panic"));
            gate.open.update(|open| *open = true);
            assert!(held.join().expect("no panic"), "{name}");
        });
    });
}

#[test]
fn closing_wakes_a_caller_that_reads() {
    over_each_transport(|name, client, gate| {
        let before = gate.begun.read(|begun| *begun);
        echo(client, "one");
        let call = client.call_tool("hold", json!({})).expect("it is sent");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| call.wait());
            assert!(gate.begun.wait_until(LONG, |begun| *begun == before + 1), "{name}");
            (**client).close();
            let ended = waiting.join().expect("no panic");
            assert!(matches!(ended, Err(CallError::Closed(_))), "{name}: {ended:?}");
        });
    });
}

/// A reader that counts the reads of workers and of callers.
struct Counted {
    reader: memory::PipeReader,
    workers: Arc<AtomicUsize>,
    callers: Arc<AtomicUsize>,
}

impl ByteReader for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = ByteReader::read(&mut self.reader, buffer)?;
        self.workers.fetch_add(1, Ordering::Relaxed);
        Ok(read)
    }

    fn read_until_notified(&mut self, buffer: &mut [u8], thread: &WaitingThread) -> io::Result<usize> {
        let read = ByteReader::read_until_notified(&mut self.reader, buffer, thread)?;
        self.callers.fetch_add(1, Ordering::Relaxed);
        Ok(read)
    }

    fn stop_handle(&self) -> Option<StopHandle> {
        ByteReader::stop_handle(&self.reader)
    }
}

#[test]
fn callers_in_a_row_read_their_responses() {
    let ((reader, to_us), (from_us, writer)) = (memory::pipe(1 << 16), memory::pipe(1 << 16));
    let server = Server::start(&service(&Arc::default()), Transport::new(from_us, to_us), &DriverOptions::default());
    let [workers, callers]: [Arc<AtomicUsize>; 2] = Default::default();
    let counted = Counted { reader, workers: workers.clone(), callers: callers.clone() };
    let client = Client::connect(Transport::new(counted, writer), &host()).expect("it serves");
    (0..100).for_each(|_| assert_eq!(echo(&client, "one"), "\"one\""));
    let [workers, callers] = [workers, callers].map(|reads| reads.load(Ordering::Relaxed));
    // A worker reads first, and whenever this thread was not run for a while.
    assert!(callers > workers, "{callers} reads of callers, {workers} of workers");
    drop((client, server));
}
