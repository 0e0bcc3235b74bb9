//! A record that is read step by step, forwards and backwards, with bounded memory: the steps around the current one
//! are kept, and for those before them the record is played again from its start.

use std::{collections::VecDeque, io::BufRead};

use crate::{
    error::Failed,
    record::{Header, Origin, Reader},
    replay::{Finding, Plan, Played, PlayedMessage, Player, describe, event_text},
    text::beginning,
};

/// The most steps that are kept.
const WINDOW: usize = 512;

/// The most bytes of a message that are kept.
const MAX_TEXT: usize = 16 << 10;

/// The most bytes of a title, of a broken rule, and of what a side knows, each.
const MAX_TITLE: usize = 1 << 10;

/// The most broken rules of a step that are kept.
const MAX_BROKEN: usize = 16;

/// The most requests in flight that are named.
const MAX_FLYING: usize = 20;

/// Reads the record from its start.
pub(crate) type Open = Box<dyn Fn() -> Result<Reader<Box<dyn BufRead>>, Failed>>;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) by: Origin,
    pub(crate) rule: &'static str,
    pub(crate) text: &'static str,
    pub(crate) what: String,
}

/// One step of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The number of the step, from 0.
    pub(crate) number: u64,
    /// Microseconds since the start.
    pub(crate) at: u64,
    /// The side that it comes from. `None` is an event of the record.
    pub(crate) from: Option<Origin>,
    pub(crate) title: String,
    /// The beginning of the message.
    pub(crate) text: String,
    /// The bytes of the whole message.
    pub(crate) size: usize,
    pub(crate) session: Option<u32>,
    pub(crate) exchange: Option<u64>,
    pub(crate) broken: Vec<Broken>,
    /// The state of the client and of the server after the message.
    pub(crate) known: Option<[String; 2]>,
    /// The first requests in flight, and how many there are.
    pub(crate) flying: (Vec<String>, usize),
}

impl Entry {
    /// Returns whether the title, the beginning of the text, or a broken rule has these words, in any case.
    fn has(&self, words: &str) -> bool {
        let contains = |text: &str| text.to_lowercase().contains(words);
        contains(&self.title)
            || contains(&self.text)
            || self.broken.iter().any(|it| contains(it.rule) || contains(&it.what))
    }
}

/// The target of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A step with these words, in lower case.
    Words(String),
    /// A step that breaks a rule.
    Violation,
}

impl Wanted {
    fn is_in(&self, entry: &Entry) -> bool {
        match self {
            Self::Words(words) => entry.has(words),
            Self::Violation => !entry.broken.is_empty(),
        }
    }
}

/// A record.
pub(crate) struct Recording {
    open: Open,
    plan: Plan,
    player: Player<Box<dyn BufRead>>,
    window: VecDeque<Entry>,
    /// The number of the next step that is read.
    next: u64,
    /// The number of steps, when the end was read.
    len: Option<u64>,
}

/// Cuts a text that has any length in the record.
fn cut(text: String) -> String {
    if text.len() <= MAX_TITLE { text } else { format!("{}…", beginning(&text, MAX_TITLE)) }
}

fn broken(findings: Vec<Finding>) -> Vec<Broken> {
    let of = |finding: Finding| Broken {
        by: finding.by,
        rule: finding.rule.unwrap_or_default(),
        text: finding.text(),
        what: cut(finding.what),
    };
    findings.into_iter().take(MAX_BROKEN).map(of).collect()
}

impl Recording {
    pub(crate) fn new(open: Open) -> Result<Self, Failed> {
        let plan = Plan::read(open()?)?;
        let player = plan.play(open()?)?;
        Ok(Self { open, plan, player, window: VecDeque::new(), next: 0, len: None })
    }

    pub(crate) fn header(&self) -> &Header {
        self.player.header()
    }

    /// Returns the number of steps, if the end was read.
    pub(crate) const fn len(&self) -> Option<u64> {
        self.len
    }

    /// Returns a step, or `None` after the end.
    pub(crate) fn get(&mut self, number: u64) -> Result<Option<&Entry>, Failed> {
        if number < self.first() {
            self.restart()?;
            // Steps before it are likely to be asked for next.
            let start = number.saturating_sub(WINDOW as u64 / 2);
            while self.next < start && self.advance()? {}
            self.window.clear();
        }
        while self.next <= number {
            if !self.advance()? {
                return Ok(None);
            }
        }
        let at = usize::try_from(number - self.first()).unwrap_or(usize::MAX);
        Ok(self.window.get(at))
    }

    /// Returns the number of the last step.
    pub(crate) fn last(&mut self) -> Result<u64, Failed> {
        while self.advance()? {}
        Ok(self.next.saturating_sub(1))
    }

    /// Returns the next step after `number` that is wanted, or the last one before it.
    pub(crate) fn find(&mut self, wanted: &Wanted, number: u64, is_forward: bool) -> Result<Option<u64>, Failed> {
        if is_forward {
            let mut at = number + 1;
            while let Some(entry) = self.get(at)? {
                if wanted.is_in(entry) {
                    return Ok(Some(at));
                }
                at += 1;
            }
            return Ok(None);
        }
        // First in what is kept, and then from the start.
        let kept = self.window.iter().rfind(|entry| entry.number < number && wanted.is_in(entry));
        if let Some(entry) = kept {
            return Ok(Some(entry.number));
        }
        let end = self.first().min(number);
        self.restart()?;
        let mut found = None;
        while self.next < end && self.advance()? {
            if let Some(entry) = self.window.back()
                && wanted.is_in(entry)
            {
                found = Some(entry.number);
            }
        }
        Ok(found)
    }

    /// Returns the number of the first step that is kept.
    fn first(&self) -> u64 {
        self.next - self.window.len() as u64
    }

    fn restart(&mut self) -> Result<(), Failed> {
        self.player = self.plan.play((self.open)()?)?;
        self.window.clear();
        self.next = 0;
        Ok(())
    }

    /// Reads the next step. Returns whether there is one.
    fn advance(&mut self) -> Result<bool, Failed> {
        if self.len == Some(self.next) {
            return Ok(false);
        }
        let Some(played) = self.player.next_played()? else {
            self.len = Some(self.next);
            return Ok(false);
        };
        if self.window.len() == WINDOW {
            self.window.pop_front();
        }
        let entry = self.entry(played);
        self.window.push_back(entry);
        self.next += 1;
        Ok(true)
    }

    fn entry(&self, played: Played) -> Entry {
        let mut entry = Entry {
            number: self.next,
            at: 0,
            from: None,
            title: String::new(),
            text: String::new(),
            size: 0,
            session: None,
            exchange: None,
            broken: Vec::new(),
            known: None,
            flying: (Vec::new(), 0),
        };
        match played {
            Played::Message(message) => {
                let PlayedMessage { line, judged, scope, known, flying } = *message;
                (entry.at, entry.from, entry.size) = (line.at, Some(line.from), line.bytes.len());
                entry.title = judged.steps.iter().take(4).map(describe).collect::<Vec<_>>().join("; ");
                if judged.steps.len() > 4 {
                    entry.title.push_str(&format!("; and {} more", judged.steps.len() - 4));
                }
                let len = line.bytes.len().min(MAX_TEXT + 4);
                entry.text = beginning(&String::from_utf8_lossy(&line.bytes[..len]), MAX_TEXT).to_owned();
                (entry.session, entry.exchange) = (scope.session, scope.exchange);
                entry.broken = broken(judged.findings);
                entry.known = Some(known.map(cut));
                let named = self.player.in_flight(scope, MAX_FLYING).into_iter().map(cut).collect();
                entry.flying = (named, flying.0 + flying.1);
            }
            Played::Log { at, text } => {
                (entry.at, entry.from, entry.size) = (at, Some(Origin::Server), text.len());
                entry.title = "a line of the error output".into();
                entry.text = beginning(&text, MAX_TEXT).to_owned();
            }
            Played::Exchange { at, from, scope, text, findings } => {
                (entry.at, entry.from, entry.title) = (at, Some(from), text);
                (entry.session, entry.exchange) = (scope.session, scope.exchange);
                entry.broken = broken(findings);
            }
            Played::Event { at, what } => {
                (entry.at, entry.title) = (at, event_text(&what).unwrap_or_default());
            }
        }
        entry.title = cut(entry.title);
        entry
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, rc::Rc};

    use super::*;

    /// Returns a record of notifications, and how often it was read.
    fn recording(count: usize) -> (Recording, Rc<Cell<usize>>) {
        let mut text = "{\"mcp_record\":1,\"transport\":\"stdio\"}\n".to_owned();
        for number in 0..count {
            text.push_str(&format!(
                "{{\"t\":{number},\"from\":\"server\",\"stream\":\"stderr\",\"text\":\"line {number}\\n\"}}\n"
            ));
        }
        let opened = Rc::new(Cell::new(0));
        let counter = Rc::clone(&opened);
        let open: Open = Box::new(move || {
            counter.set(counter.get() + 1);
            Reader::new("a".into(), Box::new(std::io::Cursor::new(text.clone())) as Box<dyn BufRead>)
        });
        (Recording::new(open).expect("a record"), opened)
    }

    #[test]
    fn steps_are_the_same_forwards_and_backwards() {
        let (mut recording, opened) = recording(3_000);
        let text = |recording: &mut Recording, at: u64| recording.get(at).expect("JSON").map(|it| it.text.clone());
        for at in 0..3_000 {
            assert_eq!(text(&mut recording, at), Some(format!("line {at}")));
            assert!(recording.window.len() <= WINDOW);
        }
        assert_eq!((text(&mut recording, 3_000), recording.len()), (None, Some(3_000)));
        for at in (0..3_000).rev() {
            assert_eq!(text(&mut recording, at), Some(format!("line {at}")));
        }
        assert!(opened.get() < 20, "the record is not read for each step: {}", opened.get());
    }

    #[test]
    fn what_a_record_says_is_cut() {
        let text = "ä".repeat(MAX_TITLE);
        let line = serde_json::json!({"t": 1, "stopped": text});
        let record = format!("{{\"mcp_record\":1,\"transport\":\"stdio\"}}\n{line}\n");
        let open: Open = Box::new(move || {
            Reader::new("a".into(), Box::new(std::io::Cursor::new(record.clone())) as Box<dyn BufRead>)
        });
        let mut recording = Recording::new(open).expect("a record");
        let entry = recording.get(0).expect("JSON").expect("a step");
        assert!(entry.title.ends_with("ä…") && entry.title.len() <= MAX_TITLE + 3, "{}", entry.title.len());
    }

    #[test]
    fn words_are_found_in_both_directions() {
        let (mut recording, _) = recording(2_000);
        let words = |text: &str| Wanted::Words(text.into());
        let mut find = |wanted: &str, at, is_forward| recording.find(&words(wanted), at, is_forward).expect("JSON");
        assert_eq!(find("line 1999", 0, true), Some(1_999));
        assert_eq!(find("line 7", 1_999, false), Some(799));
        assert_eq!(find("line 3", 300, false), Some(39));
        assert_eq!(find("line 5", 1_000, true), None);
        assert_eq!(find("line 1999", 1_999, false), None);
        assert_eq!(recording.last().expect("JSON"), 1_999);
    }
}
