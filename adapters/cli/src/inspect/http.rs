//! A server over HTTP, with an observer between: an HTTP client on ureq that shows what it sends and receives.

use std::{
    future::Future,
    io::{self, Read},
    mem,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use http::{Method, Request, StatusCode, header::CONTENT_TYPE, response::Parts};
use mcp_blocking::http::ureq::{
    self, Agent,
    tls::{RootCerts, TlsConfig},
};
use mcp_driver::{
    Watched,
    http::{HttpClient, ResponseHandler},
};
use mcp_proto::codec::FrameEnd;

use super::observer::{Body, Observer};
use crate::record::Origin;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The bytes that are read at once.
const CHUNK: usize = 16 * 1024;

/// How many connections are kept between requests.
const MAX_IDLE: usize = 8;

/// An HTTP client with a thread for each request.
pub(crate) struct ObservedClient {
    observer: Observer,
    idle: Arc<Mutex<Vec<Agent>>>,
}

impl ObservedClient {
    pub(crate) fn new(observer: Observer) -> Self {
        Self { observer, idle: Arc::default() }
    }
}

/// A request. An agent has one connection, which is shut down if the request is cancelled.
struct Exchange {
    agent: Agent,
    state: Watched<State>,
    observer: Observer,
    idle: Arc<Mutex<Vec<Agent>>>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum State {
    #[default]
    Running,
    Abandoned,
    Ended,
}

impl State {
    /// Sets the end of a running request. Returns whether it was still running.
    fn finish(&mut self, end: Self) -> bool {
        *self == Self::Running && mem::replace(self, end) == Self::Running
    }
}

/// Cancels the request when it is dropped, unless it has ended.
struct Guard(Arc<Exchange>);

impl Drop for Guard {
    fn drop(&mut self) {
        if self.0.state.update(|state| state.finish(State::Abandoned)) {
            self.0.agent.clone().shutdown();
        }
    }
}

fn agent() -> Agent {
    Agent::config_builder()
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
        .build()
        .new_agent()
}

impl HttpClient for ObservedClient {
    fn make(&self, request: Request<Arc<[u8]>>, response: ResponseHandler) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (observer, idle) = (self.observer.of_exchange(request.body()), self.idle.clone());
        let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let agent = kept.unwrap_or_else(agent);
        let exchange = Arc::new(Exchange { agent, state: Watched::default(), observer, idle });
        let guard = Guard(exchange.clone());
        let run = move || exchange.run(request, response);
        if let Err(error) = thread::Builder::new().name("inspect-http".into()).spawn(run) {
            // The response was dropped, which reports that the request was given up.
            self.observer.event(format!("no thread for a request: {error}"));
            return Box::pin(async {});
        }
        Box::pin(async move {
            guard.0.state.wait_for(|state| (*state == State::Ended).then_some(())).await;
        })
    }
}

impl Exchange {
    fn run(&self, request: Request<Arc<[u8]>>, mut response: ResponseHandler) {
        let observer = &self.observer;
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let is_message = method == Method::POST && !request.body().is_empty();
        // Before the server can respond to it.
        let number = is_message.then(|| observer.message(Origin::Client, request.body(), FrameEnd::Complete));
        let done = self.send(request).map_err(io::Error::other).and_then(|(head, content)| {
            if !head.status.is_success() {
                observer.event(format!("HTTP {} for {method} {path}", head.status.as_u16()));
            }
            response.head(&head);
            self.read(&head, content, number, &mut response)
        });
        let was_running = self.state.update(|state| state.finish(State::Ended));
        if was_running && done.is_ok() {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < MAX_IDLE {
                idle.push(self.agent.clone());
            }
        }
        match done {
            Ok(()) => response.end(),
            Err(error) => {
                if was_running {
                    observer.event(format!("{method} {path}: {error}"));
                    // The server may not have got it.
                    number.inspect(|number| observer.refused(*number));
                }
                response.fail(error.to_string());
            }
        }
    }

    fn send(&self, request: Request<Arc<[u8]>>) -> Result<(Parts, ureq::Body), ureq::Error> {
        let (head, content) = request.into_parts();
        if content.is_empty() {
            self.run_with(Request::from_parts(head, ()))
        } else {
            self.run_with(Request::from_parts(head, &*content))
        }
    }

    fn run_with(&self, request: Request<impl ureq::AsSendBody>) -> Result<(Parts, ureq::Body), ureq::Error> {
        // The core handles every response, including redirects and errors.
        let request = self.agent.configure_request(request).max_redirects(0).http_status_as_error(false).build();
        self.agent.run(request).map(http::Response::into_parts)
    }

    /// Passes the body on as it arrives, after it was seen. `number` is that of the message in the request.
    fn read(
        &self,
        head: &Parts,
        body: ureq::Body,
        number: Option<u64>,
        response: &mut ResponseHandler,
    ) -> io::Result<()> {
        let is_answer = number.is_some() && head.status.is_success();
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
        let (mut seen, mut body, mut chunk) = (Body::of(content_type, is_answer), body.into_reader(), vec![0; CHUNK]);
        loop {
            match body.read(&mut chunk) {
                Ok(0) => {
                    let has_id = seen.end(&self.observer);
                    if let Some(number) = number.filter(|_| is_refusal(head.status, has_id)) {
                        self.observer.refused(number);
                    }
                    return Ok(());
                }
                Ok(len) => {
                    seen.feed(&self.observer, &chunk[..len]);
                    response.chunk(&chunk[..len]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns whether the request may be sent again with its id. `has_id`: the response is a message with an id. After 401
/// and 403 the client sends it with other credentials, whatever the body was.
fn is_refusal(status: StatusCode, has_id: bool) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) || !has_id && !status.is_success()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_requests_may_be_sent_again() {
        for (status, has_id, expected) in [
            (200, false, false),
            (202, true, false),
            (400, true, false),
            (400, false, true),
            (401, true, true),
            (403, true, true),
            (404, false, true),
        ] {
            assert_eq!(is_refusal(StatusCode::from_u16(status).expect("a status"), has_id), expected, "{status}");
        }
    }
}
