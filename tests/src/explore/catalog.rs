//! The scenarios that are explored.

use mcp_proto::protocol::{ProtocolVersion, VersionSet};

use super::scenario::{Opening, Plan, PlannedRequest, Scenario};

const CALL: PlannedRequest = PlannedRequest::of("tools/call");
const ROOTS: PlannedRequest = PlannedRequest::of("roots/list");
const PING: PlannedRequest = PlannedRequest::of("ping");
const LISTEN: PlannedRequest = PlannedRequest::of("subscriptions/listen");

const LEGACY: Opening = Opening::Ready(ProtocolVersion::LATEST_LEGACY);
const BATCHES: Opening = Opening::Ready(ProtocolVersion::V2025_03_26);
const MODERN: Opening = Opening::Ready(ProtocolVersion::V2026_07_28);

/// Every scenario.
#[must_use]
pub fn all() -> Vec<Scenario> {
    [small(), large()].concat()
}

/// The scenarios of each test run.
#[must_use]
pub fn small() -> Vec<Scenario> {
    [legacy(), modern(), openings()].concat()
}

/// Scenarios of sessions, with some ten thousand states each.
#[must_use]
pub fn legacy() -> Vec<Scenario> {
    let (calls, roots) = (Plan::requests([CALL, CALL]), Plan::requests([ROOTS, ROOTS]));
    let (call, root) = (Plan::requests([CALL]), Plan::requests([ROOTS]));
    vec![
        Scenario::new("two each way", LEGACY, calls.clone().cancels(1), roots.clone().cancels(1)),
        Scenario::new(
            "progress",
            LEGACY,
            Plan::requests([CALL.with_progress()]).cancels(1),
            root.clone().reports(2).error_responses(1),
        ),
        Scenario::new(
            "timeouts",
            LEGACY,
            Plan::requests([CALL.with_progress().within(10, 15), CALL.within(12, 12)]),
            Plan::default().reports(1),
        ),
        Scenario::new(
            "response deadlines",
            LEGACY,
            Plan::requests([CALL.with_progress(), CALL]).cancels(1).replies_within(7),
            root.clone().reports(1).replies_within(5),
        ),
        Scenario::new("close", LEGACY, calls.clone().closes(), root.clone().closes().list_changes(1)),
        Scenario::new(
            "drop",
            LEGACY,
            Plan::requests([CALL, PING]).cancels(1).write_fails(),
            root.clone().write_fails(),
        )
        .cut(),
        Scenario::new("repeats", LEGACY, call.clone().cancels(1), root.clone().cancels(1)).duplicates(1).capacity(2),
        Scenario::new(
            "batches",
            BATCHES,
            Plan::requests([CALL.with_progress(), PING]).cancels(2),
            root.clone().reports(1),
        )
        .batches(2)
        .capacity(3),
        Scenario::new("pings", LEGACY, call.cancels(1).keepalive(10), root.clone().keepalive(15)).ticks(2),
        Scenario::new(
            "little room",
            LEGACY,
            Plan::requests([CALL, CALL, CALL]).cancels(1).limited_to(2, 1, 200),
            roots.clone().limited_to(2, 2, 200),
        ),
        // With these limits each side waits until the other one reads.
        Scenario::new(
            "both wait to be read",
            LEGACY,
            calls.clone().limited_to(2, 2, 100).input_pause(30),
            roots.limited_to(2, 2, 100).input_pause(30),
        )
        .eager(),
        // Time may pass while other actions are possible, so a pause can end while its cause remains.
        Scenario::new(
            "a pause that ends early",
            LEGACY,
            calls.limited_to(2, 1, 100).input_pause(30),
            root.limited_to(2, 1, 100).input_pause(30),
        )
        .ticks(2),
    ]
}

/// Scenarios of 2026-07-28, with some ten thousand states each.
#[must_use]
pub fn modern() -> Vec<Scenario> {
    let calls = Plan::requests([CALL, CALL]);
    vec![
        Scenario::new(
            "rounds",
            MODERN,
            Plan::requests([CALL.with_progress().within(10, 30)]).cancels(1).error_responses(1),
            Plan::default().reports(1).input_requests(2),
        ),
        Scenario::new(
            "two calls with input requests",
            MODERN,
            calls.cancels(1).error_responses(1),
            Plan::default().input_requests(1),
        ),
        Scenario::new(
            "subscription",
            MODERN,
            Plan::requests([LISTEN.within(10, 10), CALL]).cancels(2),
            Plan::default().list_changes(2),
        ),
        Scenario::new(
            "subscriptions that end",
            MODERN,
            Plan::requests([LISTEN, LISTEN]).cancels(1).closes(),
            Plan::default().list_changes(1).closes(),
        ),
        Scenario::new(
            "subscriptions that are ended",
            MODERN,
            Plan::requests([LISTEN.again()]).cancels(1),
            Plan::default().list_changes(1),
        )
        .ends(3),
        Scenario::new(
            "a task",
            MODERN,
            Plan::requests([CALL.within(10, 25)]).cancels(1).error_responses(1),
            Plan::default().tasks(1),
        ),
        Scenario::new("a task, twice told", MODERN, Plan::requests([CALL.within(20, 15)]), Plan::default().tasks(1))
            .duplicates(1),
        Scenario::new(
            "a task, dropped",
            MODERN,
            Plan::requests([CALL.within(20, 15)]).closes().write_fails(),
            Plan::default().tasks(1).closes(),
        )
        .cut(),
        Scenario::new(
            "modern repeats",
            MODERN,
            Plan::requests([LISTEN, CALL]).cancels(1).error_responses(1).closes(),
            Plan::default().input_requests(1),
        )
        .duplicates(1)
        .capacity(2),
        Scenario::new(
            "modern drop",
            MODERN,
            Plan::requests([CALL, LISTEN]).cancels(1).write_fails(),
            Plan::default().input_requests(1).write_fails(),
        )
        .cut(),
    ]
}

/// Scenarios from the first byte on, for each pair of eras, with some thousand states each.
#[must_use]
pub fn openings() -> Vec<Scenario> {
    let (call, root) = (Plan::requests([CALL]).closes(), Plan::requests([ROOTS]).closes());
    let (old, both, new) = (VersionSet::LEGACY, VersionSet::ALL, VersionSet::MODERN);
    vec![
        Scenario::new("handshake", Opening::Fresh(old, old), call.clone(), root.clone().list_changes(1)).cut(),
        Scenario::new("an old server", Opening::Fresh(both, old), call.clone().cancels(1), root.clone()),
        Scenario::new("a server of both eras", Opening::Fresh(both, both), call.clone().cancels(1), root),
        Scenario::new("an old client", Opening::Fresh(old, both), call.clone().cancels(1), Plan::default().closes()),
        Scenario::new("a session beside it", Opening::Fresh(new, both), call, Plan::default().closes()).second_client(),
    ]
}

/// Scenarios in which all schedules can be run.
#[must_use]
pub fn tiny() -> Vec<Scenario> {
    let call = Plan::requests([CALL.with_progress().within(10, 10)]);
    vec![
        Scenario::new("one call", LEGACY, call.clone().cancels(1), Plan::default().reports(1)),
        Scenario::new("one each way", LEGACY, call.clone(), Plan::requests([ROOTS])),
        Scenario::new("one call, dropped", LEGACY, call.clone(), Plan::default().write_fails()).cut(),
        Scenario::new("one call with an input request", MODERN, call.cancels(1), Plan::default().input_requests(1)),
    ]
}

/// Scenarios of some million states: two requests in each direction, with many possible actions.
#[must_use]
pub fn large() -> Vec<Scenario> {
    let (calls, roots) = (Plan::requests([CALL, CALL]), Plan::requests([ROOTS, ROOTS]));
    let handshake = Scenario::new(
        "a handshake with everything behind it",
        Opening::Fresh(VersionSet::ALL, VersionSet::LEGACY),
        calls.clone().cancels(1).closes(),
        roots.clone().cancels(1).closes(),
    );
    large_legacy(&calls, &roots).into_iter().chain(large_modern()).chain([handshake.cut()]).collect()
}

fn large_legacy(calls: &Plan, roots: &Plan) -> Vec<Scenario> {
    let reported = Plan::requests([CALL.with_progress(), CALL]);
    vec![
        Scenario::new("cancelled, all of them", LEGACY, calls.clone().cancels(2), roots.clone().cancels(2)).capacity(2),
        Scenario::new(
            "reported and refused",
            LEGACY,
            reported.clone().cancels(1),
            roots.clone().reports(1).error_responses(1),
        ),
        Scenario::new(
            "timed out",
            LEGACY,
            Plan::requests([CALL.with_progress().within(10, 15), CALL.within(12, 12)]).cancels(1),
            Plan::requests([ROOTS.within(10, 10), ROOTS]).reports(2),
        ),
        Scenario::new(
            "closed",
            LEGACY,
            calls.clone().cancels(1).closes(),
            roots.clone().cancels(1).closes().list_changes(1),
        ),
        Scenario::new(
            "dropped",
            LEGACY,
            reported.clone().cancels(1).write_fails(),
            roots.clone().cancels(1).reports(1).write_fails(),
        )
        .cut(),
        Scenario::new("repeated", LEGACY, calls.clone().cancels(1), roots.clone().cancels(1)).duplicates(2).capacity(2),
        Scenario::new(
            "in batches",
            BATCHES,
            Plan::requests([CALL.with_progress(), PING, CALL]).cancels(1),
            roots.clone().reports(1).error_responses(1),
        )
        .batches(2)
        .capacity(3),
        Scenario::new(
            "everything at once",
            LEGACY,
            Plan::requests([CALL.with_progress().within(10, 15)]).cancels(1).closes(),
            Plan::requests([ROOTS.within(10, 10)]).cancels(1).reports(1).error_responses(1).closes(),
        )
        .duplicates(1)
        .cut(),
    ]
}

fn large_modern() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "input requests",
            MODERN,
            Plan::requests([CALL.with_progress().within(10, 30), CALL]).cancels(2).error_responses(1),
            Plan::default().reports(1).input_requests(2),
        ),
        Scenario::new(
            "input requests and a subscription",
            MODERN,
            Plan::requests([CALL.within(10, 20), LISTEN.within(10, 10)]).cancels(2).error_responses(1),
            Plan::default().input_requests(2).list_changes(1).error_responses(1),
        ),
        Scenario::new(
            "input requests, closed",
            MODERN,
            Plan::requests([CALL.with_progress(), CALL]).cancels(1).closes(),
            Plan::default().reports(1).input_requests(1).closes(),
        ),
        Scenario::new(
            "input requests, dropped",
            MODERN,
            Plan::requests([CALL.with_progress(), CALL]).cancels(1).write_fails(),
            Plan::default().reports(1).input_requests(1).write_fails(),
        )
        .cut(),
        Scenario::new(
            "input requests, repeated",
            MODERN,
            Plan::requests([CALL, CALL]).cancels(1).error_responses(1),
            Plan::default().input_requests(1).error_responses(1),
        )
        .duplicates(1)
        .capacity(2),
        Scenario::new(
            "tasks",
            MODERN,
            Plan::requests([CALL.within(10, 25), CALL.within(20, 15)]).cancels(1).error_responses(1),
            Plan::default().tasks(1),
        ),
        Scenario::new(
            "subscriptions, calls and a gateway",
            MODERN,
            Plan::requests([LISTEN.again(), CALL]).cancels(2),
            Plan::default().list_changes(1),
        )
        .ends(3),
        Scenario::new(
            "modern, everything at once",
            MODERN,
            Plan::requests([CALL.with_progress().within(10, 30), LISTEN])
                .cancels(1)
                .error_responses(1)
                .closes()
                .write_fails(),
            Plan::default().reports(1).input_requests(1).list_changes(1).error_responses(1).closes().write_fails(),
        )
        .duplicates(1)
        .cut(),
    ]
}
