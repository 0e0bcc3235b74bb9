//! Tests of async clients and servers that are specific to smol.
// Pairs of Unix domain sockets are the transports.
#![cfg(unix)]

use std::os::unix::net::UnixStream;

use mcp_smol as adapter;
use mcp_smol::Transport;
use smol::{
    Async, Timer, block_on,
    future::{FutureExt, yield_now},
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
