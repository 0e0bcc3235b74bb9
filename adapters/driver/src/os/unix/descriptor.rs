//! Reads and writes that do not wait, of descriptors that stay blocking.

use std::{
    io::{self, ErrorKind, IoSlice, IoSliceMut},
    os::fd::{AsFd, OwnedFd},
};

use rustix::{event::PollFlags, io::Errno, pipe::PIPE_BUF};

use crate::os::interrupt::is_ready;

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

/// A descriptor that other processes may share, so it is not made non-blocking: its readiness is checked before each
/// read and each write.
#[derive(Debug)]
pub struct SharedFd {
    fd: OwnedFd,
    reader: Reader,
    writer: Writer,
}

impl SharedFd {
    /// Creates it of a descriptor that can be polled, as far as is known.
    #[must_use]
    pub const fn new(fd: OwnedFd) -> Self {
        Self { fd, reader: Reader::new(true), writer: Writer::new(true) }
    }

    /// Reads available bytes, as [`Reader::try_read`] does.
    ///
    /// # Errors
    /// As [`Reader::try_read`].
    pub fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.try_read(&self.fd, buffer)
    }

    /// Writes as many bytes as possible without waiting, as [`Writer::try_write`] does.
    ///
    /// # Errors
    /// As [`Writer::try_write`].
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.try_write(&self.fd, bytes)
    }

    /// Registers the descriptor with a reactor. Returns `None` for a file, which is always ready and cannot be polled.
    ///
    /// # Errors
    /// The error of `register`.
    pub fn watch<W>(&mut self, register: impl FnOnce(OwnedFd) -> io::Result<W>) -> io::Result<Option<W>> {
        match register(self.fd.try_clone()?) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                (self.reader, self.writer) = (Reader::new(false), Writer::new(false));
                Ok(None)
            }
            watch => watch.map(Some),
        }
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

/// Reads from a descriptor that was reported as ready.
pub(crate) fn read(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(fd, buffer)?)
}
