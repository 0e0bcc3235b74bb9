//! Tests of the checks of clients: a good client passes all, and for each check there is a client that breaks its rule
//! only.

mod client;
mod faults;
mod lawful;
mod links;

use std::{collections::BTreeSet, fs, time::Duration};

use client::Profile;
use faults::{Place, Spoil, faults};
use links::{Memory, Web};

use super::{
    catalogue::checks,
    link::Link,
    run::{reach, run},
    stage::Stage,
};
use crate::{
    check::{
        definition::{Level, On},
        era::Era,
        run::Finding,
    },
    rules::text,
};

/// How long an answer may take. Silence of a client in memory takes no time.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Runs all checks of an era against a client.
fn judge(place: Place, profile: Profile, spoil: Spoil, eras: &[Era]) -> Vec<Finding> {
    let link: Box<dyn Link> = match place {
        Place::Stdio => Box::new(Memory::new(profile, spoil)),
        Place::Http => Box::new(Web::new(profile, spoil)),
    };
    let mut stage = Stage::new(link, TIMEOUT);
    reach(&mut stage);
    run(&mut stage, eras, &[], |_| {})
}

/// Returns the ids of the checks that found something.
fn found(findings: &[Finding]) -> BTreeSet<&'static str> {
    findings.iter().filter(|it| matches!(it.word(), "failed" | "warning")).map(|it| it.check.id).collect()
}

#[test]
fn good_clients_pass() {
    let mut passed = BTreeSet::new();
    for place in [Place::Stdio, Place::Http] {
        for profile in [Profile::Full, Profile::Sessions, Profile::Plain, Profile::Quiet] {
            let findings = judge(place, profile, Spoil::Nothing, &[Era::Modern, Era::Legacy]);
            assert_eq!(found(&findings), BTreeSet::new(), "{place:?} {profile:?}: {findings:#?}");
            passed.extend(findings.iter().filter(|it| it.word() == "passed").map(|it| it.check.id));
        }
    }
    // What only a client that breaks a rule sends.
    let never = ["modern-cancellation"];
    let all = checks().map(|check| check.row.id);
    let missing: Vec<_> = all.filter(|id| !passed.contains(id) && !never.contains(id)).collect();
    assert!(missing.is_empty(), "no good client reaches {missing:?}");
}

#[test]
fn quiet_clients_are_judged() {
    for place in [Place::Stdio, Place::Http] {
        let findings = judge(place, Profile::Quiet, Spoil::Nothing, &[Era::Legacy]);
        let passed = findings.iter().filter(|it| it.word() == "passed").count();
        assert!(passed > 25, "{place:?}: {passed}");
    }
}

#[test]
fn bad_clients_are_reported() {
    let mut wrong = Vec::new();
    for fault in faults() {
        let check = checks().find(|check| check.row.id == fault.check).expect(fault.check);
        let findings = judge(fault.place, fault.profile, fault.spoil, &[check.row.era]);
        let found = found(&findings);
        for finding in findings.iter().filter(|finding| found.contains(finding.check.id)) {
            let shows = finding.why().starts_with("the client sent: ") || !finding.entries.is_empty();
            assert!(shows || finding.check.id == "http-delete", "no bytes show it: {finding:?}");
            assert!(finding.rules().iter().all(|rule| finding.check.rules.contains(rule)), "{finding:?}");
            let broken = if fault.broken.is_empty() { finding.check.rules } else { fault.broken };
            if finding.check.id == fault.check && finding.rules() != broken {
                wrong.push(format!("{} {:?}: {:?} are broken", fault.check, fault.place, finding.rules()));
            }
        }
        let expected: BTreeSet<_> = [fault.check].into_iter().chain(fault.also.iter().copied()).collect();
        if found != expected {
            let is_shown = |it: &&Finding| it.check.id == fault.check || found.contains(it.check.id);
            let shown = findings.iter().filter(is_shown);
            let why: Vec<_> = shown.map(|it| format!("{} {}: {}", it.word(), it.check.id, it.why())).collect();
            wrong.push(format!("{} {:?}: found {found:?} {why:#?}", fault.check, fault.place));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let faults: BTreeSet<_> = faults().map(|fault| fault.check).collect();
    let missing: Vec<_> = checks().map(|check| check.row.id).filter(|id| !faults.contains(id)).collect();
    assert!(missing.is_empty(), "no bad client for {missing:?}");
}

#[test]
fn levels_are_those_of_the_tables() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/requirements");
    let tables: String = ["legacy", "modern"]
        .map(|era| fs::read_to_string(format!("{folder}/requirements-{era}.csv")).expect("a table"))
        .concat();
    let mut ids = BTreeSet::new();
    for check in checks() {
        let row = &check.row;
        assert!(ids.insert(row.id), "{} is there twice", row.id);
        for rule in row.rules {
            let line = tables.lines().find(|line| line.starts_with(&format!("{rule},"))).expect(rule);
            assert!(!text(rule).is_empty(), "{rule} has no text");
            assert_eq!(rule.starts_with("M-"), row.era == Era::Modern, "{}: {rule}", row.id);
            let fields: Vec<_> = line.split(',').collect();
            assert!(!matches!(fields[2], "server" | "host"), "{}: {line}", row.id);
            let is_must = fields[3].starts_with("MUST") && !line.contains("(derived");
            // Only what the specification itself says with MUST is a failure.
            assert!(row.level == Level::Should || is_must, "{}: {line}", row.id);
            assert!(row.on != On::Stdio || !rule.contains("HTTP-"), "{}: {line}", row.id);
            // A rule that is not in the oldest revision is not judged there.
            let first = fields[4].split(' ').next().unwrap_or_default();
            assert!(row.era == Era::Modern || row.rules.len() > 1 || row.since >= first, "{}: {line}", row.id);
        }
    }
    assert!(ids.len() > 100, "{}", ids.len());
}

/// Runs one check against a client that does what it may do.
fn tolerated(place: Place, profile: Profile, spoil: Spoil) {
    let findings = judge(place, profile, spoil, &[Era::Modern, Era::Legacy]);
    let found = found(&findings);
    let why: Vec<_> = findings.iter().filter(|it| found.contains(it.check.id)).collect();
    assert!(why.is_empty(), "{why:#?}");
    assert!(findings.iter().filter(|it| it.word() == "passed").count() > 25, "the client is reached");
}

#[test]
fn questions_may_be_refused() {
    for place in [Place::Stdio, Place::Http] {
        // A person declines, or the program has no answer.
        tolerated(
            place,
            Profile::Sessions,
            Spoil::Out(|message| {
                if message["result"]["model"].is_string() || message["result"]["roots"].is_array() {
                    let error = serde_json::json!({"code": -1, "message": "User rejected the request"});
                    *message = serde_json::json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
                }
                if message["result"]["action"].is_string() {
                    message["result"] = serde_json::json!({"action": "cancel"});
                }
            }),
        );
    }
}

#[test]
fn questions_may_wait_for_a_person() {
    tolerated(
        Place::Http,
        Profile::Sessions,
        Spoil::Out(|message| {
            if message["result"]["model"].is_string() || message["result"]["action"].is_string() {
                *message = serde_json::Value::Null;
            }
        }),
    );
}

#[test]
fn responses_and_headers_may_be_unusual() {
    // Unknown members, metadata, and errors with data.
    tolerated(
        Place::Stdio,
        Profile::Full,
        Spoil::Out(|message| {
            if message["result"].is_object() {
                message["result"]["_meta"] = serde_json::json!({"example.com/a": 1});
                message["more"] = serde_json::json!(true);
            }
            if message["error"].is_object() {
                message["error"]["data"] = serde_json::json!(["any"]);
            }
        }),
    );
    tolerated(
        Place::Http,
        Profile::Full,
        Spoil::Http(|_, request| {
            for (name, value) in &mut request.headers {
                if name == "Accept" && request.method == "POST" {
                    *value = "TEXT/Event-Stream;q=0.9 , application/JSON, */*".to_owned();
                }
                if name == "Content-Type" {
                    *value = "application/json; charset=utf-8".to_owned();
                }
                *name = name.to_ascii_uppercase();
            }
        }),
    );
}

#[test]
fn ids_may_be_texts() {
    tolerated(Place::Stdio, Profile::Plain, Spoil::Flag("text ids"));
    tolerated(Place::Http, Profile::Full, Spoil::Flag("text ids"));
}

/// A client that writes without an end.
struct Flood {
    memory: Memory,
    lines: usize,
}

impl Link for Flood {
    fn is_http(&self) -> bool {
        false
    }

    fn start(&mut self) -> std::io::Result<()> {
        self.memory.start()
    }

    fn stop(&mut self) {}

    fn now(&self) -> std::time::Instant {
        // Each line takes some time.
        self.memory.now() + Duration::from_millis(u64::try_from(self.lines).unwrap_or_default())
    }

    fn arrived(&mut self, _: std::time::Instant) -> Option<super::link::Arrival> {
        None
    }

    fn next(&mut self, _: Duration) -> super::link::Arrival {
        match self.memory.next(Duration::ZERO) {
            super::link::Arrival::Silence => {
                self.lines += 1;
                super::link::Arrival::Line(br#"{"jsonrpc":"2.0","method":"notifications/flood"}"#.to_vec())
            }
            other => other,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.memory.write(bytes)
    }

    fn end_server(&mut self) {}
    fn respond(&mut self, _: u64, _: super::link::HttpReply) {}
    fn stream(&mut self, _: u64, _: &[u8]) {}
    fn finish(&mut self, _: u64) {}
}

#[test]
fn floods_do_not_extend_the_time() {
    // It responds to no ping, and never falls silent.
    let memory = Memory::new(Profile::Quiet, Spoil::Flag("no pings"));
    let mut stage = Stage::new(Box::new(Flood { memory, lines: 0 }), Duration::from_millis(200));
    reach(&mut stage);
    let only = ["ping", "unknown-method", "late-response"].map(str::to_owned);
    let findings = run(&mut stage, &[Era::Legacy], &only, |_| {});
    let words: Vec<_> = findings.iter().map(|it| it.word()).collect();
    assert_eq!(words, ["failed", "passed", "not reachable"], "{findings:#?}");
    // It goes on also after its requests were refused.
    let memory = Memory::new(Profile::Full, Spoil::Flag("waits after refusals"));
    let mut stage = Stage::new(Box::new(Flood { memory, lines: 0 }), Duration::from_millis(200));
    reach(&mut stage);
    let findings = run(&mut stage, &[Era::Modern], &["unsupported-attempts".to_owned()], |_| {});
    assert_eq!(findings[0].word(), "passed", "{findings:#?}");
}
