//! What the threads of a connection know of each other.

use std::collections::VecDeque;

use mcp_proto::{
    connection::{CloseReason, Connection, Event},
    rpc::Timestamp,
};

use crate::Sink;

/// How much is taken from the connection for one write: what was taken, a cancellation cannot take back.
const HIGH_WATER: usize = 64 * 1024;

/// Everything that is under the lock of a [`Driver`](crate::driver::Driver).
pub(crate) struct State<E> {
    pub(crate) connection: Connection<E>,
    /// What was not handed out yet.
    pub(crate) events: VecDeque<Event<'static>>,
    /// Absent while a thread writes with it, and in the end.
    pub(crate) sink: Option<Box<dyn Sink>>,
    /// What was taken from the connection. All but the first `written` bytes are still to be written.
    pub(crate) out: Vec<u8>,
    pub(crate) written: usize,
    /// Writing is up to the writer, until nothing is left.
    pub(crate) blocked: bool,
    /// Until when the keeper sleeps, if it does.
    pub(crate) asleep: Option<Timestamp>,
    /// Why it ended, once the application knows.
    pub(crate) closed: Option<CloseReason>,
    pub(crate) reader_left: bool,
    pub(crate) writer_left: bool,
    /// All threads have left, but for those that cannot be made to.
    pub(crate) over: bool,
}

impl<E> State<E> {
    pub(crate) fn new(connection: Connection<E>, sink: Box<dyn Sink>) -> Self {
        Self {
            connection,
            events: VecDeque::new(),
            sink: Some(sink),
            out: Vec::new(),
            written: 0,
            blocked: false,
            asleep: None,
            closed: None,
            reader_left: false,
            writer_left: false,
            over: false,
        }
    }

    /// Takes the events that the connection has.
    pub(crate) fn collect(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            self.events.push_back(event);
        }
    }

    /// Takes output from the connection, as much as fits; whether there is something to write.
    pub(crate) fn fill(&mut self) -> bool {
        while self.out.len() < HIGH_WATER && self.connection.poll_transmit(&mut self.out).is_some() {}
        !self.out.is_empty()
    }

    /// So many more bytes have been written.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
        if self.written == self.out.len() {
            self.written = 0;
            self.out.clear();
            // One large message is no reason to keep its space.
            self.out.shrink_to(2 * HIGH_WATER);
        }
    }
}
