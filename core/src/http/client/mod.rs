//! The client's side: each message is sent in a separate HTTP exchange, whose result is reported to the connection.
//!
//! ```text
//!  Connection ──▶ message ──▶ [Action::Request] ──▶ the driver makes it
//!      ▲                                                 │
//!      └── message ◀── [Client] ◀── handle_head, handle_body…, handle_end or handle_failure
//! ```
//!
//! A [`Client`] makes all decisions except for the transfer of bytes: the headers of requests, the meaning of a status,
//! whether a body is a single response or a stream of events, when and from where a lost stream is resumed, how a lost
//! session is replaced, which redirects are followed, and which transports the server supports. It begins with the
//! newest transport: a probe of 2026-07-28, then a session, then the transport of 2024-11-05. An attempt that the
//! server did not understand leaves no state behind.
//!
//! # The contract of a driver
//!
//! This is a complete driver for making requests; here the server is a function.
//!
//! ```
//! use std::sync::Arc;
//!
//! use http::{Request, Response};
//! use mcp_proto::{
//!     connection::{ClientConfig, Event},
//!     http::client::{Action, Client, ClientOptions},
//!     rpc::Timestamp,
//!     schema::Implementation,
//! };
//!
//! /// Runs after each call of a method of the client.
//! fn settle(now: Timestamp, client: &mut Client, events: &mut Vec<Event<'static>>) {
//!     loop {
//!         while let Some(event) = client.poll_event() {
//!             events.push(event);
//!         }
//!         match client.poll_action() {
//!             // Requests are made concurrently. Here each is answered at once.
//!             Some(Action::Request { exchange, request }) => {
//!                 let (head, body) = serve(&request).into_parts();
//!                 client.handle_head(now, exchange, &head);
//!                 for chunk in body.chunks(16) {
//!                     client.handle_body(now, exchange, chunk);
//!                 }
//!                 client.handle_end(now, exchange); // or `handle_failure`
//!             }
//!             // Close its connection or stream, and report nothing more about it.
//!             Some(Action::Abort(_exchange)) => {}
//!             // Only with `ClientOptions::authenticates`.
//!             Some(Action::Authenticate { exchange, .. }) => client.fail_authentication(now, exchange),
//!             None => break,
//!         }
//!     }
//!     if let Some(_deadline) = client.poll_timeout() {
//!         // Call `handle_timeout` at that time, and then this function.
//!     }
//! }
//!
//! fn serve(request: &Request<Arc<[u8]>>) -> Response<Vec<u8>> {
//!     let answer = br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},
//!         "serverInfo":{"name":"s","version":"1"}}}"#;
//!     match request.method().as_str() {
//!         "POST" if request.body().windows(12).any(|text| text == b"\"initialize\"") => Response::builder()
//!             .header("content-type", "application/json")
//!             .header("mcp-session-id", "1868a90c")
//!             .body(answer.to_vec()),
//!         "POST" => Response::builder().status(202).body(Vec::new()),
//!         "DELETE" => Response::builder().status(204).body(Vec::new()),
//!         _ => Response::builder().status(405).body(Vec::new()),
//!     }
//!     .expect("a response")
//! }
//!
//! let now = Timestamp::ZERO;
//! let config = ClientConfig::new(Implementation::new("example", "1.0"), 1); // random bits, in a program
//! let mut client = Client::new(config, ClientOptions::new("http://localhost:8000/mcp", 2)?, now); // and here
//! let mut events = Vec::new();
//! settle(now, &mut client, &mut events);
//! assert_eq!(events, [Event::Ready]);
//! // All other methods are those of the connection.
//! assert!(client.connection(now).is_ready());
//! client.close(now);
//! settle(now, &mut client, &mut events);
//! assert!(client.is_over());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The obligations of a driver:
//!
//! - Requests are made as they are, concurrently, in any order. Credentials may be added to each of them. The driver
//!   follows no redirects and retries nothing.
//! - If a request waits for credentials before it is sent, the driver reports that with
//!   [`handle_authentication_started`](Client::handle_authentication_started) and
//!   [`handle_authentication_ended`](Client::handle_authentication_ended). The wait does not count against deadlines.
//! - A body is passed on as it arrives, and not collected: a stream can last for days. It is passed on decoded, if the
//!   driver has requested an encoding.
//! - For each request, [`handle_end`](Client::handle_end) or [`handle_failure`](Client::handle_failure) is the last
//!   call, unless it was [aborted](Action::Abort).
//! - The loop ends when [`is_over`](Client::is_over) returns true.

mod authentication;
mod exchange;
mod exchanges;
mod incoming;
mod machine;
mod mirror;
mod options;
mod outgoing;
mod post_headers;
mod recovery;
mod refresh;
mod refusal;
mod tools;
mod uri;

pub use exchange::{Action, ExchangeId};
pub use machine::{Client, ResourceUsage};
pub use options::{ClientOptions, InvalidUrl, Limits};
