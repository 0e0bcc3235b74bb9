//! The protocol inside of an event loop of one thread: a server for any number of clients over TCP, with `mio`.
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

/// One client: its socket, and what the protocol knows of it.
struct Guest {
    stream: TcpStream,
    server: Server,
    lines: LineDecoder,
    out: Vec<u8>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:4567".into());
    Ok(serve(TcpListener::bind(address.parse()?)?, usize::MAX)?)
}

/// Serves until so many clients have come and gone.
fn serve(mut listener: TcpListener, mut guests_left: usize) -> io::Result<()> {
    let (start, mut poll, mut events) = (Instant::now(), Poll::new()?, Events::with_capacity(64));
    let now = || Timestamp::after_zero(start.elapsed());
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let (mut guests, mut next) = (BTreeMap::<Token, Guest>::new(), LISTENER.0);
    while guests_left > 0 {
        // The earliest of all deadlines is how long to wait for the sockets.
        let wake_at = guests.values().filter_map(|guest| Some(guest.server.poll_timeout()?.at)).min();
        match poll.poll(&mut events, wake_at.map(|at| at.saturating_since(now()))) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &events {
            if let Some(guest) = guests.get_mut(&event.token()) {
                guest.read(now());
                continue;
            }
            while let Ok((mut stream, _)) = listener.accept() {
                next += 1;
                poll.registry().register(&mut stream, Token(next), Interest::READABLE | Interest::WRITABLE)?;
                let (server, lines) = (Server::new(echo::config(), now()), LineDecoder::new(1 << 20));
                guests.insert(Token(next), Guest { stream, server, lines, out: Vec::new() });
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
    /// Takes in what has come, until nothing more is there: the next event says when there is.
    fn read(&mut self, now: Timestamp) {
        let mut chunk = [0; 4096];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return self.server.handle_eof(now),
                Ok(len) => self.lines.feed(&chunk[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return self.server.handle_broken(),
            }
            while let Some(frame) = self.lines.next_frame() {
                if let Some(event) = self.server.handle_frame(now, frame) {
                    let answered = echo::answer(&mut self.server, event);
                    // It is refused once the client takes nothing more: then there is nobody to answer.
                    answered.unwrap_or_else(|_| self.server.handle_broken());
                }
            }
        }
    }

    /// Lets time pass, and writes as much as the socket takes.
    fn turn(&mut self, now: Timestamp) {
        self.server.handle_timeout(now);
        while let Some(event) = self.server.poll_event() {
            let answered = echo::answer(&mut self.server, event);
            answered.unwrap_or_else(|_| self.server.handle_broken());
        }
        // Not more than fits a reasonable buffer; what is left stays in the core, which bounds it.
        while self.server.poll_transmit_up_to(&mut self.out, 1 << 16).is_some() {}
        match self.stream.write(&self.out) {
            Ok(len) => drop(self.out.drain(..len)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => {
                self.server.handle_broken();
                self.out.clear();
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
    fn clients_are_served_beside_each_other_to_their_ends() {
        let listener = TcpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let serving = thread::spawn(move || serve(listener, 3));
        let open = || net::TcpStream::connect(address).expect("somebody listens");
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
        // The last one is answered before the first one has gone.
        for (number, guest) in guests.iter().enumerate().rev() {
            assert!(hear(guest).contains(&format!("guest {number}")));
        }
        drop(guests);
        serving.join().expect("no panic").expect("no error");
    }
}
