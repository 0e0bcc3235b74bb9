//! Rules of sessions: 2024-11-05 to 2025-11-25.

/// Ids and texts, sorted by id.
pub(super) const RULES: &[(&str, &str)] = &[
    (
        "BASE-001",
        "Every JSON-RPC object written to the wire carries the member `jsonrpc` with the exact string value \"2.0\", and an incoming object with another or missing value is not processed as a valid message.",
    ),
    ("BASE-003", "A request carries an `id` which is a JSON string or a JSON integer."),
    ("BASE-004", "A request never carries `id: null`."),
    (
        "BASE-005",
        "An incoming message with a `method` and an `id` of null, boolean, fractional number, array or object is handled as an invalid request and not dispatched to a handler.",
    ),
    (
        "BASE-006",
        "A requestor does not reuse a request `id` it already used earlier in the same session, including ids of requests which have completed or were cancelled.",
    ),
    (
        "BASE-007",
        "Request ids are tracked per direction, so a client request and a server request which happen to use the same id at the same time are answered and matched independently.",
    ),
    (
        "BASE-008",
        "A response repeats the `id` of the request it answers with the same JSON type and value (string \"1\" and number 1 stay distinct).",
    ),
    (
        "BASE-009",
        "A response object contains exactly one of `result` and `error`; an object with both or neither is rejected as malformed.",
    ),
    (
        "BASE-010",
        "A result response contains `id` and `result`, an error response contains `error`, and no response contains both `result` and `error`.",
    ),
    ("BASE-011", "The `error` object of a response has an integer `code` and a string `message`."),
    (
        "BASE-016",
        "An error response without an `id` member parses successfully and is surfaced or logged instead of breaking the connection.",
    ),
    (
        "BASE-017",
        "The `result` member of a successful response is a JSON object, also for operations which return nothing (`{}`).",
    ),
    ("BASE-019", "A notification does not contain an `id` member."),
    (
        "BASE-020",
        "No response of any kind is sent for a notification, also when its method is unknown or its params are invalid.",
    ),
    (
        "BASE-021",
        "When `params` is present on a request or notification it is a JSON object (positional array params are not used).",
    ),
    ("BASE-022", "A request with a method which the receiver does not implement is answered with error code -32601."),
    ("BASE-023", "Input which is not valid JSON is reported with error code -32700 where a reply is possible."),
    (
        "BASE-024",
        "Valid JSON which is not a valid JSON-RPC request object is reported with error code -32600 where a reply is possible.",
    ),
    (
        "BASE-025",
        "A request whose params lack a required field or have a wrong type is answered with error code -32602.",
    ),
    (
        "BASE-026",
        "An unexpected failure while handling a request is answered with error code -32603 and does not end the session.",
    ),
    (
        "BASE-029",
        "Several requests can be in flight at once, and responses are matched by id in whatever order they arrive.",
    ),
    (
        "BATCH-001",
        "A JSON array of requests and/or notifications received on any transport is accepted and each member is processed.",
    ),
    (
        "BATCH-005",
        "Each request of a batch gets exactly one response with its own id, notifications get none, and the order of the responses is free.",
    ),
    ("BATCH-006", "An empty array is answered with one single error object with code -32600, not with an array."),
    (
        "BATCH-007",
        "A batch which contains only notifications produces no JSON-RPC output (202 without body on Streamable HTTP).",
    ),
    ("BATCH-012", "JSON-RPC arrays are not sent on any transport, since batching was removed in 2025-06-18."),
    (
        "BATCH-013",
        "A JSON array received as a message is refused with an error (HTTP 4xx on Streamable HTTP, -32600 on stdio) and none of its members is executed.",
    ),
    ("BATCH-014", "Arrays are not sent when 2024-11-05 was negotiated, because its message union has no batch types."),
    (
        "CANC-001",
        "`notifications/cancelled` has `params.requestId` with the id of the request and may have the string `params.reason`.",
    ),
    ("CANC-003", "`notifications/cancelled` without `requestId` parses and is ignored."),
    (
        "CANC-004",
        "Only requests which the sender issued itself in the same direction and which it believes to be in progress are cancelled.",
    ),
    ("CANC-005", "The client does not cancel its `initialize` request (neither by API nor by timeout)."),
    ("CANC-011", "A response which arrives after the cancellation was sent is ignored."),
    (
        "CANC-012",
        "A cancellation which crosses the response on the wire causes no error, double response or leaked state.",
    ),
    (
        "CANC-013",
        "A cancellation with an unknown, already completed or malformed `requestId` is ignored without an error.",
    ),
    (
        "COMPL-001",
        "`completion/complete` has `ref` which is `{type: \"ref/prompt\", name}` or `{type: \"ref/resource\", uri}`.",
    ),
    ("COMPL-002", "`completion/complete` has `argument` with the strings `name` and `value`."),
    (
        "COMPL-003",
        "`completion/complete` may have `context.arguments`, a map of strings with already resolved arguments, which the server makes available to the completer.",
    ),
    ("COMPL-008", "The result has `completion.values`, an array of at most 100 strings."),
    ("COMPL-011", "Without the capability `completion/complete` is answered with -32601."),
    ("COMPL-012", "An unknown prompt name or a missing required argument is answered with -32602."),
    ("CONT-001", "Text content is `{type: \"text\", text: string}`."),
    (
        "CONT-002",
        "Image content is `{type: \"image\", data: base64 string, mimeType: string}` with both fields present.",
    ),
    (
        "CONT-003",
        "Audio content is `{type: \"audio\", data: base64 string, mimeType: string}` with both fields present.",
    ),
    (
        "CONT-005",
        "An embedded resource is `{type: \"resource\", resource: {...}}` where `resource` has `uri` and exactly one of `text` and `blob`.",
    ),
    (
        "CONT-007",
        "A resource link is `{type: \"resource_link\", uri, name, ...}` with the fields of Resource; `uri` and `name` are present.",
    ),
    ("CONT-011", "`data` and `blob` are valid base64 with the standard alphabet."),
    ("CONT-016", "`role` is `user` or `assistant` wherever it occurs."),
    ("ELIC-024", "The result has `action` which is accept, decline or cancel."),
    (
        "HTTP-003",
        "The `Origin` header of every incoming request is validated, and a request from a not allowed origin is not processed.",
    ),
    (
        "HTTP-004",
        "A request with a present but invalid `Origin` header is answered with HTTP 403 (earlier revisions leave the status open).",
    ),
    ("HTTP-009", "Every POST carries an `Accept` header which lists both `application/json` and `text/event-stream`."),
    (
        "HTTP-010",
        "A POST body is a single message, an array of requests and/or notifications, or an array of responses.",
    ),
    ("HTTP-011", "A POST body is exactly one JSON-RPC request, notification or response."),
    (
        "HTTP-012",
        "Input which consists only of responses and/or notifications and is accepted is answered with 202 and an empty body.",
    ),
    ("HTTP-013", "An accepted response or notification is answered with 202 and an empty body."),
    (
        "HTTP-016",
        "Input with at least one request is answered with `Content-Type: text/event-stream` or with `Content-Type: application/json`.",
    ),
    (
        "HTTP-017",
        "A request is answered with `Content-Type: text/event-stream` or with `Content-Type: application/json` and one JSON object.",
    ),
    (
        "HTTP-018",
        "The client handles both an `application/json` body and a `text/event-stream` body as answer to a request.",
    ),
    ("HTTP-024", "The SSE stream of a POST is terminated after the response was sent."),
    (
        "HTTP-026",
        "Right after opening an SSE stream the server sends an event with an event id and empty `data` so that the client can resume from it.",
    ),
    (
        "HTTP-027",
        "An SSE event with empty `data` is not parsed as a JSON-RPC message, while its `id` is remembered for resumption.",
    ),
    (
        "HTTP-029",
        "When the connection closes before the response arrived, the client reconnects (polls) with GET and `Last-Event-ID`.",
    ),
    ("HTTP-031", "The client waits the number of milliseconds given by the latest `retry` field before it reconnects."),
    ("HTTP-036", "A GET to the MCP endpoint carries an `Accept` header which lists `text/event-stream`."),
    ("HTTP-037", "A GET is answered with `Content-Type: text/event-stream` or with HTTP 405."),
    ("HTTP-038", "A 405 answer to GET is taken as \"no listening stream offered\" and the session continues."),
    (
        "HTTP-041",
        "A JSON-RPC response is not sent on a GET stream, except when that GET resumes the stream of an earlier request.",
    ),
    (
        "HTTP-047",
        "Event ids, when used, are unique over all streams of the session (or of the client when there is no session).",
    ),
    (
        "HTTP-049",
        "After a broken connection the client resumes with a GET which carries `Last-Event-ID` with the last received event id.",
    ),
    (
        "HTTP-054",
        "The names `Mcp-Session-Id`, `MCP-Session-Id` and `MCP-Protocol-Version` are matched without regard to case.",
    ),
    ("HTTP-056", "Session ids contain only visible ASCII characters 0x21 to 0x7E."),
    (
        "HTTP-058",
        "When a session id was assigned, the client sends it on all later requests of the session (POST, GET and DELETE).",
    ),
    (
        "HTTP-059",
        "A server which requires sessions answers a non-initialize request without the session header with 400.",
    ),
    ("HTTP-060", "A request with the id of a terminated session is answered with 404."),
    (
        "HTTP-061",
        "On 404 for a request with a session id the client starts a new session by a new `initialize` without session header.",
    ),
    (
        "HTTP-062",
        "A client which no longer needs its session sends HTTP DELETE with the session header to the MCP endpoint.",
    ),
    ("HTTP-064", "After a DELETE was accepted, further requests with that session id get 404."),
    (
        "HTTP-065",
        "After initialization every HTTP request (POST, GET and DELETE, also the POST of `notifications/initialized`) carries `MCP-Protocol-Version` with a protocol version.",
    ),
    ("HTTP-066", "The value of `MCP-Protocol-Version` is the version which was negotiated in `initialize`."),
    ("HTTP-068", "An invalid or unsupported `MCP-Protocol-Version` is answered with 400."),
    (
        "HTTP-069",
        "A session negotiated at 2025-03-26 does not require the `MCP-Protocol-Version` header on requests, because this revision does not define it for the MCP endpoint.",
    ),
    (
        "HTTP-074",
        "SSE parsing follows the SSE standard: comment lines and unknown fields are ignored, several `data` lines are joined by newline, CR, LF and CRLF line ends and a leading BOM are accepted.",
    ),
    (
        "HTTP-075",
        "The `data` of an SSE event is one JSON-RPC message (or a batch in 2025-03-26), and a payload with line breaks is split over several `data` lines.",
    ),
    ("ICON-002", "Each Icon object has a string `src` which is an http(s) URL or a `data:` URI."),
    ("ICON-003", "`Icon.theme`, when present, is `light` or `dark`."),
    ("LIFE-001", "The first protocol interaction on a new connection is an `initialize` request from the client."),
    (
        "LIFE-002",
        "`initialize` params contain the string `protocolVersion`, the object `capabilities` and the object `clientInfo`.",
    ),
    ("LIFE-003", "`clientInfo` and `serverInfo` each contain the strings `name` and `version`."),
    (
        "LIFE-004",
        "The result of `initialize` contains the string `protocolVersion`, the object `capabilities` and the object `serverInfo`.",
    ),
    (
        "LIFE-006",
        "After a successful `initialize` result the client sends `notifications/initialized` before it starts normal operation.",
    ),
    ("LIFE-007", "Before the `initialize` result has arrived the client sends no request other than `ping`."),
    (
        "LIFE-008",
        "Before `notifications/initialized` has arrived the server sends no request other than `ping`, while `notifications/message` logs are allowed.",
    ),
    ("LIFE-009", "A `ping` received during the initialization phase is answered with an empty result."),
    (
        "LIFE-012",
        "When the requested protocol version is supported, the result of `initialize` repeats that same version.",
    ),
    (
        "LIFE-013",
        "When the requested protocol version is not supported (also when it is newer or malformed), the server returns a result with another version which it supports.",
    ),
    ("LIFE-014", "The counter-offer for an unsupported version is the newest revision which the server supports."),
    (
        "LIFE-015",
        "When the version in the `initialize` result is not supported by the client, it does not send `notifications/initialized`, ends the connection and reports the mismatch (the schema says MUST, the lifecycle page SHOULD).",
    ),
    (
        "LIFE-017",
        "Protocol version identifiers are strings of the form YYYY-MM-DD and are compared for equality as strings.",
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
    (
        "LIFE-023",
        "Every server feature which the server implements (tools, prompts, resources, logging, and completions from 2025-03-26) is announced in its capabilities.",
    ),
    (
        "LIFE-024",
        "Support for a capability is expressed by the presence of its object (also `{}`), and absence of the key means that it is not supported.",
    ),
    ("LIFE-025", "Unknown keys in a capabilities object are tolerated, because the set of capabilities is open."),
    (
        "LIFE-026",
        "`capabilities.experimental`, when present, maps names to objects, and the peer can read these entries.",
    ),
    (
        "LIFE-027",
        "Client capabilities use the shapes `roots{listChanged?: boolean}`, `sampling` (object) and, from 2025-06-18, `elicitation` (object).",
    ),
    (
        "LIFE-028",
        "Client capabilities use the shapes `roots{listChanged?: boolean}`, `sampling{context?: object, tools?: object}`, `elicitation{form?: object, url?: object}` and `tasks{list?, cancel?, requests?}`.",
    ),
    (
        "LIFE-029",
        "Server capabilities use booleans for `prompts.listChanged`, `tools.listChanged`, `resources.listChanged` and `resources.subscribe`, where a missing value equals false.",
    ),
    (
        "LIFE-039",
        "A version mismatch and a missing required capability each end in a reported error instead of a hang.",
    ),
    ("LIFE-041", "When the transport closes, all requests still waiting for a response fail with a connection error."),
    (
        "LIFE-042",
        "Requests from the server (`ping`, `roots/list`, `sampling/createMessage`, `elicitation/create`) are served while the client waits for the response to its own request, since they may be nested in it.",
    ),
    (
        "LIFE-043",
        "A request other than `initialize` or `ping` which arrives before `initialize` is answered with an error and its handler is not run.",
    ),
    ("LOG-001", "A server which sends `notifications/message` declares the `logging` capability."),
    (
        "LOG-002",
        "The levels are exactly debug, info, notice, warning, error, critical, alert and emergency, in this ascending order of severity.",
    ),
    ("LOG-007", "An invalid level in `logging/setLevel` is answered with -32602."),
    (
        "META-001",
        "A request may carry `params._meta`, a notification `params._meta`, and a result `_meta`, each an object with arbitrary keys which the receiver accepts and ignores when unknown.",
    ),
    (
        "PAGE-001",
        "`resources/list`, `resources/templates/list`, `prompts/list` and `tools/list` accept an optional string `cursor` and may return a string `nextCursor`.",
    ),
    ("PAGE-003", "With a cursor the server returns the results which follow the position of that cursor."),
    ("PAGE-007", "Cursors are opaque: they are returned unchanged and are neither parsed nor modified."),
    ("PAGE-009", "An invalid cursor is answered with -32602."),
    ("PAGE-010", "Cursors are stable, so that paging through an unchanged list returns every item exactly once."),
    (
        "PING-003",
        "`ping` is answered promptly with the empty result `{}`, also while other requests are being processed.",
    ),
    ("PROG-002", "A progress token is a string or an integer."),
    ("PROG-003", "A progress token is unique over all active requests of the sender."),
    (
        "PROG-004",
        "`notifications/progress` has `progressToken` (same type and value as in the request) and the number `progress`, and may have the number `total`.",
    ),
    (
        "PROG-007",
        "`progress` grows strictly from one notification to the next for the same token, also without `total`.",
    ),
    ("PROG-009", "Progress is sent only for tokens of requests which are active and still in progress."),
    ("PROG-012", "Active tokens are tracked, and a notification with an unknown token is dropped without an error."),
    ("PROMPT-001", "A server with prompts declares the `prompts` capability."),
    ("PROMPT-002", "`prompts/list` returns an array `prompts` (possibly empty) and optional `nextCursor`."),
    ("PROMPT-003", "Each Prompt has a `name`, and `description` and `arguments` are optional."),
    ("PROMPT-004", "Prompt names are unique within a server."),
    ("PROMPT-005", "Each prompt argument has a `name`; `description` and the boolean `required` are optional."),
    ("PROMPT-007", "`prompts/get` has the string `name` and optional `arguments` whose values are all strings."),
    ("PROMPT-008", "`prompts/get` returns an array `messages` of `{role, content}` and an optional `description`."),
    ("PROMPT-009", "The content of a prompt message is text, image or an embedded resource."),
    ("PROMPT-010", "The content of a prompt message is text, image, audio or an embedded resource."),
    (
        "PROMPT-011",
        "The content of a prompt message is one ContentBlock: text, image, audio, resource_link or embedded resource.",
    ),
    ("PROMPT-012", "An unknown prompt name in `prompts/get` is answered with -32602."),
    ("PROMPT-013", "A missing required argument in `prompts/get` is answered with -32602."),
    ("PROMPT-016", "`notifications/prompts/list_changed` is not sent when `prompts.listChanged` was not declared."),
    ("PROMPT-017", "`notifications/prompts/list_changed` is accepted without any earlier subscription."),
    (
        "RES-001",
        "A server with resources declares the `resources` capability, with `subscribe` and `listChanged` only where supported.",
    ),
    ("RES-002", "`resources/list` returns an array `resources` and optional `nextCursor`."),
    (
        "RES-003",
        "Each Resource has the strings `uri` and `name`; `description`, `mimeType`, `annotations` and `size` are optional.",
    ),
    ("RES-006", "Resource URIs are valid URIs (RFC 3986) and each identifies one resource of the server."),
    ("RES-007", "`resources/read` has the string `uri`."),
    (
        "RES-008",
        "`resources/read` returns an array `contents` whose entries have `uri` and exactly one of `text` and `blob`, and optional `mimeType`.",
    ),
    ("RES-011", "`resources/templates/list` returns an array `resourceTemplates` and optional `nextCursor`."),
    (
        "RES-012",
        "Each ResourceTemplate has `uriTemplate` (RFC 6570) and `name`; `description`, `mimeType` and `annotations` are optional.",
    ),
    ("RES-015", "`notifications/resources/list_changed` is not sent when `resources.listChanged` was not declared."),
    ("RES-016", "`notifications/resources/list_changed` is accepted without any earlier subscription."),
    (
        "RES-017",
        "`resources/subscribe` and `resources/unsubscribe` have the string `uri`, and the server answers each with an empty result.",
    ),
    (
        "RES-023",
        "A URI which is not found is answered with -32002 in all revisions up to 2025-11-25 (with the URI in `data.uri` as in the example).",
    ),
    ("ROOT-003", "`roots/list` returns an array `roots`."),
    ("ROOT-004", "Each root has a `uri` which starts with `file://` and an optional `name`."),
    ("ROOT-007", "A client without roots answers `roots/list` with -32601."),
    ("SAMP-003", "A client without the `sampling` capability answers `sampling/createMessage` with -32601."),
    ("SAMP-010", "The result has `role`, `content` and the string `model`."),
    ("SCHEMA-005", "A schema put into a message is itself valid under its declared or default dialect."),
    ("SEC-002", "Session ids are unpredictable (not sequential or derived from known data)."),
    ("STDIO-004", "Each message is terminated by a newline."),
    ("STDIO-006", "One line holds exactly one JSON-RPC request, notification or response."),
    ("STDIO-007", "The server writes nothing to stdout which is not a valid MCP message (no banners or log lines)."),
    ("STDIO-008", "The client writes nothing to the stdin of the server which is not a valid MCP message."),
    ("STDIO-011", "Shutdown by the client starts with closing the stdin of the child process."),
    ("STDIO-015", "The server ends on its own when its stdin reaches end-of-file."),
    ("STDIO-017", "A line which is not valid JSON does not end the read loop; the next valid line is still processed."),
    (
        "TASK-052",
        "An invalid cursor in `tasks/list` is answered with -32602 (MUST here, while other lists have SHOULD).",
    ),
    ("TASK-053", "An unknown `taskId` in `tasks/get`, `tasks/result` or `tasks/cancel` is answered with -32602."),
    ("TOOL-001", "A server with tools declares the `tools` capability."),
    ("TOOL-002", "`tools/list` returns an array `tools` and optional `nextCursor`."),
    ("TOOL-003", "Each Tool has `name` and `inputSchema`; `description` is optional."),
    ("TOOL-004", "`inputSchema` is a JSON object with `type: \"object\"` at the root."),
    ("TOOL-006", "Tool names are unique within a server, since a name identifies a tool."),
    ("TOOL-007", "Tool names have 1 to 128 characters out of A-Z, a-z, 0-9, underscore, hyphen and dot."),
    ("TOOL-014", "`tools/call` has the string `name` and optional `arguments` which is a JSON object."),
    ("TOOL-021", "A call of an unknown tool is answered with a JSON-RPC error (-32602 in the example)."),
    ("TOOL-027", "`notifications/tools/list_changed` is not sent when `tools.listChanged` was not declared."),
    ("TOOL-028", "`notifications/tools/list_changed` is accepted without any earlier subscription."),
    ("TOOL-029", "`tools/call` and `tools/list` are sent only to servers which declared `tools`."),
    (
        "TOOL-039",
        "`execution.taskSupport` of a tool is `forbidden`, `optional` or `required`, and a missing value equals `forbidden`.",
    ),
];
