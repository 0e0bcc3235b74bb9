//! What is held of a connection that runs.

use std::{io, sync::Arc};

use mcp_proto::{
    connection::{CloseReason, Connection},
    rpc::Timestamp,
};
use mcp_service::{Application, Later, Link, drive};

#[cfg(feature = "http")]
use {
    crate::http::Connector,
    mcp_proto::{
        connection::{ClientConfig, ClientEnd},
        http,
    },
};

use crate::{Options, Transport, driver::Tokio};

/// A connection that runs as a task of its own, whatever [`Application`] runs on it. [`Client`](crate::Client) and
/// [`Server`](crate::Server) are made of this.
///
/// Dropping it begins to [`close`](Self::close), and what is left to do for that is done by its task.
#[derive(Debug)]
pub struct Handle<E: Send + 'static>(drive::Handle<E>);

impl<E: Send + 'static> Handle<E> {
    /// Runs a connection over a transport.
    ///
    /// # Errors
    /// If there is no runtime.
    pub fn start(
        connection: impl FnOnce(Timestamp) -> Connection<E>,
        application: Arc<dyn Application<E>>,
        transport: Transport,
        options: &Options,
    ) -> io::Result<Self> {
        let runtime = Tokio::current()?;
        Ok(Self(drive::Handle::start(connection, application, transport.0, options, &runtime)))
    }

    /// The connection.
    #[must_use]
    pub fn link(&self) -> Arc<dyn Link<E>> {
        self.0.link()
    }

    /// Begins to end the connection, and does not wait: calls of ours end at once, nothing new is begun, and what the
    /// peer was promised may still be answered for a while.
    pub fn begin_close(&self) {
        self.0.begin_close();
    }

    /// Waits until the connection has ended and all that belongs to it is gone; why it ended.
    ///
    /// In a handler this does not wait: the end waits for handlers, if only for a while.
    pub fn wait(&self) -> Later<Option<CloseReason>> {
        self.0.wait()
    }

    /// Whether [`wait`](Self::wait) would not wait.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_over()
    }

    /// Ends the connection and waits until all that belongs to it is gone. That takes a bounded time, however the peer
    /// behaves. Closing twice is closing once.
    pub fn close(&self) -> Later<Option<CloseReason>> {
        self.begin_close();
        self.wait()
    }
}

#[cfg(feature = "http")]
impl Handle<ClientEnd> {
    /// Runs a client over HTTP.
    pub(crate) fn over_http(
        connector: &Connector,
        config: Arc<ClientConfig>,
        application: Arc<dyn Application<ClientEnd>>,
    ) -> io::Result<Self> {
        let runtime = Tokio::current()?;
        let (address, opening) = (connector.address.clone(), connector.options.opening);
        let client = |now| http::client::Client::knowing(config, address, opening, now);
        let (requests, credentials) = (connector.requests.clone(), connector.credentials.clone());
        let handle = drive::Handle::over_http(client, application, requests, credentials, &connector.options, &runtime);
        Ok(Self(handle))
    }
}
