//! Sessions that several processes share.

pub(crate) mod memory;

use std::{collections::BTreeMap, fmt, io, sync::Arc, time::Duration};

use mcp_proto::{
    connection::SessionSnapshot,
    http::server::ReplayChunk,
    protocol::ProtocolVersion,
    schema::{At, LoggingLevel},
    wire::Json,
};

use mcp_service::Deferred;
use mcp_service::driver_api::Holder;

/// The record of a session: names and values, both of them text.
pub type SessionRecord = BTreeMap<String, String>;

/// Keeps the records of sessions that processes share.
///
/// Who knows the id of a session can use it, so it is a secret here as elsewhere.
pub trait SessionStore: Send + Sync + 'static {
    /// Keeps a session that has begun, for this client. The store forgets it after this time without a [look-up](Self::find).
    ///
    /// Fails with [`FileTooLarge`](io::ErrorKind::FileTooLarge) if a session may not have such fields, which is answered with
    /// 413, and with [`QuotaExceeded`](io::ErrorKind::QuotaExceeded) if there is no room for it now, which is answered with
    /// 503 as other errors are.
    fn begin(&self, id: &str, holder: &Holder, fields: SessionRecord, life: Duration) -> Deferred<io::Result<()>>;

    /// Returns the record of a session, if there is one. The session now lives for this long.
    fn find(&self, id: &str, life: Duration) -> Deferred<io::Result<Option<SessionRecord>>>;

    /// Changes these fields of a session; others stay. A session that does not exist is not created.
    fn change(&self, id: &str, fields: SessionRecord) -> Deferred<io::Result<()>>;

    /// Registers another process that uses a session. Returns a number that no process has had in this session before,
    /// from 1.
    fn enter(&self, id: &str) -> Deferred<io::Result<u32>>;

    /// Ends a session for all processes, with all of its messages.
    fn end(&self, id: &str) -> Deferred<io::Result<()>>;
}

/// Keeps the messages that were sent on the streams of sessions, for clients that come back to another process.
pub trait EventStore: Send + Sync + 'static {
    /// Keeps a message that was sent on a stream: its number there, which grows by one, and its text. It is kept
    /// `within` bounds, for which the oldest messages of the session are dropped.
    fn keep(&self, id: &str, stream: u64, seq: u64, message: Vec<u8>, within: Retention) -> Deferred<io::Result<()>>;

    /// Notes that nothing follows on a stream after the message with this number, which is zero if nothing was sent on
    /// it.
    fn done(&self, id: &str, stream: u64, last: u64, within: Retention) -> Deferred<io::Result<()>>;

    /// Returns the messages that were sent on a stream after a message. If there are none, the stream is not done, and
    /// `wait` is set, it waits for a message for a while.
    ///
    /// Fails with [`NotFound`](io::ErrorKind::NotFound) if there is no such session, or if the stream is done and what was sent
    /// behind that message is not kept: that is not waited for.
    /// Where the first of the messages that are handed out does not follow on `after`, others were not kept.
    fn follow(&self, id: &str, stream: u64, after: u64, wait: bool) -> Deferred<io::Result<ReplayChunk>>;
}

/// How much is kept of what a session has sent on all of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Messages. The end of a stream counts as one.
    pub most: usize,
    /// Bytes of messages. The latest message is kept however large it is, if the store has room for it.
    pub bytes: usize,
    /// For how long each of them is kept.
    pub time: Duration,
}

/// How many bytes a store holds.
///
/// A session counts with its fields, with the messages that are kept of it, and with what it takes to keep them. At a bound
/// the oldest give way: first messages that are kept, those of the session that has sent the last one longest ago, and only
/// for a new session whole sessions, those whose clients have not come back first, then the one that is not used for longest.
/// A client whose session has given way finds out by a 404, and begins a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreLimits {
    /// Bytes of the fields of one session, most of which describe its client. Default 256 KiB. A session with more is
    /// refused with 413.
    pub field_bytes: usize,
    /// Bytes of all sessions of one client: of a principal, or of an address if the client is none. Default 64 MiB.
    /// Beyond it, messages and sessions of this client give way. Clients that cannot be told apart have no limit of
    /// their own.
    pub bytes_each: usize,
    /// Bytes of all sessions. Default 1 GiB. Beyond it, what belongs to the client with most of them gives way. If that is not
    /// enough for a new session, the session is refused with 503.
    pub bytes: usize,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self { field_bytes: 256 << 10, bytes_each: 64 << 20, bytes: 1 << 30 }
    }
}

impl StoreLimits {
    /// Bytes that a session counts with, beside its fields and messages: its entries, and which of its last streams are over.
    pub const SESSION: usize = 1024;

    /// Bytes that a message, or the end of a stream, counts with, beside its text.
    pub const MESSAGE: usize = 128;

    /// Returns the bytes that a new session with these fields counts with.
    ///
    /// # Errors
    /// [`FileTooLarge`](io::ErrorKind::FileTooLarge) if a session may not have such fields.
    pub fn weigh(&self, fields: &SessionRecord) -> io::Result<usize> {
        let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        let fits = bytes <= self.field_bytes;
        fits.then_some(Self::SESSION + bytes).ok_or_else(|| io::ErrorKind::FileTooLarge.into())
    }
}

/// How much a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// Sessions. Some of them may be past their time.
    pub sessions: usize,
    /// Bytes, as [`StoreLimits`] count them.
    pub bytes: usize,
}

/// The stores that processes share. It is cheap to clone.
#[derive(Clone)]
pub struct Store {
    pub(super) sessions: Arc<dyn SessionStore>,
    pub(super) events: Arc<dyn EventStore>,
}

impl Store {
    /// Creates a store from one type that keeps sessions and streams.
    #[must_use]
    pub fn new<T: SessionStore + EventStore>(store: T) -> Self {
        let store = Arc::new(store);
        Self { sessions: store.clone(), events: store }
    }

    /// Creates a store from one for sessions and one for streams.
    #[must_use]
    pub fn from_parts(sessions: impl SessionStore, events: impl EventStore) -> Self {
        Self { sessions: Arc::new(sessions), events: Arc::new(events) }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

const PRINCIPAL: &str = "principal";
const VERSION: &str = "version";
const CLIENT: &str = "client";
const READY: &str = "ready";
const LEVEL: &str = "level";

/// Returns the record of a session.
pub(super) fn fields(principal: Option<&str>, snapshot: &SessionSnapshot) -> SessionRecord {
    let SessionSnapshot { version, client, ready, log_level } = snapshot;
    let client = At(client, Some(*version)).to_json().map_or_else(|_| String::new(), |client| client.get().to_owned());
    let mut fields = settings(*ready, *log_level);
    fields.insert(VERSION.to_owned(), version.as_str().to_owned());
    fields.insert(CLIENT.to_owned(), client);
    fields.extend(principal.map(|principal| (PRINCIPAL.to_owned(), principal.to_owned())));
    fields
}

/// Returns the fields of the record that can change.
pub(super) fn settings(ready: bool, level: Option<LoggingLevel>) -> SessionRecord {
    let mut fields = SessionRecord::new();
    if ready {
        fields.insert(READY.to_owned(), "1".to_owned());
    }
    fields.extend(level.map(|level| (LEVEL.to_owned(), level.as_str().to_owned())));
    fields
}

/// Reads the principal and the snapshot of a session from its record. Returns `None` if it is incomplete.
pub(super) fn read(fields: &SessionRecord) -> Option<(Option<&str>, SessionSnapshot)> {
    let snapshot = SessionSnapshot {
        version: ProtocolVersion::parse(fields.get(VERSION)?)?,
        client: Json::parse(fields.get(CLIENT)?.as_str()).ok()?.decode().ok()?,
        ready: fields.contains_key(READY),
        log_level: fields.get(LEVEL).and_then(|level| LoggingLevel::parse(level)),
    };
    Some((fields.get(PRINCIPAL).map(String::as_str), snapshot))
}
