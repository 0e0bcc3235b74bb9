//! Clients over HTTP.

use std::sync::{Arc, Mutex};

use mcp_driver::{
    DrivenConnection, Runtime,
    http::{AuthProvider, DetachedAuth, Http1Client},
    tuning::JOB_SHUTDOWN_TIMEOUT,
};
use mcp_proto::{
    connection::{ClientRole, CloseReason},
    http,
};
use mcp_service::Host;

use super::{client_loop::ClientLoop, connector::Connector, threads::Threads};
use crate::{
    client::Client,
    handle::{End, Handle},
};
use mcp_driver::Error;
use mcp_driver::os::thread::lock;

impl Client {
    /// Connects to the server at an address such as `http://localhost:8000/mcp`, in the newest revision that it
    /// supports: Streamable HTTP without or with a session, or the transport of 2024-11-05. See [`http`](crate::http)
    /// for more options.
    ///
    /// # Errors
    /// If the address is not an HTTP address, no server listens there, or the host cannot talk to it.
    pub fn connect_http(url: &str, host: &Host) -> Result<Self, Error> {
        Connector::new(url)?.connect(host)
    }

    pub(super) fn over_http(connector: &Connector, host: &Host) -> Result<Self, Error> {
        let options = &connector.options;
        if let Some(credentials) = &connector.auth {
            credentials.check_server(&connector.client_options.url)?;
        }
        let session = Arc::new(host.session_with(options.subscriptions.clone().unwrap_or_default()));
        let calls = session.calls().clone();
        let (config, mut client_options, opening) = (host.config(), connector.client_options.clone(), options.opening);
        if connector.http_client.is_none() {
            Http1Client::<ClientLoop>::add_host(&mut client_options);
        }
        let client = |now| http::client::Client::with_opening(config, client_options, opening, now);
        let credentials = connector.auth.clone();
        let (handle, connection, threads) = if let Some(requests) = connector.http_client.clone() {
            let threads = Threads::current()?;
            let handle = mcp_driver::Handle::over_http(client, session, requests, credentials, options, &threads);
            let connection = handle.connection();
            (handle, connection, ClientThreads::Pool(threads))
        } else {
            let requests = Arc::new(connector.net_client()?);
            let client_loop = ClientLoop::start()?;
            // A fixed token needs no other thread.
            let detach = |credentials| Arc::new(DetachedAuth::new(credentials, client_loop.functions().clone())) as _;
            let credentials: Option<Arc<dyn AuthProvider>> =
                if connector.has_token { credentials } else { credentials.map(detach) };
            let tasks = Arc::new(client_loop.clone());
            let wrap = |connection| Arc::new(DrivenConnection::new(connection, tasks)) as _;
            let (handle, connection) =
                mcp_driver::Handle::over_http_with(client, session, requests, credentials, options, &client_loop, wrap);
            (handle, connection, ClientThreads::Loop(client_loop))
        };
        let end = HttpConnection { handle, threads: Mutex::new(Some(threads)) };
        Self::begin(Handle::new(connection, end), calls, None)
    }
}

/// The threads of a client.
enum ClientThreads {
    Pool(Threads),
    Loop(ClientLoop),
}

impl ClientThreads {
    /// Waits until the threads have ended, but no longer than the timeout.
    fn shutdown(self) {
        match self {
            Self::Pool(threads) => threads.shutdown(JOB_SHUTDOWN_TIMEOUT),
            Self::Loop(client_loop) => {
                client_loop.wait_for_end(JOB_SHUTDOWN_TIMEOUT);
                client_loop.functions().clone().shutdown(JOB_SHUTDOWN_TIMEOUT);
            }
        }
    }
}

/// A client connection over HTTP, and its threads.
struct HttpConnection {
    handle: mcp_driver::Handle<ClientRole>,
    threads: Mutex<Option<ClientThreads>>,
}

impl End for HttpConnection {
    fn wait(&self) -> Option<CloseReason> {
        let reason = self.handle.wait().wait();
        // In a handler, the wait returns at once, and the connection may not have ended.
        if self.is_over()
            && let Some(threads) = lock(&self.threads).take()
        {
            threads.shutdown();
        }
        reason
    }

    fn is_over(&self) -> bool {
        self.handle.is_over()
    }
}
