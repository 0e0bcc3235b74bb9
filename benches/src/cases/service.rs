//! A small call of a tool in a service, with and without middleware.

use std::sync::{Arc, Mutex, PoisonError};

use mcp_proto::{
    codec::Frame,
    connection::{Connection, Server, ServerRole},
    rpc::Timestamp,
    wire::JsonObject,
};
use mcp_service::{
    Completed, Deferred, Failure, IncomingRequest, Middleware, Next, ServerSession, Service, ServiceBuilder, Tool,
    driver_api::{Application, ConnectionHandle, Waiters},
};
use serde::Deserialize;

use crate::{Case, Work};

/// A connection on one thread.
struct Wire {
    connection: Mutex<Server>,
    waiters: Waiters,
}

impl Wire {
    fn with<R>(&self, f: impl FnOnce(&mut Server) -> R) -> R {
        f(&mut self.connection.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ConnectionHandle<ServerRole> for Wire {
    fn with_mut(&self, f: &mut dyn FnMut(&mut Connection<ServerRole>, Timestamp)) {
        self.with(|connection| f(connection, Timestamp::ZERO));
    }

    fn with_ref(&self, f: &mut dyn FnMut(&Connection<ServerRole>)) {
        self.with(|connection| f(connection));
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }
}

struct Served {
    wire: Arc<Wire>,
    connection: Arc<dyn ConnectionHandle<ServerRole>>,
    session: ServerSession,
    out: Vec<u8>,
}

impl Served {
    /// Handles a frame, runs its job, and writes the output. Returns the number of bytes.
    fn exchange(&mut self, frame: &str) -> usize {
        let Self { wire, connection, session, out } = self;
        let event = wire.with(|server| server.handle_frame(Timestamp::ZERO, Frame::new(frame.as_bytes())));
        if let Some(job) = event.and_then(|event| session.handle(connection, event)) {
            job.run();
        }
        out.clear();
        while wire.with(|server| server.poll_transmit(out).is_some()) {}
        out.len()
    }
}

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"thirty-two bytes, as it happens"}}}"#;

fn work(builder: ServiceBuilder) -> Work {
    #[derive(Deserialize)]
    struct Echo {
        message: String,
    }
    let schema = r#"{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}"#;
    let schema = JsonObject::parse(schema).unwrap_or_else(|_| JsonObject::empty());
    let echo = Tool::with_schema("echo", schema, |echo: Echo| echo.message);
    let service = builder.tool(echo).build().expect("one tool");
    let server = Server::new(service.config(), Timestamp::ZERO);
    let wire = Arc::new(Wire { connection: Mutex::new(server), waiters: Waiters::new() });
    let mut served = Served { connection: wire.clone(), wire, session: service.session(), out: Vec::new() };
    served.exchange(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#,
    );
    served.exchange(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let bytes = CALL.len() + served.exchange(CALL);
    Work::new(2, bytes, move || served.exchange(CALL))
}

pub(super) fn cases() -> Vec<Case> {
    let service = || Service::builder("bench", "1");
    vec![
        Case::new("service", "a call", move || work(service())),
        Case::new("service", "a call with a middleware that does nothing", move || work(service().layer(nothing))),
        Case::new("service", "a call with a middleware type that does nothing", move || {
            work(service().with_layer(Nothing))
        }),
        Case::new("service", "a call with three that do nothing", move || {
            work(service().layer(nothing).layer(nothing).layer(nothing))
        }),
    ]
}

async fn nothing(_: IncomingRequest, next: Next) -> Result<Completed, Failure> {
    Ok(next.run().await)
}

/// A middleware without a future.
struct Nothing;

impl Middleware for Nothing {
    fn handle(&self, _: IncomingRequest, next: Next) -> Deferred<Result<Completed, Failure>> {
        next.run().map(Ok)
    }
}
