//! Nothing is left of connections that have ended. Alone in its process, so that what is counted is its own.

use std::{
    fs,
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_proto::connection::Settings;
use mcp_service::{Context, Host, Service, Tool};
use mcp_smol::{Client, Options, Server, Transport};
use smol::{Async, Timer, block_on};

fn count(what: &str) -> usize {
    fs::read_dir(format!("/proc/self/{what}")).expect("Linux has it").count()
}

/// Counts the handlers whose futures are still there.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn no_handler_no_thread_and_no_descriptor_is_left() {
    let alive = Arc::new(AtomicUsize::new(0));
    let (waiting, stubborn) = (alive.clone(), alive.clone());
    let mut settings = Settings::default();
    settings.limits.drain = Duration::from_millis(10);
    let service = Service::builder("x", "1")
        .settings(settings)
        .tool(Tool::new_async("wait", move |context: Context| {
            let alive = Alive::new(&waiting);
            async move {
                let _alive = alive;
                context.cancelled().await;
            }
        }))
        .tool(Tool::new_async("stubborn", move || {
            let alive = Alive::new(&stubborn);
            async move {
                let _alive = alive;
                std::future::pending::<()>().await;
            }
        }))
        .build()
        .expect("all names differ");
    let host = Host::builder("x", "1").build();
    let mut before = (0, 0);
    for round in 0..41 {
        if round == 1 {
            // The threads that run tasks have begun with the first connection, and stay.
            before = (count("task"), count("fd"));
        }
        block_on(async {
            let (left, right) = match round % 2 {
                0 => Transport::pair(100),
                _ => {
                    let (left, right) = Async::<UnixStream>::pair().expect("there are sockets");
                    (Transport::unix(left), Transport::unix(right))
                }
            };
            let server = Server::start(&service, right, &Options::default()).expect("threads");
            let client = Client::over(left, &host).await.expect("it serves");
            // One that has to be dropped is enough.
            let tool = if round == 40 { "stubborn" } else { "wait" };
            let calls: Vec<_> = (0..20).map(|_| client.call_tool(tool, ()).expect("it is sent")).collect();
            while alive.load(Ordering::SeqCst) < 20 {
                Timer::after(Duration::from_millis(1)).await;
            }
            // Each way to end comes up.
            let (client_end, server_end) = (client.wait(), server.wait());
            match round % 4 {
                0 => drop(client),
                1 => drop(server),
                2 => drop(client.close()),
                _ => drop(server.close()),
            }
            client_end.await;
            server_end.await;
            drop(calls);
        });
        assert_eq!(alive.load(Ordering::SeqCst), 0, "round {round}");
    }
    assert_eq!((count("task"), count("fd")), before);
}
