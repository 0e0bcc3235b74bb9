//! Requests that exceed limits, and the cost of refusing them.

use std::{
    future::{Future, poll_fn},
    io::Write,
    net::{SocketAddr, TcpStream},
    pin::pin,
    sync::{
        Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    task::Poll,
    thread,
};

use mcp_proto::connection::Settings;
use mcp_service::{Context, Failure, Service, Tool};
use serde_json::json;

use crate::{
    LONG, PEAK,
    adapter::Site,
    has_capacity, narrow,
    raw::{Raw, Received, connect, read_head, read_response, round_trip, write_until_closed},
    service,
};

static CHUNK: [u8; 64 << 10] = [b' '; 64 << 10];

/// `Transfer-Encoding: chunked` and the head of a chunk that never ends.
const ENDLESS: &[u8] = b"ffffffff\r\n";

/// The client sends the whole body before it reads. It gets a response and no reset, and no memory is kept.
pub(crate) fn refuses_oversized_bodies_with_413<S: Site>() {
    let mut settings = Settings::default();
    settings.limits.frame_bytes = 64 << 10;
    let service = Service::builder("endpoint", "1").settings(settings).build().expect("a service");
    let server = S::serve(&service, narrow());
    let with_length = Raw::initialize().set("content-length", "1073741824").body("");
    let with_length = with_length.add("content-length", "1073741824");
    let chunked = Raw::initialize().set("transfer-encoding", "chunked").body(ENDLESS);
    let stream = Raw::new("GET /sse HTTP/1.1").set("transfer-encoding", "chunked").body(ENDLESS);
    let modern = Raw::pick().set("transfer-encoding", "chunked").body(ENDLESS);
    PEAK.reset_peak_usage();
    let before = PEAK.current_usage();
    for request in [with_length.clone(), chunked, stream, modern] {
        let received = write_until_closed(server.address, &request.bytes(), &CHUNK, 128);
        assert_eq!((received.status, received.answers()), (413, 1), "{}", received.text);
    }
    let peak = PEAK.peak_usage() - before;
    assert!(peak < 1 << 20, "{peak} bytes for bodies of 8 MiB that were refused");
    // With `Expect`, the response comes before the client sends the body.
    let received = round_trip(server.address, &with_length.add("expect", "100-continue").bytes());
    assert_eq!((received.status, received.answers()), (413, 1), "{}", received.text);
    assert_eq!(round_trip(server.address, &Raw::initialize().bytes()).status, 200, "none of them has begun a session");
}

/// If a request is refused before its body has arrived, the response closes the connection: the next request would be
/// taken for the rest of the body, or be lost. Other connections are kept alive.
pub(crate) fn closes_connections_with_unread_bodies<S: Site>() {
    let server = S::serve(&service(), narrow());
    let (kept, nobodys) = (Raw::initialize().without("connection"), "A".repeat(32));
    let refused = [
        (kept.clone().line("POST /sse HTTP/1.1"), 405),
        (kept.clone().set("mcp-session-id", &nobodys), 404),
        (kept.clone().set("host", "evil.example"), 403),
    ];
    for (request, status) in refused {
        let bytes = request.bytes();
        let head = bytes.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4;
        let mut stream = connect(server.address);
        stream.write_all(&bytes[..head]).expect("it is read");
        let received = read_response(&stream);
        assert!(received.status == status && received.has("connection: close"), "{}", received.text);
    }
    let listen = Raw::new("GET /mcp HTTP/1.1").without("connection").set("mcp-session-id", &nobodys);
    let garbled = kept.body("{").add("content-length", "1");
    for (request, status) in [(listen, 404), (garbled, 400)] {
        let received = read_head(&begin(server.address, &request));
        assert!(received.status == status && !received.has("connection: close"), "{}", received.text);
    }
}

/// Every connection can be in the middle of a body. The total of all bodies is limited.
pub(crate) fn bodies_that_do_not_end<S: Site>() {
    let mut options = narrow();
    options.limits.body_bytes = 256 << 10;
    let server = S::serve(&service(), options);
    let message = Raw::initialize().bytes();
    let body = &message[message.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4..];
    // One of them is within the share of a client, both exceed the limit.
    let (begun, rest) = (vec![b' '; 140 << 10], [vec![b' '; 40 << 10], body.to_vec()].concat());
    let length = (begun.len() + rest.len()).to_string();
    let head = Raw::initialize().body(begun).add("content-length", &length).bytes();
    let (sender, received) = channel::<(usize, Received)>();
    let streams: Vec<TcpStream> = (0..2).map(|_| connect(server.address)).collect();
    for (index, stream) in streams.iter().enumerate() {
        let (sender, stream, head) = (sender.clone(), stream.try_clone().expect("there are descriptors"), head.clone());
        thread::spawn(move || {
            (&stream).write_all(&head).expect("it is read");
            let _ = sender.send((index, read_response(&stream)));
        });
    }
    let (refused, answer) = received.recv_timeout(LONG).expect("one of them is refused");
    assert!(answer.status == 503 && answer.has("retry-after: 1"), "{}", answer.text);
    (&streams[1 - refused]).write_all(&rest).expect("it is read");
    let (_, answer) = received.recv_timeout(LONG).expect("the other one is answered");
    assert_eq!(answer.status, 200, "{}", answer.text);
}

/// The messages of the handlers.
struct Messages(Receiver<&'static str>);

impl Messages {
    #[track_caller]
    fn next(&self) -> &'static str {
        self.0.recv_timeout(LONG).expect("a handler says something")
    }

    /// Waits for a message, and skips others.
    #[track_caller]
    fn until(&self, what: &str) {
        while self.next() != what {}
    }
}

/// Sends a message when it is dropped.
struct Over(Sender<&'static str>);

impl Drop for Over {
    fn drop(&mut self) {
        let _ = self.0.send("over");
    }
}

/// A service with tools that wait, and tools that send more than the client reads.
fn busy() -> (Service, Messages) {
    let (sender, messages) = channel();
    let senders = [Mutex::new(sender.clone()), Mutex::new(sender)];
    let [waiting, flooding] = senders;
    let sender = move |of: &Mutex<Sender<_>>| of.lock().expect("no panic").clone();
    let wait = Tool::new_async("wait", move |context: Context| {
        let over = Over(sender(&waiting));
        async move {
            let _ = over.0.send("begun");
            context.cancelled().await;
            "cancelled"
        }
    });
    let flood = Tool::new_async("flood", move |context: Context| {
        let over = Over(sender(&flooding));
        async move {
            let text = "x".repeat(1000);
            for step in 1_u32.. {
                // A message without a reader counts as sent. If streams are kept for a client that may resume, no send
                // waits.
                context.check()?;
                let mut turn = 0;
                poll_fn(|cx| {
                    turn += 1;
                    cx.waker().wake_by_ref();
                    if turn > 1 { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
                let mut sent = pin!(context.progress(step.into(), None, Some(&text)));
                poll_fn(|cx| {
                    let sent = sent.as_mut().poll(cx);
                    if sent.is_pending() {
                        let _ = over.0.send("stuck");
                    }
                    sent
                })
                .await?;
            }
            Ok::<_, Failure>("all was sent")
        }
    });
    let mut settings = Settings::default();
    (settings.limits.outbox_bytes, settings.limits.control_bytes) = (256 << 10, 64 << 10);
    settings.limits.drain = std::time::Duration::from_millis(50);
    let service = Service::builder("busy", "1").settings(settings).tool(wait).tool(flood).build();
    (service.expect("a service"), Messages(messages))
}

fn call(tool: &str) -> Raw {
    Raw::modern("tools/call", json!({"name": tool, "arguments": {}}))
}

fn begin(address: SocketAddr, request: &Raw) -> TcpStream {
    let mut stream = connect(address);
    stream.write_all(&request.bytes()).expect("it is read");
    stream
}

/// Each stateless request takes a slot, and their number is limited.
pub(crate) fn requests_in_flight<S: Site>() {
    let (service, messages) = busy();
    let mut options = narrow();
    options.limits.requests = 2;
    let server = S::serve(&service, options);
    let first = begin(server.address, &call("wait"));
    let _second = begin(server.address, &call("wait"));
    assert_eq!([messages.next(), messages.next()], ["begun"; 2]);
    for refused in [call("wait"), Raw::modern("server/discover", json!({}))] {
        let received = round_trip(server.address, &refused.bytes());
        assert!(received.status == 503 && received.has("retry-after: 1"), "{}", received.text);
        assert!(received.has("\"error\""), "it is an error of JSON-RPC as well: {}", received.text);
    }
    // Sessions have a limit of their own.
    assert_eq!(round_trip(server.address, &Raw::initialize().bytes()).status, 200);
    drop(first);
    messages.until("over");
    // Its slot is released soon, but not before its handler.
    has_capacity(&server);
}

/// Pipelined requests on a connection wait for the first response, and take no second slot.
pub(crate) fn handles_one_request_at_a_time_per_connection<S: Site>() {
    let (service, messages) = busy();
    let mut options = narrow();
    options.limits.requests = 2;
    let server = S::serve(&service, options);
    let request = call("wait").without("connection").bytes();
    let mut stream = connect(server.address);
    stream.write_all(&request.repeat(3)).expect("it is read");
    assert_eq!(messages.next(), "begun");
    assert_eq!(
        round_trip(server.address, &Raw::modern("server/discover", json!({})).bytes()).status,
        200,
        "there is room"
    );
    assert!(messages.0.try_recv().is_err(), "the others have not begun");
}

/// A client that never reads its responses does not affect others, and costs no more than its limits.
pub(crate) fn stalled_readers<S: Site>() {
    let (service, messages) = busy();
    let mut options = narrow();
    (options.limits.queued_bytes, options.limits.replay_bytes) = (256 << 10, 256 << 10);
    let server = S::serve(&service, options);
    let token = json!({"progressToken": 1, "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": "flood", "arguments": {}, "_meta": token});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let modern = Raw::post("/mcp", &message)
        .set("mcp-protocol-version", "2026-07-28")
        .set("mcp-method", "tools/call")
        .set("mcp-name", "flood");
    let head = read_head(&begin(server.address, &Raw::initialize().without("connection")));
    let id = head.text.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).expect("a session").to_owned();
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "flood",
        "arguments": {}, "_meta": {"progressToken": 1}}});
    let legacy = Raw::post("/mcp", &message).set("mcp-session-id", &id);
    for (request, hanging_up_cancels) in [(modern, true), (legacy, false)] {
        PEAK.reset_peak_usage();
        let before = PEAK.current_usage();
        let stream = begin(server.address, &request);
        messages.until("stuck");
        let peak = PEAK.peak_usage() - before;
        // The outbox, and the queue of the stream or the replay buffer, four times as in `memory_limit`: a buffer may
        // hold as many consumed bytes as unread ones, and is up to twice as large as its content. The rest is the
        // connection itself, and the old buffer while a larger one takes its place.
        assert!(peak < 8 * (256 << 10) + (512 << 10), "{peak} bytes for a client that reads nothing");
        assert_eq!(
            round_trip(server.address, &Raw::new("GET /nowhere HTTP/1.1").bytes()).status,
            404,
            "others are served"
        );
        drop(stream);
        if hanging_up_cancels {
            messages.until("over");
        }
    }
}
