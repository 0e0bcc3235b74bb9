//! The server of a client that starts programs: this program itself, which relays its standard input and output to the
//! process that judges.
//!
//! From the relay to the judge: a line with the token of a file that only this user can read, then pieces with their
//! length (four bytes, the highest first), of which an empty one is the end of the standard input. From the judge to
//! the relay: bytes for the standard output.

use std::{
    env, fs,
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver},
    },
    thread,
    time::Duration,
};

use mcp_driver::http::seed;
use mcp_proto::codec::LineDecoder;
#[cfg(unix)]
use signal_hook::{consts::SIGTERM, iterator::Signals};

use super::{inbox::Outbox, link::Arrival};
use crate::{check::process::remove_on_signals, error::Failed};

/// The command of this program that is a relay.
pub(super) const COMMAND: &str = "check-relay";

/// The longest line that is read.
const MAX_LINE: usize = 16 << 20;

/// The longest piece of the standard input.
const PIECE: usize = 64 << 10;

/// How often a client may start its server.
const MAX_CONNECTIONS: usize = 32;

/// How long a relay may take for its token, and how long a client may leave messages unread.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a server that is replaced may take to end.
const REPLACED: Duration = Duration::from_secs(1);

/// How long the end of the input may take after a signal.
#[cfg(unix)]
const LAST: Duration = Duration::from_millis(500);

/// The end of the judge.
#[derive(Debug)]
pub(super) struct Relay {
    port: u16,
    /// The file with the token: command lines are those of a process list.
    file: PathBuf,
    current: Arc<Shared>,
    is_closed: Arc<AtomicBool>,
}

/// The relay that was started last.
#[derive(Debug, Default)]
struct Current {
    socket: Option<TcpStream>,
    /// How many relays there were.
    number: usize,
    /// Whether the judge has ended it.
    is_ended: bool,
    /// Whether its input is open.
    is_open: bool,
}

#[derive(Debug, Default)]
struct Shared {
    current: Mutex<Current>,
    has_ended: Condvar,
}

fn lock(shared: &Shared) -> MutexGuard<'_, Current> {
    shared.current.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a token to a new file that only this user can read.
fn write_token(token: &str) -> io::Result<PathBuf> {
    let file = env::temp_dir().join(format!("mcp-check-{:016x}", seed()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&file)?.write_all(token.as_bytes())?;
    Ok(file)
}

impl Relay {
    pub(super) fn bind(outbox: Outbox) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let token = format!("{:016x}{:016x}", seed(), seed());
        let file = write_token(&token)?;
        remove_on_signals(Some(file.clone()));
        let current = Arc::new(Shared::default());
        let is_closed = Arc::new(AtomicBool::new(false));
        let relay = Self { port, file, current: current.clone(), is_closed: is_closed.clone() };
        let accept = move || {
            for socket in listener.incoming().take(MAX_CONNECTIONS) {
                if is_closed.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(socket), token, current, outbox) = (socket, token.clone(), current.clone(), outbox.clone())
                else {
                    continue;
                };
                let serve = move || {
                    // What is wrong with a connection shows in what is missing.
                    let _ = receive(socket, &token, &current, &outbox);
                };
                if thread::Builder::new().name("relay".into()).spawn(serve).is_err() {
                    return;
                }
            }
            if listener.accept().is_ok() && !is_closed.load(Ordering::SeqCst) {
                outbox.send(Arrival::Beyond("the client starts its server more often than a check takes"));
            }
        };
        thread::Builder::new().name("relays".into()).spawn(accept)?;
        Ok(relay)
    }

    /// Returns the command line of the server.
    pub(super) fn command(&self) -> io::Result<Vec<String>> {
        let program = env::current_exe()?;
        let program = program.to_str().ok_or_else(|| io::Error::other("the path of this program is not UTF-8"))?;
        let file = self.file.to_str().ok_or_else(|| io::Error::other("the temporary folder is not UTF-8"))?;
        Ok([program, COMMAND, &self.port.to_string(), file].map(str::to_owned).to_vec())
    }

    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match &lock(&self.current).socket {
            Some(socket) => (&mut &*socket).write_all(bytes),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Ends the server that runs.
    pub(super) fn end(&self) {
        let mut current = lock(&self.current);
        current.is_ended = true;
        if let Some(socket) = &current.socket {
            let _ = socket.shutdown(Shutdown::Write);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::SeqCst);
        let _ = fs::remove_file(&self.file);
        remove_on_signals(None);
        if let Some(socket) = lock(&self.current).socket.take() {
            let _ = socket.shutdown(Shutdown::Both);
        }
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)));
    }
}

/// Receives the pieces of a relay.
fn receive(mut socket: TcpStream, token: &str, shared: &Shared, outbox: &Outbox) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let mut given = vec![0; token.len() + 1];
    socket.read_exact(&mut given)?;
    if given != format!("{token}\n").as_bytes() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    socket.set_read_timeout(None)?;
    let Some(number) = replace(shared, &socket)? else {
        outbox.send(Arrival::Beyond("the client has several servers at once, which cannot be told apart"));
        return Ok(());
    };
    if !outbox.send(Arrival::Connected) {
        return Ok(());
    }
    let mut decoder = LineDecoder::new(MAX_LINE);
    let mut piece = vec![0; PIECE];
    let mut is_clean = false;
    loop {
        let mut header = [0; 4];
        if socket.read_exact(&mut header).is_err() {
            break;
        }
        let len = u32::from_be_bytes(header) as usize;
        if len == 0 || len > PIECE {
            is_clean = len == 0;
            break;
        }
        if socket.read_exact(&mut piece[..len]).is_err() {
            break;
        }
        if lock(shared).number != number || !feed(&mut decoder, &piece[..len], outbox) {
            return Ok(());
        }
    }
    let is_clean = is_clean || lock(shared).is_ended;
    outbox.send(Arrival::InputEnd { is_clean });
    // The next server comes after this end.
    lock(shared).is_open = false;
    shared.has_ended.notify_all();
    Ok(())
}

/// Makes a connection the current one when the one before has ended. Returns its number, or `None` if that does not
/// end.
fn replace(shared: &Shared, socket: &TcpStream) -> io::Result<Option<usize>> {
    let is_open = |current: &mut Current| current.is_open;
    let waited = shared.has_ended.wait_timeout_while(lock(shared), REPLACED, is_open);
    let (mut current, waited) = waited.unwrap_or_else(PoisonError::into_inner);
    if waited.timed_out() {
        return Ok(None);
    }
    current.socket = Some(socket.try_clone()?);
    (current.number, current.is_ended, current.is_open) = (current.number + 1, false, true);
    Ok(Some(current.number))
}

/// Cuts a piece into lines. Returns whether they will be read.
fn feed(decoder: &mut LineDecoder, piece: &[u8], outbox: &Outbox) -> bool {
    decoder.feed(piece);
    while let Some(frame) = decoder.next_frame() {
        // A line that is too long is cut, so that it is no JSON.
        if !outbox.send(Arrival::Line(frame.bytes().to_vec())) {
            return false;
        }
    }
    true
}

/// Relays the standard input and output to the judge at a port, until one of them ends. The file has the token.
pub(crate) fn relay(port: u16, file: &Path) -> Result<ExitCode, Failed> {
    let failed = |error: io::Error| Failed::ended(format!("the process that judges is not there: {error}"));
    let token = fs::read_to_string(file).map_err(failed)?;
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(failed)?;
    socket.set_nodelay(true).map_err(failed)?;
    socket.write_all(format!("{token}\n").as_bytes()).map_err(failed)?;
    let to_judge = socket.try_clone().map_err(failed)?;
    let (ended, input_end) = mpsc::channel();
    thread::Builder::new().name("input".into()).spawn(move || {
        send_input(to_judge);
        let _ = ended.send(());
    })?;
    wait_on_signals(input_end)?;
    let mut output = io::stdout().lock();
    let mut piece = vec![0; PIECE];
    loop {
        match socket.read(&mut piece) {
            Ok(0) | Err(_) => return Ok(ExitCode::SUCCESS),
            Ok(len) => output.write_all(&piece[..len]).and_then(|()| output.flush())?,
        }
    }
}

/// Ends on SIGTERM, but lets the end of the input be relayed that came just before: whether there was one is judged.
#[cfg(unix)]
fn wait_on_signals(input_end: Receiver<()>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM])?;
    let wait = move || {
        if signals.forever().next().is_some() {
            let _ = input_end.recv_timeout(LAST);
            std::process::exit(128 + SIGTERM);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(wait).map(|_| ())
}

#[cfg(not(unix))]
fn wait_on_signals(_: Receiver<()>) -> io::Result<()> {
    Ok(())
}

fn send_input(mut socket: TcpStream) {
    let mut input = io::stdin().lock();
    let mut piece = vec![0; PIECE];
    while let Ok(len) = input.read(&mut piece) {
        let header = u32::try_from(len).unwrap_or_default().to_be_bytes();
        let sent = socket.write_all(&header).and_then(|()| socket.write_all(&piece[..len]));
        if len == 0 || sent.is_err() {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::client::inbox::inbox;

    #[test]
    fn only_relays_with_the_token_are_read() {
        let (outbox, inbox) = inbox();
        let relay = Relay::bind(outbox).expect("a relay");
        let port = relay.port;
        let token = fs::read_to_string(&relay.file).expect("a file");
        let connect = |token: &str, bytes: &[u8]| {
            let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a connection");
            socket.write_all(format!("{token}\n").as_bytes()).expect("it is written");
            socket.write_all(bytes).expect("it is written");
            socket
        };
        let mut wrong = connect(&"0".repeat(token.len()), b"\0\0\0\x02a\n\0\0\0\0");
        // It is closed. With unread bytes this may be an error.
        assert!(!matches!(wrong.read(&mut [0]), Ok(1)));
        let next = || inbox.recv(PATIENCE);
        let mut first = connect(&token, b"\0\0\0\x03a\nb\0\0\0\x01\n\0\0\0\0");
        assert_eq!(next(), Some(Arrival::Connected));
        assert_eq!(next(), Some(Arrival::Line(b"a".to_vec())));
        assert_eq!(next(), Some(Arrival::Line(b"b".to_vec())));
        assert_eq!(next(), Some(Arrival::InputEnd { is_clean: true }));
        relay.write(b"x\n").expect("it is written");
        relay.end();
        let mut output = String::new();
        first.read_to_string(&mut output).expect("the end");
        assert_eq!(output, "x\n");
        drop(first);
        // Without the end of the input, the relay was killed.
        let second = connect(&token, b"\0\0\0\x02c\n");
        assert_eq!(next(), Some(Arrival::Connected));
        assert_eq!(next(), Some(Arrival::Line(b"c".to_vec())));
        drop(second);
        assert_eq!(next(), Some(Arrival::InputEnd { is_clean: false }));
        // The token is in a file, which ends with the judge.
        let command = relay.command().expect("a command");
        assert!(!command.iter().any(|word| word.contains(&token)), "{command:?}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(&relay.file).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        // A second server at once is not mixed with the first one.
        let third = connect(&token, b"\0\0\0\x02d\n");
        assert_eq!(next(), Some(Arrival::Connected));
        assert_eq!(next(), Some(Arrival::Line(b"d".to_vec())));
        let fourth = connect(&token, b"\0\0\0\x02e\n");
        assert!(matches!(next(), Some(Arrival::Beyond(_))));
        drop((third, fourth));
        let file = relay.file.clone();
        drop(relay);
        assert!(!file.exists());
    }

    #[test]
    fn starts_of_the_server_are_bounded() {
        let (outbox, inbox) = inbox();
        let relay = Relay::bind(outbox).expect("a relay");
        let token = fs::read_to_string(&relay.file).expect("a file");
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port)).expect("a connection");
        for _ in 0..MAX_CONNECTIONS {
            let mut socket = connect();
            socket.write_all(format!("{token}\n").as_bytes()).expect("it is written");
            assert_eq!(inbox.recv(PATIENCE), Some(Arrival::Connected));
            drop(socket);
            assert_eq!(inbox.recv(PATIENCE), Some(Arrival::InputEnd { is_clean: false }));
        }
        drop(connect());
        assert!(matches!(inbox.recv(PATIENCE), Some(Arrival::Beyond(_))));
    }
}
