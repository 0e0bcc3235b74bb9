//! Clients that send many calls before they read: every call gets a response, over standard input and output and over
//! HTTP, where all connections of the client share one session.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    Outcome,
    client::{begin, connect, in_session, read_response},
    server::{self, Server},
};

/// How long the client does not read.
const PAUSE: Duration = Duration::from_secs(4);

/// Calls of a tool that are sent before a response is read.
pub(crate) struct Calls {
    count: usize,
    tool: &'static str,
    arguments: Value,
    /// A part of each response.
    result: &'static str,
    /// The connections of an HTTP client. Each carries one call after the other.
    connections: usize,
}

/// The description of a flood, its calls, and whether they are sent over HTTP.
pub(crate) type Flood = (&'static str, fn() -> Calls, bool);

pub(crate) const FLOODS: [Flood; 4] = [
    ("40,000 calls of 4 KiB over stdio", many, false),
    ("64 calls of 1 MiB over stdio, each for 5 s", large, false),
    ("40,000 calls of 4 KiB over HTTP", many, true),
    ("64 calls of 1 MiB over HTTP, each for 5 s", large, true),
];

/// Calls with small arguments and responses of the same size.
fn many() -> Calls {
    let arguments = json!({"name": "x".repeat(4 << 10)});
    Calls { count: 40_000, tool: "greet", arguments, result: "Hello, ", connections: 32 }
}

/// Calls that take longer than it takes to send all of them, so that they are in flight at the same time.
fn large() -> Calls {
    let arguments = json!({"ms": 5_000, "unused": "x".repeat(1 << 20)});
    Calls { count: 64, tool: "test_slow", arguments, result: "slow done", connections: 64 }
}

/// Floods a server of an adapter. Returns the number of responses, the seconds, and the peak of memory in MiB.
pub(crate) fn flood(adapter: &str, (_, calls, is_http): Flood) -> Outcome<(usize, f64, u64)> {
    if is_http { http(adapter, &calls()) } else { stdio(adapter, &calls()) }
}

impl Calls {
    fn params(&self) -> Value {
        json!({"name": self.tool, "arguments": self.arguments})
    }
}

fn stdio(adapter: &str, calls: &Calls) -> Outcome<(usize, f64, u64)> {
    let program = server::example(&format!("everything-{adapter}"))?;
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or("no input")?;
    let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
    let begin = Instant::now();
    let (count, call) = (calls.count, calls.params().to_string());
    let writing = thread::spawn(move || -> Outcome<_> {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "flood", "version": "1"}});
        writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params}))?;
        writeln!(input, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        for id in 0..count {
            writeln!(input, r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{call}}}"#)?;
        }
        Ok(input)
    });
    thread::sleep(PAUSE);
    let (mut line, mut answered, mut has_greeted) = (String::new(), vec![false; count], false);
    while !has_greeted || answered.contains(&false) {
        line.clear();
        if output.read_line(&mut line)? == 0 {
            return Err("the server has ended".into());
        }
        if line.contains("\"id\":\"first\"") {
            has_greeted = true;
            continue;
        }
        let id = line.split_once("\"id\":").and_then(|(_, rest)| rest.split([',', '}']).next()?.parse::<usize>().ok());
        let id = id.ok_or_else(|| format!("no id: {}", &line[..line.len().min(200)]))?;
        // A refusal is no response to a call, and a second response is one too many.
        if !line.contains(calls.result) || std::mem::replace(&mut answered[id], true) {
            return Err(format!("call {id} got {}", &line[..line.len().min(200)]).into());
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let input = writing.join().map_err(|_| "the writer has panicked")??;
    let peak = server::peak(child.id())?;
    drop(input);
    child.wait()?;
    Ok((answered.len(), seconds, peak))
}

fn http(adapter: &str, calls: &Calls) -> Outcome<(usize, f64, u64)> {
    let server = Server::start(adapter)?;
    let address = server.address;
    let session = begin(&mut connect(1, address)?)?;
    let begin = Instant::now();
    let each = calls.count / calls.connections;
    let clients: Vec<_> = (0..calls.connections)
        .map(|number| {
            let (session, params, result) = (session.clone(), calls.params(), calls.result);
            thread::spawn(move || -> Outcome<usize> {
                let stream = connect(1, address)?;
                let mut writer = stream.try_clone()?;
                let mut reader = BufReader::new(stream);
                // All requests of a connection are written without waiting for a response.
                let writing = thread::spawn(move || {
                    (0..each).try_for_each(|id| {
                        let id = number * each + id;
                        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
                        writer.write_all(&in_session(&session, &message))
                    })
                });
                thread::sleep(PAUSE);
                for id in 0..each {
                    let response = read_response(&mut reader)?;
                    let is_its_own = response.body.contains(&format!("\"id\":{},", number * each + id));
                    if response.status != 200 || !is_its_own || !response.body.contains(result) {
                        let start = &response.body[..response.body.len().min(200)];
                        return Err(format!("status {}: {start}", response.status).into());
                    }
                }
                writing.join().map_err(|_| "the writer has panicked")??;
                Ok(each)
            })
        })
        .collect();
    let mut answered = 0;
    for client in clients {
        answered += client.join().map_err(|_| "a client has panicked")??;
    }
    Ok((answered, begin.elapsed().as_secs_f64(), server.peak()?))
}
