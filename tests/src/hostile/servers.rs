//! Servers that attack clients.

use super::{Ending, HostilePeer, PeerIo, clients::junk};

/// All hostile servers.
pub const SERVERS: &[HostilePeer] = &[
    HostilePeer::new("repeated_responses", 150, repeated_responses),
    HostilePeer::new("invalid_results", 150, invalid_results),
    HostilePeer::new("responses_to_other_ids", 150, responses_to_other_ids),
    HostilePeer::new("maximal_results", 100, maximal_results),
    HostilePeer::new("maximal_errors", 100, maximal_errors),
    HostilePeer::new("no_responses", 150, |_, _| {}),
    HostilePeer::new("no_responses_and_no_reading", 150, |_, _| {}).not_reading(),
    HostilePeer::new("silence", 100, |_, _| {}).without_handshake(),
    HostilePeer::new("request_flood", 150, request_flood),
    HostilePeer::new("unread_request_flood", 150, request_flood).not_reading(),
    HostilePeer::new("ping_flood", 150, ping_flood),
    HostilePeer::new("notification_flood", 150, notification_flood),
    HostilePeer::new("known_notification_flood", 150, known_notification_flood),
    HostilePeer::new("progress_flood", 100, progress_flood),
    HostilePeer::new("cancellation_flood", 100, cancellation_flood),
    HostilePeer::new("endless_input_requests", 150, endless_input_requests),
    HostilePeer::new("maximal_input_requests", 100, maximal_input_requests),
    HostilePeer::new("endless_deferrals", 150, endless_deferrals),
    HostilePeer::new("endless_tasks", 150, endless_tasks),
    HostilePeer::new("tasks_with_endless_input_requests", 150, tasks_with_endless_input_requests),
    HostilePeer::new("large_task_ids", 100, large_task_ids),
    HostilePeer::new("oversized_acknowledgements", 100, oversized_acknowledgements),
    HostilePeer::new("immediately_ended_subscriptions", 150, immediately_ended_subscriptions),
    HostilePeer::new("cacheable_lists", 150, cacheable_lists),
    HostilePeer::new("unsupported_revisions", 150, unsupported_revisions),
    HostilePeer::new("oversized_server_capabilities", 20, oversized_server_capabilities).without_handshake(),
    HostilePeer::new("slow_input", 50, |io, _| io.raw(&[b'x'; 1000])).dripping(),
    HostilePeer::new("endless_line", 200, |io, _| io.raw(&[b'['; 4096])),
    HostilePeer::new("deep_nesting", 200, deep_nesting),
    HostilePeer::new("junk", 150, junk),
    HostilePeer::new("noise_before_handshake", 150, |io, step| io.line(&format!("starting {step} ...")))
        .without_handshake(),
    HostilePeer::new("partial_line_and_half_close", 50, partial_line).ending_with(Ending::HalfCloses),
    HostilePeer::new("unread_half_close", 50, partial_line).not_reading().ending_with(Ending::HalfCloses),
    HostilePeer::new("disconnect_in_a_line", 50, partial_line).ending_with(Ending::Disconnects),
];

const DONE: &str =
    r#"{"resultType":"complete","content":[],"tools":[],"contents":[],"ttlMs":0,"cacheScope":"private"}"#;

fn repeated_responses(io: &mut PeerIo, _: u64) {
    while let Some(request) = io.next_request() {
        io.respond(&request.id, DONE);
        io.respond(&request.id, DONE);
        io.respond_error(&request.id, -32603, "");
    }
}

fn invalid_results(io: &mut PeerIo, step: u64) {
    const WRONG: [&str; 10] = [
        "7",
        "null",
        "[]",
        "\"x\"",
        r#"{"resultType":7}"#,
        r#"{"resultType":"unknown type"}"#,
        r#"{"resultType":"input_required"}"#,
        r#"{"resultType":"input_required","inputRequests":[]}"#,
        r#"{"resultType":"task"}"#,
        r#"{"resultType":"task","taskId":7,"status":[]}"#,
    ];
    while let Some(request) = io.next_request() {
        match step % 12 {
            10 => io.line(&format!(r#"{{"jsonrpc":"2.0","id":{}}}"#, request.id)),
            11 => io.line(&format!(r#"{{"jsonrpc":"2.0","id":{},"error":"no"}}"#, request.id)),
            kind => io.respond(&request.id, WRONG[kind as usize]),
        }
    }
}

fn responses_to_other_ids(io: &mut PeerIo, step: u64) {
    while let Some(request) = io.next_request() {
        let id = &request.id;
        for other in [format!("\"{id}\""), format!("{id}.0"), format!("-{id}"), format!("{id}000"), format!("{id}e0")] {
            io.respond(&other, DONE);
        }
    }
    for id in [step, step + 1, 1, 0, u64::MAX] {
        io.respond_error(&id.to_string(), -32603, "");
    }
    io.line(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#);
}

fn maximal_results(io: &mut PeerIo, step: u64) {
    let room = io.frame_bytes - 200;
    while let Some(request) = io.next_request() {
        let result = match step % 4 {
            0 => format!(r#"{{"pad":"{}"}}"#, "x".repeat(room)),
            1 => format!("{{{}}}", PeerIo::fill(room, |number| format!(r#""{number:x}":0"#))),
            2 => format!(r#"{{"content":[{}]}}"#, PeerIo::fill(room, |_| r#"{"type":"text","text":""}"#.to_owned())),
            _ => format!(r#"{{"pad":"{}"}}"#, "x".repeat(2 * room)),
        };
        io.respond(&request.id, &result);
    }
}

fn maximal_errors(io: &mut PeerIo, step: u64) {
    let room = io.frame_bytes - 120;
    while let Some(request) = io.next_request() {
        // Empty strings are the elements that take the most memory for each byte of the text.
        let data = match step % 4 {
            0 | 1 => PeerIo::fill(room, |number| format!("\"{number:x}\"")),
            _ => PeerIo::fill(room, |_| "\"\"".to_owned()),
        };
        match step % 2 {
            0 => io.respond_error(&request.id, -32603, &format!(r#","data":[{data}]"#)),
            _ => io.respond_error(&request.id, -32022, &format!(r#","data":{{"supported":[{data}],"requested":"x"}}"#)),
        }
    }
}

fn request_flood(io: &mut PeerIo, step: u64) {
    const METHODS: [&str; 5] = ["roots/list", "sampling/createMessage", "elicitation/create", "vendor/b", "tools/call"];
    for number in 0..10 {
        let id = step * 10 + number;
        let pad = "x".repeat(id as usize * 37 % (io.frame_bytes / 2));
        let members = format!(r#""message":"m","requestedSchema":{{}},"messages":[],"maxTokens":1,"pad":"{pad}""#);
        io.request(id, METHODS[number as usize % METHODS.len()], &members);
    }
}

fn ping_flood(io: &mut PeerIo, step: u64) {
    (0..20).for_each(|number| io.request(step * 20 + number, "ping", ""));
}

fn notification_flood(io: &mut PeerIo, step: u64) {
    let pad = "x".repeat(step as usize * 53 % (io.frame_bytes / 2));
    for number in 0..10 {
        io.notify("notifications/message", &format!(r#""level":"emergency","data":"{pad}","logger":"l{number}""#));
        io.notify(&format!("vendor/n{number}"), "");
    }
}

fn known_notification_flood(io: &mut PeerIo, step: u64) {
    let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{}}}"#, step % 20);
    let params = format!(
        r#"{meta},"uri":"test://{step}","requestId":"{step}","taskId":"t","status":"working","elicitationId":"{step}""#
    );
    let methods = [
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
        "notifications/tasks/status",
        "notifications/tasks",
        "notifications/elicitation/complete",
        "notifications/subscriptions/acknowledged",
        "notifications/initialized",
        "notifications/roots/list_changed",
    ];
    methods.iter().for_each(|method| io.notify(method, &params));
}

fn progress_flood(io: &mut PeerIo, step: u64) {
    let message = "m".repeat(step as usize * 31 % 5000);
    while let Some(request) = io.next_request() {
        let token = request.token.unwrap_or(request.id);
        for number in 0..20 {
            let params = format!(r#""progressToken":{token},"progress":{},"message":"{message}""#, 20 - number);
            io.notify("notifications/progress", &params);
        }
    }
    for token in [step.to_string(), "null".to_owned(), "\"x\"".to_owned(), "1e99".to_owned()] {
        io.notify("notifications/progress", &format!(r#""progressToken":{token},"progress":1"#));
    }
}

fn cancellation_flood(io: &mut PeerIo, step: u64) {
    while let Some(request) = io.next_request() {
        for _ in 0..5 {
            io.notify("notifications/cancelled", &format!(r#""requestId":{},"reason":"no""#, request.id));
        }
        io.respond(&request.id, DONE);
    }
    io.request(step, "roots/list", "");
    for id in [step, step, step + 1, step / 2] {
        io.notify("notifications/cancelled", &format!(r#""requestId":{id}"#));
    }
}

fn input_requests(name: &str, count: usize) -> String {
    let requests = (0..count).map(|number| {
        let method = ["roots/list", "sampling/createMessage"][number % 2];
        format!(r#""{name}{number}":{{"method":"{method}","params":{{"messages":[],"maxTokens":1}}}}"#)
    });
    requests.collect::<Vec<_>>().join(",")
}

fn endless_input_requests(io: &mut PeerIo, step: u64) {
    while let Some(request) = io.next_request() {
        let requests = input_requests("q", 1 + step as usize % 40);
        let result = format!(r#"{{"resultType":"input_required","inputRequests":{{{requests}}},"requestState":"s"}}"#);
        io.respond(&request.id, &result);
    }
}

fn maximal_input_requests(io: &mut PeerIo, step: u64) {
    let room = io.frame_bytes - 400;
    while let Some(request) = io.next_request() {
        let long = "q".repeat(room);
        let result = match step % 4 {
            0 => format!(r#""inputRequests":{{"{long}":{{"method":"roots/list"}}}}"#),
            1 => format!(r#""inputRequests":{{"q":{{"method":"roots/list","params":{{"p":"{long}"}}}}}}"#),
            2 => format!(r#""requestState":"{long}""#),
            _ => {
                let many = PeerIo::fill(room, |number| format!(r#""{number:x}":{{"method":"roots/list"}}"#));
                format!(r#""inputRequests":{{{many}}}"#)
            }
        };
        io.respond(&request.id, &format!(r#"{{"resultType":"input_required",{result}}}"#));
    }
}

fn endless_deferrals(io: &mut PeerIo, step: u64) {
    while let Some(request) = io.next_request() {
        let state = format!(r#"{{"resultType":"input_required","requestState":"{step}"}}"#);
        io.respond(&request.id, &state);
    }
}

fn task(id: &str, status: &str, more: &str) -> String {
    let times = r#""createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null,"ttl":null"#;
    format!(r#""taskId":"{id}","status":"{status}",{times},"pollIntervalMs":1{more}"#)
}

/// Responds as a server that creates a task for each request, in either era.
fn make_task(io: &mut PeerIo, request: &super::ReceivedRequest, id: &str, status: &str, more: &str) {
    let about = task(id, status, more);
    match request.method.as_str() {
        "tools/call" => {
            io.respond(&request.id, &format!(r#"{{"resultType":"task","task":{{{about}}},{about}}}"#));
        }
        _ => io.respond(&request.id, &format!(r#"{{"resultType":"complete",{about}}}"#)),
    }
}

fn endless_tasks(io: &mut PeerIo, step: u64) {
    while let Some(request) = io.next_request() {
        make_task(io, &request, &format!("t{step}"), "working", "");
        if let Some(token) = &request.token {
            io.notify("notifications/progress", &format!(r#""progressToken":{token},"progress":{step}"#));
        }
    }
    let about = task(&format!("t{}", step / 2), "working", "");
    io.notify("notifications/tasks", &about);
    io.notify("notifications/tasks/status", &about);
}

fn tasks_with_endless_input_requests(io: &mut PeerIo, step: u64) {
    let requests = input_requests(&format!("{step}-"), 20);
    let more = format!(r#","inputRequests":{{{requests}}}"#);
    while let Some(request) = io.next_request() {
        make_task(io, &request, "t", "input_required", &more);
    }
    io.notify("notifications/tasks", &task("t", "input_required", &more));
}

fn large_task_ids(io: &mut PeerIo, step: u64) {
    let status = if step.is_multiple_of(2) { "working" } else { "input_required" };
    while let Some(request) = io.next_request() {
        // Each request gets an id of its own, in a message as large as the limit.
        let id = format!("{}{}", request.id.replace('"', ""), "t".repeat(io.frame_bytes - 400));
        make_task(io, &request, &id, status, "");
    }
}

fn oversized_acknowledgements(io: &mut PeerIo, step: u64) {
    let names = PeerIo::fill(io.frame_bytes - 400, |number| format!("\"{number:x}\""));
    let member = if step.is_multiple_of(2) { "resourceSubscriptions" } else { "taskIds" };
    while let Some(request) = io.next_request() {
        if request.method == "subscriptions/listen" {
            let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{}}}"#, request.id);
            let params = format!(r#"{meta},"notifications":{{"toolsListChanged":true,"{member}":[{names}]}}"#);
            io.notify("notifications/subscriptions/acknowledged", &params);
        } else {
            io.respond(&request.id, DONE);
        }
    }
}

fn immediately_ended_subscriptions(io: &mut PeerIo, step: u64) {
    while let Some(request) = io.next_request() {
        if step.is_multiple_of(2) {
            io.notify("notifications/cancelled", &format!(r#""requestId":{}"#, request.id));
        }
        io.respond(&request.id, r#"{"resultType":"complete"}"#);
    }
}

fn cacheable_lists(io: &mut PeerIo, step: u64) {
    let pad = "x".repeat(step as usize * 97 % (io.frame_bytes - 400));
    while let Some(request) = io.next_request() {
        let good = r#""ttlMs":9007199254740991,"cacheScope":"public","nextCursor":"more""#;
        io.respond(
            &request.id,
            &format!(r#"{{"resultType":"complete","tools":[],"contents":[],{good},"pad":"{pad}"}}"#),
        );
    }
}

fn unsupported_revisions(io: &mut PeerIo, step: u64) {
    let supported = ["2026-07-28", "2025-11-25", "2024-11-05", "1999-01-01"][step as usize % 4];
    while let Some(request) = io.next_request() {
        io.respond_error(&request.id, -32022, &format!(r#","data":{{"supported":["{supported}"],"requested":"x"}}"#));
    }
}

fn oversized_server_capabilities(io: &mut PeerIo, step: u64) {
    let members = PeerIo::fill(io.frame_bytes - 800, |number| format!(r#""{number:x}":{{}}"#));
    let capabilities = match step % 3 {
        0 => format!(r#"{{"experimental":{{{members}}}}}"#),
        1 => format!("{{{members}}}"),
        _ => format!(r#"{{"extensions":{{{members}}}}}"#),
    };
    while let Some(request) = io.next_request() {
        let offer = io.handshake_result(&capabilities, "");
        io.respond(&request.id, &offer);
    }
}

fn deep_nesting(io: &mut PeerIo, step: u64) {
    let depth = (60 + step as usize * 31).min(io.frame_bytes / 8);
    let (open, close) = if step.is_multiple_of(2) { ("[", "]") } else { (r#"{"a":"#, "}") };
    let nested = format!("{}0{}", open.repeat(depth), close.repeat(depth));
    while let Some(request) = io.next_request() {
        io.respond(&request.id, &format!(r#"{{"content":{nested}}}"#));
    }
    io.notify("notifications/message", &format!(r#""level":"info","data":{nested}"#));
    io.line(&open.repeat(depth));
}

fn partial_line(io: &mut PeerIo, step: u64) {
    if step == 49 {
        io.raw(br#"{"jsonrpc":"2.0","id":1,"result":{"content":["#);
    } else {
        io.notify("vendor/x", "");
    }
}
