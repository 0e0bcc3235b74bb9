//! Rules that hold for each message of a client: they are judged as messages arrive, for all checks.

use super::{
    definition::{Check, legacy, modern},
    stage::Stage,
};
use crate::check::outcome::{Outcome, Verdict};

const CANCELLED: &str = "notifications/cancelled";
const PROGRESS: &str = "notifications/progress";

pub(super) const CHECKS: &[Check] = &[
    legacy("initialize-first", "The first request is initialize", &["LIFE-001"], passive),
    legacy("initialize-params", "initialize has its params", &["LIFE-002", "LIFE-003"], passive),
    legacy("client-capabilities", "Capabilities have their shapes", &["LIFE-027", "LIFE-028"], passive),
    legacy("early-requests", "No request before the answer to initialize", &["LIFE-007"], passive).should(),
    legacy("stdin-messages", "Only messages are written to the server", &["STDIO-006", "STDIO-008"], passive).stdio(),
    legacy("stdin-closed", "The end begins with the standard input of the server", &["STDIO-011"], passive)
        .stdio()
        .should()
        .needs("end of input"),
    legacy("jsonrpc-member", "Each message has jsonrpc 2.0", &["BASE-001"], passive),
    legacy("id-type", "Ids are texts or integers", &["BASE-003", "BASE-004"], passive),
    legacy("id-unique", "Ids are not used again", &["BASE-006"], passive),
    legacy("notification-id", "Notifications have no id", &["BASE-019"], passive),
    legacy("params-object", "Params are objects", &["BASE-021"], passive),
    legacy("one-response", "Each request has one response, with its id", &["BASE-008"], passive).needs("response"),
    legacy("result-object", "Results are objects", &["BASE-017"], passive).needs("response"),
    legacy("error-object", "Errors have an integer code and a text", &["BASE-011"], passive).needs("error"),
    legacy("no-batches", "No batches from 2025-06-18 on", &["BATCH-012"], passive).since("2025-06-18"),
    legacy("cancellation", "Cancellations name requests in flight", &["CANC-001", "CANC-004", "CANC-005"], passive)
        .needs(CANCELLED),
    legacy("progress", "Progress names tokens in use, and grows", &["PROG-004", "PROG-007", "PROG-009"], passive)
        .needs(PROGRESS),
    legacy("progress-token", "Progress tokens are unique", &["PROG-002", "PROG-003"], passive).needs("progress token"),
    legacy("tool-params", "tools/call has a name and arguments", &["TOOL-014"], passive).needs("tools/call"),
    legacy("prompt-params", "prompts/get has a name and texts", &["PROMPT-007"], passive).needs("prompts/get"),
    legacy("resource-params", "resources/read has a URI", &["RES-007"], passive).needs("resources/read"),
    legacy("completion-params", "completion/complete has its params", &["COMPL-001", "COMPL-002"], passive)
        .needs("completion/complete"),
    legacy("completion-context", "The context of completion/complete has texts", &["COMPL-003"], passive)
        .since("2025-06-18")
        .should()
        .needs("completion context"),
    legacy("http-accept", "POST accepts JSON and event streams", &["HTTP-009"], passive).http().since("2025-03-26"),
    // Before 2025-06-18, a body may be a batch.
    legacy("http-body", "A body is one message", &["HTTP-010", "HTTP-011"], passive).http().since("2025-03-26"),
    legacy("http-get-accept", "GET accepts event streams", &["HTTP-036"], passive)
        .http()
        .since("2025-03-26")
        .needs("GET"),
    legacy("http-session", "Requests have the id of the session", &["HTTP-058"], passive)
        .http()
        .since("2025-03-26")
        .needs("session"),
    legacy("http-version", "Requests have the header MCP-Protocol-Version", &["HTTP-065"], passive)
        .http()
        .since("2025-06-18")
        .needs("version header"),
    legacy("http-version-value", "The header has the revision of the session", &["HTTP-066"], passive)
        .http()
        .since("2025-06-18")
        .should()
        .needs("version header"),
    modern(
        "modern-stdin-messages",
        "Only messages are written to the server",
        &["M-STDIO-002", "M-STDIO-004"],
        passive,
    )
    .stdio(),
    modern("modern-stdin-closed", "The end begins with the standard input of the server", &["M-STDIO-015"], passive)
        .stdio()
        .should()
        .needs("end of input"),
    modern("modern-jsonrpc-member", "Each message has jsonrpc 2.0", &["M-BASE-001"], passive),
    modern("modern-id-type", "Ids are texts or integers", &["M-BASE-003", "M-BASE-004"], passive),
    // Over HTTP nothing tells two clients of one program apart.
    modern("modern-id-unique", "Ids in flight are not used again", &["M-BASE-005"], passive).stdio(),
    modern("modern-notification-id", "Notifications have no id", &["M-BASE-022"], passive),
    modern("modern-no-responses", "The client sends no responses", &["M-BASE-024"], passive),
    modern("modern-notifications", "No notifications that were removed", &["M-BASE-052", "M-BASE-053"], passive),
    modern("meta-version", "Requests have their revision", &["M-META-001"], passive),
    modern("meta-capabilities", "Requests have client capabilities", &["M-META-002"], passive),
    modern("meta-client-info", "Requests have client info", &["M-META-003"], passive).should(),
    modern("meta-client-name", "Client info has a name and a version", &["M-META-004"], passive),
    modern("modern-capabilities", "Capabilities are objects", &["M-META-030"], passive),
    modern("discover-params", "server/discover has no params", &["M-DISC-002"], passive).needs("server/discover"),
    modern("modern-cancellation", "Cancellations name requests in flight", &["M-CANC-002", "M-CANC-003"], passive)
        .needs(CANCELLED),
    modern("modern-progress-token", "Progress tokens are unique", &["M-PROG-002", "M-PROG-003"], passive)
        .needs("progress token"),
    modern("modern-tool-params", "tools/call has a name and arguments", &["M-TOOL-011"], passive).needs("tools/call"),
    modern("modern-prompt-params", "prompts/get has a name and texts", &["M-PROMPT-008"], passive).needs("prompts/get"),
    modern("modern-resource-params", "resources/read has a URI", &["M-RES-010"], passive).needs("resources/read"),
    modern(
        "modern-completion-params",
        "completion/complete has its params",
        &["M-COMPL-002", "M-COMPL-003", "M-COMPL-004"],
        passive,
    )
    .needs("completion/complete"),
    modern("listen-filter", "subscriptions/listen has a filter", &["M-SUBS-001", "M-SUBS-002"], passive)
        .needs("subscriptions/listen"),
    modern("modern-http-accept", "POST accepts JSON and event streams", &["M-HTTP-008"], passive).http(),
    modern("modern-http-content-type", "POST has the type of JSON", &["M-HTTP-094"], passive).http().should(),
    modern("modern-http-body", "A body is one message", &["M-HTTP-009"], passive).http(),
    modern("modern-http-version", "Requests have the header MCP-Protocol-Version", &["M-HTTP-029"], passive).http(),
    modern("modern-http-version-value", "The header has the revision of the body", &["M-HTTP-030"], passive).http(),
    modern("modern-http-method", "Mcp-Method is the method", &["M-HTTP-036"], passive).http(),
    modern("modern-http-name", "Mcp-Name is the name", &["M-HTTP-037"], passive).http().needs("call by a name"),
    modern("modern-http-uri", "Mcp-Name is the URI", &["M-HTTP-038"], passive).http().needs("resources/read"),
    modern("modern-http-param", "Marked arguments are headers", &["M-HTTP-050", "M-HTTP-060"], passive)
        .http()
        .needs("mirrored argument"),
    modern("modern-http-no-resumption", "No header Last-Event-ID", &["M-HTTP-024"], passive).http(),
];

/// Fails if a message has broken rules of the check that runs.
fn passive(stage: &mut Stage) -> Verdict {
    match stage.observed.broken(stage.rules) {
        Some((broken, bytes)) => Err(Outcome::Failed { why: format!("the client sent: {bytes}"), broken }),
        None => Ok(()),
    }
}
