//! Child processes: how they start, how they end, and that no process is left.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command as Start, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use mcp_driver::{Command, DriverOptions, Error, RestartPolicy};
use mcp_proto::{
    connection::{Backoff, CloseReason, Opening, Settings},
    protocol::{ProtocolVersion, VersionSet},
    schema::{CallToolResult, PingParams, SubscriptionFilter, ToolsListChangedParams},
};
use mcp_service::{CallError, Host};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::{
    LONG, SOON,
    adapter::{Adapter, Client, Supervisor},
    fixture::{FLAG, command, host, is_alive, note, program, read_note, shell, wait_dead},
    scenario::scenarios,
};

scenarios![
    // req: STDIO-001 STDIO-002
    arguments_reach_the_child_unchanged,
    // req: STDIO-001
    client_talks_to_its_child_in_each_revision,
    // req: STDIO-011
    child_exiting_on_eof_is_not_killed,
    // req: STDIO-012
    child_ignoring_eof_receives_sigterm,
    // A59
    // req: STDIO-013
    child_ignoring_sigterm_is_killed,
    // A59
    process_group_is_gone_after_close,
    // A59
    process_group_is_gone_after_drop,
    // A59
    process_group_is_gone_after_failed_handshake,
    // A60
    // req: STDIO-014 LIFE-041
    calls_fail_when_the_child_dies,
    // A60
    detects_death_of_an_idle_child,
    // A61
    // req: STDIO-009 STDIO-010
    large_stderr_output_does_not_block_the_child,
    // A36
    // req: LIFE-033
    spawn_errors_name_the_cause,
    // A36
    // req: M-STDIO-018 M-DUAL-005
    child_exiting_on_discover_is_restarted_once,
    // A36
    a_failing_program_is_started_at_most_twice,
    a_known_era_avoids_the_second_start,
    supervisor_restarts_an_exited_child,
    supervisor_stops_after_the_restart_budget,
    // req: M-STDIO-020 M-SUBS-020 M-DUAL-016
    subscriptions_are_restored_after_a_restart,
    // A59
    ctrl_c_leaves_no_orphan,
    // A59
    a_killed_client_leaves_no_orphan_process,
    // A59
    a_child_ends_its_own_children_before_it_is_killed,
    // A59
    a_child_is_ended_in_time_whatever_it_waits_for,
    // A59
    ctrl_c_ends_the_child_of_a_dropped_client,
    // A59
    no_server_is_started_again_while_a_signal_ends_the_client,
];

fn child_exiting_on_discover_is_restarted_once<A: Adapter>() {
    for status in ["0", "3"] {
        let note = note::<A>(&format!("exits-unless-initialized-{status}"));
        let said = Arc::new(AtomicUsize::new(0));
        let received = said.clone();
        let exits_unless_initialized =
            command::<A>("exits_unless_initialized").arg(&note).arg(status).on_stderr(move |line| {
                assert_eq!(line, "unexpected server/discover");
                received.fetch_add(1, Ordering::SeqCst);
            });
        let client = A::spawn(exits_unless_initialized, &host()).expect("it is a server");
        assert_eq!(client.version(), Some(ProtocolVersion::V2025_06_18));
        assert_eq!(fs::read_to_string(&note).expect("it was noted"), "server/discover\ninitialize\n");
        assert_eq!(said.load(Ordering::SeqCst), 1);
        assert!(client.close().exit.expect("it was a child").success());
    }
}

fn a_failing_program_is_started_at_most_twice<A: Adapter>() {
    let starts = note::<A>("starts");
    let script = format!("echo start >>{}; exec \"$@\"", starts.display());
    let error = A::spawn(shell::<A>(&script, "usage"), &host()).expect_err("this is no server");
    assert_eq!(fs::read_to_string(&starts).expect("it was started"), "start\nstart\n");
    let Error::Handshake(ending) = error else { panic!("{error:?}") };
    assert_eq!(ending.exit.expect("it was a child").stderr, ["usage: fixture FILE"]);
    assert_eq!(ending.next_opening, None);
}

fn a_known_era_avoids_the_second_start<A: Adapter>() {
    let noted = note::<A>("known");
    let exits_unless_initialized = || command::<A>("exits_unless_initialized").arg(&noted).arg("3");
    let era =
        A::spawn(exits_unless_initialized(), &host()).expect("it is a server").version().map(ProtocolVersion::era);
    fs::remove_file(&noted).expect("it was noted");
    let options = DriverOptions { opening: Opening::known(era.expect("it is known")), ..DriverOptions::default() };
    let client = A::spawn_with(exits_unless_initialized(), &host(), &options).expect("it is a server");
    assert_eq!(fs::read_to_string(&noted).expect("it was noted"), "initialize\n");
    client.close();
    // The cached era is also used for another program, which supports both eras.
    let client = A::spawn_with(command::<A>("server"), &host(), &options).expect("it is a server");
    assert_eq!(client.version(), Some(ProtocolVersion::LATEST_LEGACY));
}

fn supervisor_restarts_an_exited_child<A: Adapter>() {
    let supervisor = A::supervise(command::<A>("server"), &host(), RestartPolicy::default());
    let first = supervisor.client().expect("it is a server");
    let pid = call(&first, "pid");
    assert_eq!(call(&supervisor.client().expect("it runs"), "pid"), pid);
    assert!(first.call_tool("die", ()).expect("it is sent").wait().is_err());
    // Concurrent callers get the same server.
    let pids: Vec<_> = thread::scope(|scope| {
        let calls: Vec<_> = (0..4).map(|_| scope.spawn(|| call(&supervisor.client().expect("again"), "pid"))).collect();
        calls.into_iter().map(|call| call.join().expect("no panic")).collect()
    });
    assert!(pids.iter().all(|other| *other == pids[0] && *other != pid), "{pids:?}");
    assert!(first.call_tool("pid", ()).is_err(), "the first one has ended");
}

fn subscriptions_are_restored_after_a_restart<A: Adapter>() {
    let (notify, received) = mpsc::channel();
    let host = Host::builder("test", "1")
        .on(move |_: ToolsListChangedParams, _| notify.send(()).expect("a waiting test"))
        .build();
    let supervisor = A::supervise(command::<A>("server"), &host, RestartPolicy::default());
    let first = supervisor.client().expect("it is a server");
    assert_eq!(first.version(), Some(ProtocolVersion::V2026_07_28));
    let filter = SubscriptionFilter { tools_list_changed: Some(true), ..SubscriptionFilter::default() };
    let listening = first.listen(filter.clone()).expect("it is sent").wait().expect("it is acknowledged");
    call(&first, "grow");
    received.recv_timeout(LONG).expect("it was told");
    assert!(first.call_tool("die", ()).expect("it is sent").wait().is_err());
    first.wait();
    assert!(listening.agreed().is_none() && !listening.is_over());
    let second = supervisor.client().expect("it is started again");
    // The acknowledgement and the responses of handlers come in any order, so the test polls for it.
    let until = Instant::now() + LONG;
    while listening.agreed().is_none() {
        assert!(Instant::now() < until, "it was never acknowledged");
        call(&second, "pid");
    }
    assert_eq!(listening.agreed(), Some(filter));
    call(&second, "grow");
    received.recv_timeout(LONG).expect("it was told");
}

fn supervisor_stops_after_the_restart_budget<A: Adapter>() {
    let mut policy = RestartPolicy::default();
    policy.budget = 2;
    policy.backoff = Backoff { initial: Duration::from_millis(1), max: Duration::from_millis(2) };
    let supervisor = A::supervise(command::<A>("server"), &host(), policy);
    for _ in 0..3 {
        let client = supervisor.client().expect("it is started");
        assert!(client.call_tool("die", ()).expect("it is sent").wait().is_err());
    }
    let error = supervisor.client().expect_err("that is too often");
    assert!(matches!(&error, Error::GivenUp(why) if matches!(**why, Error::Closed(_))), "{error:?}");
    assert!(error.to_string().contains("SIGABRT"), "{error}");
    // A program that cannot be started is not restarted.
    let error = A::supervise(Command::new("/no/such/program"), &host(), RestartPolicy::default())
        .client()
        .expect_err("there is none");
    assert!(matches!(error, Error::Spawn { .. }));
}

const SHORT: Duration = Duration::from_millis(200);

fn text(result: Result<CallToolResult, CallError>) -> String {
    let result = result.expect("it is answered");
    result.content[0].as_text().expect("it is a text").to_owned()
}

fn call(client: &impl Client, tool: &str) -> String {
    text(client.call_tool(tool, ()).expect("it is sent").wait())
}

fn arguments_reach_the_child_unchanged<A: Adapter>() {
    let strange = ["", "a b", "$HOME", "`id`", "; rm -rf /", "\"'\\", "*", "ü\n"];
    let command = command::<A>("server").args(strange).env("FIXTURE", "a $b").current_dir("/").env_remove("HOME");
    let client = A::spawn(command, &host()).expect("it is a server");
    assert_eq!(call(&client, "args"), strange.join("|"));
    assert_eq!(call(&client, "env"), "a $b");
    assert_eq!(call(&client, "dir"), "/");
    assert_eq!(client.introduction().server_info.name, "fixture");
}

fn client_talks_to_its_child_in_each_revision<A: Adapter>() {
    for version in ProtocolVersion::LEGACY {
        let host = Host::builder("test", "1").versions(VersionSet::only(version)).build();
        let client = A::spawn(command::<A>("server").args([version.as_str()]), &host).expect("it is a server");
        assert_eq!(client.version(), Some(version));
        assert_eq!(call(&client, "args"), version.as_str());
        assert!(client.close().exit.expect("it was a child").success(), "{version}");
    }
}

fn child_exiting_on_eof_is_not_killed<A: Adapter>() {
    let client = A::spawn(command::<A>("server"), &host()).expect("it is a server");
    let start = Instant::now();
    let ending = client.close();
    assert_eq!(ending.reason, CloseReason::Local);
    assert!(ending.exit.expect("it was a child").success());
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

fn child_ignoring_eof_receives_sigterm<A: Adapter>() {
    let client = A::spawn(command::<A>("ignores_eof").shutdown_timeouts(SHORT, LONG), &host()).expect("it is a server");
    client.request(&PingParams::default()).expect("it is sent").wait().expect("it is answered");
    let start = Instant::now();
    let exit = client.close().exit.expect("it was a child");
    assert!(exit.to_string().starts_with("signal: 15 (SIGTERM)"), "{exit}");
    assert_eq!(exit.stderr, ["input has ended"]);
    assert!(start.elapsed() >= SHORT && start.elapsed() < SOON, "{:?}", start.elapsed());
}

fn child_ignoring_sigterm_is_killed<A: Adapter>() {
    let command = shell::<A>("trap '' TERM; exec \"$@\"", "ignores_eof").shutdown_timeouts(SHORT, SHORT);
    let client = A::spawn(command, &host()).expect("it is a server");
    let start = Instant::now();
    let exit = client.close().exit.expect("it was a child");
    assert!(exit.to_string().starts_with("signal: 9 (SIGKILL)"), "{exit}");
    assert!(start.elapsed() >= 2 * SHORT && start.elapsed() < SOON, "{:?}", start.elapsed());
}

/// A shell between client and server that ignores SIGTERM, with a background process.
fn wrapper<A: Adapter>(note: &Path, role: &str) -> Command {
    let script = format!("trap '' TERM; sleep 1000 & echo $! $$ >{}; \"$@\"; exit $?", note.display());
    shell::<A>(&script, role).shutdown_timeouts(SHORT, SHORT)
}

fn process_group_is_gone_after_close<A: Adapter>() {
    group_after::<A>("close", true, |client| drop(client.close()));
}

fn process_group_is_gone_after_drop<A: Adapter>() {
    group_after::<A>("drop", A::DROP_WAITS, drop);
}

/// Ends a connection. All of its processes are gone then, or soon after.
fn group_after<A: Adapter>(name: &str, at_once: bool, end: impl FnOnce(A::Client)) {
    let note = note::<A>(name);
    let client = A::spawn(wrapper::<A>(&note, "server"), &host()).expect("it is a server");
    let server = call(&client, "pid");
    let others = read_note(&note);
    let pids: Vec<&str> = others.split(' ').chain([server.as_str()]).collect();
    assert!(pids.len() == 3 && pids.iter().all(|pid| is_alive(pid)), "{pids:?}");
    let start = Instant::now();
    end(client);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    for pid in pids {
        if !at_once {
            wait_dead(pid);
        }
        assert!(!is_alive(pid), "{pid} of {others} and {server} is left");
    }
}

fn process_group_is_gone_after_failed_handshake<A: Adapter>() {
    let note = note::<A>("failure");
    let error = A::spawn(wrapper::<A>(&note, "usage"), &host()).expect_err("it is no server");
    assert!(matches!(error, Error::Handshake(_)), "{error}");
    let others = read_note(&note);
    assert!(others.split(' ').all(|pid| !is_alive(pid)), "something of {others} is left");
}

fn calls_fail_when_the_child_dies<A: Adapter>() {
    death::<A>(true);
}

fn detects_death_of_an_idle_child<A: Adapter>() {
    death::<A>(false);
}

fn death<A: Adapter>(pending: bool) {
    let client = A::spawn(command::<A>("server"), &host()).expect("it is a server");
    let pid = call(&client, "pid");
    let calls: Vec<_> =
        (0..if pending { 10 } else { 0 }).map(|_| client.call_tool("wait", ()).expect("sent")).collect();
    let start;
    if pending {
        start = Instant::now();
        let last = client.call_tool("die", ()).expect("it is sent");
        assert!(matches!(last.wait(), Err(CallError::Closed(_))));
    } else {
        start = Instant::now();
        kill_process(Pid::from_raw(pid.parse().expect("a number")).expect("not 0"), Signal::KILL).expect("it is there");
    }
    for call in calls {
        let error = call.wait().expect_err("no server to answer");
        let said = error.to_string();
        assert!(said.contains("signal: 6 (SIGABRT)") && said.contains("the last words"), "{said}");
    }
    // The end is reported without a call.
    let reason = client.closed().wait();
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    assert!(matches!(reason, CloseReason::TransportError(_)), "{reason}");
    let ending = client.close();
    let signal = if pending { "signal: 6" } else { "signal: 9" };
    assert!(ending.exit.as_ref().expect("it was a child").to_string().starts_with(signal), "{ending}");
    assert!(ending.to_string().contains(signal), "{ending}");
    assert!(client.request(&PingParams::default()).is_err());
}

fn large_stderr_output_does_not_block_the_child<A: Adapter>() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let command = command::<A>("server").on_stderr(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let client = A::spawn(command, &host()).expect("it is a server");
    // More than ten megabytes, which no pipe holds.
    assert_eq!(call(&client, "chatter"), "said");
    let exit = client.close().exit.expect("it was a child");
    assert!(exit.success(), "{exit}");
    assert_eq!(count.load(Ordering::Relaxed), 200_000);
    assert!(exit.stderr.last().expect("the last lines are kept").starts_with("line 199999"));
    assert!(exit.stderr.iter().map(String::len).sum::<usize>() <= 16 * 1024);

    for quiet in [Command::discard_stderr, Command::inherit_stderr] {
        let client = A::spawn(quiet(crate::fixture::command::<A>("server")), &host()).expect("it is a server");
        assert_eq!(client.close().exit.expect("it was a child").stderr, [""; 0]);
    }
}

fn spawn_errors_name_the_cause<A: Adapter>() {
    let error = A::spawn(command::<A>("usage"), &host()).expect_err("it is no server");
    let said = error.to_string();
    assert!(said.contains("exit status: 2") && said.contains("usage: fixture FILE"), "{said}");

    let error = A::spawn(Command::new("/no/such/program"), &host()).expect_err("there is none");
    assert!(matches!(&error, Error::Spawn { program, .. } if program == "/no/such/program"), "{error:?}");
    assert!(error.to_string().contains("/no/such/program"), "{error}");

    // The program starts, and writes nothing.
    let settings = Settings { handshake_timeout: SHORT, ..Settings::default() };
    let short_drain = Host::builder("test", "1").settings(settings).build();
    let start = Instant::now();
    let silent = Command::new("sleep").arg("1000").shutdown_timeouts(SHORT, SHORT);
    let error = A::spawn(silent, &short_drain).expect_err("it is no server");
    assert!(matches!(&error, Error::Handshake(ending) if ending.reason == CloseReason::HandshakeTimeout), "{error}");
    assert!(error.to_string().contains("SIGTERM"), "{error}");
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

/// Returns whether a process is alive, and kills it then.
fn end_if_left(process: &str) -> bool {
    let is_left = is_alive(process);
    if is_left {
        let id = Pid::from_raw(process.parse().expect("a number")).expect("not 0");
        kill_process(id, Signal::KILL).expect("it is there");
    }
    is_left
}

fn a_child_ends_its_own_children_before_it_is_killed<A: Adapter>() {
    let group = note::<A>("chain");
    // With the default periods, a process takes four seconds for a child that ignores all but SIGKILL. It has three.
    let script = format!("trap '' TERM; echo $$ >{}; \"$@\"; exec sleep 1000", group.display());
    let proxy = command::<A>("proxy").args(["sh", "-c", &script, "sh"]).arg(program());
    let proxy = proxy.args([FLAG, A::NAME, "server"]).shutdown_timeouts(Duration::ZERO, Duration::from_secs(3));
    let client = A::spawn(proxy, &host()).expect("it is a server");
    let shell = read_note(&group);
    assert!(is_alive(&shell));
    let exit = client.close().exit.expect("it was a child");
    let is_left = end_if_left(&shell);
    assert!(!is_left, "its child is left after {exit}");
    assert_eq!(exit.status.and_then(|status| status.code()), Some(143), "{exit}");
}

fn a_child_is_ended_in_time_whatever_it_waits_for<A: Adapter>() {
    for hinders in ["asks", "stops"] {
        let group = note::<A>(hinders);
        // With the usual time to drain the connection, it would be killed after more than five seconds.
        let script = format!("trap '' TERM; echo $$ >{}; exec \"$@\"", group.display());
        let proxy = command::<A>(&format!("proxy_{hinders}")).args(["sh", "-c", &script, "sh"]).arg(program());
        let proxy = proxy.args([FLAG, A::NAME, "hinders_the_end", hinders]);
        let proxy = proxy.shutdown_timeouts(Duration::ZERO, Duration::from_secs(4));
        let client = A::spawn(proxy, &host()).expect("it is a server");
        let child = read_note(&group);
        assert!(is_alive(&child));
        let exit = client.close().exit.expect("it was a child");
        let is_left = end_if_left(&child);
        assert!(!is_left, "its child, which {hinders}, is left after {exit}");
    }
}

fn ctrl_c_leaves_no_orphan<A: Adapter>() {
    client_gets::<A>(Signal::INT);
}

fn a_killed_client_leaves_no_orphan_process<A: Adapter>() {
    client_gets::<A>(Signal::KILL);
}

/// A client with a server behind a shell gets a signal. Neither process is left.
fn client_gets<A: Adapter>(signal: Signal) {
    let number = signal.as_raw();
    let group = note::<A>(&format!("server-{number}"));
    let script = format!("echo $$ >{}; \"$@\"; exit $?", group.display());
    let mut client = Start::new(program())
        .args([FLAG, A::NAME, "client"])
        .args(["sh", "-c", &script, "sh"])
        .arg(program())
        .args([FLAG, A::NAME, "server"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program can be started");
    let mut line = String::new();
    BufReader::new(client.stdout.take().expect("piped")).read_line(&mut line).expect("it says something");
    assert_eq!(line, "connected\n");
    let shell = read_note(&group);
    assert!(is_alive(&shell));
    kill_process(Pid::from_child(&client), signal).expect("it is there");
    let status = client.wait().expect("it is our child");
    wait_dead(&shell);
    if signal == Signal::INT {
        assert_eq!(status.code(), Some(130));
    }
}

fn no_server_is_started_again_while_a_signal_ends_the_client<A: Adapter>() {
    assert_eq!(left_after_interrupt::<A>("supervisor", "connected"), (Vec::new(), 1));
}

fn ctrl_c_ends_the_child_of_a_dropped_client<A: Adapter>() {
    assert_eq!(left_after_interrupt::<A>("drops_client", "dropped"), (Vec::new(), 1));
}

/// Runs a client in this role. It gets SIGINT soon after it has printed a line. Returns which of its servers, which
/// ignore all but SIGKILL, are left, and how many there were.
fn left_after_interrupt<A: Adapter>(role: &str, expected: &str) -> (Vec<String>, usize) {
    let groups = note::<A>(role);
    let script = format!("trap '' TERM; echo $$ >>{}; \"$@\"; exec sleep 1000", groups.display());
    let mut client = Start::new(program())
        .args([FLAG, A::NAME, role, "sh", "-c", &script, "sh"])
        .arg(program())
        .args([FLAG, A::NAME, "server"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program can be started");
    let mut line = String::new();
    let mut output = BufReader::new(client.stdout.take().expect("piped"));
    output.read_line(&mut line).expect("it says something");
    assert_eq!(line.trim_end(), expected);
    thread::sleep(SHORT);
    kill_process(Pid::from_child(&client), Signal::INT).expect("it is there");
    let status = client.wait().expect("it is our child");
    let groups = read_note(&groups);
    let left: Vec<String> = groups.lines().filter(|group| is_alive(group)).map(str::to_owned).collect();
    for group in &left {
        let group = Pid::from_raw(group.parse().expect("a number")).expect("not 0");
        kill_process_group(group, Signal::KILL).expect("it is there");
    }
    assert_eq!(status.code(), Some(130));
    (left, groups.lines().count())
}
