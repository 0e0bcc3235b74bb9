//! A client and a server in memory, connected by two links, under a virtual clock.

use std::time::Duration;

use mcp_proto::{
    codec::LineDecoder,
    connection::{Client, ClientConfig, Connection, Event, Limits, Opening, ResourceUsage, Server, ServerConfig},
    protocol::Phase,
    rpc::Timestamp,
};

use crate::link::{Link, LinkConfig};

/// The number of steps after which a run that still makes progress counts as a livelock.
const LIVELOCK: usize = 10_000_000;

/// The bytes that a driver buffers before it stops polling the connection for output.
const HIGH_WATER: usize = 64 * 1024;

/// A line that one side received or sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// It was received.
    In(String),
    /// It was sent.
    Out(String),
}

/// One side with its driver: the connection, its input and its output.
pub struct Peer<E> {
    /// The connection.
    pub conn: Connection<E>,
    /// Events that the test has not taken yet.
    pub events: Vec<Event<'static>>,
    /// All sent lines, oldest first, if [`Testbed::record`] is set.
    pub log: Vec<String>,
    /// All received and sent lines, in the order in which the connection handled them, if [`Testbed::record`] is set.
    pub trace: Vec<Line>,
    /// Selects the lines that belong to another program on the same pipe.
    pub is_foreign: Option<fn(&str) -> bool>,
    /// These lines, oldest first.
    pub foreign: Vec<String>,
    lines: LineDecoder,
    out: Vec<u8>,
    eof: bool,
    /// The bytes that the driver buffers before it stops polling the connection for output.
    pub high_water: usize,
    /// How often the connection paused reading.
    pub pauses: usize,
    /// The connection accepts input.
    reads: bool,
    /// Frames of the last read may remain in the decoder.
    pending: bool,
}

impl<E> Peer<E> {
    fn new(conn: Connection<E>) -> Self {
        let lines = LineDecoder::new(conn.settings().limits.frame_bytes);
        Self {
            conn,
            events: Vec::new(),
            log: Vec::new(),
            trace: Vec::new(),
            is_foreign: None,
            foreign: Vec::new(),
            lines,
            out: Vec::new(),
            eof: false,
            high_water: HIGH_WATER,
            pauses: 0,
            reads: true,
            pending: false,
        }
    }

    /// Writes a line that does not come from the connection.
    pub fn inject(&mut self, line: &[u8]) {
        self.out.extend_from_slice(line);
        self.out.push(b'\n');
    }

    /// Returns the events since the last call.
    pub fn take_events(&mut self) -> Vec<Event<'static>> {
        std::mem::take(&mut self.events)
    }

    /// Polls the connection for events, as a driver does after each call of the application.
    pub fn poll_events(&mut self) {
        while let Some(event) = self.conn.poll_event() {
            self.events.push(event);
        }
    }

    /// Clears the recorded lines.
    pub fn clear_logs(&mut self) {
        self.log.clear();
        self.trace.clear();
    }

    /// Runs the driver loop once. Returns whether there was anything to do.
    fn tick(&mut self, now: Timestamp, input: &mut Link, output: &mut Link, record: bool) -> bool {
        let mut moved = false;
        let wants_input = self.conn.wants_input(now);
        self.pauses += usize::from(self.reads && !wants_input);
        self.reads = wants_input;
        if wants_input
            && !self.eof
            && !self.pending
            && let Some(chunk) = input.read(now)
        {
            moved = true;
            if chunk.is_empty() {
                self.eof = true;
                self.lines.end();
            }
            self.lines.feed(&chunk);
            self.pending = true;
        }
        if wants_input && self.pending {
            moved = true;
            self.pending = false;
            loop {
                if !self.conn.wants_input(now) {
                    (self.reads, self.pending, self.pauses) = (false, true, self.pauses + 1);
                    break;
                }
                let Some(frame) = self.lines.next_frame() else { break };
                if record || self.is_foreign.is_some() {
                    let line = String::from_utf8_lossy(frame.bytes()).into_owned();
                    if self.is_foreign.is_some_and(|is_foreign| is_foreign(&line)) {
                        self.foreign.push(line);
                        continue;
                    }
                    // A closed connection handles no input.
                    let is_handled = record && self.conn.phase() != Phase::Closed;
                    self.trace.extend(is_handled.then_some(Line::In(line)));
                }
                self.events.extend(self.conn.handle_frame(now, frame).map(Event::into_owned));
            }
            if self.eof && !self.pending {
                self.conn.handle_eof(now);
            }
        }
        if self.conn.poll_timeout().is_some_and(|deadline| deadline.at <= now) {
            self.conn.handle_timeout(now);
            moved = true;
        }
        while let Some(event) = self.conn.poll_event() {
            self.events.push(event);
            moved = true;
        }
        loop {
            let start = self.out.len();
            let has_output = self.conn.has_output();
            if self.conn.poll_transmit_up_to(&mut self.out, self.high_water).is_none() {
                break;
            }
            assert!(has_output, "there was nothing to write");
            if record {
                let line = String::from_utf8_lossy(&self.out[start..]).trim_end().to_owned();
                self.log.push(line.clone());
                self.trace.push(Line::Out(line));
            }
            moved = true;
        }
        if !self.out.is_empty() {
            let written = output.write(now, &mut self.out) > 0;
            moved |= written;
            if written {
                self.conn.handle_written();
            }
        }
        if self.conn.is_drained() && self.out.is_empty() {
            output.end();
        }
        moved
    }
}

/// A client that is connected to a server.
pub struct Testbed {
    /// The client.
    pub client: Peer<mcp_proto::connection::ClientRole>,
    /// The server.
    pub server: Peer<mcp_proto::connection::ServerRole>,
    /// From the client to the server.
    pub up: Link,
    /// From the server to the client.
    pub down: Link,
    /// The virtual clock.
    pub now: Timestamp,
    /// Whether to record lines in the logs of both sides.
    pub record: bool,
}

impl Testbed {
    /// Connects two sides before any message.
    #[must_use]
    pub fn new(client: ClientConfig, server: ServerConfig, up: LinkConfig, down: LinkConfig) -> Self {
        Self::with_opening(client, Opening::unknown(), server, up, down)
    }

    /// Connects a client that has prior information about its server to a server.
    #[must_use]
    pub fn with_opening(
        client: ClientConfig,
        opening: Opening,
        server: ServerConfig,
        up: LinkConfig,
        down: LinkConfig,
    ) -> Self {
        let now = Timestamp::ZERO;
        Self {
            client: Peer::new(Client::with_opening(client, opening, now)),
            server: Peer::new(Server::new(server, now)),
            up: Link::new(up),
            down: Link::new(down),
            now,
            record: true,
        }
    }

    /// Returns two sides with all capabilities, after their handshake, over links without limits.
    #[must_use]
    pub fn ready() -> Self {
        Self::ready_over(LinkConfig::default())
    }

    /// Returns two sides with all capabilities, after their handshake.
    #[must_use]
    pub fn ready_over(link: LinkConfig) -> Self {
        Self::ready_with(link, |_| ())
    }

    /// Returns two sides with all capabilities and these limits, after their handshake.
    #[must_use]
    pub fn ready_with(link: LinkConfig, limit: impl Fn(&mut Limits)) -> Self {
        let (mut client, mut server) = (crate::harness::full_client(), crate::harness::full_server());
        limit(&mut client.settings.limits);
        limit(&mut server.settings.limits);
        let mut testbed = Self::new(client, server, link, link);
        testbed.settle();
        assert_eq!(testbed.client.take_events(), [Event::Ready]);
        assert_eq!(testbed.server.take_events(), [Event::Ready]);
        testbed.client.clear_logs();
        testbed.server.clear_logs();
        testbed
    }

    /// Runs both sides until there is nothing to do at the current time.
    ///
    /// # Panics
    /// If the two sides never become idle.
    pub fn run(&mut self) {
        for _ in 0..LIVELOCK {
            let client = self.client.tick(self.now, &mut self.down, &mut self.up, self.record);
            let server = self.server.tick(self.now, &mut self.up, &mut self.down, self.record);
            if !client && !server {
                return;
            }
        }
        panic!("livelock: the two sides never become idle");
    }

    /// Returns when the next byte arrives. Bytes that have arrived and are not read are not counted.
    fn next_arrival(&self) -> Option<Timestamp> {
        let arrivals = self.up.next_arrival().into_iter().chain(self.down.next_arrival());
        arrivals.filter(|at| *at > self.now).min()
    }

    /// Runs both sides and advances the clock to each arrival, until nothing is in flight.
    pub fn settle(&mut self) {
        loop {
            self.run();
            let Some(next) = self.next_arrival() else { return };
            self.now = next;
        }
    }

    /// Advances the clock by `time`, stopping at each arrival and deadline.
    pub fn advance(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.run();
            let arrivals = self.next_arrival().into_iter();
            let client = self.client.conn.poll_timeout().map(|deadline| deadline.at);
            let server = self.server.conn.poll_timeout().map(|deadline| deadline.at);
            match arrivals.chain(client).chain(server).min() {
                Some(next) if next <= until => self.now = self.now.max(next),
                _ => break,
            }
        }
        self.now = until;
        self.run();
    }

    /// Panics unless both connections are idle.
    #[track_caller]
    pub fn assert_idle(&self) {
        assert_eq!(self.client.conn.usage(), ResourceUsage::default(), "the client is not idle");
        assert_eq!(self.server.conn.usage(), ResourceUsage::default(), "the server is not idle");
    }
}
