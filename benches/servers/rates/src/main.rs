//! Measures servers with one tool, `echo`, over standard input and output: `rates name=command ...`, where a command is
//! words with spaces in between. Prints a table in Markdown.
//!
//! Each server is timed once in each round, and its best round counts, since a disturbance only lowers a rate. Each
//! response is compared with the message.

use std::{
    env,
    error::Error,
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"rates","version":"1.0.0"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const MESSAGE: &str = "thirty-two bytes of plain text..";

const STARTS: usize = 5;
const ROUNDS: usize = 5;
/// The calls of a round take about this long, in seconds.
const ROUND: f64 = 1.0;
const AT_ONCE: usize = 64;

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: usize,
    line: String,
}

impl Server {
    /// Starts a server, and waits for the response to `initialize`.
    fn start(words: &[&str]) -> Outcome<Self> {
        let (program, arguments) = words.split_first().ok_or("an empty command")?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes".into());
        };
        let mut server =
            Self { child, input, output: BufReader::with_capacity(256 << 10, output), next: 1, line: String::new() };
        server.input.write_all(format!("{INITIALIZE}\n").as_bytes())?;
        server.read("serverInfo")?;
        Ok(server)
    }

    /// Reads a response, which contains a text.
    fn read(&mut self, expected: &str) -> Outcome<()> {
        self.line.clear();
        self.output.read_line(&mut self.line)?;
        if self.line.contains(expected) { Ok(()) } else { Err(format!("a wrong response: {:?}", self.line).into()) }
    }

    /// Makes calls, `at_once` at a time. Returns calls per second.
    fn call(&mut self, calls: usize, at_once: usize) -> Outcome<f64> {
        let begin = Instant::now();
        for _ in 0..calls.div_ceil(at_once) {
            let first = self.next;
            self.next += at_once;
            let line = |id: usize| {
                format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":\
                     {{\"name\":\"echo\",\"arguments\":{{\"message\":\"{MESSAGE}\"}}}}}}\n"
                )
            };
            let lines: String = (first..self.next).map(line).collect();
            self.input.write_all(lines.as_bytes())?;
            for _ in 0..at_once {
                self.read(MESSAGE)?;
            }
        }
        Ok((calls.div_ceil(at_once) * at_once) as f64 / begin.elapsed().as_secs_f64())
    }

    /// Returns the peak of its memory, in MiB.
    fn peak(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        peak.and_then(|peak| peak.trim().parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
    }

    fn end(mut self) -> Outcome<()> {
        drop(self.input);
        self.child.wait()?;
        Ok(())
    }
}

/// The figures of a server: milliseconds, calls per second, and MiB.
#[derive(Clone, Copy)]
struct Figures {
    start: f64,
    one_by_one: f64,
    pipelined: f64,
    peak: f64,
}

fn main() -> Outcome<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let servers = arguments.iter().map(|argument| argument.split_once('=').ok_or("an argument is name=command"));
    let servers = servers.collect::<Result<Vec<_>, _>>()?;
    let commands: Vec<Vec<_>> = servers.iter().map(|(_, command)| command.split(' ').collect()).collect();
    let mut all = vec![Figures { start: f64::INFINITY, one_by_one: 0.0, pipelined: 0.0, peak: 0.0 }; servers.len()];
    for _ in 0..STARTS {
        for (command, figures) in commands.iter().zip(&mut all) {
            let begin = Instant::now();
            let server = Server::start(command)?;
            figures.start = figures.start.min(begin.elapsed().as_secs_f64() * 1e3);
            server.end()?;
        }
    }
    let mut running = commands.iter().map(|command| Server::start(command)).collect::<Outcome<Vec<_>>>()?;
    for server in &mut running {
        server.input.write_all(format!("{INITIALIZED}\n").as_bytes())?;
        // Compilers of running programs, and caches, are warm after that.
        server.call(2_000, 1)?;
        server.call(2_000, AT_ONCE)?;
    }
    for _ in 0..ROUNDS {
        for (server, figures) in running.iter_mut().zip(&mut all) {
            for (at_once, best) in [(1, &mut figures.one_by_one), (AT_ONCE, &mut figures.pipelined)] {
                let calls = server.call(200, at_once)? * ROUND;
                *best = best.max(server.call(calls as usize, at_once)?);
            }
        }
    }
    for (server, figures) in running.into_iter().zip(&mut all) {
        figures.peak = server.peak();
        server.end()?;
    }
    let row = |title: &str, value: &dyn Fn(&Figures) -> String| {
        println!("| {title} | {} |", all.iter().map(value).collect::<Vec<_>>().join(" | "));
    };
    println!("| | {} |", servers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" | "));
    println!("| --- |{}", " ---: |".repeat(servers.len()));
    row("calls per second, one by one", &|figures| format!("{:.0}", figures.one_by_one));
    row("calls per second, 64 unanswered", &|figures| format!("{:.0}", figures.pipelined));
    row("milliseconds until `initialize` is answered", &|figures| format!("{:.1}", figures.start));
    row("peak of small calls, MiB", &|figures| format!("{:.1}", figures.peak));
    Ok(())
}
