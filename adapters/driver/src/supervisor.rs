//! A server that is started again when it has ended.

use mcp_service::Host;

use crate::{
    client::Client,
    error::Error,
    options::DriverOptions,
    process::{command::Command, restart::RestartPolicy},
    restarter::Restarter,
    runtime::sleep,
    stream::stream_runtime::StreamRuntime,
};

/// Starts a server when a client is requested and it does not run: the first time, and again after it has ended, as
/// often as [`RestartPolicy`] allows.
///
/// Nothing runs in the background: call [`client`](Self::client) each time before a request. Requests to a server that
/// has ended are not repeated. [Subscriptions](mcp_service::Peer::listen) are made again, and the era of the old server
/// is tried first.
#[derive(Debug)]
pub struct Supervisor<R> {
    command: Command,
    host: Host,
    options: DriverOptions,
    clients: Restarter<Client<R>>,
}

impl<R: StreamRuntime> Supervisor<R> {
    /// Creates a supervisor. It starts no server before the first call of [`client`](Self::client).
    #[must_use]
    pub fn new(command: Command, host: &Host) -> Self {
        let clients = Restarter::new(RestartPolicy::default());
        Self { command, host: host.clone(), options: DriverOptions::default(), clients }
    }

    /// Sets how often and how soon a server that has ended is started again.
    #[must_use]
    pub fn restart(mut self, policy: RestartPolicy) -> Self {
        self.clients = Restarter::new(policy);
        self
    }

    /// Sets the options of each connection.
    #[must_use]
    pub fn options(mut self, options: DriverOptions) -> Self {
        self.options = options;
        self
    }

    /// Returns a client of a running server: the last one if its connection is still open, otherwise one of a new
    /// server. A start waits for the server's handshake, and for the pause of the [policy](RestartPolicy) if the server
    /// has ended often.
    ///
    /// # Errors
    /// The error of the very first start, or [`Error::GivenUp`] when the policy allows no further start.
    pub async fn client(&self) -> Result<Client<R>, Error> {
        let start = || async {
            let options = self.clients.next_options(&self.options);
            Client::spawn_with(self.command.clone(), &self.host, &options).await
        };
        let sleep = |time| async move {
            // Without a runtime the next start returns the error.
            if let Ok(runtime) = R::current() {
                sleep(&runtime, time).await;
            }
        };
        self.clients.client(start, sleep).await
    }
}
