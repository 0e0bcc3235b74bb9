//! Every order in which things can happen, on the real connections: see `mcp_tests::explore`.
//!
//! `cargo run --release -p mcp-tests --bin explore` plays larger scenarios than these.

use mcp_tests::explore::{Flaw, Happened, Happening, Scenario, catalog, enumerate, explore};

/// All of these keep the rules; and what has happened in them.
fn all_hold(scenarios: Vec<Scenario>) -> Happened {
    let mut happened = Happened::default();
    for scenario in scenarios {
        let report = explore(&scenario).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.ends > 1 && report.schedules > 1e3, "nothing happens in {}: {report:?}", scenario.name);
        happened = happened.or(report.happened);
    }
    happened
}

// req: BASE-006 BASE-007 BASE-029 CANC-004 CANC-009 CANC-012 PROG-007 PROG-009 PROG-011 LIFE-041 BATCH-005
#[test]
fn no_order_of_things_breaks_a_session() {
    let happened = all_hold(catalog::legacy());
    let mut all = Happening::ALL.into_iter().filter(|(what, _)| !matches!(what, Happening::Asked | Happening::Task));
    assert!(all.all(|(what, _)| happened.has(what)), "{happened}");
}

// req: M-CANC-003 M-CANC-009 M-CANC-012 M-SUBS-005 M-SUBS-006 M-SUBS-015
#[test]
fn no_order_of_things_breaks_a_conversation_without_a_session() {
    let happened = all_hold(catalog::modern());
    let mut all = Happening::ALL.into_iter().filter(|(what, _)| *what != Happening::Paused);
    assert!(all.all(|(what, _)| happened.has(what)), "{happened}");
}

// req: CANC-005
#[test]
fn no_order_of_things_breaks_the_beginning() {
    all_hold(catalog::openings());
}

#[test]
fn what_goes_wrong_on_purpose_is_found() {
    for (flaw, rule, name) in Flaw::ALL {
        let scenario = catalog::all().into_iter().find(|scenario| scenario.name == name).expect("it is listed");
        let explored = explore(&scenario.flawed(flaw));
        let Err(failure) = explored else { panic!("{flaw:?} goes unnoticed") };
        assert_eq!(failure.fault.rule, rule, "{flaw:?}: {failure}");
    }
}

/// Schedules are counted without running each of them. Where they are few enough to be run, the count is right.
#[test]
fn as_many_schedules_are_counted_as_there_are() {
    for scenario in catalog::tiny() {
        let (merged, each) = (explore(&scenario).expect("it holds"), enumerate(&scenario).expect("it holds"));
        assert_eq!(merged.schedules, each.ends as f64, "{}", scenario.name);
        assert_eq!((merged.schedules, merged.longest), (each.schedules, each.longest), "{}", scenario.name);
        assert!(merged.states < each.states && merged.schedules > 100.0, "{merged:?} {each:?}");
    }
}
