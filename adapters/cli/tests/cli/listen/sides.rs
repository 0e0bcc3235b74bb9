//! Both sides of the recorder: the recorder as clients see it, and a server.

use std::{
    io::ErrorKind,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use super::WAIT;
use crate::bridge::start_listening;

/// A recorder that ends with the test.
pub(crate) struct Listening {
    pub(super) process: Child,
    /// The host and the port.
    pub(crate) address: String,
    pub(crate) url: String,
}

impl Listening {
    pub(crate) fn start(file: &Path, url: &str, more: &[&str]) -> Self {
        Self::start_with(Command::new(env!("CARGO_BIN_EXE_mcp")), file, url, more)
    }

    /// Starts it by a command that appends the arguments.
    pub(super) fn start_with(mut command: Command, file: &Path, url: &str, more: &[&str]) -> Self {
        command.args(["record", "--listen", "127.0.0.1:0", "-o"]).arg(file).args(more).arg(url);
        let (process, url) = start_listening(command);
        let rest = url.strip_prefix("http://").expect("a URL");
        let address = rest.split('/').next().expect("an address").to_owned();
        Self { process, address, url }
    }

    /// Returns how much memory the recorder has.
    #[cfg(target_os = "linux")]
    pub(super) fn kib(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it runs");
        let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("its memory");
        own.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    pub(super) fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(&self.address).expect("it listens");
        socket.set_read_timeout(Some(WAIT)).expect("a timeout");
        socket
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A server whose connections are those that the test accepts.
pub(super) struct Server(TcpListener);

impl Server {
    pub(super) fn start() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        (Self(listener), url)
    }

    pub(super) fn authority(&self) -> String {
        self.0.local_addr().expect("an address").to_string()
    }

    /// Accepts a connection, and panics if none arrives in time.
    pub(super) fn accept(&self) -> TcpStream {
        self.0.set_nonblocking(true).expect("a socket");
        let deadline = Instant::now() + WAIT;
        let socket = loop {
            match self.0.accept() {
                Ok((socket, _)) => break socket,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
            assert!(Instant::now() < deadline, "no connection arrives");
            thread::park_timeout(Duration::from_millis(1));
        };
        // On some systems it is as its listener is.
        socket.set_nonblocking(false).expect("a socket");
        socket.set_read_timeout(Some(WAIT)).expect("a timeout");
        socket
    }
}
