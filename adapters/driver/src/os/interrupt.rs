//! Waits for sockets and descriptors that other threads can cancel.

use std::{
    io::{self, ErrorKind},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::AsFd,
    io::Errno,
};

use super::{
    net::{ACCEPT_BACKOFF, is_fatal, is_transient},
    system::wake::{WakeReader, WakeWriter, wake_pair},
};
use crate::sync::lock;

/// How long a wait that cannot be woken takes at most before it looks for a cancellation.
const STEP: Duration = Duration::from_millis(100);

/// Returns whether `fd` is ready now.
pub(super) fn is_ready(fd: impl AsFd, events: PollFlags) -> Result<bool, Errno> {
    const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::new(&fd, events)];
    loop {
        match poll(&mut fds, Some(&NO_TIME)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Cancels waits permanently. Dropping one end of a pair wakes every thread that polls the other end, now or later.
/// The pair is created by the first wait, since most writes do not wait.
#[derive(Debug, Default)]
pub struct Interrupt {
    pipe: OnceLock<WakeReader>,
    gate: Mutex<InterruptState>,
    stopped: AtomicBool,
}

#[derive(Debug, Default)]
struct InterruptState {
    released: bool,
    /// The write end, until the waits are cancelled.
    open: Option<WakeWriter>,
}

impl Interrupt {
    /// Creates an interrupt that has not been triggered.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Returns the end that becomes readable when all waits are cancelled.
    pub(super) fn released(&self) -> io::Result<&WakeReader> {
        if let Some(released) = self.pipe.get() {
            return Ok(released);
        }
        let (released, writer) = wake_pair()?;
        let mut gate = lock(&self.gate);
        Ok(self.pipe.get_or_init(|| {
            gate.open = Some(writer).filter(|_| !gate.released);
            released
        }))
    }

    /// Cancels all waits. Input that is already available can still be read.
    pub fn release(&self) {
        *lock(&self.gate) = InterruptState { released: true, open: None };
    }

    /// Cancels all waits and all further input and output.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.release();
    }

    /// Returns whether it was [stopped](Self::stop).
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Blocks until `fd` is ready. Returns `false` if it is not ready and the wait was cancelled.
    ///
    /// # Errors
    /// If the system fails. A lack of descriptors is no error.
    pub fn wait(&self, fd: impl AsFd, events: PollFlags) -> io::Result<bool> {
        self.wait_for(fd, events, None)
    }

    /// Does what [`wait`](Self::wait) does, but no longer than `timeout`, if there is one.
    ///
    /// # Errors
    /// If the system fails, and [`TimedOut`](ErrorKind::TimedOut).
    pub fn wait_for(&self, fd: impl AsFd, events: PollFlags, timeout: Option<Duration>) -> io::Result<bool> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        let Ok(released) = self.released() else { return self.wait_in_steps(fd, events, until) };
        let mut fds = [PollFd::new(&fd, events), PollFd::new(released, PollFlags::IN)];
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            match poll(&mut fds, left.and_then(|left| Timespec::try_from(left).ok()).as_ref()) {
                Ok(0) => return Err(ErrorKind::TimedOut.into()),
                Ok(_) => return Ok(!fds[0].revents().is_empty() && !self.is_stopped()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits while the system has no descriptors for the end that becomes readable. A cancellation is noticed after a
    /// step.
    fn wait_in_steps(&self, fd: impl AsFd, events: PollFlags, until: Option<Instant>) -> io::Result<bool> {
        loop {
            let left = until.map_or(STEP, |until| until.saturating_duration_since(Instant::now()).min(STEP));
            match poll(&mut [PollFd::new(&fd, events)], Timespec::try_from(left).ok().as_ref()) {
                Ok(0) if left.is_zero() => return Err(ErrorKind::TimedOut.into()),
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(!self.is_stopped()),
                Err(error) => return Err(error.into()),
            }
            if lock(&self.gate).released {
                return Ok(false);
            }
        }
    }

    /// Blocks as [`wait`](Self::wait) does, and returns `None` if the wait was neither cancelled nor `fd` is ready, but
    /// `wake` is. Also returns whether `wake` is ready.
    ///
    /// # Errors
    /// If the system fails, or has no descriptors left.
    pub fn wait_unless(&self, fd: impl AsFd, events: PollFlags, wake: &WakeReader) -> io::Result<(Option<bool>, bool)> {
        let mut fds =
            [PollFd::new(&fd, events), PollFd::new(self.released()?, PollFlags::IN), PollFd::new(wake, PollFlags::IN)];
        while let Err(error) = poll(&mut fds, None) {
            if error != Errno::INTR {
                return Err(error.into());
            }
        }
        let [is_ready, is_released, is_woken] = fds.map(|fd| !fd.revents().is_empty());
        Ok(((is_ready || is_released).then(|| is_ready && !self.is_stopped()), is_woken))
    }

    /// Waits for a connection to be accepted by `accept`, which does not wait. Returns `None` if the wait was
    /// cancelled.
    ///
    /// # Errors
    /// If the socket has [failed](is_fatal): not because a client left too early, not for lack of descriptors, and not
    /// because of a network error of one connection.
    pub fn accept<T>(&self, socket: impl AsFd, accept: impl Fn() -> io::Result<T>) -> io::Result<Option<T>> {
        while self.wait(socket.as_fd(), PollFlags::IN)? {
            match accept() {
                Ok(accepted) => return Ok(Some(accepted)),
                Err(error) if is_transient(&error) => {}
                Err(error) if is_fatal(&error) => return Err(error),
                Err(_) => thread::sleep(ACCEPT_BACKOFF),
            }
        }
        Ok(None)
    }

    /// Returns a function that calls [`stop`](Self::stop).
    pub fn stop_handle(self: &Arc<Self>) -> impl Fn() + Send + use<> {
        let interrupt = self.clone();
        move || interrupt.stop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::net::listen;

    #[test]
    fn accepts_after_errors_that_pass() {
        let of = |errno: Errno| io::Error::from(errno);
        let listener = listen("127.0.0.1:0").expect("there is a port");
        let client = std::net::TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
        let errors = Mutex::new(vec![of(Errno::BADF), of(Errno::NETDOWN), of(Errno::HOSTUNREACH), of(Errno::NOBUFS)]);
        let accept = || lock(&errors).pop().map_or(Ok(1), Err);
        let interrupt = Interrupt::new();
        assert!(interrupt.accept(&listener, accept).is_err_and(|error| is_fatal(&error)));
        assert!(lock(&errors).is_empty(), "the others are no reason to end");
        assert_eq!(interrupt.accept(&listener, accept).expect("it listens"), Some(1));
        drop(client);
    }

    #[test]
    fn waits_in_steps_end_as_others_do() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = listener.local_addr().expect("an address");
        let mut here = std::net::TcpStream::connect(address).expect("it listens");
        let (there, _) = listener.accept().expect("a client");
        let interrupt = Interrupt::new();
        let wait = |until| interrupt.wait_in_steps(&there, PollFlags::IN, until);
        let now = Instant::now();
        assert_eq!(wait(Some(now)).expect_err("nothing is there").kind(), ErrorKind::TimedOut);
        assert_eq!(wait(Some(now + 2 * STEP)).expect_err("nothing is there").kind(), ErrorKind::TimedOut);
        assert!(now.elapsed() >= 2 * STEP);
        io::Write::write_all(&mut here, b"x").expect("it is open");
        assert!(wait(None).expect("it waits"));
        io::Read::read_exact(&mut &there, &mut [0]).expect("it is there");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| wait(None));
            interrupt.release();
            assert!(!waiting.join().expect("no panic").expect("it waits"));
        });
    }

    #[test]
    fn clients_that_have_left_cause_no_pause() {
        const LEFT: u32 = 200;
        let listener = listen("127.0.0.1:0").expect("there is a port");
        let _client = std::net::TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
        let kinds = [ErrorKind::WouldBlock, ErrorKind::Interrupted, ErrorKind::ConnectionAborted];
        let errors = Mutex::new(kinds.into_iter().cycle().take(LEFT as usize));
        let start = Instant::now();
        let accepted =
            Interrupt::new().accept(&listener, || lock(&errors).next().map_or(Ok(1), |kind| Err(kind.into())));
        assert_eq!(accepted.expect("it listens"), Some(1));
        assert!(start.elapsed() < ACCEPT_BACKOFF * LEFT / 2, "{:?}", start.elapsed());
    }

    #[test]
    fn interrupt_ends_wait_before_and_during_it() {
        let (silent, writer) = wake_pair().expect("a pair");
        let waits = |interrupt: &Interrupt| interrupt.wait(&silent, PollFlags::IN).expect("the system says");
        let early = Interrupt::new();
        early.release();
        assert!(!waits(&early), "before the first wait");
        let late = Interrupt::new();
        thread::scope(|scope| {
            let waiting = [0, 1].map(|_| scope.spawn(|| waits(&late)));
            late.release();
            assert!(waiting.map(|wait| wait.join().expect("no panic")) == [false, false], "during it");
        });
        // Available input can still be read, unless the interrupt was stopped.
        drop(writer);
        assert!(waits(&early));
        early.stop();
        assert!(!waits(&early));
    }
}
