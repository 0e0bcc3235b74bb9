//! The Model Context Protocol as a state machine.
//!
//! This crate knows what the protocol means and nothing of the world around it: no socket, no thread, no clock, no
//! random number, no future. Frames and the time go in; events, bytes and the next deadline come out. So it runs in
//! any runtime or event loop, and every race can be played through in a test.
//!
//! It speaks the four revisions with a handshake (2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25), as client and as
//! server, and the stateless 2026-07-28 if it is [told to](connection::Settings::versions). If you want threads and
//! child processes with it, take `mcp-blocking`; if you want to write tools and prompts, `mcp-service`. Both stand on
//! what is here.
//!
//! # The loop
//!
//! A *driver* moves the bytes. This is a whole one, for a server on any stream:
//!
//! ```
//! use std::{collections::hash_map::RandomState, hash::BuildHasher, io::{self, Read, Write}, time::Instant};
//!
//! use mcp_proto::{
//!     codec::LineDecoder,
//!     connection::{Event, Server, ServerConfig},
//!     rpc::Timestamp,
//!     schema::Implementation,
//!     wire::ErrorObject,
//! };
//!
//! /// How much of the output is taken at once.
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
//!         // 1. Bytes in. A driver that can wait for input and time at once would also stop at `poll_timeout()`.
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
//!         // 2. Events out.
//!         while let Some(event) = server.poll_event() {
//!             on_event(&mut server, event);
//!         }
//!         // 3. Bytes out.
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
//!         // Nothing was declared, so only methods that are not of the specification get here.
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
//! - After anything was handed in or asked for, poll events, then output, then the timeout. Output is never hidden
//!   behind a timer.
//! - Never stop reading because a write is stuck, nor the other way round: the peer may be in the same position. What
//!   piles up is bounded by [`Limits`](connection::Limits). A driver that can write and read at the same time asks
//!   [`wants_input`](connection::Connection::wants_input) before each read and each frame, and leaves the bytes in the
//!   pipe while it says no: then the peer waits instead of being refused. The loop above writes all before it reads,
//!   which has the same effect as long as the peer reads; two peers like this can wait for each other for ever.
//! - Leave when [`is_drained`](connection::Connection::is_drained) says so and the last bytes are written.
//!
//! # Asking and answering
//!
//! [`request`](connection::Connection::request) takes the params of a method, checks them against the handshake, the
//! revision and the peer's capabilities, and returns a [`CallId`](rpc::CallId). The call ends with exactly one
//! [`Event::Response`]: answered, failed, timed out, cancelled, or closed with the
//! connection. Its result is decoded by the type that belongs to the method:
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
//! // … later, when the driver has an event:
//! if let Event::Response { call: ended, outcome: Outcome::Result(result) } = event {
//!     assert_eq!(ended, call);
//!     let result: CallToolResult = result.decode()?;
//!     assert_eq!(result.content.len(), 1);
//! }
//! # else { panic!("{event:?}") }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A request of the peer comes as [`Event::Request`] with a
//! [`ReplyKey`](rpc::ReplyKey), and is owed one answer. If the peer cancels it meanwhile, the answer is swallowed:
//! a handler never needs to know who won the race.
//!
//! # Time
//!
//! Time is an argument, a [`Timestamp`] since a moment of your choice. Every request has deadlines
//! unless you say otherwise ([`RequestOptions`](connection::RequestOptions));
//! [`poll_timeout`](connection::Connection::poll_timeout) says when the next thing is due, and why.
//!
//! # Whose fault
//!
//! - [`SendError`](connection::SendError): you asked for something that is not allowed now. Nothing has changed.
//! - [`Violation`](connection::Violation): the peer sent something wrong. It was answered if it could be, and the
//!   connection lives.
//! - [`CloseReason`](connection::CloseReason): the connection has ended. What waits to be written can still be flushed.
//!
//! # Floors
//!
//! Each module builds on those above it: [`codec`] cuts bytes into frames, [`wire`] is JSON-RPC's syntax, [`rpc`] what
//! any JSON-RPC peer needs, [`protocol`] the tables that say what MCP means, [`schema`] the typed params and results of
//! every method and revision, [`cache`] keeps results for a while, and [`connection`] puts it all to work.
//!
//! # Features
//!
//! - `std` (default): lets the dependencies use the standard library. The crate itself is `no_std` with `alloc`.
//! - `auth`: authorization of clients with OAuth 2.1, in `auth`.
//! - `simd`: large messages are read a vector at a time.
//! - `arbitrary`: random values of every schema type, for tests and fuzzers.
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
