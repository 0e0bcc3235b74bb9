//! Unix system calls that drivers need beyond the standard library, without unsafe code: process groups, non-blocking
//! reads and writes, cancellable waits, and the standard streams of this process.

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

/// A process group: its leader, and the processes that the leader has started and that have not left the group.
#[derive(Clone, Copy, Debug)]
pub struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// Returns the group that the process with this id leads.
    #[must_use]
    pub fn of(process: u32) -> Self {
        Self(i32::try_from(process).ok().and_then(Pid::from_raw))
    }

    /// Sends SIGTERM to all members.
    pub fn terminate(self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGKILL to all members.
    pub fn kill(self) {
        self.signal(Signal::KILL);
    }

    /// Returns whether the group has members.
    #[must_use]
    pub fn has_members(self) -> bool {
        self.0.is_some_and(|group| test_kill_process_group(group).is_ok())
    }

    fn signal(self, signal: Signal) {
        if let Some(group) = self.0 {
            // The id stays taken while the group has members. An error means that there are none.
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
/// The descriptor is not made non-blocking: that is a property of the open file, which other processes may share.
#[derive(Debug)]
pub struct Reader {
    /// Whether the kernel supports non-blocking reads (`RWF_NOWAIT`) for this kind of file.
    nowait: bool,
}

impl Reader {
    /// Creates a reader. `watched` is whether its descriptor can be polled. A regular file cannot: it is always ready.
    #[must_use]
    pub const fn new(watched: bool) -> Self {
        Self { nowait: cfg!(target_os = "linux") && watched }
    }

    /// Reads available bytes.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if no bytes are available; otherwise the error of the system.
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
    /// Whether the kernel supports non-blocking writes (`RWF_NOWAIT`) for this kind of file.
    nowait: bool,
}

impl Writer {
    /// Creates a writer. `watched` has the meaning that it has in [`Reader::new`].
    #[must_use]
    pub const fn new(watched: bool) -> Self {
        Self { nowait: cfg!(target_os = "linux") && watched }
    }

    /// Writes as many bytes as possible without waiting.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if none can be written; otherwise the error of the system.
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
        // A descriptor that is ready takes at least this many bytes without waiting.
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

/// Shuts down the write direction of a socket, which can still be read.
pub fn end_output(socket: impl AsFd) {
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
}

/// Cancels waits permanently. Closing the write end of a pipe wakes every thread that polls the read end, now or later.
/// The pipe is created by the first wait, since most writes do not wait.
#[derive(Debug, Default)]
pub struct Interrupt {
    pipe: OnceLock<PipeReader>,
    gate: Mutex<InterruptState>,
    stopped: AtomicBool,
}

#[derive(Debug, Default)]
struct InterruptState {
    released: bool,
    /// The write end, until the waits are cancelled.
    open: Option<PipeWriter>,
}

impl Interrupt {
    /// Creates an interrupt that has not been triggered.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Returns the pipe that becomes readable when all waits are cancelled.
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
    pub fn stop_handle(self: &Arc<Self>) -> impl Fn() + Send + use<> {
        let interrupt = self.clone();
        move || interrupt.stop()
    }
}

/// Binds a non-blocking listener to the first of these TCP addresses that is available.
///
/// # Errors
/// If none is available.
pub fn listen(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    // The backlog of the standard library is too small for many simultaneous connections.
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

/// Returns how many connections this process should have at once if each takes so many descriptors: as many as fit in
/// three quarters of the descriptor limit, and at least one. The rest is left to handlers.
#[must_use]
pub fn most_connections(descriptors_each: usize) -> usize {
    let most = getrlimit(Resource::Nofile).current.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    (most / 4 * 3 / descriptors_each.max(1)).max(1)
}

/// The keep-alive settings of TCP connections: the idle time before the first probe, the interval of probes, and their
/// number.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(60), Duration::from_secs(15), 4);

/// Enables keep-alive probes for a TCP connection: after a minute of silence, four within another minute. They end the
/// connection of a peer that has vanished. Errors are ignored: they mean that the connection has ended, which its
/// reader notices.
pub fn keep_alive(socket: impl AsFd) {
    use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};

    let (idle, interval, count) = KEEPALIVE;
    let _ = set_socket_keepalive(&socket, true)
        .and_then(|()| set_tcp_keepidle(&socket, idle))
        .and_then(|()| set_tcp_keepintvl(&socket, interval))
        .and_then(|()| set_tcp_keepcnt(&socket, count));
}

/// The first descriptor that is not a standard stream.
const FIRST: i32 = 3;

/// Returns copies of the standard input and output of this process, which keep their descriptors. No other code may
/// read from the one or write to the other while the copies are in use.
///
/// # Errors
/// If the system has no descriptors left.
pub fn share_stdio() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok((fcntl_dupfd_cloexec(stdin(), FIRST)?, fcntl_dupfd_cloexec(stdout(), FIRST)?))
}

/// Takes standard input and output away from other code of this process: descriptor 0 becomes `/dev/null` and
/// descriptor 1 a copy of standard error.
///
/// # Errors
/// If they were taken before, or the system has no descriptors left.
pub fn take_stdio() -> io::Result<(OwnedFd, OwnedFd)> {
    // The lock is held until the end, so that concurrent callers wait. The streams count as taken only if this
    // succeeds.
    static TAKEN: Mutex<bool> = Mutex::new(false);
    let mut taken = lock(&TAKEN);
    if *taken {
        return Err(io::Error::other("standard input and output belong to a connection already"));
    }
    let (streams, nothing) = (share_stdio()?, File::open("/dev/null")?);
    // Text that `print!` has buffered goes to standard error too, when it is flushed.
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
        // Errors of accept(2) that concern a connection, a firewall, or a shortage.
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
    fn connection_limit_reserves_file_descriptors() {
        let most =
            getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| usize::try_from(most).expect("it fits"));
        assert_eq!(most_connections(1), most / 4 * 3);
        assert_eq!(most_connections(3), most / 4 * 3 / 3);
        assert_eq!(most_connections(usize::MAX), 1);
    }

    #[test]
    fn interrupt_ends_wait_before_and_during_it() {
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
        // Available input can still be read, unless the interrupt was stopped.
        drop(writer);
        assert!(waits(&early));
        early.stop();
        assert!(!waits(&early));
    }
}
