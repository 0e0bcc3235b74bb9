//! A server as a child process with hand-written requests: line breaks are counted while the clock runs, and responses
//! are checked after that.

use std::{
    fs,
    io::{self, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use mcp_benches::{TEXT, text};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::timing::median;

pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"client","version":"1.0.0"}}}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// How often each server is started, and how often its calls are timed.
const STARTS: usize = 60;
const ROUNDS: usize = 6;

/// Returns the command of a server.
pub(crate) type Start<'a> = Box<dyn Fn() -> Command + Sync + 'a>;

/// The measurements of a server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    /// The time from its start to its response to `initialize`, in milliseconds.
    pub(crate) start: f64,
    /// The memory that is resident after that response, libraries included, in MiB.
    pub(crate) resident: f64,
    /// Small calls per second, one by one, and with 64 in flight. Server and client share one processor.
    pub(crate) one_by_one: f64,
    pub(crate) pipelined: f64,
    /// Megabytes of text per second, in one direction, one call after the other: of 16 KiB, and of 1 MiB.
    pub(crate) medium: f64,
    pub(crate) large: f64,
    /// The peak of its memory, in MiB, after 64 calls of 1 MiB in flight.
    pub(crate) peak: f64,
    /// Instructions and allocations of a small call, one by one.
    pub(crate) instructions: f64,
    pub(crate) allocations: f64,
}

struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
    next: usize,
    answers: Vec<u8>,
}

impl Server {
    /// Starts a server, and waits for the response to `initialize`.
    fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("no pipes"));
        };
        let mut server = Self { child, input: Some(input), output, next: 1, answers: Vec::new() };
        server.exchange(&[INITIALIZE, "\n"].concat(), 1)?;
        Ok(server)
    }

    /// Starts a server, and completes the handshake.
    fn ready(command: &mut Command) -> io::Result<Self> {
        let mut server = Self::start(command)?;
        server.exchange(&[INITIALIZED, "\n"].concat(), 0)?;
        Ok(server)
    }

    /// Writes requests, and reads this many responses.
    fn exchange(&mut self, requests: &str, answers: usize) -> io::Result<()> {
        let input = self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(requests.as_bytes())?;
        read(&mut self.output, &mut self.answers, answers)
    }

    /// Returns this many calls, `at_once` in each text. `said` is JSON.
    fn requests(&mut self, calls: usize, at_once: usize, said: &str) -> Vec<String> {
        let first = self.next;
        self.next += calls;
        let line = |id: usize| {
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":\
                 {{\"name\":\"echo\",\"arguments\":{{\"message\":{said}}}}}}}\n"
            )
        };
        let pieces = (first..self.next).step_by(at_once);
        pieces.map(|first| (first..(first + at_once).min(self.next)).map(line).collect()).collect()
    }

    /// Makes calls, `at_once` at a time. Returns the duration, if every result contains the message.
    fn call(&mut self, calls: usize, at_once: usize, said: &str) -> io::Result<Duration> {
        let said = serde_json::to_string(said)?;
        let requests = self.requests(calls, at_once, &said);
        self.answers.clear();
        self.answers.reserve(requests.iter().map(|piece| 2 * piece.len()).sum());
        let begin = Instant::now();
        for piece in &requests {
            self.exchange(piece, at_once)?;
        }
        let taken = begin.elapsed();
        let finder = memchr::memmem::Finder::new(said.as_bytes());
        let lines = self.answers.split(|byte| *byte == b'\n');
        let right = lines.filter(|line| finder.find(line).is_some()).count();
        if right == calls { Ok(taken) } else { Err(io::Error::other(format!("{right} of {calls} answers are right"))) }
    }

    /// Makes calls, all at once, from a thread that does not wait for responses.
    fn flood(&mut self, calls: usize, said: &str) -> io::Result<()> {
        let requests = self.requests(calls, 1, &serde_json::to_string(said)?);
        let mut input = self.input.take().ok_or(io::ErrorKind::BrokenPipe)?;
        self.answers.clear();
        thread::scope(|scope| {
            scope.spawn(|| requests.iter().try_for_each(|request| input.write_all(request.as_bytes())));
            read(&mut self.output, &mut self.answers, calls)
        })?;
        self.input = Some(input);
        Ok(())
    }

    /// Waits until it exits. Returns its standard error.
    fn end(mut self) -> io::Result<String> {
        drop(self.input.take());
        let mut said = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            errors.read_to_string(&mut said)?;
        }
        self.child.wait()?;
        Ok(said)
    }
}

/// Returns the memory of a process, in MiB: `VmRSS:` what is resident, `VmHWM:` its peak.
pub(crate) fn memory(process: &Child, what: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap_or_default();
    let kilobytes = status.lines().find_map(|line| line.strip_prefix(what)?.trim().strip_suffix(" kB"));
    kilobytes.and_then(|kilobytes| kilobytes.parse().ok()).unwrap_or(f64::NAN) / 1024.0
}

fn read(output: &mut ChildStdout, answers: &mut Vec<u8>, mut lines: usize) -> io::Result<()> {
    let mut chunk = vec![0; 256 << 10];
    while lines > 0 {
        let length = output.read(&mut chunk)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        lines = lines.saturating_sub(memchr::memchr_iter(b'\n', &chunk[..length]).count());
        answers.extend_from_slice(&chunk[..length]);
    }
    Ok(())
}

/// Starts a server and ends it. Returns the time of the start, in milliseconds, and the memory that is resident after
/// it.
fn start(command: &mut Command) -> io::Result<(f64, f64)> {
    let begin = Instant::now();
    let server = Server::start(command)?;
    let taken = begin.elapsed();
    let resident = memory(&server.child, "VmRSS:");
    server.end()?;
    Ok((taken.as_secs_f64() * 1e3, resident))
}

/// Returns calls per second.
#[expect(clippy::cast_precision_loss, reason = "they are not that many")]
fn rate(server: &mut Server, calls: usize, at_once: usize, said: &str) -> io::Result<f64> {
    Ok(calls as f64 / server.call(calls, at_once, said)?.as_secs_f64())
}

/// Pins this thread, and the processes that it starts, to one processor.
pub(crate) fn stay() {
    let mut one = CpuSet::new();
    one.set(0);
    let _ = sched_setaffinity(None, &one);
}

/// Times each server once in each round, so that a disturbance of the machine affects all of them. Of starts the median
/// counts. Of rates the best counts, since a disturbance only lowers them.
fn timed(servers: &[Start<'_>]) -> io::Result<Vec<Figures>> {
    let mut starts = vec![Vec::new(); servers.len()];
    for _ in 0..STARTS {
        for (command, starts) in servers.iter().zip(&mut starts) {
            starts.push(start(&mut command())?);
        }
    }
    let figures = |starts: Vec<(f64, f64)>| {
        let (times, resident) = starts.into_iter().unzip();
        Figures { start: median(times), resident: median(resident), ..Figures::default() }
    };
    let mut figures: Vec<_> = starts.into_iter().map(figures).collect();
    let mut ready = servers.iter().map(|command| Server::ready(&mut command())).collect::<io::Result<Vec<_>>>()?;
    let (medium, large) = (text(16 << 10, true), text(1 << 20, true));
    for _ in 0..ROUNDS {
        for (server, figures) in ready.iter_mut().zip(&mut figures) {
            figures.one_by_one = figures.one_by_one.max(rate(server, 20_000, 1, TEXT)?);
            figures.pipelined = figures.pipelined.max(rate(server, 64 * 500, 64, TEXT)?);
            figures.medium = figures.medium.max(rate(server, 1_000, 1, &medium)? * f64::from(16 << 10) / 1e6);
            figures.large = figures.large.max(rate(server, 20, 1, &large)? * f64::from(1 << 20) / 1e6);
        }
    }
    ready.into_iter().try_for_each(|server| server.end().map(drop))?;
    for (command, figures) in servers.iter().zip(&mut figures) {
        let mut server = Server::ready(&mut command())?;
        server.flood(64, &large)?;
        figures.peak = memory(&server.child, "VmHWM:");
        server.end()?;
    }
    Ok(figures)
}

/// Returns a count of valgrind for one call, without the start and the end of the process.
fn counted(tool: &[&str], command: &Command, find: fn(&str) -> Option<f64>) -> io::Result<f64> {
    const CALLS: usize = 1_000;
    let count = |calls: usize| {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(tool).arg(command.get_program()).args(command.get_args());
        let mut server = Server::ready(&mut valgrind)?;
        server.call(calls, 1, TEXT)?;
        let said = server.end()?;
        find(&said).ok_or_else(|| io::Error::other(said))
    };
    #[expect(clippy::cast_precision_loss, reason = "they are few")]
    Ok((count(200 + CALLS)? - count(200)?) / CALLS as f64)
}

/// Parses `Collected : 1234` of callgrind.
fn instructions(said: &str) -> Option<f64> {
    said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
}

/// Parses `Total: 12,345 bytes in 67 blocks` of dhat.
fn blocks(said: &str) -> Option<f64> {
    let total = said.lines().find_map(|line| line.split_once("Total:"))?.1;
    total.split_once(" bytes in ")?.1.split_once(" blocks")?.0.replace(',', "").parse().ok()
}

/// Measures several servers in turns.
pub(crate) fn measure(servers: &[Start<'_>]) -> io::Result<Vec<Figures>> {
    let callgrind = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let dhat = ["--tool=dhat", "--dhat-out-file=/dev/null"];
    let counted = |(command, timed): (&Start<'_>, Figures)| {
        let command = command();
        Ok(Figures {
            instructions: counted(&callgrind, &command, instructions)?,
            allocations: counted(&dhat, &command, blocks)?,
            ..timed
        })
    };
    let staying = || {
        stay();
        servers.iter().zip(timed(servers)?).map(counted).collect()
    };
    thread::scope(|scope| scope.spawn(staying).join()).unwrap_or_else(|_| Err(io::Error::other("a panic")))
}
