//! Things that go wrong on purpose, around the connection, to see that the rules are looked after.
//!
//! Faults of the connection itself are planted by `tests/planted/run`.

use mcp_proto::connection::{Event, Outcome};

use super::{
    fault::Rule,
    frames::{Frame, Said},
};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The end of a call is told twice.
    EndTwice,
    /// The end of a cancelled call is not told.
    EndUntold,
    /// What the answer says belongs to another call.
    WrongAnswer,
    /// Answers are written twice.
    AnswerTwice,
    /// A cancellation that has come in is not handed on.
    CancellationIgnored,
    /// Progress is written twice.
    ProgressTwice,
    /// A request is written twice.
    RequestTwice,
    /// A cancellation is written twice.
    CancellationTwice,
    /// A subscription is acknowledged twice.
    AcknowledgementTwice,
    /// The application does not hear that a request was cancelled.
    CancellationUnheard,
    /// Frames arrive garbled.
    Garbled,
    /// The driver does not wake up.
    Oversleeps,
    /// The driver is not given the frames that wait.
    Silent,
    /// Answers get lost on the way.
    AnswerLost,
    /// The end of the input is not told.
    EndOfInputLost,
    /// The clock stands still.
    NoTime,
    /// Something panics.
    Panics,
}

impl Flaw {
    /// Every flaw, the rule that it breaks, and a scenario in which it does.
    pub const ALL: [(Self, Rule, &'static str); 17] = [
        (Self::EndTwice, Rule::EndsOnce, "two each way"),
        (Self::EndUntold, Rule::EndsOnce, "two each way"),
        (Self::WrongAnswer, Rule::EndsRightly, "two each way"),
        (Self::AnswerTwice, Rule::OneAnswer, "two each way"),
        (Self::CancellationIgnored, Rule::OneAnswer, "two each way"),
        (Self::ProgressTwice, Rule::Progress, "progress"),
        (Self::RequestTwice, Rule::FreshIds, "two each way"),
        (Self::CancellationTwice, Rule::CancelsOwn, "two each way"),
        (Self::AcknowledgementTwice, Rule::Subscriptions, "subscription"),
        (Self::CancellationUnheard, Rule::Events, "drop"),
        (Self::Garbled, Rule::GoodPeers, "two each way"),
        (Self::Oversleeps, Rule::Deadlines, "timeouts"),
        (Self::Silent, Rule::Output, "two each way"),
        (Self::AnswerLost, Rule::Rest, "two each way"),
        (Self::EndOfInputLost, Rule::Rest, "modern repeats"),
        (Self::NoTime, Rule::Livelock, "timeouts"),
        (Self::Panics, Rule::Panic, "two each way"),
    ];

    /// How often an event reaches the application.
    pub(super) fn hears(self, event: &Event<'_>) -> usize {
        match (self, event) {
            (Self::EndTwice, Event::Response { .. }) => 2,
            (Self::EndUntold, Event::Response { outcome: Outcome::Cancelled, .. }) => 0,
            (Self::CancellationUnheard, Event::Cancelled { .. }) => 0,
            (Self::Panics, Event::Response { .. }) => panic!("planted"),
            _ => 1,
        }
    }

    /// How often a frame is written.
    pub(super) fn writes(self, frame: &Frame) -> usize {
        match (self, &frame.said[0]) {
            (Self::AnswerTwice, Said::Answer(_))
            | (Self::ProgressTwice, Said::Progress(..))
            | (Self::RequestTwice, Said::Request { .. })
            | (Self::CancellationTwice, Said::Cancelled(_)) => 2,
            (Self::AcknowledgementTwice, Said::Note(method, _)) if method.ends_with("acknowledged") => 2,
            _ => 1,
        }
    }

    /// Whether a frame that was written gets lost.
    pub(super) fn loses(self, frame: &Frame) -> bool {
        self == Self::AnswerLost && matches!(frame.said[0], Said::Answer(_))
    }

    /// What the connection gets to see of a frame that comes in.
    pub(super) fn reads(self, frame: &Frame) -> Option<String> {
        match (self, &frame.said[0]) {
            (Self::CancellationIgnored, Said::Cancelled(_)) => None,
            (Self::WrongAnswer, Said::Answer(_)) => Some(frame.text.replace("\"n\":1}", "\"n\":2}")),
            (Self::Garbled, _) => Some(frame.text.replace("\"2.0\"", "\"2\"")),
            _ => Some(frame.text.clone()),
        }
    }
}
