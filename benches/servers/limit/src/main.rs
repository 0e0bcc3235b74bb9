//! Two programs that are lower limits and not usable servers. `json` parses each line with serde, borrowing as much as
//! possible, and serializes the response. `pipe` finds the message by searching for bytes.

use std::{
    borrow::Cow,
    env,
    io::{self, Read, Write},
};

use memchr::{memchr, memmem, memrchr};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

const INITIALIZED: &str =
    r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"limit","version":"1.0.0"}}"#;

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Echo<'a>,
}

#[derive(Deserialize)]
struct Echo<'a> {
    #[serde(borrow)]
    message: Cow<'a, str>,
}

#[derive(Serialize)]
struct Response<'a, T> {
    jsonrpc: &'a str,
    id: &'a RawValue,
    result: T,
}

#[derive(Serialize)]
struct Said<'a> {
    content: [Text<'a>; 1],
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'a str,
    text: &'a str,
}

fn write<T: Serialize>(out: &mut Vec<u8>, id: &RawValue, result: T) {
    serde_json::to_writer(&mut *out, &Response { jsonrpc: "2.0", id, result }).expect("memory");
    out.push(b'\n');
}

fn json(line: &[u8], out: &mut Vec<u8>) {
    let request: Request<'_> = serde_json::from_slice(line).expect("a message");
    assert_eq!(request.jsonrpc, "2.0");
    match (request.id, &*request.method) {
        (Some(id), "initialize") => write(out, id, serde_json::from_str::<&RawValue>(INITIALIZED).expect("JSON")),
        (Some(id), "tools/call") => {
            let call: Call<'_> = serde_json::from_str(request.params.expect("params").get()).expect("a call");
            assert_eq!(call.name, "echo");
            write(out, id, Said { content: [Text { r#type: "text", text: &call.arguments.message }] });
        }
        (Some(_), other) => panic!("{other}"),
        (None, _) => {}
    }
}

fn pipe(line: &[u8], out: &mut Vec<u8>) {
    let head = &line[..line.len().min(256)];
    let Some(id) = memmem::find(head, b"\"id\":").map(|at| &head[at + 5..]) else { return };
    let digits = id.iter().take_while(|byte| byte.is_ascii_digit()).count();
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(&id[..digits]);
    out.extend_from_slice(b",\"result\":");
    match memmem::find(head, b"\"message\":\"") {
        Some(at) => {
            out.extend_from_slice(b"{\"content\":[{\"type\":\"text\",\"text\":\"");
            out.extend_from_slice(&line[at + 11..memrchr(b'"', line).expect("the end of it")]);
            out.extend_from_slice(b"\"}]}");
        }
        None => out.extend_from_slice(INITIALIZED.as_bytes()),
    }
    out.extend_from_slice(b"}\n");
}

fn main() -> io::Result<()> {
    let answer = if env::args().nth(1).is_some_and(|mode| mode == "pipe") { pipe } else { json };
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let (mut buffer, mut filled, mut out) = (vec![0; 256 << 10], 0, Vec::new());
    loop {
        if filled == buffer.len() {
            buffer.resize(2 * filled, 0);
        }
        let read = input.read(&mut buffer[filled..])?;
        if read == 0 {
            return Ok(());
        }
        let (mut start, mut searched) = (0, filled);
        filled += read;
        while let Some(length) = memchr(b'\n', &buffer[searched..filled]) {
            answer(&buffer[start..searched + length], &mut out);
            (start, searched) = (searched + length + 1, searched + length + 1);
        }
        buffer.copy_within(start..filled, 0);
        filled -= start;
        output.write_all(&out)?;
        output.flush()?;
        out.clear();
        out.shrink_to(4 << 20);
    }
}
