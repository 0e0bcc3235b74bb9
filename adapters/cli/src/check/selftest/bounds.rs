//! Tests of what a server may cost that sends without an end.

use std::{cell::Cell, io, rc::Rc, time::Duration};

use serde_json::{Value, json};

use super::{
    faults::Place,
    found, judge, judge_wire,
    server::Profile,
    wires::{Memory, Spoil},
};
use crate::check::{
    probe::Wire,
    wire::{Body, Program, Read, Request, Response, Site},
};

/// A server that forgets some requests, and writes responses to none without an end.
struct Flood(Memory);

impl Program for Flood {
    fn restart(&mut self) -> io::Result<()> {
        self.0.restart()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write(bytes)
    }

    fn read_line(&mut self, timeout: Duration) -> Read {
        match self.0.read_line(timeout) {
            Read::Silence => Read::Bytes(br#"{"jsonrpc":"2.0","id":"flood","result":{}}"#.to_vec()),
            other => other,
        }
    }

    fn ends_after_input(&mut self, timeout: Duration) -> bool {
        self.0.ends_after_input(timeout)
    }
}

#[test]
fn floods_do_not_extend_the_time() {
    let spoil = Spoil::Messages(|request, messages| {
        let method = request["method"].as_str().unwrap_or_default();
        if matches!(method, "mcp-check/unknown" | "subscriptions/listen" | "ping") {
            messages.clear();
        }
    });
    let wire = Wire::Program(Box::new(Flood(Memory::new(Profile::Full, spoil))));
    let only = ["concurrent-requests", "listen-acknowledged", "hostile-many"].map(str::to_owned);
    let findings = judge_wire(wire, Duration::from_millis(100), &only);
    assert_eq!(found(&findings).len(), only.len(), "{findings:#?}");
}

/// A server that responds to each message with a request.
struct Asks {
    requests: Rc<Cell<usize>>,
    is_stream: bool,
}

impl Site for Asks {
    fn exchange(&mut self, request: &Request, _: Duration) -> io::Result<Response> {
        self.requests.set(self.requests.get() + 1);
        let number = self.requests.get();
        let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let question = json!({"jsonrpc": "2.0", "id": number, "method": "roots/list"});
        let version = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}});
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": version});
        let (kind, body) = if self.is_stream {
            let questions = format!("data: {question}\n\n").repeat(1000);
            ("text/event-stream", format!("{questions}data: {answer}\n\n"))
        } else {
            ("application/json", question.to_string())
        };
        let headers = vec![("Content-Type".to_owned(), kind.to_owned())];
        Ok(Response { status: 200, headers, body: Box::new(Once(Some(body))) })
    }

    fn is_loopback(&self) -> bool {
        true
    }
}

struct Once(Option<String>);

impl Body for Once {
    fn read(&mut self, _: Duration) -> Read {
        self.0.take().map_or(Read::End, |body| Read::Bytes(body.into_bytes()))
    }
}

#[test]
fn responses_to_responses_are_not_answered() {
    for is_stream in [false, true] {
        let requests = Rc::new(Cell::new(0));
        let site = Asks { requests: requests.clone(), is_stream };
        judge_wire(Wire::Site(Box::new(site)), Duration::from_secs(10), &["unknown-method".to_owned()]);
        // A stream has many requests, of which some have a response. The other responses are read once.
        let most = if is_stream { 1000 } else { 30 };
        assert!((2..most).contains(&requests.get()), "{}", requests.get());
    }
}

thread_local! {
    static LISTS: Cell<usize> = const { Cell::new(0) };
}

#[test]
fn lists_without_an_end_are_read_once() {
    let spoil = Spoil::Messages(|request, messages| {
        if request["method"] == "tools/list" {
            LISTS.set(LISTS.get() + 1);
            if let Some(result) = messages.first_mut().and_then(|it| it.get_mut("result")) {
                result["nextCursor"] = json!("next");
            }
        }
    });
    let findings = judge(Place::Stdio, Profile::LegacyOnly, spoil);
    // It is no fault of tools, names or schemas.
    assert_eq!(found(&findings), ["list-end"].into());
    let finding = findings.iter().find(|it| it.check.id == "list-end").expect("it was run");
    assert_eq!(finding.rules(), ["PAGE-003"]);
    assert_eq!(finding.why(), "tools/list returns the same page for a cursor again, so that it has no end");
    assert!(!finding.entries.is_empty());
    assert!(LISTS.get() < 20, "{}", LISTS.get());
}

#[test]
fn lists_that_are_too_long_break_no_rule() {
    let spoils: [fn(&Value, &mut Vec<Value>); 2] = [
        // More pages than are read.
        |request, messages| {
            let page: Option<usize> = request["params"]["cursor"].as_str().and_then(|it| it.parse().ok());
            let is_first = messages.first().is_some_and(|message| message.get("result").is_some());
            if request["method"] == "tools/list" && (page.is_some() || is_first) {
                let result = json!({"tools": [], "nextCursor": (page.unwrap_or(0) + 1).to_string()});
                *messages = vec![json!({"jsonrpc": "2.0", "id": request["id"], "result": result})];
            }
        },
        // A page without tools that leads to itself: its cursor is the position after what was returned.
        |request, messages| {
            if request["method"] == "tools/list" && request["params"]["cursor"] == "next" {
                let result = json!({"tools": [], "nextCursor": "next"});
                *messages = vec![json!({"jsonrpc": "2.0", "id": request["id"], "result": result})];
            }
        },
    ];
    for (spoil, why) in spoils.into_iter().zip(["1000 pages", "page for a cursor again"]) {
        let findings = judge(Place::Stdio, Profile::LegacyOnly, Spoil::Messages(spoil));
        assert_eq!(found(&findings), [].into(), "{why}");
        let finding = findings.iter().find(|it| it.check.id == "tools-list").expect("it was run");
        assert!(finding.word() == "not reachable" && finding.why().contains(why), "{finding:?}");
    }
}

#[test]
fn lists_without_a_response_or_an_end_fail_one_check_each() {
    // The second page has no response, the prompts have no end.
    let spoil = Spoil::Messages(|request, messages| {
        if request["method"] == "tools/list" && request["params"]["cursor"] == "next" {
            LISTS.set(LISTS.get() + 1);
            messages.clear();
        }
        if request["method"] == "prompts/list"
            && let Some(result) = messages.first_mut().and_then(|it| it.get_mut("result"))
        {
            result["nextCursor"] = json!("again");
        }
        if request["method"] == "prompts/list" && request["params"]["cursor"] == "again" {
            let result = json!({"prompts": [{"name": "one"}], "nextCursor": "again"});
            *messages = vec![json!({"jsonrpc": "2.0", "id": request["id"], "result": result})];
        }
    });
    let findings = judge(Place::Stdio, Profile::LegacyOnly, spoil);
    assert_eq!(found(&findings), ["list-end", "tools-list"].into());
    let rules = |id: &str| findings.iter().find(|it| it.check.id == id).expect("it was run").rules().to_vec();
    assert_eq!((rules("tools-list"), rules("list-end")), (vec!["TOOL-002"], vec!["PAGE-003"]));
    assert_eq!(LISTS.get(), 1, "it was read again");
}

#[test]
fn a_cursor_may_come_again_before_other_items() {
    thread_local! {
        static PAGE: Cell<usize> = const { Cell::new(0) };
    }
    // A cursor of the session: each page has it, and the fourth is the last one.
    let spoil = Spoil::Messages(|request, messages| {
        let is_first = messages.first().is_some_and(|message| message.get("result").is_some());
        if request["method"] == "prompts/list" && (is_first || request["params"]["cursor"] == "rest") {
            PAGE.set(if request["params"]["cursor"] == "rest" { PAGE.get() + 1 } else { 0 });
            let mut result = json!({"prompts": [{"name": PAGE.get().to_string()}]});
            if PAGE.get() < 3 {
                result["nextCursor"] = json!("rest");
            }
            *messages = vec![json!({"jsonrpc": "2.0", "id": request["id"], "result": result})];
        }
    });
    let findings = judge(Place::Stdio, Profile::LegacyOnly, spoil);
    assert_eq!(found(&findings), [].into(), "{findings:#?}");
    let ends = findings.iter().find(|it| it.check.id == "list-end").expect("it was run");
    assert_eq!(ends.word(), "passed");
}

/// A server that ends when it receives a request of this method.
struct Ends(Memory, &'static str, bool);

impl Program for Ends {
    fn restart(&mut self) -> io::Result<()> {
        self.2 = false;
        self.0.restart()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let message: Value = serde_json::from_slice(bytes).unwrap_or_default();
        self.2 |= message["method"] == self.1;
        if self.2 { Ok(()) } else { self.0.write(bytes) }
    }

    fn read_line(&mut self, timeout: Duration) -> Read {
        if self.2 { Read::End } else { self.0.read_line(timeout) }
    }

    fn ends_after_input(&mut self, timeout: Duration) -> bool {
        self.2 || self.0.ends_after_input(timeout)
    }
}

#[test]
fn a_list_that_ends_the_server_accuses_no_other_list() {
    let rows = [
        ("tools/list", ["tools-list", "modern-tools-list"]),
        ("prompts/list", ["prompts-list", "modern-prompts-list"]),
        ("resources/list", ["resources-list", "modern-resources-list"]),
        ("resources/templates/list", ["templates-list", "modern-templates-list"]),
    ];
    for (method, checks) in rows {
        let program = Ends(Memory::new(Profile::Full, Spoil::Nothing), method, false);
        let findings = judge_wire(Wire::Program(Box::new(program)), Duration::from_secs(10), &[]);
        // These send the request where it may be refused, but not ignored.
        let more: &[_] =
            if method == "tools/list" { &["hostile-duplicates", "request-before-initialize"] } else { &[] };
        let expected = checks.iter().chain(more).copied().collect();
        assert_eq!(found(&findings), expected, "{method}");
        assert!(findings.iter().filter(|it| checks.contains(&it.check.id)).all(|it| it.rules().len() == 1));
    }
}

#[test]
fn pages_may_differ_in_more_than_their_items() {
    thread_local! {
        static TIME: Cell<usize> = const { Cell::new(0) };
    }
    let spoil = Spoil::Messages(|request, messages| {
        TIME.set(TIME.get() + 1);
        if request["method"] == "tools/list"
            && let Some(result) = messages.first_mut().and_then(|it| it.get_mut("result"))
        {
            result["nextCursor"] = json!("next");
            result["_meta"] = json!({"example.com/time": TIME.get()});
        }
    });
    assert_eq!(found(&judge(Place::Stdio, Profile::LegacyOnly, spoil)), ["list-end"].into());
}
