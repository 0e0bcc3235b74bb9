//! The protocol in an event loop with one thread: a server for any number of clients over TCP, with `mio`.
//!
//! ```sh
//! cargo run --example mio-loop -- 127.0.0.1:4567
//! ```

mod echo;

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    io::{self, ErrorKind, Read, Write},
    time::Instant,
};

use mcp_proto::{codec::LineDecoder, connection::Server, rpc::Timestamp};
use mio::{
    Events, Interest, Poll, Token,
    net::{TcpListener, TcpStream},
};

const LISTENER: Token = Token(0);

/// One client: its socket and its protocol state.
struct Guest {
    stream: TcpStream,
    server: Server,
    lines: LineDecoder,
    out: Vec<u8>,
    /// Whether the socket may have bytes to read. Its next event comes only after all of them were read.
    readable: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:4567".into());
    Ok(serve(TcpListener::bind(address.parse()?)?, usize::MAX)?)
}

/// Serves until this many clients have disconnected.
fn serve(mut listener: TcpListener, mut guests_left: usize) -> io::Result<()> {
    let (start, mut poll, mut events) = (Instant::now(), Poll::new()?, Events::with_capacity(64));
    let now = || Timestamp::after_zero(start.elapsed());
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let (mut guests, mut next) = (BTreeMap::<Token, Guest>::new(), LISTENER.0);
    while guests_left > 0 {
        // The loop waits for the sockets until the earliest of all deadlines.
        let wake_at = guests.values().filter_map(|guest| Some(guest.server.poll_timeout()?.at)).min();
        match poll.poll(&mut events, wake_at.map(|at| at.saturating_since(now()))) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &events {
            if let Some(guest) = guests.get_mut(&event.token()) {
                guest.readable = true;
                continue;
            }
            while let Ok((mut stream, _)) = listener.accept() {
                next += 1;
                poll.registry().register(&mut stream, Token(next), Interest::READABLE | Interest::WRITABLE)?;
                let (server, lines) = (Server::new(echo::config(), now()), LineDecoder::new(1 << 20));
                guests.insert(Token(next), Guest { stream, server, lines, out: Vec::new(), readable: true });
            }
        }
        for guest in guests.values_mut() {
            guest.turn(now());
        }
        let before = guests.len();
        guests.retain(|_, guest| !(guest.server.is_drained() && guest.out.is_empty()));
        guests_left = guests_left.saturating_sub(before - guests.len());
    }
    Ok(())
}

impl Guest {
    /// Handles timeouts, then reads and writes until neither makes progress.
    fn turn(&mut self, now: Timestamp) {
        self.server.handle_timeout(now);
        while self.write() | self.read(now) {}
    }

    /// Reads while the connection accepts input. Returns whether there was any.
    fn read(&mut self, now: Timestamp) -> bool {
        let (mut chunk, mut any) = ([0; 4096], false);
        // While output waits, the rest stays in the socket, so that the client's writes wait.
        while self.server.wants_input(now) {
            if let Some(frame) = self.lines.next_frame() {
                any = true;
                if let Some(event) = self.server.handle_frame(now, frame) {
                    let answered = echo::answer(&mut self.server, event);
                    // A response is refused if the client does not read. The connection is then closed.
                    answered.unwrap_or_else(|_| self.server.handle_disconnect());
                }
                continue;
            }
            if !self.readable {
                break;
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => {
                    (self.readable, any) = (false, true);
                    self.server.handle_eof(now);
                }
                Ok(len) => self.lines.feed(&chunk[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    (self.readable, any) = (false, true);
                    self.server.handle_disconnect();
                }
            }
        }
        any
    }

    /// Writes as much as the socket accepts. Returns whether it accepted anything.
    fn write(&mut self) -> bool {
        while let Some(event) = self.server.poll_event() {
            let answered = echo::answer(&mut self.server, event);
            answered.unwrap_or_else(|_| self.server.handle_disconnect());
        }
        // The buffer is limited to 64 KiB. The rest stays in the core, which limits it.
        while self.server.poll_transmit_up_to(&mut self.out, 1 << 16).is_some() {}
        if self.out.is_empty() {
            return false;
        }
        match self.stream.write(&self.out) {
            Ok(len) => {
                drop(self.out.drain(..len));
                self.server.handle_written();
                len > 0
            }
            Err(error) => {
                if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) {
                    self.server.handle_disconnect();
                    self.out.clear();
                }
                error.kind() == ErrorKind::Interrupted
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{BufRead, BufReader},
        net, thread,
    };

    #[test]
    fn serves_several_clients_until_they_disconnect() {
        let listener = TcpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let serving = thread::spawn(move || serve(listener, 3));
        let open = || net::TcpStream::connect(address).expect("a listener");
        let mut guests = [open(), open(), open()];
        let say = |guest: &mut net::TcpStream, line: &str| writeln!(guest, "{line}").expect("it is read");
        let hear = |guest: &net::TcpStream| {
            let mut line = String::new();
            BufReader::new(guest).read_line(&mut line).expect("an answer");
            line
        };
        for guest in &mut guests {
            say(
                guest,
                r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"n","version":"1"}}}"#,
            );
            assert!(hear(guest).contains(r#""name":"embedded""#));
            say(guest, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        }
        for (number, guest) in guests.iter_mut().enumerate() {
            say(
                guest,
                &format!(
                    r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"echo","arguments":{{"message":"guest {number}"}}}}}}"#
                ),
            );
        }
        // The last client is answered before the first one disconnects.
        for (number, guest) in guests.iter().enumerate().rev() {
            assert!(hear(guest).contains(&format!("guest {number}")));
        }
        drop(guests);
        serving.join().expect("no panic").expect("no error");
    }

    #[test]
    fn slow_reader_receives_every_response() {
        const CALLS: usize = 256;
        let listener = net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let mut client =
            net::TcpStream::connect(listener.local_addr().expect("an address")).expect("the listener listens");
        let (stream, _) = listener.accept().expect("a client");
        for stream in [&client, &stream] {
            stream.set_nonblocking(true).expect("a socket that does not block");
        }
        let (now, mut config) = (Timestamp::ZERO, echo::config());
        config.settings.limits.outbox_bytes = 1 << 20;
        let mut guest = Guest {
            stream: TcpStream::from_std(stream),
            server: Server::new(config, now),
            lines: LineDecoder::new(1 << 20),
            out: Vec::new(),
            readable: true,
        };
        let mut calls = String::from(
            r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"n","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
"#,
        );
        // More than the two sockets and the connection hold.
        let message = "x".repeat(64 << 10);
        for number in 0..CALLS {
            calls += &format!(
                r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"name":"echo","arguments":{{"message":"{message}"}}}}}}"#
            );
            calls.push('\n');
        }
        let mut rest = calls.as_bytes();
        let mut turn = |client: &mut net::TcpStream, guest: &mut Guest| {
            // Stands for an event of the poll.
            guest.readable = true;
            guest.turn(now);
            match client.write(rest) {
                Ok(len) => rest = &rest[len..],
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
            rest.is_empty()
        };
        // The client reads only after it has written everything, or after the server has stopped reading.
        let mut idle = 0;
        while !turn(&mut client, &mut guest) && idle < 100 {
            idle = if guest.server.wants_input(now) { 0 } else { idle + 1 };
        }
        assert!(!guest.server.wants_input(now), "the answers do not fit, and reading goes on");
        let (mut answers, mut lines, mut chunk) = (Vec::new(), 0, vec![0; 1 << 16]);
        while lines <= CALLS {
            turn(&mut client, &mut guest);
            match client.read(&mut chunk) {
                Ok(len) => {
                    assert!(len > 0, "the server has closed the connection");
                    lines += chunk[..len].iter().filter(|byte| **byte == b'\n').count();
                    answers.extend_from_slice(&chunk[..len]);
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
        }
        let answers = String::from_utf8(answers).expect("text");
        for (number, answer) in answers.lines().skip(1).enumerate() {
            assert!(answer.contains(&format!("\"id\":{number},")) && answer.contains("\"content\""), "{number}");
        }
    }
}
