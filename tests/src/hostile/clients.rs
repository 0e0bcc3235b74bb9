//! Clients that attack servers.

use super::{End, Hostile, Mouth};

/// All of them.
pub const CLIENTS: &[Hostile] = &[
    Hostile::new("floods_of_requests", 200, floods_of_requests),
    Hostile::new("floods_of_requests_that_are_answered_to_nobody", 200, floods_of_requests).deaf(),
    Hostile::new("floods_of_pings", 200, floods_of_pings),
    Hostile::new("pings_that_are_answered_to_nobody", 200, floods_of_pings).deaf(),
    Hostile::new("floods_of_notifications", 150, floods_of_notifications),
    Hostile::new("storms_of_known_notifications", 150, storms_of_known_notifications),
    Hostile::new("a_slow_drip", 100, a_line_without_an_end).dripping(),
    Hostile::new("a_slow_drip_before_anything_else", 10, a_line_without_an_end).dripping().rude(),
    Hostile::new("a_line_without_an_end", 200, a_line_without_an_end),
    Hostile::new("a_line_without_an_end_before_anything_else", 200, a_line_without_an_end).rude(),
    Hostile::new("giant_lines", 100, giant_lines),
    Hostile::new("lines_of_the_largest_size", 100, lines_of_the_largest_size),
    Hostile::new("lines_of_the_largest_size_that_are_answered_to_nobody", 100, lines_of_the_largest_size).deaf(),
    Hostile::new("deep_nesting", 200, deep_nesting),
    Hostile::new("games_with_ids", 150, games_with_ids),
    Hostile::new("giant_ids", 200, giant_ids),
    Hostile::new("giant_tokens", 200, giant_tokens),
    Hostile::new("storms_of_cancellations", 150, storms_of_cancellations),
    Hostile::new("requests_that_are_cancelled_at_once", 100, requests_that_are_cancelled_at_once),
    Hostile::new("storms_of_progress", 100, storms_of_progress),
    Hostile::new("answers_to_nothing", 150, answers_to_nothing),
    Hostile::new("half_a_line_and_half_a_close", 100, half_a_line).going(End::HalfCloses),
    Hostile::new("requests_and_half_a_close", 100, floods_of_requests).going(End::HalfCloses),
    Hostile::new("half_a_close_that_nobody_reads_behind", 100, floods_of_requests).deaf().going(End::HalfCloses),
    Hostile::new("requests_and_no_more", 100, floods_of_requests).going(End::Vanishes),
    Hostile::new("nothing_at_all", 1, |_, _| {}).rude(),
    Hostile::new("junk", 150, junk),
    Hostile::new("junk_before_anything_else", 150, junk).rude(),
    Hostile::new("batches", 100, batches),
    Hostile::new("greetings_without_an_end", 100, greetings_without_an_end),
    Hostile::new("a_greeting_that_says_too_much", 20, a_greeting_that_says_too_much).rude(),
    Hostile::new("requests_that_say_too_much_of_themselves", 200, requests_that_say_too_much),
    Hostile::new("floods_of_subscriptions", 100, floods_of_subscriptions),
    Hostile::new("subscriptions_to_everything", 100, subscriptions_to_everything),
];

/// Methods that applications serve, and some that they do not.
const METHODS: [&str; 6] = ["vendor/a", "tools/call", "tools/list", "resources/read", "logging/setLevel", "tasks/get"];

fn floods_of_requests(mouth: &mut Mouth, step: u64) {
    for number in 0..10 {
        let id = step * 10 + number;
        let pad = "x".repeat(id as usize * 37 % (mouth.frame_bytes / 2));
        let method = METHODS[id as usize % METHODS.len()];
        let members = format!(r#""name":"t","uri":"test://a","level":"info","taskId":"t","pad":"{pad}""#);
        mouth.ask_with(id, method, &members, "{}", &format!(r#""progressToken":{id}"#));
    }
}

fn floods_of_pings(mouth: &mut Mouth, step: u64) {
    let method = if mouth.is_modern() { "server/discover" } else { "ping" };
    (0..20).for_each(|number| mouth.ask(step * 20 + number, method, ""));
}

fn floods_of_notifications(mouth: &mut Mouth, step: u64) {
    let pad = "x".repeat(step as usize * 53 % (mouth.frame_bytes / 2));
    (0..10).for_each(|number| mouth.tell(&format!("vendor/n{number}"), &format!(r#""pad":"{pad}""#)));
}

fn storms_of_known_notifications(mouth: &mut Mouth, step: u64) {
    let params = format!(r#""uri":"test://{step}","level":"info","data":{step},"taskId":"{step}","status":"working""#);
    let news = [
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
    news.iter().for_each(|method| mouth.tell(method, &params));
}

fn a_line_without_an_end(mouth: &mut Mouth, step: u64) {
    if step == 0 {
        mouth.raw(br#"{"jsonrpc":"2.0","id":1,"method":"vendor/a","params":{"a":""#);
    }
    mouth.raw(&[b'x'; 1000]);
}

fn giant_lines(mouth: &mut Mouth, step: u64) {
    let pad = "x".repeat(mouth.frame_bytes * (1 + step as usize % 4));
    match step % 3 {
        0 => mouth.ask(step, "vendor/a", &format!(r#""pad":"{pad}""#)),
        1 => mouth.tell("vendor/a", &format!(r#""pad":"{pad}""#)),
        _ => mouth.line(&format!(r#"{{"jsonrpc":"2.0","pad":"{pad}","id":{step},"method":"vendor/a"}}"#)),
    }
}

fn lines_of_the_largest_size(mouth: &mut Mouth, step: u64) {
    let room = mouth.frame_bytes - 800;
    let filled = match step % 4 {
        0 => format!(r#""pad":"{}""#, "x".repeat(room)),
        1 => format!(r#""pad":[{}]"#, Mouth::fill(room, |_| "0".to_owned())),
        2 => Mouth::fill(room, |number| format!(r#""{number}":0"#)),
        _ => format!(r#""pad":"{}""#, "\\u0000".repeat(room / 6)),
    };
    match step % 8 {
        0..7 => mouth.ask_with(step, METHODS[step as usize % METHODS.len()], &filled, "{}", ""),
        _ => mouth.tell("vendor/a", &filled),
    }
}

fn deep_nesting(mouth: &mut Mouth, step: u64) {
    let depth = 60 + step as usize * 31;
    let depth = depth.min(mouth.frame_bytes / 8);
    let (open, close) = if step.is_multiple_of(2) { ("[", "]") } else { (r#"{"a":"#, "}") };
    let nested = format!("{}0{}", open.repeat(depth), close.repeat(depth));
    match step % 5 {
        0 => mouth.line(&nested),
        1 => mouth.ask(step, "vendor/a", &format!(r#""a":{nested}"#)),
        2 => mouth.line(&format!(r#"{{"jsonrpc":"2.0","id":{nested},"method":"vendor/a"}}"#)),
        3 => mouth.line(&open.repeat(depth)),
        _ => mouth.ask(step, "tools/call", &format!(r#""name":"t","arguments":{{"a":{nested}}}"#)),
    }
}

fn games_with_ids(mouth: &mut Mouth, step: u64) {
    // The same one twice, of those that have ended and those that have not.
    for id in [step, step, step / 2, 0] {
        mouth.ask(id, "vendor/a", "");
    }
    let same = [
        format!("\"{step}\""),
        format!("{step}.0"),
        format!("{step}e0"),
        format!("-{step}"),
        format!("\"\\u003{}\"", step % 10),
    ];
    same.iter().for_each(|id| mouth.ask(id, "vendor/a", ""));
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
    NONE.iter().for_each(|id| mouth.ask(id, "vendor/a", ""));
    mouth.line(&format!(r#"{{"jsonrpc":"2.0","id":{step},"id":{},"method":"vendor/a"}}"#, step + 1));
}

fn giant_ids(mouth: &mut Mouth, step: u64) {
    let id = format!("\"{step}{}\"", "i".repeat(mouth.frame_bytes - 800));
    let method = ["vendor/a", "ping", "subscriptions/listen", "server/discover"][step as usize % 4];
    mouth.ask_with(&id, method, r#""notifications":{"toolsListChanged":true}"#, "{}", "");
    if step.is_multiple_of(2) {
        mouth.tell("notifications/cancelled", &format!(r#""requestId":{id}"#));
    }
}

fn giant_tokens(mouth: &mut Mouth, step: u64) {
    let long = "t".repeat(mouth.frame_bytes / 3 - 300);
    let meta = format!(
        r#""progressToken":"{long}","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a={long}","baggage":"b={long}""#
    );
    mouth.ask_with(step, "vendor/a", "", "{}", &meta);
}

fn storms_of_cancellations(mouth: &mut Mouth, step: u64) {
    mouth.ask(step, "vendor/a", "");
    for id in [step, step, step + 1, step / 2, 1 << 60] {
        mouth.tell("notifications/cancelled", &format!(r#""requestId":{id},"reason":"{}""#, "r".repeat(2000)));
        mouth.tell("notifications/cancelled", &format!(r#""requestId":"{id}""#));
    }
    for params in ["", r#""requestId":null"#, r#""requestId":{}"#, r#""requestId":"hello""#, r#""requestId":1.5"#] {
        mouth.tell("notifications/cancelled", params);
    }
}

fn requests_that_are_cancelled_at_once(mouth: &mut Mouth, step: u64) {
    // The same id again and again, and always another one.
    for id in [0, step + 1] {
        mouth.ask(id, "vendor/a", r#""pad":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx""#);
        mouth.tell("notifications/cancelled", &format!(r#""requestId":{id}"#));
    }
}

fn storms_of_progress(mouth: &mut Mouth, step: u64) {
    for number in 0..10 {
        let token = step * 10 + number;
        let message = "m".repeat(token as usize % 5000);
        mouth.tell(
            "notifications/progress",
            &format!(r#""progressToken":{token},"progress":{number},"message":"{message}""#),
        );
        mouth.tell("notifications/progress", &format!(r#""progressToken":"{message}","progress":1e400"#));
    }
}

fn answers_to_nothing(mouth: &mut Mouth, step: u64) {
    for id in [step, 1, 2, 3, 1 << 53] {
        mouth.answer(&id.to_string(), r#"{"resultType":"task","task":{"taskId":"t","status":"working"},"taskId":"t"}"#);
        mouth.fail(&format!("\"{id}\""), -32603, "");
    }
    mouth.line(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"it was you"}}"#);
    mouth.line(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"both"}}"#);
}

fn half_a_line(mouth: &mut Mouth, step: u64) {
    if step == 99 {
        mouth.raw(br#"{"jsonrpc":"2.0","id":"the last","method":"vendor/a","params":{"#);
    } else {
        mouth.ask(step, "vendor/a", "");
    }
}

pub(super) fn junk(mouth: &mut Mouth, step: u64) {
    // A generator of the simplest kind: what matters is that it is the same each time.
    let mut state = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let bytes: Vec<u8> = (0..200)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        })
        .collect();
    mouth.raw(&bytes);
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
    mouth.raw(lines[step as usize % lines.len()]);
}

fn batches(mouth: &mut Mouth, step: u64) {
    let request = |number: usize| {
        let id = step as usize * 1000 + number;
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"vendor/a","params":{{"a":{number}}}}}"#)
    };
    let many = mouth.frame_bytes - 10;
    let members = match step % 8 {
        0 => (0..40).map(request).collect::<Vec<_>>().join(","),
        1 => Mouth::fill(many, request),
        2 => Mouth::fill(many, |_| "0".to_owned()),
        3 => (0..40).map(|_| r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).collect::<Vec<_>>().join(","),
        4 => String::new(),
        5 => "[[[]]]".to_owned(),
        6 => (0..40)
            .map(|_| r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#)
            .collect::<Vec<_>>()
            .join(","),
        // All but one are answered at once, and wait for that.
        _ => format!("{},{}", request(0), vec![r#"{"jsonrpc":"2.0","id":7,"method":"nowhere/ping"}"#; 39].join(",")),
    };
    mouth.line(&format!("[{members}]"));
}

fn greetings_without_an_end(mouth: &mut Mouth, step: u64) {
    mouth.hello(&step.to_string(), "{}");
    mouth.tell("notifications/initialized", "");
    mouth.ask(format!("\"d{step}\""), "server/discover", "");
}

/// The smallest members that there can be, as many as fit: what is made of them takes more room than they do.
fn small_members(bytes: usize) -> String {
    Mouth::fill(bytes, |number| format!(r#""{number:x}":{{}}"#))
}

fn a_greeting_that_says_too_much(mouth: &mut Mouth, step: u64) {
    let members = small_members(mouth.frame_bytes - 800);
    let capabilities = match step % 3 {
        0 => format!(r#"{{"experimental":{{{members}}}}}"#),
        1 => format!("{{{members}}}"),
        _ => format!(r#"{{"extensions":{{{members}}}}}"#),
    };
    mouth.hello(&step.to_string(), &capabilities);
    mouth.tell("notifications/initialized", "");
}

fn requests_that_say_too_much(mouth: &mut Mouth, step: u64) {
    let members = small_members(mouth.frame_bytes - 800);
    let capabilities = match step % 3 {
        0 => format!(r#"{{"experimental":{{{members}}}}}"#),
        1 => format!("{{{members}}}"),
        _ => format!(r#"{{"extensions":{{{members}}}}}"#),
    };
    mouth.ask_with(step, "vendor/a", "", &capabilities, "");
}

fn floods_of_subscriptions(mouth: &mut Mouth, step: u64) {
    let filter = r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["test://a"],"taskIds":["1"]}"#;
    for number in 0..3 {
        let id = format!("\"l{}\"", step * 3 + number);
        mouth.ask(&id, "subscriptions/listen", filter);
        if number > 0 {
            mouth.tell("notifications/cancelled", &format!(r#""requestId":{id}"#));
        }
    }
    mouth.ask(format!("\"s{step}\""), "resources/subscribe", &format!(r#""uri":"test://{step}""#));
}

fn subscriptions_to_everything(mouth: &mut Mouth, step: u64) {
    let names = Mouth::fill(mouth.frame_bytes - 1200, |number| format!("\"{number:x}\""));
    let member = if step.is_multiple_of(2) { "resourceSubscriptions" } else { "taskIds" };
    let filter = format!(r#""notifications":{{"toolsListChanged":true,"{member}":[{names}]}}"#);
    mouth.ask(step, "subscriptions/listen", &filter);
}
