//! Rules of the specification that a record can show to be broken: those rows of `tests/requirements` with their texts. A
//! test compares them.

/// Ids and texts, sorted by id.
pub(crate) const RULES: &[(&str, &str)] = &[
    (
        "BASE-001",
        "Every JSON-RPC object written to the wire carries the member `jsonrpc` with the exact string value \"2.0\", and an incoming object with another or missing value is not processed as a valid message.",
    ),
    ("BASE-003", "A request carries an `id` which is a JSON string or a JSON integer."),
    ("BASE-004", "A request never carries `id: null`."),
    (
        "BASE-006",
        "A requestor does not reuse a request `id` it already used earlier in the same session, including ids of requests which have completed or were cancelled.",
    ),
    (
        "BASE-008",
        "A response repeats the `id` of the request it answers with the same JSON type and value (string \"1\" and number 1 stay distinct).",
    ),
    ("BASE-011", "The `error` object of a response has an integer `code` and a string `message`."),
    (
        "BASE-017",
        "The `result` member of a successful response is a JSON object, also for operations which return nothing (`{}`).",
    ),
    ("BASE-019", "A notification does not contain an `id` member."),
    (
        "BASE-021",
        "When `params` is present on a request or notification it is a JSON object (positional array params are not used).",
    ),
    ("BATCH-012", "JSON-RPC arrays are not sent on any transport, since batching was removed in 2025-06-18."),
    ("BATCH-014", "Arrays are not sent when 2024-11-05 was negotiated, because its message union has no batch types."),
    (
        "CANC-001",
        "`notifications/cancelled` has `params.requestId` with the id of the request and may have the string `params.reason`.",
    ),
    (
        "CANC-004",
        "Only requests which the sender issued itself in the same direction and which it believes to be in progress are cancelled.",
    ),
    ("CANC-005", "The client does not cancel its `initialize` request (neither by API nor by timeout)."),
    ("LIFE-001", "The first protocol interaction on a new connection is an `initialize` request from the client."),
    (
        "LIFE-004",
        "The result of `initialize` contains the string `protocolVersion`, the object `capabilities` and the object `serverInfo`.",
    ),
    ("LIFE-007", "Before the `initialize` result has arrived the client sends no request other than `ping`."),
    (
        "LIFE-008",
        "Before `notifications/initialized` has arrived the server sends no request other than `ping`, while `notifications/message` logs are allowed.",
    ),
    ("LIFE-020", "Both sides keep to the semantics of the negotiated protocol version after initialization."),
    (
        "LIFE-021",
        "Methods and notifications of a feature are used only when the matching capability was declared by the peer (raised to MUST in 2025-06-18).",
    ),
    (
        "LIFE-022",
        "Methods and notifications of a feature are used only when the matching capability was declared by the peer.",
    ),
    ("M-BASE-001", "Every message is a JSON-RPC 2.0 object whose `jsonrpc` member is the string \"2.0\"."),
    ("M-BASE-003", "Every request carries an `id` that is a JSON string or a JSON integer."),
    ("M-BASE-004", "A request `id` is never JSON null."),
    (
        "M-BASE-005",
        "A new request never uses the `id` of another request from the same sender that is still unanswered.",
    ),
    (
        "M-BASE-007",
        "A response carries the same `id` value and JSON type as its request, so \"7\" and 7 stay distinct.",
    ),
    ("M-BASE-008", "A success response has a `result` member that is a JSON object."),
    ("M-BASE-009", "Every result object of a modern request has a string member `resultType`."),
    ("M-BASE-016", "An error response has an `error` object with an integer `code` and a string `message`."),
    ("M-BASE-022", "A notification has no `id` member."),
    ("M-BASE-023", "A modern server never sends a JSON-RPC request to the client on any transport."),
    ("M-BASE-024", "A modern client never sends a JSON-RPC response message."),
    ("M-BASE-053", "The client sends no core notification other than `notifications/cancelled`."),
    (
        "M-BASE-054",
        "The server sends no core notification outside cancelled, progress, message, resources/updated, the three list_changed ones and subscriptions/acknowledged (`notifications/elicitation/complete` no longer exists).",
    ),
    (
        "M-BASE-055",
        "Declared capabilities of the peer are respected throughout: a client calls only advertised features or copes with -32601, and a server uses only declared client capabilities.",
    ),
    (
        "M-CANC-002",
        "`notifications/cancelled` has `params.requestId` (string or integer) and optionally a string `reason`.",
    ),
    ("M-CANC-003", "`requestId` names a request that the client itself issued and believes to be in progress."),
    (
        "M-CANC-007",
        "`notifications/cancelled` is not sent by a server for anything but ending a `subscriptions/listen` stream.",
    ),
    (
        "M-META-001",
        "Every request (including list and discover requests) has `params._meta` with the string `io.modelcontextprotocol/protocolVersion`.",
    ),
    (
        "M-PROG-004",
        "`notifications/progress` has `progressToken` (same value and JSON type as in the request) and a numeric `progress`.",
    ),
    ("M-PROG-006", "`progress` grows with each notification of the same token, with or without a `total`."),
    ("M-PROG-009", "Progress notifications name only tokens of requests that are active and in progress."),
    ("M-STDIO-001", "A serialised message contains no newline character; each message occupies exactly one line."),
    (
        "M-STDIO-002",
        "Each line is a single JSON-RPC request, notification or response; arrays (batches) are not valid lines.",
    ),
    ("M-STDIO-003", "Nothing but valid MCP messages is written to stdout."),
    ("M-STDIO-004", "Nothing but valid MCP messages is written to the server's stdin."),
    ("M-SUBS-006", "No notification of a subscription precedes its acknowledgment."),
    (
        "M-SUBS-010",
        "Every notification of a subscription carries `_meta[\"io.modelcontextprotocol/subscriptionId\"]` equal to the JSON-RPC id of the listen request, with the same JSON type.",
    ),
    (
        "PROG-004",
        "`notifications/progress` has `progressToken` (same type and value as in the request) and the number `progress`, and may have the number `total`.",
    ),
    (
        "PROG-007",
        "`progress` grows strictly from one notification to the next for the same token, also without `total`.",
    ),
    ("PROG-009", "Progress is sent only for tokens of requests which are active and still in progress."),
    ("STDIO-004", "Each message is terminated by a newline."),
    ("STDIO-006", "One line holds exactly one JSON-RPC request, notification or response."),
    ("STDIO-007", "The server writes nothing to stdout which is not a valid MCP message (no banners or log lines)."),
    ("STDIO-008", "The client writes nothing to the stdin of the server which is not a valid MCP message."),
];

/// Returns the text of a rule.
pub(crate) fn text(id: &str) -> &'static str {
    RULES.binary_search_by_key(&id, |(id, _)| id).map_or("", |at| RULES[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_those_of_the_tables() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/requirements");
        let tables: String = ["legacy", "modern"]
            .map(|era| std::fs::read_to_string(format!("{folder}/requirements-{era}.csv")).expect("a table"))
            .concat();
        assert!(RULES.is_sorted());
        for (id, text) in RULES {
            let row = tables.lines().find(|row| row.starts_with(&format!("{id},"))).expect(id);
            assert!(row.contains(&text.replace('"', "\"\"")), "{id}: {row}");
        }
    }
}
