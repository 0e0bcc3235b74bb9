//! Streams of tokio, and the descriptors of this process, as transports.

use std::{
    io,
    os::fd::OwnedFd,
    pin::Pin,
    task::{Context, Poll, ready},
};

use mcp_service::drive::{
    Sink, Source,
    os::{Reader, Writer},
};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, unix::AsyncFd};

/// A stream of tokio, for either direction.
pub(crate) struct Stream<T>(Pin<Box<T>>);

impl<T> Stream<T> {
    pub(crate) fn new(stream: T) -> Self {
        Self(Box::pin(stream))
    }
}

impl<T: AsyncRead + Send + 'static> Source for Stream<T> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        self.0.as_mut().poll_read(cx, &mut buffer).map_ok(|()| buffer.filled().len())
    }
}

impl<T: AsyncWrite + Send + 'static> Sink for Stream<T> {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.as_mut().poll_write(cx, bytes)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_shutdown(cx)
    }
}

/// A descriptor that is not ours alone, so it is not made non-blocking: it is asked before it is read or written.
pub(crate) struct Descriptor {
    fd: OwnedFd,
    /// Says when it is ready. Absent for files and whatever else always is.
    watch: Option<AsyncFd<OwnedFd>>,
    reader: Reader,
    writer: Writer,
}

impl Descriptor {
    pub(crate) fn new(fd: OwnedFd, interest: Interest) -> io::Result<Self> {
        #[allow(deprecated, reason = "what is watched owns its descriptor, and the other way to say so is unsafe")]
        let watch = match AsyncFd::with_interest(fd.try_clone()?, interest) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            watch => Some(watch?),
        };
        let watched = watch.is_some();
        Ok(Self { fd, watch, reader: Reader::new(watched), writer: Writer::new(watched) })
    }
}

impl Source for Descriptor {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let Some(watch) = &self.watch else { return Poll::Ready(self.reader.try_read(&self.fd, buffer)) };
        loop {
            let mut ready = ready!(watch.poll_read_ready(cx))?;
            if let Ok(read) = ready.try_io(|_| self.reader.try_read(&self.fd, buffer)) {
                return Poll::Ready(read);
            }
        }
    }
}

impl Sink for Descriptor {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Some(watch) = &self.watch else { return Poll::Ready(self.writer.try_write(&self.fd, bytes)) };
        loop {
            let mut ready = ready!(watch.poll_write_ready(cx))?;
            if let Ok(written) = ready.try_io(|_| self.writer.try_write(&self.fd, bytes)) {
                return Poll::Ready(written);
            }
        }
    }
}
