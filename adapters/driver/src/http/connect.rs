//! Clients over HTTP.

use std::sync::Arc;

use mcp_proto::{
    connection::ClientRole,
    http::client::{Client as HttpConnection, ClientOptions},
    rpc::Timestamp,
};
use mcp_service::{
    Host,
    driver_api::{Application, ConnectionHandle},
};

use crate::http::client::{AuthProvider, HttpClient, HttpClientBinding, RequestRunner};
use crate::{
    client::Client,
    driven_connection::client_connection,
    error::Error,
    event_loop::{run_loop::EventLoop, shared::SharedConnection},
    handle::Handle,
    options::DriverOptions,
    runtime::Runtime,
};

impl Handle<ClientRole> {
    /// Runs a client over HTTP.
    pub fn over_http<R: Runtime>(
        client: impl FnOnce(Timestamp) -> HttpConnection,
        application: Arc<dyn Application<ClientRole>>,
        requests: Arc<dyn HttpClient>,
        credentials: Option<Arc<dyn AuthProvider>>,
        options: &DriverOptions,
        runtime: &R,
    ) -> Self {
        Self::over_http_with(client, application, requests, credentials, options, runtime, |connection| connection).0
    }

    /// Runs a client over HTTP. Its application uses the connection that `wrap` returns, and so should the caller, who
    /// gets it as well.
    pub fn over_http_with<R: Runtime>(
        client: impl FnOnce(Timestamp) -> HttpConnection,
        application: Arc<dyn Application<ClientRole>>,
        requests: Arc<dyn HttpClient>,
        credentials: Option<Arc<dyn AuthProvider>>,
        options: &DriverOptions,
        runtime: &R,
        wrap: impl FnOnce(Arc<dyn ConnectionHandle<ClientRole>>) -> Arc<dyn ConnectionHandle<ClientRole>>,
    ) -> (Self, Arc<dyn ConnectionHandle<ClientRole>>) {
        let binding = |now| HttpClientBinding::new(client(now), credentials.clone());
        let shared = SharedConnection::new(binding, options);
        let connection = wrap(shared.clone());
        let mut event_loop = EventLoop::new(shared.clone(), connection.clone(), application, runtime.clone());
        let mut runner = RequestRunner::new(runtime.clone(), requests, credentials);
        R::detach(runtime.spawn(async move {
            event_loop.run_until_closed(&mut runner).await;
            // The core bounds how long this takes.
            event_loop
                .run_until(&mut runner, None, |event_loop, _, _| {
                    event_loop.dispatcher.shared.lock().binding.client.is_over()
                })
                .await;
            event_loop.end_jobs(&mut runner).await;
        }));
        (Self::of(shared), connection)
    }
}

impl<R: Runtime> Client<R> {
    /// Connects over HTTP.
    ///
    /// # Errors
    /// If the credentials are for another server, or no server answers that the host can talk to.
    pub async fn over_http(
        client_options: ClientOptions,
        requests: Arc<dyn HttpClient>,
        credentials: Option<Arc<dyn AuthProvider>>,
        host: &Host,
        options: &DriverOptions,
    ) -> Result<Self, Error> {
        if let Some(credentials) = &credentials {
            credentials.check_server(&client_options.url)?;
        }
        let session = Arc::new(host.session_with(options.subscriptions.clone().unwrap_or_default()));
        let calls = session.calls().clone();
        let client = |now| HttpConnection::with_opening(host.config(), client_options, options.opening, now);
        let runtime = R::current()?.for_client();
        let wrap = |connection| client_connection(&runtime, connection);
        let (handle, connection) =
            Handle::over_http_with(client, session, requests, credentials, options, &runtime, wrap);
        Self::begin(handle, connection, calls, None).await
    }
}
