//! Clients of several processes that share their sessions, while the processes are ended in turn and started again: see
//! `tests/cluster/run`.
//!
//! ```text
//! cluster URL SESSIONS SECONDS KILL|TERM SERVER-COMMAND...
//! ```
//!
//! `URL` is that of the proxy. `KILL` or `TERM` is the signal that ends the processes. Each `SERVER-COMMAND` is the
//! command line of one process. Half of the clients speak 2025-11-25 and have a session, the others speak 2026-07-28,
//! and every fourth of their calls becomes a task. Every response is compared with what it must be. A call is lost if
//! it has neither a response nor an error but that of the client's own timeout.
//!
//! A process that gets `TERM` responds to all requests that it has, and waits for its tasks. A request that arrives
//! while it closes its connection has no response, and the proxy reports 502: no other failure is allowed then.
//!
//! Exit status: 0 no call is lost and all responses are right, and after `TERM` no call has failed in another way than
//! with 502; 1 otherwise.

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    io::{self, BufRead, BufReader, Write},
    process::{Child, Command, ExitCode, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use mcp_proto::protocol::{ProtocolVersion, VersionSet};
use mcp_service::{CallError, Host};
use mcp_tokio::Client;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::{
    task::spawn_blocking,
    time::{sleep, timeout},
};

/// The time after which a call is lost. It is longer than all timeouts of clients.
const LONGEST: Duration = Duration::from_secs(90);

/// How calls may fail after `TERM`. The calls of tasks have a prefix.
const ALLOWED: [&str; 2] = ["HTTP status 502", "task: HTTP status 502"];

/// How long a killed process is gone.
const GONE: Duration = Duration::from_secs(3);

/// The number of steps of a long call, and their time in milliseconds.
const STEPS: (u32, u64) = (5, 100);

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How calls have ended, by revision.
#[derive(Default)]
struct Counts {
    answered: u64,
    wrong: u64,
    lost: u64,
    failed: BTreeMap<String, u64>,
    sessions: u64,
    /// The number of calls that became tasks.
    tasks: u64,
    /// The longest time of a call.
    longest: Duration,
}

#[derive(Clone, Default)]
struct Report(Arc<Mutex<BTreeMap<ProtocolVersion, Counts>>>);

impl Report {
    fn update(&self, version: ProtocolVersion, change: impl FnOnce(&mut Counts)) {
        change(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(version).or_default());
    }
}

/// A process of the cluster.
struct Server {
    command: Vec<String>,
    process: Child,
}

impl Server {
    fn start(command: &[String]) -> Outcome<Self> {
        let [program, arguments @ ..] = command else { return Err("no command of a server".into()) };
        let mut process = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn()?;
        // Its first line is written when it listens.
        let output = process.stdout.take().ok_or("no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line.is_empty() {
            return Err(format!("{program} did not start").into());
        }
        Ok(Self { command: command.to_vec(), process })
    }

    /// Sends a signal, and waits until the process has ended. Returns how long that took.
    fn end(&mut self, signal: Signal) -> io::Result<Duration> {
        let start = Instant::now();
        if self.process.try_wait()?.is_none() {
            kill_process(Pid::from_child(&self.process), signal)?;
            self.process.wait()?;
        }
        Ok(start.elapsed())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.end(Signal::KILL);
    }
}

/// Returns a text for a failure that does not depend on ids and addresses.
fn reason(error: &CallError) -> String {
    let text = error.to_string();
    text.split(['"', '\n']).next().unwrap_or_default().chars().take(90).collect()
}

/// Makes calls on one connection after another until the time is over.
async fn client(url: String, version: ProtocolVersion, number: i64, end: Instant, report: Report) {
    let host = Host::builder("cluster", "1").versions(VersionSet::only(version)).build();
    while Instant::now() < end {
        let client = match timeout(LONGEST, Client::connect_http(&url, &host)).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => {
                let text: String = error.to_string().chars().take(90).collect();
                report.update(version, |counts| *counts.failed.entry(format!("connect: {text}")).or_default() += 1);
                sleep(Duration::from_millis(200)).await;
                continue;
            }
            Err(_) => {
                report.update(version, |counts| counts.lost += 1);
                continue;
            }
        };
        report.update(version, |counts| counts.sessions += 1);
        let (mut round, mut is_open) = (0, true);
        while is_open && Instant::now() < end {
            round += 1;
            let (steps, millis) = STEPS;
            let count = json!({"steps": steps, "millis": millis});
            // In 2025-11-25 a client requests a task, which is one of its session and its process.
            let (tool, arguments, expected) = match round % 4 {
                0 => ("count", count, steps.to_string()),
                2 if version == ProtocolVersion::V2026_07_28 => ("count_as_task", count, steps.to_string()),
                _ => ("add", json!({"a": number, "b": round}), (number + round).to_string()),
            };
            let start = Instant::now();
            let called = async {
                let call = client.call_tool(tool, arguments).map_err(CallError::Send)?;
                call.on_progress(|_| {}).await
            };
            let result = timeout(LONGEST, called).await;
            is_open = !matches!(result, Ok(Err(CallError::Send(_) | CallError::Closed(_))));
            report.update(version, |counts| {
                counts.longest = counts.longest.max(start.elapsed());
                counts.tasks += u64::from(tool == "count_as_task");
                match result {
                    Ok(Ok(result)) if result.content.first().and_then(|text| text.as_text()) == Some(&expected) => {
                        counts.answered += 1;
                    }
                    Ok(Ok(_)) => counts.wrong += 1,
                    // The client has waited for a response until its own timeout.
                    Ok(Err(CallError::TimedOut { .. })) => counts.lost += 1,
                    Ok(Err(error)) => {
                        let kind = if tool == "count_as_task" { "task: " } else { "" };
                        *counts.failed.entry(format!("{kind}{}", reason(&error))).or_default() += 1;
                    }
                    Err(_) => counts.lost += 1,
                }
            });
            sleep(Duration::from_millis(100)).await;
        }
        client.close().await;
    }
}

/// Ends and starts the processes in turn until the time is over. Returns how many were ended, and the longest time
/// until one had ended.
async fn disturb(servers: &mut Vec<Server>, signal: Signal, end: Instant) -> Outcome<(u32, Duration)> {
    let (mut ended, mut longest) = (0, Duration::ZERO);
    for at in (0..servers.len()).cycle() {
        sleep(GONE).await;
        if Instant::now() + 2 * GONE > end {
            break;
        }
        let mut server = servers.remove(at);
        let (server, took) = spawn_blocking(move || {
            let took = server.end(signal)?;
            io::Result::Ok((server, took))
        })
        .await??;
        (ended, longest) = (ended + 1, longest.max(took));
        sleep(GONE).await;
        servers.insert(at, spawn_blocking(move || Server::start(&server.command)).await??);
    }
    Ok((ended, longest))
}

fn main() -> Outcome<ExitCode> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [url, sessions, seconds, signal, commands @ ..] = &args[..] else {
        return Err("arguments: URL SESSIONS SECONDS KILL|TERM SERVER-COMMAND...".into());
    };
    let signal = match &signal[..] {
        "KILL" => Signal::KILL,
        "TERM" => Signal::TERM,
        _ => return Err("the signal is KILL or TERM".into()),
    };
    let (sessions, seconds): (i64, u64) = (sessions.parse()?, seconds.parse()?);
    let commands = commands.iter().map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    let mut servers = commands.map(|command| Server::start(&command)).collect::<Outcome<Vec<_>>>()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (report, end) = (Report::default(), Instant::now() + Duration::from_secs(seconds));
    let (ended, took) = runtime.block_on(async {
        let clients: Vec<_> = (0..sessions)
            .map(|number| {
                let version = if number % 2 == 0 { ProtocolVersion::V2025_11_25 } else { ProtocolVersion::V2026_07_28 };
                tokio::spawn(client(url.clone(), version, number, end, report.clone()))
            })
            .collect();
        let ended = disturb(&mut servers, signal, end).await?;
        for client in clients {
            client.await?;
        }
        Outcome::Ok(ended)
    })?;
    let mut out = io::stdout().lock();
    let took = took.as_secs_f64();
    writeln!(
        out,
        "{sessions} clients, {seconds} s, {ended} times a process was ended, which took {took:.1} s at most\n"
    )?;
    writeln!(out, "| revision | connections | tasks | responses | failed | wrong | lost | longest call |")?;
    writeln!(out, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")?;
    let mut is_right = ended > 0;
    let report = report.0.lock().unwrap_or_else(PoisonError::into_inner);
    for (version, counts) in &*report {
        let Counts { answered, wrong, lost, failed, sessions, tasks, longest } = counts;
        let sum: u64 = failed.values().sum();
        let longest = longest.as_secs_f64();
        writeln!(out, "| {version} | {sessions} | {tasks} | {answered} | {sum} | {wrong} | {lost} | {longest:.1} s |")?;
        let is_allowed = |reason: &String| signal != Signal::TERM || ALLOWED.iter().any(|it| reason.starts_with(it));
        is_right &= *wrong == 0 && *lost == 0 && *answered > 0 && failed.keys().all(is_allowed);
    }
    writeln!(out)?;
    for (version, counts) in &*report {
        for (text, number) in &counts.failed {
            writeln!(out, "{version}: {number} × {text}")?;
        }
    }
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
