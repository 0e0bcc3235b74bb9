//! A Redis server for tests.

use std::{
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::Instant,
};

use crate::LONG;

/// A running Redis server that belongs to the test.
pub(super) struct Redis {
    port: u16,
    process: Child,
}

impl Redis {
    /// Starts the server. Returns `None` if it is not installed.
    pub(super) fn start() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
        let arguments = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        let process = Command::new("redis-server").args(arguments).stdout(Stdio::null()).spawn();
        let redis = Self { port, process: process.ok()? };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < LONG, "it does not listen");
            std::thread::yield_now();
        }
        Some(redis)
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
