//! A pipe in memory.

use std::{
    collections::VecDeque,
    fmt,
    io::{self, ErrorKind, Read, Write},
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use crate::stream::io::{ByteReader, ByteWriter};
use crate::sync::lock;

/// Creates a pipe in memory. It buffers at most `capacity` bytes, and at least one: a writer waits until the reader has
/// made room.
#[must_use]
pub fn pipe(capacity: usize) -> (PipeReader, PipeWriter) {
    let pipe = Arc::new(Pipe { capacity: capacity.max(1), content: Mutex::default() });
    (PipeReader(pipe.clone()), PipeWriter(pipe))
}

struct Pipe {
    capacity: usize,
    content: Mutex<Content>,
}

#[derive(Default)]
struct Content {
    bytes: VecDeque<u8>,
    /// The write end is closed.
    ended: bool,
    /// The read end is closed.
    broken: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// A replaced waker. It is dropped outside of the lock, since that may drop a task that owns an end of this pipe.
    stale: Option<Waker>,
}

/// Stores the waker of a task, unless it is known. Returns the waker that it replaces.
fn register(known: &mut Option<Waker>, cx: &Context<'_>) -> Option<Waker> {
    let is_known = known.as_ref().is_some_and(|known| known.will_wake(cx.waker()));
    if is_known { None } else { known.replace(cx.waker().clone()) }
}

impl Pipe {
    /// Changes the content and, if `change` is ready, wakes the waiting ends.
    fn change<T>(&self, change: impl FnOnce(&mut Content) -> Poll<T>) -> Poll<T> {
        let mut content = lock(&self.content);
        let changed = change(&mut content);
        let (reader, writer) =
            if changed.is_ready() { (content.reader.take(), content.writer.take()) } else { (None, None) };
        let stale = content.stale.take();
        drop(content);
        drop(stale);
        reader.into_iter().for_each(Waker::wake);
        writer.into_iter().for_each(Waker::wake);
        changed
    }

    fn end(&self, end: impl FnOnce(&mut Content)) {
        let _ = self.change(|content| {
            end(content);
            Poll::Ready(())
        });
    }
}

/// The write end of a pipe.
pub struct PipeWriter(Arc<Pipe>);

/// The read end of a pipe.
pub struct PipeReader(Arc<Pipe>);

impl ByteWriter for PipeWriter {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let capacity = self.0.capacity;
        self.0.change(|content| {
            let room = capacity - content.bytes.len();
            if content.broken || content.ended {
                Poll::Ready(Err(ErrorKind::BrokenPipe.into()))
            } else if room > 0 {
                Poll::Ready(content.bytes.write(&bytes[..room.min(bytes.len())]))
            } else {
                content.stale = register(&mut content.writer, cx);
                Poll::Pending
            }
        })
    }
}

impl ByteReader for PipeReader {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.change(|content| {
            if content.broken {
                Poll::Ready(Ok(0))
            } else if !content.bytes.is_empty() || content.ended {
                Poll::Ready(content.bytes.read(buffer))
            } else {
                content.stale = register(&mut content.reader, cx);
                Poll::Pending
            }
        })
    }
}

impl PipeWriter {
    /// Returns a function that makes all further writes fail.
    pub fn stop_handle(&self) -> impl Fn() + Send + use<> {
        let pipe = self.0.clone();
        move || pipe.end(|content| content.ended = true)
    }
}

impl PipeReader {
    /// Returns a function that makes all further reads return the end of the input.
    pub fn stop_handle(&self) -> impl Fn() + Send + use<> {
        let pipe = self.0.clone();
        move || pipe.end(|content| content.broken = true)
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        self.0.end(|content| content.ended = true);
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        self.0.end(|content| content.broken = true);
    }
}

impl fmt::Debug for PipeWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipeWriter").field("bytes", &lock(&self.0.content).bytes.len()).finish()
    }
}

impl fmt::Debug for PipeReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipeReader").field("bytes", &lock(&self.0.content).bytes.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::Wake,
    };

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn an_end_wakes_the_task_that_polled_it_last() {
        let [first, second] = [Arc::<Wakes>::default(), Arc::<Wakes>::default()];
        let wakers = [&first, &second].map(|wakes| Waker::from(wakes.clone()));
        let [mut here, mut there] = wakers.each_ref().map(Context::from_waker);
        let counts = || [&first, &second].map(|wakes| wakes.0.swap(0, Ordering::Relaxed));
        let (mut reader, mut writer) = pipe(1);
        let mut byte = [0];
        assert!(reader.poll_read(&mut here, &mut byte).is_pending());
        assert!(reader.poll_read(&mut there, &mut byte).is_pending());
        assert!(writer.poll_write(&mut here, b"x").is_ready());
        assert_eq!(counts(), [0, 1]);
        assert!(writer.poll_write(&mut there, b"y").is_pending());
        assert!(writer.poll_write(&mut here, b"y").is_pending());
        assert!(reader.poll_read(&mut there, &mut byte).is_ready());
        assert_eq!(counts(), [1, 0]);
    }
}
