//! Rules that hold for each message of a server: they are judged as messages arrive, for all checks.

use super::{
    definition::{Check, legacy, modern},
    outcome::{Outcome, Verdict, failed},
    probe::Probe,
};

pub(super) const CHECKS: &[Check] = &[
    legacy("stdout-messages", "Only messages are on the standard output", &["STDIO-007"], passive).stdio(),
    legacy("jsonrpc-member", "Each message has jsonrpc 2.0", &["BASE-001"], passive),
    legacy("result-object", "Results are objects", &["BASE-017"], passive),
    legacy("result-or-error", "A response has a result or an error", &["BASE-009", "BASE-010"], passive),
    legacy("error-object", "Errors have an integer code and a text", &["BASE-011"], passive),
    legacy("one-response", "Each request has one response, with its id", &["BASE-008"], passive),
    legacy("progress-without-token", "No progress without a token", &["PROG-009"], passive),
    legacy("requests-before-initialized", "No requests before initialized", &["LIFE-008"], passive).should(),
    legacy("tools-undeclared-changes", "No changes of tools that were not declared", &["TOOL-027"], passive),
    legacy("prompts-undeclared-changes", "No changes of prompts that were not declared", &["PROMPT-016"], passive),
    legacy("resources-undeclared-changes", "No changes of resources that were not declared", &["RES-015"], passive),
    legacy("undeclared-logging", "No log messages without the capability", &["LOG-001"], passive),
    legacy("sse-data", "Each event is one message", &["HTTP-075"], passive).http().since("2025-03-26").should(),
    legacy("event-ids", "Ids of events are unique in a session", &["HTTP-047"], passive).http().since("2025-03-26"),
    modern("modern-stdout-messages", "Only messages are on the standard output", &["M-STDIO-003"], passive).stdio(),
    modern("modern-jsonrpc-member", "Each message has jsonrpc 2.0", &["M-BASE-001"], passive),
    modern("modern-result-object", "Results are objects", &["M-BASE-008"], passive),
    modern("modern-result-type", "Results have a resultType", &["M-BASE-009"], passive),
    modern("modern-error-object", "Errors have an integer code and a text", &["M-BASE-016"], passive),
    modern("modern-error-codes", "No reserved error codes", &["M-BASE-034", "M-BASE-036", "M-BASE-037"], error_codes),
    modern("modern-one-response", "Each request has one response, with its id", &["M-BASE-007"], passive),
    modern("modern-no-requests", "The server sends no requests", &["M-BASE-023"], passive),
    modern("modern-progress-without-token", "No progress without a token", &["M-PROG-016"], passive).should(),
    modern("modern-unasked-logging", "No log messages that were not asked for", &["M-LOG-002"], passive),
    modern("modern-sse-data", "Each event is one message", &["M-HTTP-097"], passive).http().should(),
];

/// Fails if a message has broken the rule of the check that runs.
fn passive(probe: &mut Probe) -> Verdict {
    match probe.noticed() {
        Some(bytes) => failed(format!("the server sent: {bytes}")),
        None => Ok(()),
    }
}

/// Fails if an error has had a reserved code. Which rule it breaks depends on the code.
fn error_codes(probe: &mut Probe) -> Verdict {
    match probe.broken(&["M-BASE-034", "M-BASE-036", "M-BASE-037"]) {
        Some((broken, bytes)) => Err(Outcome::Failed { why: format!("the server sent: {bytes}"), broken }),
        None => Ok(()),
    }
}
