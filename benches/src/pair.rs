//! A client and a server, joined by nothing but buffers.

use std::sync::Arc;

use mcp_proto::{
    codec::LineDecoder,
    connection::{Client, ClientConfig, Connection, Event, Server, ServerConfig},
    protocol::{Capability, VersionSet},
    rpc::Timestamp,
    schema::{Implementation, ServerCapabilities},
};

/// A client and a server behind their handshake.
pub struct Pair {
    /// The asking end.
    pub client: Client,
    /// The answering end.
    pub server: Server,
    /// The time.
    pub now: Timestamp,
    /// What has travelled, in bytes.
    pub bytes: usize,
    up: Wire,
    down: Wire,
}

struct Wire {
    bytes: Vec<u8>,
    lines: LineDecoder,
}

/// The configuration of a server with tools, and limits that nothing here reaches.
pub(crate) fn server(versions: VersionSet) -> ServerConfig {
    let mut config = ServerConfig::new(Implementation::new("server", "1.0.0"), 1);
    config.capabilities = ServerCapabilities::default().with(Capability::Tools);
    config.settings.versions = versions;
    config.settings.limits.requests = 1 << 20;
    config
}

/// The configuration of a client, likewise.
pub(crate) fn client(versions: VersionSet) -> ClientConfig {
    let mut config = ClientConfig::new(Implementation::new("client", "1.0.0"), 1);
    config.settings.versions = versions;
    config.settings.limits.calls = 1 << 20;
    config
}

impl Pair {
    /// Two ends that speak the newest of these revisions.
    ///
    /// # Panics
    /// If they cannot come to terms.
    #[must_use]
    pub fn new(versions: VersionSet) -> Self {
        Self::joining(client(versions), server(versions))
    }

    /// Two ends of these configurations.
    pub(crate) fn joining(client: impl Into<Arc<ClientConfig>>, server: impl Into<Arc<ServerConfig>>) -> Self {
        let now = Timestamp::ZERO;
        let wire = || Wire { bytes: Vec::new(), lines: LineDecoder::new(usize::MAX >> 1) };
        let mut pair = Self {
            client: Client::new(client, now),
            server: Server::new(server, now),
            now,
            bytes: 0,
            up: wire(),
            down: wire(),
        };
        for _ in 0..3 {
            pair.up(|_, _, _| {});
            pair.down(|_| {});
        }
        assert!(pair.client.is_ready());
        pair
    }

    /// Asks for something, a microsecond later.
    ///
    /// # Panics
    /// If it may not be asked.
    pub fn ask(&mut self, ask: impl FnOnce(&mut Client, Timestamp)) {
        self.now = self.now + std::time::Duration::from_micros(1);
        ask(&mut self.client, self.now);
    }

    /// Carries everything to the server.
    pub fn up(&mut self, on_event: impl FnMut(&mut Server, Timestamp, Event<'_>)) {
        self.bytes += carry(&mut self.client, &mut self.server, self.now, &mut self.up, on_event);
    }

    /// Carries everything to the client.
    pub fn down(&mut self, mut on_event: impl FnMut(Event<'_>)) {
        self.bytes +=
            carry(&mut self.server, &mut self.client, self.now, &mut self.down, |_, _, event| on_event(event));
    }
}

/// Takes all that one end has to write to the other, and how many bytes that was.
fn carry<A, B>(
    from: &mut Connection<A>,
    to: &mut Connection<B>,
    now: Timestamp,
    Wire { bytes, lines }: &mut Wire,
    mut on_event: impl FnMut(&mut Connection<B>, Timestamp, Event<'_>),
) -> usize {
    bytes.clear();
    while from.poll_transmit(bytes).is_some() {}
    lines.feed(bytes);
    while let Some(frame) = lines.next_frame() {
        if let Some(event) = to.handle_frame(now, frame) {
            on_event(to, now, event);
        }
    }
    while let Some(event) = to.poll_event() {
        on_event(to, now, event);
    }
    bytes.len()
}
