//! The bodies of the fuzz targets: each takes bytes and panics if a property does not hold.
//!
//! They are ordinary functions, so every build compiles them and an ordinary test replays the corpus.

use mcp_proto::{
    codec::{Frame, LineDecoder},
    connection::{Client, ClientConfig, Connection, Event, Server, ServerConfig},
    protocol::ProtocolVersion,
    rpc::Timestamp,
    schema::{Implementation, ServerCapabilities},
    wire::{Message, RequestId},
};
use serde_json::Value;

/// What a target does with its input.
pub type Body = fn(&[u8]);

/// Every target: its name, which is that of its corpus, and its body.
pub const TARGETS: [(&str, Body); 3] = [("lines", lines), ("message", message), ("connection", connection)];

/// However a stream is cut, the same frames come out.
pub fn lines(data: &[u8]) {
    let Some((&limit, stream)) = data.split_first() else { return };
    let decode = |chunks: &mut dyn Iterator<Item = &[u8]>| {
        let mut lines = LineDecoder::new(usize::from(limit));
        let mut seen = Vec::new();
        let mut take = |lines: &mut LineDecoder| {
            while let Some(frame) = lines.next_frame() {
                assert!(frame.bytes().len() <= usize::from(limit));
                assert!(!frame.bytes().contains(&b'\n'));
                seen.push((frame.bytes().to_vec(), frame.end()));
            }
        };
        for chunk in chunks {
            lines.feed(chunk);
            take(&mut lines);
        }
        lines.end();
        take(&mut lines);
        seen
    };
    let whole = decode(&mut std::iter::once(stream));
    assert_eq!(whole, decode(&mut stream.chunks(1)));
    assert_eq!(whole, decode(&mut stream.chunks(7)));
}

/// The envelope parser accepts what is JSON, and agrees with a parser that builds values.
pub fn message(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    let parsed = Message::parse(text, 64);
    let Ok(Value::Object(value)) = serde_json::from_str(text) else {
        assert!(parsed.is_err(), "accepted what is no object: {text}");
        return;
    };
    let Ok(parsed) = parsed else { return };
    assert_eq!(value["jsonrpc"], "2.0");
    let same_id =
        |id: &RequestId| assert_eq!(serde_json::from_str::<Value>(id.as_json()).ok().as_ref(), value.get("id"));
    match parsed {
        Message::Request { id, method, params, .. } => {
            same_id(&id);
            assert_eq!(value["method"], *method);
            assert_eq!(params.is_some(), value.get("params").is_some_and(Value::is_object));
        }
        Message::Notification { method, .. } => {
            assert_eq!(value["method"], *method);
            assert!(!value.contains_key("id"));
        }
        Message::Response { id, result } => {
            same_id(&id);
            assert_eq!(result.decode::<Value>().ok().as_ref(), value.get("result"));
        }
        Message::Error { error, .. } => assert_eq!(value["error"]["message"], *error.message),
    }
}

/// Nothing that comes in breaks a connection, makes it grow, or makes it write anything but messages.
pub fn connection(data: &[u8]) {
    let mut config = ServerConfig::new(Implementation::new("s", "1"));
    config.capabilities = ServerCapabilities::default();
    drive(Server::new(config, Timestamp::ZERO), data);
    drive(Client::new(ClientConfig::new(Implementation::new("c", "1")), Timestamp::ZERO), data);
    let version = ProtocolVersion::LEGACY[data.first().map_or(0, |byte| usize::from(*byte) % 4)];
    let hello = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{{\"protocolVersion\":\"{version}\",\
         \"capabilities\":{{}},\"clientInfo\":{{\"name\":\"c\",\"version\":\"1\"}}}}}}"
    );
    let mut server = Server::new(ServerConfig::new(Implementation::new("s", "1")), Timestamp::ZERO);
    let _ = server.handle_frame(Timestamp::ZERO, Frame::new(hello.as_bytes()));
    assert_eq!(server.version(), Some(version));
    drive(server, data);
}

fn drive<E>(mut conn: Connection<E>, data: &[u8]) {
    let mut lines = LineDecoder::new(4096);
    let mut now = Timestamp::ZERO;
    let mut out = Vec::new();
    for chunk in data.chunks(31) {
        lines.feed(chunk);
        while let Some(frame) = lines.next_frame() {
            if let Some(event) = conn.handle_frame(now, frame) {
                react(&mut conn, event);
            }
        }
        while let Some(event) = conn.poll_event() {
            react(&mut conn, event);
        }
        while let Some(transmit) = conn.poll_transmit(&mut out) {
            let line = &out[out.len() - transmit.len..];
            assert!(serde_json::from_slice::<Value>(line).is_ok(), "no JSON: {}", String::from_utf8_lossy(line));
        }
        out.clear();
        now = now + std::time::Duration::from_millis(100);
        if conn.poll_timeout().is_some_and(|deadline| deadline.at <= now) {
            conn.handle_timeout(now);
        }
    }
    conn.handle_eof(now);
    conn.handle_timeout(now + std::time::Duration::from_secs(3600));
    while let Some(event) = conn.poll_event() {
        react(&mut conn, event);
    }
    while conn.poll_transmit(&mut out).is_some() {}
    assert!(conn.is_drained());
    assert_eq!(conn.usage().calls, 0);
}

/// Half of the requests are answered at once, the others when they are cancelled.
fn react<E>(conn: &mut Connection<E>, event: Event<'_>) {
    match event {
        Event::Request { key, method, .. } if method.as_str().len() % 2 == 0 => {
            let answer = mcp_proto::wire::ErrorObject::method_not_found(method.as_str());
            assert_eq!(conn.respond_error(key, &answer), Ok(()));
        }
        Event::Cancelled { key, .. } => {
            // It may have been answered before the application came to know of it.
            let _ = conn.respond_error(key, &mcp_proto::wire::ErrorObject::internal("stopped"));
        }
        _ => {}
    }
}
