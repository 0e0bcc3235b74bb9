//! Tests of `mcp check` with real processes and sockets. Each check has its own tests in the program.

use std::fs;
#[cfg(unix)]
use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{Mcp, bridge::Bridge, mcp, recorder::Folder};

/// Judges a server that breaks no rule. Returns the last line.
fn passes(mcp: &Mcp, target: &str, more: &[&str]) -> Value {
    let (code, out, error) = mcp(&[&["check", target, "--json", "--strict"], more].concat());
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for line in &lines {
        let is_good = !matches!(line["outcome"].as_str(), Some("failed" | "warning" | "not reachable"));
        assert!(is_good, "{line:#}");
    }
    assert_eq!(code, 0, "{error}");
    lines.last().cloned().unwrap_or_default()
}

pub(crate) fn own_servers_pass(mcp: &Mcp) {
    let end = passes(mcp, "{}", &["--hostile", "--hostile-messages", "200"]);
    assert_eq!((&end["kind"], &end["identity"]), (&"end".into(), &"shop \u{202e} server 1.0.0".into()));
    assert!(end["outcomes"]["passed"].as_u64() > Some(50), "{end:#}");
}

pub(crate) fn own_servers_pass_over_http(mcp: &Mcp) {
    let bridge = Bridge::start(&[]);
    let end = passes(mcp, &bridge.url, &["--hostile"]);
    assert!(end["outcomes"]["passed"].as_u64() > Some(55), "{end:#}");
}

/// Judges this program as a client, which calls a tool. Returns the last line.
fn client_passes(mcp: &Mcp, server: &str) -> Value {
    let program = shell_words::quote(env!("CARGO_BIN_EXE_mcp")).into_owned();
    let client = format!("{program} call {server} echo 'message=\u{e4} b' --answer name=Ada --sample yes --root .");
    let (code, out, error) = mcp(&["check", "--client", &client, "--json", "--strict", "--quiet"]);
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for line in &lines {
        assert!(!matches!(line["outcome"].as_str(), Some("failed" | "warning")), "{line:#}");
    }
    assert_eq!(code, 0, "{error}");
    let end = lines.last().cloned().unwrap_or_default();
    assert!(end["identity"].as_str().is_some_and(|name| name.starts_with("mcp-cli ")), "{end:#}");
    end
}

pub(crate) fn own_clients_pass(mcp: &Mcp) {
    let end = client_passes(mcp, "{command}");
    assert!(end["outcomes"]["passed"].as_u64() > Some(25), "{end:#}");
}

pub(crate) fn own_clients_pass_over_http(mcp: &Mcp) {
    let end = client_passes(mcp, "{url}");
    assert!(end["outcomes"]["passed"].as_u64() > Some(35), "{end:#}");
}

/// A client that writes two messages and reads nothing.
#[cfg(unix)]
pub(crate) fn broken_rules_of_clients_are_shown() {
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"<b>"}}}"#;
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let client = format!(
        r#"sh -c "printf '%s\n' '{}' '{}' no | {{command}}""#,
        initialize.replace('"', "\\\""),
        initialized.replace('"', "\\\"")
    );
    let folder = Folder::new("check-client");
    let (page, junit) = (folder.file("a.html"), folder.file("a.xml"));
    let files = ["--html", page.to_str().expect("UTF-8"), "--junit", junit.to_str().expect("UTF-8")];
    let only = ["--only", "LIFE-003", "--only", "STDIO-008", "--only", "initialized", "--only", "http-accept"];
    let (code, out, error) = mcp(&[&["check", "--client", &client, "--timeout", "5"], &files[..], &only].concat());
    assert_eq!(code, 1, "{error}");
    for part in [
        "failed         initialized                    LIFE-006: notifications/initialized comes before the answer",
        "failed         initialize-params",
        "    LIFE-003: ",
        "the client sent: the name or the version is no text",
        "failed         stdin-messages",
        "a line is no message: no",
        "not applicable http-accept",
        "0 passed, 1 not applicable, 0 not reachable, 0 warning, 3 failed",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let page = fs::read_to_string(&page).expect("it is written");
    assert!(page.contains("default-src 'none'") && page.contains(">3 failed<"), "{page}");
    assert!(!page.contains("<b> ") && page.contains("&lt;b&gt;"), "{page}");
    let junit = fs::read_to_string(&junit).expect("it is written");
    assert!(junit.contains("tests=\"4\" failures=\"3\" errors=\"0\" skipped=\"1\""), "{junit}");
}

/// The client and what it has started have a process group of their own, so that Ctrl-C does not reach them.
#[cfg(unix)]
pub(crate) fn signals_end_the_client() {
    ends_on_a_signal(&["check", "--client", "sh -c 'echo started >&2; sleep 600; exit 1'", "--timeout", "600"]);
}

/// A server that responds to everything with a result.
#[cfg(unix)]
pub(crate) fn broken_rules_are_shown() {
    let answer = r#"{"jsonrpc":"2.0","id":\1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"<b>\\u000apassed","version":"1"}}}"#;
    let server = format!("sed -un 's/.*\"id\":\\([0-9]*\\).*/{answer}/p'");
    let folder = Folder::new("check");
    let (page, junit) = (folder.file("a.html"), folder.file("a.xml"));
    let files = ["--html", page.to_str().expect("UTF-8"), "--junit", junit.to_str().expect("UTF-8")];
    let only = ["--only", "unknown-method", "--only", "PING-003", "--only", "http-get", "--timeout", "5"];
    let (code, out, error) = mcp(&[&["check", &server], &files[..], &only].concat());
    assert_eq!(code, 1, "{error}");
    for part in [
        "failed         unknown-method",
        "    BASE-022: A request with a method which the receiver does not implement",
        r#"    > {"id":"#,
        r#"    < {"jsonrpc":"2.0""#,
        "failed         ping",
        "not applicable http-get",
        "<b>\u{fffd}passed 1 (2025-11-25): 0 passed, 1 not applicable, 0 not reachable, 0 warning, 2 failed",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let page = fs::read_to_string(&page).expect("it is written");
    assert!(
        page.contains("default-src 'none'")
            && page.contains(">2 failed<")
            && page.contains("&lt;b&gt;\u{fffd}passed 1"),
        "{page}"
    );
    assert!(!page.contains("<script") && !page.contains("<b> ") && !page.contains("src=\"http"), "{page}");
    let junit = fs::read_to_string(&junit).expect("it is written");
    assert!(junit.contains("tests=\"3\" failures=\"2\" errors=\"0\" skipped=\"1\""), "{junit}");
    assert_eq!(junit.matches("<failure message=").count(), 2, "{junit}");
}

/// The reader of the output is gone, as with `mcp check .. | head`.
#[cfg(unix)]
pub(crate) fn closed_outputs_hide_no_failure() {
    let folder = Folder::new("check-pipe");
    let junit = folder.file("a.xml");
    let server = r#"sed -un 's/.*"id":\([0-9]*\).*/{"jsonrpc":"2.0","id":\1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"a","version":"1"}}}/p'"#;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp"));
    command.args(["check", server, "--only", "unknown-method", "--junit"]).arg(&junit).stdout(Stdio::piped());
    let mut process = command.spawn().expect("it runs");
    drop(process.stdout.take());
    assert_eq!(process.wait().expect("it ends").code(), Some(1));
    assert!(fs::read_to_string(&junit).expect("it is written").contains("failures=\"1\""));
}

/// The server has a process group of its own, so that Ctrl-C does not reach it.
#[cfg(unix)]
pub(crate) fn signals_end_the_server() {
    ends_on_a_signal(&["check", "sh -c 'echo started >&2; exec sleep 600'", "--timeout", "600"]);
}

/// What a server or a client has started is ended with it. It has the error output of the check, which ends with it.
#[cfg(unix)]
pub(crate) fn nothing_that_was_started_outlives_a_check() {
    let starts = "sh -c 'sleep 60 >&2 & exit 1'";
    for peer in [&["check", starts][..], &["check", "--client", starts]] {
        let began = Instant::now();
        let (code, _, error) = mcp(&[peer, &["--timeout", "5"]].concat());
        assert_eq!(code, 3, "{error}");
        assert!(began.elapsed() < Duration::from_secs(40), "{peer:?}: {:?}", began.elapsed());
    }
}

/// Sends SIGINT to a check whose peer has started, and fails unless both end.
#[cfg(unix)]
fn ends_on_a_signal(arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp"));
    command.args(arguments);
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut errors = BufReader::new(process.stderr.take().expect("a pipe"));
    let mut line = String::new();
    errors.read_line(&mut line).expect("text");
    assert_eq!(line, "started\n");
    let signalled = Command::new("kill").args(["-INT", &process.id().to_string()]).status().expect("it runs");
    assert!(signalled.success());
    assert_eq!(process.wait().expect("it ends").code(), Some(130));
    // The server has this pipe, too: it ends with the server.
    line.clear();
    assert_eq!(errors.read_to_string(&mut line).expect("text"), 0);
}

pub(crate) fn wrong_checks() {
    let (code, out, _) = mcp(&["check", "--list", "--json"]);
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(code == 0 && lines.len() > 150, "{}", lines.len());
    for line in &lines {
        let rules = line["rules"].as_array().expect("rules");
        assert!(!rules.is_empty() && rules.iter().all(|rule| rule["text"] != ""), "{line}");
    }
    let (code, out, _) = mcp(&["check", "--client", "--list", "--json"]);
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(code == 0 && lines.len() > 100, "{}", lines.len());
    for line in &lines {
        let rules = line["rules"].as_array().expect("rules");
        assert!(line["party"] == "client" && rules.iter().all(|rule| rule["text"] != ""), "{line}");
    }
    let rows: [(&[&str], i32, &str); 18] = [
        (&["check"], 2, "required arguments were not provided"),
        (&["check", "--client"], 2, "the command of the client is empty"),
        (&["check", "--client", "'"], 2, "missing closing quote"),
        (&["check", "--client", "x", "--only", "tools-list"], 2, "there is no check `tools-list` of clients"),
        (&["check", "--client", "x", "{}"], 2, "cannot be used with"),
        (&["check", "--client", "x", "--hostile"], 2, "cannot be used with"),
        (&["check", "--client", "/no/such/program"], 3, "the client cannot be started"),
        (&["check-relay", "1", "0"], 3, "the process that judges is not there"),
        (&["check", "--client", env!("CARGO_BIN_EXE_mcp")], 3, "ends (exit code 2)"),
        (&["check", "{}", "--only", "nothing"], 2, "there is no check `nothing`"),
        (&["check", "{}", "--hostile-bytes", "5"], 2, "--hostile"),
        (&["check", "{}", "--only", "hostile-many"], 2, "`hostile-many` needs --hostile"),
        (&["check", "http://127.0.0.1:1/mcp", "--bearer", "a\nX-Other: b"], 2, "the token of --bearer has characters"),
        (&["check", "http://127.0.0.1:1/mcp", "--bearer", "a\n"], 3, "the server is not reached"),
        (&["check", "{}", "--timeout", "1e18"], 2, "not a number of seconds from 0 to a million"),
        (&["check", "http://user:secret@:1 /mcp"], 2, "mcp: the target is not the address of an HTTP server\n"),
        (&["check", "/no/such/program"], 3, "/no/such/program cannot be started"),
        (&["check", "http://127.0.0.1:1/mcp"], 3, "the server is not reached"),
    ];
    for (arguments, expected, why) in rows {
        let (code, out, error) = mcp(arguments);
        assert!(code == expected && out.is_empty() && error.contains(why), "{arguments:?}: {code} {out} {error}");
    }
}

/// Judges the handshake of a server that responds to `initialize` with these members first.
#[cfg(unix)]
fn judge_handshake(members: &str) -> (i32, String, String) {
    let result = format!(r#"{{{members}"capabilities":{{}},"serverInfo":{{"name":"a","version":"1"}}}}"#);
    let script = format!(
        r#"/"initialize"/{{s/.*"id":([0-9]+).*/{{"jsonrpc":"2.0","id":\1,"result":{result}}}/;p;d;}};{}"#,
        r#"s/.*"id":([0-9]+).*/{"jsonrpc":"2.0","id":\1,"error":{"code":-32601,"message":"no"}}/p"#
    );
    mcp(&["check", &format!("sed -unE '{script}'"), "--only", "initialize-result"])
}

#[cfg(unix)]
pub(crate) fn unknown_revisions_are_failures() {
    for members in ["", r#""protocolVersion":"1.0","#, r#""protocolVersion":7,"#] {
        let (code, out, error) = judge_handshake(members);
        assert!(code == 3 && out.contains("failed"), "{members}: {code} {out} {error}");
    }
    let (code, out, error) = judge_handshake(r#""protocolVersion":"2025-06-18","#);
    assert!(code == 0 && out.contains("1 passed"), "{code} {out} {error}");
}
