//! Short requests with ureq, each on a thread.

use std::{
    io,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use http::{Request, Response};
use mcp_driver::{Watched, http::HttpFetch, os::thread::lock};
use mcp_service::{Deferred, driver_api::WaitQueue};
use ureq::{Agent, config::Config};

use super::ureq_client::default_config;

/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The most requests of a client at the same time.
const THREADS: usize = 32;

/// An HTTP client for short requests, on ureq. A request that takes longer than 10 seconds fails. At most 32 requests
/// run at the same time, and others wait.
#[derive(Clone, Debug)]
pub struct FetchClient {
    agent: Agent,
    slots: Arc<Slots>,
}

impl FetchClient {
    /// Creates a client that trusts the certificates that this system trusts, and uses the proxy that the environment
    /// names.
    #[must_use]
    pub fn new() -> Self {
        Self::with(default_config())
    }

    /// Creates a client with a configuration of ureq. Redirects are never followed.
    #[must_use]
    pub fn with(config: Config) -> Self {
        Self { agent: config.new_agent(), slots: Arc::default() }
    }
}

impl Default for FetchClient {
    fn default() -> Self {
        Self::new()
    }
}

impl HttpFetch for FetchClient {
    fn fetch(&self, request: Request<Vec<u8>>, limit: usize) -> Deferred<io::Result<Response<Vec<u8>>>> {
        let (agent, slots) = (self.agent.clone(), self.slots.clone());
        Deferred::new(async move { slots.run(move || send(&agent, request, limit)).await })
    }
}

/// The slots of the threads of a client.
#[derive(Debug, Default)]
struct Slots {
    used: Mutex<usize>,
    waiting: WaitQueue,
}

impl Slots {
    /// Runs a function on a thread as soon as there is a slot. The slot is used until the function ends, even if this
    /// future is dropped before.
    async fn run<T: Send + 'static>(
        self: Arc<Self>,
        function: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let slot = self.waiting.acquire(|| self.take()).await;
        let (result, over) = (Arc::new(Mutex::new(None)), slot.over.clone());
        let place = result.clone();
        thread::Builder::new().name("mcp-fetch".into()).spawn(move || {
            let done = function();
            *lock(&place) = Some(done);
            drop(slot);
        })?;
        over.wait_for(|over| over.then_some(())).await;
        let result = lock(&result).take();
        result.unwrap_or_else(|| Err(io::Error::other("there is no response")))
    }

    fn take(self: &Arc<Self>) -> Option<Slot> {
        let mut used = lock(&self.used);
        if *used >= THREADS {
            return None;
        }
        *used += 1;
        Some(Slot { slots: self.clone(), over: Arc::default() })
    }
}

/// The slot of a thread. When it is dropped, the function has ended, or has panicked.
struct Slot {
    slots: Arc<Slots>,
    over: Arc<Watched<bool>>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        *lock(&self.slots.used) -= 1;
        self.slots.waiting.notify_one();
        self.over.update(|over| *over = true);
    }
}

fn send(agent: &Agent, request: Request<Vec<u8>>, limit: usize) -> io::Result<Response<Vec<u8>>> {
    let (head, content) = request.into_parts();
    let response = if content.is_empty() {
        run(agent, Request::from_parts(head, ()))
    } else {
        run(agent, Request::from_parts(head, &*content))
    };
    let (head, body) = response.map_err(ureq::Error::into_io)?.into_parts();
    // ureq counts the end of a body as well.
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    match body.into_with_config().limit(most).read_to_vec() {
        Ok(body) if body.len() <= limit => Ok(Response::from_parts(head, body)),
        Ok(_) | Err(ureq::Error::BodyExceedsLimit(_)) => {
            Err(io::Error::new(io::ErrorKind::FileTooLarge, "the response is too long"))
        }
        Err(error) => Err(error.into_io()),
    }
}

fn run(agent: &Agent, request: Request<impl ureq::AsSendBody>) -> Result<Response<ureq::Body>, ureq::Error> {
    let request = agent.configure_request(request).max_redirects(0).http_status_as_error(false);
    agent.run(request.timeout_global(Some(TIMEOUT)).build())
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        sync::mpsc,
        task::{Context, Waker},
    };

    use super::*;

    #[test]
    fn thread_count_is_bounded_until_threads_end() {
        let (slots, (begun, begins)) = (Arc::new(Slots::default()), mpsc::channel());
        let cx = &mut Context::from_waker(Waker::noop());
        let mut gates = Vec::new();
        let mut calls: Vec<_> = (0..THREADS + 1)
            .map(|index| {
                let (gate, opened) = mpsc::channel::<()>();
                let begun = begun.clone();
                gates.push(gate);
                Box::pin(slots.clone().run(move || {
                    begun.send(index).expect("it is counted");
                    let _ = opened.recv();
                    Ok(index)
                }))
            })
            .collect();
        assert!(calls.iter_mut().all(|call| call.as_mut().poll(cx).is_pending()));
        let mut first: Vec<_> = begins.iter().take(THREADS).collect();
        first.sort_unstable();
        assert!(first.into_iter().eq(0..THREADS), "the last one waits");
        let last = calls.pop().expect("there are some");
        // Requests that leave do not end their threads.
        drop(calls);
        assert!(slots.take().is_none());
        drop(gates);
        assert_eq!(Deferred::new(last).wait().expect("there is a slot"), THREADS);
    }

    #[test]
    fn panicking_function_yields_error() {
        let slots = Arc::new(Slots::default());
        let failed = Deferred::new(slots.clone().run(|| -> io::Result<()> { panic!("it panics") })).wait();
        assert_eq!(failed.expect_err("it has panicked").to_string(), "there is no response");
        assert!(slots.take().is_some());
        assert_eq!(*lock(&slots.used), 0);
    }
}
