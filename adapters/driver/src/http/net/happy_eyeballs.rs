//! Connecting to a host name (Happy Eyeballs, RFC 8305).

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    pin::Pin,
    task::Poll,
    time::{Duration, Instant},
};

use crate::http::net::net_runtime::ConnectRuntime;
use crate::runtime::{Timer, unblock};

/// How long an attempt may take before the next address is tried in parallel (RFC 8305, section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Connects to the address of a host that answers first.
pub(super) async fn happy_eyeballs<N: ConnectRuntime>(runtime: &N, host: &str, port: u16) -> io::Result<N::Stream> {
    race(runtime, addresses(runtime, host, port).await?).await
}

/// Returns the addresses of a host, alternating between the two families (RFC 8305, section 4).
pub(super) async fn addresses<N: ConnectRuntime>(
    runtime: &N,
    host: &str,
    port: u16,
) -> io::Result<VecDeque<SocketAddr>> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok([SocketAddr::new(address, port)].into());
    }
    let name = (bare.to_owned(), port);
    // Name resolution blocks.
    let found: Vec<_> = unblock(runtime, move || name.to_socket_addrs().map(Iterator::collect)).await?;
    Ok(interleave(&found))
}

fn interleave(found: &[SocketAddr]) -> VecDeque<SocketAddr> {
    let first = found.first().is_some_and(SocketAddr::is_ipv6);
    let (one, other): (VecDeque<_>, VecDeque<_>) = found.iter().partition(|address| address.is_ipv6() == first);
    let len = one.len().max(other.len());
    (0..len).flat_map(|index| [one.get(index).copied(), other.get(index).copied()]).flatten().collect()
}

/// Tries the addresses in order, starting the next one after [`ATTEMPT_DELAY`] or a failure. Returns the first
/// connection, or the last error.
pub(super) async fn race<N: ConnectRuntime>(runtime: &N, mut addresses: VecDeque<SocketAddr>) -> io::Result<N::Stream> {
    type Attempt<S> = Pin<Box<dyn Future<Output = io::Result<S>> + Send>>;
    let mut attempts: Vec<Attempt<N::Stream>> = Vec::new();
    let mut failed = None;
    let (mut timer, mut next) = (runtime.timer(), Instant::now());
    poll_fn(|cx| {
        loop {
            let mut index = 0;
            while let Some(attempt) = attempts.get_mut(index) {
                match attempt.as_mut().poll(cx) {
                    Poll::Ready(Ok(stream)) => return Poll::Ready(Ok(stream)),
                    Poll::Ready(Err(error)) => {
                        failed = Some(error);
                        drop(attempts.swap_remove(index));
                        next = Instant::now();
                    }
                    Poll::Pending => index += 1,
                }
            }
            if addresses.is_empty() && attempts.is_empty() {
                return Poll::Ready(Err(failed.take().unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into())));
            }
            if addresses.is_empty() || timer.poll_until(next, cx).is_pending() {
                return Poll::Pending;
            }
            if let Some(address) = addresses.pop_front() {
                attempts.push(Box::pin(N::connect(address)));
                next = Instant::now() + ATTEMPT_DELAY;
            }
        }
    })
    .await
}

#[cfg(test)]
pub(super) mod tests {
    use std::{
        cell::{Cell, RefCell},
        future::pending,
        io::ErrorKind,
        pin::pin,
        task::{Context, Waker},
    };

    use hyper::rt::{Read, ReadBufCursor, Write};

    use super::*;
    use crate::runtime::Runtime;

    /// A runtime whose timers fire at once or never.
    #[derive(Clone)]
    pub(in crate::http::net) struct TestRuntime {
        pub(in crate::http::net) fires: bool,
    }

    thread_local! {
        /// The number of connections that this thread has opened.
        static CONNECTS: Cell<usize> = const { Cell::new(0) };
        /// The tasks of this thread, which are not polled.
        static TASKS: RefCell<Vec<Pin<Box<dyn Future<Output = ()> + Send>>>> = RefCell::default();
    }

    pub(in crate::http::net) fn connects() -> usize {
        CONNECTS.get()
    }

    /// A connection without any input.
    #[derive(Debug, PartialEq)]
    pub(in crate::http::net) struct MockStream(SocketAddr);

    impl Runtime for TestRuntime {
        type Task = ();
        type Timer = Self;

        fn current() -> io::Result<Self> {
            Ok(Self { fires: true })
        }

        fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
            TASKS.with_borrow_mut(|tasks| tasks.push(Box::pin(future)));
        }

        fn detach((): ()) {}

        fn spawn_blocking(&self, f: impl FnOnce() + Send + 'static) {
            f();
        }

        fn timer(&self) -> Self {
            self.clone()
        }
    }

    impl Timer for TestRuntime {
        fn poll_until(&mut self, at: Instant, _: &mut Context<'_>) -> Poll<()> {
            if self.fires || at <= Instant::now() { Poll::Ready(()) } else { Poll::Pending }
        }
    }

    impl ConnectRuntime for TestRuntime {
        type Stream = MockStream;

        /// Connects to all ports except 1, which never responds, and 2, which refuses.
        async fn connect(address: SocketAddr) -> io::Result<MockStream> {
            CONNECTS.set(CONNECTS.get() + 1);
            match address.port() {
                1 => pending().await,
                2 => Err(ErrorKind::ConnectionRefused.into()),
                _ => Ok(MockStream(address)),
            }
        }
    }

    impl Read for MockStream {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl Write for MockStream {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Returns the result of a race between these ports of one host: the port, the error, or nothing while it is
    /// pending.
    fn outcome(ports: &[u16], fires: bool) -> Option<Result<u16, ErrorKind>> {
        let addresses = ports.iter().map(|port| SocketAddr::from(([127, 0, 0, 1], *port))).collect();
        let runtime = TestRuntime { fires };
        let mut race = pin!(race(&runtime, addresses));
        match race.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result.map(|stream| stream.0.port()).map_err(|error| error.kind())),
            Poll::Pending => None,
        }
    }

    #[test]
    fn first_successful_attempt_wins() {
        assert_eq!(outcome(&[3, 4], true), Some(Ok(3)));
        // A refused attempt starts the next one at once, and an attempt without an answer after the delay.
        assert_eq!(outcome(&[2, 3], false), Some(Ok(3)));
        assert_eq!(outcome(&[1, 3], false), None);
        assert_eq!(outcome(&[1, 3], true), Some(Ok(3)));
        assert_eq!(outcome(&[1, 2, 1, 4], true), Some(Ok(4)));
        assert_eq!(outcome(&[1, 2], true), None);
        assert_eq!(outcome(&[2, 2], true), Some(Err(ErrorKind::ConnectionRefused)));
        assert_eq!(outcome(&[], true), Some(Err(ErrorKind::AddrNotAvailable)));
    }

    #[test]
    fn interleaves_address_families() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let found = ["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"].map(address);
        let order: Vec<_> = interleave(&found).iter().map(ToString::to_string).collect();
        assert_eq!(order, ["[::1]:1", "1.1.1.1:1", "[::2]:1", "[::3]:1"]);
        assert!(interleave(&[]).is_empty());
    }
}
