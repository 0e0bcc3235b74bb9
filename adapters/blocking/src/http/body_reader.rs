//! Requests and responses for applications that already have an HTTP server with threads.

use std::{
    fmt,
    future::poll_fn,
    io::{self, ErrorKind, Read},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes};
use http::{Request, Response};
use http_body::{Body as _, Frame};
use mcp_driver::http::Body;
use mcp_service::block_on;

use super::{connection_io::CHUNK, endpoint::Endpoint};

/// Responds to a request on this thread. The [`Caller`](mcp_proto::http::server::Caller) in its extensions identifies
/// the client. Without one, the client is anonymous, and the [`PeerAddr`](mcp_driver::http::PeerAddr) in the extensions
/// distinguishes it from others. It returns when the head of the response is known.
///
/// The reader of the request body is responsible for its timeout: if `read` fails, the response is 400. It is not
/// checked whether the client is still connected. If the response is a stream, a disconnect is noticed at the latest
/// when a [comment](super::Limits::keepalive) cannot be written.
pub fn handle(endpoint: &Endpoint, request: Request<impl Read>) -> Response<BodyReader> {
    block_on(endpoint.handle(request.map(Incoming))).map(|body| BodyReader { body, rest: Bytes::new() })
}

/// The body of a response: whole bytes, or a stream that can last for days. The server has to send each chunk at once.
/// Reading blocks until there is a chunk.
///
/// Dropping it before its end means that the client has disconnected.
pub struct BodyReader {
    body: Body,
    rest: Bytes,
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            let frame = block_on(poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx))).transpose()?;
            let Some(frame) = frame else { return Ok(0) };
            self.rest = frame.into_data().unwrap_or_default();
        }
        let len = self.rest.len().min(buffer.len());
        self.rest.copy_to_slice(&mut buffer[..len]);
        Ok(len)
    }
}

impl fmt::Debug for BodyReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyReader").field("body", &self.body).finish_non_exhaustive()
    }
}

/// A request body. Polling it reads from the reader, and blocks.
struct Incoming<B>(B);

/// No field is pinned in place.
impl<B> Unpin for Incoming<B> {}

impl<B: Read> http_body::Body for Incoming<B> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let mut chunk = vec![0; CHUNK];
        loop {
            match self.0.read(&mut chunk) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) => return Poll::Ready(None),
                Ok(read) => {
                    chunk.truncate(read);
                    return Poll::Ready(Some(Ok(Frame::data(chunk.into()))));
                }
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}
