//! Plays a record of any transport: each message with what it broke.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

use mcp_proto::wire::RequestId;

use super::{
    finding::Finding,
    http::HttpPlayer,
    judge::{Judge, Judged, read_setup},
    routes::Survey,
};
use crate::{
    error::Failed,
    messages::{Call, Exchanges, Item, Line, Lines},
    record::{Header, Origin, Reader, What},
};

/// The most requests in flight that are named.
const MAX_ORDERED: usize = 1_000;

/// Where a message belongs, in a record of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    /// The session, if it has one that is known.
    pub(crate) session: Option<u32>,
    pub(crate) exchange: Option<u64>,
}

impl Scope {
    /// Returns what requests and responses are paired by: the session, or else the exchange.
    pub(crate) const fn pairing(self) -> (Option<u32>, Option<u64>) {
        match self.session {
            Some(session) => (Some(session), None),
            None => (None, self.exchange),
        }
    }
}

/// A message with what it broke, and what both sides know after it.
#[derive(Clone, Debug)]
pub(crate) struct PlayedMessage {
    pub(crate) line: Line,
    pub(crate) judged: Judged,
    pub(crate) scope: Scope,
    /// The state of the client and of the server.
    pub(crate) known: [String; 2],
    /// The requests in flight of the client and of the server.
    pub(crate) flying: (usize, usize),
}

/// The next event of a record.
#[derive(Clone, Debug)]
pub(crate) enum Played {
    Message(Box<PlayedMessage>),
    /// A line of the error output.
    Log {
        at: u64,
        text: String,
    },
    Event {
        at: u64,
        what: What,
    },
    /// Something about an exchange that is no message.
    Exchange {
        at: u64,
        from: Origin,
        scope: Scope,
        text: String,
        findings: Vec<Finding>,
    },
}

/// A request without a response.
#[derive(Clone, Debug)]
pub(crate) struct Unanswered {
    pub(crate) from: Origin,
    pub(crate) id: RequestId,
    pub(crate) call: Call,
    pub(crate) scope: Scope,
    /// The reason why it has no response, if that is not the end of the record.
    pub(crate) why: Option<String>,
}

/// A record that is played.
#[derive(Debug)]
pub(crate) struct Player<R> {
    source: Source<R>,
}

#[derive(Debug)]
enum Source<R> {
    Stdio { lines: Box<Lines<R>>, judge: Box<Judge> },
    Http(Box<HttpPlayer<R>>),
}

/// The facts of a record that are collected before it is played. It can be played several times.
#[derive(Debug)]
pub(crate) enum Plan {
    Stdio(Box<super::Setup>),
    Http(std::rc::Rc<Survey>),
}

impl Plan {
    /// Reads a whole record.
    pub(crate) fn read<R: BufRead>(reader: Reader<R>) -> Result<Self, Failed> {
        Ok(match &*reader.header().transport {
            "stdio" => Self::Stdio(Box::new(read_setup(Lines::new(reader)?)?)),
            _ => Self::Http(std::rc::Rc::new(Survey::read(Exchanges::new(reader)?)?)),
        })
    }

    /// Begins to play the record.
    pub(crate) fn play<R: BufRead>(&self, reader: Reader<R>) -> Result<Player<R>, Failed> {
        let masked = reader.header().masked;
        let source = match self {
            Self::Stdio(setup) => Source::Stdio {
                lines: Box::new(Lines::new(reader)?),
                judge: Box::new(Judge::new((**setup).clone(), masked)),
            },
            Self::Http(survey) => {
                Source::Http(Box::new(HttpPlayer::new(Exchanges::new(reader)?, survey.clone(), masked)))
            }
        };
        Ok(Player { source })
    }
}

impl Player<BufReader<File>> {
    /// Opens a record.
    pub(crate) fn open(path: &Path) -> Result<Self, Failed> {
        Plan::read(Reader::open(path)?)?.play(Reader::open(path)?)
    }
}

impl<R: BufRead> Player<R> {
    fn reader(&self) -> &Reader<R> {
        match &self.source {
            Source::Stdio { lines, .. } => lines.reader(),
            Source::Http(player) => player.reader(),
        }
    }

    /// Returns the first line of the record.
    pub(crate) fn header(&self) -> &Header {
        self.reader().header()
    }

    /// Returns whether the last line was incomplete.
    pub(crate) fn is_cut(&self) -> bool {
        self.reader().is_cut()
    }

    /// Returns what happened next, or `None` at the end.
    pub(crate) fn next_played(&mut self) -> Result<Option<Played>, Failed> {
        let (lines, judge) = match &mut self.source {
            Source::Http(player) => return player.next_played(),
            Source::Stdio { lines, judge } => (lines, judge),
        };
        Ok(lines.next_item()?.map(|item| match item {
            Item::Line(line) => {
                let judged = judge.take(&line);
                Played::Message(Box::new(PlayedMessage::new(line, judged, Scope::default(), judge)))
            }
            Item::Log { at, text } => Played::Log { at, text },
            Item::Event { at, what } => Played::Event { at, what },
        }))
    }

    /// Returns the first requests in flight of the session or the exchange of the last message.
    pub(crate) fn in_flight(&self, scope: Scope, most: usize) -> Vec<String> {
        let judge = match &self.source {
            Source::Stdio { judge, .. } => Some(&**judge),
            Source::Http(player) => player.judge(scope),
        };
        let Some(ledger) = judge.map(Judge::ledger) else { return Vec::new() };
        // They are put in order for each message, so only few of them.
        if ledger.count(Origin::Client) + ledger.count(Origin::Server) > MAX_ORDERED {
            return Vec::new();
        }
        let name = |(from, id, call): (Origin, &RequestId, &Call)| {
            let subject = call.subject.as_deref().map(|it| format!(" {it}")).unwrap_or_default();
            format!("{} {}{subject} of the {}", call.method, id.as_json(), from.name())
        };
        ledger.open().into_iter().take(most).map(name).collect()
    }

    /// Returns the requests without a response, in their order.
    pub(crate) fn unanswered(&self) -> Vec<Unanswered> {
        match &self.source {
            Source::Stdio { judge, .. } => unanswered(judge, Scope::default(), None),
            Source::Http(player) => player.unanswered(),
        }
    }

    /// Returns how many messages were not judged.
    pub(crate) fn not_judged(&self) -> u64 {
        match &self.source {
            Source::Stdio { .. } => 0,
            Source::Http(player) => player.not_judged(),
        }
    }
}

impl PlayedMessage {
    pub(super) fn new(line: Line, judged: Judged, scope: Scope, judge: &Judge) -> Self {
        let known = [judge.knows(Origin::Client), judge.knows(Origin::Server)];
        let flying = (judge.ledger().count(Origin::Client), judge.ledger().count(Origin::Server));
        Self { line, judged, scope, known, flying }
    }
}

/// Returns the requests in flight of a judge.
pub(super) fn unanswered(judge: &Judge, scope: Scope, why: Option<&str>) -> Vec<Unanswered> {
    let of = |(from, id, call): (Origin, &RequestId, &Call)| Unanswered {
        from,
        id: id.clone(),
        call: call.clone(),
        scope,
        why: why.map(str::to_owned),
    };
    judge.ledger().open().into_iter().map(of).collect()
}
