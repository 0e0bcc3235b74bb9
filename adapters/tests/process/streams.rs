//! Our own standard input and output.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command as Start, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use libtest_mimic::Trial;
use mcp_service::Host;
use rustix::process::{Pid, Signal, kill_process};

use super::{
    fixture::{self, FLAG, LONG, command, program},
    run,
};
use crate::{Client, done};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        // req: STDIO-003 STDIO-007 STDIO-008
        Trial::test("whatever_is_printed_stays_out_of_the_connection", run(pollution)),
        // req: STDIO-004 STDIO-015
        Trial::test("what_was_piped_in_is_answered_and_the_server_ends", run(piped)),
        Trial::test("sigterm_ends_a_server_whose_input_is_open", run(sigterm)),
        // req: STDIO-014
        Trial::test("a_server_can_leave_while_its_input_is_open", run(leaving)),
        Trial::test("a_client_that_does_not_read_any_more_ends_the_server", run(broken_pipe)),
        // req: STDIO-017
        Trial::test("lines_that_are_no_json_are_answered_and_survived", run(junk)),
    ]
}

const HELLO: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n"
);

/// A server as a plain process.
fn server() -> Child {
    let mut start = Start::new(program());
    start.args([FLAG, "server"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    start.spawn().expect("this program can be started")
}

/// Says hello and waits for the answer.
fn shake_hands(server: &mut Child) {
    server.stdin.as_mut().expect("piped").write_all(HELLO.as_bytes()).expect("it reads");
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().expect("piped")).read_line(&mut line).expect("it answers");
    assert!(line.contains("protocolVersion"), "{line}");
}

/// Waits for the end of a process, but not forever.
fn wait(server: &mut Child, patience: Duration) -> std::process::ExitStatus {
    let until = Instant::now() + patience;
    loop {
        if let Some(status) = server.try_wait().expect("it is our child") {
            return status;
        }
        assert!(Instant::now() < until, "it is still there");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn pollution() {
    let (faults, lines) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (found, heard) = (faults.clone(), lines.clone());
    let host = Host::builder("test", "1").on_fault(move |fault| found.lock().expect("no panics").push(fault)).build();
    let command = command("server").on_stderr(move |line| heard.lock().expect("no panics").push(line.to_owned()));
    let client = done(Client::spawn(command, &host)).expect("it is a server");
    for _ in 0..3 {
        let result = client.call_tool("print", ()).expect("it is sent").wait().expect("it is answered");
        assert_eq!(result.content[0].as_text(), Some("read 0, child exit status: 0"), "{result:?}");
    }
    assert!(done(client.close()).exit.expect("it was a child").success());
    assert_eq!(*faults.lock().expect("no panics"), []);
    let lines = lines.lock().expect("no panics");
    for printed in ["printed", "half a linewritten", "through the device", "from a child"] {
        assert_eq!(lines.iter().filter(|line| *line == printed).count(), 3, "{printed} in {lines:?}");
    }
}

fn piped() {
    let mut server = server();
    let mut input = HELLO.to_owned();
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
            assert!(id == 0 || message["result"]["content"][0]["text"] == *id.to_string(), "{line}");
            id
        })
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..=50).collect::<Vec<_>>());
    assert!(wait(&mut server, LONG).success());
}

fn sigterm() {
    let mut server = server();
    shake_hands(&mut server);
    let start = Instant::now();
    kill_process(Pid::from_child(&server), Signal::TERM).expect("it is there");
    wait(&mut server, LONG);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

fn leaving() {
    let mut server = server();
    shake_hands(&mut server);
    let start = Instant::now();
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"leave"}}"#;
    writeln!(server.stdin.as_mut().expect("piped"), "{call}").expect("it reads");
    let mut output = String::new();
    server.stdout.as_mut().expect("piped").read_to_string(&mut output).expect("it answers and closes");
    assert!(output.contains("left"), "{output}");
    assert!(wait(&mut server, LONG).success());
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

fn broken_pipe() {
    let mut server = server();
    shake_hands(&mut server);
    drop(server.stdout.take());
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    writeln!(server.stdin.as_mut().expect("piped"), "{ping}").expect("it reads");
    // Not a signal, not a panic: an error that the program was handed.
    assert_eq!(wait(&mut server, LONG).code(), Some(3));
}

fn junk() {
    let faults = Arc::new(Mutex::new(0));
    let found = faults.clone();
    let host = Host::builder("test", "1").on_fault(move |_| *found.lock().expect("no panics") += 1).build();
    let script = "echo 'a banner'; printf '\\377\\376\\n'; echo '[1]'; exec \"$@\"";
    let client = done(Client::spawn(fixture::shell(script, "server"), &host)).expect("it is a server");
    let result = client.call_tool("echo", serde_json::json!({"text": "hi"})).expect("sent").wait().expect("answered");
    assert_eq!(result.content[0].as_text(), Some("hi"));
    done(client.close());
    assert_eq!(*faults.lock().expect("no panics"), 3);

    let mut server = server();
    let junk = "junk\n".repeat(3);
    let stdin = server.stdin.as_mut().expect("piped");
    stdin.write_all(format!("{junk}{HELLO}{junk}").as_bytes()).expect("it reads");
    drop(server.stdin.take());
    let mut output = String::new();
    server.stdout.take().expect("piped").read_to_string(&mut output).expect("it answers");
    assert_eq!(output.lines().count(), 7, "{output}");
    assert_eq!(output.matches("-32700").count(), 6, "{output}");
    assert!(wait(&mut server, LONG).success());
}
