//! Serving HTTP/1.1 connections with hyper.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    net::IpAddr,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use http::{Request, header};
use hyper::{
    body::Incoming,
    rt::{Read, Sleep, Timer as HyperTimer, Write},
    server::conn::http1,
    service::service_fn,
};

use crate::http::{endpoint::Endpoint, lingering_close::LingeringClose, peer_addr::PeerAddr, shutdown::Arrivals};
use crate::{
    runtime::{Runtime, Timer},
    sync::lock,
};

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
    let clock = Clock::new(endpoint.runtime());
    let unread = AtomicBool::new(false);
    let peer = peer.map(PeerAddr);
    let service = service_fn(|mut request: Request<Incoming>| async {
        // The endpoint gets the address as an argument, since an extension costs three allocations.
        if let Some(peer) = peer.filter(|_| endpoint.exposes_heads) {
            request.extensions_mut().insert(peer);
        }
        arrivals.begin();
        let timeout = async { clock.pause(Instant::now() + endpoint.read_timeout).await };
        let response = endpoint.handle_unless(timeout, request, peer, || arrivals.end()).await;
        arrivals.end();
        // The endpoint sets this header if it has not read the body.
        unread.store(response.headers().contains_key(header::CONNECTION), Ordering::Relaxed);
        Ok::<_, Infallible>(response)
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(clock.clone())
            .header_read_timeout(endpoint.read_timeout)
            .max_buf_size(BUFFER)
            .serve_connection(LingeringClose::new(io, clock.clone(), arrivals.shutdown(), &unread), service)
    );
    let mut stopped = pin!(arrivals.stopped());
    let mut stopping = false;
    let mut registered: Option<Waker> = None;
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
        loop {
            let polled = connection.as_mut().poll(cx);
            if stopping {
                arrivals.accept_no_more();
            }
            // The first request on the connection may arrive after the stop.
            if stopping || polled.is_ready() || !arrivals.is_last_request() {
                return polled;
            }
            stopping = true;
            connection.as_mut().graceful_shutdown();
        }
    })
    .await;
}

/// The timer of one connection. A connection waits for one deadline at a time, so one timer of the runtime serves all
/// of them. Few deadlines expire, and reusing a running timer for the next one costs nothing.
struct Clock<T>(Arc<Mutex<T>>);

impl<T: Timer> Clock<T> {
    fn new(runtime: &impl Runtime<Timer = T>) -> Self {
        Self(Arc::new(Mutex::new(runtime.timer())))
    }

    fn pause(&self, until: Instant) -> Pause<T> {
        Pause { timer: self.0.clone(), until }
    }
}

impl<T> Clone for Clock<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Timer> HyperTimer for Clock<T> {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(self.pause(deadline))
    }
}

/// A wait for one deadline.
struct Pause<T> {
    /// Only the task of the connection takes the lock. It exists because hyper requires that timers can be shared.
    timer: Arc<Mutex<T>>,
    until: Instant,
}

impl<T: Timer> Future for Pause<T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        lock(&self.timer).poll_until(self.until, cx)
    }
}

impl<T: Timer> Sleep for Pause<T> {}
