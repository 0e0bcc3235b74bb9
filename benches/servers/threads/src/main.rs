//! The cost of sockets and threads: each connection has a thread, which finds the end of the head and the length of the
//! body, and the parts of the response, by searching for bytes. It listens on any free port, and prints its address.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use memchr::{memmem, memrchr};

/// Appends the response to a call.
fn answer(body: &[u8], out: &mut Vec<u8>) {
    let id = memmem::find(body, b"\"id\":").map_or(&b"0"[..], |at| &body[at + 5..]);
    let digits = id.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let message = memmem::find(body, b"\"message\":\"").map(|at| at + 11);
    let message = message.map_or(&b""[..], |at| &body[at..memrchr(b'"', body).expect("the end of it")]);
    let parts: [&[u8]; 5] = [
        b"{\"jsonrpc\":\"2.0\",\"id\":",
        &id[..digits],
        b",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"",
        message,
        b"\"}]}}",
    ];
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

fn length(head: &[u8]) -> usize {
    let lines = str::from_utf8(head).unwrap_or_default().split("\r\n").filter_map(|line| line.split_once(':'));
    let mut lengths = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths.next().and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}

/// Responds to the requests of one connection, until it ends.
fn serve(mut stream: TcpStream) -> io::Result<()> {
    let (mut bytes, mut read) = (vec![0; 64 << 10], 0);
    let (mut body, mut out) = (Vec::new(), Vec::new());
    loop {
        let mut fill = |bytes: &mut Vec<u8>, read: &mut usize| match stream.read(&mut bytes[*read..])? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            more => {
                *read += more;
                Ok(())
            }
        };
        let head = loop {
            match memmem::find(&bytes[..read], b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => fill(&mut bytes, &mut read)?,
            }
        };
        let end = head + length(&bytes[..head]);
        bytes.resize(bytes.len().max(end), 0);
        while read < end {
            fill(&mut bytes, &mut read)?;
        }
        body.clear();
        out.clear();
        answer(&bytes[head..end], &mut body);
        write!(out, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len())?;
        out.extend_from_slice(&body);
        stream.write_all(&out)?;
        bytes.copy_within(end..read, 0);
        read -= end;
    }
}

fn main() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        thread::spawn(move || serve(stream));
    }
}
