//! A connection to a client.

use std::{ops::Deref, sync::Arc};

use mcp_proto::connection::{CloseReason, Server as Connection, ServerRole};
use mcp_service::{Peer, Service};

use crate::{handle::Handle, thread_driver::driver::Driver, transport::Transport};
use mcp_driver::{Disconnected, DriverOptions, Error};

/// Serves a client over any transport, until either side ends it.
///
/// # Errors
/// If the connection cannot be started, or does not end cleanly.
pub fn serve(service: &Service, transport: Transport) -> Result<(), Error> {
    serve_with(service, transport, &DriverOptions::default())
}

/// Does what [`serve`] does, with options.
///
/// # Errors
/// As [`serve`].
pub fn serve_with(service: &Service, transport: Transport, options: &DriverOptions) -> Result<(), Error> {
    let connection = |now| Connection::new(service.config(), now);
    let (driver, keep) = Driver::begin(connection, Arc::new(service.session()), transport, options);
    // This thread has nothing else to do.
    keep();
    let reason = driver.lifecycle.read(|lifecycle| lifecycle.closed.clone());
    Disconnected::new(reason.unwrap_or(CloseReason::Local), None, None).into_result()
}

/// Serves the client at standard input and output, until either side ends it. Most servers need only this:
///
/// ```no_run
/// # use mcp_service::Service;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let service = Service::builder("my-server", "1.0.0").build()?;
/// mcp_blocking::serve_stdio(&service)?;
/// # Ok(())
/// # }
/// ```
///
/// Output of handlers with `println!` goes to standard error: see [`Transport::stdio`].
///
/// # Errors
/// As [`serve`], and if standard input and output were taken before.
pub fn serve_stdio(service: &Service) -> Result<(), Error> {
    serve(service, Transport::stdio()?)
}

/// A connection to a client that runs on its own threads.
///
/// It is a [`Peer`], so the server can send notifications and requests from outside of handlers. Dropping it closes the
/// connection.
#[derive(Debug)]
pub struct Server {
    peer: Peer<ServerRole>,
    pub(crate) handle: Handle<ServerRole>,
}

impl Server {
    /// Serves a client over any transport.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(service: &Service, transport: Transport, options: &DriverOptions) -> Result<Self, Error> {
        let session = Arc::new(service.session());
        let calls = session.calls().clone();
        let handle = Handle::start(|now| Connection::new(service.config(), now), session, transport, options)?;
        Ok(Self { peer: Peer::new(handle.connection(), calls), handle })
    }

    /// Ends the connection, waits until its threads have ended, and returns why it ended. That takes a bounded time
    /// however the client behaves. Requests in flight get a response if their handlers finish in that time. In a
    /// handler of this connection it does not wait.
    pub fn close(&self) -> CloseReason {
        self.handle.begin_close();
        self.wait()
    }

    /// Waits until the connection and its threads have ended. In a handler it does not wait.
    pub fn wait(&self) -> CloseReason {
        self.handle.wait().unwrap_or(CloseReason::Local)
    }
}

impl Deref for Server {
    type Target = Peer<ServerRole>;

    fn deref(&self) -> &Self::Target {
        &self.peer
    }
}
