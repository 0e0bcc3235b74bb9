//! The scenarios that are explored.

use mcp_proto::protocol::{ProtocolVersion, VersionSet};

use super::scenario::{Ask, Opening, Plan, Scenario};

const CALL: Ask = Ask::of("tools/call");
const ROOTS: Ask = Ask::of("roots/list");
const PING: Ask = Ask::of("ping");
const LISTEN: Ask = Ask::of("subscriptions/listen");

const LEGACY: Opening = Opening::Ready(ProtocolVersion::LATEST_LEGACY);
const BATCHES: Opening = Opening::Ready(ProtocolVersion::V2025_03_26);
const MODERN: Opening = Opening::Ready(ProtocolVersion::V2026_07_28);

/// Every scenario.
#[must_use]
pub fn all() -> Vec<Scenario> {
    [small(), large()].concat()
}

/// Those that are played by every run of the tests.
#[must_use]
pub fn small() -> Vec<Scenario> {
    [legacy(), modern(), openings()].concat()
}

/// Sessions, some ten thousand states each.
#[must_use]
pub fn legacy() -> Vec<Scenario> {
    let (calls, roots) = (Plan::asks([CALL, CALL]), Plan::asks([ROOTS, ROOTS]));
    let (call, root) = (Plan::asks([CALL]), Plan::asks([ROOTS]));
    vec![
        Scenario::new("two each way", LEGACY, calls.clone().cancels(1), roots.clone().cancels(1)),
        Scenario::new(
            "progress",
            LEGACY,
            Plan::asks([CALL.with_progress()]).cancels(1),
            root.clone().reports(2).errors(1),
        ),
        Scenario::new(
            "timeouts",
            LEGACY,
            Plan::asks([CALL.with_progress().within(10, 15), CALL.within(12, 12)]),
            Plan::default().reports(1),
        ),
        Scenario::new("close", LEGACY, calls.clone().closes(), root.clone().closes().notes(1)),
        Scenario::new("drop", LEGACY, Plan::asks([CALL, PING]).cancels(1).breaks(), root.clone().breaks()).cut(),
        Scenario::new("repeats", LEGACY, call.clone().cancels(1), root.clone().cancels(1)).repeats(1).capacity(2),
        Scenario::new("batches", BATCHES, Plan::asks([CALL.with_progress(), PING]).cancels(2), root.clone().reports(1))
            .batches(2)
            .capacity(3),
        Scenario::new("pings", LEGACY, call.cancels(1).pings(10), root.clone().pings(15)).ticks(2),
        Scenario::new(
            "little room",
            LEGACY,
            Plan::asks([CALL, CALL, CALL]).cancels(1).holds(2, 1, 200),
            roots.clone().holds(2, 2, 200),
        ),
        // With so little room, each end waits for the other one to read first.
        Scenario::new(
            "both wait to be read",
            LEGACY,
            calls.clone().holds(2, 2, 100).pauses(30),
            roots.holds(2, 2, 100).pauses(30),
        )
        .unhurried(),
        // Time may pass although something else can happen, so a pause ends while its reason lasts.
        Scenario::new(
            "a pause that ends early",
            LEGACY,
            calls.holds(2, 1, 100).pauses(30),
            root.holds(2, 1, 100).pauses(30),
        )
        .ticks(2),
    ]
}

/// 2026-07-28, some ten thousand states each.
#[must_use]
pub fn modern() -> Vec<Scenario> {
    let calls = Plan::asks([CALL, CALL]);
    vec![
        Scenario::new(
            "rounds",
            MODERN,
            Plan::asks([CALL.with_progress().within(10, 30)]).cancels(1).errors(1),
            Plan::default().reports(1).questions(2),
        ),
        Scenario::new("two calls with questions", MODERN, calls.cancels(1).errors(1), Plan::default().questions(1)),
        Scenario::new(
            "subscription",
            MODERN,
            Plan::asks([LISTEN.within(10, 10), CALL]).cancels(2),
            Plan::default().notes(2),
        ),
        Scenario::new(
            "subscriptions that end",
            MODERN,
            Plan::asks([LISTEN, LISTEN]).cancels(1).closes(),
            Plan::default().notes(1).closes(),
        ),
        Scenario::new(
            "subscriptions that are ended",
            MODERN,
            Plan::asks([LISTEN.again()]).cancels(1),
            Plan::default().notes(1),
        )
        .ends(3),
        Scenario::new(
            "a task",
            MODERN,
            Plan::asks([CALL.within(10, 25)]).cancels(1).errors(1),
            Plan::default().tasks(1),
        ),
        Scenario::new("a task, twice told", MODERN, Plan::asks([CALL.within(20, 15)]), Plan::default().tasks(1))
            .repeats(1),
        Scenario::new(
            "a task, dropped",
            MODERN,
            Plan::asks([CALL.within(20, 15)]).closes().breaks(),
            Plan::default().tasks(1).closes(),
        )
        .cut(),
        Scenario::new(
            "modern repeats",
            MODERN,
            Plan::asks([LISTEN, CALL]).cancels(1).errors(1).closes(),
            Plan::default().questions(1),
        )
        .repeats(1)
        .capacity(2),
        Scenario::new(
            "modern drop",
            MODERN,
            Plan::asks([CALL, LISTEN]).cancels(1).breaks(),
            Plan::default().questions(1).breaks(),
        )
        .cut(),
    ]
}

/// From the first byte on, for each pair of eras, some thousand states each.
#[must_use]
pub fn openings() -> Vec<Scenario> {
    let (call, root) = (Plan::asks([CALL]).closes(), Plan::asks([ROOTS]).closes());
    let (old, both, new) = (VersionSet::LEGACY, VersionSet::ALL, VersionSet::MODERN);
    vec![
        Scenario::new("handshake", Opening::Fresh(old, old), call.clone(), root.clone().notes(1)).cut(),
        Scenario::new("an old server", Opening::Fresh(both, old), call.clone().cancels(1), root.clone()),
        Scenario::new("a server of both eras", Opening::Fresh(both, both), call.clone().cancels(1), root),
        Scenario::new("an old client", Opening::Fresh(old, both), call.clone().cancels(1), Plan::default().closes()),
        Scenario::new("a session beside it", Opening::Fresh(new, both), call, Plan::default().closes()).newcomer(),
    ]
}

/// Scenarios so small that every schedule can be run.
#[must_use]
pub fn tiny() -> Vec<Scenario> {
    let call = Plan::asks([CALL.with_progress().within(10, 10)]);
    vec![
        Scenario::new("one call", LEGACY, call.clone().cancels(1), Plan::default().reports(1)),
        Scenario::new("one each way", LEGACY, call.clone(), Plan::asks([ROOTS])),
        Scenario::new("one call, dropped", LEGACY, call.clone(), Plan::default().breaks()).cut(),
        Scenario::new("one call with a question", MODERN, call.cancels(1), Plan::default().questions(1)),
    ]
}

/// Scenarios of some million states: two requests each way, and everything that may happen to them.
#[must_use]
pub fn large() -> Vec<Scenario> {
    let (calls, roots) = (Plan::asks([CALL, CALL]), Plan::asks([ROOTS, ROOTS]));
    let reported = Plan::asks([CALL.with_progress(), CALL]);
    vec![
        Scenario::new("cancelled, all of them", LEGACY, calls.clone().cancels(2), roots.clone().cancels(2)).capacity(2),
        Scenario::new("reported and refused", LEGACY, reported.clone().cancels(1), roots.clone().reports(1).errors(1)),
        Scenario::new(
            "timed out",
            LEGACY,
            Plan::asks([CALL.with_progress().within(10, 15), CALL.within(12, 12)]).cancels(1),
            Plan::asks([ROOTS.within(10, 10), ROOTS]).reports(2),
        ),
        Scenario::new("closed", LEGACY, calls.clone().cancels(1).closes(), roots.clone().cancels(1).closes().notes(1)),
        Scenario::new(
            "dropped",
            LEGACY,
            reported.clone().cancels(1).breaks(),
            roots.clone().cancels(1).reports(1).breaks(),
        )
        .cut(),
        Scenario::new("repeated", LEGACY, calls.clone().cancels(1), roots.clone().cancels(1)).repeats(2).capacity(2),
        Scenario::new(
            "in batches",
            BATCHES,
            Plan::asks([CALL.with_progress(), PING, CALL]).cancels(1),
            roots.clone().reports(1).errors(1),
        )
        .batches(2)
        .capacity(3),
        Scenario::new(
            "everything at once",
            LEGACY,
            Plan::asks([CALL.with_progress().within(10, 15)]).cancels(1).closes(),
            Plan::asks([ROOTS.within(10, 10)]).cancels(1).reports(1).errors(1).closes(),
        )
        .repeats(1)
        .cut(),
        Scenario::new(
            "questions",
            MODERN,
            Plan::asks([CALL.with_progress().within(10, 30), CALL]).cancels(2).errors(1),
            Plan::default().reports(1).questions(2),
        ),
        Scenario::new(
            "questions and a subscription",
            MODERN,
            Plan::asks([CALL.within(10, 20), LISTEN.within(10, 10)]).cancels(2).errors(1),
            Plan::default().questions(2).notes(1).errors(1),
        ),
        Scenario::new(
            "questions, closed",
            MODERN,
            Plan::asks([CALL.with_progress(), CALL]).cancels(1).closes(),
            Plan::default().reports(1).questions(1).closes(),
        ),
        Scenario::new(
            "questions, dropped",
            MODERN,
            Plan::asks([CALL.with_progress(), CALL]).cancels(1).breaks(),
            Plan::default().reports(1).questions(1).breaks(),
        )
        .cut(),
        Scenario::new(
            "questions, repeated",
            MODERN,
            Plan::asks([CALL, CALL]).cancels(1).errors(1),
            Plan::default().questions(1).errors(1),
        )
        .repeats(1)
        .capacity(2),
        Scenario::new(
            "tasks",
            MODERN,
            Plan::asks([CALL.within(10, 25), CALL.within(20, 15)]).cancels(1).errors(1),
            Plan::default().tasks(1),
        ),
        Scenario::new(
            "subscriptions, calls and a gateway",
            MODERN,
            Plan::asks([LISTEN.again(), CALL]).cancels(2),
            Plan::default().notes(1),
        )
        .ends(3),
        Scenario::new(
            "modern, everything at once",
            MODERN,
            Plan::asks([CALL.with_progress().within(10, 30), LISTEN]).cancels(1).errors(1).closes().breaks(),
            Plan::default().reports(1).questions(1).notes(1).errors(1).closes().breaks(),
        )
        .repeats(1)
        .cut(),
        Scenario::new(
            "a handshake with everything behind it",
            Opening::Fresh(VersionSet::ALL, VersionSet::LEGACY),
            calls.cancels(1).closes(),
            roots.cancels(1).closes(),
        )
        .cut(),
    ]
}
