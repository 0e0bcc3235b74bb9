//! The attacks. Each holds what it has got for some seconds.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    Outcome,
    client::{Pending, begin, connect, in_session, modern_call, read_response, round_trip},
};

/// The last byte of the address of the attacker.
const ATTACKER: u8 = 1;

/// How long an attack goes on after all is held.
const HOLD: Duration = Duration::from_secs(5);

/// How long requests are written that the server does not read.
const PATIENCE: Duration = Duration::from_secs(15);

/// An attack on a server. It returns a description of what it has held.
type Attack = fn(SocketAddr) -> Outcome<String>;

pub(crate) const ATTACKS: [(&str, Attack); 6] = [
    ("calls with 1 MiB, responses unread", unread),
    ("1,024 streams", streams),
    ("16,384 sessions", sessions),
    ("1,024 tasks", tasks),
    ("1,024 functions that wait", functions),
    ("all of these", all),
];

/// 1,024 calls whose response has a MiB and is not read.
fn unread(server: SocketAddr) -> Outcome<String> {
    let held = hold_unread(server)?;
    Ok(format!("{} whole requests", held.iter().filter(|pending| pending.is_written()).count()))
}

fn hold_unread(server: SocketAddr) -> Outcome<Vec<Pending>> {
    let call = modern_call("greet", &json!({"name": "x".repeat(1 << 20)}));
    let mut held = Vec::new();
    for _ in 0..1024 {
        let Ok(stream) = connect(ATTACKER, server) else { break };
        held.push(Pending::new(stream, call.clone())?);
    }
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE && held.iter().any(|pending| !pending.is_written()) {
        let mut has_written = false;
        // A connection that the server has closed is not held.
        held.retain_mut(|pending| match pending.write() {
            Ok(wrote) => {
                has_written |= wrote && !pending.is_written();
                true
            }
            Err(_) => false,
        });
        if !has_written {
            thread::sleep(Duration::from_millis(5));
        }
    }
    thread::sleep(HOLD);
    Ok(held)
}

/// 1,024 event streams, in as many sessions as that takes.
fn streams(server: SocketAddr) -> Outcome<String> {
    let held = hold_streams(server)?;
    thread::sleep(HOLD);
    Ok(format!("{} streams", held.len()))
}

fn hold_streams(server: SocketAddr) -> Outcome<Vec<TcpStream>> {
    let mut held = Vec::new();
    // With a share of connections in use, there may be none for the handshake.
    let Ok((mut stream, mut session)) = open_session(server) else { return Ok(held) };
    let mut has_refused = false;
    while held.len() < 1024 {
        let head = format!(
            "GET /mcp HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\nmcp-session-id: {session}\r\n\r\n"
        );
        let Ok(mut listening) = connect(ATTACKER, server) else { break };
        let accepted = listening.write_all(head.as_bytes()).is_ok() && read_status(&mut listening) == Some(200);
        if accepted {
            held.push(listening);
            has_refused = false;
        } else if has_refused {
            break;
        } else {
            // Perhaps it is the limit of the session.
            has_refused = true;
            let Ok(next) = begin(&mut stream) else { break };
            session = next;
        }
    }
    Ok(held)
}

/// Reads a head. Returns its status, or `None` if the connection was closed.
fn read_status(stream: &mut TcpStream) -> Option<u16> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()?.get(9..12)?.parse().ok()
}

/// Begins a session on a new connection.
fn open_session(server: SocketAddr) -> Outcome<(TcpStream, String)> {
    let mut stream = connect(ATTACKER, server)?;
    let session = begin(&mut stream)?;
    Ok((stream, session))
}

/// 16,384 sessions, each of them used.
fn sessions(server: SocketAddr) -> Outcome<String> {
    let mut stream = connect(ATTACKER, server)?;
    let mut held = 0;
    for _ in 0..16_384 {
        let Ok(session) = begin(&mut stream) else { break };
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        held += usize::from(round_trip(&mut stream, &in_session(&session, &ping))?.status == 200);
    }
    thread::sleep(HOLD);
    Ok(format!("{held} sessions"))
}

/// 1,024 tasks that run for a minute.
fn tasks(server: SocketAddr) -> Outcome<String> {
    let mut stream = connect(ATTACKER, server)?;
    let held = hold_tasks(&mut stream)?;
    thread::sleep(HOLD);
    Ok(format!("{held} tasks"))
}

fn hold_tasks(stream: &mut TcpStream) -> Outcome<usize> {
    let call = modern_call("test_task", &json!({"label": "attack", "ms": 60_000}));
    let mut held = 0;
    for _ in 0..1024 {
        stream.write_all(&call)?;
        held += usize::from(read_response(stream)?.body.contains("taskId"));
    }
    Ok(held)
}

/// 1,024 handlers on threads that wait for the client.
fn functions(server: SocketAddr) -> Outcome<String> {
    let held = hold_functions(server)?;
    thread::sleep(HOLD);
    Ok(format!("{} requests", held.len()))
}

fn hold_functions(server: SocketAddr) -> Outcome<Vec<TcpStream>> {
    let mut held = Vec::new();
    let Ok((mut stream, mut session)) = open_session(server) else { return Ok(held) };
    for request in 0..1024 {
        if request % 32 == 31 {
            let Ok(next) = begin(&mut stream) else { break };
            session = next;
        }
        let params = json!({"name": "test_input_required_result_elicitation", "arguments": {}});
        let message = json!({"jsonrpc": "2.0", "id": request, "method": "tools/call", "params": params});
        let Ok(mut calling) = connect(ATTACKER, server) else { break };
        if calling.write_all(&in_session(&session, &message)).is_ok() {
            held.push(calling);
        }
    }
    Ok(held)
}

/// The tasks, the functions and the streams, and then the unread responses.
fn all(server: SocketAddr) -> Outcome<String> {
    let mut stream = connect(ATTACKER, server)?;
    let tasks = hold_tasks(&mut stream)?;
    let functions = hold_functions(server)?;
    let streams = hold_streams(server)?;
    let unread = hold_unread(server)?;
    let whole = unread.iter().filter(|pending| pending.is_written()).count();
    Ok(format!("{tasks} tasks, {} functions, {} streams, {whole} whole requests", functions.len(), streams.len()))
}
