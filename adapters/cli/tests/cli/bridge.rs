//! Tests of `mcp bridge`.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::{Mcp, mcp, recorder::Folder, target};

/// How long a process may take until it listens.
const START: Duration = Duration::from_secs(60);

/// Starts a process that tells where it listens, and returns its address, too. Panics if it does not listen in time.
pub(crate) fn start_listening(command: Command) -> (Child, String) {
    start_within(command, START).unwrap_or_else(|output| panic!("it does not listen: {output:?}"))
}

/// Returns the error output of a process that ends, or does not listen in time.
fn start_within(mut command: Command, time: Duration) -> Result<(Child, String), Vec<String>> {
    let mut process = command.stderr(Stdio::piped()).spawn().expect("it runs");
    let lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
    let (sender, receiver) = mpsc::channel();
    // It reads to the end, so that the pipe does not fill up.
    thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
    let (deadline, mut output) = (Instant::now() + time, Vec::new());
    while let Ok(line) = receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        if let Some((_, url)) = line.split_once("listening at ") {
            return Ok((process, url.to_owned()));
        }
        output.push(line);
    }
    let _ = process.kill();
    let _ = process.wait();
    Err(output)
}

#[cfg(unix)]
pub(crate) fn a_process_that_does_not_listen_is_ended() {
    let began = Instant::now();
    let mut silent = Command::new("sh");
    silent.args(["-c", "echo a >&2; exec sleep 600"]);
    // The shell may need longer on a machine with other work.
    let output = start_within(silent, Duration::from_secs(5)).map(|(_, url)| url);
    assert_eq!(output, Err(vec!["a".to_owned()]));
    assert!(began.elapsed() < START, "{:?}", began.elapsed());
}

/// A bridge over HTTP that ends with the test.
pub(crate) struct Bridge {
    process: Child,
    pub(crate) url: String,
}

impl Bridge {
    pub(crate) fn start(more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcp"));
        command.args(["bridge", "--listen", "127.0.0.1:0", "--shared", "--"]);
        command.arg(env::current_exe().expect("a program")).arg("--serve").args(more);
        let (process, url) = start_listening(command);
        Self { process, url }
    }
}

impl Bridge {
    /// Kills the bridge, which has no time to end anything.
    pub(crate) fn kill(mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(Some(_))) {
            return;
        }
        // Not at once, so that the bridge ends its server.
        let ended = Command::new("kill").arg(self.process.id().to_string()).status();
        if !ended.is_ok_and(|status| status.success()) {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

/// Tries everything that a server offers through a bridge.
fn try_all(mcp: &Mcp, target: &str) {
    let (code, out, error) = mcp(&["list", target]);
    assert_eq!(code, 0, "{error}");
    for line in ["  echo: Returns a text", "  shop://terms", "  shop://users/{id}", "  greet"] {
        assert!(out.lines().any(|it| it == line), "{line}: {out}");
    }
    assert_eq!(mcp(&["call", target, "echo", "message=7", "times=2"]).1, "77\n");
    assert_eq!(mcp(&["read", target, "shop://users/7"]).1, "user 7\n");
    assert_eq!(mcp(&["prompt", target, "greet", "id=Ada"]).1, "user:\nHello Ada\n");
    assert_eq!(mcp(&["complete", target, "greet", "id", "a"]).1, "ada\nalan\n");
    let (_, out, error) = mcp(&["call", target, "sign.up", "--answer", "name=Ada"]);
    assert_eq!(out, "accept {\"name\":\"Ada\",\"news\":true}\n", "questions are carried: {error}");
    assert_eq!(mcp(&["call", target, "think", "--sample", "4"]).1, "4\n", "sampling is carried");
    let error = mcp(&["call", target, "work"]).2;
    for line in ["[warning worker] \"it begins\\u001b[2J\"", "50 % step", "100 % step"] {
        assert!(error.lines().any(|it| it == line), "{line}: {error}");
    }
    let (code, out, _) = mcp(&["call", target, "fail"]);
    assert_eq!((code, &*out), (1, "it is broken\n"));
}

pub(crate) fn carries_subscriptions(mcp: &Mcp) {
    let bridge = Bridge::start(&[]);
    let second = format!("{} bridge --quiet {}", env!("CARGO_BIN_EXE_mcp"), bridge.url);
    for (target, era) in [(&bridge.url, "legacy"), (&bridge.url, "modern"), (&second, "legacy"), (&second, "modern")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcp"));
        command.args(["subscribe", target, "shop://terms", "--count", "1", "--era", era]);
        let mut subscriber = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let mut lines = BufReader::new(subscriber.stderr.take().expect("a pipe")).lines();
        assert!(lines.any(|line| line.expect("text").contains("subscribed")), "{target} {era}");
        assert_eq!(mcp(&["call", &bridge.url, "touch"]).1, "touched\n");
        let output = subscriber.wait_with_output().expect("it ends");
        let out = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "{target} {era}");
        assert!(out.contains("notifications/resources/updated") && out.contains("shop://terms"), "{out}");
    }
}

pub(crate) fn carries_all_messages(mcp: &Mcp) {
    // A server over HTTP, and that one over standard input and output again.
    let bridge = Bridge::start(&[]);
    try_all(mcp, &bridge.url);
    let second = format!("{} bridge --quiet {}", env!("CARGO_BIN_EXE_mcp"), bridge.url);
    try_all(mcp, &second);
    // Until the server responds to them, cancelled calls may be the ones that a log message of the server is about. So
    // they come last.
    assert_eq!(mcp(&["call", &second, "wait", "--timeout", "1"]).0, 5);
    assert_eq!(mcp(&["call", &bridge.url, "wait", "--timeout", "1"]).0, 5);
    assert_eq!(mcp(&["call", &second, "echo", "message=x"]).1, "x\n");
}

#[cfg(unix)]
pub(crate) fn servers_are_restarted() {
    let bridge = Bridge::start(&[]);
    assert_eq!(mcp(&["call", &bridge.url, "ticket"]).1, "0\n");
    assert_eq!(mcp(&["call", &bridge.url, "ticket"]).1, "1\n", "both clients have one server");
    let parent = bridge.process.id().to_string();
    let children = Command::new("pgrep").args(["-P", &parent]).output().expect("it runs").stdout;
    let child = String::from_utf8(children).expect("text");
    assert!(Command::new("kill").args(["-9", child.trim()]).status().expect("it runs").success());
    // The first calls may find that the connection is gone.
    let restarted = (0..100).any(|_| mcp(&["call", &bridge.url, "ticket"]).1 == "0\n");
    assert!(restarted);
}

pub(crate) fn wrong_bridges() {
    let server = target("");
    let rows: [(&[&str], i32, &str); 12] = [
        (&["bridge"], 2, "required"),
        (&["bridge", "--listen", "127.0.0.1:0", &server], 2, "add --shared to allow it"),
        (&["bridge", "--shared", "--listen", "0.0.0.0:0", &server], 2, "it listens at loopback addresses only"),
        (&["bridge", "--shared", "--listen", "nonsense", &server], 2, "nonsense is no address with a port, such as"),
        (&["bridge", "--shared", "--listen", "127.0.0.1", &server], 2, "127.0.0.1 is no address with a port"),
        (&["bridge", "--era", "any", &server], 2, "--era: the bridge does not use it"),
        (&["bridge", "--timeout", "60", &server], 2, "--timeout: the bridge does not use it"),
        (&["bridge", "--answer", "a=b", &server], 2, "--answer: the bridge does not use it"),
        (&["bridge", "--sample", "a", "--root", ".", &server], 2, "--sample, --root: the bridge does not use it"),
        (&["--root", "/", "bridge", &server], 2, "--root: the bridge does not use it"),
        (&["bridge", "/no/such/program"], 3, "/no/such/program"),
        (&["bridge", "--shared", "--listen", "127.0.0.1:0", "true"], 3, "the server ended"),
    ];
    for (arguments, exit, why) in rows {
        let (code, out, error) = mcp(arguments);
        assert!(code == exit && out.is_empty() && error.contains(why), "{arguments:?}: {code} {out} {error}");
    }
}

#[cfg(unix)]
pub(crate) fn servers_that_do_not_end_are_ended() {
    let folder = Folder::new("bridge-end");
    let file = folder.file("pid");
    // The shell stays after the server has ended.
    let script = format!("echo $$ > {}; {}; sleep 600", file.display(), target(""));
    let mut bridge = Command::new(env!("CARGO_BIN_EXE_mcp"));
    // The client leaves at once.
    bridge.args(["bridge", "--quiet", "--", "sh", "-c", &script]).stdin(Stdio::null()).stdout(Stdio::null());
    assert!(bridge.status().expect("it runs").success());
    // The bridge has waited for its end.
    assert!(!kill(&fs::read_to_string(&file).expect("it was started")), "the server still runs");
}

/// Kills a process. Returns whether there was one.
#[cfg(unix)]
fn kill(process: &str) -> bool {
    let status = Command::new("kill").args(["-9", process.trim()]).stderr(Stdio::null()).status();
    status.expect("it runs").success()
}

#[cfg(unix)]
pub(crate) fn bridges_over_http_end_with_their_server() {
    let folder = Folder::new("bridge-gone");
    let file = folder.file("pid");
    let path = file.display();
    // The first shell stays after the server has ended, and no other one has a server.
    let script =
        format!("[ -e {path} ] && exit 1; trap '' TERM; echo $$ > {path}; {}; exec > /dev/null; sleep 600", target(""));
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp"));
    command.args(["bridge", "--listen", "127.0.0.1:0", "--shared", "--", "sh", "-c", &script]);
    let (mut bridge, url) = start_listening(command);
    assert_eq!(mcp(&["call", &url, "echo", "message=a"]).1, "a\n");
    let process = fs::read_to_string(&file).expect("it was started");
    let servers = Command::new("pgrep").args(["-P", process.trim()]).output().expect("it runs").stdout;
    assert!(kill(&String::from_utf8(servers).expect("text")), "the server runs");
    assert_eq!(bridge.wait().expect("it ends").code(), Some(3));
    assert!(!kill(&process), "the first shell still runs");
}
