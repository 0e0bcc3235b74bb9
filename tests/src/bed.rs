//! Two ends in memory, joined by two links, under a virtual clock.

use std::time::Duration;

use mcp_proto::{
    codec::LineDecoder,
    connection::{Client, ClientConfig, Connection, Event, Limits, Opening, ResourceUsage, Server, ServerConfig},
    protocol::Phase,
    rpc::Timestamp,
};

use crate::link::{Link, LinkConfig};

/// Steps after which two peers that still move are taken to chase their own tails.
const LIVELOCK: usize = 10_000_000;

/// How much a driver keeps of its own before it asks the connection for more.
const HIGH_WATER: usize = 64 * 1024;

/// A line that has passed an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// It has come in.
    In(String),
    /// It has left.
    Out(String),
}

/// One end with its driver: what it has read, and what it has to write.
pub struct End<E> {
    /// The connection.
    pub conn: Connection<E>,
    /// Events that were not taken yet.
    pub events: Vec<Event<'static>>,
    /// Every line that left, oldest first, if [`Bed::record`] is on.
    pub log: Vec<String>,
    /// Every line that came or left, in the order in which the connection saw them, if [`Bed::record`] is on.
    pub trace: Vec<Line>,
    /// Which lines are not for the connection but for another program on the same pipe.
    pub is_aside: Option<fn(&str) -> bool>,
    /// These lines, oldest first.
    pub aside: Vec<String>,
    lines: LineDecoder,
    out: Vec<u8>,
    eof: bool,
    /// How much the driver keeps of its own before it asks the connection for more.
    pub high_water: usize,
    /// How often reading was paused.
    pub pauses: usize,
    /// Reading is not paused.
    reads: bool,
    /// Frames of the last read may be left.
    pending: bool,
}

impl<E> End<E> {
    fn new(conn: Connection<E>) -> Self {
        let lines = LineDecoder::new(conn.settings().limits.frame_bytes);
        Self {
            conn,
            events: Vec::new(),
            log: Vec::new(),
            trace: Vec::new(),
            is_aside: None,
            aside: Vec::new(),
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

    /// The events since the last time.
    pub fn take_events(&mut self) -> Vec<Event<'static>> {
        std::mem::take(&mut self.events)
    }

    /// Takes what the connection has to say by itself, as every driver does after it was asked for something.
    pub fn poll_events(&mut self) {
        while let Some(event) = self.conn.poll_event() {
            self.events.push(event);
        }
    }

    /// Forgets every line that came or left.
    pub fn forget(&mut self) {
        self.log.clear();
        self.trace.clear();
    }

    /// One turn of the loop that every driver has. Whether anything moved.
    fn turn(&mut self, now: Timestamp, input: &mut Link, output: &mut Link, record: bool) -> bool {
        let mut moved = false;
        let wanted = self.conn.wants_input(now);
        self.pauses += usize::from(self.reads && !wanted);
        self.reads = wanted;
        if wanted
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
        if wanted && self.pending {
            moved = true;
            self.pending = false;
            loop {
                if !self.conn.wants_input(now) {
                    (self.reads, self.pending, self.pauses) = (false, true, self.pauses + 1);
                    break;
                }
                let Some(frame) = self.lines.next_frame() else { break };
                if record || self.is_aside.is_some() {
                    let line = String::from_utf8_lossy(frame.bytes()).into_owned();
                    if self.is_aside.is_some_and(|is_aside| is_aside(&line)) {
                        self.aside.push(line);
                        continue;
                    }
                    // A closed end takes nothing in any more.
                    let is_heard = record && self.conn.phase() != Phase::Closed;
                    self.trace.extend(is_heard.then_some(Line::In(line)));
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

/// A client and a server, joined.
pub struct Bed {
    /// The client's end.
    pub client: End<mcp_proto::connection::ClientRole>,
    /// The server's end.
    pub server: End<mcp_proto::connection::ServerRole>,
    /// From the client to the server.
    pub up: Link,
    /// From the server to the client.
    pub down: Link,
    /// The virtual clock.
    pub now: Timestamp,
    /// Whether the lines that leave are kept in the ends' logs.
    pub record: bool,
}

impl Bed {
    /// Joins two ends that have not said anything yet.
    #[must_use]
    pub fn new(client: ClientConfig, server: ServerConfig, up: LinkConfig, down: LinkConfig) -> Self {
        Self::knowing(client, Opening::unknown(), server, up, down)
    }

    /// [`new`](Self::new) for a client that knows something of its server.
    #[must_use]
    pub fn knowing(
        client: ClientConfig,
        opening: Opening,
        server: ServerConfig,
        up: LinkConfig,
        down: LinkConfig,
    ) -> Self {
        let now = Timestamp::ZERO;
        Self {
            client: End::new(Client::knowing(client, opening, now)),
            server: End::new(Server::new(server, now)),
            up: Link::new(up),
            down: Link::new(down),
            now,
            record: true,
        }
    }

    /// Two ends with everything declared, behind their handshake, over links without limits.
    #[must_use]
    pub fn ready() -> Self {
        Self::ready_over(LinkConfig::default())
    }

    /// Two ends with everything declared, behind their handshake.
    #[must_use]
    pub fn ready_over(link: LinkConfig) -> Self {
        Self::ready_with(link, |_| ())
    }

    /// Two ends with everything declared and these limits, behind their handshake.
    #[must_use]
    pub fn ready_with(link: LinkConfig, limit: impl Fn(&mut Limits)) -> Self {
        let (mut client, mut server) = (crate::solo::full_client(), crate::solo::full_server());
        limit(&mut client.settings.limits);
        limit(&mut server.settings.limits);
        let mut bed = Self::new(client, server, link, link);
        bed.settle();
        assert_eq!(bed.client.take_events(), [Event::Ready]);
        assert_eq!(bed.server.take_events(), [Event::Ready]);
        bed.client.forget();
        bed.server.forget();
        bed
    }

    /// Runs both ends until nothing moves at this moment.
    ///
    /// # Panics
    /// If they never come to rest.
    pub fn run(&mut self) {
        for _ in 0..LIVELOCK {
            let client = self.client.turn(self.now, &mut self.down, &mut self.up, self.record);
            let server = self.server.turn(self.now, &mut self.up, &mut self.down, self.record);
            if !client && !server {
                return;
            }
        }
        panic!("livelock: the two ends never come to rest");
    }

    /// When the next byte arrives. What has arrived and is not read waits for something else.
    fn next_arrival(&self) -> Option<Timestamp> {
        let arrivals = self.up.next_arrival().into_iter().chain(self.down.next_arrival());
        arrivals.filter(|at| *at > self.now).min()
    }

    /// Runs both ends and lets time jump to whatever is under way, until only timers are left.
    pub fn settle(&mut self) {
        loop {
            self.run();
            let Some(next) = self.next_arrival() else { return };
            self.now = next;
        }
    }

    /// Lets `time` pass, stopping at every arrival and deadline on the way.
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

    /// Panics unless both ends hold nothing any more.
    #[track_caller]
    pub fn assert_at_rest(&self) {
        assert_eq!(self.client.conn.usage(), ResourceUsage::default(), "the client holds something");
        assert_eq!(self.server.conn.usage(), ResourceUsage::default(), "the server holds something");
    }
}
