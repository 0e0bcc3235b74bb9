//! Pages that a backend asks the users of clients to open, and their completion.

use std::sync::{Arc, Mutex};

use mcp_proto::{
    protocol::ProtocolVersion::{self, V2025_11_25, V2026_07_28},
    schema::{ElicitAction, ElicitUrlParams, ElicitationCompleteParams},
};
use mcp_service::{CallError, Context, Failure, Host, Service, Tool, UrlElicitation, proxy::Backend};

use crate::world::World;

/// The pages that a backend has opened.
type Opened = Arc<Mutex<Vec<UrlElicitation>>>;

/// The ids of the pages that a client was told of: opened ones, and completed ones.
#[derive(Clone, Default)]
struct Told {
    opened: Arc<Mutex<Vec<String>>>,
    completed: Arc<Mutex<Vec<String>>>,
}

impl Told {
    fn host(&self) -> Host {
        let Self { opened, completed } = self.clone();
        Host::builder("test", "1.0.0")
            .elicitation_url(move |page: ElicitUrlParams, _| {
                opened.lock().expect("no panic").extend(page.elicitation_id);
                Ok::<_, Failure>(ElicitAction::Accept)
            })
            .on(move |page: ElicitationCompleteParams, _| {
                completed.lock().expect("no panic").push(page.elicitation_id);
            })
            .build()
    }

    fn take_completed(&self) -> Vec<String> {
        std::mem::take(&mut *self.completed.lock().expect("no panic"))
    }
}

fn server(opened: &Opened) -> Service {
    let opened = opened.clone();
    Service::builder("back", "1.0.0")
        .tool(Tool::new_async("page", move |context: Context| {
            let opened = opened.clone();
            async move {
                let page = context.elicit_url("Sign in", "https://example.com/in").await?;
                let id = page.id().to_owned();
                opened.lock().expect("no panic").push(page);
                Ok::<_, CallError>(id)
            }
        }))
        .tool(Tool::new("required", |context: Context| {
            Err::<(), _>(context.url_elicitation_required([("Sign in", "https://example.com/in")]))
        }))
        .build()
        .expect("a service")
}

/// Opens a page for a client. Returns its id at the backend.
fn open(world: &mut World, client: usize) -> String {
    let result = world.wait(world.peer(client).call_tool("back__page", ()).expect("allowed")).expect("a result");
    assert!(!result.is_error(), "{result:?}");
    result.content[0].as_text().expect("an id").to_owned()
}

/// Completes the page with an id at the backend.
fn complete(world: &mut World, opened: &Opened, id: &str) {
    let page = {
        let mut opened = opened.lock().expect("no panic");
        let at = opened.iter().position(|page| page.id() == id).expect("it was opened");
        opened.remove(at)
    };
    page.complete().expect("allowed");
    world.settle();
}

fn with_clients<const N: usize>(opened: &Opened, version: ProtocolVersion) -> (World, [Told; N]) {
    let mut world = World::new();
    world.serve(Backend::builder("back"), &server(opened), version);
    let told: [Told; N] = std::array::from_fn(|_| Told::default());
    for told in &told {
        world.client(&told.host(), V2025_11_25);
    }
    (world, told)
}

#[test]
fn completed_pages_are_those_of_the_client() {
    let opened = Opened::default();
    let (mut world, [ada, bob]) = with_clients(&opened, V2025_11_25);
    let [first, second] = [(); 2].map(|()| open(&mut world, 0));
    let other = open(&mut world, 1);
    let of = |ids: &[&String]| ids.iter().map(|id| format!("back:{id}")).collect::<Vec<_>>();
    assert_eq!(*ada.opened.lock().expect("no panic"), of(&[&first, &second]));
    assert_eq!(*bob.opened.lock().expect("no panic"), of(&[&other]));
    for (id, of_ada, of_bob) in [(&second, &[&second][..], &[][..]), (&other, &[], &[&other]), (&first, &[&first], &[])]
    {
        complete(&mut world, &opened, id);
        assert_eq!((ada.take_completed(), bob.take_completed()), (of(of_ada), of(of_bob)));
    }
    // A page is completed once.
    let params = format!(r#"{{"elicitationId":"{first}"}}"#);
    let line = format!(r#"{{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{params}}}"#);
    world.clients[0].take_transcript();
    world.back(0).send_server_line(&line);
    world.settle();
    assert_eq!(world.clients[0].transcript().lines(), []);
}

#[test]
fn pages_of_a_backend_without_sessions_get_an_id() {
    let (mut world, [ada]) = with_clients(&Opened::default(), V2026_07_28);
    open(&mut world, 0);
    let opened = ada.opened.lock().expect("no panic").clone();
    assert!(matches!(&*opened, [id] if id.starts_with("back:") && id.len() > "back:".len()), "{opened:?}");
}

#[test]
fn pages_in_errors_are_completed_too() {
    let (mut world, [ada]) = with_clients(&Opened::default(), V2025_11_25);
    let error = world.wait(world.peer(0).call_tool("back__required", ()).expect("allowed")).expect_err("an error");
    let pages = error.url_elicitations().expect("pages");
    let id = pages[0].elicitation_id.clone().expect("an id");
    let own = id.strip_prefix("back:").expect("an id of the proxy");
    let params = format!(r#"{{"elicitationId":"{own}"}}"#);
    let line = format!(r#"{{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{params}}}"#);
    world.back(0).send_server_line(&line);
    world.settle();
    assert_eq!(ada.take_completed(), [id]);
}

/// A client that opens many pages loses its own, and others only where there is no room at all.
#[test]
fn the_number_of_open_pages_is_bounded() {
    let opened = Opened::default();
    let (mut world, [ada, bob, eve]) = with_clients(&opened, V2025_11_25);
    let of_ada = open(&mut world, 0);
    let of_bob: Vec<_> = (0..256).map(|_| open(&mut world, 1)).collect();
    complete(&mut world, &opened, &of_bob[0]);
    assert_eq!(bob.take_completed(), [""; 0], "it made room for the last one");
    complete(&mut world, &opened, &of_bob[1]);
    assert_eq!(bob.take_completed(), [format!("back:{}", of_bob[1])]);
    open(&mut world, 1);
    let of_eve = open(&mut world, 2);
    complete(&mut world, &opened, &of_ada);
    assert_eq!(ada.take_completed(), [""; 0], "it was the oldest of all");
    complete(&mut world, &opened, &of_eve);
    assert_eq!(eve.take_completed(), [format!("back:{of_eve}")]);
    complete(&mut world, &opened, &of_bob[2]);
    assert_eq!(bob.take_completed(), [format!("back:{}", of_bob[2])]);
}
