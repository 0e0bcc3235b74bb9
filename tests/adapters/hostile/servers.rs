//! Servers under attack.

use std::os::unix::net::UnixStream;

use mcp_proto::{
    connection::Settings,
    protocol::{ProtocolVersion, Role, VersionSet},
    schema::CallToolResult,
};
use mcp_service::{Context, Failure, Host, Service, Tool};
use mcp_tests::hostile::HostilePeer;
use serde_json::{Value, json};

use crate::{
    adapter::{Adapter, Client, Server},
    meter::Meter,
    options,
    peer::Peer,
    settings,
};

/// A service with all kinds of items. One of its tools runs until it is cancelled.
pub(crate) fn service(settings: Settings) -> Service {
    Service::builder("victim", "1")
        .settings(settings)
        .tool(Tool::new_async("t", |context: Context| async move {
            context.cancelled().await;
        }))
        .tool(Tool::new("hello", || "good day"))
        .on_request("vendor/a", |_: Value, _| Ok::<_, Failure>(json!({})))
        .on_notification("vendor/n0", |_: Value, _| {})
        .enable_tools()
        .subscriptions()
        .build()
        .expect("all names differ")
}

/// Checks that another client is served.
pub(crate) fn is_served<A: Adapter>(service: &Service, version: ProtocolVersion) {
    let (left, right) = A::pair(4096);
    let server = A::serve(service, right);
    let host = Host::builder("good", "1").versions(VersionSet::only(version)).build();
    let client = A::connect(left, &host).expect("it serves");
    is_greeting(client.call_tool("hello", ()).expect("it is asked").wait().expect("it answers"));
    client.close();
    server.wait();
}

pub(crate) fn is_greeting(result: CallToolResult) {
    assert_eq!(result.content[0].as_text(), Some("good day"));
}

pub(crate) fn attacked<A: Adapter>(hostile: HostilePeer, version: ProtocolVersion) {
    let settings = settings(version);
    let (limits, service) = (settings.limits.clone(), service(settings));
    // The first connection creates all state that is shared.
    is_served::<A>(&service, version);
    Meter::check_release::<A>(|meter| {
        let (near, far) = UnixStream::pair().expect("there are sockets");
        let server = A::serve_with(&service, A::unix(near), &options());
        let peer = Peer::new(hostile, Role::Client, version, limits.frame_bytes, far);
        peer.attack(
            || (),
            |()| {
                meter.assert_within(&limits);
                is_served::<A>(&service, version);
                server.close();
            },
        );
        drop((server, peer));
    });
    is_served::<A>(&service, version);
}
