//! The methods of each revision with their senders, and the limits of a peer.

use mcp_proto::protocol::{Era, ProtocolVersion, Role};

/// The levels of log messages, the least severe first.
pub const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
/// The limit of calls.
pub const CALLS: usize = 4;
/// The limit of requests of the other side.
pub const REQUESTS: usize = 4;
/// How often a call may be answered with `input_required`.
pub const ROUNDS: u32 = 3;
/// How often in a row a subscription is opened again.
pub const RESUBSCRIPTIONS: u32 = 2;
/// The time for responses when the connection closes, in milliseconds.
pub(super) const DRAIN: u64 = 5000;

/// The longest pause of reading without progress, in milliseconds.
pub(super) const PAUSE: u64 = 30_000;

/// The timeout of the handshake, in milliseconds.
pub(super) const HANDSHAKE: u64 = 30_000;

/// The longest pause before a retry, in milliseconds.
pub(super) const LONGEST: u64 = 8000;

/// Returns the severity of a level.
pub(super) fn severity(level: &str) -> usize {
    LEVELS.iter().position(|known| *known == level).expect("it is a level")
}

/// Returns whether a side sends a method in a revision if all capabilities are declared (specification, the table of
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
        other => panic!("the model has no method {other}"),
    };
    match (from, there) {
        (Some(from), _) if from != sender => Err("WrongDirection"),
        (_, false) => Err("NotInRevision"),
        (_, true) => Ok(()),
    }
}
