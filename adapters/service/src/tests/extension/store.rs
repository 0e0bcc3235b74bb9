//! Retention, ownership and subscriptions of tasks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use mcp_proto::{
    codec::Frame,
    connection::{Arrival, Event, Principal},
    protocol::ProtocolVersion,
    schema::CallToolResult,
};
use serde_json::{Value, json};

use super::{
    begin, cancel, everything, get, listen, modern, notifications_of, send_request, task_tool, unlisten, until,
    until_status, update, works,
};
use crate::tests::tasks::Gate;
use crate::{
    client::Host,
    driver_api::{connection_handle::Application, holder::Holder},
    inbound::{context::Context, failure::Failure, task_policy::TaskPolicy},
    server::{builder::ServiceBuilder, service::Service},
    tests::{
        echo,
        pair::{Pair, code},
    },
    util::lock::lock,
};

pub(super) fn kept(policy: TaskPolicy, gate: &Gate) -> ServiceBuilder {
    echo().tool(works(gate)).task_policy(policy)
}

pub(super) fn for_a_minute() -> TaskPolicy {
    TaskPolicy { default_ttl: Some(Duration::from_secs(60)), ..TaskPolicy::default() }
}

// req: M-TASK-024 M-TASK-055 M-TASK-059 M-TASK-079
#[test]
fn cancelled_task_ends_with_its_handler() {
    let (open, gate) = Gate::new();
    let never_ends = gate.clone();
    let service = kept(TaskPolicy::default(), &gate)
        .tool(task_tool("stubborn", move |context: Context| {
            context.progress(1.0, None, Some("at it")).wait()?;
            lock(&never_ends.0).recv().map_err(Failure::from)?;
            assert!(context.is_cancelled());
            Ok(CallToolResult::text("all the same"))
        }))
        .build()
        .expect("a good service");
    let pair = modern(&service);
    for unknown in [get(&pair, "x"), update(&pair, "x", json!({})), cancel(&pair, "x")] {
        assert_eq!(code(&unknown), -32602);
    }
    let id = begin(&pair, "works");
    let receipt = cancel(&pair, &id).expect("a receipt");
    assert_eq!(
        (&receipt["resultType"], receipt.get("taskId"), receipt.get("status")),
        (&json!("complete"), None, None)
    );
    let cancelled = until_status(&pair, &id, "cancelled");
    assert_eq!((cancelled.get("result"), cancelled.get("error"), cancelled.get("inputRequests")), (None, None, None));
    cancel(&pair, &id).expect("a receipt");
    assert_eq!(get(&pair, &id), Ok(cancelled), "nothing has changed");

    let id = begin(&pair, "stubborn");
    until(&pair, &id, |task| task["statusMessage"] == "at it");
    for _ in 0..2 {
        cancel(&pair, &id).expect("a receipt");
        assert_eq!(get(&pair, &id).expect("a task")["status"], "working");
    }
    open.send(()).expect("it waits");
    let done = until_status(&pair, &id, "completed");
    assert_eq!(done["result"]["content"][0]["text"], "all the same");
    cancel(&pair, &id).expect("a receipt");
    assert_eq!(get(&pair, &id), Ok(done));
    pair.assert_clean();
}

#[test]
fn task_count_is_bounded() {
    let (open, gate) = Gate::new();
    let policy = TaskPolicy { max_shared_tasks: 2, ..for_a_minute() };
    let service = kept(policy, &gate).build().expect("a good service");
    let pair = modern(&service);
    let call = || send_request(&pair, "tools/call", json!({"name": "works"}));
    let (first, second) = (begin(&pair, "works"), begin(&pair, "works"));
    for _ in 0..3 {
        assert_eq!(call().map_err(|error| error["message"].clone()), Err(json!("Too many tasks")));
    }
    // A completed task is kept until a new one needs its place.
    open.send(()).expect("it waits");
    pair.until(|| [&first, &second].into_iter().any(|id| get(&pair, id).expect("a task")["status"] == "completed"));
    assert_eq!(service.tasks().usage().0, 2);
    let third = begin(&pair, "works");
    assert_eq!(service.tasks().usage().0, 2);
    let gone = [&first, &second].into_iter().filter(|id| get(&pair, id).is_err()).count();
    assert_eq!((gone, get(&pair, &third).expect("a task")["status"].clone()), (1, json!("working")));
    assert_eq!(code(&call()), -32603);
    pair.advance(Duration::from_secs(60));
    assert_eq!(service.tasks().usage(), (0, 0));
    begin(&pair, "works");
    cancel(&pair, &third).expect_err("it is gone");
    pair.advance(Duration::from_secs(60));
    pair.assert_clean();
}

/// A service with tools that run until a gate opens, and a tool that completes immediately.
fn shared(policy: TaskPolicy, gate: &Gate) -> Service {
    let quick = task_tool("quick", |_| Ok(CallToolResult::text("x".repeat(100))));
    kept(policy, gate).tool(quick).build().expect("a good service")
}

fn contains(pair: &Pair, who: Option<&str>, id: &Value) -> bool {
    // This does not count as a request of the client, which would make the task a candidate for removal.
    let id = id.as_str().expect("an id");
    pair.server_session.shared().app.tasks().contains(id, who)
}

#[test]
fn task_limit_per_principal_leaves_room() {
    let (_open, gate) = Gate::new();
    let policy = TaskPolicy { max_shared_tasks: 8, max_tasks_per_principal: 3, ..for_a_minute() };
    let service = shared(policy, &gate);
    let pair = modern(&service);
    let works = |who| send_request_for(&pair, who, "tools/call", json!({"name": "works"}));
    for who in [Some("eve"), Some("mallory"), None] {
        let accepted = (0..10).filter(|_| works(who).is_ok()).count();
        assert_eq!(accepted, if who.is_some() { 3 } else { 2 }, "{who:?}");
    }
    // Another anonymous connection has a share of its own, if there is room.
    let other = modern(&service);
    assert_eq!(code(&send_request(&other, "tools/call", json!({"name": "works"}))), -32603);

    let service = shared(TaskPolicy { max_tasks_per_principal: 3, ..for_a_minute() }, &gate);
    let (one, other) = (modern(&service), modern(&service));
    for pair in [&one, &other] {
        (0..3).for_each(|_| drop(begin(pair, "works")));
        assert_eq!(code(&send_request(pair, "tools/call", json!({"name": "works"}))), -32603);
    }
    for who in [Some("ada"), Some("bob")] {
        assert!(send_request_for(&one, who, "tools/call", json!({"name": "works"})).is_ok());
    }
    // Each connection has a clock of its own.
    one.advance(Duration::from_secs(70));
    assert_eq!((service.tasks().usage(), service.tasks().holders()), ((0, 0), 0));
}

/// Connects another client, with this last byte of its address.
fn from(service: &Service, last: u8) -> Pair {
    let pair = modern(service);
    pair.server.holder.set(Holder::at([127, 0, 0, last].into())).expect("it is new");
    pair
}

#[test]
fn anonymous_clients_share_limits_by_address() {
    let (_open, gate) = Gate::new();
    let policy = TaskPolicy { max_shared_tasks: 8, max_tasks_per_principal: 3, ..for_a_minute() };
    let service = shared(policy, &gate);
    // Over HTTP each request is a connection.
    let pairs: Vec<_> = [1, 1, 1, 1, 2, 1, 2, 2, 2].map(|last| from(&service, last)).into_iter().collect();
    let begun = pairs.iter().map(|pair| send_request(pair, "tools/call", json!({"name": "works"})).is_ok());
    assert_eq!(begun.collect::<Vec<_>>(), [true, true, true, false, true, false, true, true, false]);
    assert_eq!((service.tasks().usage().0, service.tasks().holders()), (6, 2));
    // An address is no proof of identity: a principal there has a share of its own.
    assert!(send_request_for(&pairs[0], Some("ada"), "tools/call", json!({"name": "works"})).is_ok());
}

#[test]
fn unfetched_results_are_evicted_from_largest_holder() {
    let (_open, gate) = Gate::new();
    let policy = TaskPolicy { max_shared_tasks: 4, ..for_a_minute() };
    let service = shared(policy, &gate);
    let begin = |pair: &Pair| {
        let id = send_request(pair, "tools/call", json!({"name": "quick"})).ok()?["taskId"]
            .as_str()
            .expect("an id")
            .to_owned();
        pair.until(|| service.tasks().has_ended(&id));
        Some(id)
    };
    let honest = from(&service, 1);
    let id = begin(&honest).expect("there is room");
    // Clients that cannot be identified have one task each: no more than a new one would have.
    let others: Vec<_> = (0..10).map(|_| begin(&modern(&service)).is_some()).collect();
    assert_eq!(others.iter().filter(|begun| **begun).count(), 3);
    assert!(service.tasks().contains(&id, None));
    // One address has more than another, so its own tasks are removed.
    let service_of_two = shared(TaskPolicy { max_shared_tasks: 4, ..for_a_minute() }, &gate);
    let honest = from(&service_of_two, 1);
    let quick = |pair: &Pair| {
        let task = send_request(pair, "tools/call", json!({"name": "quick"})).expect("there is room");
        let id = task["taskId"].as_str().expect("an id").to_owned();
        pair.until(|| service_of_two.tasks().has_ended(&id));
        id
    };
    let id = quick(&honest);
    (0..10).for_each(|_| drop(quick(&from(&service_of_two, 2))));
    assert_eq!((service_of_two.tasks().usage().0, service_of_two.tasks().contains(&id, None)), (4, true));
    quick(&honest);
    assert!(service_of_two.tasks().contains(&id, None), "those of the other address give way");
}

#[test]
fn ended_tasks_are_evicted_for_new_ones() {
    let (_open, gate) = Gate::new();
    let policy = TaskPolicy { max_shared_tasks: 6, max_tasks_per_principal: 4, ..for_a_minute() };
    let service = shared(policy, &gate);
    let pair = modern(&service);
    let begun = |who, name| {
        let id = send_request_for(&pair, who, "tools/call", json!({"name": name})).expect("a task")["taskId"].clone();
        if name == "quick" {
            pair.until(|| service.tasks().has_ended(id.as_str().expect("an id")));
        }
        id
    };
    let fetch = |who, id: &Value| send_request_for(&pair, who, "tasks/get", json!({"taskId": id})).expect("a task");
    let (ada, bob) = (Some("ada"), Some("bob"));
    let mut of_ada: Vec<_> = (0..4).map(|_| begun(ada, "quick")).collect();
    fetch(ada, &of_ada[2]);
    let of_bob: Vec<_> = (0..2).map(|_| begun(bob, "quick")).collect();
    // Ada's share is full: her tasks with fetched results are removed first, and none of Bob's.
    of_ada.push(begun(ada, "quick"));
    assert_eq!(of_ada.iter().map(|id| contains(&pair, ada, id)).collect::<Vec<_>>(), [true, true, false, true, true]);
    assert!(of_bob.iter().all(|id| contains(&pair, bob, id)));
    // Then the oldest of her tasks.
    of_ada.push(begun(ada, "quick"));
    let there = of_ada.iter().map(|id| contains(&pair, ada, id)).collect::<Vec<_>>();
    assert_eq!(there.iter().filter(|there| **there).count(), 4);
    assert!(of_bob.iter().all(|id| contains(&pair, bob, id)));
    // The store is full. Bob has fewer tasks than Ada: one of hers is removed.
    begun(bob, "works");
    assert!(of_bob.iter().all(|id| contains(&pair, bob, id)));
    assert_eq!(of_ada.iter().filter(|id| contains(&pair, ada, id)).count(), 3);
    // Bob has as many tasks as Ada, so none of hers with an unread result is removed, but one of his.
    begun(bob, "works");
    assert_eq!(of_ada.iter().filter(|id| contains(&pair, ada, id)).count(), 3);
    assert_eq!(of_bob.iter().filter(|id| contains(&pair, bob, id)).count(), 1);
    // A running task is never removed.
    begun(bob, "works");
    let refused = send_request_for(&pair, bob, "tools/call", json!({"name": "works"}));
    assert_eq!(refused.map_err(|error| error["code"].clone()), Err(json!(-32603)));
    let left = of_ada.iter().find(|id| contains(&pair, ada, id)).expect("some are left");
    fetch(ada, left);
    begun(bob, "works");
    assert!(!contains(&pair, ada, left));
    pair.advance(Duration::from_secs(60));
    assert_eq!(service.tasks().usage(), (0, 0));
}

#[test]
fn task_bytes_per_principal_are_bounded() {
    let (_open, gate) = Gate::new();
    let policy = TaskPolicy { max_shared_bytes: 12_000, max_bytes_per_principal: 4000, ..for_a_minute() };
    let service = shared(policy, &gate);
    let pair = modern(&service);
    let heavy = |who: &str| {
        let params = json!({"name": "works", "padding": "x".repeat(1500)});
        send_request_for(&pair, Some(who), "tools/call", params).is_ok()
    };
    for who in ["eve", "ada", "bob"] {
        assert_eq!((0..5).filter(|_| heavy(who)).count(), 2, "{who}");
    }
    assert!(service.tasks().usage().1 < 12_000);
    pair.advance(Duration::from_secs(60));
    assert_eq!(service.tasks().usage(), (0, 0));
}

#[test]
fn task_bytes_are_bounded() {
    let policy = TaskPolicy { max_shared_bytes: 10_000, ..for_a_minute() };
    let length = Arc::new(AtomicUsize::new(0));
    let wanted = length.clone();
    let service = echo()
        .tool(task_tool("long", move |context: Context| {
            let text = "x".repeat(wanted.load(Ordering::SeqCst));
            context.progress(1.0, None, Some(&text)).wait()?;
            Ok(CallToolResult::text(text))
        }))
        .task_policy(policy)
        .build()
        .expect("a good service");
    let pair = modern(&service);
    let run = |len: usize| {
        length.store(len, Ordering::SeqCst);
        let id = begin(&pair, "long");
        until(&pair, &id, |task| task["status"] != "working")
    };
    let long = run(20_000);
    assert_eq!((&long["status"], &long["error"]["code"]), (&json!("failed"), &json!(-32603)));
    let small = service.tasks().usage().1;
    assert!(small < 200, "{small}");
    let good = run(4000);
    assert_eq!((&good["status"], &good["statusMessage"]), (&json!("completed"), &json!("x".repeat(4000))));
    assert!(service.tasks().usage().1 > 8000);
    // A completed task whose result was fetched is removed.
    assert_eq!(run(4000)["status"], "completed");
    assert!((4000..10_000).contains(&service.tasks().usage().1));
    assert_eq!(code(&get(&pair, good["taskId"].as_str().expect("an id"))), -32602);
    // A request that exceeds the limit itself never becomes a task.
    let arguments = |len| json!({"name": "long", "arguments": {"x": "x".repeat(len)}});
    let refused = send_request(&pair, "tools/call", arguments(10_000));
    assert_eq!(refused.map_err(|error| error["message"].clone()), Err(json!("Too many tasks")));
    // No task was removed for it.
    assert!((4000..10_000).contains(&service.tasks().usage().1));
    pair.advance(Duration::from_secs(60));
    assert_eq!(service.tasks().usage(), (0, 0));
    length.store(1, Ordering::SeqCst);
    assert_eq!(send_request(&pair, "tools/call", arguments(3000)).expect("a result")["resultType"], "task");
    pair.assert_clean();
}

#[test]
fn a_task_outlives_its_connection() {
    let (open, gate) = Gate::new();
    let service = kept(for_a_minute(), &gate)
        .tool(task_tool("sleeps", |context: Context| {
            context.sleep(Duration::from_millis(20)).wait()?;
            Ok(CallToolResult::text("awake"))
        }))
        .build()
        .expect("a good service");
    let (here, there) = (modern(&service), modern(&service));
    let (works, sleeps) = (begin(&here, "works"), begin(&here, "sleeps"));
    here.until(|| here.server.waiters.len() > 1);
    assert_eq!(get(&there, &works), get(&here, &works), "it is the same, wherever one looks");
    let (subscription, acknowledged) = listen(&there, &[&works, &sleeps]);
    assert_eq!(acknowledged, json!([works, sleeps]));
    here.server.with_conn(mcp_proto::connection::Connection::handle_disconnect);
    here.client.with_conn(mcp_proto::connection::Connection::handle_disconnect);
    while here.step() {}
    open.send(()).expect("it waits");
    for (id, said) in [(&works, "done"), (&sleeps, "awake")] {
        let task = until_status(&there, id, "completed");
        assert_eq!(task["result"]["content"][0]["text"], said);
    }
    there.until(|| {
        notifications_of(&there, &subscription).iter().filter(|task| task["status"] == "completed").count() == 2
    });
    // The connection that created them has ended, but another one expires them.
    there.advance(Duration::from_secs(120));
    assert_eq!(service.tasks().usage(), (0, 0));
    there.server.take_lines();
}

/// Sends a request as this principal. Returns its response.
fn send_request_for(pair: &Pair, who: Option<&str>, method: &str, mut params: Value) -> Result<Value, Value> {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": everything(),
    });
    let line = json!({"jsonrpc": "2.0", "id": "own", "method": method, "params": params}).to_string();
    let arrival = Arrival { principal: who.map(|who| Arc::new(Principal::new(who))), ..Arrival::default() };
    let connection = pair.server.connection();
    pair.server.take_lines();
    let event = connection
        .update(|conn, now| conn.handle_frame_from(now, Frame::new(line.as_bytes()), arrival).map(Event::into_owned));
    if let Some(job) = pair.server_session.handle(&connection, event.expect("a request")) {
        thread::spawn(|| job.run());
    }
    pair.until(|| {
        pair.answered("own").is_some() || lock(&pair.server.lines).iter().any(|line| line.contains("acknowledged"))
    });
    let answer = pair.answered("own");
    answer.map_or(Ok(Value::Null), super::body)
}

// req: M-TASK-076
#[test]
fn tasks_are_visible_to_their_creator_only() {
    let (_open, gate) = Gate::new();
    let service = kept(for_a_minute(), &gate).build().expect("a good service");
    let pair = modern(&service);
    let begun =
        |who| send_request_for(&pair, who, "tools/call", json!({"name": "works"})).expect("a task")["taskId"].clone();
    let people = [None, Some("ada"), Some("bob")];
    let tasks = people.map(begun);
    for who in people {
        for (whose, id) in people.iter().zip(&tasks) {
            let requests = [
                ("tasks/get", json!({"taskId": id})),
                ("tasks/update", json!({"taskId": id, "inputResponses": {}})),
                ("tasks/cancel", json!({"taskId": id})),
            ];
            for (method, params) in requests {
                let answer = send_request_for(&pair, who, method, params);
                let expected = if who == *whose { Ok(()) } else { Err(-32602) };
                assert_eq!(
                    answer.map(|_| ()).map_err(|error| error["code"].as_i64().expect("a code")),
                    expected.map_err(i64::from)
                );
            }
        }
    }
    // Nor is a subscription notified of the tasks of others.
    for (who, own) in people.into_iter().zip(&tasks) {
        let listened =
            send_request_for(&pair, who, "subscriptions/listen", json!({"notifications": {"taskIds": tasks}}));
        assert_eq!(listened, Ok(Value::Null));
        let lines = pair.server.take_lines();
        let acknowledged = lines.iter().find(|line| line["method"] == "notifications/subscriptions/acknowledged");
        assert_eq!(acknowledged.expect("it was")["params"]["notifications"], json!({"taskIds": [own]}));
        unlisten(&pair, "own");
    }
}

// req: M-TASK-064 M-TASK-065 M-TASK-066
#[test]
fn subscribers_receive_task_status() {
    let (open, gate) = Gate::new();
    let service = kept(for_a_minute(), &gate).build().expect("a good service");
    let pair = modern(&service);
    let (first, second, third) = (begin(&pair, "works"), begin(&pair, "works"), begin(&pair, "works"));
    cancel(&pair, &second).expect("a receipt");
    let cancelled = until_status(&pair, &second, "cancelled");
    let (subscription, acknowledged) = listen(&pair, &[&first, &second, "x"]);
    assert_eq!(acknowledged, json!([first, second]));
    let mut all = notifications_of(&pair, &subscription);
    // The current state is reported immediately.
    assert_eq!(all.len(), 1);
    let mut notified_of = all.remove(0);
    let mut expected = cancelled;
    for (task, members) in [(&mut notified_of, 1), (&mut expected, 2)] {
        let object = task.as_object_mut().expect("an object");
        let before = object.len();
        object.remove("_meta");
        object.remove("resultType");
        assert_eq!(before - object.len(), members);
    }
    assert_eq!(notified_of, expected);
    // Another subscription to the task is notified, too.
    let (other, _) = listen(&pair, &[&second]);
    assert_eq!(notifications_of(&pair, &other).len(), 1);
    cancel(&pair, &third).expect("a receipt");
    until_status(&pair, &third, "cancelled");
    open.send(()).expect("it waits");
    let mut done = until_status(&pair, &first, "completed");
    pair.settle();
    let mut last = notifications_of(&pair, &subscription).pop().expect("it was told");
    for task in [&mut last, &mut done] {
        let object = task.as_object_mut().expect("an object");
        object.remove("_meta");
        object.remove("resultType");
    }
    assert_eq!(last, done);
    assert!(notifications_of(&pair, &subscription).iter().all(|task| task["taskId"] != json!(third)));
    assert!(notifications_of(&pair, &other).iter().all(|task| task["taskId"] == json!(second)));
}

#[test]
fn repeated_task_id_is_notified_once() {
    let (_open, gate) = Gate::new();
    let service = kept(for_a_minute(), &gate).build().expect("a good service");
    let pair = modern(&service);
    let [first, second] = [(); 2].map(|()| begin(&pair, "works"));
    for id in [&first, &second] {
        cancel(&pair, id).expect("a receipt");
        until_status(&pair, id, "cancelled");
    }
    let named: Vec<_> = (0..1000).map(|count| if count % 2 == 0 { &*first } else { &*second }).collect();
    let (subscription, acknowledged) = listen(&pair, &named);
    assert!(
        acknowledged.as_array().is_some_and(|tasks| tasks.contains(&json!(first)) && tasks.contains(&json!(second)))
    );
    let mut notifications_of: Vec<_> =
        notifications_of(&pair, &subscription).iter().map(|task| task["taskId"].clone()).collect();
    notifications_of.sort_by_key(Value::to_string);
    let mut expected = [json!(first), json!(second)];
    expected.sort_by_key(Value::to_string);
    assert_eq!(notifications_of, expected);
}

/// Creates a pair whose client does not read, and whose server has a small outbox.
fn narrow(service: &Service) -> Pair {
    Pair::with(&Host::builder("client", "1").build(), service, |joining| {
        joining.client.settings.versions = mcp_proto::protocol::VersionSet::only(ProtocolVersion::V2026_07_28);
        joining.server.settings.limits.outbox_bytes = 2000;
    })
}

/// Sends a request to the server, without moving lines.
fn input_to_server(pair: &Pair, id: &str, method: &str, mut params: Value) {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": everything(),
    });
    pair.input_to_server(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
}

/// Fills the outbox of the server with responses that the client does not read.
fn fill_outbox(pair: &Pair) {
    let connection = pair.server.connection();
    for _ in 0..100 {
        if !connection.read(|conn| conn.has_room()) {
            break;
        }
        input_to_server(pair, "stuff", "tools/list", json!({}));
    }
    assert!(!connection.read(|conn| conn.has_room()));
}

/// Cancels a call of a tool that becomes a task, while the outbox of the server is full. The policy of the service has
/// room for one task. The service of `build` may keep its tasks anywhere.
pub(super) fn cancel_before_the_outbox_has_room(build: impl FnOnce(ServiceBuilder) -> Service) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let tool = task_tool("counts", move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(CallToolResult::text("done"))
    });
    let policy = TaskPolicy { max_tasks_per_principal: 1, ..TaskPolicy::default() };
    let service = build(echo().tool(tool).task_policy(policy));
    let pair = narrow(&service);
    let id = begin(&pair, "counts");
    until_status(&pair, &id, "completed");
    fill_outbox(&pair);
    input_to_server(&pair, "call", "tools/call", json!({"name": "counts"}));
    pair.until_handlers_wait();
    let params = json!({"requestId": "call"});
    pair.input_to_server(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string());
    pair.settle();
    until_status(&pair, &id, "completed");
    assert_eq!((service.tasks().usage().0, runs.load(Ordering::Relaxed)), (1, 1));
    // The next call becomes a task, which takes the room of the first.
    let next = begin(&pair, "counts");
    until_status(&pair, &next, "completed");
    assert_eq!((service.tasks().usage().0, runs.load(Ordering::Relaxed)), (1, 2));
}

#[test]
fn request_cancelled_before_the_outbox_has_room_is_no_task() {
    cancel_before_the_outbox_has_room(|builder| builder.build().expect("a good service"));
}

#[test]
fn task_starts_when_the_outbox_has_room() {
    let (_open, gate) = Gate::new();
    let service = kept(TaskPolicy::default(), &gate).build().expect("a good service");
    let pair = narrow(&service);
    let id = begin(&pair, "works");
    let send_for = |id: &str, method: &str, params: Value| input_to_server(&pair, id, method, params);
    fill_outbox(&pair);
    send_for("call", "tools/call", json!({"name": "works"}));
    send_for("listen", "subscriptions/listen", json!({"notifications": {"taskIds": [id]}}));
    assert_eq!(service.tasks().usage().0, 1);
    pair.until(|| service.tasks().usage().0 == 2);
    assert_eq!(pair.await_answer("call")["result"]["resultType"], "task");
    pair.until(|| !super::received(&pair, "notifications/subscriptions/acknowledged", "listen").is_empty());
}

// req: M-TASK-075
#[test]
fn task_ids_are_random() {
    let (_open, gate) = Gate::new();
    let service = kept(TaskPolicy::default(), &gate).build().expect("a good service");
    let pair = modern(&service);
    let ids: std::collections::BTreeSet<_> = (0..20).map(|_| begin(&pair, "works")).collect();
    assert_eq!(ids.len(), 20);
    let is_random = |id: &String| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(ids.iter().all(is_random), "128 bits: {ids:?}");
    // Every digit varies.
    for at in 0..32 {
        assert!(ids.iter().map(|id| id.as_bytes()[at]).collect::<std::collections::BTreeSet<_>>().len() > 1);
    }
    // Without randomness no task is created, and requests fail.
    let fails = Arc::new(AtomicBool::new(false));
    let failing = fails.clone();
    let service = kept(TaskPolicy::default(), &gate)
        .random(move |bytes| {
            bytes.fill(7);
            if failing.load(Ordering::SeqCst) { Err(std::io::Error::other("none")) } else { Ok(()) }
        })
        .build()
        .expect("a good service");
    let pair = modern(&service);
    begin(&pair, "works");
    let weight = service.tasks().usage();
    for _ in 0..2 {
        let refused = send_request(&pair, "tools/call", json!({"name": "works"}));
        assert_eq!(refused.map_err(|error| error["message"].clone()), Err(json!("No randomness available")));
        fails.store(true, Ordering::SeqCst);
    }
    assert_eq!(service.tasks().usage(), weight);
}
