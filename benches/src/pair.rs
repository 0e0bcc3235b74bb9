//! A client and a server that are connected by buffers.

use std::sync::Arc;

use mcp_proto::{
    codec::LineDecoder,
    connection::{Client, ClientConfig, Connection, Event, Server, ServerConfig},
    protocol::{Capability, VersionSet},
    rpc::Timestamp,
    schema::{Implementation, ServerCapabilities},
};

/// A client and a server after their handshake.
pub struct Pair {
    /// The client.
    pub client: Client,
    /// The server.
    pub server: Server,
    /// The virtual time.
    pub now: Timestamp,
    /// The number of bytes that were transferred.
    pub bytes: usize,
    up: Wire,
    down: Wire,
}

struct Wire {
    bytes: Vec<u8>,
    lines: LineDecoder,
}

/// The configuration of a server with tools, and limits that no case reaches.
pub(crate) fn server(versions: VersionSet) -> ServerConfig {
    let mut config = ServerConfig::new(Implementation::new("server", "1.0.0"), 1);
    config.capabilities = ServerCapabilities::default().with(Capability::Tools);
    config.settings.versions = versions;
    config.settings.limits.requests = 1 << 20;
    config
}

/// The configuration of a client, with limits that no case reaches.
pub(crate) fn client(versions: VersionSet) -> ClientConfig {
    let mut config = ClientConfig::new(Implementation::new("client", "1.0.0"), 1);
    config.settings.versions = versions;
    config.settings.limits.calls = 1 << 20;
    config
}

impl Pair {
    /// Connects a client and a server in the newest of these revisions.
    ///
    /// # Panics
    /// If the handshake fails.
    #[must_use]
    pub fn new(versions: VersionSet) -> Self {
        Self::joining(client(versions), server(versions))
    }

    /// Connects a client and a server with these configurations.
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

    /// Sends a request, a microsecond after the last one.
    ///
    /// # Panics
    /// If the request is not allowed.
    pub fn send_request(&mut self, send_request: impl FnOnce(&mut Client, Timestamp)) {
        self.now = self.now + std::time::Duration::from_micros(1);
        send_request(&mut self.client, self.now);
    }

    /// Transfers all messages to the server.
    pub fn up(&mut self, on_event: impl FnMut(&mut Server, Timestamp, Event<'_>)) {
        self.bytes += carry(&mut self.client, &mut self.server, self.now, &mut self.up, on_event);
    }

    /// Transfers all messages to the client.
    pub fn down(&mut self, mut on_event: impl FnMut(Event<'_>)) {
        self.bytes +=
            carry(&mut self.server, &mut self.client, self.now, &mut self.down, |_, _, event| on_event(event));
    }
}

/// Transfers all messages of one side to the other. Returns the number of bytes.
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
