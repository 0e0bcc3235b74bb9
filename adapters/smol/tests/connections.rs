//! Tests of async clients and servers that are specific to smol.
// Pairs of Unix domain sockets are the transports.
#![cfg(unix)]

use std::{
    io,
    os::unix::net::UnixStream,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    thread::{self, ThreadId},
};

use mcp_smol as adapter;
use mcp_smol::{
    Client, DriverOptions, Server, Transport,
    mcp_service::{Host, Service, Tool},
};
use smol::{
    Async, Timer, block_on,
    future::{FutureExt, yield_now},
    io::AsyncWrite,
    net::unix,
};

use connections::{LONG, converse};

#[path = "../../tests/connections.rs"]
mod connections;

/// Fails the test, instead of hanging, if a future takes too long.
fn run<T>(future: impl Future<Output = T>) -> T {
    let late = async {
        Timer::after(LONG).await;
        panic!("it takes too long")
    };
    block_on(future.or(late))
}

#[test]
fn any_reader_and_writer() {
    run(async {
        let (left, right) = unix::UnixStream::pair().expect("there are sockets");
        converse((Transport::from_io(left.clone(), left), Transport::from_io(right.clone(), right))).await;
        let (left, right) = Async::<UnixStream>::pair().expect("there are sockets");
        converse((Transport::duplex(left), Transport::duplex(right))).await;
    });
}

/// A writer that records the threads which write.
struct RecordedWriter {
    stream: unix::UnixStream,
    threads: Arc<Mutex<Vec<ThreadId>>>,
}

impl AsyncWrite for RecordedWriter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.threads.lock().expect("no panic").push(thread::current().id());
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }
}

#[test]
fn request_is_written_on_the_thread_that_waits() {
    run(async {
        let service = Service::builder("test", "1.0.0").tool(Tool::new("greet", || "Hello")).build().expect("a tool");
        let (left, right) = unix::UnixStream::pair().expect("there are sockets");
        let threads = Arc::new(Mutex::new(Vec::new()));
        let writer = RecordedWriter { stream: left.clone(), threads: threads.clone() };
        let server = Server::start(&service, Transport::from_io(right.clone(), right), &DriverOptions::default())
            .expect("it runs");
        let host = Host::builder("test", "1.0.0").build();
        let client = Client::connect(Transport::from_io(left, writer), &host).await.expect("they agree");
        for _ in 0..100 {
            client.call_tool("greet", ()).expect("it is allowed").await.expect("a result");
        }
        // If this thread is late, another one writes.
        assert!(threads.lock().expect("no panic").contains(&thread::current().id()));
        client.close().await;
        server.wait().await;
    });
}
