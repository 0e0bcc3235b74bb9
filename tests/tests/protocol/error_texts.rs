//! The texts of errors, as logs show them.

use std::{borrow::Cow, collections::BTreeSet, fmt::Display};

use mcp_proto::{
    codec::SseTooLong,
    connection::{CloseReason, Failure, SendError, Violation},
    protocol::{
        Capability, HeaderError, HeaderMismatch, InvalidHeaderParam, InvalidMetaKey, Method, MethodName, NotEncodable,
        ProtocolVersion,
    },
    wire::{ErrorObject, MalformedKind, RequestId},
};

/// Checks that all texts differ, and that each names its subject.
#[track_caller]
fn assert_telling<const N: usize>(errors: [(&dyn Display, &str); N]) {
    let texts: BTreeSet<String> = errors.iter().map(|(error, _)| error.to_string()).collect();
    assert_eq!(texts.len(), N, "two say the same: {texts:?}");
    for (error, about) in errors {
        let text = error.to_string();
        assert!(text.len() > 5 && !text.ends_with('.') && text.contains(about), "{text:?} does not tell of {about:?}");
    }
}

#[test]
fn error_texts_name_the_cause() {
    let error = ErrorObject::internal("no luck");
    assert_eq!(error.to_string(), "no luck (-32603)");
    assert_eq!(NotEncodable.to_string(), "an argument cannot be sent in a header");
    assert_eq!(SseTooLong { beginning: b"abc" }.to_string(), "an event is larger than the limit");
    assert_telling([
        (&SendError::NotReady, "handshake"),
        (&SendError::Closed, "closed"),
        (&SendError::WrongDirection(Method::CallTool), "tools/call"),
        (&SendError::WrongKind(Method::CallTool), "tools/call"),
        (&SendError::NotInRevision { method: Method::Ping, version: ProtocolVersion::V2026_07_28 }, "2026-07-28"),
        (&SendError::Undeclared(Capability::Logging), "logging"),
        (&SendError::Busy, "too much"),
        (&SendError::TooLarge, "limit"),
        (&SendError::Encode("why".into()), "why"),
        (&SendError::WrongResult, "result"),
        (&SendError::Answered, "already has a response"),
        (&SendError::ProgressNotGrowing, "progress"),
        (&SendError::UnknownCall, "not in flight"),
        (&SendError::NotCancellable, "cancelled"),
    ]);
    assert_telling([
        (&CloseReason::Local, "closed"),
        (&CloseReason::Eof, "peer closed"),
        (&CloseReason::ConnectionLost, "transport"),
        (&CloseReason::TransportError("exit status 1".into()), "exit status 1"),
        (&CloseReason::Refused(error), "no luck (-32603)"),
        (&CloseReason::BadHandshake("why".into()), "why"),
        (&CloseReason::UnsupportedVersion("1999".into()), "1999"),
        (&CloseReason::LegacyServer("so old".into()), "so old"),
        (&CloseReason::HandshakeTimeout, "timed out"),
        (&CloseReason::PeerSilent, "pings"),
        (&CloseReason::PeerNotReading, "does not read"),
        (&CloseReason::TooMuchNoise, "not messages"),
        (&CloseReason::Failed(Failure::NoAnswer), "does not contain a JSON-RPC response"),
        (&CloseReason::Expired, "session"),
    ]);
    let status =
        |body: &str| Failure::Status { status: 503, challenges: Vec::new(), retry_after: None, body: body.into() };
    assert_telling([
        (&Failure::NoStream, "no stream"),
        (&Failure::StreamLost, "stream ended"),
        (&Failure::SessionLost, "session ended"),
        (&status(""), "503"),
        (&status("try later"), "503: try later"),
        (&Failure::Redirected("https://elsewhere/".into()), "https://elsewhere/"),
        (&Failure::NoAnswer, "does not contain a JSON-RPC response"),
        (&Failure::TooLarge, "limit"),
        (&Failure::NoHeader, "header"),
        (&Failure::Network("no route".into()), "no route"),
    ]);
}

#[test]
fn violation_texts_name_the_fault() {
    let id = || RequestId::from(7);
    let vendor = || MethodName::new("vendor/x").into_owned();
    let misplaced = || InvalidHeaderParam::Misplaced;
    assert_telling([
        (&Violation::Malformed(MalformedKind::TooDeep), "too deeply"),
        (&Violation::Noise(Cow::Borrowed(b"hello\n")), r#""hello\n""#),
        (&Violation::Oversized, "limit"),
        (&Violation::Truncated, "middle"),
        (&Violation::DuplicateId(id()), "7"),
        (&Violation::UnknownResponse(id()), "7"),
        (&Violation::UnknownProgress, "token"),
        (&Violation::UnknownSubscription(id()), "7"),
        (&Violation::BadParams(Method::CallTool), "tools/call"),
        (&Violation::WrongDirection(Method::CallTool), "tools/call"),
        (&Violation::WrongKind(Method::CallTool), "tools/call"),
        (&Violation::NotSupported(Method::CallTool), "tools/call"),
        (&Violation::Undeclared(Capability::Logging), "logging"),
        (&Violation::NotReady(vendor()), "vendor/x"),
        (&Violation::SecondInitialize, "twice"),
        (&Violation::BatchSize, "batch"),
        (&Violation::TooManyRequests, "too many"),
        (&Violation::UnexpectedRequest(vendor()), "vendor/x"),
        (&Violation::Unacknowledged(Method::ToolsListChanged), "notifications/tools/list_changed"),
        (&Violation::BadMeta, "_meta"),
        (&Violation::UnsupportedVersion, "revision"),
        (&Violation::HeaderMismatch, "headers"),
        (
            &Violation::UnusableTool { tool: "hammer".into(), why: misplaced() },
            &format!("\"hammer\" cannot be offered: {}", misplaced()),
        ),
    ]);
    let mismatch = |fault| HeaderMismatch { header: "Mcp-Name".into(), fault };
    assert_telling([
        (&mismatch(HeaderError::Missing), "Mcp-Name is missing"),
        (&mismatch(HeaderError::Malformed), "Mcp-Name is malformed"),
        (&mismatch(HeaderError::Different), "Mcp-Name differs"),
        (&mismatch(HeaderError::Unfounded), "Mcp-Name repeats"),
    ]);
    assert_telling([
        (&misplaced(), "x-mcp-header"),
        (&InvalidHeaderParam::Name("a b".into()), "a b"),
        (&InvalidHeaderParam::Repeated("Unit".into()), "Unit"),
        (&InvalidHeaderParam::Type("Unit".into()), "Unit"),
        (&InvalidHeaderParam::Schema, "schema"),
        (&InvalidHeaderParam::TooLarge, "64 KiB"),
    ]);
    assert_telling([
        (&InvalidMetaKey::Prefix, "prefix"),
        (&InvalidMetaKey::Name, "name"),
        (&InvalidMetaKey::Reserved, "reserved"),
    ]);
}

/// These are sent as the message of an error.
#[test]
fn malformed_messages_name_the_broken_rule() {
    let kinds = [
        (MalformedKind::Syntax(3), "Parse error"),
        (MalformedKind::TooDeep, "Invalid request: nested too deeply"),
        (MalformedKind::NotAnObject, "Invalid request: not an object"),
        (MalformedKind::Array, "Invalid request: batches are not supported"),
        (MalformedKind::Version, "Invalid request: jsonrpc must be \"2.0\""),
        (MalformedKind::Duplicate, "Invalid request: a member occurs twice"),
        (MalformedKind::DuplicateParam, "Invalid params: a member occurs twice"),
        (MalformedKind::Id, "Invalid request: id must be a string or an integer"),
        (MalformedKind::Method, "Invalid request: method must be a string"),
        (MalformedKind::Params, "Invalid params: params must be an object"),
        (MalformedKind::Shape, "Invalid request: neither a request, a notification nor a response"),
        (MalformedKind::Error, "Invalid request: error needs code and message"),
    ];
    for (kind, message) in kinds {
        assert_eq!(kind.message(), message);
    }
}
