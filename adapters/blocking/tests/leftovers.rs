//! Servers and clients over HTTP release all resources when they have ended. Threads and descriptors are counted for
//! the whole process, so this is one test.

use std::{
    fs,
    io::Write as _,
    net::TcpStream,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use mcp_blocking::{
    Client,
    http::{Endpoint, EndpointOptions, Listener, Policy, handle},
};
use mcp_driver::Watched;
use mcp_proto::{connection::Settings, protocol::VersionSet};
use mcp_service::{Context, Host, Service, Tool};

/// A timeout that no operation of a passing test reaches.
const LONG: Duration = Duration::from_secs(20);

/// Shorter than the 10 seconds after which idle threads end, so that the test detects threads that only time out.
const SOON: Duration = Duration::from_secs(8);

/// Returns the numbers of threads and descriptors of this process.
fn held() -> (usize, usize) {
    let count = |path| fs::read_dir(path).expect("Linux has it").count();
    (count("/proc/self/task"), count("/proc/self/fd"))
}

fn names() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux has it");
    tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok()).collect()
}

/// Waits until no more threads and descriptors are left than before. The system may take a moment to remove a thread.
fn nothing_is_left(before: (usize, usize), what: &str) {
    let start = Instant::now();
    loop {
        let now = held();
        if now.0 <= before.0 && now.1 <= before.1 {
            return;
        }
        assert!(start.elapsed() < SOON, "{what}: {now:?} of {before:?}: {:?}", names());
        thread::yield_now();
    }
}

/// A service with tools that wait, async and blocking, and the number of calls that wait.
fn service() -> (Service, Arc<Watched<usize>>) {
    let begun = Arc::new(Watched::new(0));
    let (one, other) = (begun.clone(), begun.clone());
    let mut settings = Settings::default();
    settings.limits.drain = Duration::from_millis(50);
    let service = Service::builder("web", "1")
        .settings(settings)
        .tool(Tool::new_async("hello", async || "good day"))
        .tool(Tool::new_async("wait", move |context: Context| {
            let begun = one.clone();
            async move {
                begun.update(|begun| *begun += 1);
                context.cancelled().await;
                "cancelled"
            }
        }))
        .tool(Tool::new("wait_on_a_thread", move |context: Context| {
            other.update(|begun| *begun += 1);
            context.cancelled().wait();
            "cancelled"
        }))
        .build()
        .expect("all names differ");
    (service, begun)
}

#[test]
fn servers_and_clients_release_resources() {
    let before = held();
    for versions in [VersionSet::ALL, VersionSet::LEGACY] {
        let host = Host::builder("test", "1").versions(versions).build();
        let (service, begun) = service();
        let listener = Listener::bind("127.0.0.1:0").expect("there is a port").with_http_sse();
        let (address, stop) = (listener.local_addr(), listener.stop_handle());
        let served = thread::spawn(move || listener.serve(&service));
        let connect = || Client::connect_http(&format!("http://{address}/mcp"), &host).expect("it serves");
        connect().close().into_result().expect("a good end");
        let with_server = held();

        // Clients that are closed, dropped, and dropped during a call.
        for round in 1..=3 {
            let clients: Vec<_> = (0..4).map(|_| connect()).collect();
            for client in &clients {
                client.call_tool("hello", ()).expect("it is sent").wait().expect("it is answered");
            }
            let calls: Vec<_> = (clients.iter())
                .flat_map(|client| ["wait", "wait_on_a_thread"].map(|tool| client.call_tool(tool, ())))
                .collect();
            assert!(begun.wait_until(LONG, |begun| *begun == 8 * round), "they all begin");
            match round {
                1 => clients.iter().for_each(|client| drop(client.close())),
                2 => drop(clients),
                _ => drop((calls, clients)),
            }
        }
        // The server may keep idle threads and connections for a while.
        let start = Instant::now();
        while held().1 > with_server.1 && start.elapsed() < LONG {
            thread::yield_now();
        }
        assert!(held().1 <= with_server.1, "connections are left: {:?}", names());

        // A server that stops during calls, while another connection has sent a part of a request.
        let client = connect();
        let calls = ["wait", "wait_on_a_thread"].map(|tool| client.call_tool(tool, ()).expect("it is sent"));
        assert!(begun.wait_until(LONG, |begun| *begun == 26), "they begin");
        let mut idle = TcpStream::connect(address).expect("it listens");
        idle.write_all(b"GET").expect("it reads");
        stop();
        served.join().expect("no panic").expect("it was told to");
        calls.into_iter().for_each(|call| drop(call.wait().expect_err("the server stops")));
        drop((client, idle));
        nothing_is_left(before, "a server");
    }

    // An endpoint that is dropped.
    let endpoint = Endpoint::new(&service().0, EndpointOptions::new(Policy::loopback())).expect("there are threads");
    let nothing = http::Request::put("/mcp").header("host", "localhost").body(std::io::empty()).expect("a request");
    assert_eq!(handle(&endpoint, nothing).status(), 405);
    drop(endpoint);
    nothing_is_left(before, "an endpoint");
}
