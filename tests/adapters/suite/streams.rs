//! Our own standard input and output.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command as Start, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    time::Instant,
};

use mcp_proto::protocol::ProtocolVersion;
use mcp_service::Host;
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    SOON,
    adapter::{Adapter, Client},
    fixture::{self, FLAG, command, program},
    scenario::scenarios,
};

scenarios![
    // A51 A52
    // req: STDIO-003 STDIO-007 STDIO-008
    whatever_is_printed_stays_out_of_the_connection,
    // A57
    // req: STDIO-003 STDIO-004 STDIO-015
    what_was_piped_in_is_answered_and_the_server_ends,
    // A58
    sigterm_ends_a_server_whose_input_is_open,
    // A58
    // req: STDIO-014
    a_server_can_leave_while_its_input_is_open,
    // A56
    a_client_that_does_not_read_any_more_ends_the_server,
    // A45
    // req: STDIO-017
    lines_that_are_no_json_are_answered_and_survived,
];

const HELLO: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n"
);

/// A server as a plain process.
fn server<A: Adapter>() -> Child {
    let mut start = Start::new(program());
    start.args([FLAG, A::NAME, "server"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    start.spawn().expect("this program can be started")
}

/// Says hello and waits for the answer.
fn shake_hands(server: &mut Child) {
    server.stdin.as_mut().expect("piped").write_all(HELLO.as_bytes()).expect("it reads");
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().expect("piped")).read_line(&mut line).expect("it answers");
    assert!(line.contains("protocolVersion"), "{line}");
}

/// Waits for the end of a process, whose input stays open.
fn ended(server: &mut Child) -> ExitStatus {
    let _input = server.stdin.take();
    server.wait().expect("it is our child")
}

fn whatever_is_printed_stays_out_of_the_connection<A: Adapter>() {
    let (faults, lines) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (found, heard) = (faults.clone(), lines.clone());
    let host = Host::builder("test", "1").on_fault(move |fault| found.lock().expect("no panics").push(fault)).build();
    let command = command::<A>("server").on_stderr(move |line| heard.lock().expect("no panics").push(line.to_owned()));
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

fn what_was_piped_in_is_answered_and_the_server_ends<A: Adapter>() {
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

fn sigterm_ends_a_server_whose_input_is_open<A: Adapter>() {
    let mut server = server::<A>();
    shake_hands(&mut server);
    let start = Instant::now();
    kill_process(Pid::from_child(&server), Signal::TERM).expect("it is there");
    ended(&mut server);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

fn a_server_can_leave_while_its_input_is_open<A: Adapter>() {
    let mut server = server::<A>();
    shake_hands(&mut server);
    let start = Instant::now();
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"leave"}}"#;
    writeln!(server.stdin.as_mut().expect("piped"), "{call}").expect("it reads");
    let mut output = String::new();
    server.stdout.as_mut().expect("piped").read_to_string(&mut output).expect("it answers and closes");
    assert!(output.contains("left"), "{output}");
    assert!(ended(&mut server).success());
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

fn a_client_that_does_not_read_any_more_ends_the_server<A: Adapter>() {
    let mut server = server::<A>();
    shake_hands(&mut server);
    drop(server.stdout.take());
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    writeln!(server.stdin.as_mut().expect("piped"), "{ping}").expect("it reads");
    // Not a signal, not a panic: an error that the program was handed.
    assert_eq!(ended(&mut server).code(), Some(3));
}

fn lines_that_are_no_json_are_answered_and_survived<A: Adapter>() {
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
