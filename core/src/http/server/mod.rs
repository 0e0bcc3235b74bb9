//! The server's side: requests arrive at an endpoint, which refuses them or routes them to sessions.
//!
//! ```text
//!             begin              feed, end             route                      open
//!  head ──▶ [Endpoint] ──▶ RequestReader ──────▶ Request ──▶ [Endpoint] ──▶ handle of a ──▶ [Session] ──▶ Event
//!               │                │                       │           Session            │
//!               └────────────────┴──── HttpResponse ─────┘                              └──▶ Head, Data…, End
//! ```
//!
//! - An [`Endpoint`] keeps the table of sessions. Its methods return at once, so a lock around it is held only briefly.
//!   Sessions are independent of each other.
//! - A [`RequestReader`] is one request while it is received. It belongs to the task that reads the body. It is refused
//!   at the first error, before other parts of the server see it. It ends as a [`Request`].
//! - A [`Session`] is a [`Connection`](crate::connection::Connection) and the exchanges that carry its messages: that
//!   of a legacy session, or of one request of 2026-07-28. It routes every message of its connection to exactly one
//!   exchange.
//!
//! # The contract of a driver
//!
//! This is a complete driver for serving a request; the application is a function, the network a string.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use http::{Request as Http, request::Parts};
//! use mcp_proto::{
//!     connection::{Event, ServerConfig},
//!     http::{HttpResponse, Policy, server::{Caller, Endpoint, ExchangeId, EndpointOptions, Output, Session}},
//!     rpc::Timestamp,
//!     schema::Implementation,
//!     wire::ErrorObject,
//! };
//!
//! type Handle = Arc<Mutex<Session>>;
//!
//! struct Driver {
//!     endpoint: Mutex<Endpoint<Handle>>,
//! }
//!
//! impl Driver {
//!     /// Takes in a request. If it is refused, the error is the response.
//!     fn take(&self, now: Timestamp, head: &Parts, body: &[u8]) -> Result<(Handle, ExchangeId), Box<HttpResponse>> {
//!         // 1. Read the head, then the body in parts, and find the session.
//!         let mut reader = self.endpoint.lock().unwrap().begin(head, Caller::Anybody)?;
//!         for chunk in body.chunks(1024) {
//!             reader.feed(chunk)?;
//!         }
//!         let mut request = reader.end()?;
//!         let random = [7; 24]; // must come from a source that cannot be predicted
//!         let make = |session| Arc::new(Mutex::new(session));
//!         let handle = self.endpoint.lock().unwrap().route(now, &request, random, make)?;
//!         // 2. Pass the message to its session, and the event to the application.
//!         let mut session = handle.lock().unwrap();
//!         let (exchange, event) = session.open(now, &mut request)?;
//!         if let Some(event) = event {
//!             on_event(now, &mut session, event);
//!         }
//!         self.settle(now, &mut session);
//!         drop(session);
//!         Ok((handle, exchange))
//!     }
//!
//!     /// Runs after each call of a method of a session.
//!     fn settle(&self, now: Timestamp, session: &mut Session) {
//!         while let Some(event) = session.poll_event() {
//!             on_event(now, session, event);
//!         }
//!         while let Some(_exchange) = session.poll_ready() {
//!             // Wake the task that writes this exchange.
//!         }
//!         if let Some(_deadline) = session.poll_timeout() {
//!             // Call `handle_timeout` at that time, and then this method.
//!         }
//!         if let (true, Some(id)) = (session.is_over(), session.id()) {
//!             self.endpoint.lock().unwrap().remove(id);
//!         }
//!     }
//!
//!     /// Writes the output of an exchange. Runs after `poll_ready` has returned the exchange, when there is room on
//!     /// the wire. If the client disconnects before the end, the driver calls `handle_disconnect`.
//!     fn write(&self, session: &mut Session, exchange: ExchangeId, wire: &mut String) {
//!         let mut out = Vec::new();
//!         while let Some(output) = session.poll_output(exchange, &mut out) {
//!             match output {
//!                 Output::Head(head) => *wire += head.status.as_str(),
//!                 Output::Data(_) => *wire += &String::from_utf8_lossy(&std::mem::take(&mut out)),
//!                 Output::End => *wire += "\n",
//!                 Output::Abort => *wire += "(the connection is closed)",
//!             }
//!         }
//!     }
//! }
//!
//! fn on_event(now: Timestamp, session: &mut Session, event: Event<'_>) {
//!     if let Event::Request { key, method, .. } = event {
//!         let _ = session.connection(now).respond_error(key, &ErrorObject::method_not_found(method.as_str()));
//!     }
//! }
//!
//! let config = ServerConfig::new(Implementation::new("example", "1.0"), 1); // random bits, in a program
//! let driver = Driver { endpoint: Mutex::new(Endpoint::new(config, EndpointOptions::new(Policy::loopback()))) };
//! let (head, body) = Http::post("/mcp")
//!     .header("host", "localhost:8000")
//!     .header("content-type", "application/json")
//!     .header("accept", "application/json, text/event-stream")
//!     .body(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",
//!         "capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#)?
//!     .into_parts();
//! let (handle, exchange) = driver.take(Timestamp::ZERO, &head, body.as_bytes()).map_err(|answer| answer.status().to_string())?;
//! let mut wire = String::new();
//! driver.write(&mut handle.lock().unwrap(), exchange, &mut wire);
//! assert!(wire.starts_with(r#"200{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The obligations of a driver:
//!
//! - An [`HttpResponse`](super::HttpResponse) is written unchanged. The rest of the body need not be read.
//! - The output is not buffered: each [`Output::Data`] is sent at once. A stream can last for days.
//! - [`handle_disconnect`](Session::handle_disconnect) is called as soon as the driver detects that the client has
//!   disconnected. In 2026-07-28 that is how requests are cancelled.
//! - The driver authenticates the sender of a request before [`begin`](Endpoint::begin), and passes it as a [`Caller`].
//!   Without authentication, this is the sender's address: the share of one caller is limited, so that capacity remains
//!   for others. A check that needs the method belongs between [`end`](RequestReader::end) and
//!   [`route`](Endpoint::route): see [`Request::method`], and refuse with
//!   [`AuthRefusal::response`](super::AuthRefusal::response).
//! - If several processes share sessions, the driver looks up an unknown session between [`begin`](Endpoint::begin)
//!   and the body ([`RequestReader::session`]), and resumes it here if it is found ([`Endpoint::adopt`]);
//!   [`poll_replay_request`](Session::poll_replay_request) requests messages that other processes have sent.
//! - [`poll_evicted`](Endpoint::poll_evicted) returns sessions that were closed for new ones. The driver
//!   [evicts](Session::evict) each of them.
//! - On shutdown, the driver [closes](Session::close) every one of the [`sessions`](Endpoint::sessions) and those of
//!   single requests, and continues until they are over.

mod admission;
mod caller;
mod clients;
mod deliver;

mod endpoint;
mod exchange;
mod head;
mod known_clients;
mod message;
mod options;
mod pressure;
mod receive;
mod remote_replay;
mod remote_streams;
mod request_head;
mod request_reader;
mod resume;
mod session;
mod streams;
mod target;
mod tenants;
mod usage;

pub use caller::Caller;
pub use endpoint::Endpoint;
pub use exchange::{ExchangeId, Output};
pub use options::{EndpointOptions, Paths};
pub use remote_streams::{ReplayChunk, ReplayRequest};
pub use request_head::{ExposedHeads, RequestHead};
pub use request_reader::{Request, RequestReader};
pub use session::Session;
pub use usage::ResourceUsage;
