//! Clients that send many calls before they read: every call gets a response, over standard input and output and over
//! HTTP.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    Outcome,
    client::{connect, modern_call, read_response},
    server::{self, Server},
};

/// How long the client does not read.
const PAUSE: Duration = Duration::from_secs(4);

/// The connections of an HTTP client. Each carries one request after the other.
const CONNECTIONS: usize = 32;

/// A flood of a server of an adapter. It returns the number of responses, the seconds, and the peak of memory in MiB.
type Flood = fn(&str) -> Outcome<(usize, f64, u64)>;

pub(crate) const FLOODS: [(&str, Flood); 4] = [
    ("40,000 calls of 4 KiB over stdio", |adapter| stdio(adapter, 40_000, 4 << 10)),
    ("64 calls of 1 MiB over stdio", |adapter| stdio(adapter, 64, 1 << 20)),
    ("40,000 calls of 4 KiB over HTTP", |adapter| http(adapter, 40_000, 4 << 10, CONNECTIONS)),
    ("64 calls of 1 MiB over HTTP", |adapter| http(adapter, 64, 1 << 20, 64)),
];

fn stdio(adapter: &str, calls: usize, size: usize) -> Outcome<(usize, f64, u64)> {
    let program = server::example(&format!("everything-{adapter}"))?;
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or("no input")?;
    let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
    let begin = Instant::now();
    let writing = thread::spawn(move || -> Outcome<_> {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "flood", "version": "1"}});
        writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params}))?;
        writeln!(input, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        let params = json!({"name": "greet", "arguments": {"name": "x".repeat(size)}}).to_string();
        for id in 0..calls {
            writeln!(input, r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)?;
        }
        Ok(input)
    });
    thread::sleep(PAUSE);
    let (mut line, mut answered, mut has_greeted) = (String::new(), vec![false; calls], false);
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
        if !line.contains("Hello, ") || std::mem::replace(&mut answered[id], true) {
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

fn http(adapter: &str, calls: usize, size: usize, connections: usize) -> Outcome<(usize, f64, u64)> {
    let server = Server::start(adapter)?;
    let address = server.address;
    let call = modern_call("greet", &json!({"name": "x".repeat(size)}));
    let begin = Instant::now();
    let clients: Vec<_> = (0..connections)
        .map(|_| {
            let call = call.clone();
            thread::spawn(move || -> Outcome<usize> {
                let stream = connect(1, address)?;
                let mut writer = stream.try_clone()?;
                let mut reader = BufReader::new(stream);
                // All requests of a connection are written without waiting for a response.
                let writing = thread::spawn(move || (0..calls / connections).try_for_each(|_| writer.write_all(&call)));
                thread::sleep(PAUSE);
                let mut answered = 0;
                for _ in 0..calls / connections {
                    let response = read_response(&mut reader)?;
                    if response.status != 200 || !response.body.contains("Hello, ") {
                        let start = &response.body[..response.body.len().min(200)];
                        return Err(format!("status {}: {start}", response.status).into());
                    }
                    answered += 1;
                }
                writing.join().map_err(|_| "the writer has panicked")??;
                Ok(answered)
            })
        })
        .collect();
    let mut answered = 0;
    for client in clients {
        answered += client.join().map_err(|_| "a client has panicked")??;
    }
    Ok((answered, begin.elapsed().as_secs_f64(), server.peak()?))
}
