//! The transcript of a test: all messages in the order in which they were sent.

use std::{collections::HashMap, fmt, time::Duration};

use mcp_proto::wire::{Json, RawJson};

/// The side that has sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The client.
    Client,
    /// The server.
    Server,
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}

/// A message that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    at: Duration,
    from: Side,
    text: String,
    outline: String,
}

impl Line {
    /// Returns the virtual time at which it was sent, since the start of the connection.
    #[must_use]
    pub const fn at(&self) -> Duration {
        self.at
    }

    /// Returns the side that has sent it.
    #[must_use]
    pub const fn from(&self) -> Side {
        self.from
    }

    /// Returns the message as it was sent: JSON, without the line feed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the sender and the kind of the message: `client: tools/call`, `server: notifications/progress`, `server:
    /// result of tools/call`, `server: error -32602 of tools/call`.
    #[must_use]
    pub fn outline(&self) -> &str {
        &self.outline
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.3} s  {}  {}", self.at.as_secs_f64(), self.from, self.text)
    }
}

/// All messages, in the order in which they were sent. It is displayed with a line for each message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript(Vec<Line>);

impl Transcript {
    /// Returns the messages.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        &self.0
    }

    /// Returns only the messages of one side.
    #[must_use]
    pub fn from(&self, side: Side) -> Self {
        Self(self.0.iter().filter(|line| line.from == side).cloned().collect())
    }

    /// Returns the [outline](Line::outline) of each message.
    #[must_use]
    pub fn outline(&self) -> Vec<&str> {
        self.0.iter().map(Line::outline).collect()
    }

    /// Asserts that the [outlines](Line::outline) of the messages are these, in this order, and no others.
    ///
    /// # Panics
    /// If they are not. The panic message shows all messages.
    #[track_caller]
    pub fn assert<'a>(&self, expected: impl IntoIterator<Item = &'a str>) {
        let expected: Vec<_> = expected.into_iter().collect();
        assert!(self.outline() == expected, "expected {expected:#?}\ntranscript:\n{self}");
    }

    /// Asserts that the JSON of at least one message contains this text.
    ///
    /// # Panics
    /// If none does. The panic message shows all messages.
    #[track_caller]
    pub fn assert_contains(&self, text: &str) {
        assert!(self.0.iter().any(|line| line.text.contains(text)), "no message contains {text}:\n{self}");
    }
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Records the messages of both sides.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    transcript: Transcript,
    /// The methods of the requests so far, by their sender and their id as JSON.
    requests: HashMap<(Side, String), String>,
}

impl Recorder {
    pub(super) fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    pub(super) fn clear(&mut self) {
        self.transcript.0.clear();
    }

    pub(super) fn add(&mut self, at: Duration, from: Side, text: String) {
        let outline = format!("{from}: {}", self.outline(from, &text));
        self.transcript.0.push(Line { at, from, text, outline });
    }

    fn outline(&mut self, from: Side, text: &str) -> String {
        let Ok(json) = Json::parse(text) else { return "no message".into() };
        let message = RawJson::from(&json);
        let id = message.member("id").map(|id| id.get().to_owned());
        if let Some(method) = message.member("method").and_then(|method| method.decode::<String>().ok()) {
            if let Some(id) = id {
                self.requests.insert((from, id), method.clone());
            }
            return method;
        }
        let what = match message.member("error").and_then(|error| error.member("code")?.decode::<i64>().ok()) {
            Some(code) => format!("error {code}"),
            None => "result".into(),
        };
        match id.and_then(|id| self.requests.get(&(from.other(), id))) {
            Some(method) => format!("{what} of {method}"),
            None => what,
        }
    }
}
