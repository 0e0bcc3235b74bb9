//! The Model Context Protocol as a state machine.
//!
//! This crate decides what the protocol means and performs no I/O: it has no socket, thread, clock, random number or
//! future. Frames and the time go in; events, bytes and the next deadline come out. It runs in any runtime or event
//! loop, and a test can replay every race.
//!
//! It implements both sides of the four revisions with a handshake (2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25),
//! and of the stateless 2026-07-28 if [`Settings::versions`](connection::Settings::versions) includes it. Applications
//! that need sockets, child processes and threads or futures use `mcp-blocking`, `mcp-smol` or `mcp-tokio`; tools,
//! resources and prompts as functions are in `mcp-service`. All of them are built on this crate.
//!
//! # The loop
//!
//! A *driver* moves the bytes. This is a complete driver for a server on any stream:
//!
//! ```
//! use std::{collections::hash_map::RandomState, hash::BuildHasher, io::{self, Read, Write}, time::Instant};
//!
//! use mcp_proto::{
//!     Event, LineDecoder, Server, Timestamp, connection::ServerConfig, schema::Implementation, wire::ErrorObject,
//! };
//!
//! /// How many bytes of output are taken at once.
//! const HIGH_WATER: usize = 64 * 1024;
//!
//! fn serve(mut input: impl Read, mut output: impl Write) -> io::Result<()> {
//!     let epoch = Instant::now();
//!     let clock = || Timestamp::after_zero(epoch.elapsed());
//!     let hash_seed = RandomState::new().hash_one(0); // random bits: the core has none of its own
//!     let mut server = Server::new(ServerConfig::new(Implementation::new("example", "1.0"), hash_seed), clock());
//!     let mut lines = LineDecoder::new(server.settings().limits.frame_bytes);
//!     let (mut chunk, mut out) = (vec![0; 64 * 1024], Vec::new());
//!
//!     while !server.is_drained() {
//!         // 1. Input. A driver that can wait for input and time at once also wakes at `poll_timeout()`.
//!         let read = input.read(&mut chunk)?;
//!         lines.feed(&chunk[..read]);
//!         if read == 0 {
//!             lines.end();
//!         }
//!         while let Some(frame) = lines.next_frame() {
//!             if let Some(event) = server.handle_frame(clock(), frame) {
//!                 on_event(&mut server, event);
//!             }
//!         }
//!         if read == 0 {
//!             server.handle_eof(clock());
//!         }
//!         server.handle_timeout(clock());
//!         // 2. Events.
//!         while let Some(event) = server.poll_event() {
//!             on_event(&mut server, event);
//!         }
//!         // 3. Output.
//!         loop {
//!             while server.poll_transmit_up_to(&mut out, HIGH_WATER).is_some() {}
//!             if out.is_empty() {
//!                 break;
//!             }
//!             output.write_all(&out)?;
//!             out.clear();
//!         }
//!     }
//!     Ok(())
//! }
//!
//! fn on_event(server: &mut Server, event: Event<'_>) {
//!     if let Event::Request { key, method, .. } = event {
//!         // The server declares no capability, so only methods outside of the specification arrive here.
//!         let _ = server.respond_error(key, &ErrorObject::method_not_found(method.as_str()));
//!     }
//! }
//!
//! let input = br#"{"jsonrpc":"2.0","id":"hello","method":"ping"}"#;
//! let mut output = Vec::new();
//! serve(&input[..], &mut output)?;
//! assert_eq!(output, b"{\"jsonrpc\":\"2.0\",\"id\":\"hello\",\"result\":{}}\n");
//! # Ok::<(), io::Error>(())
//! ```
//!
//! Three rules make a driver correct:
//!
//! - After each input and each action, the driver polls events, then output, then the timeout. Output never waits for
//!   a timer.
//! - A driver does not stop reading because a write blocks, or writing because a read blocks: the peer may do the same.
//!   [`Limits`](connection::Limits) bounds what accumulates. A driver that can read and write at the same time calls
//!   [`wants_input`](connection::Connection::wants_input) before each read and each frame, and leaves the bytes in the
//!   pipe while it returns false: the peer then waits instead of being refused. The loop above writes all output before
//!   it reads, which has the same effect as long as the peer reads; two peers with this loop can deadlock.
//! - The driver ends when [`is_drained`](connection::Connection::is_drained) returns true and the last bytes are
//!   written.
//!
//! # Requests and responses
//!
//! [`request`](connection::Connection::request) checks the params of a method against the handshake, the revision and
//! the capabilities of the peer, sends them and returns a [`CallId`](rpc::CallId). The call ends with exactly one
//! [`Event::Response`]: with a result, an error, a timeout, a cancellation, or the end of the connection. The type of
//! the method's result decodes it:
//!
//! ```
//! # use mcp_proto::{codec::Frame, connection::*, rpc::Timestamp, schema::*};
//! # let now = Timestamp::ZERO;
//! # let mut client = Client::new(ClientConfig::new(Implementation::new("c", "1"), 1), now);
//! # client.poll_transmit(&mut Vec::new());
//! # let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#;
//! # client.handle_frame(now, Frame::new(answer.as_bytes()));
//! let call = client.request(now, &CallToolParams::new("add"), RequestOptions::default())?;
//! # client.poll_transmit(&mut Vec::new());
//! # client.poll_transmit(&mut Vec::new());
//! # let answer = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"3"}]}}"#;
//! # let event = client.handle_frame(now, Frame::new(answer.as_bytes())).unwrap();
//! // … later, when the driver returns an event:
//! if let Event::Response { call: ended, outcome: Outcome::Result(result) } = event {
//!     assert_eq!(ended, call);
//!     let result: CallToolResult = result.decode()?;
//!     assert_eq!(result.content.len(), 1);
//! }
//! # else { panic!("{event:?}") }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A request of the peer arrives as [`Event::Request`] with a [`ReplyKey`](rpc::ReplyKey). The application responds to
//! it once. If the peer cancels the request first, the response is dropped, so a handler need not handle the race.
//!
//! # Time
//!
//! Time is an argument: a [`Timestamp`] since an epoch that the driver chooses. Each request has deadlines, which
//! [`RequestOptions`](connection::RequestOptions) can change or remove.
//! [`poll_timeout`](connection::Connection::poll_timeout) returns the next deadline and its reason.
//!
//! # Errors
//!
//! - [`SendError`](connection::SendError): the application requested an action that is not allowed now. The connection
//!   is unchanged.
//! - [`Violation`](connection::Violation): the peer sent an invalid message. The connection sent an error response
//!   where the protocol has one, and goes on.
//! - [`CloseReason`](connection::CloseReason): the connection has ended. Output that waits can still be written.
//!
//! # Layers
//!
//! Each module builds on those before it: [`codec`] splits bytes into frames, [`wire`] is the syntax of JSON-RPC,
//! [`rpc`] is what any JSON-RPC peer needs, [`protocol`] has the tables of MCP, [`schema`] the typed params and results
//! of every method and revision, [`cache`] stores results that clients may reuse, and [`connection`] is the state
//! machine. `http` maps HTTP exchanges to connections, and `auth` has the rules of OAuth (both are features).
//!
//! # Features
//!
//! - `std` (default): lets the dependencies use the standard library. The crate itself is `no_std` with `alloc`.
//! - `auth`: the authorization of clients with OAuth 2.1, in the module `auth`.
//! - `http`: the HTTP bindings of both sides, in the module `http`.
//! - `simd`: vector instructions for large messages, where the processor has them.
//! - `arbitrary`: random values of every schema type, for tests and fuzzers.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

#[cfg(feature = "auth")]
pub mod auth;
pub mod cache;
pub mod codec;
mod collections;
pub mod connection;
#[cfg(feature = "http")]
pub mod http;
pub mod protocol;
pub mod rpc;
pub mod schema;
#[cfg(test)]
mod test_rng;
pub mod wire;

pub use codec::LineDecoder;
pub use connection::{Client, Event, Server};
pub use rpc::Timestamp;
