//! Faults injected around the connection, to test that each rule is checked.
//!
//! `tests/planted/run` plants faults in the connection itself.

use mcp_proto::connection::{Event, Outcome};

use super::{
    frames::{Frame, Message},
    violation::Rule,
};

/// An injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The end of a call is delivered twice.
    ResponseTwice,
    /// The end of a cancelled call is not delivered.
    ResponseDropped,
    /// The content of a response belongs to another call.
    WrongResult,
    /// Responses are written twice.
    ResponseSentTwice,
    /// A received cancellation is not passed to the connection.
    CancellationIgnored,
    /// Progress is written twice.
    ProgressTwice,
    /// A request is written twice.
    RequestTwice,
    /// A cancellation is written twice.
    CancellationTwice,
    /// A subscription is acknowledged twice.
    AcknowledgementTwice,
    /// The cancellation of a request is not delivered to the application.
    CancellationDropped,
    /// Received frames are garbled.
    Garbled,
    /// The driver does not handle timeouts.
    TimeoutsIgnored,
    /// The driver does not poll for output.
    OutputIgnored,
    /// Responses are lost on the link.
    ResponseLost,
    /// The end of the input is not passed to the connection.
    EndOfInputLost,
    /// The clock does not advance.
    ClockStopped,
    /// Delivering a response panics.
    Panics,
}

impl InjectedFault {
    /// All faults, with the rule that each breaks and a scenario in which it does.
    pub const ALL: [(Self, Rule, &'static str); 17] = [
        (Self::ResponseTwice, Rule::EndsOnce, "two each way"),
        (Self::ResponseDropped, Rule::EndsOnce, "two each way"),
        (Self::WrongResult, Rule::EndsRightly, "two each way"),
        (Self::ResponseSentTwice, Rule::OneAnswer, "two each way"),
        (Self::CancellationIgnored, Rule::OneAnswer, "two each way"),
        (Self::ProgressTwice, Rule::Progress, "progress"),
        (Self::RequestTwice, Rule::FreshIds, "two each way"),
        (Self::CancellationTwice, Rule::CancelsOwn, "two each way"),
        (Self::AcknowledgementTwice, Rule::Subscriptions, "subscription"),
        (Self::CancellationDropped, Rule::Events, "drop"),
        (Self::Garbled, Rule::GoodPeers, "two each way"),
        (Self::TimeoutsIgnored, Rule::Deadlines, "timeouts"),
        (Self::OutputIgnored, Rule::Output, "two each way"),
        (Self::ResponseLost, Rule::Rest, "two each way"),
        (Self::EndOfInputLost, Rule::Rest, "modern repeats"),
        (Self::ClockStopped, Rule::Livelock, "timeouts"),
        (Self::Panics, Rule::Panic, "two each way"),
    ];

    /// Returns how often an event is delivered to the application.
    pub(super) fn deliveries(self, event: &Event<'_>) -> usize {
        match (self, event) {
            (Self::ResponseTwice, Event::Response { .. }) => 2,
            (Self::ResponseDropped, Event::Response { outcome: Outcome::Cancelled, .. }) => 0,
            (Self::CancellationDropped, Event::Cancelled { .. }) => 0,
            (Self::Panics, Event::Response { .. }) => panic!("planted"),
            _ => 1,
        }
    }

    /// Returns how often a frame is written.
    pub(super) fn copies_written(self, frame: &Frame) -> usize {
        match (self, &frame.messages[0]) {
            (Self::ResponseSentTwice, Message::Response(_))
            | (Self::ProgressTwice, Message::Progress(..))
            | (Self::RequestTwice, Message::Request { .. })
            | (Self::CancellationTwice, Message::Cancelled(_)) => 2,
            (Self::AcknowledgementTwice, Message::Notification(method, _)) if method.ends_with("acknowledged") => 2,
            _ => 1,
        }
    }

    /// Returns whether a written frame is lost.
    pub(super) fn drops(self, frame: &Frame) -> bool {
        self == Self::ResponseLost && matches!(frame.messages[0], Message::Response(_))
    }

    /// Returns the text that the connection receives instead of a frame.
    pub(super) fn received_text(self, frame: &Frame) -> Option<String> {
        match (self, &frame.messages[0]) {
            (Self::CancellationIgnored, Message::Cancelled(_)) => None,
            (Self::WrongResult, Message::Response(_)) => Some(frame.text.replace("\"n\":1}", "\"n\":2}")),
            (Self::Garbled, _) => Some(frame.text.replace("\"2.0\"", "\"2\"")),
            _ => Some(frame.text.clone()),
        }
    }
}
