//! Servers in WASI, over standard input and output. The target is `wasm32-wasip1`.
//!
//! ```no_run
//! use mcp_wasm::{
//!     mcp_service::{Service, Tool},
//!     wasi::serve_stdio,
//! };
//!
//! let service = Service::builder("hello", "1.0.0").tool(Tool::new("hello", || "Hello!")).build()?;
//! serve_stdio(&service)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Time, random numbers and files are those that the host hands in, through the standard library. There is one thread,
//! which waits in `poll_oneoff` until input has arrived, output can be written or a deadline has passed:
//!
//! - **Handlers that are futures** run side by side.
//! - **Handlers that are functions** run one after the other. While a function waits for the client, in
//!   [`Pending::wait`] for example, the connection goes on and other handlers run. They run on the stack of the
//!   function that waits, so functions that wait at the same time go on in the reverse order. At most 16 wait; further
//!   ones begin when these have ended.
//! - **A function that waits otherwise**, such as in `thread::sleep`, blocks the server.
//! - **`println!`** disturbs the connection: standard output belongs to it. Standard error is free.
//! - **A panic** ends the program, because the target does not unwind.
//! - Programs cannot be started and sockets cannot be opened, so clients need a [`Transport`] of their own.
//!
//! On other systems than WASI, connections return an error of the kind
//! [`Unsupported`](std::io::ErrorKind::Unsupported).
//!
//! [`Pending::wait`]: mcp_service::Pending::wait

mod descriptor;
mod executor;
mod runtime;
mod transport;

use mcp_driver::{Error, serve};
use mcp_service::Service;

pub use executor::block_on;
pub use runtime::Wasi;
pub use transport::Transport;

/// Serves the client at standard input and output, until either side ends the connection.
///
/// There is one thread, so a function that waits has to return first: one that waits for input of a task, or sleeps,
/// when the client closes standard input delays the return until its wait ends. A future does not.
///
/// # Errors
/// As [`serve`], and if this is not WASI, or standard input and output were taken before.
pub fn serve_stdio(service: &Service) -> Result<(), Error> {
    block_on(async { serve(service, Transport::stdio()?).await })
}
