//! Parts of a Unix system that drivers need beyond the standard library, without unsafe code: process groups,
//! descriptors that are read and written without waiting, and the standard streams of this process.

use std::{
    fs::File,
    io::{self, ErrorKind, IoSlice, IoSliceMut, PipeReader, PipeWriter},
    net::{TcpListener, ToSocketAddrs},
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, fcntl_dupfd_cloexec},
    net::Shutdown,
    pipe::PIPE_BUF,
    process::{Pid, Resource, Signal, getrlimit, kill_process_group, test_kill_process_group},
    stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout},
};

use crate::sync::lock;

/// A process that leads a group, and all that it has started and that has not left.
#[derive(Clone, Copy, Debug)]
pub struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// Returns the group of the process with this number.
    #[must_use]
    pub fn of(process: u32) -> Self {
        Self(i32::try_from(process).ok().and_then(Pid::from_raw))
    }

    /// Sends SIGTERM to all of them.
    pub fn terminate(self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGKILL to all of them.
    pub fn kill(self) {
        self.signal(Signal::KILL);
    }

    /// Returns whether the group has members.
    #[must_use]
    pub fn is_anybody_left(self) -> bool {
        self.0.is_some_and(|group| test_kill_process_group(group).is_ok())
    }

    fn signal(self, signal: Signal) {
        if let Some(group) = self.0 {
            // The number stays taken while the group has members. Without members there is no process to signal.
            let _ = kill_process_group(group, signal);
        }
    }
}

/// Returns whether `fd` is ready now.
fn is_ready(fd: impl AsFd, events: PollFlags) -> Result<bool, Errno> {
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

/// Reads from a descriptor without waiting.
///
/// The descriptor is not made non-blocking: that would be a property of the open file, which other processes may share.
#[derive(Debug)]
pub struct Reader {
    /// Whether the kernel knows reads that do not wait, for this kind of file.
    nowait: bool,
}

impl Reader {
    /// Creates a reader. `watched` says that its descriptor can be polled, unlike a file, which is always ready.
    #[must_use]
    pub const fn new(watched: bool) -> Self {
        Self { nowait: cfg!(target_os = "linux") && watched }
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if that is nothing yet; otherwise the error of the system.
    pub fn try_read(&mut self, fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.nowait.then(|| read_now(&fd, buffer)) {
            Some(Err(Errno::NOTSUP | Errno::NOSYS)) | None => {
                self.nowait = false;
                if is_ready(&fd, PollFlags::IN)? { rustix::io::read(&fd, buffer) } else { Err(Errno::AGAIN) }
            }
            Some(read) => read,
        };
        match read {
            // Another process that shares the file may have read first.
            Err(Errno::INTR | Errno::AGAIN) => Err(ErrorKind::WouldBlock.into()),
            read => Ok(read?),
        }
    }
}

/// Writes to a descriptor without waiting, as a [`Reader`] reads from it.
#[derive(Debug)]
pub struct Writer {
    /// Whether the kernel knows writes that do not wait, for this kind of file.
    nowait: bool,
}

impl Writer {
    /// Creates a writer, as [`Reader::new`] does a reader.
    #[must_use]
    pub const fn new(watched: bool) -> Self {
        Self { nowait: cfg!(target_os = "linux") && watched }
    }

    /// Writes what can be written without waiting.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if that is nothing; otherwise the error of the system.
    pub fn try_write(&mut self, fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
        if self.nowait {
            match write_now(&fd, bytes) {
                Err(Errno::NOTSUP | Errno::NOSYS) => self.nowait = false,
                Err(Errno::INTR) => return Err(ErrorKind::WouldBlock.into()),
                written => return Ok(written?),
            }
        }
        if !is_ready(&fd, PollFlags::OUT)? {
            return Err(ErrorKind::WouldBlock.into());
        }
        // What is ready takes this much without waiting.
        Ok(rustix::io::write(&fd, &bytes[..bytes.len().min(PIPE_BUF)])?)
    }
}

#[cfg(target_os = "linux")]
fn read_now(fd: impl AsFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    // The offset stands for the current position.
    rustix::io::preadv2(fd, &mut [IoSliceMut::new(buffer)], u64::MAX, rustix::io::ReadWriteFlags::NOWAIT)
}

#[cfg(not(target_os = "linux"))]
fn read_now(_: impl AsFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let _ = IoSliceMut::new(buffer);
    Err(Errno::NOTSUP)
}

#[cfg(target_os = "linux")]
fn write_now(fd: impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    // The offset stands for the current position.
    rustix::io::pwritev2(fd, &[IoSlice::new(bytes)], u64::MAX, rustix::io::ReadWriteFlags::NOWAIT)
}

#[cfg(not(target_os = "linux"))]
fn write_now(_: impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    let _ = IoSlice::new(bytes);
    Err(Errno::NOTSUP)
}

/// Says aloud that no more will come, on a socket that is still read from.
pub fn end_output(socket: impl AsFd) {
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
}

/// Cancels a wait, for good: closing the write end of a pipe wakes every thread that polls it, at any time. The first
/// wait creates the pipe, since most writes do not wait.
#[derive(Debug, Default)]
pub struct Interrupt {
    pipe: OnceLock<PipeReader>,
    gate: Mutex<InterruptState>,
    stopped: AtomicBool,
}

#[derive(Debug, Default)]
struct InterruptState {
    released: bool,
    /// As long as nothing is called off.
    open: Option<PipeWriter>,
}

impl Interrupt {
    /// Creates an interrupt that has not been triggered.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Returns a pipe that becomes readable when all waits are cancelled.
    fn released(&self) -> io::Result<&PipeReader> {
        if let Some(released) = self.pipe.get() {
            return Ok(released);
        }
        let (released, writer) = io::pipe()?;
        let mut gate = lock(&self.gate);
        Ok(self.pipe.get_or_init(|| {
            gate.open = Some(writer).filter(|_| !gate.released);
            released
        }))
    }

    /// Cancels all waits. Input that is already there may still be read.
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
    /// If the system fails, or has no descriptors left.
    pub fn wait(&self, fd: impl AsFd, events: PollFlags) -> io::Result<bool> {
        self.wait_for(fd, events, None)
    }

    /// Does what [`wait`](Self::wait) does, but no longer than `timeout`, if there is one.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and [`TimedOut`](ErrorKind::TimedOut).
    pub fn wait_for(&self, fd: impl AsFd, events: PollFlags, timeout: Option<Duration>) -> io::Result<bool> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        let mut fds = [PollFd::new(&fd, events), PollFd::new(self.released()?, PollFlags::IN)];
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

    /// Waits for a connection to be accepted by `accept`, which does not wait. Returns `None` if the wait was
    /// cancelled.
    ///
    /// # Errors
    /// If the socket has [failed](is_fatal): not because a client left too early, not for lack of descriptors, and not
    /// because of a network error of one connection.
    pub fn accept<T>(&self, socket: impl AsFd, accept: impl Fn() -> io::Result<T>) -> io::Result<Option<T>> {
        while self.wait(&socket, PollFlags::IN)? {
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
    pub fn stopper(self: &Arc<Self>) -> impl Fn() + Send + use<> {
        let interrupt = self.clone();
        move || interrupt.stop()
    }
}

/// Listens on the first of these TCP addresses that can be had, without blocking later on.
///
/// # Errors
/// If none can be had.
pub fn listen(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    // Many may come at once, and the standard library has few wait.
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 1024;

/// How long to wait when no connection could be accepted and the socket has not [failed](is_fatal).
pub const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// Returns whether a connection could not be accepted only because its client has left or another process accepted it.
#[must_use]
pub fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}

/// Returns whether a socket that failed to accept a connection will never accept another one: it is not open, not a
/// socket, or does not listen, or the error is not one of the system. All other errors are those of one connection, of
/// a firewall, or of a shortage of descriptors or memory, and pass: accept(2) also returns network errors of a
/// connection that was not accepted yet.
#[must_use]
pub fn is_fatal(error: &io::Error) -> bool {
    let errnos = [Errno::BADF, Errno::INVAL, Errno::NOTSOCK, Errno::FAULT];
    error.raw_os_error().map_or(!is_transient(error), |raw| errnos.iter().any(|errno| raw == errno.raw_os_error()))
}

/// Returns how many connections that take so many descriptors each this process should have at once: as many as three
/// quarters of the descriptors that it may have are enough for, and at least one. The rest is for handlers.
#[must_use]
pub fn most_connections(descriptors_each: usize) -> usize {
    let most = getrlimit(Resource::Nofile).current.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    (most / 4 * 3 / descriptors_each.max(1)).max(1)
}

/// How long a connection of TCP may be silent before the system asks whether its peer is there, how often it asks again, and
/// how many times.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(60), Duration::from_secs(15), 4);

/// Has the system look whether the peer of a connection of TCP is still there: after a minute of silence, and four times
/// within another one. A peer that is gone without a word ends its connection so. An error is that of a connection that has
/// ended, which is noticed where it is read.
pub fn keep_alive(socket: impl AsFd) {
    use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};

    let (idle, interval, count) = KEEPALIVE;
    let _ = set_socket_keepalive(&socket, true)
        .and_then(|()| set_tcp_keepidle(&socket, idle))
        .and_then(|()| set_tcp_keepintvl(&socket, interval))
        .and_then(|()| set_tcp_keepcnt(&socket, count));
}

/// Numbers below are those of the standard streams.
const FIRST: i32 = 3;

/// Returns standard input and output of this process, which keep their descriptors. Nothing else may read from the one
/// or write to the other as long as these are in use.
///
/// # Errors
/// If the system has no descriptors left.
pub fn share_stdio() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok((fcntl_dupfd_cloexec(stdin(), FIRST)?, fcntl_dupfd_cloexec(stdout(), FIRST)?))
}

/// Takes standard input and output of this process out of the reach of other code: descriptor 0 becomes `/dev/null` and
/// descriptor 1 a copy of standard error.
///
/// # Errors
/// If they were taken before, or the system has no descriptors left.
pub fn take_stdio() -> io::Result<(OwnedFd, OwnedFd)> {
    // The lock is held, so no other caller takes them. They count as taken only if this succeeds.
    static TAKEN: Mutex<bool> = Mutex::new(false);
    let mut taken = lock(&TAKEN);
    if *taken {
        return Err(io::Error::other("standard input and output belong to a connection already"));
    }
    let (streams, nothing) = (share_stdio()?, File::open("/dev/null")?);
    // Half a line that `print!` holds back goes to standard error as well, when it goes.
    dup2_stdin(nothing)?;
    dup2_stdout(stderr())?;
    *taken = true;
    Ok(streams)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_that_is_broken_ends_a_listener() {
        let of = |errno: Errno| io::Error::from(errno);
        for errno in [Errno::BADF, Errno::INVAL, Errno::NOTSOCK, Errno::FAULT] {
            assert!(is_fatal(&of(errno)), "{errno}");
        }
        // What accept(2) hands on of a connection, of a firewall, and of a shortage.
        for errno in [
            Errno::NETDOWN,
            Errno::PROTO,
            Errno::NOPROTOOPT,
            Errno::HOSTDOWN,
            Errno::HOSTUNREACH,
            Errno::OPNOTSUPP,
            Errno::NETUNREACH,
            Errno::CONNABORTED,
            Errno::PERM,
            Errno::TIMEDOUT,
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOBUFS,
            Errno::NOMEM,
            Errno::AGAIN,
            Errno::INTR,
        ] {
            assert!(!is_fatal(&of(errno)), "{errno}");
        }
        assert!(is_fatal(&io::Error::other("the runtime has ended")));
        let listener = listen("127.0.0.1:0").expect("there is a port");
        let client = std::net::TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
        let errors = Mutex::new(vec![of(Errno::BADF), of(Errno::NETDOWN), of(Errno::PERM), of(Errno::PROTO)]);
        let accept = || lock(&errors).pop().map_or(Ok(1), Err);
        let interrupt = Interrupt::new();
        assert!(interrupt.accept(&listener, accept).is_err_and(|error| is_fatal(&error)));
        assert!(lock(&errors).is_empty(), "the others are no reason to end");
        assert_eq!(interrupt.accept(&listener, accept).expect("it listens"), Some(1));
        drop(client);
    }

    #[test]
    fn connections_leave_descriptors_to_others() {
        let most =
            getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| usize::try_from(most).expect("it fits"));
        assert_eq!(most_connections(1), most / 4 * 3);
        assert_eq!(most_connections(3), most / 4 * 3 / 3);
        assert_eq!(most_connections(usize::MAX), 1);
    }

    #[test]
    fn a_wait_is_called_off_before_it_and_meanwhile() {
        let (silent, writer) = io::pipe().expect("a pipe");
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
        // What is there may still be read, unless nothing more is to be done.
        drop(writer);
        assert!(waits(&early));
        early.stop();
        assert!(!waits(&early));
    }
}
