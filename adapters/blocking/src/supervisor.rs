//! Supervision of a server that is started again after it has ended.

use std::thread;

use mcp_service::{Host, block_on};

use crate::client::Client;
use mcp_driver::{Command, DriverOptions, Error, RestartPolicy, Restarter};

/// Starts a server when a client is requested and it does not run: the first time, and again after it has ended, as
/// often as [`RestartPolicy`] allows.
///
/// Nothing runs in the background: call [`client`](Self::client) each time before a request. Requests to a server that
/// has ended are not repeated. [Subscriptions](mcp_service::Peer::listen) are made again, and the era of the old server
/// is tried first.
///
/// ```no_run
/// use mcp_blocking::{Command, Supervisor, mcp_service::Host};
///
/// let server = Supervisor::new(Command::new("my-server"), &Host::builder("my-client", "1.0.0").build());
/// let tools = server.client()?.list_tools(None)?.wait()?;
/// # Ok::<(), mcp_blocking::Error>(())
/// ```
#[derive(Debug)]
pub struct Supervisor {
    command: Command,
    host: Host,
    options: DriverOptions,
    clients: Restarter<Client>,
}

impl Supervisor {
    /// Creates a supervisor that has not started the server yet.
    #[must_use]
    pub fn new(command: Command, host: &Host) -> Self {
        let clients = Restarter::new(RestartPolicy::default());
        Self { command, host: host.clone(), options: DriverOptions::default(), clients }
    }

    /// Sets how often the server is started again.
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

    /// Returns a client of a running server: the last one, or a new one if that has ended. Blocks while the server
    /// starts, and before that for the delay of the policy.
    ///
    /// # Errors
    /// The error of the first start, or [`Error::GivenUp`] if the policy allows no further one.
    pub fn client(&self) -> Result<Client, Error> {
        let start = || async {
            let options = self.clients.next_options(&self.options);
            Client::spawn_with(self.command.clone(), &self.host, &options)
        };
        let sleep = |time| async move { thread::sleep(time) };
        block_on(self.clients.client(start, sleep))
    }
}
