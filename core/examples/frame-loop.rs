//! The protocol in a game: everything runs in the loop that draws 60 frames a second. Nothing blocks, there are no
//! threads and no callbacks, and the game provides the time.
//!
//! ```sh
//! cargo run --example frame-loop
//! ```

mod echo;

use std::{error::Error, thread, time::Duration};

use mcp_proto::{
    codec::LineDecoder,
    connection::{Client, ClientConfig, Event, Outcome, RequestOptions, SendError, Server},
    rpc::{CallId, Timestamp},
    schema::{CallToolParams, CallToolResult, Implementation},
    wire::JsonObject,
};

const FRAME: Duration = Duration::from_nanos(16_666_667);

/// The bytes that travel between two frames: this could be a socket that does not block.
const BYTES_PER_FRAME: usize = 64;

/// The most bytes that wait outside of the core.
const HIGH_WATER: usize = 4096;

/// A character that the player can talk to. Its mind is a server that runs in the same loop.
struct Villager {
    client: Client,
    lines: LineDecoder,
    up: Vec<u8>,
    mind: Mind,
    pending: Option<CallId>,
    /// The texts that the player sees.
    says: Vec<String>,
}

struct Mind {
    server: Server,
    lines: LineDecoder,
    down: Vec<u8>,
}

impl Villager {
    fn new(now: Timestamp) -> Self {
        Self {
            // The server is part of this program and is trusted, so the hash seed need not be random.
            client: Client::new(ClientConfig::new(Implementation::new("game", "1.0.0"), 0), now),
            lines: LineDecoder::new(1 << 16),
            up: Vec::new(),
            mind: Mind { server: Server::new(echo::config(), now), lines: LineDecoder::new(1 << 16), down: Vec::new() },
            pending: None,
            says: Vec::new(),
        }
    }

    /// Sends the player's message to the villager, who has two seconds to answer.
    fn send_request(&mut self, now: Timestamp, tool: &str) -> Result<(), SendError> {
        let arguments = Some(JsonObject::parse(r#"{"message":"Lovely weather!"}"#)?);
        let call = CallToolParams { arguments, ..CallToolParams::new(tool) };
        self.pending = Some(self.client.request(now, &call, RequestOptions::within(Duration::from_secs(2)))?);
        Ok(())
    }

    /// Runs one frame of the game: moves bytes, handles timeouts and events.
    fn frame(&mut self, now: Timestamp) -> Result<(), SendError> {
        while self.client.poll_transmit_up_to(&mut self.up, HIGH_WATER).is_some() {}
        self.mind.lines.feed(&take(&mut self.up));
        self.mind.frame(now)?;
        self.lines.feed(&take(&mut self.mind.down));
        while let Some(frame) = self.lines.next_frame() {
            if let Some(event) = self.client.handle_frame(now, frame) {
                handle_event(&mut self.pending, &mut self.says, event);
            }
        }
        self.client.handle_timeout(now);
        while let Some(event) = self.client.poll_event() {
            handle_event(&mut self.pending, &mut self.says, event);
        }
        Ok(())
    }
}

impl Mind {
    fn frame(&mut self, now: Timestamp) -> Result<(), SendError> {
        while let Some(frame) = self.lines.next_frame() {
            if let Some(event) = self.server.handle_frame(now, frame) {
                echo::answer(&mut self.server, event)?;
            }
        }
        self.server.handle_timeout(now);
        while let Some(event) = self.server.poll_event() {
            echo::answer(&mut self.server, event)?;
        }
        while self.server.poll_transmit_up_to(&mut self.down, HIGH_WATER).is_some() {}
        Ok(())
    }
}

fn handle_event(pending: &mut Option<CallId>, says: &mut Vec<String>, event: Event<'_>) {
    let Event::Response { call, outcome } = event else { return };
    if *pending == Some(call) {
        *pending = None;
        says.push(match outcome {
            Outcome::Result(result) => match result.decode::<CallToolResult>() {
                Ok(result) => result.content.iter().filter_map(|content| content.as_text()).collect(),
                Err(error) => error.to_string(),
            },
            Outcome::TimedOut { .. } => "...".into(),
            other => format!("{other:?}"),
        });
    }
}

fn take(bytes: &mut Vec<u8>) -> Vec<u8> {
    let len = bytes.len().min(BYTES_PER_FRAME);
    bytes.drain(..len).collect()
}

/// Runs the game to the end. Returns the lines of the villager and the number of frames.
fn play(mut draw: impl FnMut(&[String])) -> Result<(Vec<String>, u32), SendError> {
    let (mut now, mut frames) = (Timestamp::ZERO, 0);
    let mut villager = Villager::new(now);
    let mut script = ["echo", "brood"].into_iter();
    loop {
        now = now + FRAME;
        frames += 1;
        if villager.client.is_ready() && villager.pending.is_none() {
            match script.next() {
                Some(tool) => villager.send_request(now, tool)?,
                None => return Ok((villager.says, frames)),
            }
        }
        villager.frame(now)?;
        draw(&villager.says);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut shown = 0;
    play(|says| {
        for line in &says[shown..] {
            eprintln!("the villager says: {line}");
        }
        shown = says.len();
        thread::sleep(FRAME);
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn frame_loop_ends_and_draws_every_frame() {
        let mut drawn = 0;
        let (says, frames) = super::play(|_| drawn += 1).expect("it can be played");
        assert_eq!(says, ["Lovely weather!", "..."]);
        // Two seconds of silence are 120 frames; the rest is the time that bytes take.
        assert!((120..160).contains(&frames), "{frames} frames");
        assert_eq!(drawn, frames - 1);
    }
}
