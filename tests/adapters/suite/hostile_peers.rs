//! Peers of a listener that are no clients, or hostile ones: they use another protocol, send nothing, read nothing, or
//! connect many times. None of them affects other clients.

use std::{
    env, fs,
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    process,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use mcp_proto::connection::Settings;
use mcp_service::{Host, Service, Tool};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use serde_json::json;

use crate::{
    LONG,
    adapter::{Adapter, Client, Listener},
    scenario::scenarios,
};

scenarios![
    http_requests_from_browsers_are_rejected_on_tcp,
    silent_connections_are_closed,
    blank_lines_do_not_extend_the_first_read_timeout,
    incomplete_messages_time_out,
    paused_reading_does_not_time_out_a_message,
    one_address_cannot_use_every_connection,
    one_address_cannot_use_every_handler_thread,
    closes_connections_that_stop_reading,
    accepted_sockets_use_tcp_keepalive,
];

/// A short timeout, for tests that wait for it.
const BRIEF: Duration = Duration::from_millis(100);

/// Large enough that the system cannot hold it for a peer that reads nothing.
const LARGE: usize = 15 << 20;

/// Runs a listener until `f` returns. Its tool `count` counts its calls, and `large` has a large result.
fn listening(listener: impl Listener, f: impl FnOnce(&AtomicUsize)) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let service = Service::builder("strangers", "1")
        .tool(Tool::new_async("count", move || {
            counted.fetch_add(1, Ordering::SeqCst);
            async { "counted" }
        }))
        .tool(Tool::new_async("large", async || "x".repeat(LARGE)))
        .build()
        .expect("all names differ");
    let stop = listener.stop_handle();
    let served = thread::spawn(move || listener.serve(&service).is_ok());
    f(&calls);
    stop();
    assert!(served.join().expect("no panic"), "it was told to stop");
}

fn host() -> Host {
    Host::builder("honest", "1").build()
}

/// Connects a well-behaved client as soon as there is a slot for it. Returns how many calls were counted before its
/// own.
#[track_caller]
fn count<C: Client, E>(connect: impl Fn() -> Result<C, E>, calls: &AtomicUsize) -> usize {
    let start = Instant::now();
    let client = loop {
        match connect() {
            Ok(client) => break client,
            Err(_) => assert!(start.elapsed() < LONG, "there is never a seat for it"),
        }
    };
    let before = calls.load(Ordering::SeqCst);
    client.call_tool("count", ()).expect("it is sent").wait().expect("it is answered");
    client.close();
    before
}

/// Reads to the end, which has to come. Returns the number of bytes before it. A reset counts as the end.
#[track_caller]
fn end_of(mut stream: impl Read) -> usize {
    let mut received = Vec::new();
    match stream.read_to_end(&mut received) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("it does not end: {error}"),
    }
    received.len()
}

fn dial(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("not zero");
    stream
}

/// Connects from another address of this machine.
fn dial_from(last: u8, address: SocketAddr) -> TcpStream {
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None).expect("there are sockets");
    bind(&fd, &SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0))).expect("all of 127.0.0.0/8 is there");
    connect(&fd, &address).expect("it listens");
    let stream = TcpStream::from(fd);
    stream.set_read_timeout(Some(LONG)).expect("not zero");
    stream
}

/// Returns the request of a browser for `fetch("http://localhost:PORT/", {method: "POST", mode: "no-cors", body})` on a
/// page of another site: a "simple" request, which needs no preflight.
fn request_of_a_browser(address: SocketAddr, body: &str) -> String {
    let port = address.port();
    format!(
        "POST / HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: keep-alive\r\nContent-Length: {}\r\n\
         sec-ch-ua-platform: \"Linux\"\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
         Chrome/138.0.0.0 Safari/537.36\r\nsec-ch-ua: \"Not)A;Brand\";v=\"8\", \"Chromium\";v=\"138\"\r\n\
         Content-Type: text/plain;charset=UTF-8\r\nsec-ch-ua-mobile: ?0\r\nAccept: */*\r\nOrigin: https://evil.example\r\n\
         Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: empty\r\nReferer: https://evil.example/\r\n\
         Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-US,en;q=0.9\r\n\r\n{body}",
        body.len()
    )
}

fn http_requests_from_browsers_are_rejected_on_tcp<A: Adapter>() {
    let listener = A::listen_tcp(64);
    let address = listener.address().expect("it is TCP");
    let lines = [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
            "capabilities": {}, "clientInfo": {"name": "page", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "count", "arguments": {}}}),
    ];
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    listening(listener, |calls| {
        // As lines, the same messages are those of a client.
        let mut stream = dial(address);
        stream.write_all(body.as_bytes()).expect("it reads");
        stream.shutdown(std::net::Shutdown::Write).expect("it is open");
        assert!(end_of(&stream) > 0);
        assert_eq!(calls.swap(0, Ordering::SeqCst), 1);
        let request = request_of_a_browser(address, &body);
        // The whole request at once, in pieces of which the first is one byte, and after an empty line with another
        // method.
        for (first, request) in [(request.len(), &*request), (1, &request), (5, &format!("\r\n{}", &request[1..]))] {
            let mut stream = dial(address);
            stream.write_all(&request.as_bytes()[..first]).expect("it reads");
            // The server may disconnect after the first byte.
            let _ = stream.write_all(&request.as_bytes()[first..]);
            assert_eq!(end_of(&stream), 0, "it is told nothing");
        }
        assert_eq!(count(|| A::connect_tcp(address, &host()), calls), 0, "calls of a web page");
    });
}

fn silent_connections_are_closed<A: Adapter>() {
    let listener = A::listen_tcp(8).timeouts(BRIEF, LONG);
    let address = listener.address().expect("it is TCP");
    listening(listener, |calls| {
        let start = Instant::now();
        // Some send nothing at all, and some an incomplete message.
        let silent: Vec<_> = (0..8).map(|_| dial(address)).collect();
        for stream in &silent[4..] {
            let _ = (&mut &*stream).write_all(b"\n{\"jsonrpc\": ");
        }
        silent.iter().for_each(|stream| _ = end_of(stream));
        assert!(start.elapsed() >= BRIEF, "they had no time");
        assert_eq!(count(|| A::connect_tcp(address, &host()), calls), 0);
    });
    let path = env::temp_dir().join(format!("mcp-strangers-{}-{}", A::NAME, process::id()));
    let _ = fs::remove_file(&path);
    listening(A::listen_unix(&path).timeouts(BRIEF, LONG), |calls| {
        let silent = UnixStream::connect(&path).expect("it listens");
        silent.set_read_timeout(Some(LONG)).expect("not zero");
        assert_eq!(end_of(&silent), 0);
        assert_eq!(count(|| A::connect_unix(&path, &host()), calls), 0);
    });
}

/// Blank lines before the first message do not extend its timeout, however often they come.
fn blank_lines_do_not_extend_the_first_read_timeout<A: Adapter>() {
    let listener = A::listen_tcp(8).timeouts(BRIEF, LONG);
    let address = listener.address().expect("it is TCP");
    listening(listener, |_| {
        let mut stream = dial(address);
        stream.set_read_timeout(Some(BRIEF / 4)).expect("not zero");
        let start = Instant::now();
        // Each read without data takes a part of the timeout.
        while stream.write_all(b"\n").is_ok() {
            match stream.read(&mut [0]) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Ok(0) | Err(_) => break,
                Ok(_) => panic!("it is told something"),
            }
            assert!(start.elapsed() < LONG / 2, "blank lines keep it open");
        }
    });
}

/// The peer cannot complete its message while the server does not read.
fn paused_reading_does_not_time_out_a_message<A: Adapter>() {
    const CALLS: usize = 40;
    const TIMEOUT: Duration = Duration::from_secs(2);
    let mut settings = Settings::default();
    settings.limits.outbox_bytes = 2 << 20;
    let service = Service::builder("strangers", "1")
        .settings(settings)
        .tool(Tool::new_async("long", async || "x".repeat(100_000)))
        .build()
        .expect("all names differ");
    let path = env::temp_dir().join(format!("mcp-strangers-pause-{}-{}", A::NAME, process::id()));
    let _ = fs::remove_file(&path);
    let listener = A::listen_unix(&path).timeouts(TIMEOUT, LONG);
    let stop = listener.stop_handle();
    let served = thread::spawn(move || listener.serve(&service).is_ok());
    let dial = || UnixStream::connect(&path).expect("it listens");
    let mut stream = dial();
    stream.set_read_timeout(Some(LONG)).expect("not zero");
    let calls = calls_of("long", CALLS);
    stream.write_all(format!("{calls}{{\"jsonrpc\": ").as_bytes()).expect("it is read");
    // More waits to be written than the socket takes, so the server pauses. Another connection shows when the timeout
    // is over.
    let mut other = dial();
    other.set_read_timeout(Some(BRIEF)).expect("not zero");
    other.write_all(b"{").expect("it is read");
    while let Err(error) = other.read(&mut [0]) {
        assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
        stream.write_all(b" ").expect("it is still there");
    }
    let mut lines = BufReader::new(&stream);
    read_lines(&mut lines, "xxx", CALLS);
    (&stream).write_all(b"\"2.0\", \"id\": \"late\", \"method\": \"ping\"}\n").expect("it is still there");
    read_lines(&mut lines, "late", 1);
    drop(stream);
    stop();
    assert!(served.join().expect("no panic"), "it was told to stop");
}

/// Every message has the timeout of the first one. Silence between messages has none.
fn incomplete_messages_time_out<A: Adapter>() {
    let listener = A::listen_tcp(8).timeouts(BRIEF, LONG);
    let address = listener.address().expect("it is TCP");
    listening(listener, |calls| {
        let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
        let begin = |rest: &[u8]| {
            let mut stream = dial(address);
            stream.write_all(&[ping, rest].concat()).expect("it is read");
            stream
        };
        let mut idle = begin(b"");
        let pong = idle.read(&mut [0; 256]).expect("it is answered");
        // A blank line is no message, also if it comes in two pieces.
        let mut blank = begin(b"");
        assert_eq!(blank.read(&mut [0; 256]).expect("it is answered"), pong);
        for piece in [b"\r", b"\n"] {
            blank.write_all(piece).expect("it is read");
            idle.write_all(ping).expect("it is read");
            assert_eq!(idle.read(&mut [0; 256]).expect("it is answered"), pong);
        }
        let begun = Instant::now();
        // A part of a message after another one, at once or later.
        for later in [false, true] {
            for _ in 0..3 {
                let mut stream = begin(if later { b"" } else { b"{\"jsonrpc\": " });
                if later {
                    assert_eq!(stream.read(&mut [0; 256]).expect("it is answered"), pong);
                    stream.write_all(b" ").expect("it is read");
                }
                assert_eq!(end_of(stream), if later { 0 } else { pong });
            }
        }
        assert!(begun.elapsed() >= 6 * BRIEF, "they had no time");
        for mut stream in [idle, blank] {
            stream.write_all(ping).expect("it is read");
            assert_eq!(stream.read(&mut [0; 256]).expect("it is answered"), pong);
        }
        assert_eq!(count(|| A::connect_tcp(address, &host()), calls), 0);
    });
}

fn one_address_cannot_use_every_connection<A: Adapter>() {
    let listener = A::listen_tcp(16);
    let address = listener.address().expect("it is TCP");
    listening(listener, |_| {
        let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
        let is_served = |mut stream: &TcpStream| {
            // A write to a connection that the server has closed may fail.
            let _ = stream.write_all(ping);
            matches!(stream.read(&mut [0; 16]), Ok(read) if read > 0)
        };
        let many: Vec<_> = (0..20).map(|_| dial(address)).collect();
        assert_eq!(many.iter().filter(|stream| is_served(stream)).count(), 14);
        let other = dial_from(2, address);
        assert!(is_served(&other), "another address gets in");
        assert!(is_served(&dial_from(3, address)), "and so does a third one");
        assert!(is_served(&many[0]), "no client has lost anything");
    });
}

/// Returns the lines of a client that calls this tool a number of times, and then sends a ping.
fn calls_of(tool: &str, times: usize) -> String {
    let initialize = json!({"jsonrpc": "2.0", "id": "initialize", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "stranger", "version": "1"},
    }});
    let call =
        |id| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let ping = json!({"jsonrpc": "2.0", "id": "ping", "method": "ping"});
    let messages = [initialize, ready].into_iter().chain((0..times).map(call)).chain([ping]);
    messages.map(|message| format!("{message}\n")).collect()
}

/// Reads lines until this many contain a text.
fn read_lines(lines: &mut impl BufRead, what: &str, times: usize) {
    let mut received = lines.lines().map_while(Result::ok).filter(|line| line.contains(what));
    assert_eq!(received.by_ref().take(times).count(), times, "{what}");
}

/// Connections of a runtime share its threads.
fn one_address_cannot_use_every_handler_thread<A: Adapter>() {
    const MOST: usize = 8;
    let gate = Arc::new((Mutex::new((0, false)), Condvar::new()));
    let (entered, waits) = (gate.clone(), LONG);
    let service = Service::builder("strangers", "1")
        .tool(Tool::new("block", move || {
            let (state, changed) = &*entered;
            let mut state = state.lock().expect("no panic");
            state.0 += 1;
            changed.notify_all();
            let _ = changed.wait_timeout_while(state, waits, |(_, is_open)| !*is_open).expect("no panic");
            "blocked"
        }))
        .tool(Tool::new("pass", || "passed"))
        .build()
        .expect("all names differ");
    let listener = A::listen_tcp(16).functions(MOST);
    let (address, stop) = (listener.address().expect("it is TCP"), listener.stop_handle());
    let served = thread::spawn(move || listener.serve(&service).is_ok());
    // Two connections, with more calls than one client may run at once.
    let greedy: Vec<_> = (0..2).map(|_| dial(address)).collect();
    let mut greedy: Vec<_> = greedy.iter().map(|stream| (stream, BufReader::new(stream))).collect();
    for (stream, lines) in &mut greedy {
        (&**stream).write_all(calls_of("block", MOST).as_bytes()).expect("it is read");
        read_lines(lines, "ping", 1);
    }
    let (state, changed) = &*gate;
    let begun = changed.wait_timeout_while(state.lock().expect("no panic"), LONG, |(begun, _)| *begun < MOST - 1);
    drop(begun.expect("no panic"));
    let other = dial_from(2, address);
    (&other).write_all(calls_of("pass", 1).as_bytes()).expect("it is read");
    read_lines(&mut BufReader::new(&other), "passed", 1);
    // Thread drivers have a limit for each connection.
    let most = if A::NAME == "blocking" { 2 * MOST } else { MOST - 1 };
    let mut state = state.lock().expect("no panic");
    assert!(state.0 <= most, "{} functions have begun", state.0);
    state.1 = true;
    drop(state);
    changed.notify_all();
    for (_, lines) in &mut greedy {
        read_lines(lines, "blocked", MOST);
    }
    drop(greedy);
    stop();
    assert!(served.join().expect("no panic"), "it was told to stop");
}

fn closes_connections_that_stop_reading<A: Adapter>() {
    let listener = A::listen_tcp(1).timeouts(LONG, BRIEF);
    let address = listener.address().expect("it is TCP");
    listening(listener, |calls| {
        let mut stalled = dial(address);
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "large", "arguments": {}, "_meta": meta}});
        stalled.write_all(format!("{call}\n").as_bytes()).expect("it reads");
        stalled.read_exact(&mut [0]).expect("it is answered");
        // Its slot is free for another client, although it has not disconnected.
        assert_eq!(count(|| A::connect_tcp(address, &host()), calls), 0);
        assert!(end_of(&stalled) < LARGE, "it was not told all of it");
    });
}

/// Returns whether the server's socket has TCP keepalive for a connection.
fn is_kept_alive(server: SocketAddr, client: SocketAddr) -> bool {
    let hex = |address: SocketAddr| format!("0100007F:{:04X}", address.port());
    let table = fs::read_to_string("/proc/net/tcp").expect("Linux has it");
    let entry = table.lines().find(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next() == Some(&*hex(server)) && fields.next() == Some(&*hex(client))
    });
    // The running timer: 2 is keepalive.
    entry.and_then(|entry| entry.split_whitespace().nth(5)).is_some_and(|timer| timer.starts_with("02:"))
}

fn accepted_sockets_use_tcp_keepalive<A: Adapter>() {
    if cfg!(not(target_os = "linux")) {
        return;
    }
    let see = |address: SocketAddr| {
        let stream = dial(address);
        let client = stream.local_addr().expect("it is connected");
        let start = Instant::now();
        while !is_kept_alive(address, client) {
            assert!(start.elapsed() < LONG, "no keep-alive to {client}");
            thread::yield_now();
        }
    };
    let listener = A::listen_tcp(8);
    let address = listener.address().expect("it is TCP");
    listening(listener, |_| see(address));
    let listener = A::listen_http();
    let address = listener.address().expect("it is TCP");
    listening(listener, |_| see(address));
}
