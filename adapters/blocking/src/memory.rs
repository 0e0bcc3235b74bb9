//! Two ends in one process, joined by buffers.

use std::{
    collections::VecDeque,
    io::{self, ErrorKind, Read, Write},
    sync::{Arc, Condvar, Mutex},
};

use crate::{
    Sink, Source, Stopper, Transport,
    lock::{lock, wait},
};

impl Transport {
    /// Two transports that are each other's peer. Each direction holds at most `capacity` bytes (and at least one): who
    /// writes more waits until the other end has read.
    #[must_use]
    pub fn pair(capacity: usize) -> (Self, Self) {
        let (left, right) = (Arc::new(Pipe::new(capacity)), Arc::new(Pipe::new(capacity)));
        (Self::new(Outlet(left.clone()), Inlet(right.clone())), Self::new(Outlet(right), Inlet(left)))
    }
}

/// Bytes on their way in one direction.
struct Pipe {
    capacity: usize,
    content: Mutex<Content>,
    changed: Condvar,
}

#[derive(Default)]
struct Content {
    bytes: VecDeque<u8>,
    /// No more is written.
    ended: bool,
    /// No more is read.
    broken: bool,
}

impl Pipe {
    fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), content: Mutex::default(), changed: Condvar::new() }
    }

    fn change(&self, change: impl FnOnce(&mut Content)) {
        change(&mut lock(&self.content));
        self.changed.notify_all();
    }

    fn put(&self, bytes: &[u8], may_wait: bool) -> io::Result<usize> {
        let mut content = lock(&self.content);
        loop {
            let room = self.capacity - content.bytes.len();
            if content.broken || content.ended {
                return Err(ErrorKind::BrokenPipe.into());
            } else if room > 0 {
                let len = room.min(bytes.len());
                content.bytes.write_all(&bytes[..len])?;
                self.changed.notify_all();
                return Ok(len);
            } else if !may_wait {
                return Err(ErrorKind::WouldBlock.into());
            }
            content = wait(&self.changed, content);
        }
    }

    fn take(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut content = lock(&self.content);
        while content.bytes.is_empty() && !content.ended && !content.broken {
            content = wait(&self.changed, content);
        }
        if content.broken {
            return Ok(0);
        }
        self.changed.notify_all();
        content.bytes.read(buffer)
    }
}

/// The end that is written to.
struct Inlet(Arc<Pipe>);

/// The end that is read from.
struct Outlet(Arc<Pipe>);

impl Sink for Inlet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.put(bytes, true)
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.put(bytes, false)
    }

    fn stopper(&self) -> Option<Stopper> {
        let pipe = self.0.clone();
        Some(Box::new(move || pipe.change(|content| content.ended = true)))
    }
}

impl Source for Outlet {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.take(buffer)
    }

    fn stopper(&self) -> Option<Stopper> {
        let pipe = self.0.clone();
        Some(Box::new(move || pipe.change(|content| content.broken = true)))
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        self.0.change(|content| content.ended = true);
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.0.change(|content| content.broken = true);
    }
}
