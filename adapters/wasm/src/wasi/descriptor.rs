//! Reading and writing descriptors without blocking the other tasks.

use std::{
    io,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use mcp_driver::{ByteReader, ByteWriter};
use rustix::{
    event::PollFlags,
    io::{Errno, read, write},
};

use super::executor::{Executor, SharedFd, TimerEntry, WaitEntry};

/// The most bytes of one write. A pipe that can be written has room for so many on Linux (`PIPE_BUF`), so that a write
/// does not block.
const MAX_WRITE: usize = 4096;

/// The pause before the next attempt, if a descriptor is ready and its operation would block nevertheless.
const PAUSE: Duration = Duration::from_millis(5);

/// A descriptor that is read or written. It is never made non-blocking: other processes may share that property.
pub(super) struct Descriptor {
    fd: SharedFd,
    executor: Arc<Executor>,
    wait: Option<WaitEntry>,
    pause: Option<TimerEntry>,
}

impl Descriptor {
    pub(super) fn new(fd: SharedFd) -> Self {
        Self { fd, executor: Executor::current(), wait: None, pause: None }
    }

    /// Waits until one of the events has happened. A descriptor that cannot be polled, such as that of a file, is
    /// always ready: its operations do not wait.
    ///
    /// The executor asks the host, and there is no other question whether the descriptor is ready now: that of Node.js
    /// returns no events if the timeout is zero.
    fn poll_ready(&mut self, cx: &mut Context<'_>, events: PollFlags) -> Poll<()> {
        match &self.wait {
            Some(wait) if wait.set_waker(cx.waker()) => return Poll::Pending,
            Some(_) => self.wait = None,
            None => {
                self.wait = Some(self.executor.set_wait(self.fd.clone(), events, cx.waker().clone()));
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    /// Does an operation when the descriptor is ready for it.
    fn poll_operation(
        &mut self,
        cx: &mut Context<'_>,
        events: PollFlags,
        mut operation: impl FnMut(&SharedFd) -> Result<usize, Errno>,
    ) -> Poll<io::Result<usize>> {
        self.pause = None;
        ready!(self.poll_ready(cx, events));
        match operation(&self.fd) {
            Err(Errno::INTR | Errno::AGAIN) => {
                self.pause = Some(self.executor.set_timer(Instant::now() + PAUSE, cx.waker().clone()));
                Poll::Pending
            }
            result => Poll::Ready(result.map_err(Into::into)),
        }
    }
}

impl ByteReader for Descriptor {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_operation(cx, PollFlags::IN, |fd| read(fd, &mut *buffer))
    }
}

impl ByteWriter for Descriptor {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let bytes = &bytes[..bytes.len().min(MAX_WRITE)];
        self.poll_operation(cx, PollFlags::OUT, |fd| write(fd, bytes))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::{
        fs::File,
        future::poll_fn,
        io::{Read, Write},
        pin::pin,
        thread,
    };

    use mcp_driver::{Runtime, Timer};
    use rustix::pipe::pipe;

    use super::*;
    use crate::wasi::{Wasi, block_on};

    /// Returns the result of a future, or `None` if that takes longer than `time`.
    async fn within<T>(time: Duration, future: impl Future<Output = T>) -> Option<T> {
        let (at, mut timer) = (Instant::now() + time, Wasi::current().expect("an executor").timer());
        let mut future = pin!(future);
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => timer.poll_until(at, cx).map(|()| None),
        })
        .await
    }

    async fn read_some(reader: &mut Descriptor) -> Vec<u8> {
        let mut buffer = [0; 100];
        let read = poll_fn(|cx| reader.poll_read(cx, &mut buffer)).await.expect("no error");
        buffer[..read].to_vec()
    }

    #[test]
    fn reader_waits_for_input_and_its_end() {
        let (input, output) = pipe().expect("a pipe");
        let mut reader = Descriptor::new(Arc::new(input));
        let mut output = File::from(output);
        let writer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            output.write_all(b"hello").expect("a reader");
        });
        block_on(async {
            assert_eq!(read_some(&mut reader).await, b"hello");
            assert_eq!(read_some(&mut reader).await, b"");
        });
        writer.join().expect("no panic");
    }

    #[test]
    fn writer_waits_while_the_pipe_is_full() {
        let (input, output) = pipe().expect("a pipe");
        let mut writer = Descriptor::new(Arc::new(output));
        let bytes = [0; 3 * MAX_WRITE];
        let mut written = 0;
        // A pipe of Linux has 64 KiB. Without a check, the last write would block this thread forever.
        while let Some(result) =
            block_on(within(Duration::from_millis(50), poll_fn(|cx| writer.poll_write(cx, &bytes))))
        {
            written += result.expect("a reader");
        }
        assert!(written >= MAX_WRITE && writer.wait.is_some());
        let reader = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            let mut reader = File::from(input);
            reader.read_exact(&mut vec![0; written]).expect("all bytes");
            reader
        });
        let more = block_on(poll_fn(|cx| writer.poll_write(cx, &bytes)));
        assert!(more.is_ok_and(|written| written > 0));
        // The pipe is open until the end of the write.
        drop(reader.join().expect("no panic"));
    }

    #[test]
    fn file_is_always_ready() {
        let file = File::open("/dev/null").expect("a file");
        assert_eq!(block_on(read_some(&mut Descriptor::new(Arc::new(file)))), b"");
    }
}
