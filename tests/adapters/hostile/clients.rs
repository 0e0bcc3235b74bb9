//! Clients under attack.

use std::{collections::VecDeque, os::unix::net::UnixStream, time::Duration};

use mcp_proto::{
    connection::Settings,
    protocol::{ProtocolVersion, Role, VersionSet},
    schema::{CreateMessageParams, CreateMessageResult, Role as Speaker, SamplingContent},
    wire::{Json, RawJson},
};
use mcp_service::{Failure, Host, Peer as Asking, Pending, Roots, Service};
use mcp_tests::hostile::HostilePeer;
use serde_json::json;

use crate::{
    LONG,
    adapter::{Adapter, Client},
    meter::Meter,
    options,
    peer::Peer,
    servers::{is_greeting, service},
    settings,
};

/// The number of rounds of requests, and their timeout.
const ROUNDS: usize = 12;
const PATIENCE: Duration = Duration::from_millis(30);

/// The handshake timeout for the hostile server.
const HANDSHAKE: Duration = Duration::from_millis(500);

/// The maximum number of requests that wait at the same time.
const AT_ONCE: usize = 30;

/// Checks that the host can use another server.
fn is_served<A: Adapter>(host: &Host, service: &Service) {
    let (left, right) = A::pair(4096);
    let server = A::serve(service, right);
    let client = A::connect(left, host).expect("it serves");
    is_greeting(client.call_tool("hello", ()).expect("it is asked").wait().expect("it answers"));
    client.close();
    drop(server);
}

/// Sends requests, and drops those that time out or are too many.
fn send_request(server: &Asking<mcp_proto::connection::ClientRole>) {
    let server = server.within(PATIENCE);
    let input_requests = [
        ("tools/call", json!({"name": "t", "task": {"ttl": 1000}})),
        ("tools/list", json!({})),
        ("resources/read", json!({"uri": "test://a"})),
        (
            "subscriptions/listen",
            json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["test://a"]}}),
        ),
        ("tools/call", json!({"name": "t"})),
    ];
    let input_requests = input_requests.map(|(method, params)| (method, Json::new(&params).expect("it is JSON")));
    let mut open: VecDeque<(Pending<RawJson<'static>>, &str)> = VecDeque::new();
    for _ in 0..ROUNDS {
        for (method, params) in &input_requests {
            // The connection may not be ready, or full, or closed.
            let Ok(requested) = server.request_raw(method, Some(&RawJson::from(params))) else { continue };
            open.push_back((requested, *method));
        }
        while open.len() > AT_ONCE {
            let Some((oldest, method)) = open.pop_front() else { break };
            // A subscription lasts until the server ends it. Some other responses are not awaited either.
            if method != "subscriptions/listen" && !open.len().is_multiple_of(3) {
                let _ = oldest.wait();
            }
        }
    }
}

pub(crate) fn attacked<A: Adapter>(hostile: HostilePeer, version: ProtocolVersion) {
    let settings = settings(version);
    let limits = settings.limits.clone();
    let good = service(settings.clone());
    let roots = Roots::new([]).expect("none of them is wrong");
    // The same host with different timeouts.
    let host = |patience| {
        Host::builder("victim", "1")
            .settings(Settings { handshake_timeout: patience, probe_timeout: patience, ..settings.clone() })
            .versions(VersionSet::only(version))
            .sampling(|_: CreateMessageParams, _| {
                Ok::<_, Failure>(CreateMessageResult::new(Speaker::Assistant, SamplingContent::text("no"), "none"))
            })
            .roots(&roots)
            .build()
    };
    let (attacked, host) = (host(HANDSHAKE), host(LONG));
    // The first connection creates all state that is shared.
    is_served::<A>(&host, &good);
    Meter::check_release::<A>(|meter| {
        let (near, far) = UnixStream::pair().expect("there are sockets");
        let peer = Peer::new(hostile, Role::Server, version, limits.frame_bytes, far);
        let asking = || {
            let client = A::connect_with(A::unix(near), &attacked, &options());
            client.as_ref().map(|client| send_request(client)).unwrap_or_default();
            client
        };
        peer.attack(asking, |client| {
            meter.assert_within(&limits);
            is_served::<A>(&host, &good);
            if let Ok(client) = client {
                client.close();
            }
        });
        drop(peer);
    });
    is_served::<A>(&host, &good);
}
