//! Both eras over every transport: the messages and the results do not depend on the transport.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::net::UnixStream,
    sync::{Mutex, mpsc::channel},
    thread,
    time::Duration,
};

use mcp_proto::{
    connection::RequestOptions,
    protocol::{ProtocolVersion, VersionSet},
    schema::{
        CreateMessageParams, CreateMessageResult, ElicitFormParams, ElicitResult, ElicitSchema, Map, Role, Root,
        SamplingContent, SamplingMessage, StringSchema,
    },
};
use mcp_service::{CallError, Context, Failure, Host, Roots, Service, Tool, block_on};
use serde_json::{Value, json};

use crate::{
    SOON,
    adapter::{Adapter, Client, Pair, Server},
    scenario::scenarios,
};

scenarios![
    // req: M-BASE-047
    handler_results_match_across_eras_and_transports,
    // req: M-BASE-047 M-BASE-046 M-STDIO-007
    messages_are_the_same_on_every_transport,
    // req: M-CANC-014
    idle_timeout_restarts_after_input_requests,
];

fn form(field: &str) -> ElicitSchema {
    ElicitSchema::new(Map::from([(field, StringSchema::default().into())]))
}

/// Elicits twice and samples once. The same code serves both eras.
async fn interview(context: Context) -> Result<String, Failure> {
    let name = context.elicit("Who are you?", form("name")).await?;
    let color = context.elicit("Which color?", form("color")).await?;
    let said = |answer: ElicitResult| answer.content.map_or_else(String::new, |content| format!("{content:?}"));
    let text = format!("{} {}", said(name), said(color));
    let verdict = context.sample(CreateMessageParams::new([SamplingMessage::user(&*text)], 10_u64)).await?;
    let [SamplingContent::Text(verdict)] = verdict.content.as_slice() else { return Err(Failure::new("no text")) };
    Ok(verdict.text.clone())
}

fn service() -> Service {
    Service::builder("test", "1")
        .tool(Tool::new_async("interview", interview))
        .tool(Tool::new("interview_on_a_thread", |context: Context| block_on(interview(context))))
        .build()
        .expect("a good service")
}

fn host(version: ProtocolVersion) -> Host {
    Host::builder("client", "1")
        .versions(VersionSet::only(version))
        .elicitation(|received: ElicitFormParams, _| {
            let (field, value) = if received.message == "Who are you?" { ("name", "Ada") } else { ("color", "red") };
            Ok::<_, Failure>(ElicitResult::accept([(field, value.into())]))
        })
        .sampling(|received: CreateMessageParams, _| {
            let [SamplingContent::Text(text)] = received.messages[0].content.as_slice() else {
                return Err(Failure::rejected());
            };
            let verdict = SamplingContent::text(format!("fine: {}", text.text));
            Ok(CreateMessageResult::new(Role::Assistant, verdict, "m"))
        })
        .roots(&Roots::new([Root::new("file:///a")]).expect("good roots"))
        .build()
}

fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let near = TcpStream::connect(listener.local_addr().expect("it has an address")).expect("it listens");
    (near, listener.accept().expect("a connection").0)
}

fn transports<A: Adapter>() -> Vec<(&'static str, Pair<A>)> {
    let (left, right) = tcp();
    let (a, b) = UnixStream::pair().expect("there are sockets");
    let ((from, to), (back, forth)) = (io::pipe().expect("a pipe"), io::pipe().expect("a pipe"));
    vec![
        ("memory", A::pair(64 * 1024)),
        ("memory, one byte at a time", A::pair(1)),
        ("tcp", (A::tcp(left), A::tcp(right))),
        ("unix", (A::unix(a), A::unix(b))),
        ("any reader and writer", (A::from_io(from, forth), A::from_io(back, to))),
    ]
}

fn handler_results_match_across_eras_and_transports<A: Adapter>() {
    let expected = r#"fine: {"name": String("Ada")} {"color": String("red")}"#;
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        for (name, (near, far)) in transports::<A>() {
            let server = A::serve(&service(), far);
            let client = A::connect(near, &host(version)).expect("the server speaks it");
            assert_eq!(client.version(), Some(version), "{name}");
            for tool in ["interview", "interview_on_a_thread"] {
                let result = client.call_tool(tool, ()).expect("it can be sent").wait().expect("a result");
                assert!(!result.is_error(), "{name} {version}: {result:?}");
                assert_eq!(result.content[0].as_text(), Some(expected), "{name} {version}");
            }
            client.close();
            server.close();
        }
    }
}

/// A hand-written server with two rounds of input requests. Returns all messages that it has received.
fn play(reader: impl Read, mut writer: impl Write) -> Vec<Value> {
    let mut events = Vec::new();
    for line in BufReader::new(reader).lines() {
        let line = line.expect("it is text");
        let message: Value = serde_json::from_str(&line).expect("a line is a message");
        let params = &message["params"];
        let result = match message["method"].as_str().expect("a client asks and does not answer") {
            "server/discover" => json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}),
            "tools/call" if params["name"] == "silence" && params.get("inputResponses").is_none() => {
                json!({"resultType": "input_required", "inputRequests": {"silence": {"method": "elicitation/create",
                    "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}}})
            }
            "tools/call" if params.get("inputResponses").is_none() => json!({"resultType": "input_required",
                "requestState": "s\u{2028}\n", "inputRequests": {"r": {"method": "roots/list"}}}),
            "tools/call" if params["inputResponses"].get("silence").is_some() => Value::Null,
            "tools/call" => json!({"resultType": "complete", "content": []}),
            _ => Value::Null,
        };
        if !result.is_null() {
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            writer.write_all(format!("{answer}\n").as_bytes()).expect("the client reads");
        }
        events.push(message);
    }
    events
}

/// Returns all messages that a client sends over a transport.
fn said<A: Adapter>(
    transport: A::Transport,
    reader: impl Read + Send + 'static,
    writer: impl Write + Send + 'static,
) -> Vec<Value> {
    let server = thread::spawn(move || play(reader, writer));
    let client = A::connect(transport, &host(ProtocolVersion::V2026_07_28)).expect("it is modern");
    let odd = "\u{2028}\n\"\\\u{1F600}";
    client.call_tool(odd, json!({ odd: odd })).expect("it can be sent").wait().expect("a result");
    client.close();
    server.join().expect("no panic")
}

fn messages_are_the_same_on_every_transport<A: Adapter>() {
    let ((from, to), (back, forth)) = (io::pipe().expect("a pipe"), io::pipe().expect("a pipe"));
    let over_pipes = said::<A>(A::from_io(from, forth), back, to);
    let (near, far) = tcp();
    let over_tcp = said::<A>(A::tcp(near), far.try_clone().expect("there are descriptors"), far);
    let (near, far) = UnixStream::pair().expect("there are sockets");
    let over_unix = said::<A>(A::unix(near), far.try_clone().expect("there are descriptors"), far);
    assert_eq!(over_pipes.len(), 3, "{over_pipes:?}");
    for message in &over_pipes {
        assert_eq!((&message["jsonrpc"], message["id"].is_u64()), (&json!("2.0"), true), "{message}");
        let meta = &message["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{message}");
        assert!(meta["io.modelcontextprotocol/clientCapabilities"]["roots"].is_object(), "{message}");
    }
    assert_eq!(over_pipes[2]["params"]["requestState"], "s\u{2028}\n");
    assert_eq!(over_pipes[2]["params"]["inputResponses"], json!({"r": {"roots": [{"uri": "file:///a"}]}}));
    assert_eq!(over_tcp, over_pipes);
    assert_eq!(over_unix, over_pipes);
}

/// The timeout starts again after a round of input requests, however long the round has taken.
fn idle_timeout_restarts_after_input_requests<A: Adapter>() {
    const PATIENCE: Duration = Duration::from_millis(100);
    let (near, far) = UnixStream::pair().expect("there are sockets");
    let reader = far.try_clone().expect("there are descriptors");
    let server = thread::spawn(move || play(reader, far));
    let (_answers, answer) = channel::<()>();
    let answer = Mutex::new(answer);
    let host = Host::builder("client", "1")
        .versions(VersionSet::only(ProtocolVersion::V2026_07_28))
        .elicitation(move |_: ElicitFormParams, _| {
            let _ = answer.lock().expect("no panic").recv_timeout(3 * PATIENCE);
            Ok::<_, Failure>(ElicitResult::decline())
        })
        .build();
    let client = A::connect(A::unix(near), &host).expect("it is modern");
    let options = RequestOptions { idle_timeout: Some(PATIENCE), total_timeout: None, ..RequestOptions::default() };
    let (done, ended) = channel();
    let call = client.with_options(options).call_tool("silence", ()).expect("it can be sent");
    thread::spawn(move || done.send(call.wait()));
    let ended = ended.recv_timeout(SOON).expect("the server says nothing");
    assert_eq!(ended.expect_err("there is no answer"), CallError::TimedOut { total: false });
    client.close();
    server.join().expect("no panic");
}
