//! Records HTTP: a reverse proxy on this machine between clients and one server.

mod body;
mod connection;
mod exchange;
mod head;
mod input;
mod server;

use std::{
    collections::HashSet,
    net::{TcpListener, TcpStream},
    path::Path,
    process::ExitCode,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

use exchange::Recorder;
use mcp_driver::os::net::most_connections;
use server::Address;

use super::file::RecordFile;
use crate::{
    address,
    error::Failed,
    record::{Header, iso},
    show,
};

/// The most connections at once, if the process may have descriptors for them.
const MAX_CONNECTIONS: usize = 256;

/// The descriptors of a connection: one to the client, and one to the server.
const DESCRIPTORS: usize = 2;

/// How long the listener waits after an error, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// The server to record, and the destination of the record.
#[derive(Debug)]
pub(crate) struct ListenOptions<'a> {
    /// The file.
    pub(crate) output: &'a Path,
    /// Whether secrets are masked.
    pub(crate) is_masked: bool,
    /// The most bytes of the file.
    pub(crate) max_bytes: u64,
    /// Whether nothing is written on the error output.
    pub(crate) quiet: bool,
    /// The address to listen at.
    pub(crate) listen: &'a str,
    /// The address of the server.
    pub(crate) url: &'a str,
    /// Whether the server is asked for bodies that are not compressed.
    pub(crate) no_compression: bool,
}

/// The state that all connections share.
struct Site {
    recorder: Arc<Recorder>,
    address: Address,
    /// The address of the recorder.
    own: String,
    no_compression: bool,
    quiet: bool,
    /// The most connections at once.
    most: usize,
    noted: Mutex<HashSet<&'static str>>,
}

impl Site {
    /// Prints the first note of a kind, on another thread: an error output that is full must not stop messages.
    fn note_once(&self, kind: &'static str, text: &str) {
        let is_first = || self.noted.lock().unwrap_or_else(PoisonError::into_inner).insert(kind);
        if !self.quiet && is_first() {
            let text = text.to_owned();
            let _ = thread::Builder::new().name("note".into()).spawn(move || show::note(&text));
        }
    }
}

fn listen(address: &str) -> Result<TcpListener, Failed> {
    let refusal = "the recorder has neither TLS nor credentials: it listens at loopback addresses only, such as \
                   127.0.0.1:8000";
    address::listen(address, refusal, |addresses| TcpListener::bind(addresses))
}

/// Forwards everything between clients and the server until a signal arrives.
pub(crate) fn record_http(options: &ListenOptions<'_>) -> Result<ExitCode, Failed> {
    let address = Address::new(options.url)?;
    let listener = listen(options.listen)?;
    let own = listener.local_addr()?.to_string();
    let header = Header {
        started: iso(SystemTime::now()),
        transport: "http".into(),
        server: address.name(),
        masked: options.is_masked,
    };
    let file = Arc::new(RecordFile::create(options.output, options.max_bytes, options.quiet, &header)?);
    end_on_signals(&file)?;
    if !options.quiet {
        show::note(&format!("listening at http://{own}{}", address.path));
    }
    let recorder = Arc::new(Recorder::new(file, options.is_masked));
    let (no_compression, quiet) = (options.no_compression, options.quiet);
    let most = MAX_CONNECTIONS.min(most_connections(DESCRIPTORS));
    let site = Arc::new(Site { recorder, address, own, no_compression, quiet, most, noted: Mutex::default() });
    let open = Arc::new(AtomicUsize::new(0));
    let mut number = 0;
    for client in listener.incoming() {
        let Ok(client) = client else {
            thread::sleep(PAUSE);
            continue;
        };
        number += 1;
        accept(&site, &open, number, client);
    }
    Ok(ExitCode::SUCCESS)
}

/// Counts a connection until it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn accept(site: &Arc<Site>, open: &Arc<AtomicUsize>, number: u64, client: TcpStream) {
    let is_full = open.fetch_add(1, Ordering::AcqRel) >= site.most;
    let counted = Counted(Arc::clone(open));
    if is_full {
        site.note_once("full", &format!("more than {} connections: the others are refused", site.most));
        return connection::answer(&client, 503, "too many connections");
    }
    let site = Arc::clone(site);
    let run = move || {
        let _counted = counted;
        connection::forward(&site, number, client);
    };
    let _ = thread::Builder::new().name("requests".into()).stack_size(connection::STACK).spawn(run);
}

/// Writes the end of the record when a signal arrives, and ends the program.
#[cfg(unix)]
fn end_on_signals(file: &Arc<RecordFile>) -> Result<(), Failed> {
    use signal_hook::{
        consts::{SIGHUP, SIGINT, SIGTERM},
        iterator::Signals,
    };
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let file = Arc::clone(file);
    thread::Builder::new().name("signals".into()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            file.exit(format!("the recorder was ended by the signal {signal}"), 128 + signal);
        }
    })?;
    Ok(())
}

/// Does nothing: the system ends the program.
#[cfg(not(unix))]
fn end_on_signals(_: &Arc<RecordFile>) -> Result<(), Failed> {
    Ok(())
}

/// Returns both ends of a connection.
#[cfg(test)]
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
    (client, listener.accept().expect("a connection").0)
}
