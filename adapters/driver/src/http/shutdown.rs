//! The orderly end of a listener's connections.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::watched::Watched;

/// How long a stopped listener waits for requests that are arriving.
pub const ARRIVAL_GRACE: Duration = Duration::from_secs(1);

/// The state of a listener that may be stopped, which its connections share. It is cheap to clone.
///
/// A stopped listener ends its sessions. Before that it waits until no connection has a request that is still arriving:
/// such a request would be refused because its session has ended.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    stopped: Arc<Watched<bool>>,
    /// The number of connections on which a request may still arrive.
    arriving: Arc<Watched<usize>>,
}

impl Shutdown {
    /// Stops the listener.
    pub fn stop(&self) {
        self.stopped.update(|stopped| *stopped = true);
    }

    /// Waits until the listener is stopped.
    pub async fn stopped(&self) {
        self.stopped.wait_for(|stopped| stopped.then_some(())).await;
    }

    /// Returns the value that is set when the listener is stopped.
    pub(super) fn watched(&self) -> &Watched<bool> {
        &self.stopped
    }

    /// Waits until no request is arriving on any connection. The caller limits the time to [`ARRIVAL_GRACE`].
    pub async fn arrived(&self) {
        self.arriving.wait_for(|arriving| (*arriving == 0).then_some(())).await;
    }

    /// Blocks until no request is arriving on any connection, for at most [`ARRIVAL_GRACE`].
    pub fn wait_arrived(&self) {
        self.arriving.wait_until(ARRIVAL_GRACE, |arriving| *arriving == 0);
    }

    /// Counts a connection that was accepted. Its client is about to send a request.
    #[must_use]
    pub fn connection(&self) -> Arrivals {
        self.arriving.update(|arriving| *arriving += 1);
        Arrivals { shutdown: self.clone(), is_arriving: AtomicBool::new(true), is_counted: AtomicBool::new(true) }
    }
}

/// Whether a request is arriving on a connection. The first one does from the beginning.
#[derive(Debug)]
pub struct Arrivals {
    pub(super) shutdown: Shutdown,
    /// Whether a request has begun to arrive and has not reached its session.
    is_arriving: AtomicBool,
    /// Whether the connection is among those that [`Shutdown::arrived`] waits for.
    is_counted: AtomicBool,
}

impl Arrivals {
    /// Returns whether a request is arriving.
    #[must_use]
    pub fn is_arriving(&self) -> bool {
        self.is_arriving.load(Ordering::Relaxed)
    }

    /// Notes that the head of a request has arrived.
    pub(super) fn begin(&self) {
        self.is_arriving.store(true, Ordering::Relaxed);
    }

    /// Notes that the request has reached its session, or was refused.
    pub(super) fn end(&self) {
        self.is_arriving.store(false, Ordering::Relaxed);
    }

    /// Stops counting a connection that accepts no further request, unless one is arriving.
    pub(super) fn accept_no_more(&self) {
        if !self.is_arriving() {
            self.release();
        }
    }

    fn release(&self) {
        if self.is_counted.swap(false, Ordering::Relaxed) {
            self.shutdown.arriving.update(|arriving| *arriving -= 1);
        }
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.release();
    }
}
