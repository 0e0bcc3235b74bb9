//! The state that the threads of a connection share.

use std::{collections::VecDeque, time::Duration};

use mcp_driver::WriteBuffer;
use mcp_proto::{
    connection::{CloseReason, Connection, Event},
    rpc::Timestamp,
};

use crate::transport::ByteWriter;

/// The state under the lock of a [`Driver`](super::driver::Driver).
pub(crate) struct State<E> {
    pub(crate) connection: Connection<E>,
    /// Events that are still to be dispatched.
    pub(crate) events: VecDeque<Event<'static>>,
    /// `None` while a thread writes to the sink, and after it was closed.
    pub(crate) sink: Option<Box<dyn ByteWriter>>,
    pub(crate) out: WriteBuffer,
    /// Set while only the writer writes, until all output is written.
    pub(crate) blocked: bool,
    /// Whether the writer was started.
    pub(crate) has_writer: bool,
    /// Set while messages that were read together are handled: their responses are written together.
    pub(crate) held: bool,
    /// Set while requests wait for others that may follow them: they are written before a thread waits for a response.
    pub(crate) holds_requests: bool,
    /// The timeout of a message that has begun.
    pub(crate) message_timeout: Option<Duration>,
    /// The deadline of the first message, or of the rest of one that has begun.
    pub(crate) message_until: Option<Timestamp>,
    /// Set while the reader waits until the connection accepts input.
    pub(crate) is_paused: bool,
    /// The deadline of the timer thread, while it sleeps.
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
            holds_requests: false,
            message_timeout,
            message_until: message_timeout.map(|timeout| Timestamp::ZERO + timeout),
            is_paused: false,
            sleeps_until: None,
        }
    }

    /// Moves all available events from the connection to the queue.
    pub(crate) fn collect(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            self.events.push_back(event);
        }
    }

    /// Returns whether output is held back, up to [`HELD`](super::driver::HELD) bytes.
    pub(crate) const fn is_held(&self) -> bool {
        self.held || self.holds_requests
    }

    /// Takes output from the connection, as far as it fits, and returns whether there are bytes to write.
    pub(crate) fn fill(&mut self) -> bool {
        self.out.fill(&mut self.connection)
    }
}

/// The progress of a connection towards its end.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    /// The reason why the connection ended, once the application has received it.
    pub(crate) closed: Option<CloseReason>,
    pub(crate) reader_exited: bool,
    pub(crate) writer_exited: bool,
    /// All threads have ended, except those that could not be stopped.
    pub(crate) finished: bool,
}
