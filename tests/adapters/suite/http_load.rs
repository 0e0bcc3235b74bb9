//! Many calls over HTTP, and the resources that are left afterwards. Other tests of HTTP are in `adapters/tests`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use mcp_driver::{Error, StopHandle};
use mcp_proto::{
    connection::{ResourceUsage, SendError, Settings},
    protocol::VersionSet,
};
use mcp_service::{CallError, Context, Host, Service, Tool};
use serde_json::json;

use crate::{
    adapter::{Adapter, Client, Listener},
    load::{Present, Resources, alone, until},
    scenario::scenarios,
};

scenarios![
    a_hundred_threads_share_one_http_client,
    calls_over_the_exchange_limit_are_answered,
    timed_out_http_calls_are_cancelled,
    // A16
    closed_http_clients_and_servers_leak_nothing,
];

const ERAS: [VersionSet; 2] = [VersionSet::ALL, VersionSet::LEGACY];

fn host(versions: VersionSet) -> Host {
    Host::builder("x", "1").versions(versions).build()
}

/// Returns a service, and the number of its running handlers.
fn service() -> (Service, Arc<AtomicUsize>) {
    let mut settings = Settings::default();
    settings.limits.drain = Duration::from_millis(50);
    let present = Arc::new(AtomicUsize::new(0));
    let (waiting, blocking) = (present.clone(), present.clone());
    let wait = move |context: Context| {
        let present = Present::new(&waiting);
        async move {
            let _present = present;
            context.cancelled().await;
        }
    };
    let block = move |context: Context| {
        let _present = Present::new(&blocking);
        context.cancelled().wait();
    };
    let service = Service::builder("x", "1")
        .settings(settings)
        .tool(Tool::new_async("echo", async |echo: Echo| echo.number.to_string()))
        .tool(Tool::new_async("wait", wait))
        .tool(Tool::new("wait_on_a_thread", block))
        .build();
    (service.expect("all names differ"), present)
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    number: u64,
}

/// A server that runs on a thread.
struct Served {
    url: String,
    stop: StopHandle,
    thread: JoinHandle<Result<(), Error>>,
}

impl Served {
    fn new<A: Adapter>(service: &Service) -> Self {
        let listener = A::listen_http();
        let address = listener.address().expect("it is one of TCP");
        let (stop, service) = (listener.stop_handle(), service.clone());
        let thread = thread::spawn(move || listener.serve(&service));
        Self { url: format!("http://{address}/mcp"), stop, thread }
    }

    fn stop(self) {
        (self.stop)();
        self.thread.join().expect("no panic").expect("it was told to");
    }
}

fn a_hundred_threads_share_one_http_client<A: Adapter>() {
    let (service, _) = service();
    let server = Served::new::<A>(&service);
    for versions in ERAS {
        let client = A::connect_http(&server.url, &host(versions)).expect("it serves");
        thread::scope(|scope| {
            for thread in 0..100 {
                let client = &client;
                scope.spawn(move || {
                    for round in 0..5 {
                        let number = thread * 100 + round;
                        let call = client.call_tool("echo", json!({ "number": number })).expect("it is sent");
                        let result = call.wait().expect("it is answered");
                        assert_eq!(result.content[0].as_text(), Some(&*number.to_string()));
                    }
                });
            }
        });
        assert_eq!(client.connection().update(|connection, _| connection.usage()).calls, 0);
        assert!(client.close().reason.is_clean());
    }
    server.stop();
}

fn calls_over_the_exchange_limit_are_answered<A: Adapter>() {
    let (service, _) = service();
    let server = Served::new::<A>(&service);
    for versions in ERAS {
        let client = A::connect_http(&server.url, &host(versions)).expect("it serves");
        let call = |number| loop {
            match client.call_tool("echo", json!({ "number": number })) {
                Ok(call) => break call,
                Err(SendError::Busy) => client.wait_for_request_slot().wait(),
                Err(error) => panic!("{error}"),
            }
        };
        let calls: Vec<_> = (0..1000).map(call).collect();
        for (number, call) in calls.into_iter().enumerate() {
            let result = call.wait().expect("it is answered");
            assert_eq!(result.content[0].as_text(), Some(&*number.to_string()));
        }
        assert!(client.close().reason.is_clean());
    }
    server.stop();
}

fn timed_out_http_calls_are_cancelled<A: Adapter>() {
    let (service, present) = service();
    let server = Served::new::<A>(&service);
    for versions in ERAS {
        let client = A::connect_http(&server.url, &host(versions)).expect("it serves");
        for tool in ["wait", "wait_on_a_thread"] {
            let hurried = client.within(Duration::from_millis(200));
            let call = hurried.call_tool(tool, ()).expect("it is sent");
            assert!(matches!(call.wait(), Err(CallError::TimedOut { total: true })));
            until(|| present.load(Ordering::SeqCst) == 0);
        }
        assert!(client.close().reason.is_clean());
    }
    server.stop();
}

fn closed_http_clients_and_servers_leak_nothing<A: Adapter>() {
    alone::<A>("http_load");
}

/// The role in which clients and servers end in every possible way, while handlers run.
pub(crate) fn leftovers<A: Adapter>() {
    let (service, present) = service();
    let mut before = None;
    for round in 0..12 {
        let server = Served::new::<A>(&service);
        let clients = ERAS.map(|versions| A::connect_http(&server.url, &host(versions)).expect("it serves"));
        let tool = if round % 2 == 0 { "wait" } else { "wait_on_a_thread" };
        let call = |client: &A::Client| client.call_tool(tool, ()).expect("it is sent");
        let calls: Vec<_> = clients.iter().flat_map(|client| (0..10).map(|_| call(client))).collect();
        until(|| present.load(Ordering::SeqCst) == 20);
        match round % 3 {
            0 => {
                drop(calls);
                for client in &clients {
                    client.close();
                    assert_eq!(
                        client.connection().update(|connection, _| connection.usage()),
                        ResourceUsage::default()
                    );
                }
                server.stop();
            }
            1 => {
                drop(clients);
                for call in calls {
                    call.wait().expect_err("no answer");
                }
                server.stop();
            }
            _ => {
                server.stop();
                for call in calls {
                    call.wait().expect_err("no answer");
                }
                clients.iter().for_each(|client| _ = client.close());
            }
        }
        until(|| present.load(Ordering::SeqCst) == 0);
        match before {
            // The runtime has started all of its threads.
            None if round == 5 => before = Some(Resources::of::<A>()),
            None => {}
            Some(before) => before.expect::<A>(),
        }
    }
}
