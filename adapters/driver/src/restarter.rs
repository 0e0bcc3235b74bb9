//! Starts servers again after they have ended.

use std::{fmt, future::Future, ops::Deref, sync::Mutex, time::Duration};

use mcp_proto::connection::ClientRole;

use crate::sync::lock;
use crate::{
    error::{Disconnected, Error},
    options::DriverOptions,
    process::restart::{RestartPolicy, RestartState},
};
use mcp_service::{
    Peer,
    driver_api::{Instant, WaitQueue},
};

/// Starts a server again when a client is requested and the server no longer runs, as often as the policy allows. `C`
/// is the type of the client.
///
/// The supervisor passes the functions that start the server and that sleep.
pub struct Restarter<C> {
    state: Mutex<State<C>>,
    /// Tasks that request a client while another task starts the server.
    queue: WaitQueue,
}

struct State<C> {
    restarts: RestartState,
    client: Option<C>,
    /// Set while a task starts the server.
    busy: bool,
}

impl<C: Clone + Deref<Target = Peer<ClientRole>>> Restarter<C> {
    /// Creates a restarter that has not started a server yet.
    #[must_use]
    pub fn new(policy: RestartPolicy) -> Self {
        let state = State { restarts: RestartState::new(policy), client: None, busy: false };
        Self { state: Mutex::new(state), queue: WaitQueue::default() }
    }

    /// Returns a client of a running server: the last one if its connection is still open, otherwise a new one.
    ///
    /// # Errors
    /// Why it could not be started in the first place; or [`Error::GivenUp`].
    pub async fn client<F: Future<Output = Result<C, Error>>, S: Future<Output = ()>>(
        &self,
        start: impl Fn() -> F,
        sleep: impl Fn(Duration) -> S,
    ) -> Result<C, Error> {
        let (last, guard) = self.queue.acquire(|| self.try_start()).await;
        let mut why = match last {
            None => {
                let client = start().await?;
                return Ok(guard.keep(client));
            }
            Some(client) if client.is_open() => return Ok(client),
            Some(client) => Error::Closed(Disconnected::new(client.closed().await, None, None)),
        };
        loop {
            let now = Instant::now();
            let Some(at) = lock(&self.state).restarts.next(now) else { return Err(Error::GivenUp(Box::new(why))) };
            sleep(at.saturating_duration_since(now)).await;
            match start().await {
                Ok(client) => return Ok(guard.keep(client)),
                Err(error) => why = error,
            }
        }
    }

    /// Returns the options of the next connection, with the knowledge of the last one.
    #[must_use]
    pub fn next_options(&self, options: &DriverOptions) -> DriverOptions {
        self.last().map_or_else(|| options.clone(), |last| options.after(&last))
    }

    /// Returns the last client.
    pub fn last(&self) -> Option<C> {
        lock(&self.state).client.clone()
    }

    fn try_start(&self) -> Option<(Option<C>, StartGuard<'_, C>)> {
        let mut state = lock(&self.state);
        if std::mem::replace(&mut state.busy, true) {
            return None;
        }
        Some((state.client.clone(), StartGuard(self)))
    }
}

/// The permission to start the server, which one task has at a time.
struct StartGuard<'a, C>(&'a Restarter<C>);

impl<C: Clone> StartGuard<'_, C> {
    fn keep(&self, client: C) -> C {
        let before = lock(&self.0.state).client.replace(client.clone());
        drop(before);
        client
    }
}

impl<C> Drop for StartGuard<'_, C> {
    fn drop(&mut self) {
        lock(&self.0.state).busy = false;
        self.0.queue.notify_one();
    }
}

impl<C> fmt::Debug for Restarter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Restarter").field("restarts", &lock(&self.state).restarts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::ready, sync::Arc};

    use mcp_proto::connection::{CloseReason, Connection};
    use mcp_service::{Host, block_on};

    use super::*;
    use crate::event_loop::{binding::PipeBinding, shared::SharedConnection};

    /// Returns a client whose connection has ended.
    fn closed() -> Arc<Peer<ClientRole>> {
        let (host, options) = (Host::builder("x", "1").build(), DriverOptions::default());
        let connection = |now| PipeBinding::new(Connection::with_opening(host.config(), options.opening, now), None);
        let calls = host.session().calls().clone();
        calls.close(&CloseReason::ConnectionLost);
        Arc::new(Peer::new(SharedConnection::new(connection, &options), calls))
    }

    #[test]
    fn a_server_whose_connection_has_ended_is_started_again() {
        let (restarter, starts) = (Restarter::new(RestartPolicy::default()), Cell::new(0));
        let start = || {
            starts.set(starts.get() + 1);
            ready(Ok(closed()))
        };
        for expected in 1..=2 {
            assert!(block_on(restarter.client(start, |_| ready(()))).is_ok());
            assert_eq!(starts.get(), expected);
        }
    }
}
