//! Tests of the checks: a good server passes all, and for each check there is a server that breaks its rule only.

mod bounds;
mod faults;
mod server;
mod tolerance;
mod wires;

use std::{collections::BTreeSet, fs, time::Duration};

use faults::{Place, faults};
use server::Profile;
use wires::{Memory, Spoil, Web};

use super::{
    catalogue::checks,
    definition::{Level, On},
    era::Era,
    probe::{HostileLimits, Probe, Wire},
    run::{Finding, Selection, reach, run},
};
use crate::rules::text;

/// How long a response may take. Silence of a server in memory takes no time.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Runs all checks against a server.
fn judge(place: Place, profile: Profile, spoil: Spoil) -> Vec<Finding> {
    let wire = match place {
        Place::Stdio => Wire::Program(Box::new(Memory::new(profile, spoil))),
        Place::Json => Wire::Site(Box::new(Web::new(profile, spoil, false))),
        Place::Stream => Wire::Site(Box::new(Web::new(profile, spoil, true))),
    };
    judge_wire(wire, TIMEOUT, &[])
}

/// Runs checks against a server.
fn judge_wire(wire: Wire, timeout: Duration, only: &[String]) -> Vec<Finding> {
    let limits = HostileLimits { bytes: 1000, depth: 100, messages: 50 };
    let mut probe = Probe::new(wire, timeout, limits);
    reach(&mut probe);
    let selection = Selection { eras: &[Era::Modern, Era::Legacy], is_hostile: true, only };
    let findings = run(&mut probe, &selection, |_| {});
    probe.close();
    findings
}

/// Returns the ids of the checks that found something.
fn found(findings: &[Finding]) -> BTreeSet<&'static str> {
    findings.iter().filter(|it| matches!(it.word(), "failed" | "warning")).map(|it| it.check.id).collect()
}

#[test]
fn good_servers_pass() {
    let mut passed = BTreeSet::new();
    for place in [Place::Stdio, Place::Json, Place::Stream] {
        for profile in [Profile::Full, Profile::Small, Profile::ModernOnly, Profile::LegacyOnly] {
            let findings = judge(place, profile, Spoil::Nothing);
            for finding in &findings {
                let is_good = matches!(finding.word(), "passed" | "not applicable");
                assert!(is_good, "{place:?} {profile:?}: {finding:#?}");
                if finding.word() == "passed" {
                    passed.insert(finding.check.id);
                }
            }
        }
    }
    // Each check has been reached.
    let missing: Vec<_> = checks().map(|check| check.id).filter(|id| !passed.contains(id)).collect();
    assert!(missing.is_empty(), "no good server reaches {missing:?}");
}

#[test]
fn bad_servers_are_reported() {
    let mut wrong = Vec::new();
    for fault in faults() {
        let findings = judge(fault.place, fault.profile, fault.spoil);
        let found = found(&findings);
        for finding in findings.iter().filter(|finding| found.contains(finding.check.id)) {
            let is_passive = finding.why().starts_with("the server sent: ");
            assert!(is_passive || !finding.entries.is_empty(), "no bytes show it: {finding:?}");
            assert!(finding.rules().iter().all(|rule| finding.check.rules.contains(rule)), "{finding:?}");
            let broken = if fault.broken.is_empty() { finding.check.rules } else { fault.broken };
            if finding.check.id == fault.check && finding.rules() != broken {
                wrong.push(format!("{}: {:?} are broken", fault.check, finding.rules()));
            }
        }
        let expected: BTreeSet<_> = [fault.check].into_iter().chain(fault.also.iter().copied()).collect();
        if found != expected {
            wrong.push(format!("{}: found {found:?}", fault.check));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let faults: BTreeSet<_> = faults().map(|fault| fault.check).collect();
    let missing: Vec<_> = checks().map(|check| check.id).filter(|id| !faults.contains(id)).collect();
    assert!(missing.is_empty(), "no bad server for {missing:?}");
}

#[test]
fn levels_are_those_of_the_tables() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/requirements");
    let tables: String = ["legacy", "modern"]
        .map(|era| fs::read_to_string(format!("{folder}/requirements-{era}.csv")).expect("a table"))
        .concat();
    let mut ids = BTreeSet::new();
    for check in checks() {
        assert!(ids.insert(check.id), "{} is there twice", check.id);
        for rule in check.rules {
            let row = tables.lines().find(|row| row.starts_with(&format!("{rule},"))).expect(rule);
            assert!(!text(rule).is_empty(), "{rule} has no text");
            let is_modern = rule.starts_with("M-");
            assert_eq!(is_modern, check.era == Era::Modern, "{}: {rule}", check.id);
            let level = row.split(',').nth(3).expect("a level");
            let is_must = level.starts_with("MUST") && !row.contains("derived)");
            // Only what the specification itself says with MUST is a failure.
            assert!(check.level == Level::Should || is_must, "{}: {row}", check.id);
            assert!(check.on != On::Stdio || !rule.contains("HTTP-"), "{}: {row}", check.id);
        }
    }
    assert!(ids.len() > 150, "{}", ids.len());
    for document in ["README.md", "../../docs/mcp.md"] {
        let text = fs::read_to_string(format!("{}/{document}", env!("CARGO_MANIFEST_DIR"))).expect("a document");
        let told = [format!("{} checks of both eras", ids.len()), format!("prints all {}\n", ids.len())];
        assert!(
            told.iter().any(|it| text.contains(it)),
            "{document} does not tell that there are {} checks",
            ids.len()
        );
    }
}
