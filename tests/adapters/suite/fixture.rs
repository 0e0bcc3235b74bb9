//! Programs for child processes: servers that conform and servers that do not, and a client that is killed.

use std::{
    env, fs,
    io::{self, BufRead, Write},
    path::{Path, PathBuf},
    process::{self, Command as Start, ExitCode},
    sync::{Mutex, mpsc},
    thread,
};

use mcp_driver::{Command, RestartPolicy};
use mcp_proto::{connection::ClientRole, protocol::VersionSet, schema::CreateMessageResult};
use mcp_service::{Context, Failure, Host, Service, Tool};
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use serde::Deserialize;

use crate::{
    LONG,
    adapter::{Adapter, Client, Supervisor},
    early_responses, http_load, load,
};

/// The argument that starts this program as a fixture.
pub(crate) const FLAG: &str = "--fixture";

pub(crate) fn run<A: Adapter>(role: &str, args: &[String]) -> ExitCode {
    match role {
        "server" => serve::<A>(args),
        "ignores_eof" => ignores_eof(),
        "usage" => usage(),
        "exits_unless_initialized" => exits_unless_initialized(args),
        "client" => client::<A>(args),
        "hinders_the_end" => hinders_the_end(args),
        "proxy" => proxy::<A>("", args),
        "proxy_asks" => proxy::<A>("asks", args),
        "proxy_stops" => proxy::<A>("stops", args),
        "supervisor" => supervisor::<A>(args),
        "drops_client" => drops_client::<A>(args),
        "dropped" => run_to_end(load::dropped::<A>),
        "crowd" => run_to_end(load::crowd::<A>),
        "leftovers" => run_to_end(load::leftovers::<A>),
        "http_load" => run_to_end(http_load::leftovers::<A>),
        "early_responses" => run_to_end(early_responses::leftovers::<A>),
        role => panic!("no such role: {role}"),
    }
}

/// Runs a test as a process. It fails by panicking.
fn run_to_end(test: fn()) -> ExitCode {
    test();
    ExitCode::SUCCESS
}

/// Returns the command that starts this program in a role.
pub(crate) fn command<A: Adapter>(role: &str) -> Command {
    Command::new(program()).args([FLAG, A::NAME, role])
}

/// Returns a shell that runs `script` with the command line of a role in `"$@"`, for traps and wrappers.
pub(crate) fn shell<A: Adapter>(script: &str, role: &str) -> Command {
    Command::new("sh").args(["-c", script, "sh"]).arg(program()).args([FLAG, A::NAME, role])
}

pub(crate) fn program() -> PathBuf {
    env::current_exe().expect("this program has a name")
}

pub(crate) fn host() -> Host {
    Host::builder("test", "1").build()
}

/// Returns the path of a file that does not exist yet, into which a process writes.
pub(crate) fn note<A: Adapter>(name: &str) -> PathBuf {
    let path = env::temp_dir().join(format!("mcp-{}-{}-{name}", A::NAME, process::id()));
    let _ = fs::remove_file(&path);
    path
}

/// Reads a file that a process has written.
pub(crate) fn read_note(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("it was noted");
    fs::remove_file(path).expect("it is there");
    text.trim().to_owned()
}

/// Returns whether a process runs. A zombie does not.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']) && !rest.is_empty())
}

/// Waits until a process does not run any more.
pub(crate) fn wait_dead(pid: &str) {
    let pid = Pid::from_raw(pid.parse().expect("a number")).expect("not 0");
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    let limit = LONG.try_into().expect("not that long");
    assert_eq!(poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit)), Ok(1), "{pid:?} is still there");
}

#[derive(Deserialize)]
struct Text {
    text: String,
}

/// A server whose tools misbehave.
fn serve<A: Adapter>(args: &[String]) -> ExitCode {
    let schema = || mcp_proto::wire::JsonObject::parse(r#"{"type":"object"}"#).expect("an object");
    let args = args.join("|");
    let service = Service::builder("fixture", "1")
        .tool(Tool::with_schema("echo", schema(), |said: Text| said.text))
        .tool(Tool::new("args", move || args.clone()))
        .tool(Tool::new("env", || env::var("FIXTURE").unwrap_or_default()))
        .tool(Tool::new("dir", || env::current_dir().map(|dir| dir.display().to_string())))
        .tool(Tool::new("print", print))
        .tool(Tool::new("pid", || process::id().to_string()))
        .tool(Tool::new("wait", |context: Context| context.sleep(LONG).wait().map(|()| "waited")))
        .tool(Tool::new_async("answer", async || "answered"))
        .tool(Tool::new("block", || -> &'static str {
            eprintln!("blocked");
            loop {
                thread::park();
            }
        }))
        .tool(Tool::new("leave", |context: Context| {
            context.peer().close();
            "left"
        }))
        .tool(Tool::new("grow", |context: Context| {
            context.service().add(Tool::new("grown", || ())).map(|()| "grown").map_err(|error| error.to_string())
        }))
        .tool(Tool::new("die", || -> &'static str {
            eprintln!("the last words");
            process::abort()
        }))
        .tool(Tool::new("chatter", || {
            for line in 0..200_000 {
                eprintln!("line {line}, and something behind it to make it longer");
            }
            "said"
        }))
        .build()
        .expect("all names differ");
    match A::serve_stdio(&service) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(3)
        }
    }
}

/// Writes to standard output and reads from standard input in every way that there is.
#[expect(clippy::print_stdout, reason = "that is what is tried")]
fn print() -> io::Result<String> {
    println!("printed");
    print!("half a line");
    io::stdout().write_all(b"written\n")?;
    fs::write("/dev/stdout", "through the device\n")?;
    let mut line = String::new();
    let len = io::stdin().lock().read_line(&mut line)?;
    let child = Start::new("sh").args(["-c", "cat; echo from a child"]).status()?;
    Ok(format!("read {len}, child {child}"))
}

/// A server that supports only the handshake and pings, and does not exit when its input ends.
#[expect(clippy::print_stdout, reason = "there is no adapter here")]
fn ignores_eof() -> ExitCode {
    let info =
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"ignores_eof","version":"1"}}"#;
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let message: serde_json::Value = serde_json::from_str(&line).expect("lines are messages");
        if let Some(id) = message.get("id") {
            let result = if message["method"] == "initialize" { info } else { "{}" };
            println!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}");
        }
    }
    eprintln!("input has ended");
    loop {
        thread::park();
    }
}

/// A legacy server that exits with a status if its first message is not `initialize`. It records the method of that
/// message.
#[expect(clippy::print_stdout, reason = "there is no adapter here")]
fn exits_unless_initialized(args: &[String]) -> ExitCode {
    let [note, status] = args else { panic!("a file and a status") };
    let mut lines = io::stdin().lock().lines().map_while(Result::ok);
    let mut next = || Some(serde_json::from_str::<serde_json::Value>(&lines.next()?).expect("lines are messages"));
    let Some(first) = next() else { return ExitCode::SUCCESS };
    let method = first["method"].as_str().expect("a request");
    let mut noted = fs::OpenOptions::new().create(true).append(true).open(note).expect("it can be noted");
    writeln!(noted, "{method}").expect("it can be noted");
    if method != "initialize" {
        eprintln!("unexpected {method}");
        return ExitCode::from(status.parse::<u8>().expect("a number"));
    }
    let info = r#"{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"exits_unless_initialized","version":"1"}}"#;
    println!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{info}}}", first["id"]);
    while next().is_some() {}
    ExitCode::SUCCESS
}

/// A program that is no server.
fn usage() -> ExitCode {
    eprintln!("usage: fixture FILE");
    ExitCode::from(2)
}

/// A legacy server that does not exit when its input ends. After the handshake it reads no more, or requests a sample.
#[expect(clippy::print_stdout, reason = "there is no adapter here")]
fn hinders_the_end(args: &[String]) -> ExitCode {
    let info =
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"hinders","version":"1"}}"#;
    let mut lines = io::stdin().lock().lines().map_while(Result::ok);
    let first: serde_json::Value = serde_json::from_str(&lines.next().expect("a request")).expect("JSON");
    println!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{info}}}", first["id"]);
    lines.next().expect("the end of the handshake");
    if args == ["asks"] {
        let params = r#"{"messages":[],"maxTokens":1}"#;
        println!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sampling/createMessage\",\"params\":{params}}}");
        while lines.next().is_some() {}
    }
    loop {
        thread::park();
    }
}

/// A server that starts the server of its command line, and does not end at the end of its input. Something `hinders`
/// the end of the connection to that server, or nothing.
fn proxy<A: Adapter>(hinders: &str, args: &[String]) -> ExitCode {
    let [program, args @ ..] = args else { panic!("a program") };
    A::shutdown_on_signals().expect("signals can be had");
    let (asked, is_asked) = mpsc::channel();
    let asked = Mutex::new(asked);
    let sample = move |_, _: Context<ClientRole>| -> Result<CreateMessageResult, Failure> {
        asked.lock().expect("no panic").send(()).expect("it is waited for");
        loop {
            thread::park();
        }
    };
    let host = Host::builder("test", "1").sampling(sample).versions(VersionSet::LEGACY).build();
    let client = A::spawn(Command::new(program).args(args), &host).expect("it is a server");
    let _unread = match hinders {
        "asks" => {
            is_asked.recv().expect("it asks");
            None
        }
        // More than a pipe holds.
        "stops" => Some(client.call_tool("any", serde_json::json!({"text": "x".repeat(1 << 20)})).expect("it is sent")),
        _ => None,
    };
    serve::<A>(&[]);
    client.wait();
    ExitCode::SUCCESS
}

/// A client that starts the server of its command line, prints that it is connected, and waits.
#[expect(clippy::print_stdout, reason = "that is what it is for")]
fn client<A: Adapter>(args: &[String]) -> ExitCode {
    let [program, args @ ..] = args else { panic!("a program") };
    A::shutdown_on_signals().expect("signals can be had");
    let client = A::spawn(Command::new(program).args(args), &host()).expect("it is a server");
    println!("connected");
    client.wait();
    ExitCode::SUCCESS
}

/// A client that starts the server of its command line again when it has ended, and prints that it is connected.
#[expect(clippy::print_stdout, reason = "that is what it is for")]
fn supervisor<A: Adapter>(args: &[String]) -> ExitCode {
    let [program, args @ ..] = args else { panic!("a program") };
    A::shutdown_on_signals().expect("signals can be had");
    let supervisor = A::supervise(Command::new(program).args(args), &host(), RestartPolicy::default());
    loop {
        let client = supervisor.client().expect("it is a server");
        println!("connected");
        client.closed().wait();
    }
}

/// A client that starts the server of its command line, and drops the connection. It prints that it is about to.
#[expect(clippy::print_stdout, reason = "that is what it is for")]
fn drops_client<A: Adapter>(args: &[String]) -> ExitCode {
    let [program, args @ ..] = args else { panic!("a program") };
    A::shutdown_on_signals().expect("signals can be had");
    let client = A::spawn(Command::new(program).args(args), &host()).expect("it is a server");
    println!("dropped");
    drop(client);
    loop {
        thread::park();
    }
}
