//! Servers that do what they may do, and are not reported.

use std::{
    cell::{Cell, RefCell},
    io,
    rc::Rc,
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    TIMEOUT,
    faults::Place,
    found, judge, judge_wire,
    server::Profile,
    wires::{Memory, Spoil, Web},
};
use crate::check::{
    probe::{MODERN, Wire},
    wire::{NoCredentials, Program, Read, Request, Response, Site, header},
};

/// Fails if something is reported.
fn passes(place: Place, spoil: Spoil) {
    let findings = judge(place, Profile::Full, spoil);
    let found = found(&findings);
    let why: Vec<_> = findings.iter().filter(|it| found.contains(it.check.id)).collect();
    assert!(why.is_empty(), "{why:#?}");
    assert!(findings.iter().filter(|it| it.word() == "passed").count() > 100, "the server is reached");
}

#[test]
fn deletions_may_have_any_body() {
    passes(
        Place::Json,
        Spoil::Http(|request, plain| {
            if request.method == "DELETE" && plain.status == 204 {
                (plain.status, plain.body) = (200, r#"{"deleted":true}"#.to_owned());
                plain.headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
            }
        }),
    );
}

#[test]
fn event_ids_have_no_meaning_without_sessions() {
    passes(
        Place::Stream,
        Spoil::Http(|request, plain| {
            let is_modern = header(&request.headers, "mcp-protocol-version") >= Some(MODERN);
            if is_modern && plain.body.contains("data: ") {
                plain.body = format!("id: same\ndata:\n\n{}", plain.body);
            }
        }),
    );
}

#[test]
fn content_types_have_no_case() {
    passes(
        Place::Stream,
        Spoil::Http(|_, plain| {
            for (_, value) in plain.headers.iter_mut().filter(|(name, _)| name == "Content-Type") {
                *value = value.replace("text/event-stream", "Text/Event-Stream; charset=utf-8");
            }
        }),
    );
}

#[test]
fn subscriptions_to_a_resource_may_be_refused() {
    passes(
        Place::Stdio,
        Spoil::Messages(|request, messages| {
            if request["method"] == "resources/subscribe" && messages.first().is_some_and(|it| it["result"].is_object())
            {
                let error = json!({"code": -32602, "message": "no"});
                *messages = vec![json!({"jsonrpc": "2.0", "id": request["id"], "error": error})];
            }
        }),
    );
}

#[test]
fn wrong_log_levels_may_lead_to_log_messages() {
    passes(
        Place::Stdio,
        Spoil::Messages(|request, messages| {
            if request["params"]["_meta"]["io.modelcontextprotocol/logLevel"] == "loud" {
                let params = json!({"level": "warning", "data": "an unknown level"});
                messages.insert(0, json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}));
            }
        }),
    );
}

#[test]
fn processes_may_serve_one_era() {
    passes(Place::Stdio, Spoil::OneEra);
}

#[test]
fn log_levels_may_be_ignored_without_logging() {
    let spoil = Spoil::Messages(|request, messages| {
        if request["params"]["_meta"]["io.modelcontextprotocol/logLevel"] == "loud" {
            let meta = json!({"io.modelcontextprotocol/serverInfo": {"name": "a", "version": "1"}});
            let result = json!({
                "tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "public", "_meta": meta,
            });
            *messages = vec![json!({"jsonrpc": "2.0", "id": request["id"], "result": result})];
        }
    });
    for place in [Place::Stdio, Place::Json] {
        let findings = judge(place, Profile::Small, spoil);
        assert!(found(&findings).is_empty(), "{:?}", found(&findings));
        let levels = findings.iter().find(|it| it.check.id == "modern-log-level").expect("the check");
        assert_eq!(levels.word(), "not applicable");
    }
}

#[test]
fn headers_may_be_judged_before_a_body_that_is_no_request() {
    passes(
        Place::Json,
        Spoil::Http(|request, plain| {
            let is_modern = header(&request.headers, "mcp-protocol-version") >= Some(MODERN);
            if is_modern && request.method == "POST" && header(&request.headers, "mcp-method").is_none() {
                let error = json!({"code": -32020, "message": "Mcp-Method is missing"});
                (plain.status, plain.body) = (400, json!({"jsonrpc": "2.0", "id": null, "error": error}).to_string());
            }
        }),
    );
}

#[test]
fn schemes_of_icons_have_no_case() {
    passes(
        Place::Stdio,
        Spoil::Messages(|request, messages| {
            if request["method"] == "initialize"
                && let Some(icon) = messages.first_mut().and_then(|it| it.pointer_mut("/result/serverInfo/icons/0/src"))
            {
                *icon = json!("HTTPS://example.com/a.png");
            }
        }),
    );
}

thread_local! {
    static LATE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static OPEN: Cell<i32> = const { Cell::new(0) };
    static OPENED: Cell<i32> = const { Cell::new(0) };
    static WITHOUT_VERSION: Cell<i32> = const { Cell::new(0) };
}

/// Sends the error after the response to the next request, after a log message, and with the id that the server has
/// found in what is no JSON.
#[test]
fn errors_of_parsers_may_be_late_and_have_an_id() {
    passes(
        Place::Stdio,
        Spoil::Lines(|line, lines| {
            lines.extend(LATE.take());
            if line.contains("910003") {
                let is_modern = line.contains("server/discover");
                let mut late = Vec::new();
                if !is_modern {
                    let params = json!({"level": "info", "data": "wrong"});
                    late.push(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}));
                }
                let error = json!({"code": -32700, "message": "no JSON"});
                late.push(json!({"jsonrpc": "2.0", "id": 910_003, "error": error}));
                LATE.set(late.iter().map(ToString::to_string).collect());
                lines.clear();
            }
        }),
    );
}

#[test]
fn sessions_are_deleted() {
    // The last session has no check after it.
    judge(
        Place::Json,
        Profile::LegacyOnly,
        Spoil::Http(|request, plain| {
            if header(&plain.headers, "mcp-session-id").is_some() {
                OPEN.set(OPEN.get() + 1);
                OPENED.set(OPENED.get() + 1);
            }
            if request.method == "DELETE" && plain.status == 204 {
                OPEN.set(OPEN.get() - 1);
                let has_version = header(&request.headers, "mcp-protocol-version").is_some();
                WITHOUT_VERSION.set(WITHOUT_VERSION.get() + i32::from(!has_version));
            }
        }),
    );
    // Those of the sessions of 2024-11-05 and 2025-03-26.
    assert!(WITHOUT_VERSION.get() < 5, "{}", WITHOUT_VERSION.get());
    assert!(OPENED.get() > 10 && OPEN.get() == 0, "{} of {}", OPEN.get(), OPENED.get());
}

#[test]
fn a_handshake_with_metadata_has_a_result_without_a_type() {
    let spoil = Spoil::Messages(|request, messages| {
        let has_meta = request["params"]["_meta"].get("io.modelcontextprotocol/protocolVersion").is_some();
        if request["method"] == "initialize" && has_meta {
            let info = json!({"name": "a", "version": "1"});
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info});
            *messages = vec![json!({"jsonrpc": "2.0", "id": request["id"], "result": result})];
        }
    });
    let findings = judge(Place::Stdio, Profile::Full, spoil);
    // A warning: the rule is derived.
    assert_eq!(found(&findings), ["initialize-with-metadata"].into());
}

/// A server that ends at an unknown notification.
struct Ends {
    memory: Memory,
    has_ended: bool,
}

impl Program for Ends {
    fn restart(&mut self) -> io::Result<()> {
        self.has_ended = false;
        self.memory.restart()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.has_ended |= str::from_utf8(bytes).is_ok_and(|text| text.contains("notifications/mcp-check/unknown"));
        self.memory.write(bytes)
    }

    fn read_line(&mut self, timeout: Duration) -> Read {
        if self.has_ended { Read::End } else { self.memory.read_line(timeout) }
    }

    fn ends_after_input(&mut self, timeout: Duration) -> bool {
        self.memory.ends_after_input(timeout)
    }
}

#[test]
fn an_end_is_no_response() {
    let only = ["notification-response", "modern-notification", "batch-notifications"].map(str::to_owned);
    let memory = Memory::new(Profile::Full, Spoil::Messages(|_, _| {}));
    let wire = Wire::Program(Box::new(Ends { memory, has_ended: false }));
    for finding in judge_wire(wire, TIMEOUT, &only) {
        assert_eq!((finding.word(), finding.why()), ("not reachable", "the server has ended"), "{finding:?}");
    }
}

#[test]
fn an_end_at_a_notification_is_reported() {
    let only = ["notification-end", "modern-notification-end"].map(str::to_owned);
    let memory = Memory::new(Profile::Full, Spoil::Messages(|_, _| {}));
    let wire = Wire::Program(Box::new(Ends { memory, has_ended: false }));
    let findings = judge_wire(wire, TIMEOUT, &only);
    let words: Vec<_> = findings.iter().map(|finding| (finding.word(), finding.why())).collect();
    assert_eq!(words, [("warning", "the server has ended"); 2]);
}

/// A server that needs a second for the last response of a batch.
struct Slow(Memory);

impl Program for Slow {
    fn restart(&mut self) -> io::Result<()> {
        self.0.restart()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write(bytes)
    }

    fn read_line(&mut self, timeout: Duration) -> Read {
        let is_slow = self.0.output.front().is_some_and(|line| line.contains(r#""id":"b""#));
        if is_slow && timeout < Duration::from_secs(1) { Read::Silence } else { self.0.read_line(timeout) }
    }

    fn ends_after_input(&mut self, timeout: Duration) -> bool {
        self.0.ends_after_input(timeout)
    }
}

#[test]
fn responses_of_a_batch_may_come_one_after_another() {
    // The second response comes after that to the next request.
    let spoil = Spoil::Lines(|line, lines| {
        lines.extend(LATE.take());
        if line.contains(r#""id":"b""#) {
            let batch = lines.pop().and_then(|line| serde_json::from_str::<Vec<Value>>(&line).ok()).unwrap_or_default();
            lines.extend(batch.first().map(ToString::to_string));
            LATE.set(batch.iter().skip(1).map(ToString::to_string).collect());
        }
    });
    let wire = Wire::Program(Box::new(Slow(Memory::new(Profile::Full, spoil))));
    let findings = judge_wire(wire, TIMEOUT, &["batch".to_owned()]);
    assert_eq!(findings.iter().map(|it| it.word()).collect::<Vec<_>>(), ["passed"], "{findings:#?}");
}

/// A server whose credentials are not valid for the first DELETE.
struct Expired {
    web: Web,
    deletes: Rc<Cell<u32>>,
}

impl Site for Expired {
    fn exchange(&mut self, request: &Request, timeout: Duration) -> io::Result<Response> {
        if request.method == "DELETE" {
            self.deletes.set(self.deletes.get() + 1);
            if self.deletes.get() == 1 {
                return Err(io::Error::other(NoCredentials::Refused));
            }
        }
        self.web.exchange(request, timeout)
    }

    fn is_loopback(&self) -> bool {
        true
    }
}

#[test]
fn sessions_are_deleted_after_a_refusal() {
    let deletes = Rc::new(Cell::new(0));
    let web = Web::new(Profile::LegacyOnly, Spoil::Nothing, false);
    judge_wire(Wire::Site(Box::new(Expired { web, deletes: deletes.clone() })), TIMEOUT, &[]);
    assert!(deletes.get() > 10, "{}", deletes.get());
}

#[test]
fn one_check_reports_a_method_that_is_not_known() {
    let spoil = Spoil::Messages(|request, messages| {
        let is_modern = request["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_string();
        if is_modern && request["method"] == "server/discover" {
            let capabilities = messages.first_mut().and_then(|message| message.pointer_mut("/result/capabilities"));
            if let Some(capabilities) = capabilities {
                *capabilities = json!({"tools": {}, "prompts": {}, "resources": {}, "completions": {}});
            }
        }
        if request["method"] == "subscriptions/listen" {
            let error = json!({"code": -32601, "message": "no such method"});
            *messages = vec![json!({"jsonrpc": "2.0", "id": request["id"], "error": error})];
        }
    });
    assert_eq!(found(&judge(Place::Stdio, Profile::Full, spoil)), ["listen-empty"].into());
}
