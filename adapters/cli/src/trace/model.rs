//! The messages of a record, as they are drawn.

use std::{collections::HashMap, path::Path};

use crate::{
    error::Failed,
    messages::{Item, Lines},
    record::{Header, Origin, Reader},
    replay::{Judge, read_setup},
};

/// The most messages that are drawn.
const MAX_MESSAGES: usize = 500_000;

/// The most characters of a message that are shown.
const EXCERPT: usize = 2_000;

/// The most bytes of all excerpts together, unless each message has [`MIN_EXCERPT`].
const ALL_EXCERPTS: usize = 8 << 20;

/// The characters that are shown in any case.
const MIN_EXCERPT: usize = 40;

/// The longest name.
const MAX_NAME: usize = 200;

/// The kinds of messages, by their numbers on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Request = 0,
    Notification = 1,
    Result = 2,
    Error = 3,
    Invalid = 4,
    Log = 5,
}

/// A message.
#[derive(Debug)]
pub(super) struct Message {
    /// Microseconds.
    pub(super) at: u64,
    pub(super) from: Origin,
    pub(super) kind: Kind,
    /// The number of its name.
    pub(super) name: usize,
    pub(super) id: String,
    /// The response of a request, and the request of a response.
    pub(super) pair: Option<usize>,
    pub(super) bytes: usize,
    /// The broken rules.
    pub(super) broken: Vec<String>,
    pub(super) text: String,
}

/// A record.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) header: Header,
    pub(super) names: Vec<String>,
    pub(super) messages: Vec<Message>,
    /// Messages after the last one that is drawn.
    pub(super) left_out: usize,
}

/// Returns the first characters of a text.
fn start(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

impl Trace {
    pub(super) fn read(path: &Path) -> Result<Self, Failed> {
        let setup = read_setup(Lines::new(Reader::open(path)?)?)?;
        let mut lines = Lines::new(Reader::open(path)?)?;
        let header = lines.reader().header().clone();
        let mut judge = Judge::new(setup, header.masked);
        let mut trace = Self { header, names: Vec::new(), messages: Vec::new(), left_out: 0 };
        let mut names = HashMap::new();
        // By the side that sent the request, and its id.
        let mut open: HashMap<(Origin, String), usize> = HashMap::new();
        while let Some(item) = lines.next_item()? {
            if trace.messages.len() >= MAX_MESSAGES {
                trace.left_out += usize::from(matches!(item, Item::Line(_)));
                continue;
            }
            match item {
                Item::Log { at, text } => {
                    let name = trace.name("log", &mut names);
                    let (bytes, text) = (text.len(), start(&text, EXCERPT));
                    let (from, kind, id) = (Origin::Server, Kind::Log, String::new());
                    trace.messages.push(Message {
                        at,
                        from,
                        kind,
                        name,
                        id,
                        pair: None,
                        bytes,
                        broken: Vec::new(),
                        text,
                    });
                }
                Item::Line(line) => {
                    let judged = judge.take(&line);
                    let broken: Vec<_> = judged
                        .findings
                        .iter()
                        .map(|it| format!("{} {}: {}", it.rule.unwrap_or("broken"), it.text(), it.what))
                        .collect();
                    let text = start(&String::from_utf8_lossy(&line.bytes), EXCERPT);
                    for (number, step) in judged.steps.iter().enumerate() {
                        let label = match (&step.method, &step.subject) {
                            (Some(method), Some(subject)) => format!("{method} {subject}"),
                            (Some(method), None) => method.clone(),
                            _ => "no message".into(),
                        };
                        let name = trace.name(&start(&label, MAX_NAME), &mut names);
                        let kind = match step.kind {
                            "request" => Kind::Request,
                            "notification" => Kind::Notification,
                            "result" => Kind::Result,
                            "error" => Kind::Error,
                            _ => Kind::Invalid,
                        };
                        let id = step.id.clone().unwrap_or_default();
                        let index = trace.messages.len();
                        let pair = match kind {
                            Kind::Result | Kind::Error => open.remove(&(line.from.other(), id.clone())),
                            _ => None,
                        };
                        if let Some(request) = pair {
                            trace.messages[request].pair = Some(index);
                        }
                        if kind == Kind::Request {
                            open.insert((line.from, id.clone()), index);
                        }
                        // Those of a batch are shown once.
                        let (broken, text) =
                            if number == 0 { (broken.clone(), text.clone()) } else { (Vec::new(), String::new()) };
                        let (at, from, bytes) = (line.at, line.from, line.bytes.len());
                        trace.messages.push(Message { at, from, kind, name, id, pair, bytes, broken, text });
                    }
                }
                Item::Event { .. } => {}
            }
        }
        trace.cut();
        Ok(trace)
    }

    fn name(&mut self, name: &str, names: &mut HashMap<String, usize>) -> usize {
        if let Some(known) = names.get(name) {
            return *known;
        }
        names.insert(name.to_owned(), self.names.len());
        self.names.push(name.to_owned());
        self.names.len() - 1
    }

    /// Cuts the excerpts, so that the page is small enough for a browser.
    fn cut(&mut self) {
        let most = (ALL_EXCERPTS / self.messages.len().max(1)).max(MIN_EXCERPT);
        for message in &mut self.messages {
            if message.text.len() > most {
                message.text = start(&message.text, most) + "…";
                message.text.shrink_to_fit();
            }
        }
    }

    /// Returns the microseconds between a response and its request.
    pub(super) fn latency(&self, message: &Message) -> Option<u64> {
        let is_response = matches!(message.kind, Kind::Result | Kind::Error);
        message.pair.filter(|_| is_response).map(|request| message.at.saturating_sub(self.messages[request].at))
    }

    /// Returns the largest number of requests in flight.
    pub(super) fn most_in_flight(&self) -> usize {
        let (mut now, mut most) = (0_usize, 0);
        for message in &self.messages {
            match (message.kind, message.pair) {
                (Kind::Request, Some(_)) => now += 1,
                (Kind::Result | Kind::Error, Some(_)) => now = now.saturating_sub(1),
                _ => {}
            }
            most = most.max(now);
        }
        most
    }
}

impl Message {
    /// Returns whether it is drawn as a problem.
    pub(super) fn is_bad(&self) -> bool {
        !self.broken.is_empty() || matches!(self.kind, Kind::Error | Kind::Invalid)
    }
}
