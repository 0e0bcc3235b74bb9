//! Reads heads and pieces of bodies of one side of a connection.

use std::{
    io::{self, Read},
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    body::{Content, Framing},
    head::HeadEnd,
    server::ServerReader,
};

/// The bytes that are read at once. No more are held of a body.
const CHUNK: usize = 64 << 10;

/// The longest head.
const MAX_HEAD: usize = 64 << 10;

/// How long a head may take after its first byte.
const HEAD: Duration = Duration::from_secs(30);

/// A side that bytes are read from.
pub(super) trait Source {
    fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
    fn socket(&self) -> &TcpStream;
}

impl Source for Arc<TcpStream> {
    fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&**self).read(buffer)
    }

    fn socket(&self) -> &TcpStream {
        self
    }
}

impl Source for ServerReader {
    fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read(buffer)
    }

    fn socket(&self) -> &TcpStream {
        self.socket()
    }
}

/// Reads heads and bodies of one side.
pub(super) struct Input<S> {
    pub(super) source: S,
    chunk: Vec<u8>,
    /// Bytes that were read. Those from `at` on belong to what follows.
    rest: Vec<u8>,
    at: usize,
    /// How long nothing may arrive between heads and within bodies.
    idle: Option<Duration>,
    /// How long a head may take after its first byte.
    most: Duration,
}

/// The reason why there is no head.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoHead {
    /// The side closed the connection before it.
    End,
    TooLong,
    /// It has an error. The side may still read.
    Wrong(String),
    /// The connection is broken.
    Gone(String),
}

/// Returns whether nothing arrived in time.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

impl<S: Source> Input<S> {
    pub(super) fn new(source: S, idle: Option<Duration>) -> Self {
        Self { source, chunk: vec![0; CHUNK], rest: Vec::new(), at: 0, idle, most: HEAD }
    }

    pub(super) fn read(&mut self) -> io::Result<usize> {
        loop {
            match self.source.read_some(&mut self.chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Reads more bytes. What was taken is removed once for each read, and not once for each head.
    fn read_more(&mut self) -> io::Result<usize> {
        let len = self.read()?;
        self.rest.drain(..std::mem::take(&mut self.at));
        self.rest.extend_from_slice(&self.chunk[..len]);
        Ok(len)
    }

    fn left(&self) -> &[u8] {
        &self.rest[self.at..]
    }

    fn cut(&mut self, len: usize) -> Vec<u8> {
        let bytes = self.left()[..len].to_vec();
        self.at += len;
        bytes
    }

    /// Returns how long the first byte of a head may still take, if the connection has been idle since `since`.
    fn left_idle(&self, since: Instant) -> Option<Duration> {
        self.idle.map(|idle| idle.saturating_sub(since.elapsed()))
    }

    /// Reads a whole head. Its first byte may take any time while an exchange is in progress. `idle_since` returns when
    /// the last one has ended, or `None` while there is one.
    pub(super) fn head(&mut self, idle_since: impl Fn() -> Option<Instant>) -> Result<Vec<u8>, NoHead> {
        let (mut end, mut deadline, most) = (HeadEnd::default(), None, self.most);
        let start = Instant::now();
        let broken = |error: io::Error| NoHead::Gone(error.to_string());
        loop {
            if deadline.is_none() {
                // Some clients send an empty line after a body.
                self.at += self.left().iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            }
            if let Some(len) = end.find(self.left()) {
                self.source.socket().set_read_timeout(self.idle).map_err(broken)?;
                return if len > MAX_HEAD { Err(NoHead::TooLong) } else { Ok(self.cut(len)) };
            }
            if self.left().len() > MAX_HEAD {
                return Err(NoHead::TooLong);
            }
            let timeout = if self.left().is_empty() {
                // While an exchange is in progress, this is only when to look again.
                match idle_since().map(|since| self.left_idle(since.max(start))) {
                    Some(Some(Duration::ZERO)) => return Err(NoHead::End),
                    Some(left) => left,
                    None => self.idle,
                }
            } else {
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + most);
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(NoHead::Wrong(format!("the head took more than {} seconds", most.as_secs())));
                }
                Some(left)
            };
            self.source.socket().set_read_timeout(timeout).map_err(broken)?;
            match self.read_more() {
                Ok(0) if self.left().is_empty() => return Err(NoHead::End),
                Ok(0) => return Err(NoHead::Wrong("the connection was closed within a head".into())),
                Ok(_) => {}
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(broken(error)),
            }
        }
    }

    /// Returns the next bytes of a body, as they are and as content. `None` is its end, or that of the connection.
    pub(super) fn piece(&mut self, framing: &mut Framing, content: &mut Content) -> io::Result<Option<Vec<u8>>> {
        if framing.is_over() {
            return Ok(None);
        }
        if self.left().is_empty() {
            let len = self.read_more().map_err(|error| match is_timeout(&error) {
                true => io::Error::new(io::ErrorKind::TimedOut, "nothing of a body arrived for 5 minutes"),
                false => error,
            })?;
            if len == 0 {
                return match framing {
                    Framing::UntilEnd => Ok(None),
                    _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed within a body")),
                };
            }
        }
        let len = framing.take(&self.rest[self.at..], content).map_err(io::Error::other)?;
        Ok(Some(self.cut(len)))
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, io::Write};

    use super::*;
    use crate::recorder::http::pair;

    #[test]
    fn slow_heads_and_idle_connections_end() {
        let (_client, server) = pair();
        let mut input = Input::new(Arc::new(server), Some(Duration::from_millis(20)));
        let start = Instant::now();
        assert_eq!(input.head(|| Some(start)), Err(NoHead::End), "nothing has arrived, and nothing is expected");
        let (mut client, server) = pair();
        let mut input = Input::new(Arc::new(server), None);
        input.most = Duration::from_millis(50);
        client.write_all(b"GET / HTTP/1.1\r\n").expect("it is read");
        assert_eq!(input.head(|| Some(start)), Err(NoHead::Wrong("the head took more than 0 seconds".into())));
    }

    #[test]
    fn the_idle_time_begins_with_the_end_of_the_last_exchange() {
        let (_client, server) = pair();
        let idle = Duration::from_millis(200);
        let mut input = Input::new(Arc::new(server), Some(idle));
        let (looks, end) = (Cell::new(0), Cell::new(None));
        // An exchange is in progress, and ends while the next request is waited for.
        let idle_since = || {
            looks.set(looks.get() + 1);
            if looks.get() == 2 {
                end.set(Some(Instant::now()));
            }
            end.get()
        };
        assert_eq!(input.head(idle_since), Err(NoHead::End));
        assert!(end.get().is_some_and(|end| end.elapsed() >= idle), "{} looks", looks.get());
        // What happened before the end of the last request does not count.
        let begin = Instant::now();
        assert_eq!(input.head(|| end.get()), Err(NoHead::End));
        assert!(begin.elapsed() >= idle);
    }

    #[test]
    fn many_heads_of_one_read_are_cut_one_by_one() {
        let (mut client, server) = pair();
        let mut input = Input::new(Arc::new(server), None);
        let head = b"GET / HTTP/1.1\r\n\r\n";
        client.write_all(&head.repeat(1_000)).expect("it is read");
        client.write_all(b"\r\n\r\nGET /last HTTP/1.1\r\n\r\n12345").expect("it is read");
        for _ in 0..1_000 {
            assert_eq!(input.head(|| None).as_deref(), Ok(&head[..]));
        }
        assert_eq!(input.head(|| None).as_deref(), Ok(&b"GET /last HTTP/1.1\r\n\r\n"[..]));
        let (mut framing, mut content) = (Framing::Length(5), Content::default());
        while input.piece(&mut framing, &mut content).expect("bytes").is_some() {}
        assert_eq!(content.data, b"12345");
        drop(client);
        assert_eq!(input.head(|| None), Err(NoHead::End));
    }
}
