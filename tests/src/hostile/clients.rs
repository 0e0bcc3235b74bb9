//! Clients that attack servers.

use super::{Ending, HostilePeer, PeerIo};

/// All hostile clients.
pub const CLIENTS: &[HostilePeer] = &[
    HostilePeer::new("request_flood", 200, request_flood),
    HostilePeer::new("unread_request_flood", 200, request_flood).not_reading(),
    HostilePeer::new("ping_flood", 200, ping_flood),
    HostilePeer::new("unread_ping_flood", 200, ping_flood).not_reading(),
    HostilePeer::new("notification_flood", 150, notification_flood),
    HostilePeer::new("known_notification_flood", 150, known_notification_flood),
    HostilePeer::new("slow_input", 100, endless_line).dripping(),
    HostilePeer::new("slow_input_before_handshake", 10, endless_line).dripping().without_handshake(),
    HostilePeer::new("endless_line", 200, endless_line),
    HostilePeer::new("endless_line_before_handshake", 200, endless_line).without_handshake(),
    HostilePeer::new("oversized_lines", 100, oversized_lines),
    HostilePeer::new("maximal_lines", 100, maximal_lines),
    HostilePeer::new("unread_maximal_lines", 100, maximal_lines).not_reading(),
    HostilePeer::new("deep_nesting", 200, deep_nesting),
    HostilePeer::new("invalid_and_repeated_ids", 150, invalid_and_repeated_ids),
    HostilePeer::new("large_ids", 200, large_ids),
    HostilePeer::new("large_tokens", 200, large_tokens),
    HostilePeer::new("cancellation_flood", 150, cancellation_flood),
    HostilePeer::new("immediate_cancellations", 100, immediate_cancellations),
    HostilePeer::new("progress_flood", 100, progress_flood),
    HostilePeer::new("unsolicited_responses", 150, unsolicited_responses),
    HostilePeer::new("partial_line_and_half_close", 100, partial_line).ending_with(Ending::HalfCloses),
    HostilePeer::new("requests_and_half_close", 100, request_flood).ending_with(Ending::HalfCloses),
    HostilePeer::new("unread_half_close", 100, request_flood).not_reading().ending_with(Ending::HalfCloses),
    HostilePeer::new("requests_and_disconnect", 100, request_flood).ending_with(Ending::Disconnects),
    HostilePeer::new("silence", 1, |_, _| {}).without_handshake(),
    HostilePeer::new("junk", 150, junk),
    HostilePeer::new("junk_before_handshake", 150, junk).without_handshake(),
    HostilePeer::new("batches", 100, batches),
    HostilePeer::new("repeated_handshakes", 100, repeated_handshakes),
    HostilePeer::new("oversized_handshake_capabilities", 20, oversized_handshake_capabilities).without_handshake(),
    HostilePeer::new("oversized_request_capabilities", 200, oversized_request_capabilities),
    HostilePeer::new("subscription_flood", 100, subscription_flood),
    HostilePeer::new("maximal_subscription_filters", 100, maximal_subscription_filters),
];

/// Methods that applications handle, and some that they do not.
const METHODS: [&str; 6] = ["vendor/a", "tools/call", "tools/list", "resources/read", "logging/setLevel", "tasks/get"];

fn request_flood(io: &mut PeerIo, step: u64) {
    for number in 0..10 {
        let id = step * 10 + number;
        let pad = "x".repeat(id as usize * 37 % (io.frame_bytes / 2));
        let method = METHODS[id as usize % METHODS.len()];
        let members = format!(r#""name":"t","uri":"test://a","level":"info","taskId":"t","pad":"{pad}""#);
        io.request_with(id, method, &members, "{}", &format!(r#""progressToken":{id}"#));
    }
}

fn ping_flood(io: &mut PeerIo, step: u64) {
    let method = if io.is_modern() { "server/discover" } else { "ping" };
    (0..20).for_each(|number| io.request(step * 20 + number, method, ""));
}

fn notification_flood(io: &mut PeerIo, step: u64) {
    let pad = "x".repeat(step as usize * 53 % (io.frame_bytes / 2));
    (0..10).for_each(|number| io.notify(&format!("vendor/n{number}"), &format!(r#""pad":"{pad}""#)));
}

fn known_notification_flood(io: &mut PeerIo, step: u64) {
    let params = format!(r#""uri":"test://{step}","level":"info","data":{step},"taskId":"{step}","status":"working""#);
    let methods = [
        "notifications/initialized",
        "notifications/roots/list_changed",
        "notifications/tools/list_changed",
        "notifications/resources/updated",
        "notifications/message",
        "notifications/tasks/status",
        "notifications/tasks",
        "notifications/subscriptions/acknowledged",
        "notifications/elicitation/complete",
        "tools/call",
    ];
    methods.iter().for_each(|method| io.notify(method, &params));
}

fn endless_line(io: &mut PeerIo, step: u64) {
    if step == 0 {
        io.raw(br#"{"jsonrpc":"2.0","id":1,"method":"vendor/a","params":{"a":""#);
    }
    io.raw(&[b'x'; 1000]);
}

fn oversized_lines(io: &mut PeerIo, step: u64) {
    let pad = "x".repeat(io.frame_bytes * (1 + step as usize % 4));
    match step % 3 {
        0 => io.request(step, "vendor/a", &format!(r#""pad":"{pad}""#)),
        1 => io.notify("vendor/a", &format!(r#""pad":"{pad}""#)),
        _ => io.line(&format!(r#"{{"jsonrpc":"2.0","pad":"{pad}","id":{step},"method":"vendor/a"}}"#)),
    }
}

fn maximal_lines(io: &mut PeerIo, step: u64) {
    let room = io.frame_bytes - 800;
    let filled = match step % 4 {
        0 => format!(r#""pad":"{}""#, "x".repeat(room)),
        1 => format!(r#""pad":[{}]"#, PeerIo::fill(room, |_| "0".to_owned())),
        2 => PeerIo::fill(room, |number| format!(r#""{number}":0"#)),
        _ => format!(r#""pad":"{}""#, "\\u0000".repeat(room / 6)),
    };
    match step % 8 {
        0..7 => io.request_with(step, METHODS[step as usize % METHODS.len()], &filled, "{}", ""),
        _ => io.notify("vendor/a", &filled),
    }
}

fn deep_nesting(io: &mut PeerIo, step: u64) {
    let depth = 60 + step as usize * 31;
    let depth = depth.min(io.frame_bytes / 8);
    let (open, close) = if step.is_multiple_of(2) { ("[", "]") } else { (r#"{"a":"#, "}") };
    let nested = format!("{}0{}", open.repeat(depth), close.repeat(depth));
    match step % 5 {
        0 => io.line(&nested),
        1 => io.request(step, "vendor/a", &format!(r#""a":{nested}"#)),
        2 => io.line(&format!(r#"{{"jsonrpc":"2.0","id":{nested},"method":"vendor/a"}}"#)),
        3 => io.line(&open.repeat(depth)),
        _ => io.request(step, "tools/call", &format!(r#""name":"t","arguments":{{"a":{nested}}}"#)),
    }
}

fn invalid_and_repeated_ids(io: &mut PeerIo, step: u64) {
    // Ids twice in a row, of requests that have ended and of requests that have not.
    for id in [step, step, step / 2, 0] {
        io.request(id, "vendor/a", "");
    }
    let same = [
        format!("\"{step}\""),
        format!("{step}.0"),
        format!("{step}e0"),
        format!("-{step}"),
        format!("\"\\u003{}\"", step % 10),
    ];
    same.iter().for_each(|id| io.request(id, "vendor/a", ""));
    const NONE: [&str; 12] = [
        "null",
        "true",
        "1.5",
        "{}",
        "[1]",
        "\"\"",
        "1e400",
        "-0",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775809",
        "99999999999999999999999999999999999999",
    ];
    NONE.iter().for_each(|id| io.request(id, "vendor/a", ""));
    io.line(&format!(r#"{{"jsonrpc":"2.0","id":{step},"id":{},"method":"vendor/a"}}"#, step + 1));
}

fn large_ids(io: &mut PeerIo, step: u64) {
    let id = format!("\"{step}{}\"", "i".repeat(io.frame_bytes - 800));
    let method = ["vendor/a", "ping", "subscriptions/listen", "server/discover"][step as usize % 4];
    io.request_with(&id, method, r#""notifications":{"toolsListChanged":true}"#, "{}", "");
    if step.is_multiple_of(2) {
        io.notify("notifications/cancelled", &format!(r#""requestId":{id}"#));
    }
}

fn large_tokens(io: &mut PeerIo, step: u64) {
    let long = "t".repeat(io.frame_bytes / 3 - 300);
    let meta = format!(
        r#""progressToken":"{long}","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a={long}","baggage":"b={long}""#
    );
    io.request_with(step, "vendor/a", "", "{}", &meta);
}

fn cancellation_flood(io: &mut PeerIo, step: u64) {
    io.request(step, "vendor/a", "");
    for id in [step, step, step + 1, step / 2, 1 << 60] {
        io.notify("notifications/cancelled", &format!(r#""requestId":{id},"reason":"{}""#, "r".repeat(2000)));
        io.notify("notifications/cancelled", &format!(r#""requestId":"{id}""#));
    }
    for params in ["", r#""requestId":null"#, r#""requestId":{}"#, r#""requestId":"hello""#, r#""requestId":1.5"#] {
        io.notify("notifications/cancelled", params);
    }
}

fn immediate_cancellations(io: &mut PeerIo, step: u64) {
    // One id that is always the same, and one that is always new.
    for id in [0, step + 1] {
        io.request(id, "vendor/a", r#""pad":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx""#);
        io.notify("notifications/cancelled", &format!(r#""requestId":{id}"#));
    }
}

fn progress_flood(io: &mut PeerIo, step: u64) {
    for number in 0..10 {
        let token = step * 10 + number;
        let message = "m".repeat(token as usize % 5000);
        io.notify(
            "notifications/progress",
            &format!(r#""progressToken":{token},"progress":{number},"message":"{message}""#),
        );
        io.notify("notifications/progress", &format!(r#""progressToken":"{message}","progress":1e400"#));
    }
}

fn unsolicited_responses(io: &mut PeerIo, step: u64) {
    for id in [step, 1, 2, 3, 1 << 53] {
        io.respond(&id.to_string(), r#"{"resultType":"task","task":{"taskId":"t","status":"working"},"taskId":"t"}"#);
        io.respond_error(&format!("\"{id}\""), -32603, "");
    }
    io.line(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"it was you"}}"#);
    io.line(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"both"}}"#);
}

fn partial_line(io: &mut PeerIo, step: u64) {
    if step == 99 {
        io.raw(br#"{"jsonrpc":"2.0","id":"the last","method":"vendor/a","params":{"#);
    } else {
        io.request(step, "vendor/a", "");
    }
}

pub(super) fn junk(io: &mut PeerIo, step: u64) {
    // A simple generator with the same output in each run.
    let mut state = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let bytes: Vec<u8> = (0..200)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        })
        .collect();
    io.raw(&bytes);
    let lines: [&[u8]; 8] = [
        b"\n\r\n\r\r\n",
        b"\xEF\xBB\xBF{}\n",
        b"\xFF\xFE{\"jsonrpc\":\"2.0\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xC0\x80\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\\ud800\"}\n",
        b"Content-Length: 10\r\n\r\n{}\n",
        b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}\n",
        b"\0\0\0\0\n",
    ];
    io.raw(lines[step as usize % lines.len()]);
}

fn batches(io: &mut PeerIo, step: u64) {
    let request = |number: usize| {
        let id = step as usize * 1000 + number;
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"vendor/a","params":{{"a":{number}}}}}"#)
    };
    let many = io.frame_bytes - 10;
    let members = match step % 8 {
        0 => (0..40).map(request).collect::<Vec<_>>().join(","),
        1 => PeerIo::fill(many, request),
        2 => PeerIo::fill(many, |_| "0".to_owned()),
        3 => (0..40).map(|_| r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).collect::<Vec<_>>().join(","),
        4 => String::new(),
        5 => "[[[]]]".to_owned(),
        6 => (0..40)
            .map(|_| r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#)
            .collect::<Vec<_>>()
            .join(","),
        // All members but one are answered at once and wait for the last one.
        _ => format!("{},{}", request(0), vec![r#"{"jsonrpc":"2.0","id":7,"method":"nowhere/ping"}"#; 39].join(",")),
    };
    io.line(&format!("[{members}]"));
}

fn repeated_handshakes(io: &mut PeerIo, step: u64) {
    io.initialize(&step.to_string(), "{}");
    io.notify("notifications/initialized", "");
    io.request(format!("\"d{step}\""), "server/discover", "");
}

/// Returns as many minimal members as fit. Their decoded form takes more memory than their text.
fn small_members(bytes: usize) -> String {
    PeerIo::fill(bytes, |number| format!(r#""{number:x}":{{}}"#))
}

fn oversized_handshake_capabilities(io: &mut PeerIo, step: u64) {
    let members = small_members(io.frame_bytes - 800);
    let capabilities = match step % 3 {
        0 => format!(r#"{{"experimental":{{{members}}}}}"#),
        1 => format!("{{{members}}}"),
        _ => format!(r#"{{"extensions":{{{members}}}}}"#),
    };
    io.initialize(&step.to_string(), &capabilities);
    io.notify("notifications/initialized", "");
}

fn oversized_request_capabilities(io: &mut PeerIo, step: u64) {
    let members = small_members(io.frame_bytes - 800);
    let capabilities = match step % 3 {
        0 => format!(r#"{{"experimental":{{{members}}}}}"#),
        1 => format!("{{{members}}}"),
        _ => format!(r#"{{"extensions":{{{members}}}}}"#),
    };
    io.request_with(step, "vendor/a", "", &capabilities, "");
}

fn subscription_flood(io: &mut PeerIo, step: u64) {
    let filter = r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["test://a"],"taskIds":["1"]}"#;
    for number in 0..3 {
        let id = format!("\"l{}\"", step * 3 + number);
        io.request(&id, "subscriptions/listen", filter);
        if number > 0 {
            io.notify("notifications/cancelled", &format!(r#""requestId":{id}"#));
        }
    }
    io.request(format!("\"s{step}\""), "resources/subscribe", &format!(r#""uri":"test://{step}""#));
}

fn maximal_subscription_filters(io: &mut PeerIo, step: u64) {
    let names = PeerIo::fill(io.frame_bytes - 1200, |number| format!("\"{number:x}\""));
    let member = if step.is_multiple_of(2) { "resourceSubscriptions" } else { "taskIds" };
    let filter = format!(r#""notifications":{{"toolsListChanged":true,"{member}":[{names}]}}"#);
    io.request(step, "subscriptions/listen", &filter);
}
