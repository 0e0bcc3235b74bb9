use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Poll, Wake, Waker},
};

use serde_json::{Value, json};

use super::*;
use crate::server::in_flight::ServerInFlight;

fn store(max_bytes: usize) -> TaskStore<ServerInFlight> {
    TaskStore::new(Arc::new(TaskPolicy { max_bytes, ..TaskPolicy::default() }), Random::default(), None)
}

fn create(store: &TaskStore<ServerInFlight>, weight: usize) -> RpcResult<String> {
    let in_flight = |id| InFlight::of_task(id, None);
    store
        .create(Timestamp::from_nanos(0), None, (weight, || Holder::Unknown), (&[], true), in_flight)
        .map(|task| task.task_id)
}

fn json(value: &Value) -> Json {
    Json::new(value).expect("JSON")
}

#[test]
fn scopes_are_checked_outside_of_the_locks() {
    let store = store(100);
    let scopes = ["read".to_owned()];
    let in_flight = |id| InFlight::of_task(id, None);
    let task = store
        .create(Timestamp::ZERO, None, (0, || Holder::Unknown), (&scopes, false), in_flight)
        .expect("there is room");
    let entry = store.entry(&task.task_id).expect("it is there");
    let free = std::cell::Cell::new(None);
    // The check may take the lock of the connection, under which progress takes these locks.
    let has_scopes = |needed: &[String]| {
        free.set(Some((store.tasks.try_lock().is_ok(), entry.try_lock().is_ok())));
        needed == scopes
    };
    let (listed, _) = store.list(None, has_scopes).expect("the first page");
    assert_eq!(listed.iter().map(|task| &task.task_id).collect::<Vec<_>>(), [&task.task_id]);
    assert_eq!(free.get(), Some((true, true)), "the store and the task");
    assert!(store.list(None, |_| false).expect("the first page").0.is_empty());
}

/// Notes whether the locks of a store and of a task are free when it wakes.
struct TryLocks {
    store: Arc<TaskStore<ServerInFlight>>,
    entry: Arc<Mutex<Entry<ServerInFlight>>>,
    free: Mutex<Vec<(bool, bool)>>,
}

impl Wake for TryLocks {
    fn wake(self: Arc<Self>) {
        let free = (self.store.tasks.try_lock().is_ok(), self.entry.try_lock().is_ok());
        lock(&self.free).push(free);
    }
}

#[test]
fn closed_store_wakes_handlers_outside_of_its_locks() {
    let store = Arc::new(store(100));
    let id = create(&store, 0).expect("there is room");
    let entry = store.entry(&id).expect("it is there");
    let in_flight = lock(&entry).in_flight.clone().expect("it runs");
    let woken = Arc::new(TryLocks { store: store.clone(), entry, free: Mutex::default() });
    let mut cancelled = pin!(in_flight.cancelled());
    let waker = Waker::from(woken.clone());
    let context = &mut std::task::Context::from_waker(&waker);
    assert!(cancelled.as_mut().poll(context).is_pending());
    store.close();
    assert_eq!(*lock(&woken.free), [(true, true)], "a waker may take the lock of the connection");
    assert_eq!(cancelled.poll(context), Poll::Ready(CancelCause::Closed));
}

#[test]
fn params_of_running_tasks_are_counted() {
    let store = store(100);
    let first = create(&store, 60).expect("there is room");
    assert!(create(&store, 41).is_err());
    let second = create(&store, 40).expect("there is room");
    assert!(create(&store, 1).is_err());
    // One that was discarded takes no room.
    store.discard(&first, 60);
    assert_eq!(store.get(&first).map_err(|error| error.message), Err("Task not found".into()));
    assert!(create(&store, 61).is_err());
    let third = create(&store, 60).expect("there is room");
    // The job of a task that was cancelled or has expired has its params until it ends.
    store.cancel(Timestamp::from_nanos(1), &second).expect("it runs");
    assert!(create(&store, 1).is_err());
    store.finish(Timestamp::from_nanos(2), (&second, 40), Ok(json(&json!("x"))), None);
    let fourth = create(&store, 40).expect("there is room");
    assert!(create(&store, 1).is_err());
    let day = Timestamp::from_nanos(24 * 3600 * 1_000_000_000);
    let stopped: Vec<_> = store.expire(day).stop.iter().map(|it| format!("{:?}", it.origin)).collect();
    assert_eq!(stopped, [&third, &fourth].map(|id| format!("Task({id:?})")), "those that ran");
    assert_eq!(store.len(), 0);
    assert!(create(&store, 1).is_err());
    for (id, params) in [(&third, 60), (&fourth, 40)] {
        store.finish(day, (id, params), Ok(json(&json!("x"))), None);
    }
    assert!(create(&store, 101).is_err() && create(&store, 100).is_ok());
}

#[test]
fn results_are_counted_with_their_texts() {
    let error = |message: &str, data: Option<Value>| {
        let error = ErrorObject::internal(message.to_owned());
        Err(match data {
            Some(data) => error.with_data(json(&data)),
            None => error,
        })
    };
    for (outcome, fault, bytes) in [
        (Ok(json(&json!({"a": 1}))), None, 7),
        (Ok(json(&json!({"a": 1}))), Some("no luck"), 14),
        (error("no luck", None), None, 14),
        (error("no luck", Some(json!("data"))), None, 20),
        (error("bad", Some(json!("twelve bytes"))), None, 20),
    ] {
        for has_room in [true, false] {
            let store = store(if has_room { bytes } else { bytes - 1 });
            let id = create(&store, 1).expect("there is room");
            store.finish(Timestamp::from_nanos(1), (&id, 1), outcome.clone(), fault.map(Into::into));
            let task = store.get(&id).expect("it is there");
            let refused = "The results of tasks are larger than the limit";
            let own = outcome.as_ref().err().map(|error| &*error.message).or(fault);
            let message = if has_room { own } else { Some(refused) };
            assert_eq!(task.status_message.as_deref(), message, "{outcome:?} {has_room}");
            let status = if message.is_some() { TaskStatus::Failed } else { TaskStatus::Completed };
            assert_eq!(task.status, status, "{outcome:?} {has_room}");
            // It holds exactly that much.
            assert_eq!((create(&store, 1).is_ok(), create(&store, bytes).is_ok()), (!has_room, false));
        }
    }
}

#[test]
fn fetched_results_are_removed_oldest_first_if_needed() {
    let store = store(100);
    let [first, second, kept] = [(); 3].map(|()| create(&store, 0).expect("there is room"));
    // A text of 30 bytes each.
    for id in [&first, &second, &kept] {
        store.finish(Timestamp::from_nanos(1), (id, 0), Ok(json(&json!("x".repeat(28)))), None);
    }
    for id in [&first, &second] {
        lock(&store.entry(id).expect("it is there")).fetched = true;
    }
    let left = || [&first, &second, &kept].map(|id| store.get(id).is_ok());
    create(&store, 10).expect("there is room");
    assert_eq!(left(), [true; 3]);
    assert!(create(&store, 61).is_err());
    assert_eq!(left(), [true; 3], "none is removed if that is not enough");
    create(&store, 30).expect("there is room");
    assert_eq!(left(), [false, true, true]);
    create(&store, 1).expect("there is room");
    assert_eq!(left(), [false, false, true]);
}

/// Returns the stores of sessions of one service.
fn sessions<const N: usize>(policy: TaskPolicy) -> (Arc<SessionShares>, [TaskStore<ServerInFlight>; N]) {
    let policy = Arc::new(policy);
    let shares = SessionShares::new(policy.clone());
    let store = || TaskStore::new(policy.clone(), Random::default(), Some(shares.clone()));
    (shares.clone(), std::array::from_fn(|_| store()))
}

fn create_for(store: &TaskStore<ServerInFlight>, holder: &Holder, weight: usize) -> RpcResult<String> {
    let in_flight = |id| InFlight::of_task(id, None);
    let params = (weight, || holder.clone());
    store.create(Timestamp::ZERO, Some(1000), params, (&[], true), in_flight).map(|task| task.task_id)
}

fn holder(name: &str) -> Holder {
    Holder::Principal(name.into())
}

fn usage(tasks: usize, bytes: usize) -> TaskUsage {
    TaskUsage { tasks, bytes }
}

#[test]
fn sessions_of_one_client_share_their_limits() {
    let limits = TaskPolicy {
        max_shared_tasks: 100,
        max_shared_bytes: 1000,
        max_tasks_per_principal: 4,
        max_bytes_per_principal: 300,
        ..TaskPolicy::default()
    };
    let (shares, [first, second, third, other]) = sessions(limits);
    let [stranger, friend] = ["stranger", "friend"].map(holder);
    create_for(&first, &stranger, 100).expect("there is room");
    let large = create_for(&second, &stranger, 200).expect("there is room");
    create_for(&third, &stranger, 1).expect_err("the bytes of one client");
    create_for(&third, &stranger, 0).expect("there is room for a small one");
    create_for(&third, &stranger, 0).expect("there is room for a small one");
    create_for(&first, &stranger, 0).expect_err("the tasks of one client");
    create_for(&other, &friend, 300).expect("there is room for another client");
    assert_eq!((shares.usage(), shares.holders()), (usage(5, 600), 2));
    // A result takes the room of the params, if it fits.
    let result = Ok(json(&json!("x".repeat(250))));
    second.finish(Timestamp::ZERO, (&large, 200), result, None);
    let kept = second.get(&large).expect("it is there");
    assert_eq!((kept.status, shares.usage()), (TaskStatus::Failed, usage(5, 400)));
    // Tasks that expire, are discarded or end with their session leave room.
    first.expire(Timestamp::from_nanos(2_000_000_000));
    assert_eq!(shares.usage().tasks, 4);
    drop(second);
    third.close();
    assert_eq!(shares.usage(), usage(1, 400));
    drop(first);
    assert_eq!((shares.usage(), shares.holders()), (usage(1, 300), 1));
    drop(other);
    assert_eq!((shares.usage(), shares.holders()), (usage(0, 0), 0));
}

// A handler may ignore that its session has ended, and has its params until it ends.
#[test]
fn params_are_counted_after_the_end_of_their_session() {
    let (shares, [first, second]) =
        sessions(TaskPolicy { max_bytes_per_principal: 100, max_tasks_per_principal: 9, ..TaskPolicy::default() });
    let stranger = holder("stranger");
    let [running, cancelled, ended] = [60, 20, 10].map(|bytes| create_for(&first, &stranger, bytes).expect("room"));
    first.cancel(Timestamp::ZERO, &cancelled).expect("it runs");
    first.finish(Timestamp::ZERO, (&ended, 10), Ok(json(&json!("x"))), None);
    assert_eq!(shares.usage(), usage(3, 83));
    first.close();
    assert_eq!((shares.usage(), shares.holders()), (usage(0, 80), 1));
    create_for(&second, &stranger, 21).expect_err("the bytes of one client");
    first.finish(Timestamp::ZERO, (&running, 60), Ok(json(&json!("x"))), None);
    assert_eq!(shares.usage(), usage(0, 20));
    let last = create_for(&second, &stranger, 80).expect("there is room");
    second.close();
    first.finish(Timestamp::ZERO, (&cancelled, 20), Ok(json(&json!("x"))), None);
    second.finish(Timestamp::ZERO, (&last, 80), Ok(json(&json!("x"))), None);
    assert_eq!((shares.usage(), shares.holders()), (usage(0, 0), 0));
}

// The request of a task may be as large as a message, and only its result is counted once the task has ended.
#[test]
fn ended_tasks_do_not_keep_their_requests() {
    let store = store(100);
    let begin = || {
        let mut kept = None;
        let in_flight = |id| kept.insert(InFlight::of_task(id, None)).clone();
        let task = store.create(Timestamp::ZERO, Some(1), (0, || Holder::Unknown), (&[], true), in_flight);
        (task.expect("there is room").task_id, kept.expect("it was created"))
    };
    let [(finished, first), (cancelled, second), (_, third)] = [(); 3].map(|()| begin());
    store.finish(Timestamp::ZERO, (&finished, 0), Ok(json(&json!("x"))), None);
    let stopped = |effects: Effects<_>| effects.stop.iter().map(|it| format!("{:?}", it.origin)).collect::<Vec<_>>();
    let (_, effects) = store.cancel(Timestamp::ZERO, &cancelled).expect("it runs");
    assert_eq!(stopped(effects), [format!("{:?}", second.origin)]);
    assert_eq!([&first, &second, &third].map(Arc::strong_count), [1, 1, 2]);
    let effects = store.expire(Timestamp::from_nanos(1_000_000_000));
    assert_eq!(stopped(effects), [format!("{:?}", third.origin)], "only one that still runs is stopped");
    assert_eq!(Arc::strong_count(&third), 1);
}

#[test]
fn one_client_leaves_room_for_others() {
    let limits = TaskPolicy {
        max_shared_bytes: 800,
        max_bytes: 10_000,
        max_bytes_per_principal: 10_000,
        ..TaskPolicy::default()
    };
    let (shares, [first, other, last]) = sessions(limits);
    create_for(&first, &holder("stranger"), 701).expect_err("more than seven times of what is left");
    create_for(&first, &holder("stranger"), 700).expect("seven times of what is left");
    create_for(&other, &holder("friend"), 80).expect("there is room");
    // Clients that cannot be told apart have no share.
    create_for(&last, &Holder::Unknown, 21).expect_err("there is no room");
    create_for(&last, &Holder::Unknown, 20).expect("all of it");
    assert_eq!(shares.usage(), usage(3, 800));
}

#[test]
fn fetched_tasks_make_room_in_the_share_of_a_client() {
    let (shares, [first, second]) = sessions(TaskPolicy { max_tasks_per_principal: 2, ..TaskPolicy::default() });
    let stranger = holder("stranger");
    let id = create_for(&first, &stranger, 0).expect("there is room");
    create_for(&second, &stranger, 0).expect("there is room");
    first.finish(Timestamp::ZERO, (&id, 0), Ok(json(&json!("x"))), None);
    create_for(&first, &stranger, 0).expect_err("its result was not fetched");
    lock(&first.entry(&id).expect("it is there")).fetched = true;
    create_for(&second, &stranger, 0).expect_err("it is in another session");
    create_for(&first, &stranger, 0).expect("it takes its place");
    first.get(&id).expect_err("it was removed");
    assert_eq!(shares.usage(), usage(2, 0));
}
