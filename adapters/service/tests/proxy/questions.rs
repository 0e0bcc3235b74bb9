//! Requests of backends reach the client whose call they belong to, and no other.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use mcp_proto::{
    protocol::ProtocolVersion::{V2025_11_25, V2026_07_28},
    schema::{
        CreateMessageParams, CreateMessageResult, ElicitFormParams, ElicitResult, ElicitSchema, ElicitValue, Map, Role,
        Root, SamplingContent,
    },
};
use mcp_service::{CallError, Context, Failure, Host, Roots, Service, Tool, proxy::Backend};

use crate::world::{ERAS, World};

fn form() -> ElicitSchema {
    serde_json::from_str(r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}"#)
        .expect("a form")
}

/// A client whose user is called so.
fn host(user: &str) -> Host {
    let user = user.to_owned();
    let roots = Roots::new([Root::new(format!("file:///home/{user}"))]).expect("roots");
    let model = user.clone();
    Host::builder(user.clone(), "1.0.0")
        .roots(&roots)
        .elicitation(move |_: ElicitFormParams, _| {
            Ok::<_, Failure>(ElicitResult::accept(Map::from_iter([("name".to_owned(), ElicitValue::from(&*user))])))
        })
        .sampling(move |_: CreateMessageParams, _| {
            let poem = SamplingContent::text(format!("a poem by {model}"));
            Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, poem, "model"))
        })
        .build()
}

/// A server that asks, and counts how often its handler was called.
fn server(calls: &Arc<AtomicUsize>) -> Service {
    let calls = calls.clone();
    Service::builder("back", "1.0.0")
        .tool(Tool::new_async("greet", move |context: Context| {
            let calls = calls.clone();
            async move {
                calls.fetch_add(1, Ordering::SeqCst);
                let name = context.elicit("Who?", form()).await?;
                let name = format!("{:?}", name.content.and_then(|content| content.get("name").cloned()));
                let poem = context.sample_text("a poem", 10).await?;
                let again = context.elicit("Who else?", form()).await?.action;
                let roots = context.roots().await?;
                Ok::<_, Failure>(format!("{name}, {poem}, {again}, {}", roots[0].uri))
            }
        }))
        .tool(Tool::new_async("wait", async |context: Context| {
            context.cancelled().await;
        }))
        .build()
        .expect("a service")
}

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
    let own = world.peer(ada).call_tool("back__wait", ()).expect("allowed");
    let result = world.wait(world.peer(ada).call_tool("back__greet", ()).expect("allowed")).expect("a result");
    assert!(!result.is_error(), "{result:?}");
    drop(own);
    world.settle();
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
    let mut world = World::new();
    world.serve(Backend::builder("back"), &server(&Arc::default()), V2025_11_25);
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
    world.back(0).advance(std::time::Duration::from_secs(601));
    // The next call finds the expired one.
    let other = world.client(&host("ada"), V2026_07_28);
    let result = world.wait(world.peer(other).call_tool("back__greet", ()).expect("allowed")).expect("a result");
    assert!(!result.is_error(), "{result:?}");
    assert_eq!(world.servers[0].backend.calls(), 0);
    assert!(world.back(0).transcript().to_string().contains("notifications/cancelled"));
    world.back(0).assert_idle();
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
