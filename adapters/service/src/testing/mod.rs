//! A client for tests of servers (feature `testing`): in memory, with virtual time, and with a transcript of all
//! messages.
//!
//! ```
//! use std::time::Duration;
//! use mcp_service::{CallError, Context, Service, Tool, testing::TestClient};
//!
//! let service = Service::builder("sleeper", "1.0.0")
//!     .tool(Tool::new_async("sleep", async |context: Context| {
//!         context.sleep(Duration::from_secs(10)).await?;
//!         Ok::<_, CallError>("slept")
//!     }))
//!     .build()?;
//!
//! let client = TestClient::new(&service);
//! let result = client.call_tool("sleep", ())?;
//! assert_eq!(result.content[0].as_text(), Some("slept"));
//! assert_eq!(client.elapsed(), Duration::from_secs(10));
//! client.transcript().assert(["client: tools/call", "server: result of tools/call"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The test client does not wait for real time, and does nothing between its calls. While a test
//! [waits](TestClient::wait), frames go back and forth and handlers run as over a real connection. When everything
//! waits for time, virtual time jumps to the next deadline or timer. A test that waits for something that cannot happen
//! any more fails, and shows the transcript.
//!
//! To test the states in between, send requests with [`server`](TestClient::server) and advance the time:
//!
//! ```
//! # use std::time::Duration;
//! # use mcp_service::{CallError, Context, Service, Tool, testing::TestClient};
//! # let service = Service::builder("sleeper", "1.0.0")
//! #     .tool(Tool::new("sleep", |context: Context| context.sleep(Duration::from_secs(10)).wait()))
//! #     .build()?;
//! let client = TestClient::new(&service);
//! let call = client.server().call_tool("sleep", ())?;
//! client.advance(Duration::from_secs(3));
//! call.cancel(Some("changed my mind"));
//! assert_eq!(client.wait(call), Err(CallError::Cancelled));
//! client.transcript().assert(["client: tools/call", "client: notifications/cancelled"]);
//! client.assert_idle();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Handlers that are futures run on the thread of the test, handlers that are functions on threads of their own. The
//! test continues when all of them have ended or wait through their [`Context`](crate::Context). So handlers may wait
//! only through it or for each other. Threads that a handler starts itself are not taken into account. To act while a
//! handler works in real time, see [`run_until`](TestClient::run_until).
//!
//! A test client speaks the newest revision unless the test sets [another](Setup::version). In 2026-07-28
//!
//! - log messages are dropped unless the client [asks](crate::Peer::logging) for them:
//!   [`dropped_log_messages`](TestClient::dropped_log_messages) counts them;
//! - handlers run again after each request for input: [`check_side_effects`](Setup::check_side_effects) fails a test in
//!   which a [side effect](crate::Context::side_effect) is repeated.

pub(crate) mod client;
pub(crate) mod test_driver;
pub(crate) mod transcript;
pub(crate) mod workers;

pub use client::{Setup, TestClient};
pub use transcript::{Line, Side, Transcript};
