//! The calls in flight at the arrival of a request of a backend decide which client gets it.

use std::{sync::Arc, time::Duration};

use mcp_proto::{
    protocol::ProtocolVersion::{V2025_11_25, V2026_07_28},
    schema::{CallToolResult, TaskSupport},
};
use mcp_service::{CallError, Context, Failure, ResultOrTask, Service, Tool, proxy::Backend};

use crate::{
    asking::{Gate, first_id, form, gated, host, send_question, send_result, server},
    world::World,
};

const REFUSED: &str = "No call of a client is in flight";

/// A session does not say to which call a question belongs. So it may be that of another call of the client.
#[test]
fn a_question_outlives_the_call_that_it_is_sent_with() {
    for (is_asked, has_other) in [(false, true), (true, true), (false, false), (true, false)] {
        let mut world = World::new();
        world.serve(Backend::builder("back"), &server(&Arc::default()), V2025_11_25);
        let gate = Arc::new(Gate::default());
        let ada = world.client(&gated("ada", &gate), V2026_07_28);
        let other = has_other.then(|| world.peer(ada).call_tool("back__wait", ()).expect("allowed"));
        world.settle();
        world.back(0).take_transcript();
        let call = world.peer(ada).call_tool("back__wait", ()).expect("allowed");
        world.settle();
        let id = first_id(&world.back(0).take_transcript().to_string());
        send_question(&mut world, "q", "Who?");
        if is_asked {
            world.settle();
        }
        send_result(&mut world, &id);
        gate.open();
        world.wait(call).expect("a result");
        world.settle();
        let transcript = world.back(0).transcript().to_string();
        let has_answer = transcript.contains(r#""result":{"action":"accept""#);
        let is_refused = transcript.contains("No call of a client is in flight");
        // An answer that is there counts. Without another call, the question is refused.
        let expected = (is_asked || has_other, !is_asked && !has_other);
        assert_eq!((has_answer, is_refused), expected, "asked: {is_asked}, another: {has_other}: {transcript}");
        drop(other);
        world.settle();
    }
}

/// The handler of a question begins after those of earlier questions have ended. Until then the calls can change.
#[test]
fn calls_at_the_arrival_of_a_queued_question_count() {
    for front in [V2025_11_25, V2026_07_28] {
        let mut world = World::new();
        world.serve(Backend::builder("back"), &server(&Arc::default()), V2025_11_25);
        let gate = Arc::new(Gate::default());
        let bob = world.client(&gated("bob", &gate), V2025_11_25);
        let ada = world.client(&host("ada"), front);
        let waiting = world.peer(bob).call_tool("back__wait", ()).expect("allowed");
        world.settle();
        for number in 0..1024 {
            send_question(&mut world, &format!("q{number}"), "of bob");
        }
        world.settle();
        world.back(0).take_transcript();
        let call = world.peer(ada).call_tool("back__wait", ()).expect("allowed");
        world.settle();
        let id = first_id(&world.back(0).take_transcript().to_string());
        send_question(&mut world, "late", "of ada");
        send_result(&mut world, &id);
        gate.open();
        world.wait(call).expect("a result");
        let transcript = world.clients[bob].transcript().to_string();
        assert!(transcript.contains("of bob") && !transcript.contains("of ada"), "{front}");
        let transcript = world.back(0).transcript().to_string();
        assert!(transcript.contains("No call of a client is in flight"), "{front}");
        assert!(transcript.contains(r#""id":"q1023","result""#), "{front}");
        drop(waiting);
        world.settle();
    }
}

/// The second question arrives while the client responds to the first one, and waits for the next round.
#[test]
fn a_question_does_not_move_to_a_call_that_began_later() {
    for has_other in [false, true] {
        let mut world = World::new();
        world.serve(Backend::builder("back"), &server(&Arc::default()), V2025_11_25);
        let gate = Arc::new(Gate::default());
        let ada = world.client(&gated("ada", &gate), V2026_07_28);
        let bob = world.client(&host("bob"), V2026_07_28);
        let other = has_other.then(|| world.peer(ada).call_tool("back__wait", ()).expect("allowed"));
        world.settle();
        world.back(0).take_transcript();
        let call = world.peer(ada).call_tool("back__wait", ()).expect("allowed");
        world.settle();
        let id = first_id(&world.back(0).take_transcript().to_string());
        for question in ["q1", "q2"] {
            send_question(&mut world, question, &format!("{question} of ada"));
            world.settle();
        }
        let later = world.peer(bob).call_tool("back__wait", ()).expect("allowed");
        world.settle();
        send_result(&mut world, &id);
        world.settle();
        gate.open();
        world.wait(call).expect("a result");
        world.settle();
        let transcript = world.clients[bob].transcript().to_string();
        assert!(!transcript.contains("of ada"), "{transcript}");
        let transcript = world.back(0).transcript().to_string();
        let answer = |id: &str| format!(r#""id":"{id}","result":{{"action":"accept","content":{{"name":"ada"}}}}"#);
        assert!(transcript.contains(&answer("q1")), "{transcript}");
        // Another call of the client that was in flight gets the question.
        assert_eq!(transcript.contains(&answer("q2")), has_other, "{transcript}");
        assert_eq!(transcript.contains("No call of a client is in flight"), !has_other, "{transcript}");
        drop((other, later));
        world.settle();
    }
}

/// The handler of the call has not ended when the question arrives, but the backend has responded to it.
#[test]
fn call_with_a_response_does_not_count() {
    for front in [V2025_11_25, V2026_07_28] {
        let mut world = World::new();
        world.serve(Backend::builder("back"), &server(&Arc::default()), V2025_11_25);
        let (bob, ada) = (world.client(&host("bob"), V2025_11_25), world.client(&host("ada"), front));
        let waiting = world.peer(bob).call_tool("back__wait", ()).expect("allowed");
        world.settle();
        world.back(0).take_transcript();
        let call = world.peer(ada).call_tool("back__wait", ()).expect("allowed");
        world.settle();
        let id = first_id(&world.back(0).take_transcript().to_string());
        send_result(&mut world, &id);
        send_question(&mut world, "q", "of bob");
        world.wait(call).expect("a result");
        world.clients[bob].transcript().assert_contains("of bob");
        assert!(!world.clients[ada].transcript().to_string().contains("of bob"), "{front}");
        drop(waiting);
        world.settle();
    }
}

/// Also in a session, where a question is a request on behalf of a request of the client.
#[test]
fn question_moves_when_its_call_is_cancelled() {
    for front in [V2025_11_25, V2026_07_28] {
        for has_other in [true, false] {
            let mut world = World::new();
            world.serve(Backend::builder("back"), &server(&Arc::default()), V2025_11_25);
            let gate = Arc::new(Gate::default());
            let ada = world.client(&gated("ada", &gate), front);
            let bob = world.client(&host("bob"), V2025_11_25);
            let other = has_other.then(|| world.peer(ada).call_tool("back__wait", ()).expect("allowed"));
            world.settle();
            let call = world.peer(ada).call_tool("back__wait", ()).expect("allowed");
            world.settle();
            send_question(&mut world, "q", "of ada");
            world.settle();
            let later = world.peer(bob).call_tool("back__wait", ()).expect("allowed");
            world.settle();
            drop(call);
            world.settle();
            gate.open();
            world.settle();
            let transcript = world.back(0).transcript().to_string();
            let has_answer = transcript.contains(r#""result":{"action":"accept""#);
            // A call of 2026-07-28 that waits for its client does not end with the request before.
            let expected = if front == V2025_11_25 { (has_other, !has_other) } else { (false, false) };
            assert_eq!((has_answer, transcript.contains(REFUSED)), expected, "{front} {has_other} {transcript}");
            assert!(!world.clients[bob].transcript().to_string().contains("of ada"), "{front}");
            drop((other, later));
            world.settle();
        }
    }
}

/// A tool that must be a task in a session, and asks.
fn planner() -> Service {
    let plan = Tool::new_async("plan", async |context: Context| {
        let answer = context.elicit("Who plans?", form()).await?;
        Ok::<_, Failure>(format!("{:?}", answer.content.and_then(|content| content.get("name").cloned())))
    });
    let wait = Tool::new_async("wait", async |context: Context| {
        context.cancelled().await;
    });
    let plan = plan.task_support(TaskSupport::Required);
    Service::builder("back", "1.0.0").tool(plan).tool(wait).build().expect("a service")
}

/// Runs the tool as a task, whose state a client of 2026-07-28 requests each second.
fn plan(world: &mut World, client: usize) -> Result<CallToolResult, CallError> {
    let peer = world.peer(client);
    let tools = world.wait(peer.list_tools(None).expect("allowed")).expect("a list").tools;
    let tool = tools.iter().find(|tool| tool.name == "back__plan").expect("it is offered");
    if peer.version() == Some(V2026_07_28) {
        let call = peer.call_tool(&tool.name, ()).expect("allowed");
        for _ in 0..3 {
            world.settle();
            world.clients[client].advance(Duration::from_secs(1));
        }
        return world.wait(call);
    }
    match world.wait(peer.run_tool(tool, ()).expect("allowed"))? {
        ResultOrTask::Result(result) => Ok(result),
        ResultOrTask::Task(task) => world.wait(task.result().expect("allowed")),
    }
}

#[test]
fn question_of_a_task_reaches_its_client_only() {
    for front in [V2025_11_25, V2026_07_28] {
        let mut world = World::new();
        world.serve(Backend::builder("back"), &planner(), V2025_11_25);
        let (bob, ada) = (world.client(&host("bob"), V2025_11_25), world.client(&host("ada"), front));
        let result = plan(&mut world, ada).expect("a result");
        assert_eq!(result.content[0].as_text(), Some(r#"Some(String("ada"))"#), "{front}");
        // The response that has created the task has arrived, but not its result.
        let waiting = world.peer(bob).call_tool("back__wait", ()).expect("allowed");
        world.settle();
        let result = plan(&mut world, ada);
        assert!(result.as_ref().map_or(true, |result| result.is_error()), "{front} {result:?}");
        assert!(!world.clients[bob].transcript().to_string().contains("Who plans?"), "{front}");
        assert_eq!(world.servers[0].backend.calls(), 1);
        drop(waiting);
        world.settle();
    }
}

/// The timer of a waiting call is that of the connection, and ends with its use.
#[test]
fn unused_connection_has_no_waiting_calls() {
    // The call waits for its client when the use of the connection ends, or begins to wait after that.
    for is_before in [true, false] {
        let mut world = World::new();
        world.serve(Backend::builder("back"), &server(&Arc::default()), V2025_11_25);
        let gate = Arc::new(Gate::default());
        let ada = world.client(&gated("ada", &gate), V2026_07_28);
        let call = world.peer(ada).call_tool("back__wait", ()).expect("allowed");
        world.settle();
        if is_before {
            send_question(&mut world, "q", "Who?");
            world.settle();
        }
        assert_eq!(world.servers[0].backend.calls(), 1);
        world.stop();
        if !is_before {
            send_question(&mut world, "q", "Who?");
            world.settle();
        }
        assert_eq!(world.servers[0].backend.calls(), 0, "{is_before}");
        gate.open();
        world.wait(call).expect_err("its call has ended");
        world.back(0).transcript().assert_contains("notifications/cancelled");
    }
}
