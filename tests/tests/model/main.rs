//! The real connection beside a plain model of it (`mcp_tests::model`): random lists of steps have the same effects on
//! both.

mod sides;
mod steps;

use mcp_proto::protocol::{ProtocolVersion, Role};
use mcp_tests::model::Step;
use proptest::{collection::vec, prelude::*};
use serde_json::json;
use sides::{Start, with};
use steps::{Random, crowded, random};

/// Returns every role in every revision, before and after the handshake.
fn starts() -> Vec<Start> {
    let roles = [Role::Client, Role::Server];
    let revisions = ProtocolVersion::LEGACY.into_iter().chain([ProtocolVersion::V2026_07_28]);
    let ready = revisions.flat_map(|revision| roles.map(|role| Start { role, revision, is_ready: true }));
    let fresh = ProtocolVersion::LEGACY
        .into_iter()
        .flat_map(|revision| roles.map(|role| Start { role, revision, is_ready: false }));
    ready.chain(fresh).collect()
}

fn play(start: Start, randoms: &[Random]) -> Result<(), TestCaseError> {
    with(start, |sides| {
        for random in randoms {
            for step in random.steps(sides.model()) {
                sides.step(&step).map_err(TestCaseError::fail)?;
            }
        }
        sides.send_everything().map_err(TestCaseError::fail)
    })
}

/// Returns the number of cases. `PROPTEST_CASES=200000 cargo test --release -p mcp-tests --test model` runs more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(800)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn connection_matches_the_model(start in prop::sample::select(starts()), steps in vec(random(), 0..60)) {
        play(start, &steps)?;
    }

    #[test]
    fn connection_and_model_pause_reading_together(start in prop::sample::select(starts()), steps in vec(crowded(), 0..60)) {
        play(start, &steps)?;
    }
}

/// The end of a subscription is withdrawn as a whole if the client cancels it first. Random plays find this rarely.
#[test]
fn cancelled_subscriptions_withdraw_their_end() {
    let start = Start { role: Role::Server, revision: ProtocolVersion::V2026_07_28, is_ready: true };
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let listen = json!({"_meta": meta, "notifications": {"toolsListChanged": true}});
    let steps = [
        Step::Receive(json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": listen})),
        // It keeps the connection open.
        Step::Receive(json!({"jsonrpc": "2.0", "id": 2, "method": "x/own", "params": {"_meta": meta}})),
        Step::Close,
        Step::Receive(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})),
    ];
    with(start, |sides| {
        for step in &steps {
            sides.step(step).expect("they agree");
        }
        sides.send_everything().expect("they agree");
    });
}

/// The random plays pause reading often enough, in each role.
#[test]
fn generated_plays_pause_reading() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};

    let mut runner = TestRunner::deterministic();
    let mut pauses = [0; 2];
    for _ in 0..200 {
        let (start, steps) =
            (prop::sample::select(starts()), vec(crowded(), 60)).new_tree(&mut runner).expect("a plan").current();
        let paused = with(start, |sides| {
            for random in &steps {
                for step in random.steps(sides.model()) {
                    sides.step(&step).expect("they agree");
                }
            }
            sides.pauses()
        });
        pauses[start.role as usize] += paused;
    }
    assert!(pauses.iter().all(|pauses| *pauses > 20), "{pauses:?}");
}
