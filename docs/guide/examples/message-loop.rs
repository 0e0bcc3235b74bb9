//! The core without an adapter: a client and a server whose messages go through channels, as they
//! would through a WebSocket. Each side is one loop.
//!
//! ```sh
//! cargo run -p mcp-guide --example message-loop
//! ```

use std::{
    error::Error,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use mcp_proto::{
    codec::Frame,
    connection::{
        Client, ClientConfig, Connection, Event, Outcome, RequestOptions, Server, ServerConfig,
        ServerRole,
    },
    protocol::{Capability, Method},
    rpc::Timestamp,
    schema::{
        CallToolParams, CallToolResult, Implementation, ListToolsResult, ServerCapabilities, Tool,
    },
    wire::{ErrorObject, JsonObject},
};

/// A whole message each. A frame has no line break at its end: `poll_transmit` writes one for byte
/// streams, and it is cut off here.
struct Messages {
    out: Sender<Vec<u8>>,
    input: Receiver<Vec<u8>>,
    start: Instant,
}

impl Messages {
    fn now(&self) -> Timestamp {
        Timestamp::after_zero(self.start.elapsed())
    }

    /// Runs a connection until it has ended: events first, then output, then the next input or
    /// deadline.
    fn run<E>(&self, mut conn: Connection<E>, mut on: impl FnMut(&mut Connection<E>, Event<'_>)) {
        while !conn.is_drained() {
            while let Some(event) = conn.poll_event() {
                on(&mut conn, event);
            }
            let mut frame = Vec::new();
            while conn.poll_transmit(&mut frame).is_some() {
                let _ = self.out.send(frame.trim_ascii_end().to_vec());
                frame.clear();
            }
            let wait = conn
                .poll_timeout()
                .map_or(Duration::from_secs(60), |deadline| {
                    deadline.at.saturating_since(self.now())
                });
            match self.input.recv_timeout(wait) {
                Ok(message) => {
                    if let Some(event) = conn.handle_frame(self.now(), Frame::new(&message)) {
                        on(&mut conn, event);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => conn.handle_eof(self.now()),
            }
            conn.handle_timeout(self.now());
        }
    }
}

fn respond(server: &mut Connection<ServerRole>, event: Event<'_>) {
    let Event::Request { key, method, .. } = event else {
        return;
    };
    let _ = match method.known() {
        Some(Method::ListTools) => server.respond(
            key,
            &ListToolsResult::new([Tool::new("hello", JsonObject::empty())]),
        ),
        Some(Method::CallTool) => server.respond(key, &CallToolResult::text("Hello!")),
        _ => server.respond_error(key, &ErrorObject::method_not_found(method.as_str())),
    };
}

fn main() -> Result<(), Box<dyn Error>> {
    let (to_server, from_client) = channel();
    let (to_client, from_server) = channel();
    let start = Instant::now();
    let near = Messages {
        out: to_server,
        input: from_server,
        start,
    };
    let far = Messages {
        out: to_client,
        input: from_client,
        start,
    };

    // The seeds are random bits in a real program.
    let mut config = ServerConfig::new(Implementation::new("hello", "1.0.0"), 1);
    config.capabilities = ServerCapabilities::default().with(Capability::Tools);
    let server = Server::new(config, far.now());
    let serving = thread::spawn(move || far.run(server, respond));

    let config = ClientConfig::new(Implementation::new("client", "1.0.0"), 2);
    let client = Client::new(config, near.now());
    let mut text = None;
    near.run(client, |client, event| match event {
        Event::Ready => {
            let params = CallToolParams::new("hello");
            let _ = client.request(near.now(), &params, RequestOptions::default());
        }
        Event::Response {
            outcome: Outcome::Result(result),
            ..
        } => {
            let result = result.decode::<CallToolResult>().ok();
            text = result.and_then(|result| result.content[0].as_text().map(str::to_owned));
            client.close(near.now());
        }
        _ => {}
    });
    drop(near);
    serving.join().map_err(|_| "the server panicked")?;
    println!("{}", text.unwrap_or_default());
    Ok(())
}
