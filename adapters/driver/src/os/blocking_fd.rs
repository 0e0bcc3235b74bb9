//! File descriptors, which on Windows are sockets, for threads, with reads and writes that can be cancelled.

use std::{
    io::{self, ErrorKind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_service::driver_api::WaitingThread;
use rustix::{event::PollFlags, fd::OwnedFd};

use super::{
    interrupt::Interrupt,
    net::end_output,
    system::{
        descriptor::{self, Reader, Writer},
        wake::{WakeReader, WakeWriter, wake_pair},
    },
};

/// Reads from a file descriptor.
#[derive(Debug)]
pub struct FdReader {
    fd: OwnedFd,
    reader: Reader,
    interrupt: Arc<Interrupt>,
    /// Wakes a thread that waits for a response while it reads. Created by the first such wait.
    wake: Option<Arc<Wake>>,
}

/// Wakes a thread from its wait for a descriptor.
#[derive(Debug)]
struct Wake {
    reader: WakeReader,
    writer: WakeWriter,
    /// Set while there is a wake-up that was not consumed yet.
    is_set: AtomicBool,
}

impl mcp_service::driver_api::Interrupt for Wake {
    fn interrupt(&self) {
        if !self.is_set.swap(true, Ordering::AcqRel) {
            self.writer.wake();
        }
    }
}

impl FdReader {
    /// Creates a reader.
    #[must_use]
    pub fn new(fd: OwnedFd) -> Self {
        Self { fd, reader: Reader::new(true), interrupt: Interrupt::new(), wake: None }
    }

    /// Returns the handle that cancels the current and all further reads.
    #[must_use]
    pub const fn interrupt(&self) -> &Arc<Interrupt> {
        &self.interrupt
    }

    /// Waits for bytes and reads some of them. Returns `0` at the end of the input, or when it is cancelled.
    ///
    /// # Errors
    /// Those of the descriptor.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The next request of a fast peer is often already available, so a read comes before the wait.
        let mut read = if self.interrupt.is_stopped() { Ok(0) } else { self.try_read(buffer) };
        while read.as_ref().is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)) {
            if !self.interrupt.wait(&self.fd, PollFlags::IN)? {
                return Ok(0);
            }
            // Another process that shares the file may have made it non-blocking and read first, so `WouldBlock` is
            // possible here.
            read = descriptor::read(&self.fd, &mut *buffer);
        }
        read
    }

    /// Reads as [`read`](Self::read) does, on a thread that waits for a response, until the thread is notified.
    ///
    /// # Errors
    /// As [`read`](Self::read), [`WouldBlock`](ErrorKind::WouldBlock) if the thread is notified, and
    /// [`Unsupported`](ErrorKind::Unsupported) if the system has no descriptors left for such a wait.
    pub fn read_until_notified(&mut self, buffer: &mut [u8], thread: &WaitingThread) -> io::Result<usize> {
        let mut read = if self.interrupt.is_stopped() { Ok(0) } else { self.try_read(buffer) };
        while read.as_ref().is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)) {
            // Another thread may need fewer descriptors, so this is no failure of the connection.
            let wake = self.wake().map_err(|_| ErrorKind::Unsupported)?;
            if !thread.begin_work(wake.clone()) {
                return Err(ErrorKind::WouldBlock.into());
            }
            let waited = self.interrupt.wait_unless(&self.fd, PollFlags::IN, &wake.reader);
            thread.end_work();
            let (outcome, is_woken) = waited?;
            // If the waking thread has not written yet, the next wait ends at once.
            if is_woken {
                wake.reader.drain_one()?;
                // What the waking thread has done before is visible from here on.
                wake.is_set.swap(false, Ordering::AcqRel);
            }
            match outcome {
                None => {}
                Some(true) => read = descriptor::read(&self.fd, &mut *buffer),
                Some(false) => return Ok(0),
            }
        }
        read
    }

    /// Returns what wakes a thread that waits for a response. Creates all descriptors that its wait needs.
    fn wake(&mut self) -> io::Result<Arc<Wake>> {
        if let Some(wake) = &self.wake {
            return Ok(wake.clone());
        }
        self.interrupt.released()?;
        let (reader, writer) = wake_pair()?;
        Ok(self.wake.insert(Arc::new(Wake { reader, writer, is_set: AtomicBool::new(false) })).clone())
    }

    /// Reads available bytes without waiting.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if no bytes are available, and those of the descriptor.
    pub fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.try_read(&self.fd, buffer)
    }
}

/// Writes to a file descriptor. Dropping it ends the output.
#[derive(Debug)]
pub struct FdWriter {
    fd: OwnedFd,
    writer: Writer,
    is_socket: bool,
    timeout: Option<Duration>,
    interrupt: Arc<Interrupt>,
}

impl FdWriter {
    /// Creates a writer. With `is_socket` it shuts its direction down when it is dropped, since the other direction
    /// keeps the socket open.
    #[must_use]
    pub fn new(fd: OwnedFd, is_socket: bool) -> Self {
        Self { fd, writer: Writer::new(true), is_socket, timeout: None, interrupt: Interrupt::new() }
    }

    /// Sets how long a [`write`](Self::write) waits until some of the bytes can be written. Default: without limit.
    #[must_use]
    pub const fn timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }

    /// Returns the handle that cancels the current and all further writes.
    #[must_use]
    pub const fn interrupt(&self) -> &Arc<Interrupt> {
        &self.interrupt
    }

    /// Waits until some of the bytes can be written, and returns how many were.
    ///
    /// # Errors
    /// Those of the descriptor, [`BrokenPipe`](ErrorKind::BrokenPipe) if it is cancelled, and
    /// [`TimedOut`](ErrorKind::TimedOut) if that takes longer than its [timeout](Self::timeout).
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.writer.try_write(&self.fd, bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => return written,
            }
            if !self.interrupt.wait_for(&self.fd, PollFlags::OUT, self.timeout)? {
                return Err(ErrorKind::BrokenPipe.into());
            }
        }
    }

    /// Writes as many bytes as possible without waiting.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if none can be written, and those of the descriptor.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.try_write(&self.fd, bytes)
    }
}

impl Drop for FdWriter {
    fn drop(&mut self) {
        if self.is_socket {
            end_output(&self.fd);
        }
    }
}
