//! What there is to say, who says it in which revision, and how much of it a peer takes.

use mcp_proto::protocol::{Era, ProtocolVersion, Role};

/// The levels of log messages, the least severe first.
pub const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
/// How many calls it may have.
pub const CALLS: usize = 4;
/// How many requests the other side may have.
pub const REQUESTS: usize = 4;
/// How often a call may be answered with questions.
pub const ROUNDS: u32 = 3;
/// How often in a row a subscription is opened again.
pub const RESUBSCRIPTIONS: u32 = 2;
/// How long answers may take when the connection closes, in milliseconds.
pub(super) const DRAIN: u64 = 5000;

/// How long reading pauses while nothing moves, in milliseconds.
pub(super) const PAUSE: u64 = 30_000;

/// How long the handshake may take.
pub(super) const HANDSHAKE: u64 = 30_000;

/// The longest pause before something is sent again, in milliseconds.
pub(super) const LONGEST: u64 = 8000;

/// How severe a level is.
pub(super) fn severity(level: &str) -> usize {
    LEVELS.iter().position(|known| *known == level).expect("it is a level")
}

/// Whether a side sends a method in a revision, when everything is declared that can be (specification, the table of
/// messages and their directions).
pub(super) fn may_send(method: &str, sender: Role, revision: ProtocolVersion) -> Result<(), &'static str> {
    use ProtocolVersion as V;
    let legacy = revision.era() == Era::Legacy;
    let (from, there) = match method {
        "tools/call" | "tools/list" => (Some(Role::Client), true),
        "logging/setLevel" | "notifications/initialized" => (Some(Role::Client), legacy),
        "roots/list" | "sampling/createMessage" => (Some(Role::Server), legacy),
        "elicitation/create" => (Some(Role::Server), matches!(revision, V::V2025_06_18 | V::V2025_11_25)),
        "subscriptions/listen" | "server/discover" => (Some(Role::Client), !legacy),
        "tasks/list" => (None, revision == V::V2025_11_25),
        "ping" => (None, legacy),
        "notifications/tools/list_changed" | "notifications/message" => (Some(Role::Server), true),
        "notifications/roots/list_changed" => (Some(Role::Client), legacy),
        other if other.starts_with("x/") => (None, true),
        other => panic!("the model does not know {other}"),
    };
    match (from, there) {
        (Some(from), _) if from != sender => Err("WrongDirection"),
        (_, false) => Err("NotInRevision"),
        (_, true) => Ok(()),
    }
}
