//! Named pipes, where Unix has sockets with a path.

use std::{
    ffi::OsString,
    fmt,
    future::Future,
    io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::windows::named_pipe::{ClientOptions, NamedPipeClient, NamedPipeServer, ServerOptions},
    time::sleep,
};

/// The error of a pipe whose instances are all in use (`ERROR_PIPE_BUSY`): the server is about to create the next one.
const PIPE_BUSY: i32 = 231;

/// How often a busy pipe is tried, and the pause between.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

type Accepting = Pin<Box<dyn Future<Output = io::Result<NamedPipeServer>> + Send>>;

/// A named pipe that clients connect to.
pub struct LocalListener {
    name: OsString,
    /// The instance that waits for the next client. None after it could not be created, until the next try.
    next: Mutex<Option<Accepting>>,
}

impl fmt::Debug for LocalListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalListener").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A connection over a named pipe.
#[derive(Debug)]
pub(crate) enum LocalStream {
    Server(NamedPipeServer),
    Client(NamedPipeClient),
}

impl AsyncRead for LocalStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Server(pipe) => Pin::new(pipe).poll_read(cx, buffer),
            Self::Client(pipe) => Pin::new(pipe).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for LocalStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Server(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            Self::Client(pipe) => Pin::new(pipe).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Server(pipe) => Pin::new(pipe).poll_flush(cx),
            Self::Client(pipe) => Pin::new(pipe).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

/// Waits for a client of an instance.
fn accept(server: NamedPipeServer) -> Accepting {
    Box::pin(async move {
        server.connect().await?;
        Ok(server)
    })
}

pub(crate) fn listen_local(name: &Path) -> io::Result<LocalListener> {
    // Another program that has created the pipe first would get some of the clients.
    let first = ServerOptions::new().first_pipe_instance(true).create(name)?;
    Ok(LocalListener { name: name.into(), next: Mutex::new(Some(accept(first))) })
}

pub(crate) fn poll_accept_local(listener: &LocalListener, cx: &mut Context<'_>) -> Poll<io::Result<LocalStream>> {
    let mut next = listener.next.lock().unwrap_or_else(PoisonError::into_inner);
    let mut accepting = match next.take() {
        Some(accepting) => accepting,
        None => accept(ServerOptions::new().create(&listener.name)?),
    };
    let Poll::Ready(accepted) = accepting.as_mut().poll(cx) else {
        *next = Some(accepting);
        return Poll::Pending;
    };
    // The next instance is created before this one can end, so that the pipe always exists.
    *next = ServerOptions::new().create(&listener.name).ok().map(accept);
    Poll::Ready(accepted.map(LocalStream::Server))
}

pub(crate) async fn connect_local(name: PathBuf) -> io::Result<LocalStream> {
    let mut left = ATTEMPTS;
    loop {
        match ClientOptions::new().open(&name) {
            Err(error) if error.raw_os_error() == Some(PIPE_BUSY) && left > 0 => {
                left -= 1;
                sleep(PAUSE).await;
            }
            stream => return Ok(LocalStream::Client(stream?)),
        }
    }
}
