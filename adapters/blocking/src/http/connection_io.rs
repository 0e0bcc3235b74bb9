//! The socket of a connection that one thread serves.

use std::{
    io::{self, ErrorKind, IoSlice},
    mem,
    net::{Shutdown, TcpStream},
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::rt::ReadBufCursor;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use crate::os::socket;
use mcp_driver::{
    http::Arrivals,
    os::{
        thread::lock,
        wake::{WakeReader, WakeWriter},
    },
};

/// A function that may block.
pub(super) type Function = Box<dyn FnOnce() + Send>;

/// The size of the read buffer.
pub(super) const CHUNK: usize = 16 * 1024;

/// The socket of a connection. Its thread usually waits in a read, which only the end of the connection interrupts.
/// While other threads can cause output, it waits in `poll(2)`, with a pipe with which they wake it.
pub(super) struct ConnectionIo {
    socket: TcpStream,
    wake_reader: WakeReader,
    wake_writer: WakeWriter,
    ends: Mutex<IoState>,
    arrivals: Arrivals,
    /// Set while a thread is in a blocking read, or about to be.
    reads: AtomicBool,
    /// Incremented when a function begins, and when it ends or another thread takes the connection over. So it is odd
    /// while the thread of this connection runs a function.
    epoch: AtomicU64,
}

/// The input that was read, and the readiness that is awaited.
struct IoState {
    chunk: Box<[u8]>,
    /// The part of `chunk` that was not consumed yet.
    unread: Range<usize>,
    /// The end of the input, or its error.
    end: Option<io::Result<()>>,
    interest: PollFlags,
    /// Set at first and by writes, and cleared by reads and by the shutdown of the output.
    is_quiet: bool,
}

impl ConnectionIo {
    /// Creates a connection whose client may be idle for `read_timeout` between requests, with a pipe with which other
    /// threads wake its thread.
    ///
    /// # Errors
    /// If the socket has failed.
    pub(super) fn new(
        socket: TcpStream,
        (wake_reader, wake_writer): (WakeReader, WakeWriter),
        read_timeout: Duration,
        arrivals: Arrivals,
    ) -> io::Result<Arc<Self>> {
        // Clients wait for each of the small chunks of an event stream.
        let _ = socket.set_nodelay(true);
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(read_timeout.max(Duration::from_millis(1))))?;
        let ends = IoState {
            chunk: vec![0; CHUNK].into(),
            unread: 0..0,
            end: None,
            interest: PollFlags::empty(),
            is_quiet: true,
        };
        let (reads, epoch) = Default::default();
        Ok(Arc::new(Self { socket, wake_reader, wake_writer, ends: Mutex::new(ends), arrivals, reads, epoch }))
    }

    /// Clears the readiness that the connection waits for, before it is polled.
    pub(super) fn begin(&self) {
        lock(&self.ends).interest = PollFlags::empty();
    }

    /// Returns whether the last response was written and the connection waits for the next request.
    pub(super) fn is_idle(&self) -> bool {
        let ends = lock(&self.ends);
        socket::READS_BLOCK && ends.interest == PollFlags::IN && ends.is_quiet
    }

    /// Reads the next input of the client and blocks until it is available, unless `still` returns `false`.
    pub(super) fn read(&self, still: impl FnOnce() -> bool) {
        // A task is woken before `shutdown_read` checks `reads`, so either `still` fails or this read is shut down.
        self.reads.store(true, Ordering::SeqCst);
        if still() {
            lock(&self.ends).fill(|chunk| socket::read(&self.socket, chunk));
        }
        self.reads.store(false, Ordering::SeqCst);
    }

    /// Returns whether a request is arriving on the connection.
    pub(super) const fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Ends a read that blocks.
    pub(super) fn shutdown_read(&self) {
        if self.reads.load(Ordering::SeqCst) {
            let _ = self.socket.shutdown(Shutdown::Read);
        }
    }

    /// Waits until the socket is ready for an operation that the connection waits for, the thread is woken, or the
    /// deadline is reached.
    ///
    /// # Errors
    /// The error of the system.
    pub(super) fn wait(&self, until: Option<Instant>) -> io::Result<()> {
        let interest = lock(&self.ends).interest;
        let time = until.map(|until| until.saturating_duration_since(Instant::now()));
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        let mut fds = [PollFd::new(&self.wake_reader, PollFlags::IN), PollFd::new(&self.socket, interest)];
        // `poll` always reports a socket whose peer has closed, even if `interest` is empty.
        let fds = if interest.is_empty() { &mut fds[..1] } else { &mut fds[..] };
        while let Err(error) = poll(fds, time.as_ref()) {
            if error != Errno::INTR {
                return Err(error.into());
            }
        }
        // A socket that is only ready for output is not read: on Windows that would block.
        let has_input = fds.get(1).is_some_and(|fd| !fd.revents().difference(PollFlags::OUT).is_empty());
        if interest.contains(PollFlags::IN) && has_input {
            lock(&self.ends).fill(|chunk| socket::read_now(&self.socket, chunk));
        }
        Ok(())
    }

    /// Wakes the thread that waits. The pipe has room for more bytes than there can be pending wake-ups.
    pub(super) fn wake(&self) {
        self.wake_writer.wake();
    }

    /// Consumes a wake-up.
    pub(super) fn drain_wakeups(&self) -> io::Result<()> {
        self.wake_reader.drain_one()
    }

    /// Runs a function on the thread of this connection, after a call of `begun` with the epoch of the function.
    /// Returns `false` if another thread has taken the connection over.
    pub(super) fn run(&self, function: Function, begun: impl FnOnce(u64)) -> bool {
        let step = self.epoch.load(Ordering::Relaxed) + 1;
        self.epoch.store(step, Ordering::SeqCst);
        begun(step);
        // A panic ends only this function, and not the thread.
        let _ = catch_unwind(AssertUnwindSafe(function));
        self.take_over(step)
    }

    /// Returns the number of beginnings and ends of functions, which is odd while one runs.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Marks the function as ended, or as taken over by another thread. Returns whether the caller is the first to do
    /// so.
    pub(super) fn take_over(&self, from: u64) -> bool {
        self.epoch.compare_exchange(from, from + 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn send(&self, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let sent = socket::write_now(&self.socket, parts);
        let mut ends = lock(&self.ends);
        match sent {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                ends.interest |= PollFlags::OUT;
                Poll::Pending
            }
            sent => {
                ends.is_quiet |= sent.is_ok();
                Poll::Ready(sent)
            }
        }
    }
}

impl IoState {
    /// Reads input, unless there is input that was not consumed yet.
    fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) {
        if !self.unread.is_empty() || self.end.is_some() {
            return;
        }
        self.is_quiet = false;
        match read(&mut self.chunk) {
            Ok(0) => self.end = Some(Ok(())),
            Ok(read) => self.unread = 0..read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => self.end = Some(Err(error)),
        }
    }
}

/// The stream that hyper reads and writes. Dropping it ends the connection, even if other references to it exist.
pub(super) struct Stream(pub(super) Arc<ConnectionIo>);

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.0.socket.shutdown(Shutdown::Both);
    }
}

impl hyper::rt::Read for Stream {
    /// Returns input that the thread of the connection has read. The thread reads when it has nothing else to do.
    fn poll_read(self: Pin<&mut Self>, _cx: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let mut ends = lock(&self.0.ends);
        if !ends.unread.is_empty() {
            let at = ends.unread.start;
            let read = ends.unread.len().min(buffer.remaining());
            buffer.put_slice(&ends.chunk[at..at + read]);
            ends.unread.start += read;
        } else if let Some(end) = &mut ends.end {
            // Every later read returns the end again.
            return Poll::Ready(mem::replace(end, Ok(())));
        } else {
            ends.interest |= PollFlags::IN;
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Stream {
    fn poll_write(self: Pin<&mut Self>, _cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.send(&[IoSlice::new(bytes)])
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // From now on, the thread waits in `poll(2)` until its deadline, and not in a blocking read.
        lock(&self.0.ends).is_quiet = false;
        Poll::Ready(match self.0.socket.shutdown(Shutdown::Write) {
            // The peer has closed the connection first.
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(()),
            done => done,
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.send(parts)
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, net::TcpListener};

    use mcp_driver::{http::Shutdown as ServerShutdown, os::wake::wake_pair};

    use super::*;

    #[test]
    fn socket_ready_for_output_only_is_not_read() -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut client = TcpStream::connect(listener.local_addr()?)?;
        let (socket, _) = listener.accept()?;
        let timeout = Duration::from_secs(20);
        let io = ConnectionIo::new(socket, wake_pair()?, timeout, ServerShutdown::default().connection())?;

        lock(&io.ends).interest = PollFlags::IN | PollFlags::OUT;
        io.wait(None)?;
        assert!(lock(&io.ends).is_quiet, "there was no read");

        client.write_all(b"x")?;
        lock(&io.ends).interest = PollFlags::IN;
        io.wait(None)?;
        assert_eq!(lock(&io.ends).unread, 0..1);
        Ok(())
    }
}
