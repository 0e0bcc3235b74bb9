//! A backend that refuses requests to listen because of some of their resources, or ends subscriptions at once.

use std::{
    collections::BTreeSet,
    future::Future,
    ops::Deref,
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::{Context as TaskContext, Poll, Waker},
    time::Duration,
};

use mcp_proto::{
    connection::ClientRole,
    protocol::ProtocolVersion::{self, V2025_11_25, V2026_07_28},
    schema::{ResourceUpdatedParams, SubscriptionFilter},
};
use serde_json::{Value, json};

use super::{MAX_LISTENING, MAX_REFUSALS};
use crate::{
    Host, Peer, Resource, Service, Subscription, Tool,
    proxy::{Backend, ProxyLimits},
    testing::TestClient,
    util::lock::lock,
};

struct Link(Peer<ClientRole>);

impl Deref for Link {
    type Target = Peer<ClientRole>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// How the backend treats requests to listen.
#[derive(Default)]
struct Rules {
    /// The resources because of which it refuses a request.
    bad: BTreeSet<String>,
    /// The most resources that it accepts in one request.
    most: Option<usize>,
    /// The most resources that it acknowledges of one request.
    acknowledged: Option<usize>,
    /// Whether it ends each subscription with an error after it has acknowledged it.
    ends: bool,
    /// The resources of each request.
    requests: Vec<Vec<String>>,
}

impl Rules {
    /// Returns the lines that the server sends in response to a line, if it is not for the service.
    fn respond(&mut self, line: &str) -> Vec<String> {
        let request: Value = serde_json::from_str(line).expect("JSON");
        if request["method"] != "subscriptions/listen" {
            return Vec::new();
        }
        let (id, filter) = (&request["id"], &request["params"]["notifications"]);
        let uris = filter["resourceSubscriptions"].as_array().into_iter().flatten();
        let uris: Vec<_> = uris.map(|uri| uri.as_str().expect("a URI").to_owned()).collect();
        let is_refused =
            self.most.is_some_and(|most| uris.len() > most) || uris.iter().any(|uri| self.bad.contains(uri));
        let mut agreed = filter.clone();
        if let Some(uris) = agreed["resourceSubscriptions"].as_array_mut() {
            uris.truncate(self.acknowledged.unwrap_or(usize::MAX));
        }
        let is_of_lists = uris.is_empty();
        self.requests.push(uris);
        let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "no such resource"}});
        if is_refused {
            return vec![error.to_string()];
        }
        if !self.ends && (self.acknowledged.is_none() || is_of_lists) {
            return Vec::new();
        }
        let params = json!({"notifications": agreed, "_meta": {"io.modelcontextprotocol/subscriptionId": id}});
        let method = "notifications/subscriptions/acknowledged";
        let acknowledged = json!({"jsonrpc": "2.0", "method": method, "params": params});
        if self.ends { vec![acknowledged.to_string(), error.to_string()] } else { vec![acknowledged.to_string()] }
    }
}

struct World {
    run: Pin<Box<dyn Future<Output = ()>>>,
    next: Arc<Mutex<Option<Link>>>,
    backend: Backend,
    server: Service,
    back: TestClient,
    front: Service,
    clients: Vec<TestClient>,
    rules: Arc<Mutex<Rules>>,
    updated: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new() -> Self {
        let server = Service::builder("back", "1.0.0").subscriptions().tool(Tool::new("tool", || "text"));
        let server = server.resource(Resource::new("test://own", "own", || "text")).build().expect("a service");
        let front = Service::builder("front", "1.0.0").enable_backends().build().expect("a service");
        let backend = Backend::builder("back").join(&front).expect("a backend");
        let (next, rules) = (Arc::default(), Arc::default());
        let back = connect(&backend, &server, &rules, &next);
        let (running, links) = (backend.clone(), next.clone());
        let run = Box::pin(async move {
            let connect = || async { lock(&links).take().ok_or("given up") };
            let _ = running.run(connect).await;
        });
        let (clients, updated) = (Vec::new(), Arc::default());
        let mut world = Self { run, next, backend, server, back, front, clients, rules, updated };
        world.settle();
        world.take_requests();
        world
    }

    fn client(&mut self, version: ProtocolVersion) -> usize {
        let updated = self.updated.clone();
        let host = Host::builder("client", "1.0.0");
        let host = host.on(move |params: ResourceUpdatedParams, _| lock(&updated).push(params.uri)).build();
        self.clients.push(TestClient::of(&self.front).host(&host).version(version).connect());
        self.clients.len() - 1
    }

    fn reconnect(&mut self) {
        self.back = connect(&self.backend, &self.server, &self.rules, &self.next);
        self.settle();
    }

    /// Runs the proxy. Its backend reads nothing.
    fn poll(&mut self) {
        self.clients.iter().for_each(TestClient::settle);
        let _ = pin!(&mut self.run).poll(&mut TaskContext::from_waker(Waker::noop()));
    }

    fn settle(&mut self) {
        let (mut quiet, mut before) = (0, 0);
        while quiet < 3 {
            self.poll();
            self.back.settle();
            self.clients.iter().for_each(TestClient::settle);
            let after = self.clients.iter().chain([&self.back]).map(|it| it.transcript().lines().len()).sum();
            quiet = if after == before { quiet + 1 } else { 0 };
            before = after;
        }
    }

    fn advance(&mut self, time: Duration) {
        for _ in 0..time.as_secs() {
            self.back.advance(Duration::from_secs(1));
            self.settle();
        }
    }

    fn wait<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        for _ in 0..100 {
            self.settle();
            if let Poll::Ready(output) = future.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
                return output;
            }
        }
        panic!("nothing happens any more");
    }

    fn subscribe(&mut self, client: usize, name: &str) -> Result<(), String> {
        let subscribing = self.clients[client].server().subscribe(&format!("back+test://{name}")).expect("allowed");
        self.wait(subscribing).map(drop).map_err(|error| error.to_string())
    }

    fn listen(&mut self, client: usize, names: &[String]) -> (Subscription, Vec<String>) {
        let uris = names.iter().map(|name| format!("back+test://{name}")).collect();
        let filter = SubscriptionFilter { resource_subscriptions: Some(uris), ..SubscriptionFilter::default() };
        let listening = self.clients[client].server().listen(filter).expect("allowed");
        let subscription = self.wait(listening).expect("a subscription");
        let agreed = subscription.agreed().and_then(|agreed| agreed.resource_subscriptions).unwrap_or_default();
        (subscription, agreed)
    }

    fn refuse(&self, names: &[&str]) {
        lock(&self.rules).bad = names.iter().map(|name| format!("test://{name}")).collect();
    }

    /// Returns whether the backend notifies the proxy of a resource. It must not do so twice.
    fn is_notified(&self, name: &str) -> bool {
        let told = self.server.resource_updated(&format!("test://{name}"));
        assert!(told < 2, "{name}");
        told == 1
    }

    fn take_requests(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut lock(&self.rules).requests)
    }
}

fn connect(
    backend: &Backend,
    server: &Service,
    rules: &Arc<Mutex<Rules>>,
    next: &Arc<Mutex<Option<Link>>>,
) -> TestClient {
    let back = TestClient::of(server).host(backend.host()).version(V2026_07_28).connect();
    let rules = rules.clone();
    back.respond_with(Box::new(move |line| lock(&rules).respond(line)));
    *lock(next) = Some(Link(back.server()));
    back
}

fn uris(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("test://{name}")).collect()
}

fn names(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| format!("{number:03}")).collect()
}

#[test]
fn a_refused_resource_does_not_stop_the_others() {
    let mut world = World::new();
    let client = world.client(V2025_11_25);
    for name in ["a", "b", "c", "d"] {
        world.subscribe(client, name).expect("subscribed");
    }
    world.refuse(&["b"]);
    world.take_requests();
    world.reconnect();
    assert_eq!(["a", "b", "c", "d"].map(|name| world.is_notified(name)), [true, false, true, true]);
    assert!(world.take_requests().len() < 8);
    // Only the refused one is requested again, in growing intervals.
    world.advance(Duration::from_secs(60));
    let requests = world.take_requests();
    assert!(requests.iter().all(|uris| *uris == ["test://b"]) && (3..10).contains(&requests.len()), "{requests:?}");
    // A new one is not refused because of it, and replaces all others.
    world.subscribe(client, "e").expect("subscribed");
    assert_eq!(world.take_requests(), [uris(&["a", "c", "d", "e"])]);
    world.refuse(&[]);
    world.advance(ProxyLimits::default().list_time);
    assert!(["a", "b", "c", "d", "e"].iter().all(|name| world.is_notified(name)));
    world.take_requests();
    world.advance(Duration::from_secs(120));
    assert!(world.take_requests().is_empty(), "nothing is left to do");
}

#[test]
fn a_client_is_not_refused_because_of_another_one() {
    let mut world = World::new();
    let [one, other] = [(); 2].map(|()| world.client(V2025_11_25));
    world.refuse(&["bad"]);
    let good = world.clients[one].server().subscribe("back+test://good").expect("allowed");
    let bad = world.clients[other].server().subscribe("back+test://bad").expect("allowed");
    world.clients.iter().for_each(TestClient::settle);
    world.wait(good).expect("subscribed");
    let error = world.wait(bad).expect_err("it is refused").to_string();
    assert!(error.contains("no such resource"), "{error}");
    assert!(world.is_notified("good") && !world.is_notified("bad"));
    // Both were in one request.
    assert_eq!(world.take_requests()[0], ["test://bad", "test://good"]);
}

#[test]
fn the_acknowledgement_leaves_out_refused_resources() {
    let mut world = World::new();
    let client = world.client(V2026_07_28);
    world.refuse(&["007", "008", "042"]);
    let (_subscription, agreed) = world.listen(client, &names(0..64));
    let expected: Vec<_> = names(0..64).into_iter().filter(|name| !["007", "008", "042"].contains(&&**name)).collect();
    assert_eq!(agreed, expected.iter().map(|name| format!("back+test://{name}")).collect::<Vec<_>>());
    assert!(expected.iter().all(|name| world.is_notified(name)));
    let requests = world.take_requests().len();
    assert!(requests <= 40, "{requests}");
    // They are no longer requested.
    world.advance(Duration::from_secs(120));
    assert!(world.take_requests().is_empty());
}

#[test]
fn requests_after_refusals_are_bounded_and_come_to_an_end() {
    let mut world = World::new();
    let client = world.client(V2026_07_28);
    let all = names(0..100);
    let (_subscription, agreed) = world.listen(client, &all);
    assert_eq!((agreed.len(), world.take_requests().len()), (100, 1));
    let bad: Vec<_> = all[..99].iter().map(|name| &**name).collect();
    world.refuse(&bad);
    world.reconnect();
    let mut attempts = 0;
    loop {
        let requests = world.take_requests().len();
        assert!(requests <= 1 + 2 * (MAX_REFUSALS + MAX_LISTENING), "{requests}");
        attempts += usize::from(requests > 0);
        assert!(attempts < 16, "each attempt finds others");
        if world.is_notified("099") {
            break;
        }
        world.advance(Duration::from_secs(1));
    }
    assert!(attempts > 1);
    world.take_requests();
    world.refuse(&[]);
    world.advance(ProxyLimits::default().list_time);
    assert!(all.iter().all(|name| world.is_notified(name)));
    let requests = world.take_requests().len();
    assert!(requests <= 3, "{requests}");
}

#[test]
fn a_server_that_limits_a_request_gets_several() {
    let mut world = World::new();
    lock(&world.rules).most = Some(10);
    let client = world.client(V2026_07_28);
    let (subscription, agreed) = world.listen(client, &names(0..30));
    assert_eq!(agreed.len(), 30);
    world.take_requests();
    world.advance(Duration::from_secs(120));
    assert!(world.take_requests().is_empty());
    assert!(names(0..30).iter().all(|name| world.is_notified(name)));
    drop(subscription);
    world.settle();
    assert!(names(0..30).iter().all(|name| !world.is_notified(name)));
}

#[test]
fn a_resource_left_out_of_a_larger_request_is_kept() {
    let mut world = World::new();
    lock(&world.rules).acknowledged = Some(2);
    let client = world.client(V2025_11_25);
    for name in ["b", "c", "a"] {
        world.subscribe(client, name).expect("subscribed");
    }
    // The last request names all, and `c` stays in the one before.
    assert_eq!(world.take_requests(), [uris(&["b"]), uris(&["b", "c"]), uris(&["a", "b", "c"])]);
    world.advance(Duration::from_secs(120));
    assert!(world.take_requests().is_empty(), "nothing is lost");
}

#[test]
fn a_subscription_without_clients_ends_beside_others() {
    let mut world = World::new();
    lock(&world.rules).most = Some(1);
    let client = world.client(V2025_11_25);
    for name in ["a", "b", "c"] {
        world.subscribe(client, name).expect("subscribed");
    }
    let unsubscribing = world.clients[client].server().unsubscribe("back+test://b").expect("allowed");
    world.wait(unsubscribing).expect("unsubscribed");
    assert_eq!(["a", "b", "c"].map(|name| world.is_notified(name)), [true, false, true]);
    world.take_requests();
    world.advance(Duration::from_secs(120));
    assert!(world.take_requests().is_empty());
}

#[test]
fn requests_at_the_same_time_cover_no_resource_twice() {
    let mut world = World::new();
    let client = world.client(V2025_11_25);
    for name in ["a", "b"] {
        world.subscribe(client, name).expect("subscribed");
    }
    world.take_requests();
    let peer = world.clients[client].server();
    let begun = ["c", "d"].map(|name| {
        let subscribing = peer.subscribe(&format!("back+test://{name}")).expect("allowed");
        world.poll();
        subscribing
    });
    let unsubscribing = peer.unsubscribe("back+test://a").expect("allowed");
    world.poll();
    for subscribing in begun {
        world.wait(subscribing).expect("subscribed");
    }
    world.wait(unsubscribing).expect("unsubscribed");
    let [first, second, last] = &world.take_requests()[..] else { panic!("three requests") };
    assert_eq!((first, second), (&uris(&["a", "b", "c"]), &uris(&["d"])));
    assert_eq!(*last, uris(&["b", "c"]), "the end of the subscription to one waits");
    assert_eq!(["a", "b", "c", "d"].map(|name| world.is_notified(name)), [false, true, true, true]);
}

/// The pauses do not begin again because the server accepts an attempt that it ends at once.
#[test]
fn subscriptions_that_end_at_once_have_growing_pauses() {
    let mut world = World::new();
    let client = world.client(V2025_11_25);
    world.subscribe(client, "a").expect("subscribed");
    lock(&world.rules).ends = true;
    world.reconnect();
    world.take_requests();
    world.back.take_transcript();
    world.advance(Duration::from_secs(120));
    let (of_resources, of_lists): (Vec<_>, Vec<_>) =
        world.take_requests().into_iter().partition(|uris| !uris.is_empty());
    assert!((4..12).contains(&of_resources.len()), "{of_resources:?}");
    assert!((4..12).contains(&of_lists.len()), "{of_lists:?}");
    let lists = world.back.take_transcript().to_string().matches(r#""method":"tools/list""#).count();
    assert!((4..12).contains(&lists), "{lists}");
    // After a subscription that has lasted, the next pause is the first one.
    lock(&world.rules).ends = false;
    world.advance(ProxyLimits::default().list_time * 3);
    assert!(world.is_notified("a"));
    world.reconnect();
    assert!(world.is_notified("a"));
}

/// Changes in between may have been missed.
#[test]
fn clients_are_notified_of_resources_that_are_subscribed_again() {
    for version in [V2025_11_25, V2026_07_28] {
        let mut world = World::new();
        let client = world.client(version);
        let listen = |world: &mut World| match version {
            V2025_11_25 => world.subscribe(client, "a").map(|()| None).expect("subscribed"),
            _ => Some(world.listen(client, &["a".to_owned()]).0),
        };
        let _subscription = listen(&mut world);
        assert_eq!(*lock(&world.updated), [""; 0], "the first one misses nothing");
        world.reconnect();
        assert_eq!(std::mem::take(&mut *lock(&world.updated)), ["back+test://a"], "{version}");
        // Nothing is missed when a subscription to more resources replaces it.
        let other = world.client(V2025_11_25);
        world.subscribe(other, "b").expect("subscribed");
        assert_eq!(*lock(&world.updated), [""; 0]);
    }
}

/// Other clients come and go while a resource waits for its next attempt.
#[test]
fn changes_of_other_clients_do_not_put_off_an_attempt() {
    let mut world = World::new();
    let client = world.client(V2025_11_25);
    world.subscribe(client, "a").expect("subscribed");
    world.refuse(&["a"]);
    world.reconnect();
    world.refuse(&[]);
    for number in 0..20 {
        world.subscribe(client, &format!("other-{number}")).expect("subscribed");
        world.back.advance(Duration::from_millis(900));
        world.settle();
    }
    assert!(world.is_notified("a"));
}

/// The client requests it again by itself. What the server sends twice is no new subscription.
#[test]
fn clients_are_notified_of_another_acknowledgement() {
    let mut world = World::new();
    let client = world.client(V2025_11_25);
    world.back.take_transcript();
    world.subscribe(client, "a").expect("subscribed");
    let transcript = world.back.transcript();
    let mut lines = transcript.lines().iter().map(|line| line.text());
    let acknowledgement = lines.find(|line| line.contains("subscriptions/acknowledged")).expect("it is acknowledged");
    let acknowledged: Value = serde_json::from_str(acknowledgement).expect("JSON");
    for _ in 0..3 {
        world.back.send_server_line(&acknowledgement.replace("test://a", "test://b"));
        world.settle();
    }
    assert_eq!(*lock(&world.updated), [""; 0]);
    let meta = &acknowledged["params"]["_meta"];
    let id = &meta["io.modelcontextprotocol/subscriptionId"];
    let result = json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "_meta": meta}});
    world.back.send_server_line(&result.to_string());
    world.take_requests();
    world.advance(Duration::from_secs(1));
    assert_eq!(world.take_requests(), [["test://a"]]);
    assert_eq!(*lock(&world.updated), ["back+test://a"]);
}
