//! An HTTP client on ureq, with a thread for each request.

use std::{
    future::Future,
    io::{self, ErrorKind, Read},
    mem,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::Request;
use mcp_driver::{
    Runtime, Watched,
    http::{HttpClient, ResponseHandler},
    os::thread::lock,
};
use ureq::{Agent, Body, config::Config};

use super::{connection_io::CHUNK, threads::Threads};

/// How long connecting may take by default. An attempt to connect cannot be cancelled: if its request is cancelled, its
/// thread lives this long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How many idle agents, with their connections, are kept.
const MAX_IDLE_AGENTS: usize = 8;

/// An HTTP client on ureq.
///
/// An agent carries one request at a time, because cancelling a request shuts its whole agent down. So an agent has one
/// connection, which is reused after the request has ended and closed at once if the request is cancelled.
pub(super) struct UreqClient {
    threads: Threads,
    config: Config,
    idle: Arc<Mutex<Vec<Agent>>>,
}

/// Returns the default configuration of requests.
pub(super) fn default_config() -> Config {
    let config = Agent::config_builder().timeout_connect(Some(CONNECT_TIMEOUT));
    #[cfg(feature = "tls")]
    let config = {
        use ureq::tls::{RootCerts, TlsConfig};
        config.tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
    };
    config.build()
}

impl UreqClient {
    pub(super) fn new(threads: Threads, config: Config) -> Self {
        Self { threads, config, idle: Arc::default() }
    }
}

impl HttpClient for UreqClient {
    fn make(&self, request: Request<Arc<[u8]>>, response: ResponseHandler) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let agent = lock(&self.idle).pop().unwrap_or_else(|| self.config.new_agent());
        let task = Arc::new(RequestTask { agent, state: Watched::default(), idle: self.idle.clone() });
        let guard = RequestGuard(task.clone());
        self.threads.spawn_blocking(move || task.run(request, response));
        Box::pin(async move {
            let task = &guard.0;
            task.state.wait_for(|state| (*state == State::Ended).then_some(())).await;
        })
    }
}

/// The thread's part of a request.
struct RequestTask {
    agent: Agent,
    state: Watched<State>,
    idle: Arc<Mutex<Vec<Agent>>>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum State {
    #[default]
    Running,
    Abandoned,
    Ended,
}

/// Cancels the request when it is dropped, unless it has ended.
struct RequestGuard(Arc<RequestTask>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        if self.0.state.update(|state| state.finish(State::Abandoned)) {
            self.0.agent.clone().shutdown();
        }
    }
}

impl State {
    /// Sets the end of a running request. Returns whether it was still running.
    fn finish(&mut self, end: Self) -> bool {
        *self == Self::Running && mem::replace(self, end) == Self::Running
    }
}

impl RequestTask {
    fn run(&self, request: Request<Arc<[u8]>>, mut response: ResponseHandler) {
        let done = self.send(request).and_then(|(head, body)| {
            response.head(&head);
            read(body, &mut response)
        });
        // The state changes before the end is reported: the receiver may then drop the `RequestGuard`.
        if self.state.update(|state| state.finish(State::Ended)) {
            let mut idle = lock(&self.idle);
            if done.is_ok() && idle.len() < MAX_IDLE_AGENTS {
                idle.push(self.agent.clone());
            }
        }
        match done {
            Ok(()) => response.end(),
            Err(error) => response.fail(error.to_string()),
        }
    }

    fn send(&self, request: Request<Arc<[u8]>>) -> Result<(http::response::Parts, Body), ureq::Error> {
        let (head, content) = request.into_parts();
        if content.is_empty() {
            self.run_with(Request::from_parts(head, ()))
        } else {
            self.run_with(Request::from_parts(head, &*content))
        }
    }

    fn run_with(&self, request: Request<impl ureq::AsSendBody>) -> Result<(http::response::Parts, Body), ureq::Error> {
        // The core handles every response, including redirects and errors.
        let request = self.agent.configure_request(request).max_redirects(0).http_status_as_error(false).build();
        self.agent.run(request).map(http::Response::into_parts)
    }
}

/// Passes the body on as it arrives.
fn read(body: Body, response: &mut ResponseHandler) -> Result<(), ureq::Error> {
    let (mut body, mut chunk) = (body.into_reader(), vec![0; CHUNK]);
    loop {
        match body.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(read) => response.chunk(&chunk[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(ureq_error(error)),
        }
    }
}

/// Returns the error of ureq that was wrapped into an error of `std`.
fn ureq_error(error: io::Error) -> ureq::Error {
    error.downcast::<ureq::Error>().unwrap_or_else(ureq::Error::Io)
}
