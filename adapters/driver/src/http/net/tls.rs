//! TLS connections, on rustls.

use std::{
    future::poll_fn,
    io::{self, BufRead as _, ErrorKind, IoSlice, Write as _},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use rustls::{
    ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection, crypto::ring::default_provider,
    pki_types::ServerName,
};
use rustls_platform_verifier::BuilderVerifierExt as _;

/// Creates the default configuration, which trusts the certificates that this system trusts. It blocks, since it reads
/// files.
pub(super) fn default_config() -> io::Result<Arc<ClientConfig>> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    let mut config = builder.with_platform_verifier().map_err(io::Error::other)?.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A TLS connection over a stream.
pub(super) struct Tls<S> {
    io: S,
    session: Connection,
    /// This side has closed its write direction.
    is_shut: bool,
}

impl<S: Read + Write + Unpin> Tls<S> {
    /// Performs the handshake as a client and returns the connection.
    ///
    /// # Errors
    /// If the certificate of the server is not trusted, there is no common version of TLS, or the server closes the
    /// connection.
    pub(super) async fn client(config: Arc<ClientConfig>, host: &str, io: S) -> io::Result<Self> {
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let mut tls = Self { io, session: session.into(), is_shut: false };
        poll_fn(|cx| tls.poll_handshake(cx)).await?;
        Ok(tls)
    }

    /// Creates the server's end of a connection. Reads and writes perform the handshake.
    ///
    /// # Errors
    /// If rustls rejects the configuration.
    pub(super) fn server(config: Arc<ServerConfig>, io: S) -> io::Result<Self> {
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Self { io, session: session.into(), is_shut: false })
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_drain(cx))?;
            if !self.session.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            if ready!(self.poll_fill(cx))? == 0 {
                return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Reads TLS records from the stream and processes them. Returns the number of bytes read; 0 is the end of the
    /// stream.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let read = match self.session.read_tls(&mut SyncIo { io: &mut self.io, cx }) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
            read => read?,
        };
        if let Err(error) = self.session.process_new_packets() {
            // The alert is sent only as far as that is possible without waiting.
            let _ = self.poll_drain(cx);
            return Poll::Ready(Err(io::Error::new(ErrorKind::InvalidData, error)));
        }
        Poll::Ready(Ok(read))
    }

    /// Writes pending TLS records to the stream.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut SyncIo { io: &mut self.io, cx }) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
                Ok(0) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                written => _ = written?,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Passes plaintext to rustls with `take` and writes the resulting records. Waits while rustls has no room.
    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        take: impl Fn(&mut rustls::Writer<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let taken = take(&mut self.session.writer())?;
            let drained = self.poll_drain(cx)?;
            if taken > 0 {
                return Poll::Ready(Ok(taken));
            }
            ready!(drained);
            // Plaintext for which there is no room before the end of the handshake waits for the handshake.
            if self.session.is_handshaking() {
                ready!(self.poll_handshake(cx))?;
            }
        }
    }
}

impl<S: Read + Write + Unpin> Read for Tls<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            // Reading can produce output that the peer waits for.
            let _ = self.poll_drain(cx);
            let mut reader = self.session.reader();
            match reader.fill_buf() {
                Ok(plaintext) => {
                    let len = plaintext.len().min(buffer.remaining());
                    buffer.put_slice(&plaintext[..len]);
                    reader.consume(len);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            ready!(self.poll_fill(cx))?;
        }
    }
}

impl<S: Read + Write + Unpin> Write for Tls<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.poll_take(cx, |writer| writer.write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if slices.iter().all(|slice| slice.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        self.poll_take(cx, |writer| writer.write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_shut {
            self.session.send_close_notify();
            self.is_shut = true;
        }
        // A peer that closed the connection first does not read the rest, so the result is ignored.
        let _ = ready!(self.poll_drain(cx));
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Adapts the stream to the synchronous I/O of rustls: pending operations return `WouldBlock`.
struct SyncIo<'a, 'b, S> {
    io: &'a mut S,
    cx: &'a mut Context<'b>,
}

impl<S: Read + Unpin> io::Read for SyncIo<'_, '_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        or_would_block(Pin::new(&mut *self.io).poll_read(self.cx, buffer.unfilled()))?;
        Ok(buffer.filled().len())
    }
}

impl<S: Write + Unpin> io::Write for SyncIo<'_, '_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        or_would_block(Pin::new(&mut *self.io).poll_write(self.cx, bytes))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        or_would_block(Pin::new(&mut *self.io).poll_write_vectored(self.cx, slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the result of a poll, or the error `WouldBlock` if it is pending.
fn or_would_block<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, future::Future, pin::pin, sync::Mutex, task::Waker};

    use rustls::{
        RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer},
    };

    use super::*;
    use crate::sync::lock;

    /// One direction of a connection in memory.
    struct Pipe {
        bytes: VecDeque<u8>,
        capacity: usize,
        is_closed: bool,
    }

    /// One end of a connection in memory. Dropping it closes the connection.
    struct End {
        incoming: Arc<Mutex<Pipe>>,
        outgoing: Arc<Mutex<Pipe>>,
    }

    impl End {
        fn pair(capacity: usize) -> (Self, Self) {
            let pipe = || Arc::new(Mutex::new(Pipe { bytes: VecDeque::new(), capacity, is_closed: false }));
            let (there, back) = (pipe(), pipe());
            (Self { incoming: back.clone(), outgoing: there.clone() }, Self { incoming: there, outgoing: back })
        }
    }

    impl Drop for End {
        fn drop(&mut self) {
            lock(&self.outgoing).is_closed = true;
        }
    }

    impl Read for End {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
            let mut pipe = lock(&self.incoming);
            if pipe.bytes.is_empty() && !pipe.is_closed {
                return Poll::Pending;
            }
            let len = pipe.bytes.len().min(buffer.remaining());
            buffer.put_slice(&pipe.bytes.drain(..len).collect::<Vec<_>>());
            Poll::Ready(Ok(()))
        }
    }

    impl Write for End {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let mut pipe = lock(&self.outgoing);
            let len = bytes.len().min(pipe.capacity - pipe.bytes.len());
            pipe.bytes.extend(&bytes[..len]);
            if len == 0 { Poll::Pending } else { Poll::Ready(Ok(len)) }
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            lock(&self.outgoing).is_closed = true;
            Poll::Ready(Ok(()))
        }
    }

    fn configs() -> (Arc<ClientConfig>, Arc<ServerConfig>) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let certificate: CertificateDer<'static> = made.cert.into();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).expect("it can be trusted");
        let provider = Arc::new(default_provider());
        let client = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let server = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let server = server.expect("versions").with_no_client_auth().with_single_cert(vec![certificate], key);
        let client = client.expect("versions").with_root_certificates(roots).with_no_client_auth();
        (Arc::new(client), Arc::new(server.expect("they belong together")))
    }

    async fn write(tls: &mut Tls<End>, mut bytes: &[u8], vectored: bool) -> io::Result<()> {
        while !bytes.is_empty() {
            let (left, right) = bytes.split_at(bytes.len() / 3);
            let written = poll_fn(|cx| match vectored {
                true => Pin::new(&mut *tls).poll_write_vectored(cx, &[IoSlice::new(left), IoSlice::new(right)]),
                false => Pin::new(&mut *tls).poll_write(cx, bytes),
            });
            bytes = &bytes[written.await?..];
        }
        poll_fn(|cx| Pin::new(&mut *tls).poll_flush(cx)).await
    }

    async fn read(tls: &mut Tls<End>) -> io::Result<Vec<u8>> {
        let (mut all, mut chunk) = (Vec::new(), [0; 100]);
        loop {
            let mut buffer = ReadBuf::new(&mut chunk);
            poll_fn(|cx| Pin::new(&mut *tls).poll_read(cx, buffer.unfilled())).await?;
            if buffer.filled().is_empty() {
                return Ok(all);
            }
            all.extend_from_slice(buffer.filled());
        }
    }

    async fn shut(tls: &mut Tls<End>) -> io::Result<()> {
        poll_fn(|cx| Pin::new(&mut *tls).poll_shutdown(cx)).await
    }

    /// Runs both ends until both are done.
    fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
        let (mut one, mut other) = (pin!(one), pin!(other));
        let (mut first, mut second) = (None, None);
        let cx = &mut Context::from_waker(Waker::noop());
        for _ in 0..10_000_000 {
            if first.is_none() {
                first = ready_or_none(one.as_mut().poll(cx));
            }
            if second.is_none() {
                second = ready_or_none(other.as_mut().poll(cx));
            }
            if first.is_some() && second.is_some() {
                break;
            }
        }
        (first.expect("it comes to an end"), second.expect("it comes to an end"))
    }

    fn ready_or_none<T>(poll: Poll<T>) -> Option<T> {
        match poll {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn echoes_data_through_pipes_of_any_capacity() {
        let (client_config, server_config) = configs();
        for (capacity, most) in [(1, 200), (7, 1000), (1000, 100_000), (1 << 20, 100_000)] {
            for len in [0, 1, most] {
                let text: Vec<u8> = (0..len).map(|n: u32| (n % 251) as u8).collect();
                let (near, far) = End::pair(capacity);
                let client = async {
                    let mut tls = Tls::client(client_config.clone(), "localhost", near).await?;
                    write(&mut tls, &text, false).await?;
                    shut(&mut tls).await?;
                    read(&mut tls).await
                };
                let server = async {
                    let mut tls = Tls::server(server_config.clone(), far)?;
                    let text = read(&mut tls).await?;
                    write(&mut tls, &text, true).await?;
                    shut(&mut tls).await
                };
                let (echo, served) = both(client, server);
                served.expect("a good end");
                assert!(echo.expect("a good end") == text, "{len} bytes through {capacity}");
            }
        }
    }

    #[test]
    fn server_may_write_first() {
        let (client_config, server_config) = configs();
        let (near, far) = End::pair(100);
        let text = vec![7; 200_000];
        let client = async { read(&mut Tls::client(client_config, "localhost", near).await?).await };
        let server = async {
            let mut tls = Tls::server(server_config, far)?;
            write(&mut tls, &text, false).await?;
            shut(&mut tls).await
        };
        let (read, written) = both(client, server);
        written.expect("a good end");
        assert!(read.expect("a good end") == text);
    }

    #[test]
    fn truncated_tls_stream_is_an_error() {
        let (client_config, server_config) = configs();
        let (near, far) = End::pair(1000);
        let client = async { read(&mut Tls::client(client_config.clone(), "localhost", near).await?).await };
        let server = async {
            let mut tls = Tls::server(server_config.clone(), far)?;
            // It closes the connection without an alert.
            write(&mut tls, b"half of", false).await
        };
        let (read, written) = both(client, server);
        written.expect("it is written");
        assert_eq!(read.map_err(|error| error.kind()), Err(ErrorKind::UnexpectedEof));
        // A peer that receives something other than a handshake, or nothing, fails as well.
        for (answer, kind) in
            [(&b"HTTP/1.1 400 Bad Request\r\n"[..], ErrorKind::InvalidData), (b"", ErrorKind::UnexpectedEof)]
        {
            let (near, far) = End::pair(10_000);
            lock(&far.outgoing).bytes.extend(answer);
            drop(far);
            let refused = both(Tls::client(client_config.clone(), "localhost", near), async {}).0;
            assert_eq!(refused.err().map(|error| error.kind()), Some(kind));
        }
    }

    /// A stream whose writes have a result, and whose reads fail.
    struct Broken(Result<usize, ErrorKind>);

    impl Read for Broken {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(ErrorKind::ConnectionAborted.into()))
        }
    }

    impl Write for Broken {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(self.0.map(|len| len.min(bytes.len())).map_err(Into::into))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn errors_of_the_stream_end_the_handshake() {
        let (config, _) = configs();
        for (written, expected) in [
            (Err(ErrorKind::ConnectionReset), ErrorKind::ConnectionReset),
            (Ok(0), ErrorKind::WriteZero),
            (Ok(usize::MAX), ErrorKind::ConnectionAborted),
        ] {
            let mut handshake = pin!(Tls::client(config.clone(), "localhost", Broken(written)));
            let ended = handshake.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(ended.map(|ended| ended.err().map(|error| error.kind())), Poll::Ready(Some(expected)));
        }
    }
}
