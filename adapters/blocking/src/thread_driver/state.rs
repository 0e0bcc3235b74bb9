//! The state that the threads of a connection share.

use std::{collections::VecDeque, time::Duration};

use mcp_driver::WriteBuffer;
use mcp_proto::{
    connection::{CloseReason, Connection, Event},
    rpc::Timestamp,
};

use crate::transport::ByteWriter;

/// Everything that is under the lock of a [`Driver`](super::driver::Driver).
pub(crate) struct State<E> {
    pub(crate) connection: Connection<E>,
    /// Events that were not dispatched yet.
    pub(crate) events: VecDeque<Event<'static>>,
    /// Absent while a thread writes with it, and in the end.
    pub(crate) sink: Option<Box<dyn ByteWriter>>,
    pub(crate) out: WriteBuffer,
    /// Writing is up to the writer, until nothing is left.
    pub(crate) blocked: bool,
    /// The writer is there.
    pub(crate) has_writer: bool,
    /// Set while messages that were read together are handled: their responses are written together.
    pub(crate) held: bool,
    /// How long a message may take that has begun.
    pub(crate) message_timeout: Option<Duration>,
    /// The deadline of the first message, or of the rest of one that has begun.
    pub(crate) message_until: Option<Timestamp>,
    /// The reader waits until the connection wants input.
    pub(crate) is_paused: bool,
    /// The time until which the timer thread sleeps, if it does.
    pub(crate) sleeps_until: Option<Timestamp>,
}

impl<E> State<E> {
    pub(crate) fn new(connection: Connection<E>, sink: Box<dyn ByteWriter>, message_timeout: Option<Duration>) -> Self {
        Self {
            connection,
            events: VecDeque::new(),
            sink: Some(sink),
            out: WriteBuffer::default(),
            blocked: false,
            has_writer: false,
            held: false,
            message_timeout,
            message_until: message_timeout.map(|timeout| Timestamp::ZERO + timeout),
            is_paused: false,
            sleeps_until: None,
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
        self.out.fill(&mut self.connection)
    }
}

/// How far a connection is on its way to the end.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    /// Why it ended, once the application knows.
    pub(crate) closed: Option<CloseReason>,
    pub(crate) reader_left: bool,
    pub(crate) writer_left: bool,
    /// All threads have left, but for those that cannot be made to.
    pub(crate) finished: bool,
}
