//! A peer of hand-written messages, over a plain socket.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
};

use serde_json::{Value, json};

use crate::{LONG, adapter::Adapter};

/// The other end of a connection.
pub(crate) struct Raw {
    pub(crate) stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Raw {
    /// Returns a transport, and its other end.
    pub(crate) fn pair<A: Adapter>() -> (A::Transport, Self) {
        let (near, far) = UnixStream::pair().expect("there are sockets");
        (A::unix(near), Self::new(far))
    }

    pub(crate) fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(LONG)).expect("a time that is not zero");
        let lines = BufReader::new(stream.try_clone().expect("there are descriptors"));
        Self { stream, lines }
    }

    /// Sends a line unchanged.
    pub(crate) fn send_line(&mut self, line: &str) {
        self.stream.write_all(format!("{line}\n").as_bytes()).expect("the other end reads");
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string());
    }

    /// Returns the next message, or `None` at the end.
    pub(crate) fn receive(&mut self) -> Option<Value> {
        let line = self.receive_line()?;
        Some(serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line:?}")))
    }

    /// Returns the next line unchanged, or `None` at the end.
    pub(crate) fn receive_line(&mut self) -> Option<String> {
        let mut line = String::new();
        let len = self.lines.read_line(&mut line).expect("something comes in time");
        (len > 0).then_some(line)
    }

    /// Returns the next message with this method. Others are skipped.
    pub(crate) fn receive_method(&mut self, method: &str) -> Value {
        loop {
            let message = self.receive().unwrap_or_else(|| panic!("the end came before {method}"));
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Performs the handshake as a client.
    pub(crate) fn handshake_as_client(&mut self) {
        self.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}}));
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(self.receive().expect("an answer")["id"], 0);
    }

    /// Performs the handshake as a legacy server. A probe before it gets an error.
    pub(crate) fn handshake_as_server(&mut self) {
        let mut initialize = self.receive().expect("a request");
        if initialize["method"] == "server/discover" {
            let error = json!({"code": -32601, "message": "Method not found"});
            self.send(&json!({"jsonrpc": "2.0", "id": initialize["id"], "error": error}));
            initialize = self.receive_method("initialize");
        }
        self.send(&json!({"jsonrpc": "2.0", "id": initialize["id"], "result": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "raw", "version": "1"}}}));
        self.receive_method("notifications/initialized");
    }
}
