//! The allocations of a small call in a service, besides those of the connection.

use std::sync::{Arc, Mutex};

use allocation_counter::measure;
use mcp_proto::{
    codec::Frame,
    connection::{Connection, Event, Server, ServerRole},
    rpc::Timestamp,
    wire::JsonObject,
};
use mcp_service::{Application, ConnectionHandle, ServerSession, Service, Tool, Waiters};

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

#[test]
fn small_call_allocates_once() {
    #[derive(serde::Deserialize)]
    struct Echo {
        message: String,
    }
    let schema = || {
        let schema = r#"{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}"#;
        JsonObject::parse(schema).expect("an object")
    };
    let service = Service::builder("test", "1")
        .tool(Tool::with_schema("sync", schema(), |echo: Echo| echo.message))
        .tool(Tool::with_schema_async("async", schema(), async |echo: Echo| echo.message))
        .build()
        .expect("two tools");
    let session = service.session();
    let server = Server::new(service.config(), Timestamp::ZERO);
    let wire = Arc::new(Wire { connection: Mutex::new(server), waiters: Waiters::new() });
    let connection: Arc<dyn ConnectionHandle<ServerRole>> = wire.clone();
    let mut out = Vec::new();
    let mut exchange = |frame: &str, expected: &str| {
        exchange(&wire, &connection, &session, frame, &mut out);
        assert!(std::str::from_utf8(&out).expect("text").contains(expected), "{:?}", String::from_utf8_lossy(&out));
    };
    exchange(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#,
        "2025-06-18",
    );
    exchange(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "");
    for tool in ["sync", "async"] {
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"message":"thirty-two bytes, as it happens"}}}}}}"#
        );
        let answer = r#"{"content":[{"type":"text","text":"thirty-two bytes, as it happens"}]}"#;
        exchange(&call, answer);
        // Each call allocates the result text of the handler. The entry of the call is reused.
        let calls = 100;
        let allocated = measure(|| (0..calls).for_each(|_| exchange(&call, answer)));
        assert_eq!(allocated.count_total, calls, "{tool}");
        assert_eq!(allocated.bytes_current, 0, "{tool}");
    }
}
