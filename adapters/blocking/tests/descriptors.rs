//! Calls while the process has no descriptors left. Its limit concerns all tests of a program, so there is one test.
#![cfg(unix)]

use std::{fs::File, os::unix::net::UnixStream};

use mcp_blocking::{Client, DriverOptions, Server, Transport};
use mcp_proto::wire::JsonObject;
use mcp_service::{Host, Service, Tool, block_on};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

#[test]
fn a_call_needs_no_descriptors() {
    let schema = JsonObject::parse(r#"{"type":"object"}"#).expect("an object");
    let echo = Tool::with_schema("echo", schema, |arguments: Value| arguments["text"].to_string());
    let service = Service::builder("x", "1").tool(echo).build().expect("a tool");
    let (ours, theirs) = UnixStream::pair().expect("two sockets");
    let transport = |stream| Transport::unix(stream).expect("descriptors");
    let server = Server::start(&service, transport(theirs), &DriverOptions::default()).expect("there are threads");
    let client = Client::connect(transport(ours), &Host::builder("x", "1").build()).expect("it serves");
    let call = || client.call_tool("echo", json!({ "text": "one" })).expect("it is sent");
    // The threads of the connection have what they need.
    block_on(call()).expect("a result");
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..before }).expect("it is lower");
    let opened = File::open("/");
    let results: Vec<_> = (0..20).map(|_| call().wait()).collect();
    setrlimit(Resource::Nofile, before).expect("it was the limit before");
    assert!(opened.is_err(), "there are no descriptors");
    for result in results {
        assert_eq!(result.expect("a result").content[0].as_text(), Some("\"one\""));
    }
    drop((client, server));
}
