//! A server over HTTP, with an observer between: an HTTP client that shows what it sends and receives.

use std::{future::Future, pin::Pin, sync::Arc};

use http::{Method, Request, StatusCode, header::CONTENT_TYPE, response::Parts};
use mcp_blocking::http::{HttpClient, NetClient, Proxy, ResponseHandler, ResponseSink};
use mcp_proto::codec::FrameEnd;

use super::observer::{Body, Observer};
use crate::record::Origin;

/// An HTTP client that shows messages.
pub(crate) struct ObservedClient {
    observer: Observer,
    client: NetClient,
}

impl ObservedClient {
    /// Creates a client that uses the proxy of the environment.
    ///
    /// # Errors
    /// If that proxy is not supported.
    pub(crate) fn new(observer: Observer) -> Result<Self, mcp_blocking::Error> {
        let client = match Proxy::from_env()? {
            Some(proxy) => NetClient::new().proxy(proxy),
            None => NetClient::new(),
        };
        Ok(Self { observer, client })
    }
}

impl HttpClient for ObservedClient {
    fn make(&self, request: Request<Arc<[u8]>>, response: ResponseHandler) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let observer = self.observer.of_exchange(request.body());
        let client = self.client.clone();
        Box::pin(async move {
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let is_message = method == Method::POST && !request.body().is_empty();
            // Before the server can respond to it. This may block.
            let number = is_message.then(|| observer.message(Origin::Client, request.body(), FrameEnd::Complete));
            let exchange = Exchange { observer, method, path, number, response, answer: None };
            if let Some((exchange, done)) = client.send(request, exchange).await {
                exchange.end(done);
            }
        })
    }
}

/// A request, and its response so far.
struct Exchange {
    observer: Observer,
    method: Method,
    path: String,
    /// The number of the message in the request.
    number: Option<u64>,
    response: ResponseHandler,
    answer: Option<(StatusCode, Body)>,
}

/// Passes the response on as it arrives, after it was seen.
impl ResponseSink for Exchange {
    fn head(&mut self, head: Parts) {
        if !head.status.is_success() {
            self.observer.event(format!("HTTP {} for {} {}", head.status.as_u16(), self.method, self.path));
        }
        self.response.head(&head);
        let is_answer = self.number.is_some() && head.status.is_success();
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
        self.answer = Some((head.status, Body::of(content_type, is_answer)));
    }

    fn chunk(&mut self, chunk: &[u8]) -> Result<(), String> {
        if let Some((_, seen)) = &mut self.answer {
            seen.feed(&self.observer, chunk);
        }
        self.response.chunk(chunk);
        Ok(())
    }
}

impl Exchange {
    fn end(self, done: Result<(), String>) {
        let Self { observer, method, path, number, response, answer } = self;
        match done {
            Ok(()) => {
                if let Some((status, mut seen)) = answer {
                    let has_id = seen.end(&observer);
                    number.filter(|_| is_refusal(status, has_id)).inspect(|number| observer.refused(*number));
                }
                response.end();
            }
            Err(why) => {
                observer.event(format!("{method} {path}: {why}"));
                // The server may not have got it.
                number.inspect(|number| observer.refused(*number));
                response.fail(why);
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
