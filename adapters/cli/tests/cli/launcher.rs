//! Tests with a server whose launcher has started another process, which does not end with the server.

use std::{
    fs,
    io::Read,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{Mcp, Output, mcp, recorder::Folder, replay, target};

/// How long the other process runs. It has the error output of `mcp`, which ends with it.
const RUNS: u32 = 240;

/// How long a command may take on a machine with other work.
const MOST: Duration = Duration::from_secs(120);

/// Returns a command line that starts the other process with one descriptor, and then becomes the server.
fn launcher(error_output: u32, server: &str) -> String {
    let script = format!("sleep {RUNS} <&- >&- 2>&{error_output} & exec {server}");
    format!("sh -c {}", shell_words::quote(&script))
}

/// Runs a command. Panics if a process that it has started outlives it.
fn leaves_nothing(mcp: &Mcp, arguments: &[&str]) -> Output {
    let began = Instant::now();
    let output = mcp(arguments);
    assert!(began.elapsed() < MOST, "{arguments:?}: a process has outlived it, {output:?}");
    output
}

pub(crate) fn commands_end_all_processes(mcp: &Mcp) {
    let folder = Folder::new("launcher");
    let file = folder.file("a.jsonl");
    let record = file.to_str().expect("UTF-8");
    let server = launcher(2, &target(""));
    // The error output of the recorder has the descriptor 3, too: the recorder reads that of the server.
    let recorder = format!("{} record --quiet -o {record} -- {}", env!("CARGO_BIN_EXE_mcp"), launcher(3, &target("")));
    let recorder = format!("sh -c {}", shell_words::quote(&format!("exec 3>&2; exec {recorder}")));
    let rows: [&[&str]; 5] = [
        &["list", &server],
        &["call", &server, "echo", "message=a"],
        &["bench", &server, "echo", "message=a", "--calls", "3"],
        &["check", &server, "--only", "ping-in-handshake", "--only", "discover"],
        &["call", &recorder, "echo", "message=a"],
    ];
    for arguments in rows {
        let (code, _, error) = leaves_nothing(mcp, arguments);
        assert_eq!(code, 0, "{arguments:?}: {error}");
    }
    assert!(fs::read_to_string(&file).expect("a record").contains("\"exit\":0"));
    let (code, out, error) = leaves_nothing(mcp, &["replay", record, "--against", &server]);
    assert!(code < 2 && out.contains("responses are the same"), "{code} {out} {error}");
}

pub(crate) fn bridges_end_all_processes() {
    let bridge = |arguments: &[&str]| {
        let mut bridge = Command::new(env!("CARGO_BIN_EXE_mcp"));
        let output = bridge.args(arguments).stdin(Stdio::null()).output().expect("it runs");
        (output.status.code().unwrap_or(-1), String::new(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, _, error) = leaves_nothing(&bridge, &["bridge", &launcher(2, &target(""))]);
    assert_eq!(code, 0, "{error}");
    // The client of the bridge ends it two seconds after SIGTERM. The shell ignores that, and stays after its server.
    let script = format!("trap '' TERM; {}; exec sleep {RUNS}", target(""));
    let bridge = format!("{} bridge -- sh -c {}", env!("CARGO_BIN_EXE_mcp"), shell_words::quote(&script));
    let (code, _, error) = leaves_nothing(&|arguments| mcp(arguments), &["list", &bridge]);
    assert_eq!(code, 0, "{error}");
}

pub(crate) fn signals_end_all_processes_of_a_replay() {
    let folder = Folder::new("launcher-signal");
    let file = folder.file("a.jsonl");
    fs::write(&file, replay::record(&replay::session("2025-11-25", &[]))).expect("it is written");
    let server = launcher(2, &format!("sh -c 'echo started >&2; exec sleep {RUNS}'"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp"));
    command.args(["replay", file.to_str().expect("UTF-8"), "--against", &server, "--timeout", "600"]);
    let mut replay = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut error = replay.stderr.take().expect("a pipe");
    let mut started = [0; 8];
    error.read_exact(&mut started).expect("it starts");
    assert_eq!(&started, b"started\n");
    let began = Instant::now();
    assert!(Command::new("kill").arg(replay.id().to_string()).status().expect("it runs").success());
    assert_eq!(replay.wait().expect("it ends").code(), Some(128 + 15));
    let mut rest = String::new();
    error.read_to_string(&mut rest).expect("text");
    assert!(began.elapsed() < MOST, "a process has outlived it: {rest}");
}

pub(crate) fn timeouts_end_all_processes_of_a_replay() {
    let folder = Folder::new("launcher-timeout");
    let file = folder.file("a.jsonl");
    fs::write(&file, replay::record(&replay::session("2025-11-25", &[]))).expect("it is written");
    // The server ignores the end of its input and SIGTERM, and so does the other process.
    let server = format!("sh -c {}", shell_words::quote(&format!("trap '' TERM; sleep {RUNS} >&- & sleep {RUNS}")));
    let path = file.to_str().expect("UTF-8");
    let arguments = ["replay", path, "--against", &server, "--timeout", "0.5"];
    let (code, _, error) = leaves_nothing(&|arguments| mcp(arguments), &arguments);
    assert!(code == 5 && error.contains("the server has not sent the response to"), "{code} {error}");
}
