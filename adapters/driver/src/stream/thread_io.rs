//! Readers and writers that block, on threads of their own, as readers and writers of asynchronous transports. They are
//! for pipes and files that cannot be polled: those of Windows.

use std::{
    fmt,
    io::{self, ErrorKind, Read, Write},
    mem,
    sync::{Arc, Condvar, Mutex},
    task::{Context, Poll, Waker},
};

use crate::{
    os::thread::{spawn, wait},
    stream::io::{ByteReader, ByteWriter},
    sync::lock,
};

/// The most bytes that a thread reads at once. No more are read before these are taken.
const CHUNK: usize = 64 * 1024;

/// The most bytes that wait to be written, besides as many that are being written.
const PENDING: usize = 64 * 1024;

/// A reader on a thread, which reads one chunk ahead: at most 64 KiB.
///
/// The thread ends at the end of the input, after an error, and when this was dropped and the read that it waits for
/// has returned.
pub struct ThreadReader(Arc<Shared<Input>>);

/// A writer on a thread. At most 64 KiB wait to be written, besides as many that are being written. Flushing it waits
/// until all are written, and flushed.
///
/// When it is dropped, the thread writes what waits, drops the writer, and ends.
pub struct ThreadWriter(Arc<Shared<Output>>);

#[derive(Default)]
struct Shared<T> {
    state: Mutex<T>,
    changed: Condvar,
}

#[derive(Default)]
struct Input {
    chunk: Vec<u8>,
    /// How many bytes of the chunk were taken.
    taken: usize,
    /// The end of the input, or its error.
    end: Option<io::Result<()>>,
    waker: Option<Waker>,
    is_dropped: bool,
}

#[derive(Default)]
struct Output {
    pending: Vec<u8>,
    is_writing: bool,
    error: Option<ErrorKind>,
    waker: Option<Waker>,
    is_dropped: bool,
}

impl ThreadReader {
    /// Starts the thread.
    ///
    /// # Errors
    /// If there is no thread for it.
    pub fn new(source: impl Read + Send + 'static) -> io::Result<Self> {
        let shared: Arc<Shared<Input>> = Arc::default();
        let theirs = shared.clone();
        spawn("mcp-read", move || theirs.read_all(source))?;
        Ok(Self(shared))
    }
}

impl Shared<Input> {
    fn read_all(&self, mut source: impl Read) {
        let mut spare = vec![0; CHUNK];
        loop {
            spare.resize(CHUNK, 0);
            let read = source.read(&mut spare);
            let mut state = lock(&self.state);
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Ok(len @ 1..) => {
                    spare.truncate(len);
                    mem::swap(&mut state.chunk, &mut spare);
                    state.taken = 0;
                }
                end => state.end = Some(end.map(drop)),
            }
            state.waker.take().into_iter().for_each(Waker::wake);
            while state.taken < state.chunk.len() && !state.is_dropped {
                state = wait(&self.changed, state);
            }
            if state.is_dropped || state.end.is_some() {
                return;
            }
        }
    }
}

impl ByteReader for ThreadReader {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut state = lock(&self.0.state);
        let unread = &state.chunk[state.taken..];
        let len = unread.len().min(buffer.len());
        if len > 0 {
            buffer[..len].copy_from_slice(&unread[..len]);
            state.taken += len;
            self.0.changed.notify_all();
            return Poll::Ready(Ok(len));
        }
        if let Some(end) = &mut state.end {
            // Every later read returns the end again.
            return Poll::Ready(mem::replace(end, Ok(())).map(|()| 0));
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for ThreadReader {
    fn drop(&mut self) {
        lock(&self.0.state).is_dropped = true;
        self.0.changed.notify_all();
    }
}

impl ThreadWriter {
    /// Starts the thread.
    ///
    /// # Errors
    /// If there is no thread for it.
    pub fn new(sink: impl Write + Send + 'static) -> io::Result<Self> {
        let shared: Arc<Shared<Output>> = Arc::default();
        let theirs = shared.clone();
        spawn("mcp-write", move || theirs.write_all(sink))?;
        Ok(Self(shared))
    }
}

impl Shared<Output> {
    fn write_all(&self, mut sink: impl Write) {
        let mut writing = Vec::new();
        loop {
            let mut state = lock(&self.state);
            while state.pending.is_empty() && !state.is_dropped {
                state = wait(&self.changed, state);
            }
            if state.pending.is_empty() {
                return;
            }
            writing.clear();
            mem::swap(&mut state.pending, &mut writing);
            state.is_writing = true;
            state.waker.take().into_iter().for_each(Waker::wake);
            drop(state);
            let written = sink.write_all(&writing).and_then(|()| sink.flush());
            let mut state = lock(&self.state);
            state.is_writing = false;
            state.error = written.err().map(|error| error.kind());
            state.waker.take().into_iter().for_each(Waker::wake);
            if state.error.is_some() {
                return;
            }
        }
    }
}

impl ByteWriter for ThreadWriter {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = lock(&self.0.state);
        if let Some(error) = state.error {
            return Poll::Ready(Err(error.into()));
        }
        let len = bytes.len().min(PENDING - state.pending.len());
        if len == 0 && !bytes.is_empty() {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.pending.extend_from_slice(&bytes[..len]);
        self.0.changed.notify_all();
        Poll::Ready(Ok(len))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = lock(&self.0.state);
        if let Some(error) = state.error {
            return Poll::Ready(Err(error.into()));
        }
        if state.pending.is_empty() && !state.is_writing {
            return Poll::Ready(Ok(()));
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for ThreadWriter {
    fn drop(&mut self) {
        lock(&self.0.state).is_dropped = true;
        self.0.changed.notify_all();
    }
}

impl fmt::Debug for ThreadReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadReader").finish_non_exhaustive()
    }
}

impl fmt::Debug for ThreadWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadWriter").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, sync::mpsc};

    use mcp_service::block_on;

    use super::*;

    /// The other end of a writer: it says what it was given, and takes it when that is allowed.
    struct Gate {
        allowed: mpsc::Receiver<()>,
        written: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.written.send(bytes.to_vec());
            self.allowed.recv().map_err(|_| ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn gate() -> (ThreadWriter, mpsc::Sender<()>, mpsc::Receiver<Vec<u8>>) {
        let ((allow, allowed), (written, seen)) = (mpsc::channel(), mpsc::channel());
        (ThreadWriter::new(Gate { allowed, written }).expect("a thread"), allow, seen)
    }

    fn poll_write(writer: &mut ThreadWriter, bytes: &[u8]) -> Poll<io::Result<usize>> {
        writer.poll_write(&mut Context::from_waker(Waker::noop()), bytes)
    }

    #[test]
    fn reads_all_bytes_then_the_end_again_and_again() {
        let (source, mut sink) = io::pipe().expect("a pipe");
        let mut reader = ThreadReader::new(source).expect("a thread");
        let mut read = |buffer: &mut [u8]| block_on(poll_fn(|cx| reader.poll_read(cx, buffer))).expect("no error");
        let bytes: Vec<u8> = (0..3 * CHUNK).map(|number| number.to_le_bytes()[0]).collect();
        let all = bytes.clone();
        let writing = std::thread::spawn(move || sink.write_all(&all).expect("it is read"));
        let mut seen = Vec::new();
        let mut buffer = [0; 1000];
        while seen.len() < bytes.len() {
            let len = read(&mut buffer);
            assert!(len > 0, "no end before {}", seen.len());
            seen.extend_from_slice(&buffer[..len]);
        }
        assert!(seen == bytes);
        writing.join().expect("no panic");
        assert_eq!((read(&mut buffer), read(&mut buffer)), (0, 0));
    }

    #[test]
    fn reader_reads_one_chunk_ahead_and_ends_when_dropped() {
        struct Endless(mpsc::Sender<usize>);
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let _ = self.0.send(buffer.len());
                Ok(buffer.len())
            }
        }
        let (reads, seen) = mpsc::channel();
        let mut reader = ThreadReader::new(Endless(reads)).expect("a thread");
        let mut buffer = vec![0; CHUNK];
        for _ in 0..3 {
            assert_eq!(
                block_on(poll_fn(|cx| reader.poll_read(cx, &mut buffer[..CHUNK / 2]))).expect("bytes"),
                CHUNK / 2
            );
            assert_eq!(seen.recv().expect("a read"), CHUNK);
            assert!(seen.try_recv().is_err(), "half of the chunk is not taken yet");
            assert_eq!(block_on(poll_fn(|cx| reader.poll_read(cx, &mut buffer))).expect("bytes"), CHUNK / 2);
        }
        drop(reader);
        // The thread has dropped the source.
        assert!(seen.iter().count() <= 1);
    }

    #[test]
    fn error_of_reader_is_reported_once() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(ErrorKind::ConnectionReset.into())
            }
        }
        let mut reader = ThreadReader::new(Broken).expect("a thread");
        let mut read = || block_on(poll_fn(|cx| reader.poll_read(cx, &mut [0])));
        assert_eq!(read().expect_err("it is broken").kind(), ErrorKind::ConnectionReset);
        assert_eq!(read().expect("the end"), 0);
    }

    #[test]
    fn writer_bounds_what_waits_and_flush_waits_for_all() {
        let (mut writer, allow, seen) = gate();
        assert!(matches!(poll_write(&mut writer, b"x"), Poll::Ready(Ok(1))));
        assert_eq!(seen.recv().expect("it writes"), b"x");
        assert!(
            writer.poll_flush(&mut Context::from_waker(Waker::noop())).is_pending(),
            "nothing waits, but it is not written"
        );
        allow.send(()).expect("it writes");
        block_on(poll_fn(|cx| writer.poll_flush(cx))).expect("no error");
        let bytes = vec![7; 4 * PENDING];
        let mut accepted = 0;
        // The thread takes what waits once, and is held then.
        while accepted < 2 * PENDING {
            match poll_write(&mut writer, &bytes) {
                Poll::Ready(len) => accepted += len.expect("it is open"),
                Poll::Pending => std::thread::yield_now(),
            }
        }
        assert!(poll_write(&mut writer, &bytes).is_pending());
        assert!(writer.poll_flush(&mut Context::from_waker(Waker::noop())).is_pending());
        for _ in 0..2 {
            allow.send(()).expect("it writes");
        }
        block_on(poll_fn(|cx| writer.poll_flush(cx))).expect("no error");
        assert_eq!(seen.try_iter().map(|bytes| bytes.len()).sum::<usize>(), accepted);
    }

    #[test]
    fn dropped_writer_writes_what_waits_and_drops_the_sink() {
        let (mut writer, allow, seen) = gate();
        assert!(matches!(poll_write(&mut writer, b"last"), Poll::Ready(Ok(4))));
        drop(writer);
        allow.send(()).expect("it writes");
        assert_eq!(seen.iter().collect::<Vec<_>>(), [b"last"]);
    }

    #[test]
    fn error_of_writer_is_reported_to_flush_and_to_writes() {
        let (mut writer, allow, _seen) = gate();
        drop(allow);
        assert!(matches!(poll_write(&mut writer, b"lost"), Poll::Ready(Ok(4))));
        let flushed = block_on(poll_fn(|cx| writer.poll_flush(cx)));
        assert_eq!(flushed.expect_err("it is broken").kind(), ErrorKind::BrokenPipe);
        assert!(matches!(poll_write(&mut writer, b"more"), Poll::Ready(Err(_))));
    }
}
