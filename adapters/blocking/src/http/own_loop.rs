//! A client loop for requests that do not belong to a connection of MCP.

use std::{
    io,
    sync::{Arc, Mutex},
};

use mcp_driver::{Runtime, Watched, os::thread::lock};

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
}

#[cfg(test)]
mod tests {
    use std::{future::Future, time::Duration};

    use mcp_driver::run_in_task;
    use mcp_service::block_on;

    use super::*;

    /// Longer than any step takes.
    const LONG: Duration = Duration::from_secs(60);

    fn run<T: Send + 'static>(own: &OwnLoop, future: impl Future<Output = T> + Send + 'static) -> Option<T> {
        block_on(run_in_task(&own.get().expect("it is started"), future))
    }

    #[test]
    fn thread_lives_as_long_as_its_owner_and_requests() {
        let own = OwnLoop::default();
        assert_eq!(run(&own, async { 1 }), Some(1));
        let client_loop = own.get().expect("it is started");
        assert!(!client_loop.wait_for_end(Duration::from_millis(20)), "the owner may run more");
        assert_eq!(run(&own, async { 2 }), Some(2));
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
    fn panic_of_a_request_ends_only_that_request() {
        let own = OwnLoop::default();
        assert_eq!(run::<()>(&own, async { panic!("it panics") }), None);
        assert_eq!(run(&own, async { 1 }), Some(1));
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
        // Its waker keeps the task, so only the cancellation drops the future.
        let never = Arc::new(Watched::new(false));
        let (guard, waits_for) = (Dropped(dropped.clone()), never.clone());
        let client_loop = own.get().expect("it is started");
        let waits = async move {
            let _guard = guard;
            waits_for.wait_for(|happened| happened.then_some(())).await;
        };
        let mut request = Box::pin(run_in_task(&client_loop, waits));
        let cx = &mut std::task::Context::from_waker(std::task::Waker::noop());
        assert!(request.as_mut().poll(cx).is_pending());
        // After this task, the other one has begun to wait.
        assert_eq!(run(&own, async { 1 }), Some(1));
        drop(request);
        assert!(dropped.wait_until(LONG, |dropped| *dropped), "its future is dropped");
        drop(never);
    }
}
