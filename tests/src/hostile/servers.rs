//! Servers that attack clients.

use super::{End, Hostile, Mouth, clients::junk};

/// All of them.
pub const SERVERS: &[Hostile] = &[
    Hostile::new("answers_given_twice", 150, answers_given_twice),
    Hostile::new("answers_of_the_wrong_kind", 150, answers_of_the_wrong_kind),
    Hostile::new("answers_to_other_ids", 150, answers_to_other_ids),
    Hostile::new("answers_of_the_largest_size", 100, answers_of_the_largest_size),
    Hostile::new("errors_of_the_largest_size", 100, errors_of_the_largest_size),
    Hostile::new("no_answers", 150, |_, _| {}),
    Hostile::new("no_answers_and_no_reading", 150, |_, _| {}).deaf(),
    Hostile::new("nothing_at_all", 100, |_, _| {}).rude(),
    Hostile::new("floods_of_requests", 150, floods_of_requests),
    Hostile::new("floods_of_requests_that_are_answered_to_nobody", 150, floods_of_requests).deaf(),
    Hostile::new("floods_of_pings", 150, floods_of_pings),
    Hostile::new("floods_of_notifications", 150, floods_of_notifications),
    Hostile::new("storms_of_known_notifications", 150, storms_of_known_notifications),
    Hostile::new("storms_of_progress", 100, storms_of_progress),
    Hostile::new("storms_of_cancellations", 100, storms_of_cancellations),
    Hostile::new("questions_without_an_end", 150, questions_without_an_end),
    Hostile::new("questions_of_the_largest_size", 100, questions_of_the_largest_size),
    Hostile::new("come_back_later", 150, come_back_later),
    Hostile::new("tasks_that_never_end", 150, tasks_that_never_end),
    Hostile::new("tasks_that_always_ask", 150, tasks_that_always_ask),
    Hostile::new("tasks_with_giant_names", 100, tasks_with_giant_names),
    Hostile::new("subscriptions_that_promise_too_much", 100, subscriptions_that_promise_too_much),
    Hostile::new("subscriptions_that_end_at_once", 150, subscriptions_that_end_at_once),
    Hostile::new("lists_to_be_remembered", 150, lists_to_be_remembered),
    Hostile::new("other_revisions", 150, other_revisions),
    Hostile::new("an_offer_that_says_too_much", 20, an_offer_that_says_too_much).rude(),
    Hostile::new("a_slow_drip", 50, |mouth, _| mouth.raw(&[b'x'; 1000])).dripping(),
    Hostile::new("a_line_without_an_end", 200, |mouth, _| mouth.raw(&[b'['; 4096])),
    Hostile::new("deep_nesting", 200, deep_nesting),
    Hostile::new("junk", 150, junk),
    Hostile::new("noise_before_anything_else", 150, |mouth, step| mouth.line(&format!("starting {step} ..."))).rude(),
    Hostile::new("half_a_line_and_half_a_close", 50, half_a_line).going(End::HalfCloses),
    Hostile::new("half_a_close_that_nobody_reads_behind", 50, half_a_line).deaf().going(End::HalfCloses),
    Hostile::new("gone_in_the_middle", 50, half_a_line).going(End::Vanishes),
];

const DONE: &str =
    r#"{"resultType":"complete","content":[],"tools":[],"contents":[],"ttlMs":0,"cacheScope":"private"}"#;

fn answers_given_twice(mouth: &mut Mouth, _: u64) {
    while let Some(heard) = mouth.take_heard() {
        mouth.answer(&heard.id, DONE);
        mouth.answer(&heard.id, DONE);
        mouth.fail(&heard.id, -32603, "");
    }
}

fn answers_of_the_wrong_kind(mouth: &mut Mouth, step: u64) {
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
    while let Some(heard) = mouth.take_heard() {
        match step % 12 {
            10 => mouth.line(&format!(r#"{{"jsonrpc":"2.0","id":{}}}"#, heard.id)),
            11 => mouth.line(&format!(r#"{{"jsonrpc":"2.0","id":{},"error":"no"}}"#, heard.id)),
            kind => mouth.answer(&heard.id, WRONG[kind as usize]),
        }
    }
}

fn answers_to_other_ids(mouth: &mut Mouth, step: u64) {
    while let Some(heard) = mouth.take_heard() {
        let id = &heard.id;
        for other in [format!("\"{id}\""), format!("{id}.0"), format!("-{id}"), format!("{id}000"), format!("{id}e0")] {
            mouth.answer(&other, DONE);
        }
    }
    for id in [step, step + 1, 1, 0, u64::MAX] {
        mouth.fail(&id.to_string(), -32603, "");
    }
    mouth.line(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#);
}

fn answers_of_the_largest_size(mouth: &mut Mouth, step: u64) {
    let room = mouth.frame_bytes - 200;
    while let Some(heard) = mouth.take_heard() {
        let result = match step % 4 {
            0 => format!(r#"{{"pad":"{}"}}"#, "x".repeat(room)),
            1 => format!("{{{}}}", Mouth::fill(room, |number| format!(r#""{number:x}":0"#))),
            2 => format!(r#"{{"content":[{}]}}"#, Mouth::fill(room, |_| r#"{"type":"text","text":""}"#.to_owned())),
            _ => format!(r#"{{"pad":"{}"}}"#, "x".repeat(2 * room)),
        };
        mouth.answer(&heard.id, &result);
    }
}

fn errors_of_the_largest_size(mouth: &mut Mouth, step: u64) {
    let room = mouth.frame_bytes - 200;
    while let Some(heard) = mouth.take_heard() {
        let data = Mouth::fill(room, |number| format!("\"{number:x}\""));
        match step % 2 {
            0 => mouth.fail(&heard.id, -32603, &format!(r#","data":[{data}]"#)),
            _ => mouth.fail(&heard.id, -32022, &format!(r#","data":{{"supported":[{data}],"requested":"x"}}"#)),
        }
    }
}

fn floods_of_requests(mouth: &mut Mouth, step: u64) {
    const METHODS: [&str; 5] = ["roots/list", "sampling/createMessage", "elicitation/create", "vendor/b", "tools/call"];
    for number in 0..10 {
        let id = step * 10 + number;
        let pad = "x".repeat(id as usize * 37 % (mouth.frame_bytes / 2));
        let members = format!(r#""message":"m","requestedSchema":{{}},"messages":[],"maxTokens":1,"pad":"{pad}""#);
        mouth.ask(id, METHODS[number as usize % METHODS.len()], &members);
    }
}

fn floods_of_pings(mouth: &mut Mouth, step: u64) {
    (0..20).for_each(|number| mouth.ask(step * 20 + number, "ping", ""));
}

fn floods_of_notifications(mouth: &mut Mouth, step: u64) {
    let pad = "x".repeat(step as usize * 53 % (mouth.frame_bytes / 2));
    for number in 0..10 {
        mouth.tell("notifications/message", &format!(r#""level":"emergency","data":"{pad}","logger":"l{number}""#));
        mouth.tell(&format!("vendor/n{number}"), "");
    }
}

fn storms_of_known_notifications(mouth: &mut Mouth, step: u64) {
    let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{}}}"#, step % 20);
    let params = format!(
        r#"{meta},"uri":"test://{step}","requestId":"{step}","taskId":"t","status":"working","elicitationId":"{step}""#
    );
    let news = [
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
    news.iter().for_each(|method| mouth.tell(method, &params));
}

fn storms_of_progress(mouth: &mut Mouth, step: u64) {
    let message = "m".repeat(step as usize * 31 % 5000);
    while let Some(heard) = mouth.take_heard() {
        let token = heard.token.unwrap_or(heard.id);
        for number in 0..20 {
            let params = format!(r#""progressToken":{token},"progress":{},"message":"{message}""#, 20 - number);
            mouth.tell("notifications/progress", &params);
        }
    }
    for token in [step.to_string(), "null".to_owned(), "\"x\"".to_owned(), "1e99".to_owned()] {
        mouth.tell("notifications/progress", &format!(r#""progressToken":{token},"progress":1"#));
    }
}

fn storms_of_cancellations(mouth: &mut Mouth, step: u64) {
    while let Some(heard) = mouth.take_heard() {
        for _ in 0..5 {
            mouth.tell("notifications/cancelled", &format!(r#""requestId":{},"reason":"no""#, heard.id));
        }
        mouth.answer(&heard.id, DONE);
    }
    mouth.ask(step, "roots/list", "");
    for id in [step, step, step + 1, step / 2] {
        mouth.tell("notifications/cancelled", &format!(r#""requestId":{id}"#));
    }
}

fn asks(name: &str, count: usize) -> String {
    let questions = (0..count).map(|number| {
        let method = ["roots/list", "sampling/createMessage"][number % 2];
        format!(r#""{name}{number}":{{"method":"{method}","params":{{"messages":[],"maxTokens":1}}}}"#)
    });
    questions.collect::<Vec<_>>().join(",")
}

fn questions_without_an_end(mouth: &mut Mouth, step: u64) {
    while let Some(heard) = mouth.take_heard() {
        let questions = asks("q", 1 + step as usize % 40);
        let result = format!(r#"{{"resultType":"input_required","inputRequests":{{{questions}}},"requestState":"s"}}"#);
        mouth.answer(&heard.id, &result);
    }
}

fn questions_of_the_largest_size(mouth: &mut Mouth, step: u64) {
    let room = mouth.frame_bytes - 400;
    while let Some(heard) = mouth.take_heard() {
        let long = "q".repeat(room);
        let result = match step % 4 {
            0 => format!(r#""inputRequests":{{"{long}":{{"method":"roots/list"}}}}"#),
            1 => format!(r#""inputRequests":{{"q":{{"method":"roots/list","params":{{"p":"{long}"}}}}}}"#),
            2 => format!(r#""requestState":"{long}""#),
            _ => {
                let many = Mouth::fill(room, |number| format!(r#""{number:x}":{{"method":"roots/list"}}"#));
                format!(r#""inputRequests":{{{many}}}"#)
            }
        };
        mouth.answer(&heard.id, &format!(r#"{{"resultType":"input_required",{result}}}"#));
    }
}

fn come_back_later(mouth: &mut Mouth, step: u64) {
    while let Some(heard) = mouth.take_heard() {
        let state = format!(r#"{{"resultType":"input_required","requestState":"{step}"}}"#);
        mouth.answer(&heard.id, &state);
    }
}

fn task(id: &str, status: &str, more: &str) -> String {
    let times = r#""createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null,"ttl":null"#;
    format!(r#""taskId":"{id}","status":"{status}",{times},"pollIntervalMs":1{more}"#)
}

/// Answers as a server that makes a task of everything, in either era.
fn make_task(mouth: &mut Mouth, heard: &super::Heard, id: &str, status: &str, more: &str) {
    let about = task(id, status, more);
    match heard.method.as_str() {
        "tools/call" => {
            mouth.answer(&heard.id, &format!(r#"{{"resultType":"task","task":{{{about}}},{about}}}"#));
        }
        _ => mouth.answer(&heard.id, &format!(r#"{{"resultType":"complete",{about}}}"#)),
    }
}

fn tasks_that_never_end(mouth: &mut Mouth, step: u64) {
    while let Some(heard) = mouth.take_heard() {
        make_task(mouth, &heard, &format!("t{step}"), "working", "");
        if let Some(token) = &heard.token {
            mouth.tell("notifications/progress", &format!(r#""progressToken":{token},"progress":{step}"#));
        }
    }
    let about = task(&format!("t{}", step / 2), "working", "");
    mouth.tell("notifications/tasks", &about);
    mouth.tell("notifications/tasks/status", &about);
}

fn tasks_that_always_ask(mouth: &mut Mouth, step: u64) {
    let questions = asks(&format!("{step}-"), 20);
    let more = format!(r#","inputRequests":{{{questions}}}"#);
    while let Some(heard) = mouth.take_heard() {
        make_task(mouth, &heard, "t", "input_required", &more);
    }
    mouth.tell("notifications/tasks", &task("t", "input_required", &more));
}

fn tasks_with_giant_names(mouth: &mut Mouth, step: u64) {
    let id = format!("{step}{}", "t".repeat(mouth.frame_bytes / 2 - 400));
    while let Some(heard) = mouth.take_heard() {
        make_task(mouth, &heard, &id, "working", "");
    }
}

fn subscriptions_that_promise_too_much(mouth: &mut Mouth, step: u64) {
    let names = Mouth::fill(mouth.frame_bytes - 400, |number| format!("\"{number:x}\""));
    let member = if step.is_multiple_of(2) { "resourceSubscriptions" } else { "taskIds" };
    while let Some(heard) = mouth.take_heard() {
        if heard.method == "subscriptions/listen" {
            let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{}}}"#, heard.id);
            let params = format!(r#"{meta},"notifications":{{"toolsListChanged":true,"{member}":[{names}]}}"#);
            mouth.tell("notifications/subscriptions/acknowledged", &params);
        } else {
            mouth.answer(&heard.id, DONE);
        }
    }
}

fn subscriptions_that_end_at_once(mouth: &mut Mouth, step: u64) {
    while let Some(heard) = mouth.take_heard() {
        if step.is_multiple_of(2) {
            mouth.tell("notifications/cancelled", &format!(r#""requestId":{}"#, heard.id));
        }
        mouth.answer(&heard.id, r#"{"resultType":"complete"}"#);
    }
}

fn lists_to_be_remembered(mouth: &mut Mouth, step: u64) {
    let pad = "x".repeat(step as usize * 97 % (mouth.frame_bytes - 400));
    while let Some(heard) = mouth.take_heard() {
        let good = r#""ttlMs":9007199254740991,"cacheScope":"public","nextCursor":"more""#;
        mouth.answer(
            &heard.id,
            &format!(r#"{{"resultType":"complete","tools":[],"contents":[],{good},"pad":"{pad}"}}"#),
        );
    }
}

fn other_revisions(mouth: &mut Mouth, step: u64) {
    let supported = ["2026-07-28", "2025-11-25", "2024-11-05", "1999-01-01"][step as usize % 4];
    while let Some(heard) = mouth.take_heard() {
        mouth.fail(&heard.id, -32022, &format!(r#","data":{{"supported":["{supported}"],"requested":"x"}}"#));
    }
}

fn an_offer_that_says_too_much(mouth: &mut Mouth, step: u64) {
    let members = Mouth::fill(mouth.frame_bytes - 800, |number| format!(r#""{number:x}":{{}}"#));
    let capabilities = match step % 3 {
        0 => format!(r#"{{"experimental":{{{members}}}}}"#),
        1 => format!("{{{members}}}"),
        _ => format!(r#"{{"extensions":{{{members}}}}}"#),
    };
    while let Some(heard) = mouth.take_heard() {
        let offer = mouth.offer(&capabilities, "");
        mouth.answer(&heard.id, &offer);
    }
}

fn deep_nesting(mouth: &mut Mouth, step: u64) {
    let depth = (60 + step as usize * 31).min(mouth.frame_bytes / 8);
    let (open, close) = if step.is_multiple_of(2) { ("[", "]") } else { (r#"{"a":"#, "}") };
    let nested = format!("{}0{}", open.repeat(depth), close.repeat(depth));
    while let Some(heard) = mouth.take_heard() {
        mouth.answer(&heard.id, &format!(r#"{{"content":{nested}}}"#));
    }
    mouth.tell("notifications/message", &format!(r#""level":"info","data":{nested}"#));
    mouth.line(&open.repeat(depth));
}

fn half_a_line(mouth: &mut Mouth, step: u64) {
    if step == 49 {
        mouth.raw(br#"{"jsonrpc":"2.0","id":1,"result":{"content":["#);
    } else {
        mouth.tell("vendor/x", "");
    }
}
