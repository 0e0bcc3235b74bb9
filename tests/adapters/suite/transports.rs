//! The same calls over every transport.

use std::{
    io,
    net::{TcpListener, TcpStream},
    os::unix::net::UnixStream,
    sync::mpsc::channel,
};

use mcp_proto::connection::{CloseReason, Event};

use crate::{
    adapter::{Adapter, Handle, Pair},
    minimal_peer::joined,
    scenario::scenarios,
};

scenarios![
    // req: TRANS-001 TRANS-002
    memory,
    // A26
    memory_one_byte_at_a_time,
    tcp,
    unix,
    any_reader_and_writer,
    whole_messages,
];

/// Makes small and large calls, one by one and many at once, and then closes the connection.
fn converse<A: Adapter>(pair: Pair<A>) {
    let (client, server) = joined::<A>(pair, |received| received.echo());
    for text in ["", "ü \u{1F600} \\n", &"x".repeat(300_000)] {
        let params = serde_json::json!({ "text": text }).to_string();
        // The progress token is part of the echoed params.
        let result = client.send_request("test/echo", &params).wait().expect("it is answered");
        assert_eq!(result.member("text").map(|text| text.get().to_owned()), Some(serde_json::json!(text).to_string()));
    }
    let pending: Vec<_> =
        (0..500).map(|number| client.send_request("test/echo", &format!("{{\"number\":{number}}}"))).collect();
    for (number, pending) in pending.into_iter().enumerate() {
        let result = pending.wait().expect("it is answered");
        assert_eq!(result.member("number").map(|number| number.get().to_owned()), Some(number.to_string()));
    }
    assert_eq!(client.handle.close(), Some(CloseReason::Local));
    assert_eq!(server.handle.wait(), Some(CloseReason::Eof));
    assert_eq!(client.rest(), [Event::Closed(CloseReason::Local)]);
    assert_eq!(server.rest(), [Event::Closed(CloseReason::Eof)]);
}

fn memory<A: Adapter>() {
    converse::<A>(A::pair(64 * 1024));
}

fn memory_one_byte_at_a_time<A: Adapter>() {
    let (client, server) = joined::<A>(A::pair(1), |received| received.echo());
    for number in 0..20 {
        let pending: Vec<_> =
            (0..10).map(|_| client.send_request("test/echo", &format!("{{\"number\":{number}}}"))).collect();
        assert!(pending.into_iter().all(|pending| pending.wait().is_ok()));
    }
    assert_eq!(client.handle.close(), Some(CloseReason::Local));
    assert_eq!(server.handle.wait(), Some(CloseReason::Eof));
}

fn tcp<A: Adapter>() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it has an address");
    let left = TcpStream::connect(address).expect("it listens");
    let (right, _) = listener.accept().expect("a connection");
    converse::<A>((A::tcp(left), A::tcp(right)));
}

fn unix<A: Adapter>() {
    let (left, right) = UnixStream::pair().expect("there are sockets");
    converse::<A>((A::unix(left), A::unix(right)));
}

fn any_reader_and_writer<A: Adapter>() {
    let ((a, b), (c, d)) = (io::pipe().expect("a pipe"), io::pipe().expect("a pipe"));
    converse::<A>((A::from_io(a, d), A::from_io(c, b)));
}

fn whole_messages<A: Adapter>() {
    let ((to_right, from_left), (to_left, from_right)) = (channel(), channel());
    converse::<A>((A::messages(from_right, to_right), A::messages(from_left, to_left)));
}
