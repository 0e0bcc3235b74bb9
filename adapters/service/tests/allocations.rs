//! The allocations of a call in a service, with and without middleware, besides those of the connection.

use std::sync::{Arc, Mutex};

use allocation_counter::measure;
use mcp_proto::{
    codec::Frame,
    connection::{Connection, Event, Server, ServerRole},
    rpc::Timestamp,
    wire::JsonObject,
};
use mcp_service::{
    Application, Completed, ConnectionHandle, Deferred, Failure, IncomingRequest, Middleware, Next, ServerSession,
    Service, ServiceBuilder, Tool, Waiters,
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

#[derive(serde::Deserialize)]
struct Echo {
    message: String,
}

fn echo() -> ServiceBuilder {
    let schema = || {
        let schema = r#"{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}"#;
        JsonObject::parse(schema).expect("an object")
    };
    Service::builder("test", "1")
        .tool(Tool::with_schema("sync", schema(), |echo: Echo| echo.message))
        .tool(Tool::with_schema_async("async", schema(), async |echo: Echo| echo.message))
}

/// Returns a function that sends a frame to a service and checks that the output contains a text.
fn connect(builder: ServiceBuilder) -> impl FnMut(&str, &str) {
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

fn call(tool: &str, message: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"message":"{message}"}}}}}}"#
    )
}

/// A middleware that does nothing, as a function.
async fn nothing(_: IncomingRequest, next: Next) -> Result<Completed, Failure> {
    Ok(next.run().await)
}

/// A middleware that does nothing, as a type.
struct Nothing;

impl Middleware for Nothing {
    fn handle(&self, _: IncomingRequest, next: Next) -> Deferred<Result<Completed, Failure>> {
        next.run().map(Ok)
    }
}

#[test]
fn small_call_allocates_once() {
    let middleware: [fn(ServiceBuilder) -> ServiceBuilder; 4] = [
        |service| service,
        |service| service.layer(nothing),
        |service| service.with_layer(Nothing),
        |service| service.layer(nothing).with_layer(Nothing).layer(nothing),
    ];
    for (number, add) in middleware.into_iter().enumerate() {
        let mut exchange = connect(add(echo()));
        for tool in ["sync", "async"] {
            let call = call(tool, "thirty-two bytes, as it happens");
            let answer = r#"{"content":[{"type":"text","text":"thirty-two bytes, as it happens"}]}"#;
            exchange(&call, answer);
            // Each call allocates the result text of the handler. The memory of the call and of the futures of its
            // middleware is reused.
            let calls = 100;
            let allocated = measure(|| (0..calls).for_each(|_| exchange(&call, answer)));
            assert_eq!(allocated.count_total, calls, "{tool} with middleware {number}");
            assert_eq!(allocated.bytes_current, 0, "{tool} with middleware {number}");
        }
    }
}

#[test]
fn params_are_copied_once_with_middleware() {
    // Buffers of this size are not kept.
    let message = "x".repeat(20 << 10);
    let call = call("sync", &message);
    let mut allocated = [echo(), echo().layer(nothing)].into_iter().map(|builder| {
        let mut exchange = connect(builder);
        exchange(&call, &message);
        measure(|| exchange(&call, &message)).bytes_total
    });
    let (without, with) = (allocated.next().expect("two of them"), allocated.next().expect("two of them"));
    assert!(without >= 2 * message.len() as u64, "the arguments and the text: {without} bytes");
    // The name of the tool is in the copy of the params as well.
    assert!(with <= without + 100, "{without} bytes without middleware, {with} with it");
}
