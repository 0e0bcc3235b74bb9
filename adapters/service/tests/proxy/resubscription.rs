//! Subscriptions at a backend that it refuses, leaves out of its acknowledgement, or ends.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_proto::{
    protocol::ProtocolVersion::{self, V2025_11_25, V2026_07_28},
    schema::{SubscriptionFilter, TaskSupport},
};
use mcp_service::{
    Completed, Failure, Host, IncomingRequest, Next, Resource, Service, Subscription, Tool,
    proxy::{Backend, ProxyLimits},
    testing::{Side, TestClient},
};

use crate::world::World;

fn host() -> Host {
    Host::builder("test", "1.0.0").build()
}

fn resources(builder: mcp_service::ServiceBuilder) -> mcp_service::ServiceBuilder {
    ["a", "b"]
        .into_iter()
        .fold(builder, |builder, name| builder.resource(Resource::new(format!("test://{name}"), name, || "text")))
}

/// A server that refuses subscriptions while the flag is set.
fn refusing(refuses: &Arc<AtomicBool>) -> Service {
    let refuses = refuses.clone();
    let refuse = move |request: IncomingRequest, next: Next| {
        let is_refused = request.method() == "resources/subscribe" && refuses.load(Ordering::SeqCst);
        async move {
            match is_refused {
                true => Err(Failure::new("not now")),
                false => Ok::<Completed, Failure>(next.run().await),
            }
        }
    };
    resources(Service::builder("back", "1.0.0").subscriptions().layer(refuse)).build().expect("a service")
}

fn subscribe(world: &mut World, client: usize, uri: &str) -> Result<(), String> {
    let subscribing = world.peer(client).subscribe(uri).expect("allowed");
    world.wait(subscribing).map(drop).map_err(|error| error.to_string())
}

/// Takes all subscriptions that a server allows on one connection.
fn fill_subscriptions(back: &TestClient) -> Vec<Subscription> {
    let mut open = Vec::new();
    loop {
        let filter = SubscriptionFilter { tools_list_changed: Some(true), ..SubscriptionFilter::default() };
        match back.wait(back.server().listen(filter).expect("allowed")) {
            Ok(subscription) => open.push(subscription),
            Err(_) => return open,
        }
    }
}

fn advance(world: &mut World, time: Duration) {
    world.back(0).advance(time);
    world.settle();
}

/// Counts the requests of a method in one minute.
fn count_in_a_minute(world: &mut World, method: &str) -> usize {
    world.back(0).take_transcript();
    for _ in 0..60 {
        advance(world, Duration::from_secs(1));
    }
    world.back(0).take_transcript().to_string().matches(&format!(r#""method":"{method}""#)).count()
}

// req: M-SUBS-009
#[test]
fn a_resource_that_is_not_acknowledged_is_refused() {
    // Its acknowledgement has no resources.
    let service = resources(Service::builder("back", "1.0.0")).build().expect("a service");
    let mut world = World::new();
    world.serve(Backend::builder("back"), &service, V2026_07_28);
    let client = world.client(&host(), V2025_11_25);
    let error = subscribe(&mut world, client, "back+test://a").expect_err("it is not notified");
    assert!(error.contains("the server does not notify of changes of it"), "{error}");
    // It is not requested again: no client is subscribed to it.
    assert_eq!(count_in_a_minute(&mut world, "subscriptions/listen"), 0);
}

/// A server that refuses subscriptions to `test://b`.
fn without_b() -> Service {
    let refuse = async |request: IncomingRequest, next: Next| {
        if request.method() == "resources/subscribe" && request.name() == Some("test://b") {
            return Err(Failure::new("no"));
        }
        Ok::<Completed, Failure>(next.run().await)
    };
    resources(Service::builder("back", "1.0.0").subscriptions().layer(refuse)).build().expect("a service")
}

// req: M-SUBS-008 M-SUBS-028
#[test]
fn the_acknowledgement_has_what_the_backend_accepts() {
    for has_tasks in [false, true] {
        let service = without_b();
        let builder = resources(Service::builder("front", "1.0.0").enable_backends());
        let own = Tool::new("own", || "own").task_support(TaskSupport::Optional);
        let builder = if has_tasks { builder.tool(own) } else { builder };
        let mut world = World::with(builder.build().expect("a service"));
        world.serve(Backend::builder("back"), &service, V2025_11_25);
        let client = world.client(&host(), V2026_07_28);
        let listen = |world: &mut World, uris: &[&str]| {
            let uris = Some(uris.iter().map(|uri| (*uri).to_owned()).collect());
            let filter = SubscriptionFilter { resource_subscriptions: uris, ..SubscriptionFilter::default() };
            let listening = world.peer(client).listen(filter).expect("allowed");
            let subscription = world.wait(listening).expect("a subscription");
            let agreed = subscription.agreed().expect("it is active").resource_subscriptions;
            (subscription, agreed)
        };
        let (_first, agreed) = listen(&mut world, &["back+test://b", "back+test://a", "test://b"]);
        assert_eq!(agreed, Some(vec!["back+test://a".to_owned(), "test://b".to_owned()]), "{has_tasks}");
        assert_eq!(service.resource_updated("test://a"), 1);
        let (_second, agreed) = listen(&mut world, &["back+test://b"]);
        assert_eq!(agreed, Some(vec![]), "{has_tasks}");
        // Without its connection a backend notifies of nothing.
        world.servers[0].connection = None;
        world.settle();
        let (_third, agreed) = listen(&mut world, &["back+test://a", "test://a"]);
        assert_eq!(agreed, Some(vec!["test://a".to_owned()]), "{has_tasks}");
    }
}

/// Lets everything happen in a proxy in front of another one.
fn settle_both(world: &mut World, inner: &mut World) {
    for _ in 0..4 {
        world.settle();
        inner.settle();
    }
}

// req: M-SUBS-009
#[test]
fn a_part_that_is_not_acknowledged_is_refused() {
    // A proxy in front of a proxy, which leaves out what its own backend refuses.
    let service = without_b();
    let mut inner = World::new();
    let middle = inner.service.clone();
    inner.serve(Backend::builder("deep"), &service, V2025_11_25);
    let mut world = World::new();
    world.serve(Backend::builder("back"), &middle, V2026_07_28);
    let client = world.client(&host(), V2025_11_25);
    let [a, b] = ["a", "b"].map(|name| {
        let subscribing = world.peer(client).subscribe(&format!("back+deep+test://{name}")).expect("allowed");
        settle_both(&mut world, &mut inner);
        world.wait(subscribing)
    });
    a.expect("subscribed");
    let error = b.expect_err("it is not acknowledged").to_string();
    assert!(error.contains("the server does not notify of changes of it"), "{error}");
    assert_eq!((service.resource_updated("test://a"), service.resource_updated("test://b")), (1, 0));
}

#[test]
fn a_refused_resubscription_is_requested_again() {
    let refuses = Arc::new(AtomicBool::new(false));
    let service = refusing(&refuses);
    let mut world = World::new();
    world.serve(Backend::builder("back"), &service, V2025_11_25);
    let [one, other] = [(); 2].map(|()| world.client(&host(), V2025_11_25));
    subscribe(&mut world, one, "back+test://a").expect("subscribed");
    refuses.store(true, Ordering::SeqCst);
    world.connect(0, &service, V2025_11_25);
    world.settle();
    assert_eq!(service.resource_updated("test://a"), 0, "it is refused");
    // The client of a first subscription gets the error.
    subscribe(&mut world, other, "back+test://b").expect_err("it is refused");
    subscribe(&mut world, other, "back+test://a").expect_err("it is refused");
    let attempts = count_in_a_minute(&mut world, "resources/subscribe");
    assert!((3..10).contains(&attempts), "the pauses grow: {attempts}");
    refuses.store(false, Ordering::SeqCst);
    advance(&mut world, ProxyLimits::default().list_time);
    assert_eq!((service.resource_updated("test://a"), service.resource_updated("test://b")), (1, 0));
    assert_eq!(count_in_a_minute(&mut world, "resources/subscribe"), 0, "nothing is left to do");
}

#[test]
fn a_refused_request_to_listen_does_not_end_subscriptions() {
    let service = refusing(&Arc::default());
    let mut world = World::new();
    world.serve(Backend::builder("back"), &service, V2026_07_28);
    let client = world.client(&host(), V2025_11_25);
    for uri in ["back+test://a", "back+test://b"] {
        subscribe(&mut world, client, uri).expect("subscribed");
    }
    world.connect(0, &service, V2026_07_28);
    let open = fill_subscriptions(world.back(0));
    world.settle();
    assert_eq!(service.resource_updated("test://a"), 0, "it is refused");
    drop(open);
    advance(&mut world, Duration::from_secs(1));
    assert_eq!((service.resource_updated("test://a"), service.resource_updated("test://b")), (1, 1));
}

/// Ends the latest subscription of the proxy that names this, as the server does. Returns whether there is a new one
/// since the last call.
fn end_latest(world: &mut World, names: &str) -> bool {
    let transcript = world.back(0).take_transcript().from(Side::Client);
    let mut lines = transcript.lines().iter().map(|line| line.text());
    let latest = lines.rfind(|line| line.contains("subscriptions/listen") && line.contains(names));
    let Some(line) = latest else { return false };
    let request: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let id = &request["id"];
    let meta = format!(r#"{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
    let result = format!(r#"{{"resultType":"complete","_meta":{meta}}}"#);
    world.back(0).send_server_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
    world.settle();
    true
}

/// Ends a subscription again and again, until it is not requested any more in time for a resubscription.
fn end_all(world: &mut World, names: &str) -> usize {
    let mut ends = 0;
    while ends < 9 {
        assert!(end_latest(world, names), "it is requested again after {ends} ends");
        ends += 1;
        for _ in 0..40 {
            if ends < 9 && !world.back(0).transcript().to_string().contains("subscriptions/listen") {
                advance(world, Duration::from_secs(1));
            }
        }
    }
    ends
}

fn has_new_request(world: &World, names: &str) -> bool {
    let transcript = world.back(0).transcript().to_string();
    transcript.lines().any(|line| line.contains("subscriptions/listen") && line.contains(names))
}

#[test]
fn a_subscription_that_ends_too_often_is_requested_again() {
    let service = refusing(&Arc::default());
    let mut world = World::new();
    world.serve(Backend::builder("back"), &service, V2026_07_28);
    let client = world.client(&host(), V2025_11_25);
    subscribe(&mut world, client, "back+test://a").expect("subscribed");
    end_all(&mut world, "test://a");
    assert!(!has_new_request(&world, "test://a"), "the client has reached its limit");
    advance(&mut world, Duration::from_secs(1));
    assert!(has_new_request(&world, "test://a"));
    // The subscription is that of the new request.
    assert!(end_latest(&mut world, "test://a"));
    subscribe(&mut world, client, "back+test://b").expect("subscribed");
}

/// The next acknowledgement of the same subscription may have less than the first one.
#[test]
fn a_resource_lost_in_an_acknowledgement_is_requested() {
    let refuses = Arc::new(AtomicBool::new(false));
    let service = refusing(&refuses);
    let mut inner = World::new();
    let middle = inner.service.clone();
    inner.serve(Backend::builder("deep"), &service, V2025_11_25);
    let mut world = World::new();
    world.serve(Backend::builder("back"), &middle, V2026_07_28);
    let client = world.client(&host(), V2025_11_25);
    let subscribing = world.peer(client).subscribe("back+deep+test://a").expect("allowed");
    settle_both(&mut world, &mut inner);
    world.wait(subscribing).expect("subscribed");
    refuses.store(true, Ordering::SeqCst);
    inner.connect(0, &service, V2025_11_25);
    settle_both(&mut world, &mut inner);
    assert!(end_latest(&mut world, "test://a"));
    let acknowledged = |world: &World, uris: &str| {
        let transcript = world.back(0).transcript().to_string();
        let of_resources = |line: &&str| line.contains("acknowledged") && line.contains("resourceSubscriptions");
        transcript.lines().filter(of_resources).filter(|line| line.contains(uris)).count()
    };
    world.back(0).take_transcript();
    for _ in 0..3 {
        advance(&mut world, Duration::from_secs(1));
        settle_both(&mut world, &mut inner);
    }
    assert!(acknowledged(&world, r#""resourceSubscriptions":[]"#) > 0, "the inner backend refuses it");
    assert_eq!(acknowledged(&world, r#"["deep+test://a"]"#), 0);
    refuses.store(false, Ordering::SeqCst);
    for _ in 0..60 {
        advance(&mut world, Duration::from_secs(1));
        settle_both(&mut world, &mut inner);
    }
    assert_eq!(acknowledged(&world, r#"["deep+test://a"]"#), 1);
}

#[test]
fn lists_are_followed_after_too_many_ends() {
    let service = Service::builder("back", "1.0.0").tool(Tool::new("first", || "1")).build().expect("a service");
    let mut world = World::new();
    world.serve(Backend::builder("back"), &service, V2026_07_28);
    end_all(&mut world, "toolsListChanged");
    assert!(!has_new_request(&world, "toolsListChanged"), "the client has reached its limit");
    world.back(0).take_transcript();
    advance(&mut world, Duration::from_secs(1));
    assert!(has_new_request(&world, "toolsListChanged"));
    // A change in between is not missed.
    advance(&mut world, ProxyLimits::default().list_pause);
    world.back(0).transcript().assert_contains(r#""method":"tools/list""#);
}

/// Changes between the end of a subscription and its next acknowledgement are not notified.
#[test]
fn lists_are_read_again_after_one_end() {
    let service = Service::builder("back", "1.0.0").tool(Tool::new("first", || "1")).build().expect("a service");
    let mut world = World::new();
    world.serve(Backend::builder("back"), &service, V2026_07_28);
    assert!(end_latest(&mut world, "toolsListChanged"));
    assert!(!world.back(0).take_transcript().to_string().contains(r#""method":"tools/list""#));
    advance(&mut world, Duration::from_secs(5));
    assert!(has_new_request(&world, "toolsListChanged"));
    world.back(0).transcript().assert_contains(r#""method":"tools/list""#);
}

#[test]
fn lists_are_followed_after_a_refused_subscription() {
    for version in [V2025_11_25, V2026_07_28] {
        let service = Service::builder("back", "1.0.0").tool(Tool::new("first", || "1")).build().expect("a service");
        let mut world = World::new();
        world.serve(Backend::builder("back"), &service, version);
        world.connect(0, &service, version);
        let open = if version == V2026_07_28 { fill_subscriptions(world.back(0)) } else { Vec::new() };
        world.settle();
        drop(open);
        advance(&mut world, Duration::from_secs(1));
        service.add(Tool::new("new", || "new")).expect("it is new");
        world.settle();
        advance(&mut world, ProxyLimits::default().list_pause);
        advance(&mut world, ProxyLimits::default().list_pause);
        assert_eq!(tools(&mut world, version), ["back__first", "back__new"]);
    }
}

fn tools(world: &mut World, version: ProtocolVersion) -> Vec<String> {
    let client = world.client(&host(), version);
    let listing = world.peer(client).list_tools(None).expect("allowed");
    world.wait(listing).expect("a list").tools.into_iter().map(|tool| tool.name).collect()
}
