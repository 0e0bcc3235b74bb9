//! Tests of async clients and servers that are specific to tokio.
// Pairs of Unix domain sockets are the transports.
#![cfg(unix)]

use mcp_proto::connection::CloseReason;
use mcp_service::CallError;
use mcp_tokio as adapter;
use mcp_tokio::{Client, DriverOptions, Error, Listener, Server, Transport};
use tokio::{
    net::{UnixStream, unix::pipe},
    runtime::{Builder, Runtime},
    task::yield_now,
    time::timeout,
};

use connections::{LONG, converse, host, joined, service};

#[path = "../../tests/connections.rs"]
mod connections;

fn on<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    runtime.block_on(async { timeout(LONG, future).await.expect("it takes too long") })
}

/// Fails the test, instead of hanging, if a future takes too long.
fn run<T>(future: impl Future<Output = T>) -> T {
    on(&Builder::new_current_thread().enable_all().build().expect("a runtime"), future)
}

fn with_a_worker() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

#[test]
fn any_reader_and_writer() {
    on(&with_a_worker(), async {
        let ((a, b), (c, d)) = (pipe::pipe().expect("a pipe"), pipe::pipe().expect("a pipe"));
        converse((Transport::from_io(b, c), Transport::from_io(d, a))).await;
        let (left, right) = UnixStream::pair().expect("there are sockets");
        converse((Transport::duplex(left), Transport::duplex(right))).await;
    });
}

#[test]
fn an_address_can_be_borrowed() {
    run(async {
        let address = "127.0.0.1:0".to_owned();
        let listener = Listener::tcp(&address).await.expect("there is a port");
        let address = listener.local_addr().expect("an address").to_string();
        drop(listener);
        assert!(matches!(Client::connect_tcp(&*address, &host()).await, Err(Error::Io(_))));
    });
}

#[test]
fn ended_runtime_fails_pending_calls() {
    let runtime = with_a_worker();
    let (client, server) = on(&runtime, joined(Transport::pair(100), &host()));
    let call = client.call_tool("wait", ()).expect("it is sent");
    let waiting = std::thread::spawn(move || call.wait());
    drop(runtime);
    assert!(matches!(waiting.join().expect("no panic"), Err(CallError::Closed(_))));
    assert!(matches!(client.close().wait().reason, CloseReason::TransportError(_)));
    server.close().wait();
    // Without a runtime there is no connection.
    let error =
        Server::start(&service(), Transport::pair(100).0, &DriverOptions::default()).expect_err("there is none");
    assert!(matches!(error, Error::Io(_)));
}
