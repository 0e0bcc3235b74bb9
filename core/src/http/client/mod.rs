//! The client's side: each message travels on an exchange of its own, and what comes of it is said to the connection.
//!
//! ```text
//!  Connection ──▶ message ──▶ [Action::Request] ──▶ the driver makes it
//!      ▲                                                 │
//!      └── message ◀── [Client] ◀── handle_head, handle_body…, handle_end or handle_failure
//! ```
//!
//! A [`Client`] decides everything that is not moving bytes: which headers a request has, what a status means, whether a
//! body is an answer or a stream of them, when a lost stream is taken up again and from where, what becomes of a session
//! that the server has lost, which redirects are followed, and which of the transports the server knows. It begins with
//! the newest: a question of 2026-07-28, a session, the transport of 2024-11-05. What a server did not understand leaves
//! nothing behind.
//!
//! # The contract of a driver
//!
//! This is all there is to one that makes requests; here the server is a function.
//!
//! ```
//! use std::sync::Arc;
//!
//! use http::{Request, Response};
//! use mcp_proto::{
//!     connection::{ClientConfig, Event},
//!     http::client::{Action, Client, Options},
//!     rpc::Timestamp,
//!     schema::Implementation,
//! };
//!
//! /// After anything was handed to the client or asked of it, by whomever.
//! fn settle(now: Timestamp, client: &mut Client, events: &mut Vec<Event<'static>>) {
//!     loop {
//!         while let Some(event) = client.poll_event() {
//!             events.push(event);
//!         }
//!         match client.poll_action() {
//!             // Each request is made beside all others. Here it is answered at once.
//!             Some(Action::Request { exchange, request }) => {
//!                 let (head, body) = serve(&request).into_parts();
//!                 client.handle_head(now, exchange, &head);
//!                 for chunk in body.chunks(16) {
//!                     client.handle_body(now, exchange, chunk);
//!                 }
//!                 client.handle_end(now, exchange); // or `handle_failure`
//!             }
//!             // Close what carries it; nothing more is said of it.
//!             Some(Action::Abort(_exchange)) => {}
//!             // Only for drivers that have said that they can.
//!             Some(Action::Prove { exchange, .. }) => client.give_up(now, exchange),
//!             None => break,
//!         }
//!     }
//!     if let Some(_deadline) = client.poll_timeout() {
//!         // Call `handle_timeout` then, and come back here.
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
//! let mut client = Client::new(config, Options::new("http://localhost:8000/mcp", 2)?, now); // and here
//! let mut events = Vec::new();
//! settle(now, &mut client, &mut events);
//! assert_eq!(events, [Event::Ready]);
//! // Everything else is up to the connection.
//! assert!(client.connection(now).is_ready());
//! client.close(now);
//! settle(now, &mut client, &mut events);
//! assert!(client.is_over());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it has to keep to:
//!
//! - Requests are made as they are, beside each other, in any order. What proves who the client is may be added to each of
//!   them. Redirects are not followed, and nothing is tried again.
//! - A body is handed over as it comes, and not collected: a stream can last for days. Decoded, if the driver has asked
//!   for it to be encoded.
//! - For each request, [`handle_end`](Client::handle_end) or [`handle_failure`](Client::handle_failure) is the last word,
//!   unless it was [aborted](Action::Abort).
//! - Leave when [`is_over`](Client::is_over) says so.

mod exchange;
mod incoming;
mod machine;
mod options;
mod outgoing;
mod recovery;
mod refresh;
mod refusal;
mod tools;
mod uri;

pub use exchange::{Action, ExchangeId};
pub use machine::{Client, Usage};
pub use options::{InvalidUrl, Limits, Options};
