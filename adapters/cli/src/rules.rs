//! Rules of the specification that a record can show to be broken: those rows of `tests/requirements` with their texts. A
//! test compares them.

use crate::http_rules::HTTP_RULES;

/// Ids and texts, sorted by id.
pub(crate) const RULES: &[(&str, &str)] = &[
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
    (
        "CANC-013",
        "A cancellation with an unknown, already completed or malformed `requestId` is ignored without an error.",
    ),
    ("COMPL-008", "The result has `completion.values`, an array of at most 100 strings."),
    ("COMPL-011", "Without the capability `completion/complete` is answered with -32601."),
    ("COMPL-012", "An unknown prompt name or a missing required argument is answered with -32602."),
    ("CONT-011", "`data` and `blob` are valid base64 with the standard alphabet."),
    ("CONT-016", "`role` is `user` or `assistant` wherever it occurs."),
    (
        "HTTP-003",
        "The `Origin` header of every incoming request is validated, and a request from a not allowed origin is not processed.",
    ),
    (
        "HTTP-004",
        "A request with a present but invalid `Origin` header is answered with HTTP 403 (earlier revisions leave the status open).",
    ),
    ("HTTP-013", "An accepted response or notification is answered with 202 and an empty body."),
    (
        "HTTP-017",
        "A request is answered with `Content-Type: text/event-stream` or with `Content-Type: application/json` and one JSON object.",
    ),
    ("HTTP-024", "The SSE stream of a POST is terminated after the response was sent."),
    (
        "HTTP-026",
        "Right after opening an SSE stream the server sends an event with an event id and empty `data` so that the client can resume from it.",
    ),
    ("HTTP-037", "A GET is answered with `Content-Type: text/event-stream` or with HTTP 405."),
    (
        "HTTP-047",
        "Event ids, when used, are unique over all streams of the session (or of the client when there is no session).",
    ),
    (
        "HTTP-054",
        "The names `Mcp-Session-Id`, `MCP-Session-Id` and `MCP-Protocol-Version` are matched without regard to case.",
    ),
    ("HTTP-056", "Session ids contain only visible ASCII characters 0x21 to 0x7E."),
    (
        "HTTP-059",
        "A server which requires sessions answers a non-initialize request without the session header with 400.",
    ),
    ("HTTP-060", "A request with the id of a terminated session is answered with 404."),
    ("HTTP-068", "An invalid or unsupported `MCP-Protocol-Version` is answered with 400."),
    (
        "HTTP-069",
        "A session negotiated at 2025-03-26 does not require the `MCP-Protocol-Version` header on requests, because this revision does not define it for the MCP endpoint.",
    ),
    (
        "HTTP-075",
        "The `data` of an SSE event is one JSON-RPC message (or a batch in 2025-03-26), and a payload with line breaks is split over several `data` lines.",
    ),
    ("ICON-002", "Each Icon object has a string `src` which is an http(s) URL or a `data:` URI."),
    ("ICON-003", "`Icon.theme`, when present, is `light` or `dark`."),
    ("LIFE-001", "The first protocol interaction on a new connection is an `initialize` request from the client."),
    ("LIFE-003", "`clientInfo` and `serverInfo` each contain the strings `name` and `version`."),
    (
        "LIFE-004",
        "The result of `initialize` contains the string `protocolVersion`, the object `capabilities` and the object `serverInfo`.",
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
    ("LIFE-025", "Unknown keys in a capabilities object are tolerated, because the set of capabilities is open."),
    (
        "LIFE-026",
        "`capabilities.experimental`, when present, maps names to objects, and the peer can read these entries.",
    ),
    (
        "LIFE-029",
        "Server capabilities use booleans for `prompts.listChanged`, `tools.listChanged`, `resources.listChanged` and `resources.subscribe`, where a missing value equals false.",
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
    ("M-BASE-001", "Every message is a JSON-RPC 2.0 object whose `jsonrpc` member is the string \"2.0\"."),
    ("M-BASE-003", "Every request carries an `id` that is a JSON string or a JSON integer."),
    ("M-BASE-004", "A request `id` is never JSON null."),
    (
        "M-BASE-005",
        "A new request never uses the `id` of another request from the same sender that is still unanswered.",
    ),
    (
        "M-BASE-006",
        "A request whose `id` is null, fractional, boolean, object or array is treated as an invalid request (-32600) instead of being dispatched.",
    ),
    (
        "M-BASE-007",
        "A response carries the same `id` value and JSON type as its request, so \"7\" and 7 stay distinct.",
    ),
    ("M-BASE-008", "A success response has a `result` member that is a JSON object."),
    ("M-BASE-009", "Every result object of a modern request has a string member `resultType`."),
    ("M-BASE-016", "An error response has an `error` object with an integer `code` and a string `message`."),
    ("M-BASE-021", "No response (neither result nor error) is ever sent for a notification."),
    ("M-BASE-022", "A notification has no `id` member."),
    ("M-BASE-023", "A modern server never sends a JSON-RPC request to the client on any transport."),
    ("M-BASE-024", "A modern client never sends a JSON-RPC response message."),
    ("M-BASE-026", "Text which is not valid JSON is answered with -32700."),
    (
        "M-BASE-027",
        "A JSON value that is not a well-formed JSON-RPC request object (e.g. `jsonrpc` or `method` missing or wrongly typed) is answered with -32600.",
    ),
    (
        "M-BASE-028",
        "A request for a method that is unknown, or that belongs to a server capability which the server does not advertise, is answered with -32601.",
    ),
    ("M-BASE-030", "An unexpected fault while serving a request is answered with -32603."),
    ("M-BASE-034", "In -32099..-32020 no code other than -32020, -32021 and -32022 is emitted."),
    ("M-BASE-036", "-32002 is never emitted for a 2026-07-28 request."),
    ("M-BASE-037", "-32042 is never emitted for a 2026-07-28 request."),
    (
        "M-BASE-041",
        "Requests that belong to different tasks, threads or conversations can be interleaved on one connection.",
    ),
    (
        "M-BASE-051",
        "The removed methods `initialize`, `ping`, `logging/setLevel`, `resources/subscribe` and `resources/unsubscribe`, sent with modern `_meta`, are answered with -32601.",
    ),
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
        "M-CACHE-001",
        "Complete results of server/discover, tools/list, prompts/list, resources/list, resources/templates/list and resources/read have `ttlMs` and `cacheScope`.",
    ),
    ("M-CACHE-002", "`ttlMs` is a number >= 0 (an integer count of milliseconds)."),
    ("M-CACHE-003", "`cacheScope` is \"public\" or \"private\"."),
    ("M-CACHE-025", "All pages of one list request have the same `cacheScope`."),
    (
        "M-CANC-002",
        "`notifications/cancelled` has `params.requestId` (string or integer) and optionally a string `reason`.",
    ),
    ("M-CANC-003", "`requestId` names a request that the client itself issued and believes to be in progress."),
    (
        "M-CANC-007",
        "`notifications/cancelled` is not sent by a server for anything but ending a `subscriptions/listen` stream.",
    ),
    ("M-CANC-013", "A cancellation that is malformed or names an unknown or finished request is ignored silently."),
    ("M-COMPL-005", "CompleteResult has `completion.values`, an array of at most 100 strings."),
    ("M-COMPL-008", "`completion/complete` without the capability is answered with -32601."),
    (
        "M-COMPL-009",
        "An unknown prompt or missing argument is answered with -32602 and an internal failure with -32603.",
    ),
    ("M-DISC-001", "`server/discover` is implemented by every server."),
    ("M-DISC-003", "A DiscoverResult has `supportedVersions`, an array of version strings."),
    ("M-DISC-004", "A DiscoverResult has `capabilities`, a ServerCapabilities object."),
    ("M-DISC-005", "A DiscoverResult has `ttlMs`, `cacheScope` and `resultType: \"complete\"`."),
    (
        "M-DISC-011",
        "Methods of a feature that is not advertised (e.g. `prompts/list` without `prompts`) are answered with -32601.",
    ),
    (
        "M-DISC-012",
        "A request for `server/discover` with an unserved protocol version is answered with -32022 like any other method.",
    ),
    ("M-DISC-013", "`data.supported` of -32022 names only versions that `server/discover` also lists."),
    ("M-DUAL-019", "A dual-era server serves a request with modern `_meta` statelessly under the modern rules."),
    (
        "M-DUAL-020",
        "A dual-era server lets an `initialize` request without modern `_meta` select legacy semantics, scoped to the process (stdio) or session (HTTP).",
    ),
    (
        "M-DUAL-021",
        "Both eras can be served at the same time on one endpoint or process, so era state must not be global.",
    ),
    (
        "M-DUAL-023",
        "`initialize` with complete modern `_meta` is answered with -32601 (HTTP 404) like any unknown modern method.",
    ),
    ("M-DUAL-025", "A modern-only stdio server answers `initialize` with a JSON-RPC error (code free to choose)."),
    ("M-HTTP-003", "A present but unacceptable `Origin` is answered with HTTP 403."),
    ("M-HTTP-011", "A POST body that is an array or a response is rejected with an HTTP error status."),
    ("M-HTTP-012", "An accepted notification is answered with 202 and no body."),
    (
        "M-HTTP-015",
        "A request is answered with `Content-Type: application/json` (one JSON object) or `text/event-stream`.",
    ),
    ("M-HTTP-019", "The stream ends right after the final response."),
    (
        "M-HTTP-031",
        "A request whose `MCP-Protocol-Version` differs from the body version is rejected with 400 and -32020, even when one of the two versions is unsupported.",
    ),
    ("M-HTTP-032", "A request whose (agreeing) version is not served is rejected with 400 and -32022."),
    (
        "M-HTTP-033",
        "A method that is not implemented is answered with HTTP 404 and a JSON-RPC error body with code -32601.",
    ),
    ("M-HTTP-040", "A request without `Mcp-Method` is rejected with 400 and -32020."),
    (
        "M-HTTP-041",
        "A `tools/call`, `prompts/get` or `resources/read` request without `Mcp-Name` is rejected with 400 and -32020.",
    ),
    (
        "M-HTTP-042",
        "An `Mcp-Method` that differs from the body's `method` (compared case-sensitively) is rejected with 400 and -32020.",
    ),
    ("M-HTTP-043", "An `Mcp-Name` that after decoding differs from the body's value is rejected with 400 and -32020."),
    ("M-HTTP-045", "A HeaderMismatch rejection has a JSON-RPC error body that repeats the request `id`."),
    ("M-HTTP-046", "Header names are compared case-insensitively."),
    (
        "M-HTTP-048",
        "Optional whitespace around a header value is removed before comparison (`Mcp-Name:  foo ` equals foo).",
    ),
    ("M-HTTP-052", "An `x-mcp-header` value is not empty."),
    (
        "M-HTTP-053",
        "An `x-mcp-header` value is an RFC 9110 token (1*tchar), thus without space, colon, control or non-ASCII characters.",
    ),
    ("M-HTTP-054", "`x-mcp-header` values are unique within one inputSchema under case-insensitive comparison."),
    (
        "M-HTTP-055",
        "`x-mcp-header` is put only on properties of type integer, string or boolean, never on number, array, object or null.",
    ),
    ("M-HTTP-068", "Encoded `Mcp-Name` and `Mcp-Param-*` values are decoded before comparison with the body."),
    ("M-HTTP-069", "A sentinel whose payload is not valid padded base64 is rejected with 400 and -32020."),
    ("M-HTTP-080", "An unrecognised `Mcp-Param-*` header is ignored."),
    ("M-HTTP-086", "A modern-only endpoint answers GET and DELETE with 405."),
    ("M-HTTP-087", "A modern-only endpoint ignores `Mcp-Session-Id` and never mints or echoes one."),
    ("M-HTTP-097", "Each SSE event carries exactly one JSON-RPC message in its data."),
    (
        "M-LOG-002",
        "`notifications/message` is not emitted for a request without `_meta[\"io.modelcontextprotocol/logLevel\"]`.",
    ),
    ("M-LOG-007", "A request with an unknown log level is rejected with -32602."),
    (
        "M-META-001",
        "Every request (including list and discover requests) has `params._meta` with the string `io.modelcontextprotocol/protocolVersion`.",
    ),
    ("M-META-005", "A request without `params` or without `_meta` is rejected with -32602."),
    ("M-META-006", "A request whose `_meta` has no `io.modelcontextprotocol/protocolVersion` is rejected with -32602."),
    (
        "M-META-007",
        "A request whose `_meta` has no `io.modelcontextprotocol/clientCapabilities` is rejected with -32602.",
    ),
    ("M-META-008", "On HTTP the rejection of a request for a missing required `_meta` field has status 400."),
    (
        "M-META-009",
        "A required `_meta` field of the wrong JSON type (version not a string, capabilities not an object) is rejected like a missing one.",
    ),
    ("M-META-010", "A request is not rejected merely because `clientInfo` is absent."),
    (
        "M-META-016",
        "Every result has `_meta[\"io.modelcontextprotocol/serverInfo\"]` unless the server is configured to withhold it.",
    ),
    ("M-META-017", "`serverInfo`, when present, is an Implementation object with string members `name` and `version`."),
    (
        "M-META-029",
        "Unknown members inside ClientCapabilities and ServerCapabilities are accepted, because the capability sets are open.",
    ),
    ("M-META-031", "`experimental` and `extensions` in a capabilities object are maps whose values are JSON objects."),
    (
        "M-META-032",
        "`prompts.listChanged`, `resources.listChanged`, `resources.subscribe` and `tools.listChanged` are booleans when present, and absence means false.",
    ),
    (
        "M-PAGE-001",
        "Pagination exists for resources/list, resources/templates/list, prompts/list and tools/list, by `params.cursor` and `result.nextCursor` (strings).",
    ),
    ("M-PAGE-008", "An invalid cursor is answered with -32602."),
    (
        "M-PROG-004",
        "`notifications/progress` has `progressToken` (same value and JSON type as in the request) and a numeric `progress`.",
    ),
    ("M-PROG-006", "`progress` grows with each notification of the same token, with or without a `total`."),
    ("M-PROG-009", "Progress notifications name only tokens of requests that are active and in progress."),
    ("M-PROG-016", "No progress notification is sent for a request without a `progressToken`."),
    ("M-PROMPT-005", "ListPromptsResult has array `prompts`, `ttlMs`, `cacheScope` and optional `nextCursor`."),
    (
        "M-PROMPT-006",
        "A Prompt has string `name`; `title`, `description`, `icons`, `arguments` and `_meta` are optional.",
    ),
    ("M-PROMPT-007", "A PromptArgument has string `name`; `title`, `description` and boolean `required` are optional."),
    (
        "M-PROMPT-009",
        "GetPromptResult has array `messages` of {role, content} with a single content block each; `description` is optional and no caching hints are defined.",
    ),
    ("M-PROMPT-010", "An unknown prompt name is answered with -32602."),
    ("M-PROMPT-011", "Missing required prompt arguments are answered with -32602."),
    ("M-RES-006", "ListResourcesResult has array `resources`, `ttlMs`, `cacheScope` and optional `nextCursor`."),
    (
        "M-RES-007",
        "ListResourceTemplatesResult has array `resourceTemplates`, `ttlMs`, `cacheScope` and optional `nextCursor`.",
    ),
    (
        "M-RES-008",
        "A Resource has string `uri` (URI) and string `name`; `size`, when present, is an integer count of bytes.",
    ),
    ("M-RES-009", "A ResourceTemplate has string `uriTemplate` (RFC 6570) and string `name`."),
    ("M-RES-011", "ReadResourceResult has array `contents`, `ttlMs` and `cacheScope`."),
    ("M-RES-012", "Each item of `contents` has string `uri` and either string `text` or base64 string `blob`."),
    ("M-RES-015", "A read of a resource that does not exist is answered with -32602."),
    ("M-SCHEMA-006", "A sent schema is valid under its dialect."),
    ("M-STDIO-001", "A serialised message contains no newline character; each message occupies exactly one line."),
    (
        "M-STDIO-002",
        "Each line is a single JSON-RPC request, notification or response; arrays (batches) are not valid lines.",
    ),
    ("M-STDIO-003", "Nothing but valid MCP messages is written to stdout."),
    ("M-STDIO-004", "Nothing but valid MCP messages is written to the server's stdin."),
    ("M-STDIO-016", "The server exits promptly on end-of-file at stdin."),
    ("M-SUBS-003", "A `subscriptions/listen` request without `notifications` is rejected with -32602."),
    (
        "M-SUBS-005",
        "The first message of a subscription is `notifications/subscriptions/acknowledged` with `_meta[\"io.modelcontextprotocol/subscriptionId\"]`.",
    ),
    ("M-SUBS-006", "No notification of a subscription precedes its acknowledgment."),
    (
        "M-SUBS-008",
        "The acknowledgment has `params.notifications`, the subset of the filter that the server will honour, with unsupported types left out.",
    ),
    (
        "M-SUBS-010",
        "Every notification of a subscription carries `_meta[\"io.modelcontextprotocol/subscriptionId\"]` equal to the JSON-RPC id of the listen request, with the same JSON type.",
    ),
    ("M-SUBS-015", "After the client has cancelled a subscription nothing more is sent for it, not even a result."),
    (
        "M-SUBS-026",
        "On HTTP `subscriptions/listen` is answered with `text/event-stream` and the first JSON-RPC message on it is the acknowledgment.",
    ),
    (
        "M-SUBS-031",
        "`subscriptions/listen` belongs to the base patterns, so it is answered by an acknowledgment with an empty filter when nothing requested is supported.",
    ),
    ("M-TOOL-005", "Tools are listed in the same order as long as the set is unchanged."),
    ("M-TOOL-006", "ListToolsResult has array `tools`, `ttlMs`, `cacheScope` and optional `nextCursor`."),
    ("M-TOOL-007", "A Tool has string `name` and object `inputSchema` whose root has `type: \"object\"`."),
    ("M-TOOL-018", "An unknown tool name is answered with a JSON-RPC error (-32602), not with `isError`."),
    (
        "M-TOOL-019",
        "A `tools/call` that violates the CallToolRequest shape is answered with a JSON-RPC error (-32602).",
    ),
    ("M-TOOL-026", "Tool names are unique within the server and compared case-sensitively."),
    (
        "META-001",
        "A request may carry `params._meta`, a notification `params._meta`, and a result `_meta`, each an object with arbitrary keys which the receiver accepts and ignores when unknown.",
    ),
    (
        "PAGE-001",
        "`resources/list`, `resources/templates/list`, `prompts/list` and `tools/list` accept an optional string `cursor` and may return a string `nextCursor`.",
    ),
    ("PAGE-009", "An invalid cursor is answered with -32602."),
    ("PAGE-010", "Cursors are stable, so that paging through an unchanged list returns every item exactly once."),
    (
        "PING-003",
        "`ping` is answered promptly with the empty result `{}`, also while other requests are being processed.",
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
    ("PROMPT-001", "A server with prompts declares the `prompts` capability."),
    ("PROMPT-002", "`prompts/list` returns an array `prompts` (possibly empty) and optional `nextCursor`."),
    ("PROMPT-003", "Each Prompt has a `name`, and `description` and `arguments` are optional."),
    ("PROMPT-004", "Prompt names are unique within a server."),
    ("PROMPT-005", "Each prompt argument has a `name`; `description` and the boolean `required` are optional."),
    ("PROMPT-008", "`prompts/get` returns an array `messages` of `{role, content}` and an optional `description`."),
    ("PROMPT-012", "An unknown prompt name in `prompts/get` is answered with -32602."),
    ("PROMPT-013", "A missing required argument in `prompts/get` is answered with -32602."),
    ("PROMPT-016", "`notifications/prompts/list_changed` is not sent when `prompts.listChanged` was not declared."),
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
    (
        "RES-017",
        "`resources/subscribe` and `resources/unsubscribe` have the string `uri`, and the server answers each with an empty result.",
    ),
    (
        "RES-023",
        "A URI which is not found is answered with -32002 in all revisions up to 2025-11-25 (with the URI in `data.uri` as in the example).",
    ),
    ("SCHEMA-005", "A schema put into a message is itself valid under its declared or default dialect."),
    ("SEC-002", "Session ids are unpredictable (not sequential or derived from known data)."),
    ("STDIO-004", "Each message is terminated by a newline."),
    ("STDIO-006", "One line holds exactly one JSON-RPC request, notification or response."),
    ("STDIO-007", "The server writes nothing to stdout which is not a valid MCP message (no banners or log lines)."),
    ("STDIO-008", "The client writes nothing to the stdin of the server which is not a valid MCP message."),
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
    ("TOOL-021", "A call of an unknown tool is answered with a JSON-RPC error (-32602 in the example)."),
    ("TOOL-027", "`notifications/tools/list_changed` is not sent when `tools.listChanged` was not declared."),
    (
        "TOOL-039",
        "`execution.taskSupport` of a tool is `forbidden`, `optional` or `required`, and a missing value equals `forbidden`.",
    ),
];

/// Returns the text of a rule.
pub(crate) fn text(id: &str) -> &'static str {
    let find =
        |rules: &[(&str, &'static str)]| rules.binary_search_by_key(&id, |(id, _)| id).ok().map(|at| rules[at].1);
    find(RULES).or_else(|| find(HTTP_RULES)).unwrap_or_default()
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
        assert!(RULES.is_sorted() && HTTP_RULES.is_sorted());
        for (id, text) in RULES.iter().chain(HTTP_RULES) {
            let row = tables.lines().find(|row| row.starts_with(&format!("{id},"))).expect(id);
            assert!(row.contains(&text.replace('"', "\"\"")), "{id}: {row}");
        }
    }
}
