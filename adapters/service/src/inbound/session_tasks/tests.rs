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
    TaskStore::new(Arc::new(TaskPolicy { max_bytes, ..TaskPolicy::default() }), Random::default())
}

fn create(store: &TaskStore<ServerInFlight>, weight: usize) -> RpcResult<String> {
    let in_flight = |id| InFlight::of_task(id, None);
    store.create(Timestamp::from_nanos(0), None, weight, (&[], true), in_flight).map(|task| task.task_id)
}

fn json(value: &Value) -> Json {
    Json::new(value).expect("JSON")
}

#[test]
fn scopes_are_checked_outside_of_the_locks() {
    let store = store(100);
    let scopes = ["read".to_owned()];
    let in_flight = |id| InFlight::of_task(id, None);
    let task = store.create(Timestamp::ZERO, None, 0, (&scopes, false), in_flight).expect("there is room");
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
    let in_flight = lock(&entry).in_flight.clone();
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
