//! Tests of `mcp record --listen`: trailers, sides that end early, and limits.

use std::{
    fs,
    io::{Read, Write},
    net::Shutdown,
    thread,
};

use super::{Listening, Server, entries, expect, head, part, recorded, rest};
use crate::{mcp, recorder::Folder};

/// Writes byte by byte, so that everything is cut at each place.
fn drip(mut socket: &std::net::TcpStream, bytes: &str) {
    bytes.as_bytes().iter().for_each(|byte| socket.write_all(&[*byte]).expect("it is read"));
}

pub(crate) fn trailers_are_masked_and_forwarded_as_a_whole() {
    let folder = Folder::new("listen-trailers");
    let file = folder.file("a.jsonl");
    let (server, url) = Server::start();
    let recorder = Listening::start(&file, &url, &[]);
    let mut client = recorder.connect();
    let trailer = "X-Api-Key: canary\r\nAuthorization: Bearer canary,\r\n canary\r\nA: b\r\n";
    let body = format!("1\r\n{{\r\n0\r\n{trailer}\r\n");
    let post = |host: &str| format!("POST /mcp HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
    let writer = {
        let (client, request) = (client.try_clone().expect("a copy"), post("localhost"));
        thread::spawn(move || drip(&client, &request))
    };
    let mut at_server = server.accept();
    expect(&mut at_server, post(&server.authority()).as_bytes());
    writer.join().expect("it is written");
    at_server.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n").expect("it is read");
    expect(&mut client, b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n");
    // The stream ends within its first event, so the recorder still frames it itself.
    client.write_all(b"GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is read");
    head(&mut at_server);
    let stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let answer = format!("{stream}3\r\nid:\r\n0\r\n{trailer}\r\n");
    drip(&at_server, &answer);
    at_server.shutdown(Shutdown::Write).expect("it is open");
    let got = rest(&mut client);
    assert_eq!(got, answer);
    let masked = "X-Api-Key: ***\r\nAuthorization: ***\r\nA: b\r\n";
    assert_eq!(String::from_utf8(part(&file, 1, "request-trailer")).expect("text"), masked);
    assert_eq!(String::from_utf8(part(&file, 2, "response-trailer")).expect("text"), masked);
    let record = fs::read_to_string(&file).expect("a record");
    assert!(!record.contains("canary"), "{record}");
}

pub(crate) fn addresses_are_masked_in_any_order_of_fields() {
    let folder = Folder::new("listen-order");
    let file = folder.file("a.jsonl");
    let (server, url) = Server::start();
    let recorder = Listening::start(&file, &url, &[]);
    let (own, other) = (recorder.address.clone(), server.authority());
    for (number, stream) in [
        "data: http://HOST/m?s=canary,canary\nevent: endpoint\n\n",
        "\u{feff}event: endpoint\ndata: http://HOST/m?s='canary'\n\n",
        "retry: 1\n\nid: 1\n\nevent: endpoint\ndata: http://HOST/m?s=canary\n\n",
    ]
    .iter()
    .enumerate()
    {
        let mut client = recorder.connect();
        client.write_all(format!("GET /sse?s=canary,canary HTTP/1.1\r\nHost: {own}\r\n\r\n").as_bytes()).expect("sent");
        let mut at_server = server.accept();
        head(&mut at_server);
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{stream}");
        drip(&at_server, &answer.replace("HOST", &other));
        at_server.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(rest(&mut client), answer.replace("HOST", &own), "{number}");
    }
    // A stream with a length stays as it is.
    let event = format!("data: {{}}\n\ndata: http://{other}/m?s=canary\nevent: endpoint\n\ndata: /m?canary\n\n");
    let length = event.len();
    let answer =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {length}\r\n\r\n{event}");
    let mut client = recorder.connect();
    client.write_all(format!("GET /sse HTTP/1.1\r\nHost: {own}\r\n\r\n").as_bytes()).expect("sent");
    let mut at_server = server.accept();
    head(&mut at_server);
    drip(&at_server, &answer);
    expect(&mut client, answer.as_bytes());
    let record = fs::read_to_string(&file).expect("a record");
    assert!(!record.contains("canary"), "{record}");
    // What is written at once may end within an address.
    let first = String::from_utf8(part(&file, 1, "response-body")).expect("a text");
    assert!(first.contains("/m?s=id-1\n"), "{record}");
}

pub(crate) fn secrets_in_streams_of_posts_are_masked() {
    let folder = Folder::new("listen-posts");
    let file = folder.file("a.jsonl");
    let (server, url) = Server::start();
    let recorder = Listening::start(&file, &url, &[]);
    for (number, end) in ["\r", "\n", "\r\n"].into_iter().enumerate() {
        let mut client = recorder.connect();
        let post = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
        client.write_all(post.as_bytes()).expect("it is read");
        let mut at_server = server.accept();
        head(&mut at_server);
        // A quote in a comment, and JSON in several lines with fields between them.
        let stream =
            ": 5\" wide\n\ndata: {\"token\":\"canary\"}\n\ndata: {\"token\":\nid: 7\n: \"\ndata: \"canary\"}\n\n"
                .replace('\n', end);
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{stream}");
        drip(&at_server, &answer);
        at_server.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(rest(&mut client), answer, "what is forwarded is not masked");
        let recorded = String::from_utf8(part(&file, number as u64 + 1, "response-body")).expect("text");
        assert_eq!(recorded, stream.replace("canary", "***"));
    }
}

pub(crate) fn codings_of_the_transfer_are_not_recorded_with_masks() {
    let folder = Folder::new("listen-transfer");
    let file = folder.file("a.jsonl");
    let (server, url) = Server::start();
    let recorder = Listening::start(&file, &url, &[]);
    let mut client = recorder.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is read");
    let mut at_server = server.accept();
    head(&mut at_server);
    let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n6\r\ncanary\r\n0\r\n\r\n";
    at_server.write_all(answer).expect("it is read");
    expect(&mut client, answer);
    let record = fs::read_to_string(&file).expect("a record");
    assert!(!record.contains("canary") && record.contains("\"omitted\":6"), "{record}");
}

pub(crate) fn a_client_that_closes_its_direction_gets_the_response() {
    let folder = Folder::new("listen-half");
    let file = folder.file("a.jsonl");
    let (server, url) = Server::start();
    let recorder = Listening::start(&file, &url, &[]);
    let mut client = recorder.connect();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let request = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    client.write_all(request.as_bytes()).expect("it is read");
    client.shutdown(Shutdown::Write).expect("it is open");
    let mut at_server = server.accept();
    assert!(rest(&mut at_server).ends_with(body), "the server reads the end of the client");
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json";
    let response = format!("{json}\r\nContent-Length: {}\r\n\r\n{answer}", answer.len());
    at_server.write_all(response.as_bytes()).expect("it is read");
    assert_eq!(rest(&mut client), response);
    let lines = entries(&file);
    assert!(lines.iter().all(|line| line["failed"].is_null()), "{lines:?}");
    let (code, out, _) = mcp(&["replay", file.to_str().expect("UTF-8")]);
    assert!(code == 0 && out.contains("result 1 of ping") && !out.contains("without a response"), "{out}");
}

pub(crate) fn no_refusal_is_written_into_a_stream() {
    let folder = Folder::new("listen-behind");
    let file = folder.file("a.jsonl");
    let (server, url) = Server::start();
    let recorder = Listening::start(&file, &url, &[]);
    let mut client = recorder.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is read");
    let mut at_server = server.accept();
    head(&mut at_server);
    let start = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"a\":1}\n\n";
    at_server.write_all(start).expect("it is read");
    expect(&mut client, start);
    client.write_all(b"GET http://a/ HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is read");
    recorded(&file, "\"exchange\":2,\"failed\":\"the recorder is no forward proxy");
    at_server.write_all(b"data: {\"b\":2}\n\n").expect("it is read");
    drop(at_server);
    assert_eq!(rest(&mut client), "data: {\"b\":2}\n\n");
    // Without an earlier response it is answered.
    let mut client = recorder.connect();
    client.write_all(b"GET http://a/ HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is read");
    assert!(head(&mut client).starts_with("HTTP/1.1 400 Bad Request\r\n"));
}

pub(crate) fn connections_are_bounded() {
    let folder = Folder::new("listen-many");
    let file = folder.file("a.jsonl");
    let (_server, url) = Server::start();
    let recorder = Listening::start(&file, &url, &[]);
    let mut open: Vec<_> = (0..256).map(|_| recorder.connect()).collect();
    let mut refused = recorder.connect();
    assert!(rest(&mut refused).starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
    // A place is free again when a connection has ended.
    let mut ended = open.pop().expect("a connection");
    ended.write_all(b"GET http://a/ HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is read");
    ended.shutdown(Shutdown::Write).expect("it is open");
    assert!(rest(&mut ended).starts_with("HTTP/1.1 400 Bad Request\r\n"));
    drop(ended);
    let is_free = (0..1_000).any(|_| {
        let mut next = recorder.connect();
        let sent = next.write_all(b"GET http://a/ HTTP/1.1\r\nHost: localhost\r\n\r\n").is_ok();
        let mut answer = [0; 12];
        sent && next.read_exact(&mut answer).is_ok() && &answer == b"HTTP/1.1 400"
    });
    assert!(is_free, "the place of a connection stays taken");
}

pub(crate) fn bytes_before_an_error_are_forwarded() {
    let folder = Folder::new("listen-cut");
    let file = folder.file("a.jsonl");
    let (server, url) = Server::start();
    let recorder = Listening::start(&file, &url, &[]);
    let head_of = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let cut = "the connection was closed within a body";
    // Wrong chunks, and bodies that end within the fields after them, each with what the other side gets of them. The
    // recorder frames the first event of a stream itself, without the carriage return of an empty line.
    let rows = [
        ("3\r\nabc\r\nx", "3\r\nabc\r\n", "3\r\nabc\r\n", "the size of a chunk is no number"),
        ("3\r\nabc\r\n0\r\n\r", "3\r\nabc\r\n0\r\n\r", "3\r\nabc\r\n", cut),
        ("3\r\nabc\r\n0\r\nA: b\r\n", "3\r\nabc\r\n0\r\nA: b\r\n", "3\r\nabc\r\n0\r\nA: b\r\n", cut),
        (
            "3\r\nabc\r\n0\r\nA: b\r\nC: d\re",
            "3\r\nabc\r\n0\r\nA: b\r\nC: d\r",
            "3\r\nabc\r\n0\r\nA: b\r\nC: d\r",
            "a field after the body",
        ),
    ];
    for (number, (sent, forwarded, streamed, why)) in rows.into_iter().enumerate() {
        let mut client = recorder.connect();
        let post = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.write_all(format!("{post}{sent}").as_bytes()).expect("it is read");
        client.shutdown(Shutdown::Write).expect("it is open");
        let mut at_server = server.accept();
        head(&mut at_server);
        assert_eq!(rest(&mut at_server), forwarded);
        let exchange = 3 * number as u64 + 1;
        recorded(&file, &format!("\"exchange\":{exchange},\"failed\":\"{why}"));
        assert_eq!(part(&file, exchange, "request-body"), b"abc");
        for (more, (head_of, forwarded)) in [(head_of, forwarded), (stream, streamed)].into_iter().enumerate() {
            let mut client = recorder.connect();
            client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is read");
            let mut at_server = server.accept();
            head(&mut at_server);
            at_server.write_all(format!("{head_of}{sent}").as_bytes()).expect("it is read");
            at_server.shutdown(Shutdown::Write).expect("it is open");
            assert_eq!(rest(&mut client), format!("{head_of}{forwarded}"));
            assert_eq!(part(&file, exchange + 1 + more as u64, "response-body"), b"abc");
        }
    }
}

pub(crate) fn a_wrong_request_leaves_earlier_responses() {
    let folder = Folder::new("listen-earlier");
    let file = folder.file("a.jsonl");
    let (server, url) = Server::start();
    let recorder = Listening::start(&file, &url, &[]);
    for (number, wrong) in
        ["POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx", "GET / HT"].iter().enumerate()
    {
        let wrong = wrong.replace("Host: a", "Host: localhost");
        let mut client = recorder.connect();
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is read");
        let mut at_server = server.accept();
        head(&mut at_server);
        client.write_all(wrong.as_bytes()).expect("it is read");
        client.shutdown(Shutdown::Write).expect("it is open");
        // The server reads the end of the requests, so the recorder has dealt with the wrong one.
        rest(&mut at_server);
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        at_server.write_all(answer).expect("it is read");
        drop(at_server);
        assert_eq!(rest(&mut client).as_bytes(), answer, "{number}");
    }
    let ends = entries(&file).iter().filter(|entry| entry["end"] == true && entry["from"] == "server").count();
    assert_eq!(ends, 2, "both responses are whole");
}

/// With few descriptors there are few connections, and each of them reaches the server.
#[cfg(unix)]
pub(crate) fn connections_are_bounded_by_descriptors() {
    let folder = Folder::new("listen-descriptors");
    let file = folder.file("a.jsonl");
    let (server, url) = Server::start();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_mcp")]);
    let recorder = Listening::start_with(shell, &file, &url, &[]);
    // Three quarters of the descriptors, two for each connection.
    let mut open = Vec::new();
    for _ in 0..64 / 4 * 3 / 2 {
        let mut client = recorder.connect();
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is read");
        let mut at_server = server.accept();
        head(&mut at_server);
        at_server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").expect("it is read");
        assert!(head(&mut client).starts_with("HTTP/1.1 200 OK\r\n"));
        open.push((client, at_server));
    }
    let mut refused = recorder.connect();
    assert!(rest(&mut refused).starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
}
