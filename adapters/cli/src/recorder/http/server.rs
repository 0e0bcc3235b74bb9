//! Connections to the server, in the clear or over TLS. One thread writes while another one reads.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpStream, ToSocketAddrs},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use http::Uri;
use rustls::{ClientConfig, ClientConnection, pki_types::ServerName};
use rustls_platform_verifier::ConfigVerifierExt;

use super::head::Origin;
use crate::{address, error::Failed};

/// How long connecting and the handshake of TLS may take, for all addresses together.
const CONNECT: Duration = Duration::from_secs(10);

/// How long the server may not read what is sent to it.
const STALL: Duration = Duration::from_secs(300);

/// How long the last bytes may take.
const END: Duration = Duration::from_secs(10);

/// The bytes that are read of a socket at once.
const RAW: usize = 16 << 10;

/// The address of a server.
pub(super) struct Address {
    pub(super) origin: Origin,
    /// The path and the query.
    pub(super) path: String,
    host: String,
    port: u16,
    tls: Option<Arc<ClientConfig>>,
}

impl Address {
    pub(super) fn new(url: &str) -> Result<Self, Failed> {
        // The address is not repeated: it may have secrets.
        let wrong = || Failed::usage("the URL is not the address of an HTTP server");
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let authority = uri.authority().ok_or_else(wrong)?;
        let scheme = uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme)).ok_or_else(wrong)?;
        if authority.as_str().contains('@') {
            return Err(Failed::usage("the URL has credentials: the client sends them, and not the recorder"));
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err(wrong());
        }
        address::check_port(url)?;
        let is_tls = scheme == "https";
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let config = || ClientConfig::with_platform_verifier().map_err(|error| Failed::connection(&error));
        let tls = if is_tls { Some(Arc::new(config()?)) } else { None };
        let origin = Origin { scheme: scheme.to_owned(), authority: authority.as_str().to_owned() };
        Ok(Self { origin, path, host, port, tls })
    }

    /// Returns the address without its query, which may be a secret.
    pub(super) fn name(&self) -> String {
        format!("{}{}", self.origin.text(), self.path.split('?').next().unwrap_or_default())
    }

    /// Connects to the server.
    pub(super) fn connect(&self) -> io::Result<(ServerReader, ServerWriter)> {
        let deadline = Instant::now() + CONNECT;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, left(deadline)?) {
                Ok(socket) => return self.open(socket, deadline),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn open(&self, mut socket: TcpStream, deadline: Instant) -> io::Result<(ServerReader, ServerWriter)> {
        socket.set_nodelay(true)?;
        let tls = match &self.tls {
            None => None,
            Some(config) => {
                let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
                let mut session = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
                handshake(&mut session, &mut socket, deadline)?;
                socket.set_read_timeout(None)?;
                Some(Arc::new(Tls { session: Mutex::new(session), order: Mutex::new(()) }))
            }
        };
        socket.set_write_timeout(Some(STALL))?;
        // Both directions share the descriptor.
        let socket = Arc::new(socket);
        let writer = ServerWriter { socket: Arc::clone(&socket), tls: tls.clone() };
        let raw = if tls.is_some() { vec![0; RAW] } else { Vec::new() };
        Ok((ServerReader { socket, tls, raw, filled: 0..0 }, writer))
    }
}

/// Returns the time that is left, or an error if there is none.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "connecting took more than 10 seconds"));
    }
    Ok(left)
}

/// Makes the handshake of TLS. The time is checked for each read, because a server may send byte by byte.
fn handshake(session: &mut ClientConnection, socket: &mut TcpStream, deadline: Instant) -> io::Result<()> {
    while session.is_handshaking() || session.wants_write() {
        socket.set_read_timeout(Some(left(deadline)?))?;
        socket.set_write_timeout(Some(left(deadline)?))?;
        if session.wants_write() {
            session.write_tls(socket)?;
            continue;
        }
        if session.read_tls(socket)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Err(error) = session.process_new_packets() {
            // The server may want to know why.
            let _ = session.write_tls(socket);
            return Err(io::Error::other(error));
        }
    }
    Ok(())
}

/// A connection over TLS.
struct Tls {
    session: Mutex<ClientConnection>,
    /// Held from the encryption of bytes until they are written, so that they are written in their order.
    order: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tls {
    /// Takes the bytes that have to be written.
    fn output(&self) -> io::Result<Vec<u8>> {
        let (mut session, mut out) = (lock(&self.session), Vec::new());
        while session.wants_write() {
            session.write_tls(&mut out)?;
        }
        Ok(out)
    }

    fn write(&self, mut socket: &TcpStream, bytes: &[u8]) -> io::Result<()> {
        let _order = lock(&self.order);
        for piece in bytes.chunks(RAW) {
            lock(&self.session).writer().write_all(piece)?;
            socket.write_all(&self.output()?)?;
        }
        Ok(())
    }
}

/// The reading side of a connection.
pub(super) struct ServerReader {
    socket: Arc<TcpStream>,
    tls: Option<Arc<Tls>>,
    /// Encrypted bytes, of which `filled` were read and not decrypted.
    raw: Vec<u8>,
    filled: std::ops::Range<usize>,
}

impl ServerReader {
    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Reads some bytes. 0 is the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return (&*self.socket).read(buffer) };
        loop {
            match lock(&tls.session).reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            if self.filled.is_empty() {
                let len = (&*self.socket).read(&mut self.raw)?;
                self.filled = 0..len;
            }
            {
                let mut session = lock(&tls.session);
                let mut source = &self.raw[self.filled.clone()];
                self.filled.start += session.read_tls(&mut source)?;
                session.process_new_packets().map_err(io::Error::other)?;
            }
            // A thread that is writing writes this, too. It must not be waited for: the server may not be reading.
            if let Ok(_order) = tls.order.try_lock() {
                (&*self.socket).write_all(&tls.output()?)?;
            }
        }
    }
}

/// The writing side of a connection.
pub(super) struct ServerWriter {
    socket: Arc<TcpStream>,
    tls: Option<Arc<Tls>>,
}

impl ServerWriter {
    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &self.tls {
            None => (&*self.socket).write_all(bytes),
            Some(tls) => tls.write(&self.socket, bytes),
        }
    }

    /// Tells the server that nothing follows.
    pub(super) fn end(&mut self) {
        let _ = self.socket.set_write_timeout(Some(END));
        if let Some(tls) = &self.tls {
            lock(&tls.session).send_close_notify();
            let _ = tls.write(&self.socket, &[]);
            let _order = lock(&tls.order);
            if let Ok(out) = tls.output() {
                let _ = (&*self.socket).write_all(&out);
            }
        }
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned, crypto::ring, pki_types::PrivateKeyDer};

    use super::*;

    /// Returns the configurations of a server and of a client that trusts it.
    fn identity() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let certificate: rustls::pki_types::CertificateDer<'static> = made.cert.into();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).expect("it can be trusted");
        let provider = Arc::new(ring::default_provider());
        let server = ServerConfig::builder_with_provider(provider.clone());
        let server = server.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
        let client = ClientConfig::builder_with_provider(provider);
        let client = client.with_safe_default_protocol_versions().expect("versions").with_root_certificates(roots);
        let server = server.with_single_cert(vec![certificate], key).expect("they belong together");
        (Arc::new(server), Arc::new(client.with_no_client_auth()))
    }

    #[test]
    fn both_directions_of_tls_go_on_at_the_same_time() {
        let (server, client) = identity();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        // Sends everything back, so it reads no more when it is not read.
        let echo = thread::spawn(move || {
            let (socket, _) = listener.accept().expect("a connection");
            let mut stream = StreamOwned::new(ServerConnection::new(server).expect("a connection"), socket);
            let mut chunk = vec![0; 40_000];
            loop {
                // The end is an error unless the other side has told it.
                match stream.read(&mut chunk).expect("bytes") {
                    0 => break,
                    len => stream.write_all(&chunk[..len]).expect("it is read"),
                }
            }
            stream.conn.send_close_notify();
            stream.flush().expect("it is read");
        });
        let mut address = Address::new(&format!("http://localhost:{port}/")).expect("an address");
        address.tls = Some(client);
        // The name has addresses of both kinds; the listener has one.
        let socket = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        let (mut reader, mut writer) = address.open(socket, Instant::now() + CONNECT).expect("a handshake");
        let sent: Vec<u8> = (0..8_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let expected = sent.clone();
        let writing = thread::spawn(move || {
            sent.chunks(70_000).for_each(|piece| writer.write(piece).expect("it is read"));
            writer.end();
        });
        let (mut read, mut chunk) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            match reader.read(&mut chunk).expect("bytes") {
                0 => break,
                len => read.extend_from_slice(&chunk[..len]),
            }
        }
        writing.join().expect("it is written");
        echo.join().expect("it has ended");
        assert!(read == expected, "{} of {} bytes", read.len(), expected.len());
    }

    #[test]
    fn addresses_are_read() {
        let address = Address::new("http://[::1]:81/mcp?key=canary").expect("an address");
        assert_eq!((address.host.as_str(), address.port), ("::1", 81));
        assert_eq!(address.name(), "http://[::1]:81/mcp");
        assert_eq!(address.path, "/mcp?key=canary");
        assert_eq!(Address::new("http://localhost").expect("an address").port, 80);
        for wrong in ["", "/mcp", "http://", "ftp://a/", "http://canary@a/"] {
            let error = Address::new(wrong).map(|_| ()).expect_err(wrong).to_string();
            assert!(!error.contains("canary"), "{error}");
        }
    }
}
