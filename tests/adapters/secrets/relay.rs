//! A proxy on the loopback interface.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// A proxy that forwards requests and opens tunnels.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Relay {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let relay = Self { address: listener.local_addr().expect("an address"), connections: Arc::default() };
        let connections = relay.connections.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::SeqCst);
                // Errors are visible at both ends.
                thread::spawn(move || serve(client));
            }
        });
        relay
    }

    /// Returns the number of connections that clients have opened.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Serves one connection. Only the target of its first request counts.
fn serve(mut client: TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line)? > 2 {
        head += &line;
        line.clear();
    }
    let target = head.split(' ').nth(1).unwrap_or_default();
    let authority = target.trim_start_matches("http://").split('/').next().unwrap_or_default();
    let mut server = TcpStream::connect(authority)?;
    if head.starts_with("CONNECT ") {
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    } else {
        server.write_all(format!("{head}\r\n").as_bytes())?;
    }
    server.write_all(reader.buffer())?;
    let (mut back, mut forth) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut back, &mut forth);
        let _ = forth.shutdown(Shutdown::Both);
    });
    io::copy(&mut client, &mut server)?;
    server.shutdown(Shutdown::Both)
}
