//! Requests of backends reach the client whose call they belong to, and no other.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use mcp_proto::{
    connection::Principal,
    protocol::ProtocolVersion::{V2025_11_25, V2026_07_28},
    schema::{ElicitResult, ElicitSchema},
};
use mcp_service::{
    CallError, Context, Failure, Host, Service, Tool,
    proxy::{Backend, ProxyLimits},
    testing::TestClient,
};

use crate::{
    asking::{first_id, gated, host, send_question, server},
    world::{ERAS, World},
};

#[test]
fn questions_reach_the_client_of_the_call_in_all_eras() {
    for (front, back) in ERAS {
        let calls = Arc::default();
        let mut world = World::new();
        world.serve(Backend::builder("back"), &server(&calls), back);
        let client = world.client(&host("ada"), front);
        let result = world.wait(world.peer(client).call_tool("back__greet", ()).expect("allowed")).expect("a result");
        let all = r#"Some(String("ada")), a poem by ada, accept, file:///home/ada"#;
        assert_eq!(result.content[0].as_text(), Some(all), "{front:?} {back:?}");
        // A handler of a session runs once, however many requests the client sends.
        if back == V2025_11_25 {
            assert_eq!(calls.load(Ordering::SeqCst), 1);
        }
        assert_eq!(world.servers[0].backend.calls(), 0);
        world.assert_idle(0, back);
        world.clients[client].assert_idle();
    }
}

#[test]
fn responses_to_forms_get_no_defaults() {
    // The user has emptied the field that has a default.
    let form = r#"{"type":"object","properties":{"name":{"type":"string"},
        "color":{"type":"string","default":"red"}},"required":["name"]}"#;
    for back in [V2025_11_25, V2026_07_28] {
        let asking = Tool::new_async("ask", async move |context: Context| {
            let form: ElicitSchema = serde_json::from_str(form).expect("a form");
            let answer = context.elicit("Who?", form).await?;
            let names: Vec<_> = answer.content.iter().flatten().map(|(name, _)| name.to_owned()).collect();
            Ok::<_, Failure>(names.join(", "))
        });
        let service = Service::builder("back", "1.0.0").tool(asking).build().expect("a service");
        let mut world = World::new();
        world.serve(Backend::builder("back"), &service, back);
        // A client of the library would add the default itself, so the response is written by hand.
        let client = world.client(&gated("user", &Arc::default()), V2025_11_25);
        let call = world.peer(client).call_tool("back__ask", ()).expect("allowed");
        world.settle();
        let transcript = world.clients[client].transcript();
        let asked = transcript.lines().iter().find(|line| line.text().contains("elicitation/create"));
        let id = first_id(asked.expect("a question").text());
        let result = r#"{"action":"accept","content":{"name":"Ada"}}"#;
        world.clients[client].send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
        let result = world.wait(call).expect("a result");
        assert_eq!(result.content[0].as_text(), Some("name"), "{result:?}");
    }
}

#[test]
fn questions_of_two_calls_reach_their_clients() {
    // A result of 2026-07-28 names its call.
    for front in [V2025_11_25, V2026_07_28] {
        let mut world = World::new();
        world.serve(Backend::builder("back"), &server(&Arc::default()), V2026_07_28);
        let clients = ["ada", "bob"].map(|user| world.client(&host(user), front));
        let calls = clients.map(|client| world.peer(client).call_tool("back__greet", ()).expect("allowed"));
        for (call, user) in calls.into_iter().zip(["ada", "bob"]) {
            let result = world.wait(call).expect("a result");
            let text = result.content[0].as_text().expect("a text");
            assert!(text.contains(&format!("poem by {user}")) && text.contains(&format!("home/{user}")), "{text}");
        }
    }
}

#[test]
fn a_question_that_may_be_for_another_client_is_refused() {
    // A session does not say to which call a request belongs.
    let mut world = World::new();
    world.serve(Backend::builder("back"), &server(&Arc::default()), V2025_11_25);
    let [ada, bob] = ["ada", "bob"].map(|user| world.client(&host(user), V2025_11_25));
    let waiting = world.peer(bob).call_tool("back__wait", ()).expect("allowed");
    world.settle();
    let result = world.wait(world.peer(ada).call_tool("back__greet", ()).expect("allowed")).expect("a result");
    assert!(result.is_error(), "{result:?}");
    assert!(result.content[0].as_text().is_some_and(|text| text.contains("No call of a client")), "{result:?}");
    for client in [ada, bob] {
        assert!(!world.clients[client].transcript().to_string().contains(r#""method":"elicitation/create""#));
    }
    // A second call of the same client is no obstacle.
    drop(waiting);
    world.settle();
    world.back(0).advance(ProxyLimits::default().late_time);
    let own = world.peer(ada).call_tool("back__wait", ()).expect("allowed");
    let result = world.wait(world.peer(ada).call_tool("back__greet", ()).expect("allowed")).expect("a result");
    assert!(!result.is_error(), "{result:?}");
    drop(own);
    world.settle();
}

fn send_log(world: &mut World, data: &str) {
    let params = format!(r#"{{"level":"error","data":"{data}"}}"#);
    world
        .back(0)
        .send_server_line(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{params}}}"#));
    world.settle();
}

/// What a backend sends about a call that has ended, in a session.
fn send_late(world: &mut World) {
    send_log(world, "late");
    send_question(world, "late", "Who is late?");
    world.settle();
}

fn got_late(world: &World, client: usize) -> bool {
    let transcript = world.clients[client].transcript().to_string();
    let (requested, logged) = (transcript.contains("Who is late?"), transcript.contains(r#""data":"late""#));
    assert_eq!(requested, logged, "{transcript}");
    requested
}

#[test]
fn late_messages_about_a_cancelled_call_reach_no_other_client() {
    for (front, other) in [(V2025_11_25, V2025_11_25), (V2026_07_28, V2025_11_25)] {
        let mut world = World::new();
        world.serve(Backend::builder("back"), &server(&Arc::default()), V2025_11_25);
        let (ada, bob) = (world.client(&host("ada"), front), world.client(&host("bob"), other));
        let waiting = world.peer(bob).call_tool("back__wait", ()).expect("allowed");
        let cancelled = world.peer(ada).call_tool("back__wait", ()).expect("allowed");
        world.settle();
        drop(cancelled);
        world.settle();
        assert_eq!(world.servers[0].backend.calls(), 1);
        send_late(&mut world);
        assert!(!got_late(&world, bob), "{front:?}");
        let transcript = world.back(0).take_transcript().to_string();
        assert!(transcript.contains("No call of a client"), "{transcript}");
        // The backend had its time.
        world.back(0).advance(ProxyLimits::default().late_time);
        send_late(&mut world);
        assert!(got_late(&world, bob), "{front:?}");
        drop(waiting);
        world.settle();
    }
}

#[test]
fn late_messages_about_timed_out_calls_reach_no_other_client() {
    let mut limits = ProxyLimits::default();
    limits.call_time = Duration::from_secs(5);
    let mut world = World::new();
    world.serve(Backend::builder("back").limits(limits), &server(&Arc::default()), V2025_11_25);
    let [ada, bob] = ["ada", "bob"].map(|user| world.client(&host(user), V2025_11_25));
    let slow = world.peer(ada).call_tool("back__wait", ()).expect("allowed");
    world.settle();
    world.back(0).advance(Duration::from_secs(4));
    let waiting = world.peer(bob).call_tool("back__wait", ()).expect("allowed");
    world.settle();
    world.back(0).advance(Duration::from_secs(2));
    world.wait(slow).expect_err("it is too slow");
    assert_eq!(world.servers[0].backend.calls(), 1, "only that of bob");
    send_late(&mut world);
    assert!(!got_late(&world, bob));
    drop(waiting);
    world.settle();
}

#[test]
fn late_messages_for_a_disconnected_client_reach_no_other() {
    let mut world = World::new();
    world.serve(Backend::builder("back"), &server(&Arc::default()), V2025_11_25);
    let [bob, ada] = ["bob", "ada"].map(|user| world.client(&host(user), V2025_11_25));
    let call = world.peer(ada).call_tool("back__wait", ()).expect("allowed");
    world.settle();
    world.clients.truncate(1);
    world.settle();
    assert!(matches!(world.wait(call), Err(CallError::Closed(_))));
    // Now bob is the only client, without a call.
    send_late(&mut world);
    let transcript = world.clients[bob].transcript().to_string();
    assert!(!transcript.contains("late"), "{transcript}");
}

#[test]
fn late_messages_may_reach_the_client_that_cancelled() {
    let mut world = World::new();
    world.serve(Backend::builder("back"), &server(&Arc::default()), V2025_11_25);
    let ada = world.client(&host("ada"), V2025_11_25);
    let waiting = world.peer(ada).call_tool("back__wait", ()).expect("allowed");
    drop(world.peer(ada).call_tool("back__wait", ()).expect("allowed"));
    world.settle();
    send_late(&mut world);
    assert!(got_late(&world, ada));
    drop(waiting);
    world.settle();
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"outside"}}"#;
    world.back(0).send_server_line(log);
    world.settle();
    world.clients[ada].transcript().assert_contains("outside");
}

/// Without a session a client is known by its principal.
#[test]
fn late_messages_may_reach_the_principal_that_cancelled() {
    for (front, other, is_reached) in
        [(V2026_07_28, "ada", true), (V2026_07_28, "bob", false), (V2025_11_25, "ada", false)]
    {
        let mut world = World::new();
        world.serve(Backend::builder("back"), &server(&Arc::default()), V2025_11_25);
        for user in ["ada", other] {
            let client = TestClient::of(&world.service).host(&host(user)).principal(Principal::new(user));
            world.clients.push(client.version(front).connect());
        }
        let waiting = world.peer(1).call_tool("back__wait", ()).expect("allowed");
        let cancelled = world.peer(0).call_tool("back__wait", ()).expect("allowed");
        world.settle();
        drop(cancelled);
        world.settle();
        send_late(&mut world);
        let transcript = world.clients[1].transcript().to_string();
        assert_eq!(transcript.contains("Who is late?"), is_reached, "{front} {other}: {transcript}");
        drop(waiting);
        world.settle();
    }
}

#[test]
fn call_with_a_response_has_no_late_messages() {
    let mut world = World::new();
    world.serve(Backend::builder("back"), &server(&Arc::default()), V2025_11_25);
    let [ada, bob] = ["ada", "bob"].map(|user| world.client(&host(user), V2025_11_25));
    let waiting = world.peer(bob).call_tool("back__wait", ()).expect("allowed");
    // It is refused its question, and fails.
    let result = world.wait(world.peer(ada).call_tool("back__greet", ()).expect("allowed")).expect("a result");
    assert!(result.is_error(), "{result:?}");
    send_late(&mut world);
    assert!(got_late(&world, bob));
    drop(waiting);
    world.settle();
}

#[test]
fn late_response_ends_the_wait_for_late_messages() {
    let mut world = World::new();
    world.serve(Backend::builder("back"), &server(&Arc::default()), V2025_11_25);
    let [ada, bob] = ["ada", "bob"].map(|user| world.client(&host(user), V2025_11_25));
    let waiting = world.peer(bob).call_tool("back__wait", ()).expect("allowed");
    let calls = [(); 2].map(|()| world.peer(ada).call_tool("back__wait", ()).expect("allowed"));
    world.settle();
    world.back(0).take_transcript();
    drop(calls);
    world.settle();
    let transcript = world.back(0).take_transcript().to_string();
    let ids: Vec<&str> =
        transcript.split(r#""requestId":"#).skip(1).filter_map(|rest| rest.split([',', '}']).next()).collect();
    assert_eq!(ids.len(), 2, "{transcript}");
    for (answered, id) in ids.into_iter().enumerate() {
        send_late(&mut world);
        assert!(!got_late(&world, bob), "{answered} of two calls have ended");
        // Some servers respond to a cancelled request.
        world.back(0).send_server_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}"#));
        world.settle();
    }
    send_late(&mut world);
    assert!(got_late(&world, bob));
    drop(waiting);
    world.settle();
}

/// A backend with a call of bob and a cancelled one of ada, which it never responds to. Returns bob.
fn with_cancelled_call(world: &mut World) -> (usize, mcp_service::Pending<mcp_proto::schema::CallToolResult>) {
    world.serve(Backend::builder("back"), &server(&Arc::default()), V2025_11_25);
    let [ada, bob] = ["ada", "bob"].map(|user| world.client(&host(user), V2025_11_25));
    let waiting = world.peer(bob).call_tool("back__wait", ()).expect("allowed");
    let cancelled = world.peer(ada).call_tool("back__wait", ()).expect("allowed");
    world.settle();
    drop(cancelled);
    world.settle();
    (bob, waiting)
}

#[test]
fn silent_backend_withholds_messages_in_the_grace_period() {
    let grace = ProxyLimits::default().grace_period;
    let mut world = World::new();
    let (bob, waiting) = with_cancelled_call(&mut world);
    world.back(0).advance(grace - Duration::from_millis(1));
    send_log(&mut world, "early");
    world.back(0).advance(Duration::from_millis(1));
    send_late(&mut world);
    assert!(got_late(&world, bob));
    assert!(!world.clients[bob].transcript().to_string().contains("early"));
    drop(waiting);
    world.settle();
}

#[test]
fn a_question_in_the_grace_period_begins_it_again() {
    let limits = ProxyLimits::default();
    let mut world = World::new();
    let (bob, waiting) = with_cancelled_call(&mut world);
    let step = limits.grace_period - Duration::from_millis(1);
    let mut passed = Duration::ZERO;
    while passed + step < limits.late_time {
        send_late(&mut world);
        assert!(!got_late(&world, bob), "after {passed:?}");
        world.back(0).advance(step);
        passed += step;
    }
    // The backend had its time.
    world.back(0).advance(limits.late_time - passed);
    send_late(&mut world);
    assert!(got_late(&world, bob));
    drop(waiting);
    world.settle();
}

#[test]
fn a_backend_that_does_not_stop_has_the_whole_time() {
    let limits = ProxyLimits::default();
    // The response arrives within the grace period, or after it.
    for pause in [Duration::ZERO, limits.grace_period] {
        let mut world = World::new();
        let (bob, waiting) = with_cancelled_call(&mut world);
        let transcript = world.back(0).transcript().to_string();
        let id = transcript.split(r#""requestId":"#).nth(1).and_then(|rest| rest.split([',', '}']).next());
        let id = id.expect("a cancellation").to_owned();
        world.back(0).advance(pause);
        send_log(&mut world, "other");
        world.back(0).send_server_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}"#));
        world.settle();
        let eve = world.client(&host("eve"), V2025_11_25);
        let cancelled = world.peer(eve).call_tool("back__wait", ()).expect("allowed");
        world.settle();
        drop(cancelled);
        world.settle();
        world.back(0).advance(limits.late_time - Duration::from_millis(1));
        send_late(&mut world);
        assert!(!got_late(&world, bob), "{pause:?}");
        world.back(0).advance(Duration::from_millis(1));
        send_late(&mut world);
        assert!(got_late(&world, bob), "{pause:?}");
        drop(waiting);
        world.settle();
    }
}

#[test]
fn a_question_without_a_call_is_refused() {
    let service = server(&Arc::default());
    let mut world = World::new();
    let back = world.serve(Backend::builder("back"), &service, V2025_11_25);
    let client = world.client(&host("ada"), V2025_11_25);
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#;
    world.back(back).send_server_line(line);
    world.settle();
    let transcript = world.back(back).transcript().to_string();
    assert!(transcript.contains("No call of a client is in flight"), "{transcript}");
    assert!(!world.clients[client].transcript().to_string().contains("roots/list"));
}

#[test]
fn a_client_that_does_not_come_back_ends_its_call() {
    // Without the pause, the connection has just read the lists.
    for (pauses, calls) in [(false, 1024), (true, 1024), (false, 1), (true, 1)] {
        let mut limits = ProxyLimits::default();
        limits.calls = calls;
        let (list_pause, late_time) = (limits.list_pause, limits.late_time);
        let mut world = World::new();
        world.serve(Backend::builder("back").limits(limits), &server(&Arc::default()), V2025_11_25);
        if pauses {
            world.back(0).advance(list_pause);
            world.settle();
        }
        // The client gets the question, and never responds.
        let silent = Host::builder("silent", "1.0.0")
            .elicitation_async(async |_, context| {
                context.cancelled().await;
                Err::<ElicitResult, _>(CallError::Cancelled)
            })
            .build();
        let client = world.client(&silent, V2026_07_28);
        let call = world.peer(client).call_tool("back__greet", ()).expect("allowed");
        world.settle();
        assert_eq!(world.servers[0].backend.calls(), 1, "it waits for the client");
        drop(call);
        world.settle();
        world.back(0).advance(Duration::from_secs(599));
        world.settle();
        assert_eq!(world.servers[0].backend.calls(), 1, "it still waits");
        world.back(0).advance(Duration::from_secs(2));
        world.settle();
        // It has ended without another call.
        assert_eq!(world.servers[0].backend.calls(), 0, "{pauses} {calls}");
        world.back(0).transcript().assert_contains("notifications/cancelled");
        world.back(0).advance(late_time);
        let other = world.client(&host("ada"), V2026_07_28);
        let result = world.wait(world.peer(other).call_tool("back__greet", ()).expect("allowed")).expect("a result");
        assert!(!result.is_error(), "{result:?}");
        assert_eq!(world.servers[0].backend.calls(), 0);
        world.back(0).assert_idle();
    }
}

#[test]
fn a_client_without_the_capability_is_not_asked() {
    for (front, back) in ERAS {
        let mut world = World::new();
        world.serve(Backend::builder("back"), &server(&Arc::default()), back);
        let client = world.client(&Host::builder("plain", "1.0.0").build(), front);
        let result = world.wait(world.peer(client).call_tool("back__greet", ()).expect("allowed"));
        let failed = result.as_ref().map_or(true, |result| result.is_error());
        assert!(failed, "{front:?} {back:?} {result:?}");
        assert!(!world.clients[client].transcript().to_string().contains(r#""method":"elicitation/create""#));
        assert_eq!(world.servers[0].backend.calls(), 0);
    }
}
