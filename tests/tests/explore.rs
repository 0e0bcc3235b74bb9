//! Explores every order of events on the real connections: see `mcp_tests::explore`.
//!
//! `cargo run --release -p mcp-tests --bin explore` explores larger scenarios than these.

use mcp_tests::explore::{CoverPoint, CoverPoints, InjectedFault, Scenario, catalog, enumerate, explore};

/// Checks that the rules hold in all scenarios, and returns the cover points that they reach.
fn all_hold(scenarios: Vec<Scenario>) -> CoverPoints {
    let mut covered = CoverPoints::default();
    for scenario in scenarios {
        let report = explore(&scenario).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.ends > 1 && report.schedules > 1e3, "nothing happens in {}: {report:?}", scenario.name);
        covered = covered.union(report.covered);
    }
    covered
}

// req: BASE-006 BASE-007 BASE-029 CANC-004 CANC-009 CANC-012 PROG-007 PROG-009 PROG-011 LIFE-041 BATCH-005
#[test]
fn all_orders_hold_in_the_legacy_era() {
    let covered = all_hold(catalog::legacy());
    let mut all =
        CoverPoint::ALL.into_iter().filter(|(what, _)| !matches!(what, CoverPoint::InputRequired | CoverPoint::Task));
    assert!(all.all(|(what, _)| covered.contains(what)), "{covered}");
}

// req: M-CANC-003 M-CANC-009 M-CANC-012 M-SUBS-005 M-SUBS-006 M-SUBS-015
#[test]
fn all_orders_hold_in_the_modern_era() {
    let covered = all_hold(catalog::modern());
    let mut all = CoverPoint::ALL.into_iter().filter(|(what, _)| *what != CoverPoint::Paused);
    assert!(all.all(|(what, _)| covered.contains(what)), "{covered}");
}

// req: CANC-005
#[test]
fn all_orders_hold_during_openings() {
    all_hold(catalog::openings());
}

#[test]
fn planted_flaws_are_found() {
    for (injected, rule, name) in InjectedFault::ALL {
        let scenario = catalog::all().into_iter().find(|scenario| scenario.name == name).expect("it is listed");
        let explored = explore(&scenario.with_fault(injected));
        let Err(failure) = explored else { panic!("{injected:?} goes unnoticed") };
        assert_eq!(failure.violation.rule, rule, "{injected:?}: {failure}");
    }
}

/// Schedules are counted without running each of them. For scenarios that are small enough to enumerate, the counts
/// agree.
#[test]
fn schedule_counts_match_full_enumeration() {
    for scenario in catalog::tiny() {
        let (merged, each) = (explore(&scenario).expect("it holds"), enumerate(&scenario).expect("it holds"));
        assert_eq!(merged.schedules, each.ends as f64, "{}", scenario.name);
        assert_eq!((merged.schedules, merged.longest), (each.schedules, each.longest), "{}", scenario.name);
        assert!(merged.states < each.states && merged.schedules > 100.0, "{merged:?} {each:?}");
    }
}
