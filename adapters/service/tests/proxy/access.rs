//! Clients reach neither calls of others nor resources that are hidden from them.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use mcp_proto::{
    protocol::ProtocolVersion::{V2025_11_25, V2026_07_28},
    schema::{ElicitResult, ElicitSchema, decode_base64},
};
use mcp_service::{
    CallError, Context, Failure, Host, Resource, Service, Tool,
    proxy::{Backend, ProxyLimits},
    testing::Side,
};
use serde_json::{Value, json};

use crate::world::World;

/// Returns the response of the service to a request, and the request.
fn exchange(world: &World, client: usize, id: u64) -> (Value, Value) {
    let transcript = world.clients[client].transcript();
    let message = |side, is_it: &dyn Fn(&Value) -> bool| {
        let lines = transcript.from(side);
        let messages = lines.lines().iter().map(|line| serde_json::from_str(line.text()).expect("JSON"));
        messages.into_iter().find(|message: &Value| message["id"] == id && is_it(message)).expect("a message")
    };
    (message(Side::Server, &|_| true), message(Side::Client, &|message| message["method"] == "tools/call"))
}

#[test]
fn the_id_of_a_call_is_taken_only_from_the_state_of_a_request() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let form: ElicitSchema = serde_json::from_str(r#"{"type":"object","properties":{}}"#).expect("a form");
    let service = Service::builder("back", "1.0.0")
        .tool(Tool::new_async("ask", move |context: Context| {
            let (calls, form) = (counted.clone(), form.clone());
            async move {
                let number = calls.fetch_add(1, Ordering::SeqCst) + 1;
                context.elicit("Go on?", form).await?;
                Ok::<_, Failure>(format!("call {number}"))
            }
        }))
        .build()
        .expect("a service");
    let mut world = World::new();
    world.serve(Backend::builder("back"), &service, V2025_11_25);
    let silent = Host::builder("silent", "1.0.0")
        .elicitation_async(async |_, context| {
            context.cancelled().await;
            Err::<ElicitResult, _>(CallError::Cancelled)
        })
        .build();
    let [one, other] = [(); 2].map(|()| world.client(&silent, V2026_07_28));
    let _waiting = world.peer(one).call_tool("back__ask", ()).expect("allowed");
    world.settle();
    let id = {
        let transcript = world.clients[one].transcript();
        let requested =
            transcript.lines().iter().find(|line| line.text().contains("requestState")).expect("a question");
        let requested: Value = serde_json::from_str(requested.text()).expect("JSON");
        requested["id"].as_u64().expect("a number")
    };
    let (requested, mut request) = exchange(&world, one, id);
    let state = requested["result"]["requestState"].as_str().expect("a state").to_owned();
    let readable = decode_base64(&state).expect("base64");
    let readable = String::from_utf8_lossy(&readable[13..readable.len() - 32]).into_owned();
    let kept: Value = serde_json::from_str(&readable).expect("a readable state");
    let kept = &kept["io.modelcontextprotocol.proxy/call"];
    assert!(kept["id"].is_string(), "{readable}");

    // A request with the id, and without the state: a call of its own.
    let name = requested["result"]["inputRequests"]
        .as_object()
        .and_then(|requested| requested.keys().next())
        .expect("a question");
    request["id"] = json!(1000);
    request["params"]["inputResponses"] =
        json!({"io.modelcontextprotocol.proxy/call": kept, name: {"action": "accept", "content": {}}});
    world.clients[other].send_line(&request.to_string());
    world.settle();
    let (response, _) = exchange(&world, other, 1000);
    assert_ne!(response["result"]["content"][0]["text"], "call 1", "{response}");
    assert_eq!(calls.load(Ordering::SeqCst), 2, "{response}");

    // With the state it continues the call.
    request["params"]["requestState"] = json!(state);
    request["params"]["inputResponses"] = json!({name: {"action": "accept", "content": {}}});
    request["id"] = json!(1001);
    world.clients[one].send_line(&request.to_string());
    world.settle();
    let (response, _) = exchange(&world, one, 1001);
    assert_eq!(response["result"]["content"][0]["text"], "call 1", "{response}");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[test]
fn a_hidden_resource_that_is_not_listed_is_not_reached() {
    let server = ["secret", "open", "more"].iter().fold(Service::builder("back", "1.0.0"), |builder, name| {
        builder.resource(Resource::new(format!("test://{name}"), *name, || "contents"))
    });
    let server = server.build().expect("a service");
    // A list that is too long is not taken over.
    let mut limits = ProxyLimits::default();
    limits.items = 2;
    let hides: [fn(&str) -> bool; 3] = [
        |name| name.ends_with("test://secret"),
        |name| name.contains("test://") && !name.ends_with("test://open"),
        // The template of all unlisted resources.
        |name| name.ends_with("{+uri}"),
    ];
    for (hides, prefix) in hides.into_iter().flat_map(|hides| ["", "back"].map(|prefix| (hides, prefix))) {
        let service = Service::builder("front", "1.0.0")
            .enable_backends()
            .visible(move |item, _| !hides(item.name()))
            .build()
            .expect("a service");
        let mut world = World::with(service);
        let builder = Backend::builder("back").prefix(prefix).limits(limits.clone());
        let back = world.serve(builder, &server, V2026_07_28);
        assert!(world.servers[back].backend.error().is_some(), "the list is too long");
        let client = world.client(&Host::builder("test", "1.0.0").build(), V2026_07_28);
        let peer = world.peer(client);
        let uri = |name: &str| match prefix {
            "" => format!("test://{name}"),
            prefix => format!("{prefix}+test://{name}"),
        };
        // An alias of the same resource is hidden by a predicate that allows only what it knows.
        let hides_all = hides("{+uri}");
        let hidden = ["secret", "%73ecret", "open"].into_iter().filter(|name| hides_all || hides(&uri(name)));
        for name in hidden {
            let read = world.wait(peer.read_resource(&uri(name)).expect("allowed"));
            assert!(read.as_ref().is_err_and(|error| error.is_resource_not_found()), "{name} {read:?}");
        }
        assert!(!world.back(back).transcript().to_string().contains("resources/read"));
        if hides_all {
            continue;
        }
        let read = world.wait(peer.read_resource(&uri("open")).expect("allowed")).expect("contents");
        assert_eq!(read.contents[0].uri(), uri("open"));
    }
}
