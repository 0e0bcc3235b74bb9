//! Tests of `mcp record --listen` with clients and servers whose bytes are known.

pub(crate) mod ends;
mod sides;

use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use mcp_proto::schema::decode_base64;
use serde_json::Value;
pub(crate) use sides::Listening;
use sides::Server;

use crate::{
    Mcp,
    bridge::Bridge,
    mcp,
    recorder::{Folder, entries},
};

/// How long a test waits for bytes.
const WAIT: Duration = Duration::from_secs(60);

/// Reads exactly as many bytes as are expected, and compares them.
fn expect(socket: &mut TcpStream, expected: &[u8]) {
    let mut read = vec![0; expected.len()];
    socket.read_exact(&mut read).expect("bytes");
    assert_eq!(String::from_utf8_lossy(&read), String::from_utf8_lossy(expected));
}

/// Reads until the end.
fn rest(socket: &mut TcpStream) -> String {
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).expect("bytes");
    String::from_utf8_lossy(&rest).into_owned()
}

/// Reads a head.
fn head(socket: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("text")
}

/// Returns the bytes of a part of an exchange.
fn part(file: &Path, exchange: u64, stream: &str) -> Vec<u8> {
    let of = |entry: &Value| match (entry["text"].as_str(), entry["base64"].as_str()) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (_, Some(text)) => decode_base64(text).expect("base64"),
        _ => Vec::new(),
    };
    let is_it = |entry: &&Value| entry["exchange"] == exchange && entry["stream"] == stream;
    entries(file).iter().filter(is_it).flat_map(of).collect()
}

/// Waits until a record has a line with this text.
fn recorded(file: &Path, text: &str) {
    for _ in 0..6_000 {
        if fs::read_to_string(file).expect("a record").contains(text) {
            return;
        }
        thread::yield_now();
        thread::park_timeout(Duration::from_millis(10));
    }
    panic!("{text} is not in {}", fs::read_to_string(file).expect("a record"));
}

pub(crate) fn no_byte_is_changed_but_the_host() {
    let folder = Folder::new("listen-bytes");
    let file = folder.file("a.jsonl");
    let (server, url) = Server::start();
    let recorder = Listening::start(&file, &url, &["--no-mask"]);
    let mut client = recorder.connect();
    let (own, other) = (recorder.address.clone(), server.authority());
    let binary: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    let chunked = [&b"3;x=\"y\"\r\nabc\r\n"[..], b"30d40\r\n", &binary, b"\r\n0\r\nTrailer: z\r\n\r\n"].concat();

    // A chunked request that waits for the server, and a chunked response with a trailer.
    let request = |host: &str| {
        format!(
            "POST /mcp?a=b HTTP/1.1\r\nhOsT:\t{host} \r\nX-Odd:  a  b\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
    };
    client.write_all(request(&own).as_bytes()).expect("it is read");
    let mut at_server = server.accept();
    // The blank at the end of a value is no part of it.
    expect(&mut at_server, request(&other).as_bytes());
    at_server.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").expect("it is read");
    expect(&mut client, b"HTTP/1.1 100 Continue\r\n\r\n");
    let writer = {
        let (mut client, chunked) = (client.try_clone().expect("a copy"), chunked.clone());
        thread::spawn(move || client.write_all(&chunked).expect("it is read"))
    };
    expect(&mut at_server, &chunked);
    writer.join().expect("it is written");
    let response =
        [&b"HTTP/1.1 200 Fine by me\r\ntransfer-encoding: CHUNKED\r\nSet-Cookie: a=b\r\n\r\n"[..], &chunked].concat();
    let writer = {
        let (mut at_server, response) = (at_server.try_clone().expect("a copy"), response.clone());
        thread::spawn(move || at_server.write_all(&response).expect("it is read"))
    };
    expect(&mut client, &response);
    writer.join().expect("it is written");

    // Responses without a body, on the same connection.
    for (method, answer) in [
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 70\r\n\r\n"),
        ("DELETE", "HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 70\r\n\r\n"),
        ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"),
    ] {
        let request = |host: &str| format!("{method} / HTTP/1.1\r\nHost: {host}\r\nConnection: keep-alive\r\n\r\n");
        client.write_all(request(&own).as_bytes()).expect("it is read");
        expect(&mut at_server, request(&other).as_bytes());
        at_server.write_all(answer.as_bytes()).expect("it is read");
        expect(&mut client, answer.as_bytes());
    }
    // Two requests at once, and a body that ends with the connection.
    let pair = |host: &str| format!("GET /1 HTTP/1.1\r\nHost: {host}\r\n\r\nGET /2 HTTP/1.1\r\nHost: {host}\r\n\r\n");
    client.write_all(pair(&own).as_bytes()).expect("it is read");
    expect(&mut at_server, pair(&other).as_bytes());
    let answers = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1HTTP/1.0 200 OK\r\n\r\nuntil the end";
    at_server.write_all(answers).expect("it is read");
    at_server.shutdown(Shutdown::Write).expect("it is open");
    expect(&mut client, answers);
    assert_eq!(rest(&mut client), "");

    let content = [&b"abc"[..], &binary].concat();
    assert!(part(&file, 1, "request-body") == content && part(&file, 1, "response-body") == content);
    assert_eq!(part(&file, 1, "request-head"), request(&own).into_bytes());
    assert_eq!(part(&file, 1, "request-trailer"), b"Trailer: z\r\n");
    let heads = String::from_utf8(part(&file, 1, "response-head")).expect("text");
    assert!(heads.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 Fine by me\r\n"), "{heads}");
    assert_eq!(part(&file, 7, "response-body"), b"until the end");
    let ends = entries(&file).iter().filter(|entry| entry["end"] == true && entry["from"] == "server").count();
    assert_eq!(ends, 7, "each response has ended");
}

pub(crate) fn secrets_of_http_are_masked() {
    let folder = Folder::new("listen-masks");
    let file = folder.file("a.jsonl");
    let (server, url) = Server::start();
    let recorder = Listening::start(&file, &format!("{url}?key=canary"), &[]);
    assert!(recorder.url.ends_with("/mcp?key=canary"), "the client needs the query: {}", recorder.url);
    let mut client = recorder.connect();
    let body = "{\"password\":\"canary\",\"id\":1}";
    let form = "code=canary&client_id=me";
    let request = format!(
        "POST /mcp?key=canary HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer canary\r\nCookie: s=canary\r\n\
         Mcp-Session-Id: canary-1\r\nProxy-Authorization: Basic canary\r\nX-Api-Key: canary\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}POST /token HTTP/1.1\r\nHost: localhost\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}\
         GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n",
        body.len(),
        form.len(),
    );
    let mut writer = client.try_clone().expect("a copy");
    let bytes = request.clone();
    // Byte by byte, so that each secret is cut at each place.
    let writer =
        thread::spawn(move || bytes.as_bytes().iter().for_each(|byte| writer.write_all(&[*byte]).expect("it is read")));
    let mut at_server = server.accept();
    expect(&mut at_server, request.replace("Host: localhost", &format!("Host: {}", server.authority())).as_bytes());
    writer.join().expect("it is written");
    let answer = "HTTP/1.1 200 OK\r\nMcp-Session-Id: canary-1\r\nSet-Cookie: s=canary\r\nContent-Type: application/json\r\n\
                  Content-Length: 25\r\n\r\n{\"access_token\":\"canary\"}HTTP/1.1 302 Found\r\n\
                  Location: https://other/?state=canary\r\nContent-Length: 0\r\n\r\n\
                  HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\ndata: /m?sessionId=canary-2\n\n\
                  data: {\"token\":\"canary\"}\n\n";
    for byte in answer.as_bytes() {
        at_server.write_all(&[*byte]).expect("it is read");
    }
    at_server.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(rest(&mut client), answer, "what is forwarded is not masked");
    let text = fs::read_to_string(&file).expect("a record");
    assert!(!text.contains("canary"), "{text}");
    let head = |exchange| String::from_utf8(part(&file, exchange, "request-head")).expect("text");
    assert!(
        head(1).starts_with("POST /mcp?key=id-1 HTTP/1.1") && head(1).contains("Mcp-Session-Id: id-2"),
        "{}",
        head(1)
    );
    let answered = String::from_utf8(part(&file, 1, "response-head")).expect("text");
    assert!(answered.contains("Mcp-Session-Id: id-2\r\n"), "the same id has the same name: {answered}");
    assert_eq!(part(&file, 1, "request-body"), b"{\"password\":\"***\",\"id\":1}");
    assert!(part(&file, 2, "request-body").starts_with(b"code=id-1&client_id=id-"));
    let stream = String::from_utf8(part(&file, 3, "response-body")).expect("text");
    assert!(stream.contains("data: /m?sessionId=id-") && stream.ends_with("data: {\"token\":\"***\"}\n\n"), "{stream}");
}

pub(crate) fn compressed_bodies_are_not_recorded_with_masks() {
    let folder = Folder::new("listen-gzip");
    for (more, accept, is_recorded) in
        [(&[][..], "gzip", false), (&["--no-mask"][..], "gzip", true), (&["--no-compression"][..], "identity", false)]
    {
        let file = folder.file(&format!("{}.jsonl", more.len() + accept.len()));
        let (server, url) = Server::start();
        let recorder = Listening::start(&file, &url, more);
        let mut client = recorder.connect();
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n").expect("it is read");
        let mut at_server = server.accept();
        let request = head(&mut at_server);
        assert!(request.contains(&format!("Accept-Encoding: {accept}\r\n")), "{request}");
        let answer = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 6\r\n\r\ncanary";
        at_server.write_all(answer.as_bytes()).expect("it is read");
        expect(&mut client, answer.as_bytes());
        let text = fs::read_to_string(&file).expect("a record");
        assert_eq!((text.contains("canary"), text.contains("\"omitted\":6")), (is_recorded, !is_recorded), "{text}");
    }
}

/// Returns a response without the framing of its chunks.
fn without_chunks(response: &str) -> String {
    let (head, mut body) = response.split_once("\r\n\r\n").expect("a head");
    if !head.contains("Transfer-Encoding: chunked") {
        return response.to_owned();
    }
    let mut out = format!("{head}\r\n\r\n");
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a size");
        out.push_str(&rest[..size]);
        body = rest[size..].strip_prefix("\r\n").expect("the end of a chunk");
        if size == 0 {
            break;
        }
    }
    assert_eq!(body, "", "nothing follows the last chunk");
    out
}

pub(crate) fn addresses_of_the_server_lead_to_the_recorder() {
    let folder = Folder::new("listen-endpoint");
    let file = folder.file("a.jsonl");
    let (server, url) = Server::start();
    let recorder = Listening::start(&file, &url, &[]);
    let (own, other) = (&recorder.address, server.authority());
    let answers = |host: &str| {
        let events = format!("event: endpoint\r\ndata: http://{host}/m?a=b\r\n\r\n");
        let later = format!("data: http://{host}/\n\n");
        let chunk = |data: &str| format!("{:x}\r\n{data}\r\n", data.len());
        let stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
        [
            format!("HTTP/1.1 307 Moved\r\nLocation: http://{host}/x\r\nContent-Length: 0\r\n\r\n"),
            format!("{stream}Transfer-Encoding: chunked\r\n\r\n{}{}0\r\n\r\n", chunk(&events), chunk(&later)),
            format!("{stream}\r\n{events}{later}"),
        ]
    };
    for (at, (answer, expected)) in answers(&other).into_iter().zip(answers(own)).enumerate() {
        let mut client = recorder.connect();
        let origin = if at == 0 { "http://other.example".to_owned() } else { format!("http://{own}") };
        client
            .write_all(format!("GET /sse HTTP/1.1\r\nHost: {own}\r\nOrigin: {origin}\r\n\r\n").as_bytes())
            .expect("it is read");
        let mut at_server = server.accept();
        let request = head(&mut at_server);
        let origin = if at == 0 { origin } else { format!("http://{other}") };
        assert_eq!(request, format!("GET /sse HTTP/1.1\r\nHost: {other}\r\nOrigin: {origin}\r\n\r\n"));
        at_server.write_all(answer.as_bytes()).expect("it is read");
        at_server.shutdown(Shutdown::Write).expect("it is open");
        // Only the first event is an address.
        let (later, wrong) = (format!("data: http://{other}/\n"), format!("data: http://{own}/\n"));
        assert_eq!(without_chunks(&rest(&mut client)), without_chunks(&expected).replace(&wrong, &later));
        let recorded =
            [part(&file, at as u64 + 1, "response-head"), part(&file, at as u64 + 1, "response-body")].concat();
        let text = String::from_utf8(recorded).expect("text");
        assert!(text.contains(&format!("http://{other}/")), "the record has what the server sent: {text}");
    }
}

pub(crate) fn sides_that_hang_up_end_their_exchange() {
    let folder = Folder::new("listen-ends");
    let file = folder.file("a.jsonl");
    let (server, url) = Server::start();
    let recorder = Listening::start(&file, &url, &[]);
    // Another exchange, which goes on.
    let mut other = recorder.connect();
    other.write_all(b"GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is read");
    let mut at_other = server.accept();
    assert!(head(&mut at_other).starts_with("GET /other "));

    let stream = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut client = recorder.connect();
    client.write_all(b"GET /2 HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is read");
    let mut at_server = server.accept();
    head(&mut at_server);
    at_server.write_all(stream).expect("it is read");
    expect(&mut client, stream);
    drop(client);
    assert_eq!(rest(&mut at_server), "", "the server reads the end of the client");
    // It ends the response, which has no end of its own then.
    drop(at_server);
    recorded(&file, "\"exchange\":2,\"failed\":\"the connection was closed\",\"from\":\"client\"");

    let mut client = recorder.connect();
    client.write_all(b"GET /3 HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is read");
    let mut at_server = server.accept();
    head(&mut at_server);
    at_server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").expect("it is read");
    drop(at_server);
    assert!(rest(&mut client).ends_with("half"));
    recorded(&file, "\"exchange\":3,\"failed\":\"the connection was closed within a body\",\"from\":\"server\"");

    let mut client = recorder.connect();
    client.write_all(b"POST /4 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf").expect("it is read");
    let mut at_server = server.accept();
    head(&mut at_server);
    drop(client);
    assert_eq!(rest(&mut at_server), "half");
    recorded(&file, "\"exchange\":4,\"failed\":\"the connection was closed within a body\",\"from\":\"client\"");

    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    at_other.write_all(answer).expect("it is read");
    expect(&mut other, answer);
}

pub(crate) fn a_stalled_reader_stops_only_its_exchange() {
    let folder = Folder::new("listen-stalled");
    let file = folder.file("a.jsonl");
    let (server, url) = Server::start();
    let recorder = Listening::start(&file, &url, &["--no-mask"]);
    let mut stalled = recorder.connect();
    stalled.write_all(b"GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is read");
    let mut at_stalled = server.accept();
    head(&mut at_stalled);
    #[cfg(target_os = "linux")]
    let before = recorder.kib();
    let (sender, is_blocked): (_, Receiver<usize>) = mpsc::channel();
    thread::spawn(move || {
        let _ = at_stalled.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        at_stalled.set_write_timeout(Some(Duration::from_millis(500))).expect("a timeout");
        let (chunk, mut written) = (vec![b'x'; 1 << 20], 0);
        while let Ok(len) = at_stalled.write(&chunk) {
            written += len;
            if written > 1 << 30 {
                break;
            }
        }
        let _ = sender.send(written);
        // Held until the test has ended.
        thread::park_timeout(WAIT);
    });
    let mut client = recorder.connect();
    client.write_all(b"GET /1 HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is read");
    let mut at_server = server.accept();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    for _ in 0..100 {
        head(&mut at_server);
        at_server.write_all(answer).expect("it is read");
        expect(&mut client, answer);
        client.write_all(b"GET /1 HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is read");
    }
    // What the system holds for four sockets differs from machine to machine, and what the recorder holds does not.
    let written = is_blocked.recv_timeout(WAIT).expect("the server cannot write any more");
    assert!(written < 100 << 20, "the recorder reads no more than it writes: {written}");
    #[cfg(target_os = "linux")]
    {
        let grown = recorder.kib().saturating_sub(before);
        assert!(grown < 2 << 10, "the recorder holds no bytes of a body: {grown} KiB");
    }
    head(&mut at_server);
    at_server.write_all(answer).expect("it is read");
    expect(&mut client, answer);
    drop(stalled);
}

pub(crate) fn nothing_is_lost_when_the_http_recorder_is_killed() {
    let folder = Folder::new("listen-killed");
    let file = folder.file("a.jsonl");
    let (server, url) = Server::start();
    let mut recorder = Listening::start(&file, &url, &[]);
    let mut client = recorder.connect();
    client.write_all(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200\r\n\r\n").expect("it is read");
    let mut at_server = server.accept();
    head(&mut at_server);
    for number in 1..=200 {
        client.write_all(b"x").expect("it is read");
        at_server.read_exact(&mut [0]).expect("a byte");
        assert_eq!(part(&file, 1, "request-body").len(), number, "bytes are recorded before they are forwarded");
    }
    at_server.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").expect("it is read");
    head(&mut client);
    let mut received = Vec::new();
    for number in 0..200 {
        let event = format!("data: {{\"number\":{number}}}\n\n");
        at_server.write_all(event.as_bytes()).expect("it is read");
        let mut bytes = vec![0; event.len()];
        client.read_exact(&mut bytes).expect("an event");
        received.extend(bytes);
        assert!(part(&file, 1, "response-body") == received, "bytes are recorded before they are forwarded");
    }
    recorder.process.kill().expect("it runs");
    recorder.process.wait().expect("it ends");
    assert!(part(&file, 1, "response-body") == received);
    let (code, out, _) = mcp(&["replay", file.to_str().expect("UTF-8")]);
    assert!(code == 0 && out.contains("No rule was broken"), "{out}");
}

pub(crate) fn wrong_requests_are_refused() {
    let folder = Folder::new("listen-wrong");
    let file = folder.file("a.jsonl");
    let (server, url) = Server::start();
    let recorder = Listening::start(&file, &url, &["--max-bytes", "4096"]);
    let long = format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(70_000));
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421 Misdirected Request"),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nbroken\r\n\r\n", "400 Bad Request"),
        ("GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", "400 Bad Request"),
        (&long, "431 Request Header Fields Too Large"),
    ] {
        let mut client = recorder.connect();
        client.write_all(request.as_bytes()).expect("it is read");
        client.shutdown(Shutdown::Write).expect("it is open");
        let answer = rest(&mut client);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{answer}");
    }
    recorded(&file, "\"answered\":421");
    // A server that is not there, and a record that is full.
    drop(server);
    for _ in 0..30 {
        let mut client = recorder.connect();
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nA: b\r\n\r\n").expect("it is read");
        assert!(head(&mut client).starts_with("HTTP/1.1 502 Bad Gateway\r\n"));
    }
    assert!(fs::metadata(&file).expect("a record").len() <= 4096);
    assert!(entries(&file).last().expect("an entry")["stopped"].is_string());
    for (arguments, why) in [
        (&["record", "--listen", "0.0.0.0:0", "http://localhost/"][..], "it listens at loopback addresses only"),
        (&["record", "--listen", "127.0.0.1:0", "nonsense"][..], "is not the address of an HTTP server"),
        (&["record", "--listen", "127.0.0.1:0"][..], "required"),
        (&["record", "http://localhost/"][..], "--listen"),
        (&["record", "--listen", "127.0.0.1:0", "http://a/", "--", "true"][..], "cannot be used with"),
    ] {
        let (code, _, error) = mcp(arguments);
        assert!(code == 2 && error.contains(why), "{arguments:?}: {error}");
    }
}

pub(crate) fn killed_servers_leave_requests_without_a_response() {
    for (era, path) in [("legacy", "/mcp"), ("modern", "/mcp"), ("legacy", "/sse")] {
        let folder = Folder::new("listen-server");
        let file = folder.file("a.jsonl");
        let bridge = Bridge::start(&[]);
        let recorder = Listening::start(&file, &bridge.url, &[]);
        let url = recorder.url.replace("/mcp", path);
        let mut client = Command::new(env!("CARGO_BIN_EXE_mcp"));
        client.args(["--era", era, "call", &url, "wait", "--timeout", "60", "--quiet"]).stderr(Stdio::null());
        let mut client = client.spawn().expect("it runs");
        recorded(&file, "\\\"name\\\":\\\"wait\\\"");
        bridge.kill();
        // A client over HTTP may try to reconnect for a while.
        recorded(&file, "\",\"from\":\"server\",\"t\":");
        client.kill().expect("it runs or has ended");
        client.wait().expect("it ends");
        let (code, out, error) = mcp(&["replay", file.to_str().expect("UTF-8")]);
        assert_eq!((code, &*error), (0, ""), "{era} {path}: {out}");
        let (_, open) = out.split_once("Requests without a response:").expect(&out);
        assert!(open.contains("tools/call") && open.contains(" wait of the client: "), "{era} {path}: {open}");
        assert!(out.contains("the server ended the exchange: "), "{era} {path}: {out}");
    }
}

/// Everything that the program does over HTTP breaks no rule that its records show.
pub(crate) fn own_sessions_over_http_break_no_rule(run: &Mcp) {
    let folder = Folder::new("listen-own");
    let bridge = Bridge::start(&[]);
    for path in ["/mcp", "/sse"] {
        let file = folder.file(&format!("{}.jsonl", &path[1..]));
        let recorder = Listening::start(&file, &bridge.url, &[]);
        let url = recorder.url.replace("/mcp", path);
        let commands: &[&[&str]] = &[
            &["list"],
            &["call", "work"],
            &["call", "sign.up", "--answer", "name=Ada"],
            &["call", "think", "--sample", "4"],
            &["call", "echo", "times=x"],
            &["call", "echo", "message=the password=canary"],
            &["read", "shop://users/7"],
            &["read", "shop://none"],
            &["call", "wait", "--timeout", "1"],
        ];
        let mut count = 0;
        for command in commands {
            let (name, more) = command.split_first().expect("a command");
            let (code, out, error) = run(&[&[name, &*url, "--bearer", "canary"], more].concat());
            if path == "/sse" && code == 3 {
                // A client of 2026-07-28 only.
                continue;
            }
            count += 1;
            assert_ne!(code, 3, "{command:?}: {out} {error}");
        }
        // Several clients at once.
        let clients: Vec<_> = (0..4)
            .map(|number| {
                let mut client = Command::new(env!("CARGO_BIN_EXE_mcp"));
                client.args(["call", &url, "echo", &format!("message={number}")]).stdout(Stdio::piped());
                client.spawn().expect("it runs")
            })
            .collect();
        for (number, client) in clients.into_iter().enumerate() {
            let output = client.wait_with_output().expect("it ends");
            assert_eq!(String::from_utf8(output.stdout).expect("text"), format!("{number}\n"));
        }
        let record = fs::read_to_string(&file).expect("a record");
        assert!(!record.contains("canary"), "{record}");
        drop(recorder);
        let name = file.to_str().expect("UTF-8");
        let (code, out, error) = mcp(&["replay", "--json", name]);
        assert_eq!((code, &*error), (0, ""), "{out}");
        let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let kinds = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).count();
        assert!(kinds("request") > count && kinds("result") > 4, "{path} {count}: {out}");
        assert_eq!(kinds("invalid"), 0, "{out}");
        let end = lines.last().expect("a line");
        assert!(end["kind"] == "end" && end["broken"] == serde_json::json!([]), "{end}");
        let answered = lines.iter().filter(|line| line["kind"] == "result" && line["took"].is_u64()).count();
        assert_eq!(answered, kinds("result"), "each result has its request: {out}");
        assert_eq!(mcp(&["replay", name]), mcp(&["replay", name]), "the output is deterministic");
        let page = folder.file("page.html");
        let (code, _, error) = mcp(&["trace", name, "-o", page.to_str().expect("UTF-8")]);
        assert_eq!(code, 0, "{error}");
        assert!(fs::read_to_string(page).expect("a page").contains("tools/call echo"));
    }
}
