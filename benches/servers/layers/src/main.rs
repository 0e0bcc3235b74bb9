//! Measures what a middleware that does nothing adds to a small call over standard input and output and over HTTP, one
//! by one and with 64 at once: `layers [ROUNDS]`. Prints a table in Markdown.
//!
//! The servers are children of this program: two without a middleware, one with a function, one with a type. Each is
//! timed once in each round, in an order that rotates. The figure is the median of the ratios to the first server in
//! the same round. The ratio of the two servers that are equal shows the error of the others.
//!
//! Besides the time of the clock, each round takes the time in which client and server had a processor, so that the
//! load of the machine counts less.

#[path = "../../echo.rs"]
#[allow(dead_code, reason = "its service has no middleware")]
mod echo;
mod server;

use std::{
    env,
    error::Error,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"layers","version":"1.0.0"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const MESSAGE: &str = "thirty-two bytes of plain text..";

const AT_ONCE: usize = 64;
/// The calls of a server in a round.
const CALLS: usize = 40 * AT_ONCE;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The connection to a server: pipes, or a connection for each call at once.
enum Link {
    Pipes(ChildStdin, BufReader<ChildStdout>),
    Http { session: String, connections: Vec<BufReader<TcpStream>> },
}

struct Server {
    child: Child,
    link: Link,
    next: usize,
    line: String,
}

fn call(id: usize) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":\
         {{\"name\":\"echo\",\"arguments\":{{\"message\":\"{MESSAGE}\"}}}}}}"
    )
}

fn post(session: &str, body: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{session}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Reads a response, and returns its head and body.
fn response(connection: &mut BufReader<TcpStream>) -> Outcome<(String, String)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let begin = head.len();
        if connection.read_line(&mut head)? == 0 {
            return Err("the server has closed the connection".into());
        }
        let line = &head[begin..];
        if line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body)?;
    Ok((head, String::from_utf8(body)?))
}

impl Server {
    /// Starts this program as a server with a middleware, and completes the handshake.
    fn start(over: &str, layer: &str) -> Outcome<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["serve", over, layer]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes".into());
        };
        let (mut output, mut line) = (BufReader::with_capacity(256 << 10, output), String::new());
        if over == "stdio" {
            input.write_all(format!("{INITIALIZE}\n{INITIALIZED}\n").as_bytes())?;
            output.read_line(&mut line)?;
            return Ok(Self { child, link: Link::Pipes(input, output), next: 1, line });
        }
        output.read_line(&mut line)?;
        let connect = |_| -> Outcome<_> {
            let connection = TcpStream::connect(line.trim())?;
            connection.set_nodelay(true)?;
            Ok(BufReader::new(connection))
        };
        let mut connections = (0..AT_ONCE).map(connect).collect::<Outcome<Vec<_>>>()?;
        let first = &mut connections[0];
        first.get_mut().write_all(post("", INITIALIZE).as_bytes())?;
        let (head, _) = response(first)?;
        let id = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).ok_or("no session")?;
        let session = format!("mcp-session-id: {id}\r\nmcp-protocol-version: 2025-06-18\r\n");
        first.get_mut().write_all(post(&session, INITIALIZED).as_bytes())?;
        response(first)?;
        Ok(Self { child, link: Link::Http { session, connections }, next: 1, line })
    }

    /// Makes calls at once, and checks each response.
    fn calls(&mut self, at_once: usize) -> Outcome<()> {
        let ids = self.next..self.next + at_once;
        self.next = ids.end;
        match &mut self.link {
            Link::Pipes(input, output) => {
                let lines: String = ids.map(|id| call(id) + "\n").collect();
                input.write_all(lines.as_bytes())?;
                for _ in 0..at_once {
                    self.line.clear();
                    output.read_line(&mut self.line)?;
                    check(&self.line)?;
                }
            }
            Link::Http { session, connections } => {
                for (connection, id) in connections.iter_mut().zip(ids) {
                    connection.get_mut().write_all(post(session, &call(id)).as_bytes())?;
                }
                for connection in connections.iter_mut().take(at_once) {
                    check(&response(connection)?.1)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the nanoseconds of a call: by the clock, and on a processor, in client and server.
    fn time(&mut self, at_once: usize) -> Outcome<[f64; 2]> {
        let processes = [std::process::id(), self.child.id()];
        let on_processor = || processes.iter().map(|process| on_processor(*process)).sum::<Outcome<f64>>();
        let (before, begin) = (on_processor()?, Instant::now());
        for _ in 0..CALLS / at_once {
            self.calls(at_once)?;
        }
        let taken = begin.elapsed();
        Ok([taken.as_nanos() as f64, on_processor()? - before].map(|time| time / CALLS as f64))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn check(response: &str) -> Outcome<()> {
    if response.contains(MESSAGE) { Ok(()) } else { Err(format!("a wrong response: {response:?}").into()) }
}

/// Returns the nanoseconds that the threads of a process had a processor.
fn on_processor(process: u32) -> Outcome<f64> {
    let mut sum = 0.0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let times = fs::read_to_string(thread?.path().join("schedstat"))?;
        sum += times.split(' ').next().ok_or("no time")?.parse::<f64>()?;
    }
    Ok(sum)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

const LAYERS: [&str; 4] = ["none", "equal", "function", "type"];

/// Prints a row: the time without a middleware, and what the others add.
fn measure(over: &str, at_once: usize, rounds: usize) -> Outcome<()> {
    let mut servers = LAYERS.iter().map(|layer| Server::start(over, layer)).collect::<Outcome<Vec<_>>>()?;
    for server in &mut servers {
        server.time(at_once)?;
    }
    let mut times = vec![vec![[0.0; 2]; rounds]; servers.len()];
    for round in 0..rounds {
        for offset in 0..servers.len() {
            let at = (round + offset) % servers.len();
            times[at][round] = servers[at].time(at_once)?;
        }
    }
    for (kind, name) in ["clock", "processor"].into_iter().enumerate() {
        let base = median(times[0].iter().map(|time| time[kind]));
        let ratio = |at: usize| {
            let ratios = times[at].iter().zip(&times[0]).map(|(time, base)| time[kind] / base[kind]);
            format!("{:+.1} %", (median(ratios) - 1.0) * 100.0)
        };
        let others = (1..servers.len()).map(ratio).collect::<Vec<_>>().join(" | ");
        println!("| {over}, {at_once} at once, {name} | {:.2} µs | {others} |", base / 1e3);
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", over, layer] => return server::serve(over, layer),
        [] | [_] => {}
        _ => return Err("arguments: [ROUNDS]".into()),
    }
    let rounds = arguments.first().map_or(Ok(100), |rounds| rounds.parse())?;
    println!("| calls | without | without, again | function | type |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for over in ["stdio", "http"] {
        for at_once in [1, AT_ONCE] {
            measure(over, at_once, rounds)?;
        }
    }
    Ok(())
}
