//! One side of a connection under test: the test writes the lines of the peer and reads output and events.

use std::time::Duration;

use mcp_proto::{
    codec::{Frame, LineDecoder},
    connection::{
        Client, ClientConfig, ClientRole, Connection, Event, Opening, RequestOptions, Server, ServerConfig, ServerRole,
    },
    protocol::{ProtocolVersion, VersionSet},
    rpc::{CallId, ReplyKey, Timestamp},
    schema::{ClientCapabilities, Implementation, ServerCapabilities},
    wire::{Json, RawJson},
};
use serde_json::{Value, json};

/// A connection with its own clock. Events are collected, output is returned as lines.
pub struct Harness<E> {
    /// The connection.
    pub conn: Connection<E>,
    /// The virtual clock.
    pub now: Timestamp,
    /// Events that the test has not taken yet.
    pub events: Vec<Event<'static>>,
}

/// Returns a server configuration with all capabilities declared.
#[must_use]
pub fn full_server() -> ServerConfig {
    let mut config = ServerConfig::new(Implementation::new("server", "1"), 1);
    config.capabilities = serde_json::from_value::<ServerCapabilities>(json!({
        "tools": {"listChanged": true}, "prompts": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true}, "logging": {}, "completions": {},
        "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
        "extensions": {"io.modelcontextprotocol/skills": {"directoryRead": true}}
    }))
    .expect("these are capabilities");
    config
}

/// Returns a client configuration with all capabilities declared.
#[must_use]
pub fn full_client() -> ClientConfig {
    let mut config = ClientConfig::new(Implementation::new("client", "1"), 1);
    config.capabilities = serde_json::from_value::<ClientCapabilities>(json!({
        "roots": {"listChanged": true}, "sampling": {"context": {}, "tools": {}},
        "elicitation": {"form": {}, "url": {}},
        "tasks": {"list": {}, "cancel": {}, "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}}
    }))
    .expect("these are capabilities");
    config
}

/// Returns a client configuration with all capabilities and these revisions.
#[must_use]
pub fn full_client_with(versions: VersionSet) -> ClientConfig {
    let mut config = full_client();
    config.settings.versions = versions;
    config
}

impl Harness<ServerRole> {
    /// Returns a server before its handshake.
    #[must_use]
    pub fn server(config: ServerConfig) -> Self {
        Self::from_connection(Server::new(config, Timestamp::ZERO))
    }

    /// Returns a server after its handshake. Both sides declare all capabilities.
    #[must_use]
    pub fn ready_server(version: ProtocolVersion) -> Self {
        Self::ready_server_with(full_server(), version)
    }

    /// Returns a server after its handshake with a client that declares all capabilities.
    #[must_use]
    pub fn ready_server_with(config: ServerConfig, version: ProtocolVersion) -> Self {
        let mut harness = Self::server(config);
        let capabilities = serde_json::to_value(full_client().capabilities).expect("capabilities are JSON");
        harness.feed(&json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
            "protocolVersion": version.as_str(), "capabilities": capabilities,
            "clientInfo": {"name": "client", "version": "1"}}}));
        harness.feed(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(harness.take_events(), [Event::Ready]);
        assert_eq!(harness.sent().len(), 1);
        assert_eq!(harness.conn.version(), Some(version));
        harness
    }
}

impl Harness<ServerRole> {
    /// Returns a server with all capabilities and these revisions, before any message.
    #[must_use]
    pub fn with_versions(versions: VersionSet) -> Self {
        let mut config = full_server();
        config.settings.versions = versions;
        Self::server(config)
    }

    /// Returns a server with all capabilities that supports 2026-07-28 only.
    #[must_use]
    pub fn modern_server() -> Self {
        Self::with_versions(VersionSet::only(ProtocolVersion::V2026_07_28))
    }
}

impl Harness<ClientRole> {
    /// Returns a client after discovery of a server of 2026-07-28. Both sides declare all capabilities.
    #[must_use]
    pub fn modern_client() -> Self {
        Self::modern_client_with(full_client())
    }

    /// Returns a client after discovery of a server of 2026-07-28 that declares all capabilities.
    #[must_use]
    pub fn modern_client_with(mut config: ClientConfig) -> Self {
        config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
        let mut harness = Self::client(config);
        let sent = harness.sent();
        let capabilities = serde_json::to_value(full_server().capabilities).expect("capabilities are JSON");
        harness.feed(&json!({"jsonrpc": "2.0", "id": sent[0]["id"], "result": {
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
            "ttlMs": 0, "cacheScope": "private"}}));
        assert_eq!(harness.take_events(), [Event::Ready]);
        harness
    }

    /// Returns a client before its handshake.
    #[must_use]
    pub fn client(config: ClientConfig) -> Self {
        Self::with_opening(config, Opening::unknown())
    }

    /// Returns a client before its handshake that has prior information about its server.
    #[must_use]
    pub fn with_opening(config: ClientConfig, opening: Opening) -> Self {
        Self::from_connection(Client::with_opening(config, opening, Timestamp::ZERO))
    }

    /// Returns a client after its handshake. Both sides declare all capabilities.
    #[must_use]
    pub fn ready_client(version: ProtocolVersion) -> Self {
        Self::ready_client_with(full_client(), version)
    }

    /// Returns a client after its handshake with a server that declares all capabilities.
    #[must_use]
    pub fn ready_client_with(config: ClientConfig, version: ProtocolVersion) -> Self {
        let mut harness = Self::client(config);
        let sent = harness.sent();
        assert_eq!(sent.len(), 1, "a client opens with one message: {sent:?}");
        let capabilities = serde_json::to_value(full_server().capabilities).expect("capabilities are JSON");
        harness.feed(&json!({"jsonrpc": "2.0", "id": sent[0]["id"], "result": {
            "protocolVersion": version.as_str(), "capabilities": capabilities,
            "serverInfo": {"name": "server", "version": "1"}}}));
        assert_eq!(harness.take_events(), [Event::Ready]);
        assert_eq!(harness.sent(), [json!({"jsonrpc": "2.0", "method": "notifications/initialized"})]);
        harness
    }
}

impl<E> Harness<E> {
    fn from_connection(conn: Connection<E>) -> Self {
        Self { conn, now: Timestamp::ZERO, events: Vec::new() }
    }

    /// Passes one message of the peer to the connection.
    pub fn feed(&mut self, message: &Value) {
        self.feed_text(&message.to_string());
    }

    /// Passes one frame of the peer to the connection. The frame may be invalid.
    pub fn feed_text(&mut self, text: &str) {
        self.feed_bytes(text.as_bytes());
    }

    /// Passes one frame of the peer to the connection. The frame may be invalid.
    pub fn feed_bytes(&mut self, bytes: &[u8]) {
        self.events.extend(self.conn.handle_frame(self.now, Frame::new(bytes)).map(Event::into_owned));
        self.poll_events();
    }

    /// Passes a piece of a byte stream to the connection.
    pub fn feed_stream(&mut self, lines: &mut LineDecoder, chunk: &[u8]) {
        lines.feed(chunk);
        while let Some(frame) = lines.next_frame() {
            self.events.extend(self.conn.handle_frame(self.now, frame).map(Event::into_owned));
        }
        self.poll_events();
    }

    /// Passes a request of the peer to the connection and returns the key that the application responds with.
    #[track_caller]
    pub fn receive_request(&mut self, request: &Value) -> ReplyKey {
        self.feed(request);
        let events = self.take_events();
        let [Event::Request { key, .. }] = &events[..] else { panic!("this is no request to answer: {events:?}") };
        *key
    }

    /// Sends the application's result.
    #[track_caller]
    pub fn respond(&mut self, key: ReplyKey, result: &Value) {
        let result = Json::new(result).expect("it is JSON");
        self.conn.respond_raw(key, &RawJson::from(&result)).expect("the request is open");
    }

    /// Sends a request of the application and discards the output.
    #[track_caller]
    pub fn call(&mut self, method: &str) -> CallId {
        self.call_with(method, RequestOptions::default())
    }

    /// Sends a request of the application and discards the output.
    #[track_caller]
    pub fn call_with(&mut self, method: &str, options: RequestOptions) -> CallId {
        let call = self.conn.request_raw(self.now, method, None, options).expect("the request is allowed");
        self.sent();
        call
    }

    /// Moves the queued events to [`events`](Self::events).
    pub fn poll_events(&mut self) {
        while let Some(event) = self.conn.poll_event() {
            self.events.push(event);
        }
    }

    /// Returns the events since the last call.
    pub fn take_events(&mut self) -> Vec<Event<'static>> {
        self.poll_events();
        std::mem::take(&mut self.events)
    }

    /// Returns the messages written since the last call, as text.
    pub fn sent_text(&mut self) -> Vec<String> {
        let mut messages = Vec::new();
        let mut out = Vec::new();
        loop {
            let has_output = self.conn.has_output();
            let Some(transmit) = self.conn.poll_transmit(&mut out) else { break };
            assert!(has_output, "there was nothing to write");
            assert_eq!(transmit.len, out.len());
            let text = String::from_utf8(std::mem::take(&mut out)).expect("output is UTF-8");
            let line = text.strip_suffix('\n').expect("a message ends with a line feed");
            assert!(!line.contains('\n'), "one message, one line: {line}");
            messages.push(line.to_owned());
        }
        assert!(!self.conn.has_output(), "nothing is left to write");
        messages
    }

    /// Returns the messages written since the last call.
    pub fn sent(&mut self) -> Vec<Value> {
        self.sent_text().iter().map(|text| serde_json::from_str(text).expect("output is JSON")).collect()
    }

    /// Advances the clock in one step.
    pub fn advance(&mut self, time: Duration) {
        self.now = self.now + time;
        self.conn.handle_timeout(self.now);
        self.poll_events();
    }
}
