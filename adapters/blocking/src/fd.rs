//! File descriptors as transports: reads that can be called off, writes that need not wait.

use std::{
    io::{self, IoSlice, PipeReader, PipeWriter},
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::Shutdown,
    pipe::PIPE_BUF,
};

use crate::{Sink, Source, Stopper, lock::lock};

/// Calls off a wait, for good: a pipe whose writing end is gone wakes everybody who polls it, at any time.
pub(crate) struct Latch {
    open: Mutex<Option<PipeWriter>>,
    stopped: AtomicBool,
}

impl Latch {
    pub(crate) fn new() -> io::Result<(Arc<Self>, PipeReader)> {
        let (reader, writer) = io::pipe()?;
        Ok((Arc::new(Self { open: Mutex::new(Some(writer)), stopped: AtomicBool::new(false) }), reader))
    }

    /// Nothing more is waited for. What is there already may still be read.
    pub(crate) fn release(&self) {
        lock(&self.open).take();
    }

    /// Nothing more is done.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.release();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn stopper(self: &Arc<Self>) -> Stopper {
        let latch = self.clone();
        Box::new(move || latch.stop())
    }
}

/// Waits until `fd` is ready or `latch` released; whether it is ready. Does not wait at all if `wait` is false.
pub(crate) fn ready(
    fd: &impl std::os::fd::AsFd,
    events: PollFlags,
    latch: &PipeReader,
    wait: bool,
) -> io::Result<bool> {
    const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::new(fd, events), PollFd::new(latch, PollFlags::IN)];
    let polled = if wait { &mut fds[..] } else { &mut fds[..1] };
    loop {
        match poll(polled, (!wait).then_some(&NO_TIME)) {
            Ok(_) => return Ok(!fds[0].revents().is_empty()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads from a file descriptor.
pub(crate) struct FdSource {
    fd: OwnedFd,
    latch: Arc<Latch>,
    released: PipeReader,
}

impl FdSource {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        let (latch, released) = Latch::new()?;
        Ok(Self { fd, latch, released })
    }

    pub(crate) fn latch(&self) -> Arc<Latch> {
        self.latch.clone()
    }
}

impl Source for FdSource {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let ready = ready(&self.fd, PollFlags::IN, &self.released, true)?;
            if !ready || self.latch.is_stopped() {
                return Ok(0);
            }
            match rustix::io::read(&self.fd, &mut *buffer) {
                // Whoever shares the file may have made it non-blocking, and may have been faster.
                Err(Errno::INTR | Errno::AGAIN) => {}
                done => return Ok(done?),
            }
        }
    }

    fn stopper(&self) -> Option<Stopper> {
        Some(self.latch.stopper())
    }
}

/// Writes to a file descriptor.
///
/// It is not made non-blocking: that would be a property of the open file, which other processes may share.
pub(crate) struct FdSink {
    fd: OwnedFd,
    is_socket: bool,
    /// Whether the kernel knows writes that do not wait, for this kind of file.
    nowait: bool,
    latch: Arc<Latch>,
    released: PipeReader,
}

impl FdSink {
    /// `is_socket` says that the end of this direction has to be said aloud, since the other one outlives it.
    pub(crate) fn new(fd: OwnedFd, is_socket: bool) -> io::Result<Self> {
        let (latch, released) = Latch::new()?;
        Ok(Self { fd, is_socket, nowait: cfg!(target_os = "linux"), latch, released })
    }

    #[cfg(target_os = "linux")]
    fn write_now(&self, bytes: &[u8]) -> Result<usize, Errno> {
        // The offset says: where the file is.
        rustix::io::pwritev2(&self.fd, &[IoSlice::new(bytes)], u64::MAX, rustix::io::ReadWriteFlags::NOWAIT)
    }

    #[cfg(not(target_os = "linux"))]
    fn write_now(&self, _: &[u8]) -> Result<usize, Errno> {
        Err(Errno::NOTSUP)
    }
}

impl Sink for FdSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            let ready = ready(&self.fd, PollFlags::OUT, &self.released, true)?;
            if !ready || self.latch.is_stopped() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.nowait {
            match self.write_now(bytes) {
                Err(Errno::NOTSUP | Errno::NOSYS) => self.nowait = false,
                Err(Errno::INTR) => return Err(io::ErrorKind::WouldBlock.into()),
                done => return Ok(done?),
            }
        }
        if !ready(&self.fd, PollFlags::OUT, &self.released, false)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // What is ready takes this much without waiting.
        Ok(rustix::io::write(&self.fd, &bytes[..bytes.len().min(PIPE_BUF)])?)
    }

    fn stopper(&self) -> Option<Stopper> {
        Some(self.latch.stopper())
    }
}

impl Drop for FdSink {
    fn drop(&mut self) {
        if self.is_socket {
            let _ = rustix::net::shutdown(&self.fd, Shutdown::Write);
        }
    }
}
