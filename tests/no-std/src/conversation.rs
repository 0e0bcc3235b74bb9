//! A client and a server in memory: a handshake, a call that asks back and reports progress, a call that runs out of
//! time, the end.

use alloc::vec::Vec;
use core::panic::Location;
use core::time::Duration;

use mcp_proto::codec::LineDecoder;
use mcp_proto::connection::{
    CancelCause, Client, ClientConfig, Connection, Event, Outcome, RequestOptions, Server, ServerConfig,
};
use mcp_proto::protocol::{Capability, Method, MethodName, ProtocolVersion};
use mcp_proto::rpc::{ReplyKey, Timestamp};
use mcp_proto::schema::{CallToolParams, CallToolResult, Implementation, ListRootsParams, ListRootsResult, Root};

/// One end and what it has read but not decoded.
struct End<E> {
    conn: Connection<E>,
    lines: LineDecoder,
    out: Vec<u8>,
}

impl<E> End<E> {
    fn new(conn: Connection<E>) -> Self {
        Self { conn, lines: LineDecoder::new(1 << 16), out: Vec::new() }
    }

    /// Hands over what this end has written, and gives the events that this causes at the other one.
    fn write<F>(&mut self, now: Timestamp, other: &mut End<F>) -> Vec<Event<'static>> {
        while self.conn.poll_transmit(&mut self.out).is_some() {}
        other.lines.feed(&self.out);
        self.out.clear();
        let mut events = Vec::new();
        while let Some(frame) = other.lines.next_frame() {
            events.extend(other.conn.handle_frame(now, frame).map(Event::into_owned));
        }
        while let Some(event) = other.conn.poll_event() {
            events.push(event);
        }
        events
    }
}

/// The key of the request of `method` that is the only event.
fn only_request(events: &[Event<'_>], method: Method) -> Option<ReplyKey> {
    match events {
        [Event::Request { key, method: MethodName::Known(found), .. }] if *found == method => Some(*key),
        _ => None,
    }
}

/// The line at which something went another way than it should.
pub(crate) struct Wrong(pub(crate) u32);

/// What `value` holds.
#[track_caller]
fn some<T>(value: Option<T>) -> Result<T, Wrong> {
    value.ok_or(Wrong(Location::caller().line()))
}

/// What `value` is if all is well.
#[track_caller]
fn good<T, E>(value: Result<T, E>) -> Result<T, Wrong> {
    value.or(Err(Wrong(Location::caller().line())))
}

#[track_caller]
fn sure(holds: bool) -> Result<(), Wrong> {
    some(holds.then_some(()))
}

pub(crate) fn conversation() -> Result<(), Wrong> {
    let mut now = Timestamp::ZERO;
    let mut config = ClientConfig::new(Implementation::new("client", "1"), 1);
    config.capabilities = config.capabilities.with(Capability::Roots);
    let mut client = End::new(Client::new(config, now));
    let mut config = ServerConfig::new(Implementation::new("server", "1"), 1);
    config.capabilities = config.capabilities.with(Capability::Tools);
    let mut server = End::new(Server::new(config, now));

    sure(client.write(now, &mut server).is_empty())?;
    sure(server.write(now, &mut client) == [Event::Ready])?;
    sure(client.write(now, &mut server) == [Event::Ready])?;
    sure(server.conn.version() == Some(ProtocolVersion::LATEST_LEGACY))?;

    // The tool asks for the roots before it answers.
    let requested = good(client.conn.request(now, &CallToolParams::new("where"), RequestOptions::default()))?;
    let tool = some(only_request(&client.write(now, &mut server), Method::CallTool))?;
    let server_request = good(server.conn.request(now, &ListRootsParams::default(), RequestOptions::default()))?;
    let key = some(only_request(&server.write(now, &mut client), Method::ListRoots))?;
    good(client.conn.respond(key, &ListRootsResult::new([Root::new("file:///home")])))?;
    let events = client.write(now, &mut server);
    let [Event::Response { call, outcome: Outcome::Result(roots) }] = events.as_slice() else { return sure(false) };
    sure(*call == server_request)?;
    let roots: ListRootsResult = good(roots.decode())?;
    good(server.conn.progress(tool, 1.0, None, None))?;
    good(server.conn.respond(tool, &CallToolResult::text(some(roots.roots.first())?.uri.as_str())))?;
    let events = server.write(now, &mut client);
    let [Event::Progress { .. }, Event::Response { call, outcome: Outcome::Result(result) }] = events.as_slice() else {
        return sure(false);
    };
    sure(*call == requested)?;
    let result: CallToolResult = good(result.decode())?;
    sure(some(result.content.first())?.as_text() == Some("file:///home"))?;

    // This one is not answered.
    let within = RequestOptions::within(Duration::from_secs(1));
    let late = good(client.conn.request(now, &CallToolParams::new("where"), within))?;
    let key = some(only_request(&client.write(now, &mut server), Method::CallTool))?;
    now = some(client.conn.poll_timeout())?.at;
    client.conn.handle_timeout(now);
    let event = some(client.conn.poll_event())?;
    sure(event == Event::Response { call: late, outcome: Outcome::TimedOut { total: true } })?;
    let events = client.write(now, &mut server);
    let [Event::Cancelled { key: cancelled, cause: CancelCause::Peer(_) }] = events.as_slice() else {
        return sure(false);
    };
    sure(*cancelled == key)?;
    good(server.conn.respond(key, &CallToolResult::text("too late")))?;
    sure(server.write(now, &mut client).is_empty())?;

    client.conn.close(now);
    client.write(now, &mut server);
    server.conn.handle_eof(now);
    server.write(now, &mut client);
    while client.conn.poll_event().is_some() || server.conn.poll_event().is_some() {}
    sure(client.conn.is_drained() && server.conn.is_drained())
}
