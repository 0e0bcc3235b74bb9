//! The protocol in a test without any I/O: a client and a server connected by hand, frame by frame, with simulated
//! time. Races, such as a cancellation that crosses its response, are deterministic here.
//!
//! ```sh
//! cargo test --example no-io
//! ```

mod echo;

use std::time::Duration;

use mcp_proto::{
    codec::Frame,
    connection::{Client, ClientConfig, Event, Outcome, RequestOptions, SendError, Server},
    rpc::Timestamp,
    schema::{CallToolParams, Implementation},
    wire::JsonObject,
};

/// A client, a server, and the simulated time.
struct Both {
    client: Client,
    server: Server,
    now: Timestamp,
    /// The outcomes of the client's requests.
    ends: Vec<String>,
}

impl Both {
    /// Creates both and completes their handshake.
    fn new() -> Result<Self, SendError> {
        let now = Timestamp::ZERO;
        // The server is part of this program and is trusted, so the hash seed need not be random.
        let client = Client::new(ClientConfig::new(Implementation::new("client", "1.0.0"), 0), now);
        let mut both = Self { client, server: Server::new(echo::config(), now), now, ends: Vec::new() };
        while both.up()? | both.down() {}
        Ok(both)
    }

    /// Passes the client's messages to the server. Returns whether there were any.
    fn up(&mut self) -> Result<bool, SendError> {
        let (mut frame, mut any) = (Vec::new(), false);
        while self.client.poll_transmit(&mut frame).is_some() {
            if let Some(event) = self.server.handle_frame(self.now, Frame::new(&frame)) {
                echo::answer(&mut self.server, event)?;
            }
            frame.clear();
            any = true;
        }
        while let Some(event) = self.server.poll_event() {
            echo::answer(&mut self.server, event)?;
        }
        Ok(any)
    }

    /// Passes the server's messages to the client. Returns whether there were any.
    fn down(&mut self) -> bool {
        let (mut frame, mut any) = (Vec::new(), false);
        while self.server.poll_transmit(&mut frame).is_some() {
            let event = self.client.handle_frame(self.now, Frame::new(&frame));
            self.ends.extend(event.and_then(end));
            frame.clear();
            any = true;
        }
        self.hear();
        any
    }

    fn hear(&mut self) {
        while let Some(event) = self.client.poll_event() {
            self.ends.extend(end(event));
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
        self.hear();
    }
}

fn end(event: Event<'_>) -> Option<String> {
    let Event::Response { outcome, .. } = event else { return None };
    Some(match outcome {
        Outcome::Result(_) => "answered".into(),
        other => format!("{other:?}"),
    })
}

fn call(tool: &str) -> Result<CallToolParams, SendError> {
    Ok(CallToolParams { arguments: Some(JsonObject::parse(r#"{"message":"hi"}"#)?), ..CallToolParams::new(tool) })
}

/// Shows a cancellation that crosses the response: the call is already cancelled, and the response changes nothing.
fn crossing() -> Result<Vec<String>, SendError> {
    let mut both = Both::new()?;
    let requested = both.client.request(both.now, &call("echo")?, RequestOptions::default())?;
    both.up()?;
    // The server has the request and has queued the response.
    both.client.cancel(requested, Some("too late"))?;
    both.down();
    both.up()?;
    both.down();
    Ok(both.ends)
}

/// Shows a request that times out after a minute without a response, which takes no real time.
fn silence() -> Result<Vec<String>, SendError> {
    let mut both = Both::new()?;
    both.client.request(both.now, &call("brood")?, RequestOptions::within(Duration::from_secs(60)))?;
    both.up()?;
    both.pass(Duration::from_secs(59));
    assert!(both.ends.is_empty());
    both.pass(Duration::from_secs(1));
    Ok(both.ends)
}

fn main() -> Result<(), SendError> {
    eprintln!("a cancellation that crosses the answer: {:?}", crossing()?);
    eprintln!("a minute of silence: {:?}", silence()?);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn cancellation_that_crosses_the_response_wins() {
        assert_eq!(super::crossing(), Ok(vec!["Cancelled".to_owned()]));
    }

    #[test]
    fn simulated_timeout_takes_no_time() {
        assert_eq!(super::silence(), Ok(vec!["TimedOut { total: true }".to_owned()]));
    }
}
