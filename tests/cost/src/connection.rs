//! Messages of a peer on a connection: what one costs, and what one costs where many came before it.

use mcp_proto::{
    codec::Frame,
    connection::{Client, Connection, RequestOptions, Server},
    protocol::{Capability, ProtocolVersion, VersionSet},
    rpc::Timestamp,
    schema::{CallToolParams, ResourceUpdatedParams},
};
use mcp_tests::{
    harness::{Harness, full_client},
    message::{listen, modern},
};
use serde_json::{Value, json};

use super::{Case, Work, descending, list};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "server/initialize with many extensions",
        make: |size| {
            on_server(
                Harness::server(mcp_tests::harness::full_server()).conn,
                vec![initialize(&descending(size, "{}"))],
            )
        },
    },
    Case { name: "server/a cancellation behind many answers that are not read", make: cancellations },
    Case { name: "server/a ping behind many open batches", make: batches },
    Case {
        name: "server/requests with one id",
        make: |size| {
            on_server(legacy(), repeated(size, |_| r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.into()))
        },
    },
    Case {
        name: "server/requests in flight, each cancelled",
        make: |size| on_server(legacy(), repeated(size, in_flight)),
    },
    Case {
        name: "server/methods that are unknown",
        make: |size| {
            on_server(legacy(), repeated(size, |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"no/such"}}"#)))
        },
    },
    Case {
        name: "server/progress of nothing",
        make: |size| {
            on_server(
                legacy(),
                repeated(size, |id| {
                    format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{id},"progress":1}}}}"#
                    )
                }),
            )
        },
    },
    Case {
        name: "server/responses to nothing",
        make: |size| {
            on_server(legacy(), repeated(size, |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)))
        },
    },
    Case {
        name: "server/a batch of pings",
        make: |size| {
            on_server(
                batching(),
                vec![format!("[{}]", list(size, |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)))],
            )
        },
    },
    Case {
        name: "server/a batch of cancellations",
        make: |size| on_server(batching(), vec![format!("[{}]", list(size, cancellation))]),
    },
    Case {
        name: "stateless server/_meta of many members",
        make: |size| on_server(stateless(), vec![with_meta(&descending(size, "1"))]),
    },
    Case {
        name: "stateless server/baggage of many members",
        make: |size| {
            on_server(
                stateless(),
                vec![with_meta(&format!("{{\"baggage\":\"{}\"}}", list(size, |index| format!("k{index}=v"))))],
            )
        },
    },
    Case {
        name: "stateless server/inputResponses of many members",
        make: |size| {
            on_server(
                stateless(),
                vec![with_params(&format!(
                    "\"inputResponses\":{},\"requestState\":\"s\"",
                    descending(size, "{\"roots\":[]}")
                ))],
            )
        },
    },
    Case {
        name: "stateless server/a filter of many resources",
        make: |size| on_server(stateless(), vec![filter(size)]),
    },
    Case { name: "stateless server/notifications behind a filter of many resources", make: notifications },
    Case {
        name: "client/inputRequests of many members",
        make: |size| {
            answered(&format!(
                "{{\"resultType\":\"input_required\",\"requestState\":\"s\",\"inputRequests\":{}}}",
                descending(size, "{\"method\":\"roots/list\"}")
            ))
        },
    },
    Case {
        name: "client/an error with much data",
        make: |size| {
            on_client_call(|id| {
                format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-32000,\"message\":\"m\",\"data\":{}}}}}",
                    descending(size, "1")
                )
            })
        },
    },
    Case { name: "client/one notification for many calls of one task", make: followed },
    Case { name: "client/a late task for each call that has ended", make: late_tasks },
];

fn legacy() -> Server {
    Harness::ready_server(ProtocolVersion::V2025_11_25).conn
}

fn batching() -> Server {
    let mut config = mcp_tests::harness::full_server();
    config.settings.limits.batch_members = 1 << 20;
    Harness::ready_server_with(config, ProtocolVersion::V2025_03_26).conn
}

fn stateless() -> Server {
    Harness::modern_server().conn
}

fn initialize(experimental: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{"experimental":{experimental}}},"clientInfo":{{"name":"c","version":"1"}}}}}}"#
    )
}

fn with_params(more: &str) -> String {
    let mut request = modern(1, "tools/call", json!({"name": "t"})).to_string();
    let at = request.find("\"params\":{").expect("there are params") + "\"params\":{".len();
    request.insert_str(at, &format!("{more},"));
    request
}

fn with_meta(more: &str) -> String {
    let mut request = modern(1, "tools/call", json!({"name": "t"})).to_string();
    let at = request.find("\"_meta\":{").expect("there is one") + "\"_meta\":{".len();
    request.insert_str(at, &format!("{},", &more[1..more.len() - 1]));
    request
}

fn filter(size: usize) -> String {
    let uris: Vec<_> = (0..size / 16).map(|index| format!("mem://{index:08}")).collect();
    listen("l", json!({"resourceSubscriptions": uris})).to_string()
}

fn cancellation(id: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"none{id}"}}}}"#)
}

/// A request on even turns, its cancellation on odd ones.
fn in_flight(turn: usize) -> String {
    let id = turn / 2;
    match turn % 2 {
        0 => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#),
        _ => format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#),
    }
}

/// Frames of `size` bytes in all.
fn repeated(size: usize, frame: impl Fn(usize) -> String) -> Vec<String> {
    let mut bytes = 0;
    (0..).map(frame).take_while(|frame| (bytes < size, bytes += frame.len()).0).collect()
}

fn feed<E>(conn: &mut Connection<E>, frames: &[String]) {
    for frame in frames {
        // The application drops every event: only the connection is measured.
        drop(conn.handle_frame(Timestamp::ZERO, Frame::new(frame.as_bytes())));
        while conn.poll_event().is_some() {}
    }
}

fn drain<E>(conn: &mut Connection<E>) {
    let mut out = Vec::new();
    while conn.poll_transmit(&mut out).is_some() {
        out.clear();
    }
}

fn bytes(frames: &[String]) -> usize {
    frames.iter().map(String::len).sum()
}

/// A server is sent these frames, and what it answers is read.
fn on_server(mut server: Server, frames: Vec<String>) -> Work {
    Work::new(bytes(&frames), move || {
        feed(&mut server, &frames);
        drain(&mut server);
    })
}

fn cancellations(size: usize) -> Work {
    let mut server = legacy();
    let pings = repeated(size / 2, |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
    feed(&mut server, &pings);
    let frames = repeated(size / 2, cancellation);
    Work::new(bytes(&pings) + bytes(&frames), move || feed(&mut server, &frames))
}

fn batches(size: usize) -> Work {
    let mut server = batching();
    let open = repeated(size / 2, |id| format!(r#"[{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}]"#));
    feed(&mut server, &open);
    let pings = repeated(size / 2, |id| format!(r#"{{"jsonrpc":"2.0","id":"p{id}","method":"ping"}}"#));
    Work::new(bytes(&open) + bytes(&pings), move || {
        for ping in &pings {
            feed(&mut server, std::slice::from_ref(ping));
            drain(&mut server);
        }
    })
}

fn notifications(size: usize) -> Work {
    let mut server = stateless();
    let filter = filter(size);
    feed(&mut server, std::slice::from_ref(&filter));
    drain(&mut server);
    let told = ResourceUpdatedParams::new("mem://none");
    Work::new(filter.len(), move || {
        for _ in 0..100 {
            server.notify(&told).expect("it is allowed");
            drain(&mut server);
        }
    })
}

fn client() -> (Client, Timestamp) {
    let mut config = full_client();
    config.capabilities = config.capabilities.with(Capability::TasksExtension);
    config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
    let mut harness = Harness::client(config);
    let probe = harness.sent().remove(0);
    harness.feed(&json!({"jsonrpc": "2.0", "id": probe["id"], "result": {
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {
            "tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}}}));
    harness.take_events();
    (harness.conn, harness.now)
}

/// Calls a tool and returns the id that the request has on the wire.
fn call(client: &mut Client, now: Timestamp) -> Value {
    client.request(now, &CallToolParams::new("t"), RequestOptions::default()).expect("it is ready");
    let mut out = Vec::new();
    client.poll_transmit(&mut out).expect("the request leaves");
    serde_json::from_slice::<Value>(&out).expect("it is JSON")["id"].take()
}

fn on_client_call(frame: impl Fn(&Value) -> String) -> Work {
    let (mut client, now) = client();
    let frames = vec![frame(&call(&mut client, now))];
    Work::new(bytes(&frames), move || feed(&mut client, &frames))
}

fn answered(result: &str) -> Work {
    on_client_call(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"))
}

const TASK: &str = r#""taskId":"t","createdAt":"2026-08-01T10:00:00Z","lastUpdatedAt":"2026-08-01T10:00:00Z","ttlMs":null,"pollIntervalMs":60000"#;

fn as_task(id: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"task","status":"working",{TASK}}}}}"#)
}

fn followed(size: usize) -> Work {
    let (mut client, now) = client();
    let mut input = 0;
    while input < size / 2 {
        let frame = as_task(&call(&mut client, now));
        input += frame.len();
        feed(&mut client, &[frame]);
    }
    drain(&mut client);
    let told = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/tasks","params":{{"status":"working","statusMessage":"{}",{TASK}}}}}"#,
        "x".repeat(size / 2)
    );
    Work::new(input + told.len(), move || feed(&mut client, &[told]))
}

fn late_tasks(size: usize) -> Work {
    let (mut client, now) = client();
    let mut frames = Vec::new();
    while bytes(&frames) < size {
        client.request(now, &CallToolParams::new("t"), RequestOptions::default()).expect("it is ready");
        let mut out = Vec::new();
        client.poll_transmit(&mut out).expect("the request leaves");
        let id = serde_json::from_slice::<Value>(&out).expect("it is JSON")["id"].take();
        frames.push(as_task(&id));
        frames.push(as_task(&id));
    }
    Work::new(bytes(&frames), move || {
        feed(&mut client, &frames);
        drain(&mut client);
    })
}
