//! The sockets of a client.

use std::{
    io::{self, ErrorKind, IoSlice, Read as _, Write as _},
    net::{Shutdown, TcpStream},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use hyper::rt::{Read, ReadBufCursor, Write};
use mcp_driver::os::thread::lock;
use rustix::event::PollFlags;

use super::{client_loop::Shared, connection_io::CHUNK};

/// A socket, and the tasks that wait for it.
pub(super) struct Socket {
    stream: TcpStream,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Socket {
    pub(super) const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Returns the readiness that tasks wait for.
    pub(super) fn interest(&self) -> Option<PollFlags> {
        let waiting = lock(&self.waiting);
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::IN, waiting.reader.is_some());
        interest.set(PollFlags::OUT, waiting.writer.is_some());
        Some(interest).filter(|interest| !interest.is_empty())
    }

    /// Takes the wakers of the tasks that wait for this readiness.
    pub(super) fn take_wakers(&self, events: PollFlags, wakers: &mut Vec<Waker>) {
        if events.is_empty() {
            return;
        }
        let mut waiting = lock(&self.waiting);
        // Errors concern both directions.
        if events != PollFlags::OUT {
            wakers.extend(waiting.reader.take());
        }
        if events != PollFlags::IN {
            wakers.extend(waiting.writer.take());
        }
    }
}

/// A connection of a client, for hyper. Dropping it closes the socket.
pub(super) struct ClientStream {
    socket: Arc<Socket>,
    shared: Arc<Shared>,
    chunk: Option<Box<[u8]>>,
    /// The [period](Shared::poll_epoch) in which the socket had no more input.
    drained: Option<u64>,
}

impl ClientStream {
    pub(super) fn new(stream: TcpStream, shared: Arc<Shared>) -> io::Result<Self> {
        // The small chunks of a request are sent at once.
        let _ = stream.set_nodelay(true);
        stream.set_nonblocking(true)?;
        let socket = Arc::new(Socket { stream, waiting: Mutex::default() });
        shared.add_socket(socket.clone());
        Ok(Self { socket, shared, chunk: None, drained: None })
    }

    fn write_with(
        &mut self,
        cx: &Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match write(&self.socket.stream) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let before = lock(&self.socket.waiting).writer.replace(cx.waker().clone());
                    drop(before);
                    return Poll::Pending;
                }
                written => {
                    // The response to it does not arrive before the next wait for sockets.
                    self.drained = Some(self.shared.poll_epoch());
                    return Poll::Ready(written);
                }
            }
        }
    }
}

impl Drop for ClientStream {
    fn drop(&mut self) {
        let _ = self.socket.stream.shutdown(Shutdown::Both);
        self.shared.remove_socket(&self.socket);
        let waiting = std::mem::take(&mut *lock(&self.socket.waiting));
        drop(waiting);
    }
}

impl Read for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { socket, shared, chunk, drained } = &mut *self;
        let epoch = shared.poll_epoch();
        let limit = buffer.remaining().min(CHUNK);
        while *drained != Some(epoch) {
            // Reading into uninitialized memory would take unsafe code.
            let chunk = chunk.get_or_insert_with(|| vec![0; CHUNK].into());
            match (&socket.stream).read(&mut chunk[..limit]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => *drained = Some(epoch),
                Err(error) => return Poll::Ready(Err(error)),
                Ok(read) => {
                    *drained = (0 < read && read < limit).then_some(epoch);
                    buffer.put_slice(&chunk[..read]);
                    return Poll::Ready(Ok(()));
                }
            }
        }
        let before = lock(&socket.waiting).reader.replace(cx.waker().clone());
        drop(before);
        Poll::Pending
    }
}

impl Write for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write_with(cx, |mut stream| stream.write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write_with(cx, |mut stream| stream.write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A peer that has closed the connection first does not read the rest, so the result is ignored.
        let _ = self.socket.stream.shutdown(Shutdown::Write);
        Poll::Ready(Ok(()))
    }
}
