//! Threads: calls block.

use std::{
    io::{self, ErrorKind},
    net::TcpStream,
    os::unix::net::UnixStream,
    sync::mpsc::{Receiver, Sender},
};

use mcp_blocking::{MessageSink, MessageSource, Transport};

pub(crate) fn enter() {}

pub(crate) fn done<T>(result: T) -> T {
    result
}

pub(crate) fn wait<T>(result: T) -> T {
    result
}

/// There are no tasks.
pub(crate) const fn tasks() -> usize {
    0
}

pub(crate) fn tcp(stream: TcpStream) -> Transport {
    Transport::tcp(stream).expect("a socket")
}

pub(crate) fn unix(stream: UnixStream) -> Transport {
    Transport::unix(stream).expect("a socket")
}

pub(crate) fn from_io(reader: io::PipeReader, writer: io::PipeWriter) -> Transport {
    Transport::from_io(reader, writer)
}

pub(crate) fn messages(incoming: Receiver<Vec<u8>>, outgoing: Sender<Vec<u8>>) -> Transport {
    Transport::messages(Incoming(incoming), Outgoing(outgoing))
}

struct Incoming(Receiver<Vec<u8>>);

impl MessageSource for Incoming {
    fn receive(&mut self, message: &mut Vec<u8>) -> io::Result<bool> {
        assert!(message.is_empty());
        let Ok(received) = self.0.recv() else { return Ok(false) };
        message.extend_from_slice(&received);
        Ok(true)
    }
}

struct Outgoing(Sender<Vec<u8>>);

impl MessageSink for Outgoing {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.0.send(super::rewritten(message)).map_err(|_| ErrorKind::BrokenPipe.into())
    }
}
