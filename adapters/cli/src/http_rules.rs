//! Rules of the specification about HTTP that only a record can show: those rows of `tests/requirements` with their texts.

/// Ids and texts, sorted by id.
pub(crate) const HTTP_RULES: &[(&str, &str)] = &[
    ("HTTP-009", "Every POST carries an `Accept` header which lists both `application/json` and `text/event-stream`."),
    (
        "HTTP-012",
        "Input which consists only of responses and/or notifications and is accepted is answered with 202 and an empty body.",
    ),
    (
        "HTTP-016",
        "Input with at least one request is answered with `Content-Type: text/event-stream` or with `Content-Type: application/json`.",
    ),
    ("HTTP-036", "A GET to the MCP endpoint carries an `Accept` header which lists `text/event-stream`."),
    (
        "HTTP-041",
        "A JSON-RPC response is not sent on a GET stream, except when that GET resumes the stream of an earlier request.",
    ),
    ("HTTP-064", "After a DELETE was accepted, further requests with that session id get 404."),
    (
        "HTTP-065",
        "After initialization every HTTP request (POST, GET and DELETE, also the POST of `notifications/initialized`) carries `MCP-Protocol-Version` with a protocol version.",
    ),
    ("M-HTTP-008", "Each POST has an `Accept` header that lists both `application/json` and `text/event-stream`."),
    ("M-HTTP-024", "Streams are not resumed: no `Last-Event-ID` is sent in the modern era."),
    ("M-HTTP-029", "Every POST has the header `MCP-Protocol-Version`."),
    ("M-HTTP-030", "`MCP-Protocol-Version` equals the body's `_meta[\"io.modelcontextprotocol/protocolVersion\"]`."),
    ("M-HTTP-036", "Every request POST has `Mcp-Method` equal to the body's `method`."),
    ("M-HTTP-037", "`tools/call` and `prompts/get` POSTs have `Mcp-Name` equal to `params.name`."),
    ("M-HTTP-038", "`resources/read` POSTs have `Mcp-Name` equal to `params.uri`."),
];
