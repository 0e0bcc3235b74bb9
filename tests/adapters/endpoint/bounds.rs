//! What is refused for being too much, and what it costs to ask for it.

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
    narrow,
    raw::{Heard, Raw, connect, hear, hear_head, pour, say},
    service, there_is_room,
};

static CHUNK: [u8; 64 << 10] = [b' '; 64 << 10];

/// `Transfer-Encoding: chunked` and the head of a chunk that never ends.
const ENDLESS: &[u8] = b"ffffffff\r\n";

/// The client sends all of it before it listens, and is told: not by a reset, and nothing was kept of it.
pub(crate) fn oversized_bodies_are_told_so<S: Site>() {
    let mut settings = Settings::default();
    settings.limits.frame_bytes = 64 << 10;
    let service = Service::builder("endpoint", "1").settings(settings).build().expect("a service");
    let server = S::serve(&service, narrow());
    let told = Raw::initialize().set("content-length", "1073741824").body("");
    let told = told.add("content-length", "1073741824");
    let untold = Raw::initialize().set("transfer-encoding", "chunked").body(ENDLESS);
    let stream = Raw::new("GET /sse HTTP/1.1").set("transfer-encoding", "chunked").body(ENDLESS);
    let modern = Raw::pick().set("transfer-encoding", "chunked").body(ENDLESS);
    PEAK.reset_peak_usage();
    let before = PEAK.current_usage();
    for request in [told.clone(), untold, stream, modern] {
        let heard = pour(server.address, &request.bytes(), &CHUNK, 128);
        assert_eq!((heard.status, heard.answers()), (413, 1), "{}", heard.text);
    }
    let peak = PEAK.peak_usage() - before;
    assert!(peak < 1 << 20, "{peak} bytes for bodies of 8 MiB that were refused");
    // The first client is told before anything is sent.
    let heard = say(server.address, &told.add("expect", "100-continue").bytes());
    assert_eq!((heard.status, heard.answers()), (413, 1), "{}", heard.text);
    assert_eq!(say(server.address, &Raw::initialize().bytes()).status, 200, "none of them has begun a session");
}

/// A client that is refused before its body has come is told that the connection ends with that: the next request on it would be
/// taken for the rest of the body, or be lost. All others may go on.
pub(crate) fn what_is_not_read_ends_its_connection<S: Site>() {
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
        let heard = hear(&stream);
        assert!(heard.status == status && heard.has("connection: close"), "{}", heard.text);
    }
    let listen = Raw::new("GET /mcp HTTP/1.1").without("connection").set("mcp-session-id", &nobodys);
    let garbled = kept.body("{").add("content-length", "1");
    for (request, status) in [(listen, 404), (garbled, 400)] {
        let heard = hear_head(&begin(server.address, &request));
        assert!(heard.status == status && !heard.has("connection: close"), "{}", heard.text);
    }
}

/// Every connection can be in the middle of a body; all of these together are bounded.
pub(crate) fn bodies_that_do_not_end<S: Site>() {
    let mut options = narrow();
    options.limits.body_bytes = 256 << 10;
    let server = S::serve(&service(), options);
    let message = Raw::initialize().bytes();
    let body = &message[message.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4..];
    // One of them is less than a client may hold of it, both are more than there is.
    let (begun, rest) = (vec![b' '; 140 << 10], [vec![b' '; 40 << 10], body.to_vec()].concat());
    let length = (begun.len() + rest.len()).to_string();
    let head = Raw::initialize().body(begun).add("content-length", &length).bytes();
    let (sender, heard) = channel::<(usize, Heard)>();
    let streams: Vec<TcpStream> = (0..2).map(|_| connect(server.address)).collect();
    for (index, stream) in streams.iter().enumerate() {
        let (sender, stream, head) = (sender.clone(), stream.try_clone().expect("there are descriptors"), head.clone());
        thread::spawn(move || {
            (&stream).write_all(&head).expect("it is read");
            let _ = sender.send((index, hear(&stream)));
        });
    }
    let (refused, answer) = heard.recv_timeout(LONG).expect("one of them is refused");
    assert!(answer.status == 503 && answer.has("retry-after: 1"), "{}", answer.text);
    (&streams[1 - refused]).write_all(&rest).expect("it is read");
    let (_, answer) = heard.recv_timeout(LONG).expect("the other one is answered");
    assert_eq!(answer.status, 200, "{}", answer.text);
}

/// What handlers say.
struct Told(Receiver<&'static str>);

impl Told {
    #[track_caller]
    fn next(&self) -> &'static str {
        self.0.recv_timeout(LONG).expect("a handler says something")
    }

    /// Waits for it, whatever else is said.
    #[track_caller]
    fn until(&self, what: &str) {
        while self.next() != what {}
    }
}

/// Says that it is over.
struct Over(Sender<&'static str>);

impl Drop for Over {
    fn drop(&mut self) {
        let _ = self.0.send("over");
    }
}

/// Tools that wait, and that say more than anybody reads.
fn busy() -> (Service, Told) {
    let (sender, told) = channel();
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
                // What is sent without a reader counts as sent; and where streams are kept for who may come back, nothing waits.
                context.check()?;
                let mut turn = 0;
                poll_fn(|cx| {
                    turn += 1;
                    cx.waker().wake_by_ref();
                    if turn > 1 { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
                let mut said = pin!(context.progress(step.into(), None, Some(&text)));
                poll_fn(|cx| {
                    let said = said.as_mut().poll(cx);
                    if said.is_pending() {
                        let _ = over.0.send("stuck");
                    }
                    said
                })
                .await?;
            }
            Ok::<_, Failure>("all was said")
        }
    });
    let mut settings = Settings::default();
    (settings.limits.outbox_bytes, settings.limits.control_bytes) = (256 << 10, 64 << 10);
    settings.limits.drain = std::time::Duration::from_millis(50);
    let service = Service::builder("busy", "1").settings(settings).tool(wait).tool(flood).build();
    (service.expect("a service"), Told(told))
}

fn call(tool: &str) -> Raw {
    Raw::modern("tools/call", json!({"name": tool, "arguments": {}}))
}

fn begin(address: SocketAddr, request: &Raw) -> TcpStream {
    let mut stream = connect(address);
    stream.write_all(&request.bytes()).expect("it is read");
    stream
}

/// Each request that stands alone takes a room; there are only so many.
pub(crate) fn requests_in_flight<S: Site>() {
    let (service, told) = busy();
    let mut options = narrow();
    options.limits.requests = 2;
    let server = S::serve(&service, options);
    let first = begin(server.address, &call("wait"));
    let _second = begin(server.address, &call("wait"));
    assert_eq!([told.next(), told.next()], ["begun"; 2]);
    for refused in [call("wait"), Raw::modern("server/discover", json!({}))] {
        let heard = say(server.address, &refused.bytes());
        assert!(heard.status == 503 && heard.has("retry-after: 1"), "{}", heard.text);
        assert!(heard.has("\"error\""), "it is an error of JSON-RPC as well: {}", heard.text);
    }
    // Sessions are something else.
    assert_eq!(say(server.address, &Raw::initialize().bytes()).status, 200);
    drop(first);
    told.until("over");
    // What is left of it goes at once, though not before its handler.
    there_is_room(&server);
}

/// A client that sends another request before the first is answered waits, and takes no second room.
pub(crate) fn one_request_at_a_time_on_a_connection<S: Site>() {
    let (service, told) = busy();
    let mut options = narrow();
    options.limits.requests = 2;
    let server = S::serve(&service, options);
    let request = call("wait").without("connection").bytes();
    let mut stream = connect(server.address);
    stream.write_all(&request.repeat(3)).expect("it is read");
    assert_eq!(told.next(), "begun");
    assert_eq!(say(server.address, &Raw::modern("server/discover", json!({})).bytes()).status, 200, "there is room");
    assert!(told.0.try_recv().is_err(), "the others have not begun");
}

/// A client that never reads what it has asked for holds up no other, and costs what its limits say.
pub(crate) fn whoever_reads_nothing<S: Site>() {
    let (service, told) = busy();
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
    let head = hear_head(&begin(server.address, &Raw::initialize().without("connection")));
    let id = head.text.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).expect("a session").to_owned();
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "flood",
        "arguments": {}, "_meta": {"progressToken": 1}}});
    let legacy = Raw::post("/mcp", &message).set("mcp-session-id", &id);
    // The outbox, the queue of the stream, and what the connection is writing. A session has a replay as well, and stays
    // within the same.
    for (request, bound, hanging_up_cancels) in [(modern, 3 * 256, true), (legacy, 3 * 256, false)] {
        PEAK.reset_peak_usage();
        let before = PEAK.current_usage();
        let stream = begin(server.address, &request);
        told.until("stuck");
        let peak = PEAK.peak_usage() - before;
        // Buffers that grow are up to twice as large as what is in them; the rest is the connection itself.
        assert!(peak < 2 * (bound << 10) + (512 << 10), "{peak} bytes for a client that reads nothing");
        assert_eq!(say(server.address, &Raw::new("GET /nowhere HTTP/1.1").bytes()).status, 404, "others are served");
        drop(stream);
        if hanging_up_cancels {
            told.until("over");
        }
    }
}
