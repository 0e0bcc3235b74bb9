//! A connection to a server.

use std::{
    fmt,
    future::Future,
    ops::Deref,
    sync::{Arc, OnceLock},
};

use mcp_proto::{
    connection::{Client as Connection, ClientRole, CloseReason},
    schema::InitializeResult,
};

#[cfg(feature = "signals")]
use crate::process::signals;
use crate::{
    error::{Disconnected, Error},
    handle::Handle,
    options::DriverOptions,
    process::child::Child,
    stream::transport::IntoTransport,
};
use mcp_service::{Calls, Deferred, Host, Peer};

/// A connection to a server after the handshake, with the child process if the server runs as one. An adapter provides
/// the transports.
///
/// It is cheap to clone. When the last clone is dropped, the connection begins to [close](Self::close).
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    peer: Peer<ClientRole>,
    handle: Handle<ClientRole>,
    child: Option<Child>,
    /// The result of the handshake, after it has succeeded.
    server: OnceLock<InitializeResult>,
}

impl Client {
    /// Connects over a transport.
    ///
    /// # Errors
    /// If there is no runtime, or no server at the other end that the host can talk to.
    pub async fn connect_with(
        transport: impl IntoTransport,
        host: &Host,
        options: &DriverOptions,
    ) -> Result<Self, Error> {
        Self::connect_once(transport, None, host, options).await
    }

    /// Connects over the transport that `way` returns, with the child process at its other end. Connects a second time
    /// if the failed handshake has shown how else to begin.
    ///
    /// # Errors
    /// As `way`, and as [`connect_with`](Self::connect_with).
    pub async fn connect_with_retry<M: IntoTransport, F: Future<Output = Result<(M, Option<Child>), Error>>>(
        way: impl Fn() -> F,
        host: &Host,
        options: &DriverOptions,
    ) -> Result<Self, Error> {
        connect_with_hint(options, |options| {
            let way = way();
            async move {
                let (transport, child) = way.await?;
                Self::connect_once(transport, child, host, &options).await
            }
        })
        .await
    }

    async fn connect_once(
        transport: impl IntoTransport,
        child: Option<Child>,
        host: &Host,
        options: &DriverOptions,
    ) -> Result<Self, Error> {
        let session = Arc::new(host.session_with(options.subscriptions.clone().unwrap_or_default()));
        let calls = session.calls().clone();
        let connection = |now| Connection::knowing(host.config(), options.opening, now);
        Self::begin(Handle::start(connection, session, transport, options)?, calls, child).await
    }

    /// Waits for the handshake.
    pub(super) async fn begin(
        handle: Handle<ClientRole>,
        calls: Arc<Calls<ClientRole>>,
        child: Option<Child>,
    ) -> Result<Self, Error> {
        let peer = Peer::new(handle.connection(), calls);
        let client = Self(Arc::new(Inner { peer, handle, child, server: OnceLock::new() }));
        #[cfg(feature = "signals")]
        signals::register(&client.0);
        let ready = client.ready().await;
        let server = client.connection().update(|connection, _| connection.server().cloned());
        match (ready, server) {
            (Ok(()), Some(server)) => {
                client.0.server.get_or_init(|| server);
                Ok(client)
            }
            _ => Err(Error::Handshake(client.close().await)),
        }
    }

    /// Returns what the server reported about itself in the handshake.
    ///
    /// # Panics
    /// Never: without a handshake there is no client.
    #[must_use]
    pub fn server(&self) -> &InitializeResult {
        self.0.server.get().expect("the handshake is over")
    }

    /// Ends the connection and waits until its tasks and its child process have ended, which takes a bounded time
    /// however the server behaves. Calls in flight end at once. The input of a child is closed; processes of its group
    /// that do not end then are killed. A second call has no further effect.
    ///
    /// In a handler of this connection it does not wait.
    pub fn close(&self) -> Deferred<Disconnected> {
        self.0.handle.begin_close();
        self.wait()
    }

    /// Waits until the connection, its tasks and its child process have ended. In a handler it does not wait.
    pub fn wait(&self) -> Deferred<Disconnected> {
        let (ended, child, connection) = (self.0.handle.wait(), self.0.child.clone(), self.connection().clone());
        Deferred::new(async move {
            let reason = ended.await.unwrap_or(CloseReason::Local);
            #[cfg(feature = "signals")]
            signals::held().await;
            let next_opening = connection.update(|connection, _| connection.next_opening());
            Disconnected::new(reason, child.and_then(|child| child.exit()), next_opening)
        })
    }
}

/// Connects, and connects a second time if the failed handshake has shown how else to begin.
///
/// # Errors
/// Those of the last attempt.
pub async fn connect_with_hint<T, F: Future<Output = Result<T, Error>>>(
    options: &DriverOptions,
    connect: impl Fn(DriverOptions) -> F,
) -> Result<T, Error> {
    let mut options = options.clone();
    loop {
        match connect(options.clone()).await {
            // There is no third attempt: the end of a second one contains no `next_opening`.
            Err(Error::Handshake(Disconnected { next_opening: Some(opening), .. })) => options.opening = opening,
            connected => return connected,
        }
    }
}

impl Deref for Client {
    type Target = Peer<ClientRole>;

    fn deref(&self) -> &Self::Target {
        &self.0.peer
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("handle", &self.0.handle).finish_non_exhaustive()
    }
}

#[cfg(feature = "signals")]
impl signals::Closing for Inner {
    fn begin_close(&self) {
        self.handle.begin_close();
    }

    fn wait(&self) {
        self.handle.wait().wait();
    }

    fn kill(&self) {
        if let Some(child) = &self.child {
            child.kill();
        }
    }
}
