//! A client loop for requests that do not belong to a connection of MCP.

use std::{
    future::Future,
    io,
    sync::{Arc, Mutex},
};

use mcp_driver::{Runtime, Watched, os::thread::lock, run_in_task};

use super::client_loop::ClientLoop;

/// A client loop. Its thread starts with the first request, and ends when the last clone was dropped and all requests
/// have ended.
#[derive(Clone, Default)]
pub(super) struct OwnLoop(Arc<Owner>);

#[derive(Default)]
struct Owner {
    started: Mutex<Option<ClientLoop>>,
    dropped: Arc<Watched<bool>>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.dropped.update(|dropped| *dropped = true);
    }
}

impl OwnLoop {
    /// Returns the loop, which is started if it was not yet.
    ///
    /// # Errors
    /// If the system has no descriptors or threads left.
    pub(super) fn get(&self) -> io::Result<ClientLoop> {
        let mut started = lock(&self.0.started);
        if let Some(client_loop) = &*started {
            return Ok(client_loop.clone());
        }
        let client_loop = ClientLoop::start()?;
        // A loop ends when it has no task.
        let dropped = self.0.dropped.clone();
        let waits = async move { dropped.wait_for(|dropped| dropped.then_some(())).await };
        ClientLoop::detach(client_loop.spawn(waits));
        *started = Some(client_loop.clone());
        Ok(client_loop)
    }

    /// Runs a future on the loop. Dropping the returned future cancels it.
    ///
    /// # Errors
    /// If the loop cannot be started, or the future panics.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<T> {
        let done = run_in_task(&self.get()?, future).await;
        done.ok_or_else(|| io::Error::other("the request has panicked"))
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, time::Duration};

    use mcp_service::block_on;

    use super::*;

    /// Longer than any step takes.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn thread_lives_as_long_as_its_owner_and_requests() {
        let own = OwnLoop::default();
        assert_eq!(block_on(own.run(async { 1 })).expect("it runs"), 1);
        let client_loop = own.get().expect("it is started");
        assert!(!client_loop.wait_for_end(Duration::from_millis(20)), "the owner may run more");
        assert_eq!(block_on(own.run(async { 2 })).expect("it runs"), 2);
        let (gate, opened) = (Arc::new(Watched::new(false)), own.get().expect("it is started"));
        let waits = gate.clone();
        let request = opened.spawn(async move { waits.wait_for(|open| open.then_some(())).await });
        drop(own);
        assert!(!client_loop.wait_for_end(Duration::from_millis(20)), "a request runs");
        gate.update(|open| *open = true);
        assert!(client_loop.wait_for_end(LONG), "nothing needs it");
        drop(request);
    }

    #[test]
    fn panic_of_a_request_is_an_error_of_that_request() {
        let own = OwnLoop::default();
        let failed = block_on(own.run(async { panic!("it panics") })).map(|(): ()| ());
        assert_eq!(failed.expect_err("it has panicked").to_string(), "the request has panicked");
        assert_eq!(block_on(own.run(async { 1 })).expect("others run"), 1);
    }

    #[test]
    fn dropped_request_is_cancelled() {
        struct Dropped(Arc<Watched<bool>>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.update(|dropped| *dropped = true);
            }
        }
        let (own, dropped) = (OwnLoop::default(), Arc::new(Watched::new(false)));
        let guard = Dropped(dropped.clone());
        let mut request = Box::pin(own.run(async move {
            let _guard = guard;
            pending::<()>().await;
        }));
        let cx = &mut std::task::Context::from_waker(std::task::Waker::noop());
        assert!(request.as_mut().poll(cx).is_pending());
        drop(request);
        assert!(dropped.wait_until(LONG, |dropped| *dropped), "its future is dropped");
    }
}
