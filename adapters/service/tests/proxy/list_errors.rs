//! Lists that a backend does not send.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_proto::{
    protocol::ProtocolVersion::{V2025_11_25, V2026_07_28},
    wire::ErrorObject,
};
use mcp_service::{
    Completed, Failure, Host, IncomingRequest, Next, Prompt, Resource, Service, Tool,
    proxy::{Backend, BackendFault, ProxyLimits},
};

use crate::world::World;

/// A server that responds to requests for a list with an error while the flag is set.
fn failing(method: &'static str, fails: &Arc<AtomicBool>, error: &ErrorObject) -> Service {
    let (fails, error) = (fails.clone(), error.clone());
    let fail = move |request: IncomingRequest, next: Next| {
        let failure = (request.method() == method && fails.load(Ordering::SeqCst)).then(|| Failure::rpc(error.clone()));
        async move {
            match failure {
                Some(failure) => Err(failure),
                None => Ok::<Completed, Failure>(next.run().await),
            }
        }
    };
    Service::builder("back", "1.0.0")
        .layer(fail)
        .tool(Tool::new("tool", || "text"))
        .prompt(Prompt::new("prompt", || "text"))
        .resource(Resource::new("test://a", "a", || "text"))
        .build()
        .expect("a service")
}

fn tools(world: &mut World) -> Vec<String> {
    let client = world.client(&Host::builder("test", "1.0.0").build(), V2025_11_25);
    let listing = world.peer(client).list_tools(None).expect("allowed");
    world.wait(listing).expect("a list").tools.into_iter().map(|tool| tool.name).collect()
}

#[test]
fn a_list_that_fails_is_reported_and_read_again() {
    for version in [V2025_11_25, V2026_07_28] {
        let fails = Arc::new(AtomicBool::new(true));
        let service = failing("tools/list", &fails, &ErrorObject::internal("not now"));
        let mut world = World::new();
        world.serve(Backend::builder("back"), &service, version);
        let backend = world.servers[0].backend.clone();
        let error = world.wait(backend.ready()).expect_err("a list has failed");
        assert!(matches!(error.fault(), BackendFault::Refused(why) if why.contains("not now")), "{error}");
        assert_eq!((tools(&mut world), backend.error()), (vec![], Some(error.clone())), "{version}");
        // A list that does not fail leaves the error.
        service.add(Prompt::new("new", || "text")).expect("it is new");
        world.settle();
        world.back(0).take_transcript();
        for _ in 0..60 {
            world.back(0).advance(Duration::from_secs(1));
            world.settle();
        }
        let transcript = world.back(0).take_transcript().to_string();
        assert!(transcript.contains(r#""method":"prompts/list""#), "{version}");
        assert_eq!(backend.error(), Some(error), "{version}");
        let attempts = transcript.matches(r#""method":"tools/list""#).count();
        assert!((3..10).contains(&attempts), "the pauses grow: {attempts}");
        fails.store(false, Ordering::SeqCst);
        world.back(0).advance(ProxyLimits::default().list_time);
        world.settle();
        assert_eq!((tools(&mut world), backend.error()), (vec!["back__tool".to_owned()], None), "{version}");
        // Nothing is left to do.
        world.back(0).take_transcript();
        world.back(0).advance(Duration::from_secs(600));
        world.settle();
        assert!(!world.back(0).take_transcript().to_string().contains("tools/list"), "{version}");
    }
}

/// Any item may have changed since the former connection, also if the lists are the same.
#[test]
fn a_list_that_fails_on_a_new_connection_is_notified_later() {
    let fails = Arc::new(AtomicBool::new(false));
    let service = failing("tools/list", &fails, &ErrorObject::internal("not now"));
    let mut world = World::new();
    world.serve(Backend::builder("back"), &service, V2025_11_25);
    let client = world.client(&Host::builder("test", "1.0.0").build(), V2025_11_25);
    fails.store(true, Ordering::SeqCst);
    world.connect(0, &service, V2025_11_25);
    world.settle();
    let is_notified = |world: &World| {
        let transcript = world.clients[client].take_transcript().to_string();
        ["tools", "prompts"].map(|list| transcript.contains(&format!("notifications/{list}/list_changed")))
    };
    assert_eq!(is_notified(&world), [false, true]);
    fails.store(false, Ordering::SeqCst);
    world.back(0).advance(Duration::from_secs(1));
    world.settle();
    assert_eq!(is_notified(&world), [true, false]);
}

#[test]
fn a_server_without_the_method_of_a_list_has_no_items_of_it() {
    let method = "resources/templates/list";
    let fails = Arc::new(AtomicBool::new(true));
    let service = failing(method, &fails, &ErrorObject::method_not_found(method));
    let mut world = World::new();
    world.serve(Backend::builder("back"), &service, V2025_11_25);
    let backend = world.servers[0].backend.clone();
    world.back(0).take_transcript();
    world.wait(backend.ready()).expect("the other lists are there");
    assert_eq!((backend.error(), tools(&mut world)), (None, vec!["back__tool".to_owned()]));
    world.back(0).advance(Duration::from_secs(600));
    world.settle();
    assert!(!world.back(0).transcript().to_string().contains(method), "it is not read again");
}
