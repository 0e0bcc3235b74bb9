//! Measures the starts of servers: `starts name=command ...`, where a command is words with spaces in between. Prints a
//! table in Markdown. The times are compared with those of the first server.
//!
//! A server whose name ends with `HTTP` gets its port in the environment variable `PORT`, the others talk over standard
//! input and output. The servers are started in turn. The time is the median of those from the start of the process to
//! the response to `initialize`, and the memory that of the pages that are resident after it, libraries included.

use std::{
    env,
    error::Error,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"starts","version":"1.0.0"}}}"#;
const STARTS: usize = 60;
/// How long a server over HTTP may take until it accepts a connection.
const PATIENCE: Duration = Duration::from_secs(10);

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A server to measure, and its figures.
struct Server<'a> {
    name: &'a str,
    words: Vec<&'a str>,
    /// In milliseconds.
    starts: Vec<f64>,
    /// In KiB.
    resident: Vec<f64>,
}

impl<'a> Server<'a> {
    fn parse(argument: &'a str) -> Outcome<Self> {
        let (name, command) = argument.split_once('=').ok_or("usage: starts name=command ...")?;
        let words = command.split_whitespace().collect();
        Ok(Self { name, words, starts: Vec::new(), resident: Vec::new() })
    }

    /// Starts the server once.
    fn start(&mut self) -> Outcome<()> {
        let (program, arguments) = self.words.split_first().ok_or("an empty command")?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let is_http = self.name.ends_with("HTTP");
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        command.env("PORT", port.to_string());
        let begin = Instant::now();
        let mut child = command.spawn()?;
        let response = if is_http { post(port) } else { exchange(&mut child) };
        let taken = begin.elapsed();
        let resident = resident(&child);
        // Servers over HTTP do not end by themselves.
        child.kill()?;
        child.wait()?;
        if !response?.contains("serverInfo") {
            return Err(format!("{}: a wrong response", self.name).into());
        }
        self.starts.push(taken.as_secs_f64() * 1e3);
        self.resident.push(resident?);
        Ok(())
    }
}

fn exchange(child: &mut Child) -> Outcome<String> {
    let (Some(input), Some(output)) = (&mut child.stdin, &mut child.stdout) else { return Err("no pipes".into()) };
    input.write_all(format!("{INITIALIZE}\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    Ok(line)
}

fn post(port: u16) -> Outcome<String> {
    let begin = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(error) if begin.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => thread::sleep(Duration::from_micros(50)),
        }
    };
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n",
        INITIALIZE.len()
    );
    stream.write_all([head.as_bytes(), INITIALIZE.as_bytes()].concat().as_slice())?;
    let (mut response, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut buffer)?;
        response.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&response);
        if read == 0 || text.contains("serverInfo") {
            return Ok(text.into_owned());
        }
    }
}

/// Returns the resident memory of a process, in KiB.
fn resident(child: &Child) -> Outcome<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Outcome<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let mut servers = arguments.iter().map(|argument| Server::parse(argument)).collect::<Outcome<Vec<_>>>()?;
    for _ in 0..STARTS {
        servers.iter_mut().try_for_each(Server::start)?;
    }
    println!("| server | file, KB | start to answer, ms | against the first | resident, MiB |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    let mut first = None;
    for server in servers {
        let size = fs::metadata(server.words[0])?.len() as f64 / 1e3;
        let (start, resident) = (median(server.starts), median(server.resident) / 1024.0);
        let ratio = start / *first.get_or_insert(start);
        println!("| {} | {size:.0} | {start:.2} | {ratio:.2} | {resident:.1} |", server.name);
    }
    Ok(())
}
