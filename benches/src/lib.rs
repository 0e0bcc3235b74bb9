//! What the benchmarks share: frames of different sizes, and two ends joined in memory.

use mcp_proto::{
    codec::Frame,
    connection::{Client, ClientConfig, Event, Outcome, RequestOptions, Server, ServerConfig},
    protocol::Capability,
    rpc::Timestamp,
    schema::{CallToolParams, CallToolResult, Implementation, ServerCapabilities},
    wire::JsonObject,
};

/// A `tools/call` with a text of about `size` bytes: prose with line breaks and quotes, or plain.
#[must_use]
pub fn call(size: usize, prose: bool) -> String {
    let piece = if prose {
        r#"She said \"so be it\" and went on her way, as one does;\n"#
    } else {
        "plain text without any escapes"
    };
    let text = piece.repeat(size.div_ceil(piece.len()));
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{{\"_meta\":{{\"progressToken\":7}},\
         \"name\":\"echo\",\"arguments\":{{\"message\":\"{text}\"}}}}}}"
    )
}

/// A client and a server behind their handshake.
pub struct Pair {
    /// The asking end.
    pub client: Client,
    /// The answering end.
    pub server: Server,
    up: Vec<u8>,
    down: Vec<u8>,
}

impl Default for Pair {
    fn default() -> Self {
        let mut config = ServerConfig::new(Implementation::new("s", "1"));
        config.capabilities = ServerCapabilities::default().with(Capability::Tools);
        let client = ClientConfig::new(Implementation::new("c", "1"));
        let mut pair = Self {
            client: Client::new(client, Timestamp::ZERO),
            server: Server::new(config, Timestamp::ZERO),
            up: Vec::new(),
            down: Vec::new(),
        };
        let result = CallToolResult::text("");
        while pair.turn(&result) {}
        assert!(pair.client.is_ready() && pair.server.is_ready());
        pair
    }
}

impl Pair {
    /// Sends a call, without carrying it over.
    pub fn ask(&mut self, arguments: &JsonObject) {
        let params = CallToolParams { arguments: Some(arguments.clone()), ..CallToolParams::new("echo") };
        let asked = self.client.request(Timestamp::ZERO, &params, RequestOptions::default());
        asked.expect("a call is allowed");
    }

    /// Carries everything over, once each way; whether anything moved. Every call is answered with `result`.
    pub fn turn(&mut self, result: &CallToolResult) -> bool {
        let now = Timestamp::ZERO;
        self.up.clear();
        while self.client.poll_transmit(&mut self.up).is_some() {}
        for line in self.up.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            if let Some(Event::Request { key, params, .. }) = self.server.handle_frame(now, Frame::new(line)) {
                let params: CallToolParams = params.expect("a call has params").decode().expect("they fit");
                assert_eq!(params.name, "echo");
                self.server.respond(key, result).expect("it is owed");
            }
        }
        self.down.clear();
        while self.server.poll_transmit(&mut self.down).is_some() {}
        for line in self.down.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            if let Some(Event::Response { outcome: Outcome::Result(result), .. }) =
                self.client.handle_frame(now, Frame::new(line))
            {
                let result: CallToolResult = result.decode().expect("it is a result");
                assert_eq!(result.content.len(), 1);
            }
        }
        while self.client.poll_event().is_some() {}
        while self.server.poll_event().is_some() {}
        !self.up.is_empty() || !self.down.is_empty()
    }
}
