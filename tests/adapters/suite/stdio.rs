//! Standard input and output of this process.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command as Start, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    time::Instant,
};

use mcp_proto::protocol::ProtocolVersion;
use mcp_service::Host;
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};

use crate::{
    SOON,
    adapter::{Adapter, Client},
    fixture::{self, FLAG, command, program},
    scenario::scenarios,
};

scenarios![
    // A51 A52
    // req: STDIO-003 STDIO-007 STDIO-008
    printed_output_does_not_corrupt_the_connection,
    // A57
    // req: STDIO-003 STDIO-004 STDIO-015
    answers_piped_requests_then_exits_on_eof,
    // A58
    sigterm_ends_a_server_with_open_stdin,
    // A58
    // req: STDIO-014
    server_can_exit_while_stdin_is_open,
    server_ends_while_a_function_blocks,
    // A56
    server_ends_when_its_output_pipe_breaks,
    // A45
    // req: STDIO-017
    invalid_json_lines_do_not_end_the_connection,
];

const HELLO: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n"
);

/// Starts a server as a child process without an adapter.
fn server<A: Adapter>() -> Child {
    let mut start = Start::new(program());
    start.args([FLAG, A::NAME, "server"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    start.spawn().expect("this program can be started")
}

/// Sends `initialize` and waits for the response.
fn handshake(server: &mut Child) {
    server.stdin.as_mut().expect("piped").write_all(HELLO.as_bytes()).expect("it reads");
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().expect("piped")).read_line(&mut line).expect("it answers");
    assert!(line.contains("protocolVersion"), "{line}");
}

/// Waits until a process exits whose input stays open.
fn ended(server: &mut Child) -> ExitStatus {
    let _input = server.stdin.take();
    server.wait().expect("it is our child")
}

fn printed_output_does_not_corrupt_the_connection<A: Adapter>() {
    let (faults, lines) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (found, events) = (faults.clone(), lines.clone());
    let host = Host::builder("test", "1").on_fault(move |fault| found.lock().expect("no panics").push(fault)).build();
    let command = command::<A>("server").on_stderr(move |line| events.lock().expect("no panics").push(line.to_owned()));
    let client = A::spawn(command, &host).expect("it is a server");
    for _ in 0..3 {
        let result = client.call_tool("print", ()).expect("it is sent").wait().expect("it is answered");
        assert_eq!(result.content[0].as_text(), Some("read 0, child exit status: 0"), "{result:?}");
    }
    assert!(client.close().exit.expect("it was a child").success());
    assert_eq!(*faults.lock().expect("no panics"), []);
    let lines = lines.lock().expect("no panics");
    for printed in ["printed", "half a linewritten", "through the device", "from a child"] {
        assert_eq!(lines.iter().filter(|line| *line == printed).count(), 3, "{printed} in {lines:?}");
    }
}

fn answers_piped_requests_then_exits_on_eof<A: Adapter>() {
    for version in ProtocolVersion::LEGACY {
        let mut server = server::<A>();
        let mut input = HELLO.replace(ProtocolVersion::V2025_11_25.as_str(), version.as_str());
        for id in 1..=50 {
            let params = format!("{{\"name\":\"echo\",\"arguments\":{{\"text\":\"{id}\"}}}}");
            input += &format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{params}}}\n");
        }
        let mut stdin = server.stdin.take().expect("piped");
        stdin.write_all(input.as_bytes()).expect("it reads");
        drop(stdin);
        let mut output = String::new();
        server.stdout.take().expect("piped").read_to_string(&mut output).expect("it answers");
        assert!(output.ends_with('\n'));
        let mut ids: Vec<i64> = output
            .lines()
            .map(|line| {
                let message: serde_json::Value = serde_json::from_str(line).expect("lines are messages");
                let id = message["id"].as_i64().expect("an id");
                match id {
                    0 => assert_eq!(message["result"]["protocolVersion"], version.as_str(), "{line}"),
                    id => assert_eq!(message["result"]["content"][0]["text"], id.to_string(), "{line}"),
                }
                id
            })
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..=50).collect::<Vec<_>>(), "{version}");
        assert!(ended(&mut server).success(), "{version}");
    }
}

fn sigterm_ends_a_server_with_open_stdin<A: Adapter>() {
    let mut server = server::<A>();
    handshake(&mut server);
    let start = Instant::now();
    kill_process(Pid::from_child(&server), Signal::TERM).expect("it is there");
    ended(&mut server);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

fn server_can_exit_while_stdin_is_open<A: Adapter>() {
    let mut server = server::<A>();
    handshake(&mut server);
    let start = Instant::now();
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"leave"}}"#;
    writeln!(server.stdin.as_mut().expect("piped"), "{call}").expect("it reads");
    let mut output = String::new();
    server.stdout.as_mut().expect("piped").read_to_string(&mut output).expect("it answers and closes");
    assert!(output.contains("left"), "{output}");
    assert!(ended(&mut server).success());
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

fn server_ends_while_a_function_blocks<A: Adapter>() {
    let mut start = Start::new(program());
    start.args([FLAG, A::NAME, "server"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = start.spawn().expect("this program can be started");
    handshake(&mut server);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"block"}}"#;
    writeln!(server.stdin.as_mut().expect("piped"), "{call}").expect("it reads");
    let mut line = String::new();
    BufReader::new(server.stderr.take().expect("piped")).read_line(&mut line).expect("text");
    assert_eq!(line, "blocked\n");
    drop(server.stdin.take());
    let process = pidfd_open(Pid::from_child(&server), PidfdFlags::empty()).expect("it is there");
    let limit = SOON.try_into().expect("not that long");
    let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit));
    let _ = server.kill();
    server.wait().expect("it is our child");
    assert_eq!(ended, Ok(1), "it has not ended in {SOON:?}");
}

fn server_ends_when_its_output_pipe_breaks<A: Adapter>() {
    let mut server = server::<A>();
    handshake(&mut server);
    drop(server.stdout.take());
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    // A process that another test is starting holds a copy of this pipe until its `exec`, so the first
    // answers may find a reader still. The server has ended when it takes no more pings.
    let mut input = server.stdin.take().expect("piped");
    while writeln!(input, "{ping}").is_ok() {}
    // Not a signal, not a panic: an error that the program received.
    assert_eq!(ended(&mut server).code(), Some(3));
}

fn invalid_json_lines_do_not_end_the_connection<A: Adapter>() {
    let faults = Arc::new(Mutex::new(0));
    let found = faults.clone();
    let host = Host::builder("test", "1").on_fault(move |_| *found.lock().expect("no panics") += 1).build();
    let script = "echo 'a banner'; printf '\\377\\376\\n'; echo '[1]'; exec \"$@\"";
    let client = A::spawn(fixture::shell::<A>(script, "server"), &host).expect("it is a server");
    let result = client.call_tool("echo", serde_json::json!({"text": "hi"})).expect("sent").wait().expect("answered");
    assert_eq!(result.content[0].as_text(), Some("hi"));
    client.close();
    assert_eq!(*faults.lock().expect("no panics"), 3);

    let mut server = server::<A>();
    let junk = "junk\n".repeat(3);
    let stdin = server.stdin.as_mut().expect("piped");
    stdin.write_all(format!("{junk}{HELLO}{junk}").as_bytes()).expect("it reads");
    drop(server.stdin.take());
    let mut output = String::new();
    server.stdout.take().expect("piped").read_to_string(&mut output).expect("it answers");
    assert_eq!(output.lines().count(), 7, "{output}");
    assert_eq!(output.matches("-32700").count(), 6, "{output}");
    assert!(ended(&mut server).success());
}
