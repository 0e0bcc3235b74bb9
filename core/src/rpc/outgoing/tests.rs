//! Requests of this side: ids, deadlines and their pauses.

use super::*;
use alloc::collections::BTreeSet;

#[test]
fn internal_call_ids_are_not_application_ids() {
    for (share, seed) in [(1, 1_u64), (2, 2), (10, 3), (1000, 4)] {
        let (mut table, mut model, mut state) = (Outgoing::<()>::new(1), BTreeSet::new(), seed);
        for _ in 0..2_000 {
            crate::test_rng::roll(&mut state);
            let call = table.insert(Timestamp::ZERO, (), false, None, None);
            if (state >> 40).is_multiple_of(share) {
                table.note_own(call);
            } else {
                model.insert(call);
            }
        }
        let known: BTreeSet<_> = (0..3_000).map(CallId).filter(|id| table.is_of_the_application(*id)).collect();
        assert!(known.is_subset(&model));
        let latest = 2_000 - 60;
        assert!(model.range(CallId(latest)..).all(|call| known.contains(call)), "{share}");
    }
}

/// A call as the model of the table sees it: the time that is left until each deadline, in nanoseconds.
#[cfg(feature = "http")]
#[derive(Default)]
struct Model {
    idle: Option<u64>,
    idle_left: Option<u64>,
    total_left: Option<u64>,
    is_paused: bool,
    waits: bool,
}

#[cfg(feature = "http")]
impl Model {
    fn left(&self) -> Option<u64> {
        self.idle_left.into_iter().chain(self.total_left).min()
    }
}

#[cfg(feature = "http")]
#[test]
fn next_deadline_is_the_earliest_that_is_not_paused() {
    const STEP: u64 = 10;
    let (mut table, mut state) = (Outgoing::<()>::new(1), 5);
    let (mut model, mut is_paused) = (BTreeMap::<CallId, Model>::new(), false);
    for step in 0..20_000_u64 {
        crate::test_rng::roll(&mut state);
        let now = Timestamp::from_nanos(step * STEP);
        let runs = |call: &Model| !(call.is_paused || (call.waits && is_paused));
        for call in model.values_mut().filter(|call| runs(call)) {
            let passed = |left: u64| left.saturating_sub(STEP);
            (call.idle_left, call.total_left) = (call.idle_left.map(passed), call.total_left.map(passed));
        }
        let id = model.keys().nth((state >> 30) as usize % (model.len() + 1)).copied();
        let call = id.and_then(|id| model.get_mut(&id));
        match (state >> 60, id.zip(call)) {
            (0..2, _) => {
                let limit = |bits: u64| (!bits.is_multiple_of(4)).then_some(bits % 5000);
                let (idle, total) = (limit(state >> 40), limit(state >> 20));
                let id = table.insert(now, (), false, idle.map(Duration::from_nanos), total.map(Duration::from_nanos));
                let call = Model { idle, idle_left: idle, total_left: total, waits: true, ..Model::default() };
                model.insert(id, call);
            }
            (2..4, _) => {
                is_paused = state >> 50 & 1 == 0;
                table.pause_unsent(now, is_paused);
            }
            (4..6, Some((id, call))) => {
                table.pause(now, table.wire(id).0);
                call.is_paused = true;
            }
            (6..8, Some((id, call))) => {
                table.resume(now, table.wire(id).0);
                call.waits &= !call.is_paused;
                call.is_paused = false;
            }
            (8, Some((id, call))) => {
                table.suspend(now, id);
                (call.is_paused, call.waits, call.idle_left) = (false, false, None);
            }
            (9, Some((id, call))) => {
                table.reissue(now, id);
                (call.is_paused, call.waits, call.idle_left) = (false, true, call.idle);
            }
            (10, Some((id, call))) => {
                table.touch(now, id);
                call.idle_left = call.idle_left.and(call.idle).max(call.idle_left);
            }
            (11, Some((id, call))) => {
                table.unlimit(id);
                (call.idle_left, call.total_left) = (None, None);
            }
            (12..14, Some((id, call))) => {
                assert_eq!(table.mark_sent(now, table.wire(id).0), Some((id, ())));
                assert!(table.get(id).is_some_and(|call| call.sent));
                call.is_paused |= call.waits && is_paused;
                call.waits = false;
            }
            (_, Some((id, _))) => {
                table.retire(id);
                model.remove(&id);
            }
            _ => {}
        }
        let runs = |call: &Model| !(call.is_paused || (call.waits && is_paused));
        for (id, call) in &model {
            let expected = call.left().filter(|_| runs(call)).map(|left| now + Duration::from_nanos(left));
            assert_eq!(table.deadline(*id).map(|at| at.max(now)), expected, "{step} {id:?}");
        }
        let deadlines = model.keys().filter_map(|id| table.deadline(*id));
        assert_eq!(table.next_deadline(), deadlines.min());
        assert!(table.deadlines() <= 2 * model.len() + 128);
    }
}

/// A server that refuses calls one by one causes a pause each time.
#[cfg(feature = "http")]
#[test]
fn pauses_of_the_outbox_have_constant_cost() {
    let steps = |calls: u64| {
        let mut table = Outgoing::<()>::new(1);
        for _ in 0..calls {
            table.insert(Timestamp::ZERO, (), false, Some(Duration::from_secs(60)), None);
        }
        crate::rpc::outbox::steps::of(|| {
            for pause in 0..calls {
                let now = Timestamp::after_zero(Duration::from_secs(2 * pause));
                table.pause_unsent(now, true);
                table.pause_unsent(now + Duration::from_secs(1), false);
            }
        })
    };
    assert_eq!([100, 200, 400].map(steps), [100, 200, 400]);
}
