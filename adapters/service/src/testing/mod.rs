//! A client for tests of servers (feature `testing`): in memory, with time that only passes when it is told to, and with a
//! transcript of everything that was said.
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
//! Nothing in it waits for real time, and nothing moves by itself. What a test [waits](TestClient::wait) for comes about as it
//! does over a real connection: frames go back and forth, handlers run, and where everything waits for time, time goes on to
//! the next moment at which something is due. A test that waits for what cannot happen any more fails, and shows what was
//! said.
//!
//! For what happens in between, ask [`server`](TestClient::server) and move things by hand:
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
//! Handlers that are futures run on the thread of the test, those that are functions on threads of their own. The test goes on
//! when all of them have ended or wait for something through their [`Context`](crate::Context), so they may wait for nothing
//! else than for each other; of the threads that a handler starts by itself nothing is known.

pub(crate) mod client;
pub(crate) mod end;
pub(crate) mod transcript;
pub(crate) mod workers;

pub use client::{Setup, TestClient};
pub use transcript::{Line, Side, Transcript};
