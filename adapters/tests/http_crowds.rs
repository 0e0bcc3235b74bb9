//! Peers of an HTTP server that take what they can: they read nothing, come in numbers, and send without end. A test that includes this
//! in has the adapter as `crate::adapter`, and its runtime as `crate::{run, spawn}`.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
};

use mcp_driver::DriverOptions;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use crate::{
    adapter::http::{EndpointOptions, Paths, Policy},
    http_peers::{LONG, PATIENCE, Running, call, hear},
    run,
};

/// Connects from another address of this machine.
fn dial_from(last: u8, address: SocketAddr) -> TcpStream {
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None).expect("there are sockets");
    bind(&fd, &SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0))).expect("all of 127.0.0.0/8 is there");
    connect(&fd, &address).expect("it listens");
    let stream = TcpStream::from(fd);
    stream.set_read_timeout(Some(LONG)).expect("not zero");
    stream
}

/// Whether a call on this connection is answered; if not, it was hung up on.
fn is_served(mut stream: &TcpStream) -> bool {
    let _ = stream.write_all(call("hello").as_bytes());
    match stream.read(&mut [0; 4096]) {
        Ok(read) => read > 0,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
            false
        }
    }
}

#[test]
fn a_peer_that_reads_nothing_loses_its_connection() {
    run(async {
        let server = Running::new(|listener| listener.write_timeout(PATIENCE).connections(1)).await;
        for tool in ["large", "flood"] {
            let mut deaf = server.connect();
            deaf.write_all(call(tool).as_bytes()).expect("it reads");
            hear(&mut deaf, "HTTP/1.1 200 OK");
            // There is one place. It is free though the one who had it has not left.
            assert!(is_served(&server.connect()), "{tool} keeps its place");
            let mut rest = Vec::new();
            let _ = deaf.read_to_end(&mut rest);
        }
        server.stop().await;
    });
}

#[test]
fn one_address_leaves_places_for_others() {
    run(async {
        let server = Running::new(|listener| listener.connections(16)).await;
        let many: Vec<_> = (0..20).map(|_| server.connect()).collect();
        let served = many.iter().filter(|stream| is_served(stream)).count();
        assert_eq!(served, 14, "seven eighths");
        let other = dial_from(2, server.address);
        assert!(is_served(&other), "another address gets in");
        assert!(is_served(&dial_from(3, server.address)), "and so does a third one");
        assert!(many.iter().filter(|stream| is_served(stream)).count() == 14, "no client has lost anything");
        server.stop().await;
    });
}

#[test]
fn a_head_without_end_is_not_read_for_long() {
    run(async {
        let server = Running::new(|listener| listener).await;
        let mut stream = server.connect();
        stream.set_write_timeout(Some(LONG)).expect("not zero");
        stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\n").expect("it reads");
        let line = format!("x-filler: {}\r\n", "x".repeat(1000)).repeat(64);
        let mut sent = 0;
        while stream.write_all(line.as_bytes()).is_ok() {
            sent += line.len();
            assert!(sent < 24 << 20, "{sent} bytes of a head were taken");
        }
        // What it reads of that is 128 KiB of a head and 256 KiB behind it; the rest is what the system holds on both sides.
        server.stop().await;
    });
}

#[test]
fn whoever_holds_all_that_it_can_is_nothing_to_others() {
    run(async {
        let server = Running::new(|listener| listener.connections(64)).await;
        let mut many: Vec<_> = (0..64).map(|_| server.connect()).collect();
        for stream in &mut many {
            // Those that are too many are hung up on.
            let _ = stream.write_all(call("tell_and_wait").as_bytes());
        }
        // All that its share admits are being answered.
        server.wait_until_begun(56);
        assert!(is_served(&dial_from(2, server.address)));
        assert_eq!((server.begun(), server.cancelled()), (56, 0), "they were held until here");
        drop(many);
        server.stop().await;
    });
}

#[test]
fn functions_of_one_address_leave_threads_for_others() {
    run(async {
        let options = DriverOptions { functions: 8, ..DriverOptions::default() };
        let server = Running::new(|listener| listener.options(options)).await;
        let mut many: Vec<_> = (0..7).map(|_| server.connect()).collect();
        for (begun, stream) in many.iter_mut().enumerate() {
            stream.write_all(call("block").as_bytes()).expect("it reads");
            server.wait_until_begun(begun + 1);
        }
        // One more waits for its turn. What no function answers does not, although it comes from the same address.
        let mut one_more = server.connect();
        one_more.write_all(call("block").as_bytes()).expect("it reads");
        let mut same = server.connect();
        same.write_all(call("hello").as_bytes()).expect("it reads");
        let heard = hear(&mut same, "\r\n\r\n{");
        assert!(heard.starts_with("HTTP/1.1 200 "), "{heard}");
        // A function of another client begins at once.
        let mut other = dial_from(2, server.address);
        other.write_all(call("panic_on_a_thread").as_bytes()).expect("it reads");
        hear(&mut other, "-32603");
        server.release();
        many.iter_mut().for_each(|stream| _ = hear(stream, "released"));
        hear(&mut one_more, "released");
        server.stop().await;
    });
}

#[test]
fn a_function_waits_for_a_bounded_time() {
    run(async {
        let options = DriverOptions { functions: 8, function_wait: PATIENCE, ..DriverOptions::default() };
        let server = Running::new(|listener| listener.options(options)).await;
        let mut many: Vec<_> = (0..7).map(|_| server.connect()).collect();
        for (begun, stream) in many.iter_mut().enumerate() {
            stream.write_all(call("block").as_bytes()).expect("it reads");
            server.wait_until_begun(begun + 1);
        }
        for _ in 0..2 {
            let mut late = server.connect();
            late.write_all(call("block").as_bytes()).expect("it reads");
            let heard = hear(&mut late, "-32603");
            assert!(heard.contains("\"id\":1"), "{heard}");
        }
        server.release();
        many.iter_mut().for_each(|stream| _ = hear(stream, "released"));
        server.stop().await;
    });
}

/// Sends a message in a session, or the one that begins it, over a connection of its own. The answer.
fn send(mut stream: TcpStream, session: Option<&str>, body: &str) -> String {
    let session = session.map_or_else(String::new, |id| format!("mcp-session-id: {id}\r\n"));
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{session}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is said in time");
    answer
}

/// Begins a session and comes back to it. Its id.
fn begin_session(connect: impl Fn() -> TcpStream) -> String {
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    let answer = send(connect(), None, hello);
    let (_, rest) = answer.split_once("mcp-session-id: ").expect("a session");
    let id = rest.split_once("\r\n").expect("a line").0.to_owned();
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert!(send(connect(), Some(&id), ready).starts_with("HTTP/1.1 202 "));
    id
}

#[test]
fn sessions_of_one_address_leave_those_of_others() {
    run(async {
        let mut endpoint = EndpointOptions::new(Policy::loopback());
        endpoint.paths = Paths::at("/mcp");
        endpoint.limits.sessions = 16;
        let server = Running::new(|listener| listener.endpoint(endpoint)).await;
        let honest = begin_session(|| dial_from(2, server.address));
        let greedy: Vec<_> = (0..40).map(|_| begin_session(|| server.connect())).collect();
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let answer = send(dial_from(2, server.address), Some(&honest), ping);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let is_there = |id: &&String| send(server.connect(), Some(id), ping).starts_with("HTTP/1.1 200 ");
        assert_eq!(greedy.iter().filter(is_there).count(), 14, "seven times of what is free");
        server.stop().await;
    });
}

#[test]
fn what_one_address_does_not_read_is_bounded() {
    run(async {
        let options = DriverOptions { unwritten: 64 << 20, ..DriverOptions::default() };
        let server = Running::new(|listener| listener.options(options)).await;
        // Each of them holds an answer of 15 MiB, but for what the system takes. A fourth one is more than seven eighths.
        let mut deaf: Vec<_> = (0..3).map(|_| server.connect()).collect();
        for stream in &mut deaf {
            stream.write_all(call("large").as_bytes()).expect("it reads");
            hear(stream, "HTTP/1.1 200 OK");
        }
        let read_out = |mut stream: TcpStream| {
            stream
                .write_all(call("large").replace("host:", "connection: close\r\nhost:").as_bytes())
                .expect("it reads");
            let mut heard = Vec::new();
            let _ = stream.read_to_end(&mut heard);
            heard.len()
        };
        assert!(read_out(server.connect()) < 15 << 20, "it is more than one client may hold");
        assert!(read_out(dial_from(2, server.address)) > 15 << 20, "others have theirs");
        // A client that goes on reading gets all of it.
        drop(deaf.split_off(1));
        let mut rest = vec![0; 14 << 20];
        deaf[0].read_exact(&mut rest).expect("it is there");
        server.stop().await;
    });
}
