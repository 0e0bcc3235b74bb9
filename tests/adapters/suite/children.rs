//! Children: how they begin, how they end, and that nothing is left of them.

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
    time::{Duration, Instant},
};

use mcp_driver::{Command, DriverOptions, Error, RestartPolicy};
use mcp_proto::{
    connection::{Backoff, CloseReason, Opening, Settings},
    protocol::{ProtocolVersion, VersionSet},
    schema::{CallToolResult, PingParams, SubscriptionFilter, ToolsListChangedParams},
};
use mcp_service::{CallError, Host};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    LONG, SOON,
    adapter::{Adapter, Client, Supervisor},
    fixture::{FLAG, command, host, is_alive, note, program, read_note, shell, wait_dead},
    scenario::scenarios,
};

scenarios![
    // req: STDIO-001 STDIO-002
    a_program_gets_its_arguments_as_they_are,
    // req: STDIO-001
    a_client_uses_the_standard_streams_of_its_child_in_each_revision,
    // req: STDIO-011
    a_server_that_ends_with_its_input_is_not_killed,
    // req: STDIO-012
    a_server_that_ignores_the_end_of_its_input_is_told_to_end,
    // A59
    // req: STDIO-013
    a_server_that_ignores_that_as_well_is_killed,
    // A59
    nothing_is_left_of_a_group_after_close,
    // A59
    nothing_is_left_of_a_group_after_drop,
    // A59
    nothing_is_left_of_a_group_after_a_handshake_that_failed,
    // A60
    // req: STDIO-014 LIFE-041
    a_server_that_dies_fails_its_calls_with_what_is_known,
    // A60
    a_server_that_is_killed_while_idle_is_noticed,
    // A61
    // req: STDIO-009 STDIO-010
    a_server_can_say_a_lot_on_standard_error,
    // A36
    // req: LIFE-033
    a_program_that_is_no_server_says_why,
    // A36
    // req: M-STDIO-018 M-DUAL-005
    a_server_that_leaves_when_it_is_asked_is_started_once_more,
    // A36
    a_program_that_is_no_server_is_started_twice_at_most,
    what_is_known_of_a_server_saves_the_second_start,
    a_server_that_ends_is_started_again,
    a_server_that_ends_too_often_is_given_up,
    // req: M-STDIO-020 M-SUBS-020 M-DUAL-016
    what_was_listened_to_is_listened_to_when_the_server_is_started_again,
    // A59
    ctrl_c_leaves_no_orphan,
    // A59
    a_client_that_is_killed_leaves_no_orphan,
];

fn a_server_that_leaves_when_it_is_asked_is_started_once_more<A: Adapter>() {
    for status in ["0", "3"] {
        let note = note::<A>(&format!("touchy-{status}"));
        let said = Arc::new(AtomicUsize::new(0));
        let heard = said.clone();
        let touchy = command::<A>("touchy").arg(&note).arg(status).on_stderr(move |line| {
            assert_eq!(line, "unexpected server/discover");
            heard.fetch_add(1, Ordering::SeqCst);
        });
        let client = A::spawn(touchy, &host()).expect("it is a server");
        assert_eq!(client.version(), Some(ProtocolVersion::V2025_06_18));
        assert_eq!(fs::read_to_string(&note).expect("it was noted"), "server/discover\ninitialize\n");
        assert_eq!(said.load(Ordering::SeqCst), 1);
        assert!(client.close().exit.expect("it was a child").success());
    }
}

fn a_program_that_is_no_server_is_started_twice_at_most<A: Adapter>() {
    let starts = note::<A>("starts");
    let script = format!("echo start >>{}; exec \"$@\"", starts.display());
    let error = A::spawn(shell::<A>(&script, "usage"), &host()).expect_err("this is no server");
    assert_eq!(fs::read_to_string(&starts).expect("it was started"), "start\nstart\n");
    let Error::Handshake(ending) = error else { panic!("{error:?}") };
    assert_eq!(ending.exit.expect("it was a child").stderr, ["usage: fixture FILE"]);
    assert_eq!(ending.next_opening, None);
}

fn what_is_known_of_a_server_saves_the_second_start<A: Adapter>() {
    let noted = note::<A>("known");
    let touchy = || command::<A>("touchy").arg(&noted).arg("3");
    let era = A::spawn(touchy(), &host()).expect("it is a server").version().map(ProtocolVersion::era);
    fs::remove_file(&noted).expect("it was noted");
    let options = DriverOptions { opening: Opening::known(era.expect("it is known")), ..DriverOptions::default() };
    let client = A::spawn_with(touchy(), &host(), &options).expect("it is a server");
    assert_eq!(fs::read_to_string(&noted).expect("it was noted"), "initialize\n");
    client.close();
    // It has become another one meanwhile.
    let client = A::spawn_with(command::<A>("server"), &host(), &options).expect("it is a server");
    assert_eq!(client.version(), Some(ProtocolVersion::LATEST_LEGACY));
}

fn a_server_that_ends_is_started_again<A: Adapter>() {
    let supervisor = A::supervise(command::<A>("server"), &host(), RestartPolicy::default());
    let first = supervisor.client().expect("it is a server");
    let pid = call(&first, "pid");
    assert_eq!(call(&supervisor.client().expect("it runs"), "pid"), pid);
    assert!(first.call_tool("die", ()).expect("it is sent").wait().is_err());
    // Those who want it at the same time get the same one.
    let pids: Vec<_> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..4).map(|_| scope.spawn(|| call(&supervisor.client().expect("again"), "pid"))).collect();
        calls.into_iter().map(|call| call.join().expect("no panic")).collect()
    });
    assert!(pids.iter().all(|other| *other == pids[0] && *other != pid), "{pids:?}");
    assert!(first.call_tool("pid", ()).is_err(), "the first one has ended");
}

fn what_was_listened_to_is_listened_to_when_the_server_is_started_again<A: Adapter>() {
    let (tell, heard) = mpsc::channel();
    let host = Host::builder("test", "1")
        .on(move |_: ToolsListChangedParams, _| tell.send(()).expect("a waiting test"))
        .build();
    let supervisor = A::supervise(command::<A>("server"), &host, RestartPolicy::default());
    let first = supervisor.client().expect("it is a server");
    assert_eq!(first.version(), Some(ProtocolVersion::V2026_07_28));
    let filter = SubscriptionFilter { tools_list_changed: Some(true), ..SubscriptionFilter::default() };
    let listening = first.listen(filter.clone()).expect("it is sent").wait().expect("it is acknowledged");
    call(&first, "grow");
    heard.recv_timeout(LONG).expect("it was told");
    assert!(first.call_tool("die", ()).expect("it is sent").wait().is_err());
    first.wait();
    assert!(listening.agreed().is_none() && !listening.is_over());
    let second = supervisor.client().expect("it is started again");
    // The acknowledgement and the answers of handlers come in any order, so this asks until it is there.
    let until = Instant::now() + LONG;
    while listening.agreed().is_none() {
        assert!(Instant::now() < until, "it was never acknowledged");
        call(&second, "pid");
    }
    assert_eq!(listening.agreed(), Some(filter));
    call(&second, "grow");
    heard.recv_timeout(LONG).expect("it was told");
}

fn a_server_that_ends_too_often_is_given_up<A: Adapter>() {
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
    // What cannot be started in the first place is not tried again.
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

fn a_program_gets_its_arguments_as_they_are<A: Adapter>() {
    let strange = ["", "a b", "$HOME", "`id`", "; rm -rf /", "\"'\\", "*", "ü\n"];
    let command = command::<A>("server").args(strange).env("FIXTURE", "a $b").current_dir("/").env_remove("HOME");
    let client = A::spawn(command, &host()).expect("it is a server");
    assert_eq!(call(&client, "args"), strange.join("|"));
    assert_eq!(call(&client, "env"), "a $b");
    assert_eq!(call(&client, "dir"), "/");
    assert_eq!(client.introduction().server_info.name, "fixture");
}

fn a_client_uses_the_standard_streams_of_its_child_in_each_revision<A: Adapter>() {
    for version in ProtocolVersion::LEGACY {
        let host = Host::builder("test", "1").versions(VersionSet::only(version)).build();
        let client = A::spawn(command::<A>("server").args([version.as_str()]), &host).expect("it is a server");
        assert_eq!(client.version(), Some(version));
        assert_eq!(call(&client, "args"), version.as_str());
        assert!(client.close().exit.expect("it was a child").success(), "{version}");
    }
}

fn a_server_that_ends_with_its_input_is_not_killed<A: Adapter>() {
    let client = A::spawn(command::<A>("server"), &host()).expect("it is a server");
    let start = Instant::now();
    let ending = client.close();
    assert_eq!(ending.reason, CloseReason::Local);
    assert!(ending.exit.expect("it was a child").success());
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

fn a_server_that_ignores_the_end_of_its_input_is_told_to_end<A: Adapter>() {
    let client = A::spawn(command::<A>("stubborn").shutdown_timeouts(SHORT, LONG), &host()).expect("it is a server");
    client.request(&PingParams::default()).expect("it is sent").wait().expect("it is answered");
    let start = Instant::now();
    let exit = client.close().exit.expect("it was a child");
    assert!(exit.to_string().starts_with("signal: 15 (SIGTERM)"), "{exit}");
    assert_eq!(exit.stderr, ["input has ended"]);
    assert!(start.elapsed() >= SHORT && start.elapsed() < SOON, "{:?}", start.elapsed());
}

fn a_server_that_ignores_that_as_well_is_killed<A: Adapter>() {
    let command = shell::<A>("trap '' TERM; exec \"$@\"", "stubborn").shutdown_timeouts(SHORT, SHORT);
    let client = A::spawn(command, &host()).expect("it is a server");
    let start = Instant::now();
    let exit = client.close().exit.expect("it was a child");
    assert!(exit.to_string().starts_with("signal: 9 (SIGKILL)"), "{exit}");
    assert!(start.elapsed() >= 2 * SHORT && start.elapsed() < SOON, "{:?}", start.elapsed());
}

/// A shell that is in the way, and something in the background that does not want to end.
fn wrapper<A: Adapter>(note: &Path, role: &str) -> Command {
    let script = format!("trap '' TERM; sleep 1000 & echo $! $$ >{}; \"$@\"; exit $?", note.display());
    shell::<A>(&script, role).shutdown_timeouts(SHORT, SHORT)
}

fn nothing_is_left_of_a_group_after_close<A: Adapter>() {
    group_after::<A>("close", true, |client| drop(client.close()));
}

fn nothing_is_left_of_a_group_after_drop<A: Adapter>() {
    group_after::<A>("drop", A::DROP_WAITS, drop);
}

/// Ends a connection; all that belongs to it is gone after that, or soon.
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

fn nothing_is_left_of_a_group_after_a_handshake_that_failed<A: Adapter>() {
    let note = note::<A>("failure");
    let error = A::spawn(wrapper::<A>(&note, "usage"), &host()).expect_err("it is no server");
    assert!(matches!(error, Error::Handshake(_)), "{error}");
    let others = read_note(&note);
    assert!(others.split(' ').all(|pid| !is_alive(pid)), "something of {others} is left");
}

fn a_server_that_dies_fails_its_calls_with_what_is_known<A: Adapter>() {
    death::<A>(true);
}

fn a_server_that_is_killed_while_idle_is_noticed<A: Adapter>() {
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
    // No call is made; it is noticed all the same.
    let reason = client.closed().wait();
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    assert!(matches!(reason, CloseReason::TransportError(_)), "{reason}");
    let ending = client.close();
    let signal = if pending { "signal: 6" } else { "signal: 9" };
    assert!(ending.exit.as_ref().expect("it was a child").to_string().starts_with(signal), "{ending}");
    assert!(ending.to_string().contains(signal), "{ending}");
    assert!(client.request(&PingParams::default()).is_err());
}

fn a_server_can_say_a_lot_on_standard_error<A: Adapter>() {
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

fn a_program_that_is_no_server_says_why<A: Adapter>() {
    let error = A::spawn(command::<A>("usage"), &host()).expect_err("it is no server");
    let said = error.to_string();
    assert!(said.contains("exit status: 2") && said.contains("usage: fixture FILE"), "{said}");

    let error = A::spawn(Command::new("/no/such/program"), &host()).expect_err("there is none");
    assert!(matches!(&error, Error::Spawn { program, .. } if program == "/no/such/program"), "{error:?}");
    assert!(error.to_string().contains("/no/such/program"), "{error}");

    // It starts, and says nothing.
    let settings = Settings { handshake_timeout: SHORT, ..Settings::default() };
    let hasty = Host::builder("test", "1").settings(settings).build();
    let start = Instant::now();
    let silent = Command::new("sleep").arg("1000").shutdown_timeouts(SHORT, SHORT);
    let error = A::spawn(silent, &hasty).expect_err("it is no server");
    assert!(matches!(&error, Error::Handshake(ending) if ending.reason == CloseReason::HandshakeTimeout), "{error}");
    assert!(error.to_string().contains("SIGTERM"), "{error}");
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

fn ctrl_c_leaves_no_orphan<A: Adapter>() {
    client_gets::<A>(Signal::INT);
}

fn a_client_that_is_killed_leaves_no_orphan<A: Adapter>() {
    client_gets::<A>(Signal::KILL);
}

/// A client that has connected to a server behind a shell gets a signal; neither of them is left.
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
