//! Clients that do what they may do, so that no check may accuse them.

use std::{
    io,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    Memory, TIMEOUT, Web,
    client::Profile,
    faults::{Place, Spoil},
    found, judge, tolerated,
};
use crate::check::{
    client::{
        link::{Arrival, HttpReply, HttpRequest, Link},
        run::{reach, run},
        stage::{Stage, Step, Wait},
    },
    definition::row,
    era::Era,
    run::Finding,
};
use crate::record::Origin;

/// A program with two clients at once, each with its own session and the same ids.
struct Twins {
    webs: [Web; 2],
    turn: usize,
}

impl Twins {
    fn new(clients: [(Profile, Spoil); 2]) -> Self {
        let [first, second] = clients.map(|(profile, spoil)| Web::new(profile, spoil));
        Self { webs: [first, second.count_from(1_000_000)], turn: 0 }
    }

    fn of(&mut self, exchange: u64) -> &mut Web {
        &mut self.webs[usize::from(exchange > 1_000_000)]
    }
}

impl Link for Twins {
    fn is_http(&self) -> bool {
        true
    }

    fn start(&mut self) -> io::Result<()> {
        self.webs.iter_mut().try_for_each(Link::start)
    }

    fn stop(&mut self) {}

    fn now(&self) -> Instant {
        self.webs.iter().map(Link::now).max().unwrap_or_else(Instant::now)
    }

    fn arrived(&mut self, _: Instant) -> Option<Arrival> {
        self.webs.iter_mut().find_map(Web::pop)
    }

    fn next(&mut self, timeout: Duration) -> Arrival {
        self.turn += 1;
        for at in [self.turn % 2, (self.turn + 1) % 2] {
            if let Some(arrival) = self.webs[at].pop() {
                return arrival;
            }
        }
        match self.webs.iter_mut().find(|web| !web.has_ended()) {
            Some(web) => web.next(timeout),
            None => self.webs[0].next(timeout),
        }
    }

    fn write(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn end_server(&mut self) {}

    fn respond(&mut self, exchange: u64, reply: HttpReply) {
        self.of(exchange).respond(exchange, reply);
    }

    fn stream(&mut self, exchange: u64, bytes: &[u8]) {
        self.of(exchange).stream(exchange, bytes);
    }

    fn finish(&mut self, exchange: u64) {
        self.of(exchange).finish(exchange);
    }
}

#[test]
fn two_clients_of_a_program_are_kept_apart() {
    let (sessions, full) = ((Profile::Sessions, Spoil::Nothing), (Profile::Full, Spoil::Nothing));
    // The second client has no sessions, and needs no discovery.
    let modern = (Profile::Full, Spoil::Flag("repeats a call"));
    for clients in [[sessions, sessions], [full, full], [sessions, full], [sessions, modern], [modern, sessions]] {
        let mut stage = Stage::new(Box::new(Twins::new(clients)), TIMEOUT);
        reach(&mut stage);
        let findings = run(&mut stage, &[Era::Modern, Era::Legacy], &[], |_| {});
        let found = found(&findings);
        let why: Vec<_> = findings.iter().filter(|it| found.contains(it.check.id)).collect();
        assert!(why.is_empty(), "{clients:?}: {why:#?}");
        assert!(findings.iter().filter(|it| it.word() == "passed").count() > 25, "{findings:#?}");
    }
}

#[test]
fn ids_begin_again_with_a_session() {
    for flag in ["session per call", "ids begin again"] {
        tolerated(Place::Http, Profile::Sessions, Spoil::Flag(flag));
    }
}

/// Returns the outcome of a check.
fn word(findings: &[Finding], check: &str) -> &'static str {
    findings.iter().find(|it| it.check.id == check).expect("the check").word()
}

#[test]
fn clients_may_try_again_after_an_unsupported_revision() {
    tolerated(Place::Stdio, Profile::Sessions, Spoil::Flag("reconnects"));
}

#[test]
fn calls_may_overlap() {
    for place in [Place::Stdio, Place::Http] {
        for profile in [Profile::Sessions, Profile::Full] {
            tolerated(place, profile, Spoil::Flag("pipelines"));
        }
    }
    // A call that comes before the answer has no header.
    let findings = judge(Place::Http, Profile::Full, Spoil::Flag("pipelines"), &[Era::Modern]);
    assert_eq!(word(&findings, "modern-http-param"), "passed");
}

#[test]
fn pages_may_be_limited() {
    tolerated(Place::Stdio, Profile::Full, Spoil::Flag("two pages"));
    let findings = judge(Place::Stdio, Profile::Full, Spoil::Flag("two pages"), &[Era::Modern]);
    assert_eq!(word(&findings, "modern-empty-cursor"), "not reachable");
}

#[test]
fn capabilities_are_those_of_the_request() {
    tolerated(Place::Http, Profile::Full, Spoil::Flag("forms in discovery"));
    let findings = judge(Place::Http, Profile::Full, Spoil::Flag("forms in discovery"), &[Era::Modern]);
    assert_eq!(word(&findings, "input-responses"), "not applicable");
    assert_eq!(word(&findings, "state-echo"), "passed");
}

#[test]
fn handshakes_may_have_more_than_the_tables_say() {
    // A revision that is newer than all, and capabilities that the rules do not name.
    for place in [Place::Stdio, Place::Http] {
        tolerated(
            place,
            Profile::Sessions,
            Spoil::Out(|message| {
                if message["method"] == "initialize" {
                    message["params"]["protocolVersion"] = json!("2027-01-01");
                    message["params"]["capabilities"]["experimental"] = json!({"a": 1});
                    message["params"]["capabilities"]["extensions"] = json!({"a": 1});
                }
            }),
        );
    }
}

#[test]
fn list_headers_may_have_several_lines() {
    tolerated(
        Place::Http,
        Profile::Full,
        Spoil::Http(|_, request| {
            if request.method == "POST" {
                request.headers.retain(|(name, _)| name != "Accept");
                for value in ["application/json", "text/event-stream"] {
                    request.headers.push(("Accept".to_owned(), value.to_owned()));
                }
            }
        }),
    );
}

#[test]
fn messages_over_http_may_overtake_each_other() {
    // The cancellation comes before its request.
    tolerated(
        Place::Http,
        Profile::Sessions,
        Spoil::Out(|message| {
            if message["method"] == "notifications/cancelled" {
                message["params"]["requestId"] = json!(4242);
            }
        }),
    );
}

#[test]
fn progress_over_http_may_overtake_itself() {
    tolerated(Place::Http, Profile::Sessions, Spoil::Flag("shrinking progress"));
}

#[test]
fn lost_calls_may_be_repeated_with_their_token() {
    tolerated(Place::Http, Profile::Sessions, Spoil::Flag("repeats lost calls"));
}

#[test]
fn another_client_needs_no_discovery() {
    for flag in ["another client", "another client with other ids"] {
        tolerated(Place::Http, Profile::Full, Spoil::Flag(flag));
        let findings = judge(Place::Http, Profile::Full, Spoil::Flag(flag), &[Era::Modern]);
        assert_eq!(word(&findings, "modern-http-param"), "passed");
    }
}

#[test]
fn another_client_may_ping_before_it_has_a_session() {
    for profile in [Profile::Sessions, Profile::Full] {
        tolerated(Place::Http, profile, Spoil::Flag("another client probes"));
    }
}

#[test]
fn pings_of_another_client_answer_no_call() {
    let mut stage = Stage::new(Box::new(Web::new(Profile::Sessions, Spoil::Nothing)), TIMEOUT);
    stage.begin(&row("", "", &[], Era::Legacy));
    assert!(stage.open().is_ok());
    let call = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "echo"}});
    let send = |stage: &mut Stage, message: &Value, session: Option<String>| {
        let id = session.map(|id| ("Mcp-Session-Id".to_owned(), id));
        let (headers, body) = (id.into_iter().collect(), message.to_string().into_bytes());
        stage.take_request(HttpRequest { exchange: 99, method: "POST".to_owned(), headers, body })
    };
    let in_flight = |stage: &Stage| stage.session.judge.as_ref().map(|judge| judge.ledger().count(Origin::Client));
    let (id, before) = (stage.session.id.clone(), in_flight(&stage));
    send(&mut stage, &call(4711), id);
    let ping = json!({"jsonrpc": "2.0", "id": 4711, "method": "ping"});
    for message in [ping.clone(), json!([ping])] {
        if let Step::Message(ping) = send(&mut stage, &message, None) {
            stage.serve(&ping);
        }
    }
    assert_eq!(in_flight(&stage), before.map(|count| count + 1));
}

#[test]
fn the_same_call_is_no_retry() {
    for place in [Place::Stdio, Place::Http] {
        let findings = judge(place, Profile::Full, Spoil::Flag("repeats a call"), &[Era::Modern]);
        assert_eq!(word(&findings, "unsupported-attempts"), "passed");
    }
}

#[test]
fn what_came_before_the_deadline_counts() {
    let mut stage = Stage::new(Box::new(Memory::new(Profile::Sessions, Spoil::Nothing)), TIMEOUT);
    stage.begin(&row("", "", &[], Era::Legacy));
    assert!(stage.start().is_ok());
    let deadline = stage.deadline(Duration::ZERO);
    let first = stage.wait(deadline, |message| message.method() == "initialize");
    assert!(matches!(first, Ok(Wait::Message(_))), "{first:?}");
}

/// A client that writes without an end, and takes no time for it.
struct Burst(Memory);

impl Link for Burst {
    fn is_http(&self) -> bool {
        false
    }

    fn start(&mut self) -> io::Result<()> {
        self.0.start()
    }

    fn stop(&mut self) {}

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn arrived(&mut self, _: Instant) -> Option<Arrival> {
        None
    }

    fn next(&mut self, _: Duration) -> Arrival {
        match self.0.next(Duration::ZERO) {
            Arrival::Silence => Arrival::Line(br#"{"jsonrpc":"2.0","method":"notifications/flood"}"#.to_vec()),
            other => other,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write(bytes)
    }

    fn end_server(&mut self) {}
    fn respond(&mut self, _: u64, _: HttpReply) {}
    fn stream(&mut self, _: u64, _: &[u8]) {}
    fn finish(&mut self, _: u64) {}
}

#[test]
fn bursts_end_a_check() {
    let memory = Memory::new(Profile::Quiet, Spoil::Flag("no pings"));
    let mut stage = Stage::new(Box::new(Burst(memory)), Duration::from_millis(200));
    reach(&mut stage);
    assert!(stage.facts.notes.iter().any(|note| note.contains("more than 10000 messages")), "{:?}", stage.facts.notes);
    // Names that no check asks for are not kept.
    assert!(stage.seen.iter().all(|(_, name)| stage.needed.contains(name)), "{:?}", stage.seen);
}
