//! Broken rules, and the rows of the requirement tables that state them.

use mcp_proto::{
    connection::{SendError, Violation},
    protocol::{Era, Method, ProtocolVersion},
    wire::MalformedKind,
};

use crate::record::Origin;
use crate::rules;

/// A broken rule. Two findings about one message with the same kind are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    NotJson,
    Truncated,
    TooLong,
    Batch,
    JsonRpc,
    Id,
    NullId,
    IdInUse,
    IdReused,
    Params,
    Notification,
    NoMessage,
    UnknownResponse,
    ResultNotObject,
    ResultType,
    Shape,
    InitializeResult,
    ErrorShape,
    Early,
    Undeclared,
    NotInRevision,
    WrongSide,
    ServerRequest,
    ClientResponse,
    Meta,
    CancelShape,
    CancelUnknown,
    CancelInitialize,
    /// The progress token of a request is that of another one in flight.
    TokenInUse,
    ProgressShape,
    ProgressNotGrowing,
    ProgressUnknown,
    Unacknowledged,
    UnknownSubscription,
    /// The result of a request of a batch, in a revision without batches.
    BatchExecuted,
    /// A rule about HTTP itself.
    Http,
    Other,
}

/// A broken rule in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The side that broke the rule.
    pub(crate) by: Origin,
    pub(crate) kind: Kind,
    /// The row of the requirement tables, if one states the rule.
    pub(crate) rule: Option<&'static str>,
    /// The mistake in the message.
    pub(crate) what: String,
}

impl Finding {
    pub(crate) fn new(by: Origin, kind: Kind, version: Option<ProtocolVersion>, what: impl Into<String>) -> Self {
        Self { by, kind, rule: rule(kind, by, version), what: what.into() }
    }

    /// Returns the finding for a rule about HTTP.
    pub(crate) fn http(by: Origin, rule: &'static str, what: impl Into<String>) -> Self {
        Self { by, kind: Kind::Http, rule: Some(rule), what: what.into() }
    }

    /// Returns whether the finding is certain over HTTP, and removes a rule about standard streams. What depends on the
    /// order of messages in different exchanges is not certain.
    ///
    /// `has_lost` tells that the server may not have got a request, so the client may have sent it again.
    pub(crate) fn holds_over_http(&mut self, has_lost: bool) -> bool {
        self.rule = self.rule.filter(|rule| !rule.contains("STDIO"));
        match self.kind {
            Kind::IdInUse | Kind::IdReused | Kind::TokenInUse | Kind::UnknownResponse => !has_lost,
            Kind::CancelUnknown | Kind::ProgressUnknown => false,
            Kind::Early => self.by == Origin::Server,
            _ => true,
        }
    }

    /// Returns the finding for an action that a state machine refuses to its own side.
    pub(crate) fn of_refusal(by: Origin, error: &SendError, version: Option<ProtocolVersion>) -> Option<Self> {
        let kind = match error {
            // No request of that revision has to wait for another one.
            SendError::NotReady if version.is_some_and(|version| version.era() == Era::Modern) => return None,
            SendError::NotReady => Kind::Early,
            SendError::WrongDirection(_) => Kind::WrongSide,
            SendError::WrongKind(_) => Kind::Notification,
            SendError::NotInRevision { .. } => Kind::NotInRevision,
            SendError::Undeclared(_) => Kind::Undeclared,
            SendError::Encode(_) | SendError::WrongResult => Kind::Shape,
            // Limits of this program, and requests that have ended.
            _ => return None,
        };
        Some(Self::new(by, kind, version, error.to_string()))
    }

    /// Returns the text of the rule.
    pub(crate) fn text(&self) -> &'static str {
        self.rule.map_or("", rules::text)
    }

    /// Returns the finding for an event of a state machine. `null` tells that the frame has an id that is null.
    pub(crate) fn of(
        by: Origin,
        violation: &Violation<'_>,
        version: Option<ProtocolVersion>,
        null: bool,
    ) -> Option<Self> {
        let kind = match violation {
            Violation::Malformed(kind) => match kind {
                MalformedKind::Array => Kind::Batch,
                MalformedKind::Version => Kind::JsonRpc,
                MalformedKind::Id if null => Kind::NullId,
                MalformedKind::Id => Kind::Id,
                MalformedKind::Params => Kind::Params,
                MalformedKind::Error => Kind::ErrorShape,
                MalformedKind::Shape | MalformedKind::Method | MalformedKind::NotAnObject => Kind::NoMessage,
                MalformedKind::Duplicate | MalformedKind::DuplicateParam | MalformedKind::TooDeep => Kind::Other,
                _ => Kind::NotJson,
            },
            Violation::Noise(_) => Kind::NotJson,
            Violation::Oversized => Kind::TooLong,
            Violation::Truncated => Kind::Truncated,
            Violation::DuplicateId(_) => Kind::IdInUse,
            Violation::UnknownResponse(_) => Kind::UnknownResponse,
            Violation::UnknownProgress => Kind::ProgressUnknown,
            Violation::UnknownSubscription(_) => Kind::UnknownSubscription,
            Violation::BadParams(Method::Progress) => Kind::ProgressShape,
            Violation::BadParams(Method::Cancelled) => Kind::CancelShape,
            Violation::WrongDirection(_) => Kind::WrongSide,
            Violation::WrongKind(_) => Kind::Notification,
            Violation::NotSupported(_) | Violation::Undeclared(_) => Kind::Undeclared,
            // A server of that revision has no handshake that could come first.
            Violation::NotReady(method) if version.is_some_and(|version| version.era() == Era::Modern) => {
                let what = format!("{} has no revision in its _meta", method.as_str());
                return Some(Self::new(by, Kind::Meta, version, what));
            }
            Violation::NotReady(_) => Kind::Early,
            Violation::UnexpectedRequest(_) => Kind::ServerRequest,
            Violation::Unacknowledged(_) => Kind::Unacknowledged,
            Violation::BadMeta => Kind::Meta,
            // A limit of this program, a matter of negotiation, or a tool that only HTTP cannot offer.
            Violation::TooManyRequests | Violation::UnsupportedVersion | Violation::UnusableTool { .. } => return None,
            _ => Kind::Other,
        };
        Some(Self::new(by, kind, version, violation.to_string()))
    }
}

/// Returns the row of a rule: that of sessions, or that of 2026-07-28.
fn rule(kind: Kind, by: Origin, version: Option<ProtocolVersion>) -> Option<&'static str> {
    let is_modern = version.is_some_and(|version| version.era() == Era::Modern);
    let by_client = by == Origin::Client;
    let pick = |legacy: &'static str, modern: &'static str| Some(if is_modern { modern } else { legacy });
    let legacy = |id: &'static str| (!is_modern).then_some(id);
    let modern = |id: &'static str| is_modern.then_some(id);
    match kind {
        Kind::NotJson if by_client => pick("STDIO-008", "M-STDIO-004"),
        Kind::NotJson => pick("STDIO-007", "M-STDIO-003"),
        Kind::Truncated => pick("STDIO-004", "M-STDIO-001"),
        Kind::Batch => match version {
            Some(ProtocolVersion::V2024_11_05) => Some("BATCH-014"),
            Some(ProtocolVersion::V2026_07_28) => Some("M-STDIO-002"),
            Some(ProtocolVersion::V2025_06_18 | ProtocolVersion::V2025_11_25) => Some("BATCH-012"),
            _ => None,
        },
        Kind::JsonRpc => pick("BASE-001", "M-BASE-001"),
        Kind::Id => pick("BASE-003", "M-BASE-003"),
        Kind::NullId => pick("BASE-004", "M-BASE-004"),
        Kind::IdInUse => pick("BASE-006", "M-BASE-005"),
        Kind::IdReused => legacy("BASE-006"),
        Kind::Params => legacy("BASE-021"),
        Kind::Notification => pick("BASE-019", "M-BASE-022"),
        Kind::NoMessage => pick("STDIO-006", "M-STDIO-002"),
        Kind::UnknownResponse => pick("BASE-008", "M-BASE-007"),
        Kind::ResultNotObject => pick("BASE-017", "M-BASE-008"),
        Kind::ResultType => modern("M-BASE-009"),
        Kind::InitializeResult => legacy("LIFE-004"),
        Kind::ErrorShape => pick("BASE-011", "M-BASE-016"),
        Kind::Early if by_client => legacy("LIFE-007"),
        Kind::Early => legacy("LIFE-008"),
        Kind::Undeclared => match version {
            Some(ProtocolVersion::V2024_11_05 | ProtocolVersion::V2025_03_26) => Some("LIFE-021"),
            Some(_) => pick("LIFE-022", "M-BASE-055"),
            None => None,
        },
        Kind::NotInRevision => version.and_then(|_| legacy("LIFE-020")),
        Kind::WrongSide if by_client => modern("M-BASE-053"),
        Kind::WrongSide => modern("M-BASE-054"),
        Kind::ServerRequest => modern("M-BASE-023"),
        Kind::ClientResponse => modern("M-BASE-024"),
        Kind::Meta => modern("M-META-001"),
        Kind::CancelShape => pick("CANC-001", "M-CANC-002"),
        Kind::CancelUnknown if by_client => pick("CANC-004", "M-CANC-003"),
        Kind::CancelUnknown => pick("CANC-004", "M-CANC-007"),
        Kind::CancelInitialize => legacy("CANC-005"),
        Kind::TokenInUse => pick("PROG-003", "M-PROG-003"),
        Kind::ProgressShape => pick("PROG-004", "M-PROG-004"),
        Kind::ProgressNotGrowing => pick("PROG-007", "M-PROG-006"),
        Kind::ProgressUnknown => pick("PROG-009", "M-PROG-009"),
        Kind::Unacknowledged => modern("M-SUBS-006"),
        Kind::UnknownSubscription => modern("M-SUBS-010"),
        Kind::BatchExecuted => match version {
            Some(ProtocolVersion::V2025_06_18 | ProtocolVersion::V2025_11_25) => Some("BATCH-013"),
            _ => None,
        },
        Kind::TooLong | Kind::Shape | Kind::Http | Kind::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_its_text() {
        let mut found = 0;
        for version in ProtocolVersion::ALL.map(Some).into_iter().chain([None]) {
            for by in [Origin::Client, Origin::Server] {
                for kind in [
                    Kind::NotJson,
                    Kind::Truncated,
                    Kind::Batch,
                    Kind::JsonRpc,
                    Kind::Id,
                    Kind::NullId,
                    Kind::IdInUse,
                    Kind::IdReused,
                    Kind::Params,
                    Kind::Notification,
                    Kind::NoMessage,
                    Kind::UnknownResponse,
                    Kind::ResultNotObject,
                    Kind::ResultType,
                    Kind::InitializeResult,
                    Kind::ErrorShape,
                    Kind::Early,
                    Kind::Undeclared,
                    Kind::NotInRevision,
                    Kind::WrongSide,
                    Kind::ServerRequest,
                    Kind::ClientResponse,
                    Kind::Meta,
                    Kind::CancelShape,
                    Kind::CancelUnknown,
                    Kind::CancelInitialize,
                    Kind::TokenInUse,
                    Kind::ProgressShape,
                    Kind::ProgressNotGrowing,
                    Kind::ProgressUnknown,
                    Kind::Unacknowledged,
                    Kind::UnknownSubscription,
                    Kind::BatchExecuted,
                ] {
                    let finding = Finding::new(by, kind, version, "");
                    if let Some(rule) = finding.rule {
                        assert!(!finding.text().is_empty(), "{rule}");
                        found += 1;
                    }
                }
            }
        }
        assert!(found > 200, "{found}");
    }
}
