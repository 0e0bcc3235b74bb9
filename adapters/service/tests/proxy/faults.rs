//! A backend that dies, is slow or floods harms its own calls only.

use std::{sync::atomic::Ordering, time::Duration};

use mcp_proto::{
    connection::CloseReason,
    protocol::ProtocolVersion::{V2025_11_25, V2026_07_28},
    schema::LoggingLevel,
    wire::Json,
};
use mcp_service::{
    CallError, Context, Failure, Host, Service, Tool,
    proxy::{Backend, BackendFault, ProxyLimits},
};

use crate::world::World;

fn host() -> Host {
    Host::builder("test", "1.0.0").build()
}

fn server() -> Service {
    Service::builder("back", "1.0.0")
        .tool(Tool::new("answer", || "42"))
        .tool(Tool::new_async("wait", async |context: Context| {
            context.cancelled().await;
        }))
        .tool(Tool::new_async("flood", async |context: Context| {
            for number in 0..10_000 {
                context.log(LoggingLevel::Error, None, number).await?;
            }
            Ok::<_, Failure>("flooded")
        }))
        .build()
        .expect("a service")
}

fn reason(error: &CallError) -> Option<String> {
    error.rpc()?.data.as_ref().map(|data: &Json| data.get().to_owned())
}

#[test]
fn a_backend_that_dies_fails_its_calls_and_no_others() {
    for back in [V2025_11_25, V2026_07_28] {
        let mut world = World::new();
        let dying = world.serve(Backend::builder("dying"), &server(), back);
        world.serve(Backend::builder("other"), &server(), back);
        let client = world.client(&host(), V2025_11_25);
        let peer = world.peer(client);
        let calls: Vec<_> = (0..5).map(|_| peer.call_tool("dying__wait", ()).expect("allowed")).collect();
        let other = peer.call_tool("other__wait", ()).expect("allowed");
        world.settle();
        world.servers[dying].connection = None;
        for call in calls {
            let error = world.wait(call).expect_err("its server is gone");
            assert_eq!(reason(&error).as_deref(), Some(r#"{"backend":"dying","reason":"closed"}"#), "{error}");
            assert!(error.to_string().contains("the server \"dying\" did not respond"), "{error}");
        }
        // Its items stay, and say what is wrong.
        let error = world.wait(peer.call_tool("dying__answer", ()).expect("allowed")).expect_err("it is not there");
        assert_eq!(reason(&error).as_deref(), Some(r#"{"backend":"dying","reason":"not-connected"}"#), "{error}");
        let error = world.servers[dying].backend.error().expect("it is not connected");
        assert!(matches!(error.fault(), BackendFault::NotConnected(Some(_))), "{error}");
        let answer = world.wait(peer.call_tool("other__answer", ()).expect("allowed")).expect("a result");
        assert_eq!(answer.content[0].as_text(), Some("42"));
        assert_eq!((world.servers[dying].backend.calls(), world.servers[1].backend.calls()), (0, 1));
        drop(other);
        world.settle();
        world.clients[client].assert_idle();
    }
}

#[test]
fn a_backend_that_is_started_again_is_listed_again() {
    let mut world = World::new();
    let backend = Backend::builder("back").join(&world.service).expect("a backend");
    let client = world.client(&host(), V2025_11_25);
    let service = server();
    let next = std::cell::Cell::new(None);
    let connect = async || next.take().ok_or("given up");
    for round in 0..2 {
        let connection = mcp_service::testing::TestClient::of(&service).host(backend.host()).connect();
        next.set(Some(Box::new(connection.server())));
        let mut run = Box::pin(backend.run(&connect));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        for _ in 0..20 {
            assert!(run.as_mut().poll(&mut context).is_pending());
            connection.settle();
        }
        world.wait(backend.ready()).expect("it is ready");
        let transcript = world.clients[client].take_transcript().to_string();
        assert!(transcript.contains("notifications/tools/list_changed"), "{round} {transcript}");
        drop(connection);
        assert_eq!(run.as_mut().poll(&mut context), std::task::Poll::Ready(Err("given up")));
    }
    assert_eq!(world.wait(backend.ready()).expect_err("it is not connected").backend(), "back");
}

#[test]
fn a_removed_backend_does_not_wait_for_its_connection() {
    let world = World::new();
    let backend = Backend::builder("back").join(&world.service).expect("a backend");
    let connect = || std::future::pending::<Result<crate::world::Link, &str>>();
    let mut run = Box::pin(backend.run(connect));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(run.as_mut().poll(&mut context).is_pending());
    backend.remove();
    assert_eq!(run.as_mut().poll(&mut context), std::task::Poll::Ready(Ok(())));
}

#[test]
fn a_slow_backend_takes_only_its_own_slots() {
    let mut limits = ProxyLimits::default();
    (limits.calls, limits.call_time) = (3, Duration::from_secs(5));
    let mut world = World::new();
    let slow = world.serve(Backend::builder("slow").limits(limits), &server(), V2026_07_28);
    world.serve(Backend::builder("other"), &server(), V2026_07_28);
    let client = world.client(&host(), V2025_11_25);
    let peer = world.peer(client);
    let calls: Vec<_> = (0..3).map(|_| peer.call_tool("slow__wait", ()).expect("allowed")).collect();
    let error = world.wait(peer.call_tool("slow__answer", ()).expect("allowed")).expect_err("it is busy");
    assert_eq!(reason(&error).as_deref(), Some(r#"{"backend":"slow","reason":"busy"}"#), "{error}");
    let answer = world.wait(peer.call_tool("other__answer", ()).expect("allowed")).expect("a result");
    assert_eq!(answer.content[0].as_text(), Some("42"));
    world.back(slow).advance(Duration::from_secs(6));
    for call in calls {
        let error = world.wait(call).expect_err("it is too slow");
        assert_eq!(reason(&error).as_deref(), Some(r#"{"backend":"slow","reason":"timed-out"}"#), "{error}");
    }
    let answer = world.wait(peer.call_tool("slow__answer", ()).expect("allowed")).expect("a result");
    assert_eq!(answer.content[0].as_text(), Some("42"));
}

/// A form that asks for a name.
const FORM: &str = r#"{"type":"object","properties":{"name":{"type":"string"}}}"#;

#[test]
fn a_flood_of_other_messages_harms_no_call() {
    let question = format!(
        r#"{{"jsonrpc":"2.0","id":"ID","method":"elicitation/create","params":{{"message":"Who?","requestedSchema":{FORM}}}}}"#
    );
    let notification = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{params}}}"#)
    };
    let floods = [
        notification("tools/list_changed", "{}"),
        notification("resources/list_changed", "{}"),
        notification("resources/updated", r#"{"uri":"test://any"}"#),
        notification("elicitation/complete", r#"{"elicitationId":"unknown"}"#),
        notification("cancelled", r#"{"requestId":1}"#),
        notification("progress", r#"{"progressToken":1,"progress":1}"#),
        r#"{"jsonrpc":"2.0","id":7,"result":{}}"#.to_owned(),
        question,
    ];
    for line in floods {
        let mut world = World::new();
        let loud = world.serve(Backend::builder("loud"), &server(), V2025_11_25);
        world.serve(Backend::builder("other"), &server(), V2025_11_25);
        let [one, other] = [(); 2].map(|()| world.client(&host(), V2025_11_25));
        let waiting = world.peer(other).call_tool("loud__wait", ()).expect("allowed");
        world.settle();
        for number in 0..2_000 {
            world.back(loud).send_server_line(&line.replace("ID", &number.to_string()));
            if number % 500 == 0 {
                world.settle();
                // The result waits for a changed list, at most for a time.
                let own = world.peer(one).call_tool("loud__answer", ()).expect("allowed");
                let foreign = world.peer(one).call_tool("other__answer", ()).expect("allowed");
                assert_eq!(world.wait(foreign).expect("a result").content[0].as_text(), Some("42"), "{line}");
                world.back(loud).advance(Duration::from_secs(5));
                assert_eq!(world.wait(own).expect("a result").content[0].as_text(), Some("42"), "{line}");
            }
        }
        world.settle();
        assert_eq!(world.servers[loud].backend.calls(), 1, "that of the other client: {line}");
        let transcript = world.clients[other].transcript().to_string();
        assert!(!transcript.contains("elicitation/create"), "{line}");
        drop(waiting);
        world.settle();
        assert_eq!(world.servers[loud].backend.calls(), 0, "{line}");
        world.clients[one].assert_idle();
        world.clients[other].assert_idle();
    }
}

#[test]
fn backend_that_ends_during_requests_leaves_no_state() {
    let asking = Host::builder("silent", "1.0.0")
        .elicitation_async(async |_: mcp_proto::schema::ElicitFormParams, context| {
            context.cancelled().await;
            Err::<mcp_proto::schema::ElicitResult, _>(CallError::Cancelled)
        })
        .build();
    let form: mcp_proto::schema::ElicitSchema = serde_json::from_str(FORM).expect("a form");
    let service = Service::builder("back", "1.0.0")
        .subscriptions()
        .resource(mcp_service::Resource::new("test://slow", "slow", || "text"))
        .layer(async |request: mcp_service::IncomingRequest, next: mcp_service::Next| {
            if request.method() == "resources/subscribe" {
                request.context().cancelled().await;
            }
            Ok(next.run().await)
        })
        .tool(Tool::new_async("ask", move |context: Context| {
            let form = form.clone();
            async move { context.elicit("Who?", form).await.map(|answer| answer.action.to_string()) }
        }))
        .build()
        .expect("a service");
    for front in [V2025_11_25, V2026_07_28] {
        let mut world = World::new();
        let dying = world.serve(Backend::builder("dying"), &service, V2025_11_25);
        world.serve(Backend::builder("other"), &server(), V2025_11_25);
        let [one, other] = [(); 2].map(|()| world.client(&asking, front));
        let call = world.peer(one).call_tool("dying__ask", ()).expect("allowed");
        world.settle();
        let subscribing =
            (front == V2025_11_25).then(|| world.peer(other).subscribe("dying+test://slow").expect("allowed"));
        let foreign = world.peer(other).call_tool("other__wait", ()).expect("allowed");
        world.settle();
        assert_eq!(world.servers[dying].backend.calls(), 1);
        world.servers[dying].connection = None;
        if let Some(subscribing) = subscribing {
            let error = world.wait(subscribing).expect_err("its server is gone");
            assert!(error.to_string().contains("dying"), "{error}");
            // A client of a session is asked until its call has ended.
            let error = world.wait(call).expect_err("its server is gone");
            assert_eq!(reason(&error).as_deref(), Some(r#"{"backend":"dying","reason":"closed"}"#), "{error}");
        } else {
            // Without a session the client has the question, and its next request would find no call.
            drop(call);
        }
        world.settle();
        assert_eq!(world.servers[dying].backend.calls(), 0, "{front:?}");
        assert_eq!(world.servers[1].backend.calls(), 1, "others go on");
        drop(foreign);
        world.settle();
        world.clients[one].assert_idle();
        world.clients[other].assert_idle();
    }
}

#[test]
fn a_slow_list_delays_neither_calls_nor_other_backends() {
    let service = Service::builder("back", "1.0.0")
        .tool(Tool::new("answer", || "42"))
        .layer(async |request: mcp_service::IncomingRequest, next: mcp_service::Next| {
            if request.method() == "prompts/list" {
                request.context().cancelled().await;
            }
            Ok(next.run().await)
        })
        .prompt(mcp_service::Prompt::new("slow", || "text"))
        .build()
        .expect("a service");
    let mut world = World::new();
    let slow = world.serve(Backend::builder("slow"), &service, V2025_11_25);
    world.serve(Backend::builder("other"), &server(), V2025_11_25);
    let client = world.client(&host(), V2025_11_25);
    let peer = world.peer(client);
    let result = world.wait(peer.call_tool("other__answer", ()).expect("allowed")).expect("a result");
    assert_eq!(result.content[0].as_text(), Some("42"));
    // The tools are there before the prompts are.
    let call = peer.call_tool("slow__answer", ()).expect("allowed");
    world.settle();
    world.back(slow).advance(Duration::from_secs(5));
    assert_eq!(world.wait(call).expect("a result").content[0].as_text(), Some("42"));
    // The list has an end.
    world.back(slow).advance(ProxyLimits::default().list_time);
    let error = world.wait(world.servers[slow].backend.ready()).expect_err("one list is missing");
    assert!(matches!(error.fault(), BackendFault::TimedOut), "{error}");
}

#[test]
fn one_client_cannot_take_all_slots() {
    let mut limits = ProxyLimits::default();
    limits.calls = 16;
    let mut world = World::new();
    world.serve(Backend::builder("back").limits(limits), &server(), V2026_07_28);
    let [greedy, other] = [(); 2].map(|()| world.client(&host(), V2025_11_25));
    let peer = world.peer(greedy);
    let calls: Vec<_> = (0..20).map(|_| peer.call_tool("back__wait", ()).expect("allowed")).collect();
    world.settle();
    assert_eq!(world.servers[0].backend.calls(), 14);
    let answer = world.wait(world.peer(other).call_tool("back__answer", ()).expect("allowed")).expect("a result");
    assert_eq!(answer.content[0].as_text(), Some("42"));
    // The others have failed at once.
    for call in calls.into_iter().skip(14) {
        let error = world.wait(call).expect_err("it has its share");
        assert_eq!(reason(&error).as_deref(), Some(r#"{"backend":"back","reason":"busy"}"#), "{error}");
    }
    world.settle();
    assert_eq!(world.servers[0].backend.calls(), 0);
}

#[test]
fn a_flood_of_log_messages_loses_no_response() {
    for front in [V2025_11_25, V2026_07_28] {
        let mut world = World::new();
        world.serve(Backend::builder("loud"), &server(), V2025_11_25);
        world.serve(Backend::builder("other"), &server(), V2025_11_25);
        let client = world.client(&host(), front);
        let peer = world.peer(client);
        let flood = peer.call_tool("loud__flood", ()).expect("allowed");
        let others: Vec<_> = (0..20).map(|_| peer.call_tool("other__answer", ()).expect("allowed")).collect();
        for other in others {
            assert_eq!(world.wait(other).expect("a result").content[0].as_text(), Some("42"));
        }
        assert_eq!(world.wait(flood).expect("a result").content[0].as_text(), Some("flooded"));
        world.clients[client].assert_idle();
    }
}

#[test]
fn long_lists_are_taken_over_and_longer_ones_are_not() {
    let many = |number: usize| {
        let builder = (0..number).fold(Service::builder("many", "1.0.0"), |builder, number| {
            builder.tool(Tool::new(format!("tool-{number}"), || "one of many"))
        });
        builder.build().expect("a service")
    };
    let mut world = World::new();
    let service = many(10_000);
    world.serve(Backend::builder("many"), &service, V2025_11_25);
    let client = world.client(&host(), V2025_11_25);
    let peer = world.peer(client);
    let tools = world.wait(peer.all_tools().try_collect()).expect("a list");
    assert_eq!((tools.len(), &*tools[0].name, &*tools[9999].name), (10_000, "many__tool-0", "many__tool-9999"));
    let result = world.wait(peer.call_tool("many__tool-9999", ()).expect("allowed")).expect("a result");
    assert_eq!(result.content[0].as_text(), Some("one of many"));

    let mut limits = ProxyLimits::default();
    limits.items = 100;
    let mut world = World::new();
    let long = world.serve(Backend::builder("long").limits(limits.clone()), &many(101), V2025_11_25);
    let error = world.servers[long].backend.error().expect("the list is too long");
    assert_eq!(
        error.to_string(),
        "the server \"long\" sent an invalid response: the result cannot be used: the list has too many items"
    );
    (limits.items, limits.list_bytes) = (20_000, 1000);
    let large = world.serve(Backend::builder("large").limits(limits), &many(101), V2025_11_25);
    let error = world.servers[large].backend.error().expect("the list is too large");
    assert!(error.to_string().contains("too large"), "{error}");
    let client = world.client(&host(), V2025_11_25);
    let peer = world.peer(client);
    assert_eq!(world.wait(peer.all_tools().try_collect()).expect("a list"), []);
}

#[test]
fn a_backend_that_connects_again_says_why_its_connection_ended() {
    let mut world = World::new();
    let back = world.serve(Backend::builder("back"), &server(), V2026_07_28);
    assert_eq!(world.servers[back].backend.error(), None);
    world.servers[back].waits.store(true, Ordering::SeqCst);
    world.servers[back].connection = None;
    world.settle();
    let error = world.servers[back].backend.error().expect("it is not connected");
    let expected = CloseReason::ConnectionLost.to_string();
    assert_eq!(error.fault(), &BackendFault::NotConnected(Some(expected)), "{error}");
}
