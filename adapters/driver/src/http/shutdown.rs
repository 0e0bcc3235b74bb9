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
/// such a request would be refused because its session has ended. A new connection has one until it is read.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    stage: Arc<Watched<Stage>>,
    /// Whether the listener is stopped, for a look without a lock.
    is_stopped: Arc<AtomicBool>,
    /// The number of connections on which a request may still arrive.
    arriving: Arc<Watched<usize>>,
}

/// How far a shutdown has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    #[default]
    Running,
    /// No connection is accepted any more. Requests that are arriving are served.
    Stopped,
    /// Connections without a request are closed.
    Closing,
}

impl Shutdown {
    /// Stops the listener.
    pub fn stop(&self) {
        self.advance(Stage::Stopped);
    }

    /// Closes connections on which no request has arrived.
    pub fn close(&self) {
        self.advance(Stage::Closing);
    }

    fn advance(&self, to: Stage) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.stage.update(|stage| *stage = (*stage).max(to));
    }

    /// Waits until the listener is stopped.
    pub async fn stopped(&self) {
        self.reached(Stage::Stopped).await;
    }

    async fn reached(&self, wanted: Stage) {
        self.stage.wait_for(|stage| (*stage >= wanted).then_some(())).await;
    }

    /// Returns whether the listener is stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
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
        Arrivals {
            shutdown: self.clone(),
            has_begun: AtomicBool::new(false),
            is_arriving: AtomicBool::new(true),
            is_counted: AtomicBool::new(true),
        }
    }
}

/// Whether a request is arriving on a connection. The first one does from the beginning.
#[derive(Debug)]
pub struct Arrivals {
    shutdown: Shutdown,
    /// Whether the head of the first request has arrived.
    has_begun: AtomicBool,
    /// Whether a request has begun to arrive and has not reached its session.
    is_arriving: AtomicBool,
    /// Whether the connection is among those that [`Shutdown::arrived`] waits for.
    is_counted: AtomicBool,
}

impl Arrivals {
    pub(super) const fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// Waits until the connection accepts no further request than one that is arriving. A connection that is closed
    /// before its first request loses that request.
    pub(super) async fn stopped(&self) {
        self.shutdown.stopped().await;
        if !self.has_begun() {
            self.shutdown.reached(Stage::Closing).await;
        }
    }

    fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Returns whether the listener is stopped and a request has arrived, after which there is none.
    pub(super) fn is_last_request(&self) -> bool {
        self.has_begun() && self.shutdown.is_stopped()
    }

    /// Returns whether a request is arriving.
    #[must_use]
    pub fn is_arriving(&self) -> bool {
        self.is_arriving.load(Ordering::Relaxed)
    }

    /// Notes that the head of a request has arrived.
    pub(super) fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Waker},
    };

    use super::*;

    fn is_ready(future: impl Future<Output = ()>) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_stop_waits_for_arriving_requests() {
        let shutdown = Shutdown::default();
        assert!(is_ready(shutdown.arrived()), "there are no connections");
        let (first, second) = (shutdown.connection(), shutdown.connection());
        for arrivals in [&first, &second] {
            assert!(arrivals.is_arriving() && !is_ready(shutdown.arrived()));
            arrivals.begin();
            arrivals.accept_no_more();
            assert!(!is_ready(shutdown.arrived()), "its request has not reached its session");
            arrivals.end();
            assert!(!arrivals.is_arriving() && !is_ready(shutdown.arrived()), "there may be another one");
        }
        first.accept_no_more();
        first.accept_no_more();
        assert!(!is_ready(shutdown.arrived()), "the second one accepts requests");
        drop((first, second));
        assert!(is_ready(shutdown.arrived()));
    }

    #[test]
    fn a_stopped_connection_waits_for_its_first_request() {
        let shutdown = Shutdown::default();
        let (used, unused) = (shutdown.connection(), shutdown.connection());
        used.begin();
        assert!(!is_ready(shutdown.stopped()) && !is_ready(used.stopped()) && !is_ready(unused.stopped()));
        assert!(!shutdown.is_stopped() && !used.is_last_request());
        shutdown.stop();
        assert!(is_ready(shutdown.stopped()) && is_ready(used.stopped()) && !is_ready(unused.stopped()));
        assert!(shutdown.is_stopped() && used.is_last_request() && !unused.is_last_request());
        shutdown.close();
        shutdown.stop();
        assert!(is_ready(unused.stopped()), "a later stop does not undo it");
    }
}
