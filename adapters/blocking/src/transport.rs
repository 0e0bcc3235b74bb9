//! What a connection runs over: bytes in, bytes out, and an orderly end.

use std::{fmt, io, time::Duration};

/// Where bytes come from.
pub trait Source: Send + 'static {
    /// Waits for bytes and reads some of them; `0` means that no more will come.
    ///
    /// # Errors
    /// If the transport has failed. The connection ends then.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// What another thread calls to have `read` return `0`, now and from now on.
    ///
    /// Without it, a connection that ends leaves behind the thread that waits in `read`, until that returns.
    fn stopper(&self) -> Option<Stopper> {
        None
    }
}

/// Where bytes go. Dropping it tells the peer that no more will come.
pub trait Sink: Send + 'static {
    /// Waits until some of the bytes can be written, and says how many were.
    ///
    /// # Errors
    /// If the transport has failed. The connection ends then.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes what can be written without waiting. It saves every message the way through a thread that may wait.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if that is nothing; otherwise as [`write`](Self::write).
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = bytes;
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// What another thread calls to have `write` fail, now and from now on.
    ///
    /// Without it, a connection that ends while its peer does not read leaves behind the thread that writes.
    fn stopper(&self) -> Option<Stopper> {
        None
    }
}

/// Calls off a [`Source`] or a [`Sink`]. May be called more than once.
pub type Stopper = Box<dyn Fn() + Send>;

/// A pair of streams that a connection can run over.
///
/// Anything that carries bytes both ways, in order and without loss, will do: see [`Transport::new`]. Each message is a line
/// of JSON; the connection begins with the client's `initialize` and ends when either stream does.
pub struct Transport {
    pub(crate) source: Box<dyn Source>,
    pub(crate) sink: Box<dyn Sink>,
    pub(crate) linger: Duration,
    pub(crate) end: Box<dyn FnOnce() + Send>,
}

impl Transport {
    /// A transport of your own.
    pub fn new(source: impl Source, sink: impl Sink) -> Self {
        Self { source: Box::new(source), sink: Box::new(sink), linger: Duration::ZERO, end: Box::new(|| {}) }
    }

    /// How long to go on reading after the last byte was written, if the peer does not end its stream by itself.
    /// Default: not at all.
    #[must_use]
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// What to do when the last byte was written and the sink dropped, while the source is still read. It may take its
    /// time; closing waits for it.
    #[must_use]
    pub fn at_end(mut self, end: impl FnOnce() + Send + 'static) -> Self {
        self.end = Box::new(end);
        self
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("linger", &self.linger).finish_non_exhaustive()
    }
}
