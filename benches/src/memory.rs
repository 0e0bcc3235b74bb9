//! The memory of idle connections, requests, sessions and streams.

use std::any::Any;

use mcp_proto::{
    connection::{Event, RequestOptions},
    protocol::VersionSet,
    wire::{JsonObject, RawJson},
};

use crate::{Pair, Web, pair};

/// Creates this many objects. Returns their owner.
pub type Make = fn(usize) -> Box<dyn Any>;

/// Returns the cases: name, number of objects, and the function that creates them.
#[must_use]
pub fn cases() -> [(&'static str, usize, Make); 6] {
    [
        ("an idle server connection", 1_000_000, idle_servers),
        ("an idle client connection", 10_000, idle_clients),
        ("a request in flight, at the client", 10_000, |count| Box::new(with_requests(count).client)),
        ("a request in flight, at the server", 10_000, |count| Box::new(with_requests(count).server)),
        ("an HTTP session", 10_000, |count| sessions(count, false)),
        ("an HTTP session with an open stream", 10_000, |count| sessions(count, true)),
    ]
}

/// Server connections whose clients were dropped.
fn idle_servers(count: usize) -> Box<dyn Any> {
    let config = std::sync::Arc::new(pair::server(VersionSet::LEGACY));
    let client = std::sync::Arc::new(pair::client(VersionSet::LEGACY));
    let mut servers = Vec::with_capacity(count);
    servers.extend((0..count).map(|_| Pair::joining(client.clone(), config.clone()).server));
    Box::new(servers)
}

fn idle_clients(count: usize) -> Box<dyn Any> {
    let config = std::sync::Arc::new(pair::server(VersionSet::LEGACY));
    let client = std::sync::Arc::new(pair::client(VersionSet::LEGACY));
    let mut clients = Vec::with_capacity(count);
    clients.extend((0..count).map(|_| Pair::joining(client.clone(), config.clone()).client));
    Box::new(clients)
}

/// A client and a server with this many requests in flight, all of which have been sent.
fn with_requests(count: usize) -> Pair {
    let mut pair = Pair::new(VersionSet::LEGACY);
    let params = JsonObject::parse(r#"{"name":"echo"}"#).expect("an object");
    for _ in 0..count {
        pair.send_request(|client, now| {
            let params = RawJson::from(&params);
            client.request_raw(now, "tools/call", Some(&params), RequestOptions::default()).expect("it is allowed");
        });
        pair.up(|_, _, event| assert!(matches!(event, Event::Request { .. })));
    }
    pair
}

fn sessions(count: usize, streams: bool) -> Box<dyn Any> {
    let mut web = Web::new(VersionSet::LEGACY, false);
    (0..count).for_each(|_| web.begin(streams));
    Box::new(web.endpoint)
}
