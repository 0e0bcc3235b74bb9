//! Serving HTTP/1.1 connections with hyper.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    io,
    net::IpAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use bytes::Bytes;
use http::{Request, header};
use http_body::{Frame, SizeHint};
use hyper::{
    body::Incoming,
    rt::{Read, Write},
    server::conn::http1,
    service::service_fn,
};

use crate::http::{
    body::Body,
    connection_state::{Activity, ConnectionState},
    endpoint::Endpoint,
    lingering_close::LingeringClose,
    peer_addr::PeerAddr,
    shutdown::Arrivals,
};
use crate::runtime::Runtime;

/// The maximum size of the read buffer and of the write buffer of a connection. It fits every head that an endpoint
/// accepts, and data that arrives with it; the endpoint refuses larger heads.
const BUFFER: usize = 128 << 10;

/// Serves one connection until it ends. After its listener is stopped, it ends when the requests on it have been
/// answered.
///
/// The error of a failed connection is discarded, and its requests are cancelled. A stream should have a
/// [`WriteTimeout`](super::WriteTimeout) around its socket. The address of the peer, if it has one, identifies the
/// client of its requests, and is in their extensions if handlers get these.
pub async fn serve<R: Runtime>(
    io: impl Read + Write + Unpin,
    peer: Option<IpAddr>,
    endpoint: &Endpoint<R>,
    arrivals: &Arrivals,
) {
    let state = Arc::new(ConnectionState::new(endpoint.runtime().timer()));
    let peer = peer.map(PeerAddr);
    let service = service_fn(|mut request: Request<Incoming>| async {
        // The endpoint gets the address as an argument, since an extension costs three allocations.
        if let Some(peer) = peer.filter(|_| endpoint.exposes_heads) {
            request.extensions_mut().insert(peer);
        }
        arrivals.begin();
        state.set(Activity::Request);
        let timeout = async {
            let until = Instant::now() + endpoint.read_timeout;
            poll_fn(|cx| state.poll_until(until, cx)).await;
        };
        let response = endpoint.handle_unless(timeout, request, peer, || arrivals.end()).await;
        arrivals.end();
        // The endpoint sets this header if it has not read the body.
        state.set_unread(response.headers().contains_key(header::CONNECTION));
        Ok::<_, Infallible>(response.map(|body| ResponseBody { body, state: state.clone() }))
    });
    // The timeout of hyper for heads takes an allocation and another iteration of its loop per request.
    let mut connection = pin!(
        http1::Builder::new()
            .header_read_timeout(None)
            .max_buf_size(BUFFER)
            .serve_connection(LingeringClose::new(io, &state, arrivals.shutdown()), service)
    );
    let mut stopped = pin!(arrivals.stopped());
    let mut stopping = false;
    let mut registered: Option<Waker> = None;
    let mut head_until = Instant::now();
    let _ = poll_fn(|cx| {
        // Polling `stopped` takes locks that all connections share. Before the stop, one poll for each waker is enough.
        let is_registered = registered.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if !stopping && (!is_registered || arrivals.shutdown().is_stopped()) {
            if stopped.as_mut().poll(cx).is_ready() {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            } else {
                registered = Some(cx.waker().clone());
            }
        }
        let mut reads_again = endpoint.runtime().reads_after_writes();
        loop {
            let polled = connection.as_mut().poll(cx);
            if stopping {
                arrivals.accept_no_more();
            }
            // The first request on the connection may arrive after the stop.
            if !stopping && polled.is_pending() && arrivals.is_last_request() {
                stopping = true;
                connection.as_mut().graceful_shutdown();
                continue;
            }
            if polled.is_ready() || !state.awaits_head() {
                return polled.map(drop);
            }
            if state.begins_to_await() {
                head_until = Instant::now() + endpoint.read_timeout;
                // Once, so that other tasks run between the requests of a client that pipelines them.
                if std::mem::take(&mut reads_again) {
                    continue;
                }
            }
            return state.poll_until(head_until, cx);
        }
    })
    .await;
}

/// The body of a response. hyper drops it when it has taken all of it.
struct ResponseBody<T> {
    body: Body,
    state: Arc<ConnectionState<T>>,
}

impl<T> http_body::Body for ResponseBody<T> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<T> Drop for ResponseBody<T> {
    fn drop(&mut self) {
        self.state.end_request();
    }
}
