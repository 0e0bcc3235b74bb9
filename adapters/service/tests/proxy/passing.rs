//! Items, arguments, results and errors pass as they are.

use mcp_proto::{
    protocol::ProtocolVersion::{V2025_11_25, V2026_07_28},
    schema::{CallToolResult, CompletionReference, PromptReference, ResourceTemplateReference},
    wire::{ErrorCode, ErrorObject, Json, JsonObject},
};
use mcp_service::{
    CallError, CompletionRequest, Context, Failure, Host, Prompt, RegisterError, Resource, ResourceTemplate, Service,
    Tool, proxy::Backend, testing::TestClient,
};
use serde_json::{Value, json};

use crate::world::{ERAS, World};

fn host() -> Host {
    Host::builder("test", "1.0.0").build()
}

/// A server with one item of each kind, and with members that no revision knows.
pub(crate) fn server() -> Service {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}},"x-own":[1.50,{}]}"#;
    let result = r#"{"content":[{"type":"text","text":"a","x":1.0},{"type":"resource_link","uri":"test://a","name":"a"},
        {"type":"resource","resource":{"uri":"test://b","text":"b"}}],"structuredContent":{"n":1e3},
        "_meta":{"com.example/own":[]},"x-other":null}"#;
    let result: CallToolResult = serde_json::from_str(result).expect("a result");
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Topic {
        topic: String,
    }
    #[derive(serde::Deserialize)]
    struct Id {
        id: String,
    }
    Service::builder("back", "2.0.0")
        .tool(
            Tool::with_schema("whole", JsonObject::parse(schema).expect("a schema"), move || result.clone())
                .description("Everything")
                .about(|tool| {
                    tool.extra.insert("x-own", Json::parse("[1.0]").expect("JSON"));
                    tool.execution = None;
                }),
        )
        .tool(Tool::with_schema("echo", JsonObject::parse(r#"{"type":"object"}"#).expect("a schema"), |all: Value| all))
        .tool(Tool::new("meta", |context: Context| context.meta().map_or_else(String::new, |meta| format!("{meta:?}"))))
        .tool(Tool::new("refuse", || {
            let data = Json::parse(r#"{"why":1.0}"#).expect("JSON");
            Err::<(), _>(Failure::rpc(ErrorObject::new(ErrorCode(-31_000), "no").with_data(data)))
        }))
        .tool(Tool::new("fail", || Err::<(), _>(Failure::new("it failed"))))
        .prompt(Prompt::new("ask", |topic: Topic| format!("About {}?", topic.topic)).complete(
            "topic",
            |request: CompletionRequest| {
                let known: Vec<_> = request.known.iter().map(|(name, value)| format!("{name}={value}")).collect();
                vec![format!("{}!{}", request.value, known.join(","))]
            },
        ))
        .resource(Resource::new("test://a", "a", || "text").mime_type("text/plain"))
        .template(
            ResourceTemplate::new("test://{id}/data", "data", |id: Id| id.id)
                .complete("id", |_: CompletionRequest| vec!["1".to_owned(), "2".to_owned()]),
        )
        .build()
        .expect("a service")
}

#[test]
fn items_and_results_pass_without_loss_in_all_eras() {
    for (front, back) in ERAS {
        let mut world = World::new();
        world.serve(Backend::builder("back"), &server(), back);
        let client = world.client(&host(), front);
        let peer = world.peer(client);
        let tools = world.wait(peer.list_tools(None).expect("allowed")).expect("a list").tools;
        let names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["back__whole", "back__echo", "back__meta", "back__refuse", "back__fail"]);
        assert!(tools[0].input_schema.get().contains(r#""x-own":[1.50,{}]"#), "{:?}", tools[0]);
        assert_eq!(tools[0].extra.get("x-own").map(|json| json.get().to_owned()).as_deref(), Some("[1.0]"));

        let result = world.wait(peer.call_tool("back__whole", json!({"n": 1})).expect("allowed")).expect("a result");
        let text = serde_json::to_string(&mcp_proto::schema::At(&result, None)).expect("JSON");
        for part in [
            r#""text":"a","x":1.0"#,
            r#""uri":"back+test://a""#,
            r#""uri":"back+test://b""#,
            r#""structuredContent":{"n":1e3}"#,
            r#""com.example/own":[]"#,
            r#""x-other":null"#,
        ] {
            assert!(text.contains(part), "{part} {text}");
        }
        // The implementation that the result names is that of the service in front.
        assert!(!text.contains("\"back\""), "{text}");

        let echoed = world.wait(peer.call_tool("back__echo", json!({"a": [1.5, null]})).expect("allowed"));
        let content = echoed.expect("a result").structured_content.expect("structured content");
        assert_eq!(content.get(), r#"{"a":[1.5,null]}"#);

        let refused = world.wait(peer.call_tool("back__refuse", ()).expect("allowed")).expect_err("it is refused");
        let error = refused.rpc().expect("an error of the server");
        assert_eq!((error.code, &*error.message), (ErrorCode(-31_000), "no"));
        assert_eq!(error.data.as_ref().map(Json::get), Some(r#"{"why":1.0}"#));
        let failed = world.wait(peer.call_tool("back__fail", ()).expect("allowed")).expect("a result");
        assert!(failed.is_error() && failed.content[0].as_text() == Some("it failed"));

        let prompt = world.wait(peer.get_prompt("back__ask", json!({"topic": "x"})).expect("allowed"));
        assert_eq!(prompt.expect("a prompt").messages[0].content.as_text(), Some("About x?"));
        let read = world.wait(peer.read_resource("back+test://a").expect("allowed")).expect("contents");
        assert_eq!(read.contents[0].uri(), "back+test://a");
        let read = world.wait(peer.read_resource("back+test://7/data").expect("allowed")).expect("contents");
        assert_eq!(read.contents[0].uri(), "back+test://7/data");
        let missing = world.wait(peer.read_resource("back+test://none").expect("allowed")).expect_err("there is none");
        let data = missing.rpc().and_then(|error| error.data.as_ref()).map(|data| data.get().to_owned());
        assert!(missing.is_resource_not_found(), "{missing}");
        assert_eq!(data.as_deref(), Some(r#"{"uri":"back+test://none"}"#));

        let reference: CompletionReference = PromptReference::new("back__ask").into();
        let completed = world.wait(peer.complete(reference, "topic", "v", ()).expect("allowed")).expect("proposals");
        assert_eq!(completed.completion.values, ["v!"]);
        let reference = PromptReference::new("back__ask");
        let known = serde_json::json!({"language": "en"});
        let completed = world.wait(peer.complete(reference, "topic", "v", known).expect("allowed")).expect("proposals");
        assert_eq!(completed.completion.values, ["v!language=en"]);
        let reference: CompletionReference = ResourceTemplateReference::new("back+test://{id}/data").into();
        let completed = world.wait(peer.complete(reference, "id", "", ()).expect("allowed")).expect("proposals");
        assert_eq!(completed.completion.values, ["1", "2"]);
        for test in world.clients.iter().chain([world.back(0)]) {
            assert!(!test.transcript().to_string().contains("-32603"), "{}", test.transcript());
        }
        world.clients[client].assert_idle();
    }
}

#[test]
fn progress_and_cancellation_pass() {
    let server = Service::builder("back", "1.0.0")
        .tool(Tool::new_async("work", async |context: Context| {
            for step in 1..=3 {
                context.progress(f64::from(step), Some(3.0), Some("step")).await?;
            }
            Ok::<_, Failure>("done")
        }))
        .tool(Tool::new_async("wait", async |context: Context| {
            context.cancelled().await;
            "cancelled"
        }))
        .build()
        .expect("a service");
    for (front, back) in ERAS {
        let mut world = World::new();
        world.serve(Backend::builder("back").prefix(""), &server, back);
        let client = world.client(&host(), front);
        let peer = world.peer(client);
        let (sent, got) = std::sync::mpsc::channel();
        let call = peer.call_tool("work", ()).expect("allowed");
        let call = call.on_progress(move |progress| sent.send(progress.progress).expect("it is open"));
        let result = world.wait(call).expect("a result");
        assert_eq!(result.content[0].as_text(), Some("done"));
        assert_eq!(got.try_iter().collect::<Vec<_>>(), [1.0, 2.0, 3.0]);

        let call = peer.call_tool("wait", ()).expect("allowed");
        world.settle();
        assert_eq!(world.servers[0].backend.calls(), 1);
        call.cancel(Some("enough"));
        assert_eq!(world.wait(call), Err(CallError::Cancelled));
        assert_eq!(world.servers[0].backend.calls(), 0);
        let transcript = world.back(0).transcript().to_string();
        assert!(transcript.contains("notifications/cancelled") && transcript.contains("enough"), "{transcript}");
        world.assert_idle(0, back);

        // A client that disconnects cancels all of its calls.
        let pending = peer.call_tool("wait", ()).expect("allowed");
        world.settle();
        assert_eq!(world.servers[0].backend.calls(), 1);
        world.clients.clear();
        world.settle();
        assert!(matches!(world.wait(pending), Err(CallError::Closed(_))));
        assert_eq!(world.servers[0].backend.calls(), 0);
        world.assert_idle(0, back);
    }
}

#[test]
fn metadata_of_the_connection_does_not_pass() {
    for (front, back) in ERAS {
        let mut world = World::new();
        world.serve(Backend::builder("back").prefix(""), &server(), back);
        let client = world.client(&host(), front);
        let mut params = mcp_proto::schema::CallToolParams::new("meta");
        let mut meta = mcp_proto::schema::Meta::new();
        meta.insert("com.example/own", Json::parse("\"kept\"").expect("JSON")).expect("a key");
        params.meta = Some(meta);
        let peer = world.peer(client);
        let result = world.wait(peer.request(&params).expect("allowed")).expect("a result");
        let text = result.content[0].as_text().expect("a text").to_owned();
        assert!(text.contains(r#""com.example/own": "kept""#), "{text}");
        // A client of 2026-07-28 is named; that is the proxy.
        assert!(!text.contains("\"test\""), "{text}");
    }
}

#[test]
fn names_that_collide_are_refused() {
    let mut world = World::new();
    world.serve(Backend::builder("a").prefix(""), &server(), V2026_07_28);
    let b = world.serve(Backend::builder("b").prefix(""), &server(), V2026_07_28);
    let refused = world.servers[b].backend.refused();
    assert_eq!(refused.len(), 8, "{refused:?}");
    assert!(refused.contains(&RegisterError::Taken("echo".into())), "{refused:?}");
    let join = |name: &str, prefix: &str| Backend::builder(name).prefix(prefix).join(&world.service).map(drop);
    assert_eq!(join("c", "c_d"), Ok(()));
    assert_eq!(join("d", "C-D"), Err(RegisterError::Taken("C-D".into())));
    assert_eq!(join("c", "other"), Err(RegisterError::Taken("c".into())));
    assert_eq!(join("e", "c__d"), Err(RegisterError::Prefix("c__d".into())));
    // An item of the first one that is removed makes no place by itself: the lists are read again first.
    world.servers[0].backend.remove();
    assert_eq!(join("f", ""), Ok(()));
}

#[test]
fn prefixes_of_names_are_valid() {
    for (name, prefix) in [("files", "files"), ("My Files", "My-Files"), ("a__b_", "a_b"), ("1", "s-1"), ("é", "s--")]
    {
        assert_eq!(Backend::prefix_of(name), prefix);
        let service = Service::builder("front", "1.0.0").build().expect("a service");
        assert_eq!(Backend::builder(name).join(&service).expect("a backend").name(), name);
    }
}

#[test]
fn a_hidden_resource_is_not_reached_as_an_unlisted_one() {
    let service = Service::builder("front", "1.0.0")
        .enable_backends()
        .visible(|item, _| !item.name().ends_with("test://a") && !item.name().contains("{id}"))
        .build()
        .expect("a service");
    for prefix in ["", "back"] {
        let mut world = World::with(service.clone());
        let back = world.serve(Backend::builder("back").prefix(prefix), &server(), V2026_07_28);
        let client = world.client(&host(), V2026_07_28);
        let peer = world.peer(client);
        for uri in ["test://a", "test://7/data"] {
            let uri = if prefix.is_empty() { uri.to_owned() } else { format!("{prefix}+{uri}") };
            let read = world.wait(peer.read_resource(&uri).expect("allowed"));
            assert!(read.is_err_and(|error| error.is_resource_not_found()), "{uri}");
        }
        assert!(!world.back(back).transcript().to_string().contains("resources/read"));
        world.servers[back].backend.remove();
    }
}

#[test]
fn a_failed_mount_leaves_nothing_behind() {
    let mut world = World::new();
    let back = world.serve(Backend::builder("back"), &server(), V2026_07_28);
    let part = world.service.clone();
    part.add(Tool::new("own", || "part")).expect("it is new");
    let whole = Service::builder("whole", "1.0.0")
        .tool(Tool::new("p__own", || "whole"))
        .resource(Resource::new("own://a", "a", || "a"))
        .build()
        .expect("a service");
    world.clients.push(TestClient::of(&whole).version(V2025_11_25).connect());
    let peer = world.peer(0);
    assert_eq!(whole.mount("p", &part), Err(RegisterError::Taken("p__own".into())));
    for uri in ["p+back+test://a", "p+back+test://x"] {
        let read = world.wait(peer.read_resource(uri).expect("allowed"));
        assert!(read.as_ref().is_err_and(|error| error.is_resource_not_found()), "{uri}: {read:?}");
    }
    let transcript = world.clients[0].transcript().to_string();
    assert!(!transcript.contains("list_changed"), "{transcript}");
    assert!(!world.back(back).transcript().to_string().contains("resources/read"));
    // The prefix is free again, and the part does not update the service.
    part.add(Tool::new("later", || "part")).expect("it is new");
    world.settle();
    assert!(!world.clients[0].transcript().to_string().contains("list_changed"));
    assert!(whole.remove_tool("p__own"));
    assert_eq!(whole.mount("p", &part), Ok(()));
    world.settle();
    assert!(world.clients[0].transcript().to_string().contains("notifications/resources/list_changed"));
    let read = world.wait(peer.read_resource("p+back+test://a").expect("allowed")).expect("contents");
    assert_eq!(read.contents[0].uri(), "p+back+test://a");
}

#[test]
fn parent_service_reaches_unlisted_resources_of_a_backend() {
    let mut world = World::new();
    let whole = Service::builder("whole", "1.0.0").enable_resources().mount("p", &world.service);
    let whole = whole.build().expect("a service");
    world.clients.push(TestClient::of(&whole).version(V2025_11_25).connect());
    let peer = world.peer(0);
    // Its lists are empty, so none of them changes.
    let empty = Service::builder("back", "1.0.0").enable_resources().build().expect("a service");
    world.serve(Backend::builder("back"), &empty, V2026_07_28);
    for is_there in [true, false] {
        world.back(0).take_transcript();
        let read = world.wait(peer.read_resource("p+back+test://a").expect("allowed"));
        assert!(read.is_err_and(|error| error.is_resource_not_found()));
        assert_eq!(world.back(0).transcript().to_string().contains("resources/read"), is_there);
        world.servers[0].backend.remove();
    }
}

#[test]
fn unlisted_resources_of_parts_do_not_replace_each_other() {
    let [mut world, mut other] = [World::new(), World::new()];
    let whole = Service::builder("whole", "1.0.0").enable_resources();
    let whole = whole.mount("p", &world.service).mount("q", &other.service).build().expect("a service");
    world.clients.push(TestClient::of(&whole).version(V2025_11_25).connect());
    let peer = world.peer(0);
    let empty = || Service::builder("back", "1.0.0").enable_resources().build().expect("a service");
    world.serve(Backend::builder("back"), &empty(), V2026_07_28);
    let mut is_reached = |uri: &str| {
        world.back(0).take_transcript();
        let read = world.wait(peer.read_resource(uri).expect("allowed"));
        assert!(read.is_err_and(|error| error.is_resource_not_found()));
        world.back(0).transcript().to_string().contains("resources/read")
    };
    assert!(is_reached("p+back+test://a"));
    other.serve(Backend::builder("back"), &empty(), V2026_07_28);
    assert!(is_reached("p+back+test://a"));
    other.servers[0].backend.remove();
    assert!(is_reached("p+back+test://a"));
}
