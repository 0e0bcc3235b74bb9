//! Malformed and many messages, for which `--hostile` asks. Each is bounded.

use std::{collections::HashSet, time::Instant};

use serde_json::{Value, json};

use super::{
    definition::{Check, legacy, modern},
    era::Era,
    outcome::{Verdict, ensure, failed, not_applicable},
    probe::Probe,
};

/// How many requests are sent at once. While the next ones are sent, as many are in flight.
const PIECE: usize = 500;

pub(super) const CHECKS: &[Check] = &[
    legacy("hostile-bytes", "Bytes that are no UTF-8 do not end the session", &["STDIO-017"], bytes)
        .hostile()
        .should()
        .stdio(),
    legacy("hostile-nul", "Control characters do not end the session", &["STDIO-017"], controls)
        .hostile()
        .should()
        .stdio(),
    legacy("hostile-large", "A large message does not end the session", &["BASE-026"], large).hostile().should(),
    legacy("hostile-depth", "A deep message does not end the session", &["BASE-026"], deep).hostile().should(),
    legacy("hostile-duplicates", "Duplicate members do not end the session", &["BASE-026"], duplicates)
        .hostile()
        .should(),
    legacy("hostile-many", "Many requests in flight are all answered", &["BASE-029"], many).hostile().should().stdio(),
    legacy("hostile-notifications", "Many notifications do not end the session", &["BASE-020"], notifications)
        .hostile()
        .should()
        .stdio(),
    modern("modern-hostile-bytes", "Bytes that are no UTF-8 do not end the server", &["M-BASE-026"], bytes)
        .hostile()
        .should()
        .stdio(),
    modern("modern-hostile-large", "A large message does not end the server", &["M-BASE-030"], large)
        .hostile()
        .should(),
    modern("modern-hostile-depth", "A deep message does not end the server", &["M-BASE-030"], deep).hostile().should(),
    modern("modern-hostile-many", "Many requests in flight are all answered", &["M-BASE-041"], many)
        .hostile()
        .should()
        .stdio(),
];

fn bytes(probe: &mut Probe) -> Verdict {
    let lines: [&[u8]; 4] = [b"\xff\xfe\x80", b"{\"jsonrpc\":\"\xc3\x28\"}", b"\xed\xa0\x80", b"\xf0\x9f\x98"];
    for line in lines {
        probe.write_line(line)?;
    }
    probe.settle().map(|_| ())
}

fn controls(probe: &mut Probe) -> Verdict {
    for line in ["\0\0\0", "{\"jsonrpc\":\0\"2.0\"}", "\u{1b}[2J", "\u{feff}{}", "", " \t "] {
        probe.write_line(line.as_bytes())?;
    }
    probe.settle().map(|_| ())
}

/// Sends a message that may be refused, with a value in its metadata, and looks whether the server goes on.
fn survives(probe: &mut Probe, filler: &str) -> Verdict {
    let method = if probe.era() == Era::Modern { "server/discover" } else { "ping" };
    let params = if probe.era() == Era::Modern { Value::Null } else { json!({"_meta": {}}) };
    let mut message = probe.request(method, params);
    message["params"]["_meta"]["example.com/filler"] = json!("FILLER");
    let body = message.to_string().replace("\"FILLER\"", filler);
    // It may be too deep to be read here.
    probe.expect_id(&message["id"]);
    probe.forget_ids();
    if probe.is_http() {
        let mut request = probe.http_request(&message);
        request.body = body.into_bytes();
        // A server may close the connection of a message that is too large.
        let _ = probe.post(&request);
        let reply = probe.call(method, Value::Null)?;
        return ensure(reply.message["result"].is_object(), || format!("{method} fails afterwards"));
    }
    let note = format!("({} bytes) {} ...", body.len(), &body[..body.len().min(200)]);
    probe.write_long(&[body.as_bytes(), b"\n"].concat(), &note)?;
    probe.settle().map(|_| ())
}

fn large(probe: &mut Probe) -> Verdict {
    let filler = format!("\"{}\"", "x".repeat(probe.hostile.bytes));
    survives(probe, &filler)
}

fn deep(probe: &mut Probe) -> Verdict {
    let depth = probe.hostile.depth;
    survives(probe, &format!("{}{}", "[".repeat(depth), "]".repeat(depth)))
}

fn duplicates(probe: &mut Probe) -> Verdict {
    if probe.is_http() {
        return not_applicable("it is tried over standard input and output");
    }
    probe.forget_ids();
    probe.write_line(br#"{"jsonrpc":"2.0","id":920001,"id":920002,"method":"ping","method":"tools/list"}"#)?;
    probe.settle().map(|_| ())
}

fn many(probe: &mut Probe) -> Verdict {
    let count = probe.hostile.messages;
    let method = if probe.era() == Era::Modern { "server/discover" } else { "ping" };
    let (mut left, mut sent) = (HashSet::new(), 0);
    while sent < count {
        let mut bytes = Vec::new();
        let len = PIECE.min(count - sent);
        for _ in 0..len {
            let message = probe.request(method, Value::Null);
            left.insert(message["id"].to_string());
            probe.expect_id(&message["id"]);
            bytes.extend_from_slice(message.to_string().as_bytes());
            bytes.push(b'\n');
        }
        sent += len;
        probe.write_long(&bytes, &format!("({len} requests {method})"))?;
        // A server that writes responses to all of them waits for a reader before it reads more.
        let in_flight = if sent == count { 0 } else { PIECE };
        let deadline = Instant::now() + probe.patience();
        while left.len() > in_flight {
            let Some(message) = probe.next_response(deadline)? else {
                return failed(format!("{} of {sent} requests have no response", left.len()));
            };
            left.remove(&message["id"].to_string());
        }
    }
    Ok(())
}

fn notifications(probe: &mut Probe) -> Verdict {
    let count = probe.hostile.messages;
    let line = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/mcp-check/unknown\"}\n";
    probe.write_long(&line.repeat(count), &format!("({count} notifications)"))?;
    let before = probe.settle()?;
    ensure(before.is_empty(), || format!("{} notifications have a response", before.len()))
}
