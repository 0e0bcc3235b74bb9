//! Clients over HTTP whose server responds before it has read the whole request.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use mcp_proto::protocol::VersionSet;
use mcp_service::Host;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde_json::{Value, json};

use crate::{
    adapter::{Adapter, Client},
    load::{Resources, alone},
    scenario::scenarios,
};

scenarios![
    // A16
    early_responses_leave_no_connections,
];

/// The number of calls whose requests are not read.
const CALLS: usize = 5;

/// The size of an argument that the buffers of a connection do not take: about 2.3 MB on loopback, if that of the
/// server is small.
const LARGE: usize = 3 << 20;

/// The most bytes that the server reads of the body of a request.
const READ: usize = 1024;

fn early_responses_leave_no_connections<A: Adapter>() {
    alone::<A>("early_responses");
}

/// Connections that the server holds open without reading.
type Held = Arc<Mutex<Vec<TcpStream>>>;

/// The role in which the server responds to each call, and reads only its beginning.
pub(crate) fn leftovers<A: Adapter>() {
    let (listener, held) = (TcpListener::bind("127.0.0.1:0").expect("there is a port"), Held::default());
    set_socket_recv_buffer_size(&listener, 2048).expect("a size");
    let url = format!("http://{}/mcp", listener.local_addr().expect("it is bound"));
    let holds = held.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, held) = (stream.expect("a connection"), holds.clone());
            thread::spawn(move || serve(stream, &held));
        }
    });
    let host = Host::builder("x", "1").versions(VersionSet::LEGACY).build();
    let argument = "x".repeat(LARGE);
    let connect = || A::connect_http(&url, &host).expect("it serves");
    // The runtime starts its threads, and the next client is measured against what the first one leaves.
    connect().close();
    let before = Resources::of::<A>();
    let client = connect();
    for _ in 0..CALLS {
        let call = client.call_tool("store", json!({ "argument": argument })).expect("it is sent");
        assert_eq!(call.wait().expect("it is answered").content[0].as_text(), Some("stored"));
    }
    assert!(client.close().reason.is_clean());
    drop(client);
    assert_eq!(held.lock().expect("no panic").len(), CALLS);
    before.with_descriptors(CALLS).expect::<A>();
}

/// Serves a connection until its client closes it, or sends a request that is not read to its end.
fn serve(mut stream: TcpStream, held: &Held) {
    let mut received = Vec::new();
    loop {
        let Some(head) = receive(&mut stream, &mut received, |bytes| {
            bytes.windows(4).position(|end| end == b"\r\n\r\n").map(|len| len + 4)
        }) else {
            return;
        };
        let text = String::from_utf8_lossy(&received[..head]).to_ascii_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.map_or(0, |length| length.parse::<usize>().expect("a length"));
        let end = head + length.min(READ);
        receive(&mut stream, &mut received, |bytes| (bytes.len() >= end).then_some(end)).expect("a body");
        stream.write_all(respond(&text, &received[head..end], length).as_bytes()).expect("it is read");
        if length > READ {
            return held.lock().expect("no panic").push(stream);
        }
        received.drain(..end);
    }
}

/// Reads until `find` returns a result. Returns `None` at the end.
fn receive(stream: &mut TcpStream, received: &mut Vec<u8>, find: impl Fn(&[u8]) -> Option<usize>) -> Option<usize> {
    let mut chunk = [0; READ];
    loop {
        if let Some(found) = find(received) {
            return Some(found);
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(read) => received.extend_from_slice(&chunk[..read]),
        }
    }
}

fn respond(head: &str, body: &[u8], length: usize) -> String {
    if !head.starts_with("post ") {
        return "HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n".to_owned();
    }
    let (id, result) = if length > READ {
        let beginning = String::from_utf8_lossy(body);
        let (_, id) = beginning.split_once(r#""id":"#).expect("the id comes first");
        let id = id.split(',').next().and_then(|id| id.parse::<u64>().ok()).expect("a number");
        (json!(id), json!({"content": [{"type": "text", "text": "stored"}]}))
    } else {
        let message: Value = serde_json::from_slice(body).expect("a message");
        if message["id"].is_null() {
            return "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned();
        }
        assert_eq!(message["method"], "initialize");
        let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "early", "version": "1"}});
        (message["id"].clone(), result)
    };
    let response = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    let length = response.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{response}")
}
