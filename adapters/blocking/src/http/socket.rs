//! A thread that drives one socket: it polls a future, and sleeps until the socket is ready or somebody wakes it.

use std::{
    cell::Cell,
    future::Future,
    io::{self, ErrorKind, IoSlice, PipeReader, PipeWriter, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::fd::AsFd,
    pin::{Pin, pin},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use hyper::rt::ReadBufCursor;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};

use super::task::with_own;

/// How much is read at once.
const CHUNK: usize = 16 * 1024;

/// The thread looks at its future, or is about to.
const LOOKING: u8 = 0;
/// It was woken, and has not looked since.
const WOKEN: u8 = 1;
/// It sleeps.
const ASLEEP: u8 = 2;

/// Wakes a thread that sleeps until a socket is ready.
struct Bell {
    state: AtomicU8,
    ring: PipeWriter,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::AcqRel) == ASLEEP {
            // It has room for more bytes than there can be sleepers.
            let _ = (&self.ring).write(&[1]);
        }
    }
}

/// Runs a future on this thread, which sleeps until one of the readinesses comes that the future has `wants` for, or until it
/// is woken.
///
/// # Errors
/// If the system has no descriptors left, or does not say what is ready.
pub(super) fn drive<S: AsFd, T>(socket: &S, wants: &Wants, future: impl Future<Output = T>) -> io::Result<T> {
    let mut future = pin!(future);
    let (heard, ring) = io::pipe()?;
    let bell = Arc::new(Bell { state: AtomicU8::new(LOOKING), ring });
    let waker = Waker::from(bell.clone());
    loop {
        let polled = with_own(|| future.as_mut().poll(&mut Context::from_waker(&waker)));
        if let Poll::Ready(value) = polled {
            return Ok(value);
        }
        // What was done for others is mostly done for this one.
        if bell.state.compare_exchange(LOOKING, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            wants.wait(socket, &heard)?;
            if bell.state.swap(LOOKING, Ordering::AcqRel) == WOKEN {
                (&heard).read_exact(&mut [0])?;
            }
        } else {
            bell.state.store(LOOKING, Ordering::Release);
        }
    }
}

/// For which readinesses of a socket a future waits.
#[derive(Clone)]
pub(super) struct Wants(Rc<Cell<PollFlags>>);

impl Wants {
    pub(super) fn nothing() -> Self {
        Self(Rc::new(Cell::new(PollFlags::empty())))
    }

    /// Sleeps until there is what is wanted, or something to be heard.
    fn wait<S: AsFd>(&self, socket: &S, heard: &PipeReader) -> io::Result<()> {
        let wanted = self.0.get();
        let mut fds = [PollFd::new(heard, PollFlags::IN), PollFd::new(socket, wanted)];
        // One that has hung up is ready for ever, whoever wants that.
        let fds = if wanted.is_empty() { &mut fds[..1] } else { &mut fds[..] };
        while let Err(error) = poll(fds, None) {
            if error != Errno::INTR {
                return Err(error.into());
            }
        }
        if fds.get(1).is_some_and(|fd| !fd.revents().is_empty()) {
            self.0.set(PollFlags::empty());
        }
        Ok(())
    }

    /// What a call comes to that does not wait; if it would have to, the future is polled again when the socket is ready.
    fn attempt<T>(&self, readiness: PollFlags, mut call: impl FnMut() -> io::Result<T>) -> Poll<io::Result<T>> {
        loop {
            match call() {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.0.set(self.0.get() | readiness);
                    return Poll::Pending;
                }
                done => return Poll::Ready(done),
            }
        }
    }

    /// Accepts a connection.
    pub(super) fn poll_accept(&self, listener: &TcpListener) -> Poll<io::Result<TcpStream>> {
        self.attempt(PollFlags::IN, || listener.accept()).map_ok(|(stream, _)| stream)
    }
}

/// A stream, for the future that is polled on its thread.
pub(super) struct Stream {
    stream: Rc<TcpStream>,
    wants: Wants,
    chunk: Vec<u8>,
}

impl Stream {
    /// # Errors
    /// If the stream is not there any more.
    pub(super) fn new(stream: Rc<TcpStream>, wants: Wants) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        // Streams of events are made of small pieces, and somebody waits for each of them.
        stream.set_nodelay(true)?;
        Ok(Self { stream, wants, chunk: vec![0; CHUNK] })
    }
}

impl hyper::rt::Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, wants, chunk } = &mut *self;
        let len = chunk.len().min(buffer.remaining());
        let read = wants.attempt(PollFlags::IN, || (&**stream).read(&mut chunk[..len]));
        read.map_ok(|read| buffer.put_slice(&chunk[..read]))
    }
}

impl hyper::rt::Write for Stream {
    fn poll_write(self: Pin<&mut Self>, _cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.wants.attempt(PollFlags::OUT, || (&*self.stream).write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match self.stream.shutdown(Shutdown::Write) {
            // The other end was faster.
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
        self.wants.attempt(PollFlags::OUT, || (&*self.stream).write_vectored(parts))
    }
}
