//! Notifications of backends: changes of lists and resources, and log messages.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_proto::{
    protocol::ProtocolVersion::{self, V2025_11_25, V2026_07_28},
    schema::{LogMessageParams, LoggingLevel, ResourceUpdatedParams, SubscriptionFilter, ToolsListChangedParams},
    wire::Json,
};
use mcp_service::{
    CallError, Context, Failure, Host, Prompt, Resource, ResourceTemplate, Service, Tool,
    proxy::{Backend, ProxyLimits},
    testing::TestClient,
};

use crate::world::{ERAS, World};

type Heard = Arc<Mutex<Vec<String>>>;

fn host(heard: &Heard) -> Host {
    let [tools, resources, logs] = [heard.clone(), heard.clone(), heard.clone()];
    let note = |heard: &Heard, what: String| heard.lock().expect("no panic").push(what);
    Host::builder("test", "1.0.0")
        .on(move |_: ToolsListChangedParams, _| note(&tools, "tools".into()))
        .on(move |updated: ResourceUpdatedParams, _| note(&resources, updated.uri))
        .on(move |log: LogMessageParams, _| note(&logs, log.data.get().into()))
        .build()
}

fn take(heard: &Heard) -> Vec<String> {
    std::mem::take(&mut *heard.lock().expect("no panic"))
}

fn server() -> Service {
    Service::builder("back", "1.0.0")
        .subscriptions()
        .resource(Resource::new("test://a", "a", || "text"))
        .tool(Tool::new("touch", |context: Context| context.service().resource_updated("test://a").to_string()))
        .tool(Tool::new_async("log", async |context: Context| {
            context.log(LoggingLevel::Debug, None, "fine").await?;
            context.log(LoggingLevel::Warning, Some("own"), "bad").await?;
            Ok::<_, Failure>("logged")
        }))
        .build()
        .expect("a service")
}

fn subscribe(world: &mut World, client: usize, front: ProtocolVersion) -> Option<mcp_service::Subscription> {
    let peer = world.peer(client);
    if front == V2025_11_25 {
        world.wait(peer.subscribe("back+test://a").expect("allowed")).expect("subscribed");
        return None;
    }
    let uris = vec!["back+test://a".to_owned()];
    let filter = SubscriptionFilter {
        resource_subscriptions: Some(uris),
        tools_list_changed: Some(true),
        ..SubscriptionFilter::default()
    };
    Some(world.wait(peer.listen(filter).expect("allowed")).expect("a subscription"))
}

#[test]
fn changes_reach_the_clients_in_all_eras() {
    for (front, back) in ERAS {
        let (heard, service) = (Heard::default(), server());
        let mut world = World::new();
        world.serve(Backend::builder("back"), &service, back);
        let client = world.client(&host(&heard), front);
        let peer = world.peer(client);
        let subscription = subscribe(&mut world, client, front);
        // When the client has subscribed, the proxy has.
        world.wait(peer.call_tool("back__touch", ()).expect("allowed")).expect("a result");
        assert_eq!(take(&heard), ["back+test://a"], "{front:?} {back:?}");

        service.add(Tool::new("new", || "new")).expect("it is new");
        world.settle();
        world.back(0).advance(ProxyLimits::default().list_pause);
        world.settle();
        assert_eq!(take(&heard), ["tools"], "{front:?} {back:?}");
        let result = world.wait(peer.call_tool("back__new", ()).expect("allowed")).expect("a result");
        assert_eq!(result.content[0].as_text(), Some("new"));
        service.remove_tool("new");
        world.settle();
        world.back(0).advance(ProxyLimits::default().list_pause);
        world.settle();
        assert_eq!(take(&heard), ["tools"]);
        assert!(matches!(world.wait(peer.call_tool("back__new", ()).expect("allowed")), Err(CallError::Rpc(_))));

        // Without subscribers the backend is asked no longer, after the next change.
        match subscription {
            Some(subscription) => drop(subscription),
            None => drop(world.wait(peer.unsubscribe("back+test://a").expect("allowed"))),
        }
        world.settle();
        world.wait(peer.call_tool("back__touch", ()).expect("allowed")).expect("a result");
        let touched = world.wait(peer.call_tool("back__touch", ()).expect("allowed")).expect("a result");
        assert_eq!(touched.content[0].as_text(), Some("0"), "{front:?} {back:?}");
        assert_eq!(take(&heard), [""; 0]);
    }
}

#[test]
fn log_messages_reach_the_client_of_the_call_at_its_level() {
    for (front, back) in ERAS {
        let heard = Heard::default();
        let mut world = World::new();
        world.serve(Backend::builder("back"), &server(), back);
        let client = world.client(&host(&heard), front);
        let other = world.client(&host(&heard), front);
        for (level, expected) in
            [(LoggingLevel::Warning, &["\"bad\""][..]), (LoggingLevel::Debug, &["\"fine\"", "\"bad\""])]
        {
            let peer = match front {
                V2026_07_28 => world.peer(client).logging(level),
                _ => {
                    let set = world.peer(client).set_log_level(level).expect("allowed");
                    world.wait(set).expect("it is set");
                    world.peer(client)
                }
            };
            world.wait(peer.call_tool("back__log", ()).expect("allowed")).expect("a result");
            assert_eq!(take(&heard), expected, "{front:?} {back:?}");
        }
        assert!(!world.clients[other].transcript().to_string().contains("notifications/message"));
    }
}

const UPDATED: &str = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://a"}}"#;

#[test]
fn change_before_a_subscription_does_not_end_it() {
    let heard = Heard::default();
    let mut world = World::new();
    world.serve(Backend::builder("back"), &server(), V2025_11_25);
    let client = world.client(&host(&heard), V2025_11_25);
    let peer = world.peer(client);
    let subscribing = peer.subscribe("back+test://a").expect("allowed");
    // The request has arrived, and the proxy has not subscribed yet.
    world.clients[client].settle();
    world.back(0).send_server_line(UPDATED);
    world.wait(subscribing).expect("subscribed");
    world.wait(peer.call_tool("back__touch", ()).expect("allowed")).expect("a result");
    assert_eq!(take(&heard), ["back+test://a"]);
}

#[test]
fn a_subscriber_without_room_for_one_update_stays_one() {
    let heard = Heard::default();
    let mut world = World::new();
    world.serve(Backend::builder("back"), &server(), V2025_11_25);
    let client = world.client(&host(&heard), V2025_11_25);
    subscribe(&mut world, client, V2025_11_25);
    // The client does not read.
    let data = Json::new(&"x".repeat(100_000)).expect("JSON");
    let message = LogMessageParams::new(LoggingLevel::Error, data);
    let sent = (0..100_000).take_while(|_| world.service.broadcast(&message) > 0).count();
    assert!(sent < 100_000, "its outbox is full");
    assert_eq!(world.service.resource_updated("back+test://a"), 0);
    world.back(0).send_server_line(UPDATED);
    world.clients[client].settle();
    world.clients[client].take_transcript();
    take(&heard);
    let peer = world.peer(client);
    world.wait(peer.call_tool("back__touch", ()).expect("allowed")).expect("a result");
    assert_eq!(take(&heard), ["back+test://a"]);
}

#[test]
fn a_subscription_that_begins_is_not_given_up_for_another_one() {
    let mut limits = ProxyLimits::default();
    limits.subscriptions = 1;
    let heard = Heard::default();
    let mut world = World::new();
    world.serve(Backend::builder("back").limits(limits), &server(), V2025_11_25);
    let [one, other] = [(); 2].map(|()| world.client(&host(&heard), V2025_11_25));
    let first = world.peer(one).subscribe("back+test://a").expect("allowed");
    let second = world.peer(other).subscribe("back+test://b").expect("allowed");
    world.clients[one].settle();
    world.clients[other].settle();
    world.wait(first).expect("subscribed");
    let error = world.wait(second).expect_err("there is no room");
    assert!(error.to_string().contains("too many requests"), "{error}");
    let peer = world.peer(one);
    world.wait(peer.call_tool("back__touch", ()).expect("allowed")).expect("a result");
    assert_eq!(take(&heard), ["back+test://a"]);
}

/// Takes all subscriptions that the backend allows on one connection. Each change of those of the proxy needs another.
fn fill_subscriptions(world: &mut World) -> Vec<mcp_service::Subscription> {
    let mut open = Vec::new();
    loop {
        let filter = SubscriptionFilter { tools_list_changed: Some(true), ..SubscriptionFilter::default() };
        match world.wait(world.back(0).server().listen(filter).expect("allowed")) {
            Ok(subscription) => open.push(subscription),
            Err(_) => return open,
        }
    }
}

#[test]
fn a_refused_resource_does_not_end_the_subscriptions_of_others() {
    let heard = Heard::default();
    let mut world = World::new();
    world.serve(Backend::builder("back"), &server(), V2026_07_28);
    let [one, other, third] = [(); 3].map(|()| world.client(&host(&heard), V2025_11_25));
    subscribe(&mut world, one, V2025_11_25);
    let mut open = fill_subscriptions(&mut world);
    let peer = world.peer(other);
    world.wait(peer.subscribe("back+test://b").expect("allowed")).expect_err("the backend refuses it");
    // The one before is still there, also for others.
    subscribe(&mut world, third, V2025_11_25);
    world.wait(peer.call_tool("back__touch", ()).expect("allowed")).expect("a result");
    assert_eq!(take(&heard), ["back+test://a"; 2]);
    // Now there is room.
    open.clear();
    world.settle();
    world.wait(peer.subscribe("back+test://b").expect("allowed")).expect("subscribed");
    world.wait(peer.call_tool("back__touch", ()).expect("allowed")).expect("a result");
    assert_eq!(take(&heard), ["back+test://a"; 2]);
}

#[test]
fn released_resource_ends_after_a_failed_attempt() {
    let (heard, service) = (Heard::default(), server());
    let mut world = World::new();
    world.serve(Backend::builder("back"), &service, V2026_07_28);
    let client = world.client(&host(&heard), V2025_11_25);
    let peer = world.peer(client);
    for uri in ["back+test://a", "back+test://b"] {
        world.wait(peer.subscribe(uri).expect("allowed")).expect("subscribed");
    }
    let open = fill_subscriptions(&mut world);
    world.wait(peer.unsubscribe("back+test://b").expect("allowed")).expect("unsubscribed");
    // The backend has refused the subscription that would have replaced the one to both.
    assert_eq!(service.resource_updated("test://b"), 1);
    // The next attempts fail, too, and follow in growing intervals.
    world.back(0).take_transcript();
    for _ in 0..60 {
        world.back(0).advance(Duration::from_secs(1));
        world.settle();
    }
    let attempts = world.back(0).take_transcript().to_string().matches(r#""method":"subscriptions/listen""#).count();
    assert!((3..10).contains(&attempts), "{attempts}");
    drop(open);
    world.settle();
    world.back(0).advance(ProxyLimits::default().list_time);
    world.settle();
    assert_eq!((service.resource_updated("test://b"), service.resource_updated("test://a")), (0, 1));
    world.settle();
    assert_eq!(take(&heard), ["back+test://a"]);
    // Nothing is left to do.
    world.back(0).take_transcript();
    world.back(0).advance(Duration::from_secs(600));
    world.settle();
    assert!(!world.back(0).take_transcript().to_string().contains("subscriptions/listen"));
}

/// A log message without a call goes to a call of the client that has requested its level.
#[test]
fn a_log_message_is_for_a_call_that_wants_its_level() {
    let heard = Heard::default();
    let mut world = World::new();
    let sleep = Tool::new_async("sleep", async |context: Context| {
        context.sleep(Duration::from_secs(60)).await.map(|()| "slept")
    });
    let back = Service::builder("back", "1.0.0").tool(sleep).build().expect("a service");
    world.serve(Backend::builder("back"), &back, V2025_11_25);
    let client = world.client(&host(&heard), V2026_07_28);
    let calls = [LoggingLevel::Info, LoggingLevel::Error].map(|level| {
        let call = world.peer(client).logging(level).call_tool("back__sleep", ()).expect("allowed");
        world.settle();
        call
    });
    for (level, expected) in [("debug", 0), ("info", 1), ("notice", 1), ("warning", 1), ("error", 1), ("critical", 1)] {
        let params = format!(r#"{{"level":"{level}","data":"said"}}"#);
        let line = format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{params}}}"#);
        world.back(0).send_server_line(&line);
        world.settle();
        assert_eq!(take(&heard).len(), expected, "{level}");
    }
    drop(calls);
    world.settle();
}

/// A backend of 2026-07-28 is asked for the changes of the lists that it has.
#[test]
fn changes_of_a_single_kind_of_list_are_followed() {
    type Add = fn(&Service, &str);
    let tool: Add = |service, name| service.add(Tool::new(name, || "text")).expect("it is new");
    let prompt: Add = |service, name| service.add(Prompt::new(name, || "text")).expect("it is new");
    let resource: Add = |service, name| {
        service.add(Resource::new(format!("test://{name}"), name, || "text")).expect("it is new");
    };
    for (what, add) in [("tools", tool), ("prompts", prompt), ("resources", resource)] {
        let builder = Service::builder("back", "1.0.0");
        let builder = match what {
            "tools" => builder.enable_tools(),
            "prompts" => builder.enable_prompts(),
            _ => builder.enable_resources(),
        };
        let service = builder.build().expect("a service");
        add(&service, "first");
        let mut world = World::new();
        world.serve(Backend::builder("back"), &service, V2026_07_28);
        let client = world.client(&host(&Heard::default()), V2026_07_28);
        let peer = world.peer(client);
        let names = |world: &mut World| -> Vec<String> {
            match what {
                "tools" => {
                    let list = world.wait(peer.list_tools(None).expect("allowed")).expect("a list");
                    list.tools.into_iter().map(|tool| tool.name).collect()
                }
                "prompts" => {
                    let list = world.wait(peer.list_prompts(None).expect("allowed")).expect("a list");
                    list.prompts.into_iter().map(|prompt| prompt.name).collect()
                }
                _ => {
                    let list = world.wait(peer.list_resources(None).expect("allowed")).expect("a list");
                    list.resources.into_iter().map(|resource| resource.name).collect()
                }
            }
        };
        assert_eq!(names(&mut world).len(), 1, "{what}");
        add(&service, "second");
        world.settle();
        world.back(0).advance(ProxyLimits::default().list_pause);
        world.settle();
        let names = names(&mut world);
        assert!(names.len() == 2 && names[1].ends_with("second"), "{what}: {names:?}");
        let text = format!("{:?}", world.servers[0].backend);
        assert_eq!(text, "Backend { name: \"back\", calls: 0, .. }");
    }
}

/// A backend with sessions gets the least level that a client has requested.
#[test]
fn levels_of_sessions_reach_backends_with_sessions() {
    for (back, has_sessions) in [(V2025_11_25, true), (V2026_07_28, false)] {
        let mut world = World::new();
        world.serve(Backend::builder("back"), &server(), back);
        let client = world.client(&host(&Heard::default()), V2025_11_25);
        for (level, expected) in [
            (LoggingLevel::Warning, vec!["warning"]),
            (LoggingLevel::Error, vec!["warning"]),
            (LoggingLevel::Debug, vec!["warning", "debug"]),
            (LoggingLevel::Debug, vec!["warning", "debug"]),
        ] {
            let set = world.peer(client).set_log_level(level).expect("allowed");
            world.wait(set).expect("it is set");
            let transcript = world.back(0).transcript().to_string();
            let sent: Vec<_> = transcript.lines().filter(|line| line.contains("logging/setLevel")).collect();
            let expected = if has_sessions { expected } else { Vec::new() };
            assert_eq!(sent.len(), expected.len(), "{level:?} {sent:?}");
            assert!(sent.iter().zip(expected).all(|(line, level)| line.contains(level)), "{sent:?}");
        }
    }
}

#[test]
fn a_list_that_has_not_changed_notifies_no_client() {
    let (heard, service) = (Heard::default(), server());
    let mut world = World::new();
    world.serve(Backend::builder("back"), &service, V2025_11_25);
    world.client(&host(&heard), V2025_11_25);
    world.back(0).take_transcript();
    for changes in [false, true] {
        if changes {
            service.add(Tool::new("new", || "new")).expect("it is new");
        } else {
            world.back(0).send_server_line(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        }
        world.settle();
        world.back(0).advance(ProxyLimits::default().list_pause);
        world.settle();
        assert!(world.back(0).take_transcript().to_string().contains(r#""method":"tools/list""#));
        assert_eq!(take(&heard).len(), usize::from(changes));
    }
}

#[test]
fn a_client_of_a_parent_service_subscribes_at_the_backend() {
    for (front, back) in ERAS {
        let (heard, service) = (Heard::default(), server());
        let template = ResourceTemplate::new("test://{id}/b", "b", |_: serde_json::Value| "text");
        service.add(template).expect("it is new");
        let mut world = World::with(Service::builder("front", "1.0.0").enable_backends().build().expect("a service"));
        world.serve(Backend::builder("back"), &service, back);
        let whole = Service::builder("whole", "1.0.0").subscriptions().mount("p", &world.service);
        let whole = whole.build().expect("a service");
        world.clients.push(TestClient::of(&whole).host(&host(&heard)).version(front).connect());
        let peer = world.peer(0);
        for uri in ["test://a", "test://7/b"] {
            let whole_uri = format!("p+back+{uri}");
            let subscription = match front {
                V2025_11_25 => {
                    world.wait(peer.subscribe(&whole_uri).expect("allowed")).expect("subscribed");
                    None
                }
                _ => {
                    let uris = Some(vec![whole_uri.clone()]);
                    let filter = SubscriptionFilter { resource_subscriptions: uris, ..SubscriptionFilter::default() };
                    Some(world.wait(peer.listen(filter).expect("allowed")).expect("a subscription"))
                }
            };
            assert_eq!(service.resource_updated(uri), 1, "{front} {back} {uri}");
            world.settle();
            assert_eq!(take(&heard), [whole_uri], "{front} {back}");
            drop(subscription);
        }
    }
}
