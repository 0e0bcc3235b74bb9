//! Subscriptions of clients to resources of a backend, and those of the proxy that they need.

use mcp_proto::{
    protocol::ProtocolVersion::{self, V2025_11_25, V2026_07_28},
    schema::{SubscriptionFilter, TaskSupport},
};
use mcp_service::{
    Completed, Context, Failure, Host, IncomingRequest, Next, Pending, Resource, Service, Subscription, Tool,
    proxy::{Backend, ProxyLimits},
};

use crate::world::{ERAS, World};

fn host() -> Host {
    Host::builder("test", "1.0.0").build()
}

/// Does not respond to subscriptions to `test://slow`.
async fn ignore_slow(request: IncomingRequest, next: Next) -> Result<Completed, Failure> {
    if request.method() == "resources/subscribe" && request.name() == Some("test://slow") {
        request.context().cancelled().await;
        return Err(Failure::new("cancelled"));
    }
    Ok(next.run().await)
}

fn server() -> Service {
    let numbers = (0..64).map(|number| number.to_string());
    ["slow", "a", "b"]
        .into_iter()
        .map(str::to_owned)
        .chain(numbers)
        .fold(Service::builder("back", "1.0.0").subscriptions().layer(ignore_slow), |builder, name| {
            builder.resource(Resource::new(format!("test://{name}"), &*name, || "text"))
        })
        .tool(Tool::new_async("wait", async |context: Context| {
            context.cancelled().await;
        }))
        .build()
        .expect("a service")
}

/// A subscription of a client, until it is dropped or ended.
enum Held {
    Session,
    Stateless(Subscription),
}

fn listen(world: &World, client: usize, uri: &str) -> Pending<Subscription> {
    let uris = Some(vec![uri.to_owned()]);
    let filter = SubscriptionFilter { resource_subscriptions: uris, ..SubscriptionFilter::default() };
    world.peer(client).listen(filter).expect("allowed")
}

fn subscribe(world: &mut World, client: usize, front: ProtocolVersion, uri: &str) -> Held {
    if front == V2025_11_25 {
        let subscribing = world.peer(client).subscribe(uri).expect("allowed");
        world.wait(subscribing).expect("subscribed");
        return Held::Session;
    }
    let listening = listen(world, client, uri);
    Held::Stateless(world.wait(listening).expect("a subscription"))
}

fn end(world: &mut World, client: usize, held: Held, uri: &str) {
    match held {
        Held::Session => {
            let ending = world.peer(client).unsubscribe(uri).expect("allowed");
            world.wait(ending).expect("unsubscribed");
        }
        Held::Stateless(subscription) => drop(subscription),
    }
    world.settle();
}

#[test]
fn unanswered_subscription_does_not_delay_others() {
    let service = server();
    let mut world = World::new();
    world.serve(Backend::builder("back"), &service, V2025_11_25);
    let [one, other] = [(); 2].map(|()| world.client(&host(), V2025_11_25));
    let slow = world.peer(one).subscribe("back+test://slow").expect("allowed");
    world.settle();
    // Another resource, and the same client.
    subscribe(&mut world, other, V2025_11_25, "back+test://a");
    subscribe(&mut world, one, V2025_11_25, "back+test://b");
    world.back(0).advance(ProxyLimits::default().list_pause);
    service.add(Tool::new("new", || "new")).expect("it is new");
    world.settle();
    let result = world.wait(world.peer(other).call_tool("back__new", ()).expect("allowed")).expect("a result");
    assert_eq!(result.content[0].as_text(), Some("new"));
    // It ends with the time of a request.
    world.back(0).advance(ProxyLimits::default().list_time);
    world.wait(slow).expect_err("the backend does not respond");
    assert_eq!((service.resource_updated("test://a"), service.resource_updated("test://slow")), (1, 0));
}

#[test]
fn unacknowledged_subscription_does_not_delay_others() {
    // A proxy in front of a proxy: the inner one acknowledges when its own backend has responded.
    let service = server();
    let mut inner = World::new();
    let middle = inner.service.clone();
    inner.serve(Backend::builder("deep"), &service, V2025_11_25);
    let mut world = World::new();
    world.serve(Backend::builder("back"), &middle, V2026_07_28);
    let [one, other] = [(); 2].map(|()| world.client(&host(), V2025_11_25));
    let slow = world.peer(one).subscribe("back+deep+test://slow").expect("allowed");
    let fast = world.peer(other).subscribe("back+deep+test://a").expect("allowed");
    let mut settle = |world: &mut World| {
        for _ in 0..4 {
            world.settle();
            inner.settle();
        }
    };
    world.clients[one].settle();
    settle(&mut world);
    settle(&mut world);
    world.wait(fast).expect("subscribed");
    middle.add(Tool::new("new", || "new")).expect("it is new");
    settle(&mut world);
    world.back(0).advance(ProxyLimits::default().list_pause);
    settle(&mut world);
    let result = world.wait(world.peer(other).call_tool("back__new", ()).expect("allowed")).expect("a result");
    assert_eq!(result.content[0].as_text(), Some("new"));
    assert_eq!(service.resource_updated("test://a"), 1);
    // A third resource joins those that the backend has acknowledged.
    let third = world.peer(other).subscribe("back+deep+test://b").expect("allowed");
    settle(&mut world);
    world.wait(third).expect("subscribed");
    assert_eq!((service.resource_updated("test://a"), service.resource_updated("test://b")), (1, 1));
    world.back(0).advance(ProxyLimits::default().list_time);
    settle(&mut world);
    world.wait(slow).expect_err("the backend does not acknowledge it");
}

#[test]
fn last_client_ends_the_subscription_at_the_backend() {
    for (front, back) in ERAS {
        let service = server();
        let mut world = World::new();
        world.serve(Backend::builder("back"), &service, back);
        let [one, other] = [(); 2].map(|()| world.client(&host(), front));
        let first = subscribe(&mut world, one, front, "back+test://a");
        let second = subscribe(&mut world, other, front, "back+test://a");
        let third = subscribe(&mut world, other, front, "back+test://b");
        assert_eq!((service.resource_updated("test://a"), service.resource_updated("test://b")), (1, 1));
        end(&mut world, one, first, "back+test://a");
        assert_eq!(service.resource_updated("test://a"), 1, "{front:?} {back:?}");
        end(&mut world, other, second, "back+test://a");
        assert_eq!(service.resource_updated("test://a"), 0, "{front:?} {back:?}");
        assert_eq!(service.resource_updated("test://b"), 1, "{front:?} {back:?}");
        // It can be made again, and ends with its client.
        let again = subscribe(&mut world, other, front, "back+test://a");
        assert_eq!(service.resource_updated("test://a"), 1, "{front:?} {back:?}");
        world.clients.truncate(1);
        world.settle();
        assert_eq!((service.resource_updated("test://a"), service.resource_updated("test://b")), (0, 0));
        drop((again, third));
    }
}

#[test]
fn subscription_cancelled_before_it_begins_leaves_no_state() {
    for front in [V2025_11_25, V2026_07_28] {
        let service = server();
        let mut world = World::new();
        world.serve(Backend::builder("back"), &service, V2025_11_25);
        let client = world.client(&host(), front);
        if front == V2025_11_25 {
            drop(world.peer(client).subscribe("back+test://a").expect("allowed"));
        } else {
            drop(listen(&world, client, "back+test://a"));
        }
        world.settle();
        let held = subscribe(&mut world, client, front, "back+test://a");
        assert_eq!(service.resource_updated("test://a"), 1);
        end(&mut world, client, held, "back+test://a");
        if front == V2025_11_25 {
            // A cancelled `resources/subscribe` may have been carried out: the client has to unsubscribe.
            let ending = world.peer(client).unsubscribe("back+test://a").expect("allowed");
            world.wait(ending).expect("unsubscribed");
        }
        assert_eq!(service.resource_updated("test://a"), 0, "{front:?}");
        world.clients[client].assert_idle();
    }
}

#[test]
fn a_slow_subscription_that_is_cancelled_frees_its_request() {
    let service = server();
    let mut world = World::new();
    world.serve(Backend::builder("back"), &service, V2025_11_25);
    let client = world.client(&host(), V2026_07_28);
    let slow = listen(&world, client, "back+test://slow");
    world.settle();
    drop(slow);
    world.settle();
    world.clients[client].assert_idle();
}

#[test]
fn a_subscription_to_tasks_and_resources_keeps_the_resources() {
    let service = server();
    for tasks in [true, false] {
        let builder = Service::builder("front", "1.0.0").enable_backends();
        let own = Tool::new("own", || "own").task_support(TaskSupport::Optional);
        let builder = if tasks { builder.tool(own) } else { builder };
        let mut world = World::with(builder.build().expect("a service"));
        world.serve(Backend::builder("back"), &service, V2025_11_25);
        let client = world.client(&host(), V2026_07_28);
        let filter = SubscriptionFilter {
            resource_subscriptions: Some(vec!["back+test://a".into()]),
            task_ids: Some(vec!["unknown".into()]),
            ..SubscriptionFilter::default()
        };
        let listening = world.peer(client).listen(filter).expect("allowed");
        let subscription = world.wait(listening).expect("a subscription");
        assert_eq!(service.resource_updated("test://a"), 1, "{tasks}");
        drop(subscription);
        world.settle();
        assert_eq!(service.resource_updated("test://a"), 0, "{tasks}");
    }
}

#[test]
fn one_client_cannot_take_all_subscriptions() {
    let mut limits = ProxyLimits::default();
    limits.subscriptions = 16;
    let mut world = World::new();
    world.serve(Backend::builder("back").limits(limits), &server(), V2025_11_25);
    let [one, other] = [(); 2].map(|()| world.client(&host(), V2025_11_25));
    let mut number = 0;
    let mut fill = |world: &mut World, client: usize| {
        (0..20)
            .filter(|_| {
                number += 1;
                let subscribing = world.peer(client).subscribe(&format!("back+test://{number}")).expect("allowed");
                world.wait(subscribing).is_ok()
            })
            .count()
    };
    assert_eq!((fill(&mut world, one), fill(&mut world, other)), (14, 2));
    // What ends is free for others.
    let ending = world.peer(one).unsubscribe("back+test://1").expect("allowed");
    world.wait(ending).expect("unsubscribed");
    assert_eq!(fill(&mut world, other), 1);
}
