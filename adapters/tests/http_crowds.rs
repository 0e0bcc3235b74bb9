//! Peers of an HTTP server that use up its capacity: they read nothing, connect many times, and send without end. The
//! including test has the adapter as `crate::adapter`, and its runtime as `crate::{run, spawn}`.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
};

use mcp_driver::DriverOptions;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use crate::{
    adapter::http::{EndpointOptions, Paths, Policy},
    http_peers::{LONG, PATIENCE, Running, call, read_until},
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

/// Returns whether a call on this connection gets a response. If not, the server has closed the connection.
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
fn closes_connections_of_peers_that_do_not_read() {
    run(async {
        let server = Running::new(|listener| listener.write_timeout(PATIENCE).connections(1)).await;
        for tool in ["large", "flood"] {
            let mut stalled = server.connect();
            stalled.write_all(call(tool).as_bytes()).expect("it reads");
            read_until(&mut stalled, "HTTP/1.1 200 OK");
            // There is one slot. It is free although the client has not disconnected.
            assert!(is_served(&server.connect()), "{tool} keeps its place");
            let mut rest = Vec::new();
            let _ = stalled.read_to_end(&mut rest);
        }
        server.stop().await;
    });
}

#[test]
fn one_address_cannot_take_all_connections() {
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
fn endless_request_head_is_cut_off() {
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
        // The server reads 128 KiB of the head and 256 KiB after it. The rest is in socket buffers of both sides.
        server.stop().await;
    });
}

#[test]
fn client_at_its_limits_does_not_affect_others() {
    run(async {
        let server = Running::new(|listener| listener.connections(64)).await;
        let mut many: Vec<_> = (0..64).map(|_| server.connect()).collect();
        for stream in &mut many {
            // The server closes the connections above the limit.
            let _ = stream.write_all(call("tell_and_wait").as_bytes());
        }
        // All connections of the share are being served.
        server.wait_until_begun(56);
        assert!(is_served(&dial_from(2, server.address)));
        assert_eq!((server.begun(), server.cancelled()), (56, 0), "they were held until here");
        drop(many);
        server.stop().await;
    });
}

#[test]
fn one_address_cannot_use_every_handler_thread() {
    run(async {
        let options = DriverOptions { functions: 8, ..DriverOptions::default() };
        let server = Running::new(|listener| listener.options(options)).await;
        let mut many: Vec<_> = (0..7).map(|_| server.connect()).collect();
        for (begun, stream) in many.iter_mut().enumerate() {
            stream.write_all(call("block").as_bytes()).expect("it reads");
            server.wait_until_begun(begun + 1);
        }
        // One more waits for a thread. Async handlers run, although the request comes from the same address.
        let mut one_more = server.connect();
        one_more.write_all(call("block").as_bytes()).expect("it reads");
        let mut same = server.connect();
        same.write_all(call("hello").as_bytes()).expect("it reads");
        let received = read_until(&mut same, "\r\n\r\n{");
        assert!(received.starts_with("HTTP/1.1 200 "), "{received}");
        // A blocking handler of another client begins immediately.
        let mut other = dial_from(2, server.address);
        other.write_all(call("panic_on_a_thread").as_bytes()).expect("it reads");
        read_until(&mut other, "-32603");
        server.release();
        many.iter_mut().for_each(|stream| _ = read_until(stream, "released"));
        read_until(&mut one_more, "released");
        server.stop().await;
    });
}

#[test]
fn functions_wait_for_a_bounded_time() {
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
            let received = read_until(&mut late, "-32603");
            assert!(received.contains("\"id\":1"), "{received}");
        }
        server.release();
        many.iter_mut().for_each(|stream| _ = read_until(stream, "released"));
        server.stop().await;
    });
}

/// Sends a message in a session, or the request that begins one, over a new connection. Returns the response.
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

/// Begins a session and completes its handshake. Returns its id.
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
fn one_address_cannot_evict_sessions_of_others() {
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
fn unread_data_per_address_is_bounded() {
    run(async {
        let options = DriverOptions { unwritten: 64 << 20, ..DriverOptions::default() };
        let server = Running::new(|listener| listener.options(options)).await;
        // Each of them holds a response of 15 MiB, except for socket buffers. A fourth one exceeds seven eighths.
        let mut stalled: Vec<_> = (0..3).map(|_| server.connect()).collect();
        for stream in &mut stalled {
            stream.write_all(call("large").as_bytes()).expect("it reads");
            read_until(stream, "HTTP/1.1 200 OK");
        }
        let read_out = |mut stream: TcpStream| {
            stream
                .write_all(call("large").replace("host:", "connection: close\r\nhost:").as_bytes())
                .expect("it reads");
            let mut received = Vec::new();
            let _ = stream.read_to_end(&mut received);
            received.len()
        };
        assert!(read_out(server.connect()) < 15 << 20, "it is more than one client may hold");
        assert!(read_out(dial_from(2, server.address)) > 15 << 20, "others have theirs");
        // A client that continues to read gets all of it.
        drop(stalled.split_off(1));
        let mut rest = vec![0; 14 << 20];
        stalled[0].read_exact(&mut rest).expect("it is there");
        server.stop().await;
    });
}
