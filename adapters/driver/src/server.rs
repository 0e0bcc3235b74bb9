//! A connection to a client.

use std::{ops::Deref, sync::Arc};

use mcp_proto::connection::{CloseReason, Server as Connection, ServerRole};

use crate::{
    error::{Disconnected, Error},
    handle::Handle,
    options::DriverOptions,
    stream::transport::IntoTransport,
};
use mcp_service::{Deferred, Peer, Service};

/// Serves a client over any transport, until either side ends it.
///
/// # Errors
/// If the connection cannot be started, or does not end cleanly.
pub async fn serve(service: &Service, transport: impl IntoTransport) -> Result<(), Error> {
    serve_with(service, transport, &DriverOptions::default()).await
}

/// Does what [`serve`] does, with options.
///
/// # Errors
/// As [`serve`].
pub async fn serve_with(
    service: &Service,
    transport: impl IntoTransport,
    options: &DriverOptions,
) -> Result<(), Error> {
    let session = Arc::new(service.session());
    let handle = Handle::start_inline(|now| Connection::new(service.config(), now), session, transport, options)?;
    Disconnected::new(handle.wait().await.unwrap_or(CloseReason::Local), None, None).into_result()
}

/// A connection to a client that runs in a task of its own.
///
/// It is a [`Peer`], so the server can send notifications and requests from outside of handlers. Dropping it begins to
/// close the connection.
#[derive(Debug)]
pub struct Server {
    peer: Peer<ServerRole>,
    pub(super) handle: Handle<ServerRole>,
}

impl Server {
    /// Serves a client over any transport.
    ///
    /// # Errors
    /// If there is no runtime (outside of one of tokio), or no thread or descriptor for a connection over pipes (smol).
    pub fn start(service: &Service, transport: impl IntoTransport, options: &DriverOptions) -> Result<Self, Error> {
        let session = Arc::new(service.session());
        let calls = session.calls().clone();
        let handle = Handle::start(|now| Connection::new(service.config(), now), session, transport, options)?;
        Ok(Self { peer: Peer::new(handle.connection(), calls), handle })
    }

    /// Ends the connection, waits until its tasks have ended, and returns why it ended. That takes a bounded time
    /// however the client behaves. Requests in flight get a response if their handlers finish in that time. In a
    /// handler of this connection it does not wait.
    pub fn close(&self) -> Deferred<CloseReason> {
        self.handle.begin_close();
        self.wait()
    }

    /// Waits until the connection and its tasks have ended. In a handler it does not wait.
    pub fn wait(&self) -> Deferred<CloseReason> {
        self.handle.wait().map(|reason| reason.unwrap_or(CloseReason::Local))
    }
}

impl Deref for Server {
    type Target = Peer<ServerRole>;

    fn deref(&self) -> &Self::Target {
        &self.peer
    }
}
