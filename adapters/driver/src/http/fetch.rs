//! HTTP requests beside those of a connection, such as for the keys of an authorization server.

use std::io;

use http::{Request, Response};
use mcp_service::Deferred;

/// An HTTP client for short requests.
pub trait HttpFetch: Send + Sync + 'static {
    /// Sends a request unchanged, and returns its response. It follows no redirects and does not retry, and takes a
    /// bounded time. A body of more than `limit` bytes is an error, which is noticed before it is read to its end.
    fn fetch(&self, request: Request<Vec<u8>>, limit: usize) -> Deferred<io::Result<Response<Vec<u8>>>>;
}

/// A function of a request that returns at once is a client as well, for tests.
impl<F> HttpFetch for F
where
    F: Fn(Request<Vec<u8>>) -> io::Result<Response<Vec<u8>>> + Send + Sync + 'static,
{
    fn fetch(&self, request: Request<Vec<u8>>, limit: usize) -> Deferred<io::Result<Response<Vec<u8>>>> {
        let is_short = |response: &Response<Vec<u8>>| response.body().len() <= limit;
        let too_long = || io::Error::new(io::ErrorKind::FileTooLarge, "the response is too long");
        Deferred::ready(self(request).and_then(
            |response| {
                if is_short(&response) { Ok(response) } else { Err(too_long()) }
            },
        ))
    }
}
