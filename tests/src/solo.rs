//! One end of a connection, played against by hand: lines in, lines out, events out.

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

/// A connection with a clock of its own. Events are collected, output is handed out as lines.
pub struct Solo<E> {
    /// The connection.
    pub conn: Connection<E>,
    /// The virtual clock.
    pub now: Timestamp,
    /// Events that were not taken yet.
    pub events: Vec<Event<'static>>,
}

/// A server with everything declared.
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

/// A client with everything declared.
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

impl Solo<ServerRole> {
    /// A server before the handshake.
    #[must_use]
    pub fn server(config: ServerConfig) -> Self {
        Self::around(Server::new(config, Timestamp::ZERO))
    }

    /// A server with everything declared, behind its handshake with a client that has everything declared too.
    #[must_use]
    pub fn ready_server(version: ProtocolVersion) -> Self {
        Self::ready_server_with(full_server(), version)
    }

    /// A server behind its handshake with a client that has everything declared.
    #[must_use]
    pub fn ready_server_with(config: ServerConfig, version: ProtocolVersion) -> Self {
        let mut solo = Self::server(config);
        let capabilities = serde_json::to_value(full_client().capabilities).expect("capabilities are JSON");
        solo.feed(&json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
            "protocolVersion": version.as_str(), "capabilities": capabilities,
            "clientInfo": {"name": "client", "version": "1"}}}));
        solo.feed(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(solo.take_events(), [Event::Ready]);
        assert_eq!(solo.sent().len(), 1);
        assert_eq!(solo.conn.version(), Some(version));
        solo
    }
}

impl Solo<ServerRole> {
    /// A server with everything declared that speaks these revisions, and no session.
    #[must_use]
    pub fn speaking(versions: VersionSet) -> Self {
        let mut config = full_server();
        config.settings.versions = versions;
        Self::server(config)
    }

    /// A server with everything declared that speaks 2026-07-28 only.
    #[must_use]
    pub fn modern_server() -> Self {
        Self::speaking(VersionSet::only(ProtocolVersion::V2026_07_28))
    }
}

impl Solo<ClientRole> {
    /// A client with everything declared that has found a server of 2026-07-28 with everything declared.
    #[must_use]
    pub fn modern_client() -> Self {
        Self::modern_client_with(full_client())
    }

    /// A client that has found a server of 2026-07-28 with everything declared.
    #[must_use]
    pub fn modern_client_with(mut config: ClientConfig) -> Self {
        config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
        let mut solo = Self::client(config);
        let sent = solo.sent();
        let capabilities = serde_json::to_value(full_server().capabilities).expect("capabilities are JSON");
        solo.feed(&json!({"jsonrpc": "2.0", "id": sent[0]["id"], "result": {
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
            "ttlMs": 0, "cacheScope": "private"}}));
        assert_eq!(solo.take_events(), [Event::Ready]);
        solo
    }

    /// A client before the handshake.
    #[must_use]
    pub fn client(config: ClientConfig) -> Self {
        Self::knowing(config, Opening::unknown())
    }

    /// A client before the handshake, which knows something of its server.
    #[must_use]
    pub fn knowing(config: ClientConfig, opening: Opening) -> Self {
        Self::around(Client::knowing(config, opening, Timestamp::ZERO))
    }

    /// A client with everything declared, behind its handshake with a server that has everything declared too.
    #[must_use]
    pub fn ready_client(version: ProtocolVersion) -> Self {
        Self::ready_client_with(full_client(), version)
    }

    /// A client behind its handshake with a server that has everything declared.
    #[must_use]
    pub fn ready_client_with(config: ClientConfig, version: ProtocolVersion) -> Self {
        let mut solo = Self::client(config);
        let sent = solo.sent();
        assert_eq!(sent.len(), 1, "a client opens with one message: {sent:?}");
        let capabilities = serde_json::to_value(full_server().capabilities).expect("capabilities are JSON");
        solo.feed(&json!({"jsonrpc": "2.0", "id": sent[0]["id"], "result": {
            "protocolVersion": version.as_str(), "capabilities": capabilities,
            "serverInfo": {"name": "server", "version": "1"}}}));
        assert_eq!(solo.take_events(), [Event::Ready]);
        assert_eq!(solo.sent(), [json!({"jsonrpc": "2.0", "method": "notifications/initialized"})]);
        solo
    }
}

impl<E> Solo<E> {
    fn around(conn: Connection<E>) -> Self {
        Self { conn, now: Timestamp::ZERO, events: Vec::new() }
    }

    /// One message comes in.
    pub fn feed(&mut self, message: &Value) {
        self.feed_text(&message.to_string());
    }

    /// One frame comes in, whatever is in it.
    pub fn feed_text(&mut self, text: &str) {
        self.feed_bytes(text.as_bytes());
    }

    /// One frame comes in, whatever is in it.
    pub fn feed_bytes(&mut self, bytes: &[u8]) {
        self.events.extend(self.conn.handle_frame(self.now, Frame::new(bytes)).map(Event::into_owned));
        self.poll_events();
    }

    /// A piece of a byte stream comes in.
    pub fn feed_stream(&mut self, lines: &mut LineDecoder, chunk: &[u8]) {
        lines.feed(chunk);
        while let Some(frame) = lines.next_frame() {
            self.events.extend(self.conn.handle_frame(self.now, frame).map(Event::into_owned));
        }
        self.poll_events();
    }

    /// The peer asks for something, and the application is to answer.
    #[track_caller]
    pub fn ask(&mut self, request: &Value) -> ReplyKey {
        self.feed(request);
        let events = self.take_events();
        let [Event::Request { key, .. }] = &events[..] else { panic!("this is no request to answer: {events:?}") };
        *key
    }

    /// The application answers.
    #[track_caller]
    pub fn answer(&mut self, key: ReplyKey, result: &Value) {
        let result = Json::new(result).expect("it is JSON");
        self.conn.respond_raw(key, &RawJson::from(&result)).expect("an answer is owed");
    }

    /// The application asks for something, and the question leaves.
    #[track_caller]
    pub fn call(&mut self, method: &str) -> CallId {
        self.call_with(method, RequestOptions::default())
    }

    /// The application asks for something, and the question leaves.
    #[track_caller]
    pub fn call_with(&mut self, method: &str, options: RequestOptions) -> CallId {
        let call = self.conn.request_raw(self.now, method, None, options).expect("it may be asked");
        self.sent();
        call
    }

    /// Moves the queued events to [`events`](Self::events).
    pub fn poll_events(&mut self) {
        while let Some(event) = self.conn.poll_event() {
            self.events.push(event);
        }
    }

    /// The events since the last time.
    pub fn take_events(&mut self) -> Vec<Event<'static>> {
        self.poll_events();
        std::mem::take(&mut self.events)
    }

    /// The messages since the last time, as text.
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

    /// The messages since the last time.
    pub fn sent(&mut self) -> Vec<Value> {
        self.sent_text().iter().map(|text| serde_json::from_str(text).expect("output is JSON")).collect()
    }

    /// Lets time pass, all at once.
    pub fn advance(&mut self, time: Duration) {
        self.now = self.now + time;
        self.conn.handle_timeout(self.now);
        self.poll_events();
    }
}
