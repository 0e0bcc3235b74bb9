//! Threads that wait for responses, and read them themselves.

use std::{
    future::Future,
    io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use ::http::{Extensions, Request, response::Parts};
use mcp_blocking::{
    ByteReader, ByteWriter, Client, DriverOptions, Server, StopHandle, Transport, WaitingThread,
    http::{AuthProvider, Connector, Listener, Refusal},
};
use mcp_driver::{Watched, memory};
use mcp_proto::{
    connection::{RequestOptions, SendError},
    protocol::VersionSet,
    schema::{ElicitResult, ElicitSchema, Map},
    wire::{JsonObject, RawJson},
};
use mcp_service::{CallError, Context, Failure, Host, Service, Tool, block_on};
use serde_json::{Value, json};

/// A timeout that no operation of a passing test reaches.
const LONG: Duration = Duration::from_secs(60);

/// The size of a notification of the tool `flood`.
const PAD: usize = 1024;

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
    let ask = |_: Value, context: Context| {
        let answer = context.elicit("Well?", ElicitSchema::new(Map::new())).wait()?;
        Ok::<_, CallError>(format!("{:?}", answer.action))
    };
    let flood = |arguments: Value, context: Context| {
        let params = JsonObject::parse(json!({ "pad": "x".repeat(PAD) }).to_string()).expect("an object");
        for _ in 0..arguments["count"].as_u64().expect("a number") {
            while let Err(error) = context.peer().notify_raw("test/flood", Some(&RawJson::from(&params))) {
                assert!(matches!(error, SendError::Busy), "{error}");
                thread::yield_now();
            }
        }
        "done"
    };
    let service = Service::builder("x", "1")
        .tool(Tool::with_schema("echo", schema(), echo))
        .tool(Tool::with_schema("hold", schema(), hold))
        .tool(Tool::with_schema("ask", schema(), ask))
        .tool(Tool::with_schema("flood", schema(), flood));
    service.build().expect("four tools")
}

/// A host of a revision in which servers make requests.
fn host() -> Host {
    let host = Host::builder("x", "1").versions(VersionSet::LEGACY);
    host.elicitation(|_, _| Ok::<_, Failure>(ElicitResult::decline())).build()
}

/// Calls `test` with a client over each transport whose input a caller can read.
fn over_each_transport(test: impl Fn(&str, &Client, &Gate)) {
    let gate = Arc::new(Gate::default());
    let service = service(&gate);
    let start = |transport| Server::start(&service, transport, &DriverOptions::default()).expect("there are threads");
    let run = |name: &str, client: &Client| {
        let tested = catch_unwind(AssertUnwindSafe(|| test(name, client, &gate)));
        gate.open.update(|open| *open = true);
        client.close();
        gate.open.update(|open| *open = false);
        tested
    };
    let check = |tested: thread::Result<()>| tested.unwrap_or_else(|panic| resume_unwind(panic));
    let (ours, theirs) = Transport::pair(1 << 16);
    let server = start(theirs);
    check(run("memory", &Client::connect(ours, &host()).expect("it serves")));
    drop(server);
    #[cfg(unix)]
    {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("two sockets");
        let server = start(Transport::unix(theirs).expect("descriptors"));
        let ours = Transport::unix(ours).expect("descriptors");
        check(run("socket", &Client::connect(ours, &host()).expect("it serves")));
        drop(server);
    }
    let listener = Listener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr());
    let stop = listener.stop_handle();
    thread::scope(|scope| {
        scope.spawn(|| listener.serve(&service).expect("it serves"));
        let tested = run("HTTP", &Client::connect_http(&url, &host()).expect("it serves"));
        stop();
        check(tested);
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

#[test]
fn a_timeout_wakes_a_caller_that_reads() {
    over_each_transport(|name, client, _| {
        echo(client, "one");
        let begin = Instant::now();
        let hurried = client.with_options(RequestOptions::within(Duration::from_millis(20)));
        let ended = hurried.call_tool("hold", json!({})).expect("it is sent").wait();
        assert!(matches!(ended, Err(CallError::TimedOut { .. })), "{name}: {ended:?}");
        // The call has not ended because its handler has.
        assert!(begin.elapsed() < LONG / 2, "{name}");
        assert_eq!(echo(client, "two"), "\"two\"", "{name}");
    });
}

#[test]
fn requests_of_the_server_are_answered_while_a_caller_reads() {
    over_each_transport(|name, client, _| {
        for _ in 0..20 {
            echo(client, "one");
            let call = client.call_tool("ask", json!({})).expect("it is sent");
            assert_eq!(call.wait().expect("a result").content[0].as_text(), Some("Decline"), "{name}");
        }
    });
}

/// The numbers of reads, and of bytes.
#[derive(Default)]
struct Reads {
    workers: AtomicUsize,
    callers: AtomicUsize,
    caller_bytes: AtomicUsize,
}

/// A reader that counts the reads of workers and of callers.
struct Counted<R> {
    reader: R,
    reads: Arc<Reads>,
}

impl<R: ByteReader> ByteReader for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.reads.workers.fetch_add(1, Ordering::Relaxed);
        Ok(read)
    }

    fn read_until_notified(&mut self, buffer: &mut [u8], thread: &WaitingThread) -> io::Result<usize> {
        let read = self.reader.read_until_notified(buffer, thread)?;
        self.reads.callers.fetch_add(1, Ordering::Relaxed);
        self.reads.caller_bytes.fetch_add(read, Ordering::Relaxed);
        Ok(read)
    }

    fn stop_handle(&self) -> Option<StopHandle> {
        self.reader.stop_handle()
    }
}

/// Makes calls in a row, whose responses callers read.
fn calls_in_a_row(reader: impl ByteReader, writer: impl ByteWriter, theirs: Transport) {
    let server = Server::start(&service(&Arc::default()), theirs, &DriverOptions::default());
    let reads = Arc::<Reads>::default();
    let counted = Counted { reader, reads: reads.clone() };
    let client = Client::connect(Transport::new(counted, writer), &host()).expect("it serves");
    (0..100).for_each(|_| assert_eq!(echo(&client, "one"), "\"one\""));
    let [workers, callers] = [&reads.workers, &reads.callers].map(|reads| reads.load(Ordering::Relaxed));
    // A worker reads first, and whenever this thread was not run for a while: on a busy machine most of the time.
    assert!(callers > 0, "{callers} reads of callers, {workers} of workers");
    drop((client, server));
}

#[test]
fn callers_in_a_row_read_their_responses() {
    let ((reader, to_us), (from_us, writer)) = (memory::pipe(1 << 16), memory::pipe(1 << 16));
    calls_in_a_row(reader, writer, Transport::new(from_us, to_us));
}

#[cfg(unix)]
#[test]
fn callers_in_a_row_read_their_responses_from_descriptors() {
    use mcp_driver::{FdReader, FdWriter};
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("two sockets");
    let writer = FdWriter::new(ours.try_clone().expect("a descriptor").into(), true);
    calls_in_a_row(FdReader::new(ours.into()), writer, Transport::unix(theirs).expect("descriptors"));
    let ((reader, to_us), (from_us, writer)) = (io::pipe().expect("a pipe"), io::pipe().expect("a pipe"));
    let theirs = Transport::new(FdReader::new(from_us.into()), FdWriter::new(to_us.into(), false));
    calls_in_a_row(FdReader::new(reader.into()), FdWriter::new(writer.into(), false), theirs);
}

#[test]
fn callers_do_not_read_while_many_jobs_wait() {
    const COUNT: usize = 1000;
    let ((reader, to_us), (from_us, writer)) = (memory::pipe(1 << 16), memory::pipe(1 << 16));
    let server = Server::start(&service(&Arc::default()), Transport::new(from_us, to_us), &DriverOptions::default());
    let (reads, gate) = (Arc::<Reads>::default(), Arc::<Gate>::default());
    let counted = Counted { reader, reads: reads.clone() };
    let handler = gate.clone();
    let host =
        Host::builder("x", "1").versions(VersionSet::LEGACY).on_notification("test/flood", move |_: Value, _| {
            assert!(handler.open.wait_until(LONG, |open| *open), "the test opens it");
            handler.begun.update(|begun| *begun += 1);
        });
    let client = Client::connect(Transport::new(counted, writer), &host.build()).expect("it serves");
    echo(&client, "one");
    // The first job runs until the response is there, so that the others wait.
    let call = client.call_tool("flood", json!({ "count": COUNT })).expect("it is sent");
    call.wait().expect("a result");
    let bytes = reads.caller_bytes.load(Ordering::Relaxed);
    assert!(bytes < COUNT * PAD / 2, "{bytes}");
    let before = reads.callers.load(Ordering::Relaxed);
    (0..20).for_each(|_| assert_eq!(echo(&client, "two"), "\"two\""));
    assert_eq!(reads.callers.load(Ordering::Relaxed), before, "workers read");
    gate.open.update(|open| *open = true);
    assert!(gate.begun.wait_until(LONG, |begun| *begun == COUNT), "none was dropped: {:?}", gate.begun);
    drop((client, server));
}

/// Credentials that block for some requests, and record the threads that handle responses.
#[derive(Default)]
struct Credentials {
    gate: Arc<Gate>,
    threads: Arc<Mutex<Vec<ThreadId>>>,
}

impl AuthProvider for Credentials {
    fn authorize<'a>(
        &'a self,
        request: &'a mut Request<Arc<[u8]>>,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>> {
        if request.body().windows(8).any(|text| text == b"\"locked\"") {
            self.gate.begun.update(|begun| *begun += 1);
            assert!(self.gate.open.wait_until(LONG, |open| *open), "the test opens it");
        }
        Box::pin(async { Ok(()) })
    }

    fn handle_response(&self, _: &Parts, _: &Extensions) {
        self.threads.lock().expect("no panic").push(thread::current().id());
    }

    fn challenged<'a>(&'a self, _: &'a mut Refusal) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async { false })
    }
}

/// Calls `test` with a client over HTTP.
fn over_http(credentials: Credentials, test: impl FnOnce(&Client)) {
    let service = service(&Arc::default());
    let listener = Listener::bind("127.0.0.1:0").expect("a port");
    let connector = Connector::new(&format!("http://{}/mcp", listener.local_addr())).expect("an address");
    let stop = listener.stop_handle();
    thread::scope(|scope| {
        scope.spawn(|| listener.serve(&service).expect("it serves"));
        let client = connector.auth(credentials).connect(&host()).expect("it serves");
        let tested = catch_unwind(AssertUnwindSafe(|| test(&client)));
        client.close();
        stop();
        tested.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

#[test]
fn callers_in_a_row_read_their_responses_over_http() {
    let credentials = Credentials::default();
    let threads = credentials.threads.clone();
    over_http(credentials, |client| {
        threads.lock().expect("no panic").clear();
        (0..100).for_each(|_| assert_eq!(echo(client, "one"), "\"one\""));
        let own = thread::current().id();
        let own = threads.lock().expect("no panic").iter().filter(|thread| **thread == own).count();
        assert!(own > 0, "none of 100");
    });
}

#[test]
fn credentials_that_block_stop_no_other_request() {
    let credentials = Credentials::default();
    let gate = credentials.gate.clone();
    over_http(credentials, |client| {
        for number in 1..=20 {
            // No thread leads, so the next request is begun on this one.
            echo(client, "one");
            let blocked = client.call_tool("echo", json!({ "text": "locked" })).expect("it is sent");
            assert!(gate.begun.wait_until(LONG, |begun| *begun == number));
            assert_eq!(echo(client, "two"), "\"two\"");
            gate.open.update(|open| *open = true);
            assert_eq!(blocked.wait().expect("a result").content[0].as_text(), Some("\"locked\""));
            gate.open.update(|open| *open = false);
        }
    });
}
