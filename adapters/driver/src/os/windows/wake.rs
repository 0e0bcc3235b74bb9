//! A pair of ends, one of which can be polled until the other one wakes it.
//!
//! Only sockets can be polled, so these are sockets of UDP on the loopback interface. Each is connected to the other
//! one, so the system delivers no datagrams of other sockets. One that was forged could only end a wait early.

use std::{
    io,
    net::{Ipv4Addr, UdpSocket},
    os::windows::io::{AsSocket, BorrowedSocket},
};

/// The end that becomes readable: for good when the other end is dropped, and otherwise once for each
/// [`wake`](WakeWriter::wake).
#[derive(Debug)]
pub struct WakeReader(UdpSocket);

/// The end that wakes the other one.
#[derive(Debug)]
pub struct WakeWriter(UdpSocket);

/// Creates a pair.
///
/// # Errors
/// If the system has no ports or no handles left.
pub fn wake_pair() -> io::Result<(WakeReader, WakeWriter)> {
    let reader = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let writer = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    reader.connect(writer.local_addr()?)?;
    writer.connect(reader.local_addr()?)?;
    // A datagram that came before the connection.
    reader.set_nonblocking(true)?;
    while reader.recv(&mut [0]).is_ok() {}
    reader.set_nonblocking(false)?;
    // A full buffer has woken the other end already.
    writer.set_nonblocking(true)?;
    Ok((WakeReader(reader), WakeWriter(writer)))
}

impl WakeReader {
    /// Consumes one wake-up, and waits for it if there is none.
    ///
    /// # Errors
    /// The error of the system.
    pub fn drain_one(&self) -> io::Result<()> {
        self.0.recv(&mut [0]).map(drop)
    }
}

impl AsSocket for WakeReader {
    fn as_socket(&self) -> BorrowedSocket<'_> {
        self.0.as_socket()
    }
}

impl WakeWriter {
    /// Wakes the other end. It has room for more wake-ups than there can be threads that cause them.
    pub fn wake(&self) {
        let _ = self.0.send(&[1]);
    }
}

impl Drop for WakeWriter {
    fn drop(&mut self) {
        self.wake();
    }
}
