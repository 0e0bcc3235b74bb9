//! The expiry of tasks.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{
    begin, cancel, get, listen, modern, notifications_of,
    store::{for_a_minute, kept},
    unlisten, until_status,
};
use crate::{
    inbound::task_policy::TaskPolicy,
    tests::{
        pair::{Pair, code},
        tasks::Gate,
    },
};

// req: M-TASK-058
#[test]
fn tasks_expire_after_their_ttl() {
    let (_open, gate) = Gate::new();
    let service = kept(for_a_minute(), &gate).build().expect("a good service");
    let pair = modern(&service);
    let (first, second) = (begin(&pair, "works"), begin(&pair, "works"));
    cancel(&pair, &first).expect("a receipt");
    until_status(&pair, &first, "cancelled");
    pair.advance(Duration::from_secs(30));
    let third = begin(&pair, "works");
    pair.advance(Duration::from_millis(29_999));
    assert!(get(&pair, &first).is_ok() && get(&pair, &second).is_ok());
    // Tasks expire without a request.
    let (subscription, _) = listen(&pair, &[&first, &second, &third]);
    pair.advance(Duration::from_millis(1));
    assert_eq!(service.tasks().usage().0, 1);
    let notifications_of = notifications_of(&pair, &subscription);
    let [.., last] = notifications_of.as_slice() else { panic!("no notification") };
    assert_eq!((&last["taskId"], &last["status"]), (&json!(second), &json!("failed")));
    assert_eq!(last["error"]["code"], -32603);
    for gone in [first, second] {
        assert_eq!(code(&get(&pair, &gone)), -32602);
        assert_eq!(code(&cancel(&pair, &gone)), -32602);
    }
    assert!(get(&pair, &third).is_ok());
    pair.advance(Duration::from_secs(30));
    unlisten(&pair, &subscription);
    // Their handlers are cancelled, and no result is kept.
    pair.assert_clean();
    assert_eq!(service.tasks().usage(), (0, 0));
    assert!(!pair.server_session.shared().watches_tasks());
}

/// Over HTTP the connection that created a task has ended long before. Real time, since no connection has a clock.
#[test]
fn tasks_expire_after_the_end_of_their_connections() {
    let (_open, gate) = Gate::new();
    let kept_for = |millis| TaskPolicy { default_ttl: Some(Duration::from_millis(millis)), ..for_a_minute() };
    let service = kept(kept_for(2000), &gate).build().expect("a good service");
    let pairs = [modern(&service), modern(&service)];
    for pair in &pairs {
        begin(pair, "works");
    }
    assert_eq!(service.tasks().usage().0, 2);
    for pair in &pairs {
        pair.cut();
        assert!(!pair.server_session.shared().watches_tasks());
    }
    let start = Instant::now();
    while service.tasks().usage().0 > 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "they expire without a request");
        thread::yield_now();
    }
    // Their handlers are cancelled.
    pairs.iter().for_each(Pair::assert_clean);
}

/// A request that becomes a task on another thread may be announced after its connection has ended.
#[test]
fn a_task_expires_that_begins_after_the_end_of_its_connection() {
    let (_open, gate) = Gate::new();
    let policy = TaskPolicy { default_ttl: Some(Duration::from_millis(500)), ..for_a_minute() };
    let service = kept(policy, &gate).build().expect("a good service");
    let (ended, open) = (modern(&service), modern(&service));
    ended.cut();
    begin(&open, "works");
    // The clock of the open connection stands still, so its timer does not fire.
    let session = ended.server_session.shared();
    session.watch_tasks(&ended.server.connection());
    assert!(!session.watches_tasks());
    let start = Instant::now();
    while service.tasks().usage().0 > 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "it expires without a request");
        thread::yield_now();
    }
}
