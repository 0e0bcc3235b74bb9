//! The messages of a record, as they are drawn.

use std::{collections::HashMap, path::Path};

use crate::{
    error::Failed,
    record::{Header, Origin},
    replay::{Finding, Played, PlayedMessage, Player},
};

/// The most messages that are drawn.
const MAX_MESSAGES: usize = 500_000;

/// The most characters of a message that are shown.
const EXCERPT: usize = 2_000;

/// The most bytes of all excerpts together, unless each message has [`MIN_EXCERPT`].
const ALL_EXCERPTS: usize = 8 << 20;

/// The characters that are shown in any case.
const MIN_EXCERPT: usize = 40;

/// The longest name, id and finding.
const MAX_NAME: usize = 200;

/// The most names that are told apart. Messages with others have one name, so that a peer that makes up names does not
/// make the page too large.
const MAX_NAMES: usize = 10_000;

/// The name of messages beyond [`MAX_NAMES`].
const OTHER: &str = "other methods and names";

/// The most messages whose ids, and the most broken rules whose texts, are shown with [`MAX_NAME`] characters. Of later
/// ids, [`MIN_EXCERPT`] characters are shown, and of later broken rules the rule.
const MAX_LONG: usize = 20_000;

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
    /// How many broken rules there are so far.
    broken: usize,
    /// The bytes of all excerpts.
    held: usize,
    /// The excerpts are cut when they have more bytes.
    most_held: usize,
}

/// Returns the first characters of a text.
fn start(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// The requests in flight: by session or exchange, by the side that sent the request, and by its id.
type Open = HashMap<((Option<u32>, Option<u64>), Origin, String), usize>;

/// Returns the text of a broken rule.
fn text_of(finding: &Finding, is_short: bool) -> String {
    let rule = finding.rule.unwrap_or("broken");
    if is_short { rule.to_owned() } else { format!("{rule} {}: {}", finding.text(), start(&finding.what, MAX_NAME)) }
}

impl Trace {
    pub(super) fn new(header: Header) -> Self {
        let (names, messages, most_held) = (Vec::new(), Vec::new(), 2 * ALL_EXCERPTS);
        Self { header, names, messages, left_out: 0, broken: 0, held: 0, most_held }
    }

    /// Returns the texts of broken rules.
    fn texts(&mut self, findings: &[Finding]) -> Vec<String> {
        self.broken += findings.len();
        let is_short = self.broken > MAX_LONG;
        findings.iter().map(|finding| text_of(finding, is_short)).collect()
    }

    pub(super) fn read(path: &Path) -> Result<Self, Failed> {
        let mut player = Player::open(path)?;
        let mut trace = Self::new(player.header().clone());
        let (mut names, mut open) = (HashMap::new(), HashMap::new());
        while let Some(played) = player.next_played()? {
            if trace.messages.len() >= MAX_MESSAGES {
                trace.left_out += usize::from(matches!(played, Played::Message(_)));
                continue;
            }
            match played {
                Played::Log { at, text } => {
                    trace.note(at, Origin::Server, "log", &text, Vec::new(), &mut names);
                }
                Played::Exchange { at, from, text, findings, .. } => {
                    let broken = trace.texts(&findings);
                    trace.note(at, from, "http", &text, broken, &mut names);
                }
                Played::Message(message) => trace.message(&message, &mut names, &mut open),
                Played::Event { .. } => {}
            }
        }
        trace.cut();
        Ok(trace)
    }

    /// Adds something that is no message.
    fn note(
        &mut self,
        at: u64,
        from: Origin,
        name: &str,
        text: &str,
        broken: Vec<String>,
        names: &mut HashMap<String, usize>,
    ) {
        let name = self.name(name, names);
        let (bytes, text) = (text.len(), start(text, EXCERPT));
        self.push(Message { at, from, kind: Kind::Log, name, id: String::new(), pair: None, bytes, broken, text });
    }

    /// Adds a message. `open` has the requests in flight.
    fn message(&mut self, message: &PlayedMessage, names: &mut HashMap<String, usize>, open: &mut Open) {
        let PlayedMessage { line, judged, scope, .. } = message;
        let broken = self.texts(&judged.findings);
        let text = start(&String::from_utf8_lossy(&line.bytes), EXCERPT);
        for (number, step) in judged.steps.iter().enumerate() {
            let label = match (&step.method, &step.subject) {
                (Some(method), Some(subject)) => format!("{method} {subject}"),
                (Some(method), None) => method.clone(),
                _ => "no message".into(),
            };
            let name = self.name(&start(&label, MAX_NAME), names);
            let kind = match step.kind {
                "request" => Kind::Request,
                "notification" => Kind::Notification,
                "result" => Kind::Result,
                "error" => Kind::Error,
                _ => Kind::Invalid,
            };
            let id = start(step.id.as_deref().unwrap_or_default(), MAX_NAME);
            let index = self.messages.len();
            let pair = match kind {
                Kind::Result | Kind::Error => open.remove(&(scope.pairing(), line.from.other(), id.clone())),
                _ => None,
            };
            if let Some(request) = pair {
                self.messages[request].pair = Some(index);
            }
            if kind == Kind::Request {
                open.insert((scope.pairing(), line.from, id.clone()), index);
            }
            let id = if index < MAX_LONG { id } else { start(&id, MIN_EXCERPT) };
            // Those of a batch are shown once.
            let (broken, text) = if number == 0 { (broken.clone(), text.clone()) } else { (Vec::new(), String::new()) };
            let (at, from, bytes) = (line.at, line.from, line.bytes.len());
            self.push(Message { at, from, kind, name, id, pair, bytes, broken, text });
        }
    }

    fn name(&mut self, name: &str, names: &mut HashMap<String, usize>) -> usize {
        if let Some(known) = names.get(name) {
            return *known;
        }
        if self.names.len() > MAX_NAMES {
            return MAX_NAMES;
        }
        let name = if self.names.len() == MAX_NAMES { OTHER } else { name };
        names.insert(name.to_owned(), self.names.len());
        self.names.push(name.to_owned());
        self.names.len() - 1
    }

    /// Adds a message. The excerpts are cut while a record is read, so that they never have much more than their limit.
    fn push(&mut self, message: Message) {
        self.held += message.text.len();
        self.messages.push(message);
        if self.held > self.most_held {
            self.cut();
            // Not again before they have doubled: many messages have more than the limit in any case.
            self.most_held = 2 * self.held.max(ALL_EXCERPTS);
        }
    }

    /// Cuts the excerpts, so that the page is small enough for a browser.
    fn cut(&mut self) {
        const CUT: &str = "…";
        let most = (ALL_EXCERPTS / self.messages.len().max(1)).max(MIN_EXCERPT);
        self.held = 0;
        for message in &mut self.messages {
            if message.text.len() > most + CUT.len() {
                let end = (0..=most).rfind(|end| message.text.is_char_boundary(*end)).unwrap_or_default();
                message.text.truncate(end);
                message.text.push_str(CUT);
                message.text.shrink_to_fit();
            }
            self.held += message.text.len();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_names_share_one_beyond_a_limit() {
        let header = Header { started: String::new(), transport: "stdio".into(), server: "x".into(), masked: false };
        let (mut trace, mut known) = (Trace::new(header), HashMap::new());
        for number in 0..2 * MAX_NAMES {
            assert_eq!(trace.name(&number.to_string(), &mut known), number.min(MAX_NAMES));
        }
        assert_eq!((trace.names.len(), known.len(), &*trace.names[MAX_NAMES]), (MAX_NAMES + 1, MAX_NAMES + 1, OTHER));
        assert_eq!(trace.name("7", &mut known), 7);
        let finding = Finding::http(Origin::Server, "HTTP-060", "é".repeat(2 * MAX_NAME));
        assert!(trace.texts(std::slice::from_ref(&finding))[0].ends_with("éé"));
        trace.broken = MAX_LONG;
        assert_eq!(trace.texts(&[finding]), ["HTTP-060"]);
    }

    #[test]
    fn excerpts_are_cut_while_a_record_is_read() {
        let header = Header { started: String::new(), transport: "stdio".into(), server: "x".into(), masked: false };
        let mut trace = Trace::new(header);
        let text = "é".repeat(EXCERPT);
        for at in 0..20_000 {
            let (from, kind, id) = (Origin::Server, Kind::Log, String::new());
            let (broken, text) = (Vec::new(), text.clone());
            trace.push(Message { at, from, kind, name: 0, id, pair: None, bytes: 0, broken, text });
            assert!(trace.held <= 2 * ALL_EXCERPTS + 20_000 * 6, "{at}");
        }
        trace.cut();
        let held: usize = trace.messages.iter().map(|message| message.text.len()).sum();
        assert!(held == trace.held && held <= ALL_EXCERPTS + 20_000 * 3, "{held}");
        assert!(trace.messages.iter().all(|message| message.text.ends_with("é…")), "each is cut once");
    }
}
