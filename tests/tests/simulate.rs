//! Runs of the simulation: the invariants hold, a seed says everything, and what should happen does.
//!
//! `cargo run --release -p mcp-tests --bin simulate -- --runs 1000000` plays many more.

use mcp_tests::simulate::{self, Played};

/// How many, where the compiler helps and where it does not.
const RUNS: u64 = if cfg!(debug_assertions) { 200 } else { 3000 };

/// Everything that happens in the run of a seed.
fn trace(seed: u64) -> (Played, String) {
    let mut text = String::new();
    let played = simulate::run(
        seed,
        Some(Box::new(|line| {
            text.push_str(line);
            text.push('\n');
        })),
    );
    (played, text)
}

#[test]
fn invariants_hold() {
    for seed in 0..RUNS {
        if let Err(why) = simulate::attempt(seed, None) {
            panic!("seed {seed}: {why}\ncargo run -p mcp-tests --bin simulate -- --seed {seed} --trace");
        }
    }
}

/// Law 2, for everything at once.
#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..20 {
        let (played, text) = trace(seed);
        assert_eq!((played, &text), (trace(seed).0, &trace(seed).1), "seed {seed}");
        assert_eq!(played, simulate::run(seed, None), "seed {seed}: a trace changes nothing");
        assert_ne!(played.hash, simulate::run(seed + 1, None).hash);
    }
}

/// A simulation in which nothing goes wrong, or nothing goes right, shows nothing.
#[test]
fn everything_happens() {
    let all: String = (0..100).map(|seed| trace(seed).1).collect();
    let expected = [
        // Both eras, and what leads to them.
        "\"method\":\"initialize\"",
        "\"method\":\"server/discover\"",
        "event    Ready",
        "Closed(HandshakeTimeout)",
        "Closed(LegacyServer",
        "Closed(UnsupportedVersion",
        // How calls end.
        "outcome: Result",
        "outcome: Error",
        "outcome: Malformed",
        "TimedOut { total: true }",
        "TimedOut { total: false }",
        "outcome: Cancelled",
        "outcome: Closed",
        // How requests end.
        "event    Cancelled",
        "cause: Closed",
        "event    Late",
        // What belongs to requests.
        "event    Progress",
        "\"method\":\"notifications/message\"",
        "\"resultType\":\"input_required\"",
        "\"inputResponses\"",
        "\"requestState\"",
        "\"method\":\"sampling/createMessage\"",
        "\"nextCursor\"",
        "\"taskId\"",
        // Tasks of requests without a session.
        "event    Task",
        "\"method\":\"tasks/get\"",
        "\"method\":\"tasks/update\"",
        "\"method\":\"tasks/cancel\"",
        "notifications/tasks",
        // News.
        "notifications/subscriptions/acknowledged",
        "io.modelcontextprotocol/subscriptionId",
        "notifications/tools/list_changed",
        "notifications/resources/updated",
        // Limits, and those who find them.
        "Err(Busy)",
        "Violation(TooManyRequests)",
        "Violation(Oversized)",
        "Violation(DuplicateId",
        "Violation(UnknownResponse",
        "Closed(PeerNotReading)",
        "mischief",
        // Ends of every kind.
        "Closed(Local)",
        "Closed(Eof)",
        "Closed(ConnectionLost)",
        "Closed(PeerSilent)",
        " vanishes",
        " stalls",
        " breaks",
    ];
    let missing: Vec<&str> = expected.into_iter().filter(|what| !all.contains(what)).collect();
    assert!(missing.is_empty(), "this never happens: {missing:?}");
}
