//! A service and its connection on one thread, for counting what a call costs.

use std::sync::{Arc, Mutex};

use mcp_proto::{
    codec::Frame,
    connection::{Connection, Event, Server, ServerRole},
    rpc::Timestamp,
};
use mcp_service::{
    ServerSession, ServiceBuilder,
    driver_api::{Application, ConnectionHandle, Waiters},
};

/// A connection on one thread.
struct Wire {
    connection: Mutex<Server>,
    waiters: Waiters,
}

impl ConnectionHandle<ServerRole> for Wire {
    fn with_mut(&self, f: &mut dyn FnMut(&mut Connection<ServerRole>, Timestamp)) {
        f(&mut self.connection.lock().expect("no panic"), Timestamp::ZERO);
    }

    fn with_ref(&self, f: &mut dyn FnMut(&Connection<ServerRole>)) {
        f(&self.connection.lock().expect("no panic"));
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }
}

/// Handles a frame, runs its job, and writes the output to `out`.
fn exchange(
    wire: &Wire,
    connection: &Arc<dyn ConnectionHandle<ServerRole>>,
    session: &ServerSession,
    frame: &str,
    out: &mut Vec<u8>,
) {
    let event = wire.connection.lock().expect("no panic").handle_frame(Timestamp::ZERO, Frame::new(frame.as_bytes()));
    if let Some(job) = event.and_then(|event: Event<'_>| session.handle(connection, event)) {
        job.run();
    }
    out.clear();
    while wire.connection.lock().expect("no panic").poll_transmit(out).is_some() {}
}

/// Returns a function that sends a frame to a service and checks that the output contains a text.
pub(crate) fn connect<S: Send + Sync + 'static>(builder: ServiceBuilder<S>) -> impl FnMut(&str, &str) {
    let service = builder.build().expect("two tools");
    let session = service.session();
    let server = Server::new(service.config(), Timestamp::ZERO);
    let wire = Arc::new(Wire { connection: Mutex::new(server), waiters: Waiters::new() });
    let connection: Arc<dyn ConnectionHandle<ServerRole>> = wire.clone();
    let mut out = Vec::new();
    let mut send = move |frame: &str, expected: &str| {
        exchange(&wire, &connection, &session, frame, &mut out);
        assert!(std::str::from_utf8(&out).expect("text").contains(expected), "{:?}", String::from_utf8_lossy(&out));
    };
    send(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#,
        "2025-06-18",
    );
    send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "");
    send
}

/// Returns a call of a tool with one argument, `message`.
pub(crate) fn call(tool: &str, message: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"message":"{message}"}}}}}}"#
    )
}
