//! Encrypted connections, on rustls.

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

/// How servers are known, where nothing else is said: by the certificates that this system trusts. It is read from files.
pub(super) fn usual() -> io::Result<Arc<ClientConfig>> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    let mut config = builder.with_platform_verifier().map_err(io::Error::other)?.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// An encrypted connection over another one.
pub(super) struct Tls<S> {
    io: S,
    session: Connection,
    /// We have said that no more will come.
    is_shut: bool,
}

impl<S: Read + Write + Unpin> Tls<S> {
    /// The client's end, once both sides know each other.
    ///
    /// # Errors
    /// If the server is not who it should be, speaks no TLS that we speak, or hangs up.
    pub(super) async fn client(config: Arc<ClientConfig>, host: &str, io: S) -> io::Result<Self> {
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let mut tls = Self { io, session: session.into(), is_shut: false };
        poll_fn(|cx| tls.poll_handshake(cx)).await?;
        Ok(tls)
    }

    /// The server's end. Both sides come to know each other as soon as it is read from.
    ///
    /// # Errors
    /// If that cannot be with this configuration.
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

    /// Takes in some of what has come; 0 is its end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let read = match self.session.read_tls(&mut Outside { io: &mut self.io, cx }) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
            read => read?,
        };
        if let Err(error) = self.session.process_new_packets() {
            // The peer is told as far as that does not take waiting.
            let _ = self.poll_drain(cx);
            return Poll::Ready(Err(io::Error::new(ErrorKind::InvalidData, error)));
        }
        Poll::Ready(Ok(read))
    }

    /// Writes what there is to write.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut Outside { io: &mut self.io, cx }) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
                Ok(0) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                written => _ = written?,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Takes what is to be written, as far as there is room for it.
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
            // What has no room before both sides know each other waits for that.
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
            // Reading can have something to say: what the other side waits for.
            let _ = self.poll_drain(cx);
            let mut reader = self.session.reader();
            match reader.fill_buf() {
                Ok(text) => {
                    let len = text.len().min(buffer.remaining());
                    buffer.put_slice(&text[..len]);
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
        // Whoever has hung up first is not told again.
        let _ = ready!(self.poll_drain(cx));
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// The connection below, as rustls reads and writes it: whatever would have to wait would block.
struct Outside<'a, 'b, S> {
    io: &'a mut S,
    cx: &'a mut Context<'b>,
}

impl<S: Read + Unpin> io::Read for Outside<'_, '_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        at_once(Pin::new(&mut *self.io).poll_read(self.cx, buffer.unfilled()))?;
        Ok(buffer.filled().len())
    }
}

impl<S: Write + Unpin> io::Write for Outside<'_, '_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        at_once(Pin::new(&mut *self.io).poll_write(self.cx, bytes))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        at_once(Pin::new(&mut *self.io).poll_write_vectored(self.cx, slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn at_once<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}
