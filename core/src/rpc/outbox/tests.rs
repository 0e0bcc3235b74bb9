use alloc::{format, string::String};

use super::*;
use crate::rpc::{Incoming, Timestamp};

fn push(outbox: &mut Outbox, priority: Priority, owner: FrameOwner, text: &str) {
    let queued = outbox.push::<()>(priority, owner, usize::MAX, |out| {
        out.extend_from_slice(text.as_bytes());
        Ok(())
    });
    assert_eq!(queued, Ok(Some(text.len() + 1)));
}

fn drain(outbox: &mut Outbox) -> String {
    let mut out = Vec::new();
    while outbox.pop(Priority::Control, &mut out).or_else(|| outbox.pop(Priority::Request, &mut out)).is_some() {}
    String::from_utf8(out).expect("text went in")
}

#[test]
fn single_large_frame_is_not_copied() {
    let mut outbox = Outbox::default();
    let (small, large) = ("s".repeat(LARGE - 2), "l".repeat(LARGE));
    let mut pushed_at = |text: &str, before: &str| {
        push(&mut outbox, Priority::Control, FrameOwner::None, text);
        let (at, mut out) = (outbox.control.bytes.as_ptr(), Vec::from(before));
        assert!(outbox.pop(Priority::Control, &mut out).is_some());
        assert_eq!(out, [before, text, "\n"].concat().as_bytes());
        assert_eq!((outbox.control.head, outbox.control.bytes.len()), (0, 0));
        out.as_ptr() == at
    };
    assert_eq!([pushed_at(&large, ""), pushed_at(&large, "x"), pushed_at(&small, "")], [true, false, false]);
    // With other frames behind it, the frame is copied.
    for text in [&large, &large] {
        push(&mut outbox, Priority::Control, FrameOwner::None, text);
    }
    assert_eq!(drain(&mut outbox), alloc::format!("{large}\n{large}\n"));
    // The capacity of the buffer that comes back is kept.
    push(&mut outbox, Priority::Control, FrameOwner::None, &large);
    assert!(outbox.pop(Priority::Control, &mut Vec::with_capacity(8 * SPARE)).is_some());
    assert_eq!(outbox.control.bytes.capacity(), 8 * SPARE);
}

#[test]
fn large_buffers_shrink_after_small_messages() {
    let mut outbox = Outbox::default();
    for large in [true, true, false] {
        let text = if large { "l".repeat(8 * SPARE) } else { "s".repeat(99) };
        push(&mut outbox, Priority::Request, call(1), "waits");
        push(&mut outbox, Priority::Request, call(2), &text);
        drain(&mut outbox);
        let capacity = outbox.requests.bytes.capacity();
        assert!(if large { capacity > 8 * SPARE } else { capacity <= SPARE }, "{capacity}");
    }
}

#[test]
fn buffers_keep_space_for_frames_of_similar_length() {
    let mut outbox = Outbox::default();
    let mut capacity_after = |len: usize| {
        push(&mut outbox, Priority::Control, FrameOwner::None, "waits");
        push(&mut outbox, Priority::Control, FrameOwner::None, &"x".repeat(len));
        drain(&mut outbox);
        outbox.control.bytes.capacity()
    };
    let large = capacity_after(8 * SPARE);
    assert_eq!(capacity_after(large / 3), large);
    let smaller = capacity_after(large / 5);
    assert!((2 * (large / 5)..large).contains(&smaller), "{smaller} of {large}");
}

#[test]
fn mostly_read_queue_releases_its_buffer() {
    let mut outbox = Outbox::default();
    let large = "l".repeat(SPARE);
    (0..64).for_each(|_| push(&mut outbox, Priority::Control, FrameOwner::None, &large));
    push(&mut outbox, Priority::Control, FrameOwner::None, "last");
    assert!(outbox.control.bytes.capacity() > 64 * SPARE);
    (0..64).for_each(|_| assert!(outbox.pop(Priority::Control, &mut Vec::new()).is_some()));
    let queue = &outbox.control;
    assert!(queue.bytes.capacity() <= 4 * SPARE, "{} bytes for {}", queue.bytes.capacity(), outbox.weight());
    assert!(queue.frames.capacity() <= 8, "{} places", queue.frames.capacity());
    assert_eq!(drain(&mut outbox), "last\n");
}

fn call(id: u64) -> FrameOwner {
    FrameOwner::Call(CallId::from_raw(id))
}

#[test]
fn control_frames_precede_requests_in_order() {
    let mut outbox = Outbox::default();
    push(&mut outbox, Priority::Request, call(1), "r1");
    push(&mut outbox, Priority::Control, FrameOwner::None, "c1");
    push(&mut outbox, Priority::Request, call(2), "r2");
    push(&mut outbox, Priority::Control, FrameOwner::None, "c2");
    assert_eq!((outbox.frames(), outbox.weight()), (4, 12 + 4 * size_of::<Queued>()));
    assert_eq!(drain(&mut outbox), "c1\nc2\nr1\nr2\n");
    assert_eq!((outbox.frames(), outbox.weight()), (0, 0));
}

#[test]
fn withdrawn_frames_are_not_sent_and_free_space() {
    let mut outbox = Outbox::default();
    let text = "x".repeat(100);
    for id in 0..100_000 {
        push(&mut outbox, Priority::Request, call(id), &text);
        if id != 7 {
            assert!(outbox.take_back_call(CallId::from_raw(id)));
            assert!(!outbox.take_back_call(CallId::from_raw(id)), "it is gone");
        }
        assert!(outbox.requests.bytes.len() < 10_000);
    }
    assert_eq!((outbox.frames(), outbox.weight()), (1, 101 + size_of::<Queued>()));
    let mut out = Vec::new();
    assert_eq!(outbox.pop(Priority::Request, &mut out), Some(call(7)));
    assert_eq!(outbox.pop(Priority::Request, &mut out), None);
    assert_eq!(out.len(), 101);
}

#[test]
fn withdrawn_large_frames_free_space() {
    let mut outbox = Outbox::default();
    (0..10).for_each(|id| push(&mut outbox, Priority::Request, call(id), &"x".repeat(5_000)));
    for id in (1..10).rev() {
        assert!(outbox.take_back_call(CallId::from_raw(id)));
        let queue = &outbox.requests;
        assert!(queue.dead_bytes <= queue.live_bytes(), "{} for {}", queue.dead_bytes, queue.live_bytes());
    }
}

fn hash(id: &RequestId) -> u64 {
    use core::hash::BuildHasher;
    foldhash::quality::FixedState::with_seed(7).hash_one(id)
}

fn answer(outbox: &mut Outbox, id: u64) {
    push(
        outbox,
        Priority::Control,
        FrameOwner::Answered(None),
        &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#),
    );
}

#[test]
fn withdrawing_responses_reads_each_once() {
    let mut steps = Vec::new();
    for waiting in [1_000, 16_000] {
        let mut outbox = Outbox::default();
        (0..waiting).for_each(|id| answer(&mut outbox, id));
        // The first lookup has to read all frames.
        assert_eq!(outbox.take_back_answer(&RequestId::from("nope"), hash), None);
        steps.push(steps::of(|| {
            for id in 0..100 {
                assert_eq!(outbox.take_back_answer(&RequestId::from("nope"), hash), None);
                assert_eq!(outbox.take_back_answer(&RequestId::from(7 * id), hash), Some(None));
                assert_eq!(outbox.take_back_answer(&RequestId::from(7 * id), hash), None);
            }
        }));
        assert_eq!(outbox.frames(), waiting as usize - 100);
    }
    assert!(steps[1] < 2 * steps[0], "{steps:?}");
}

#[test]
fn withdraws_responses_of_one_id_in_order() {
    let mut outbox = Outbox::default();
    for round in 0..1_000 {
        (0..4).for_each(|_| answer(&mut outbox, 1));
        answer(&mut outbox, round + 2);
        assert_eq!(outbox.take_back_answer(&RequestId::from(1), hash), Some(None));
        let mut out = Vec::new();
        while outbox.frames() > 1 {
            outbox.pop(Priority::Control, &mut out);
        }
        assert_eq!(outbox.take_back_answer(&RequestId::from(1), hash), None);
        assert!(outbox.own_responses.len() < 200, "{}", outbox.own_responses.len());
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 3 + usize::from(round > 0));
    }
    assert_eq!(outbox.take_back_answer(&RequestId::from(1001), hash), Some(None));
    assert_eq!((outbox.frames(), outbox.weight()), (0, 0));
}

#[test]
fn index_of_responses_drops_those_that_were_sent() {
    let mut outbox = Outbox::default();
    for id in 0..1_000 {
        answer(&mut outbox, id);
        if outbox.frames() > 10 {
            assert!(outbox.pop(Priority::Control, &mut Vec::new()).is_some());
        }
        assert_eq!(outbox.take_back_answer(&RequestId::from("nope"), hash), None);
        assert!(outbox.own_responses.len() <= 2 * 10 + 64, "{}", outbox.own_responses.len());
    }
}

#[test]
fn withdrawing_request_frames_skips_others() {
    let mut table = Incoming::new(1);
    let mut key = |id: u64| table.insert(Timestamp::ZERO, RequestId::from(id), ());
    let mut steps = Vec::new();
    for others in [1_000, 16_000] {
        let mut outbox = Outbox::default();
        let keys: Vec<_> = (0..10).map(|id| key(others + id)).collect();
        let mut last: Vec<_> = keys.iter().map(|_| None).collect();
        for _ in 0..3 {
            for (key, last) in keys.iter().zip(&mut last) {
                push(&mut outbox, Priority::Control, FrameOwner::Reply { key: *key, last: false }, "mine");
                *last = Some(outbox.join(*last));
                (0..others / 10).for_each(|_| push(&mut outbox, Priority::Control, FrameOwner::None, "not mine"));
            }
        }
        let all = outbox.frames();
        steps.push(steps::of(|| last.iter().flatten().for_each(|last| outbox.take_back_joined(*last, 3))));
        assert_eq!(outbox.frames(), all - 30);
        assert!(!drain(&mut outbox).contains("mine\nmine"));
    }
    assert!(steps[1] < 2 * steps[0], "{steps:?}");
}

/// Checks under random operations that the frames that were not removed are sent, in order.
#[test]
fn agrees_with_a_plain_list() {
    let (mut outbox, mut model, mut state) = (Outbox::default(), Vec::<(u64, String)>::new(), 11);
    // The numbers wrap around during the test.
    outbox.control.next_number = DEAD - 1_000;
    for step in 0..20_000_u64 {
        crate::test_rng::roll(&mut state);
        let at = (state >> 20) as usize % (model.len() + 1);
        match state >> 61 {
            0..4 if model.len() < 200 => {
                let pad = "x".repeat((state >> 40) as usize % if step % 50 == 0 { 20_000 } else { 100 });
                let text = format!(r#"{{"jsonrpc":"2.0","id":{step},"result":"{pad}"}}"#);
                push(&mut outbox, Priority::Control, FrameOwner::Answered(None), &text);
                model.push((step, text));
            }
            4 | 5 => {
                let mut out = Vec::new();
                assert_eq!(outbox.pop(Priority::Control, &mut out).is_some(), !model.is_empty());
                if !model.is_empty() {
                    assert_eq!(out, format!("{}\n", model.remove(0).1).as_bytes());
                }
            }
            _ => {
                let id = model.get(at).map_or(step, |(id, _)| *id);
                let is_there = at < model.len();
                assert_eq!(outbox.take_back_answer(&RequestId::from(id), hash).is_some(), is_there);
                if is_there {
                    model.remove(at);
                }
            }
        }
        let bytes: usize = model.iter().map(|(_, text)| text.len() + 1 + size_of::<Queued>()).sum();
        assert_eq!((outbox.frames(), outbox.weight()), (model.len(), bytes));
    }
}

#[test]
fn debug_shows_frames_to_be_sent() {
    let mut outbox = Outbox::default();
    for id in 1..4 {
        push(&mut outbox, Priority::Request, call(id), "text");
    }
    outbox.pop(Priority::Request, &mut Vec::new());
    outbox.take_back_call(CallId::from_raw(2));
    let printed = std::format!("{:?}", outbox.requests);
    assert_eq!(printed, std::format!("{} bytes {{Call(CallId(3)): \"text\\n\"}}", outbox.weight()));
}

#[test]
fn failed_or_oversized_frames_are_discarded() {
    let mut outbox = Outbox::default();
    push(&mut outbox, Priority::Control, FrameOwner::None, "kept");
    let failed = outbox.push(Priority::Control, FrameOwner::None, 99, |out| {
        out.extend_from_slice(b"half");
        Err("no")
    });
    assert_eq!(failed, Err("no"));
    let long = outbox.push::<()>(Priority::Control, FrameOwner::None, 3, |out| {
        out.extend_from_slice(b"long");
        Ok(())
    });
    assert_eq!(long, Ok(None));
    assert_eq!(drain(&mut outbox), "kept\n");
}

#[test]
fn capacity_is_bounded_by_queued_bytes() {
    for count in [1_000_u32, 2_100, 4_097] {
        let mut outbox = Outbox::default();
        for _ in 0..count {
            push(&mut outbox, Priority::Control, FrameOwner::None, &"x".repeat(500));
        }
        let mut out = Vec::new();
        while outbox.pop(Priority::Control, &mut out).is_some() {
            out.clear();
            let (space, waits) = (outbox.control.bytes.capacity(), outbox.control.live_bytes());
            assert!(space <= (4 * waits).max(2 * SPARE), "{space} bytes for {waits}");
        }
    }
}

/// The frames of requests that were cancelled must not hold memory that is counted nowhere.
#[test]
fn capacity_is_bounded_after_withdrawals() {
    let mut outbox = Outbox::default();
    (0..4_096).for_each(|id| push(&mut outbox, Priority::Request, call(id), &"x".repeat(1_000)));
    let mut last = 4_095;
    while outbox.frames() > 1 {
        assert!(outbox.take_back_call(CallId::from_raw(last)));
        last -= 1;
        if last % 3 == 0 && outbox.frames() > 1 {
            assert!(outbox.pop(Priority::Request, &mut Vec::new()).is_some());
        }
        let queue = &outbox.requests;
        let (space, waits) = (queue.bytes.capacity(), queue.live_bytes());
        assert!(space <= (4 * waits).max(2 * SPARE), "{space} bytes for {waits}");
        let (places, frames) = (queue.frames.capacity(), queue.live as usize);
        assert!(places <= (8 * frames).max(256), "{places} places for {frames}");
    }
}

#[cfg(feature = "http")]
#[test]
fn trimmed_empty_queue_keeps_little_capacity() {
    let mut outbox = Outbox::default();
    let large = "x".repeat(16 * SPARE);
    for text in ["small", &large] {
        push(&mut outbox, Priority::Control, FrameOwner::None, text);
        push(&mut outbox, Priority::Request, call(1), text);
    }
    outbox.trim();
    drain(&mut outbox);
    assert!(outbox.control.bytes.capacity() > SPARE, "nothing is tested otherwise");
    outbox.trim();
    for queue in [&outbox.control, &*outbox.requests] {
        assert!(queue.bytes.capacity() <= SPARE, "{} bytes", queue.bytes.capacity());
    }
}
