//! A connection to a name.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    pin::Pin,
    task::Poll,
    time::{Duration, Instant},
};

use super::Net;
use crate::drive::{Timer, runtime::aside};

/// How long a connection may take before the next address is tried beside it (RFC 8305, section 5).
const HEAD_START: Duration = Duration::from_millis(250);

/// Connects to whichever address of a host answers first.
pub(super) async fn dial<N: Net>(runtime: &N, host: &str, port: u16) -> io::Result<N::Stream> {
    race(runtime, addresses(runtime, host, port).await?).await
}

/// The addresses of a host, the two families taking turns (RFC 8305, section 4).
async fn addresses<N: Net>(runtime: &N, host: &str, port: u16) -> io::Result<VecDeque<SocketAddr>> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok([SocketAddr::new(address, port)].into());
    }
    let name = (bare.to_owned(), port);
    // That can take its time.
    let found: Vec<_> = aside(runtime, move || name.to_socket_addrs().map(Iterator::collect)).await?;
    Ok(in_turns(&found))
}

fn in_turns(found: &[SocketAddr]) -> VecDeque<SocketAddr> {
    let first = found.first().is_some_and(SocketAddr::is_ipv6);
    let (one, other): (VecDeque<_>, VecDeque<_>) = found.iter().partition(|address| address.is_ipv6() == first);
    let turns = one.len().max(other.len());
    (0..turns).flat_map(|turn| [one.get(turn).copied(), other.get(turn).copied()]).flatten().collect()
}

/// Tries one address after the other, each with a head start before the next. The first connection wins; of errors the last
/// is told.
async fn race<N: Net>(runtime: &N, mut addresses: VecDeque<SocketAddr>) -> io::Result<N::Stream> {
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
                next = Instant::now() + HEAD_START;
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let found = ["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"].map(address);
        let turns: Vec<_> = in_turns(&found).iter().map(ToString::to_string).collect();
        assert_eq!(turns, ["[::1]:1", "1.1.1.1:1", "[::2]:1", "[::3]:1"]);
        assert!(in_turns(&[]).is_empty());
    }
}
