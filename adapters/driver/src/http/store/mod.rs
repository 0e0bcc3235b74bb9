//! Stores for sessions that several processes share.

pub(crate) mod memory;
pub(super) mod scoped_message;

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

/// The record of a session: fields with names and values.
pub type SessionRecord = BTreeMap<String, String>;

/// A store for the records of sessions that processes share.
///
/// The id of a session is a secret: it is all that is needed to use the session.
pub trait SessionStore: Send + Sync + 'static {
    /// Stores a new session of a client. The store removes it after `ttl` without a [look-up](Self::find).
    ///
    /// Fails with [`FileTooLarge`](io::ErrorKind::FileTooLarge) if the fields are too large, which leads to a 413
    /// response, and with [`QuotaExceeded`](io::ErrorKind::QuotaExceeded) if there is no room now, which leads to a 503
    /// response, as other errors do.
    fn begin(&self, id: &str, holder: &Holder, record: SessionRecord, ttl: Duration) -> Deferred<io::Result<()>>;

    /// Returns the record of a session, if it exists, and extends its lifetime to `ttl` from now.
    fn find(&self, id: &str, ttl: Duration) -> Deferred<io::Result<Option<SessionRecord>>>;

    /// Sets these fields of a session and keeps the others. A session that does not exist is not created.
    fn change(&self, id: &str, fields: SessionRecord) -> Deferred<io::Result<()>>;

    /// Registers another process that uses a session. Returns the number of the process in this session, counting from
    /// 1; no number is used twice.
    ///
    /// Fails with [`NotFound`](io::ErrorKind::NotFound) if there is no such session.
    fn enter(&self, id: &str) -> Deferred<io::Result<u32>>;

    /// Ends a session for all processes, with all of its messages.
    fn end(&self, id: &str) -> Deferred<io::Result<()>>;
}

/// A store for the messages that were sent on the streams of sessions, for clients that resume a stream in another
/// process.
pub trait EventStore: Send + Sync + 'static {
    /// Stores a message that was sent on a stream. The message is any bytes: the scopes that a client needs for it may
    /// precede its text, so [`follow`](Self::follow) returns it unchanged. `seq` is its number in the stream, which
    /// grows by one. If the session exceeds the bounds `within`, its oldest messages are dropped.
    fn keep(&self, id: &str, stream: u64, seq: u64, message: Vec<u8>, within: Retention) -> Deferred<io::Result<()>>;

    /// Records that a stream has ended after the message `last`, which is zero if no message was sent on it.
    fn done(&self, id: &str, stream: u64, last: u64, within: Retention) -> Deferred<io::Result<()>>;

    /// Returns the messages that were sent on a stream after a message. If there are none, the stream has not ended,
    /// and `wait` is set, it waits for a message, and may return without one after a while.
    ///
    /// Fails with [`NotFound`](io::ErrorKind::NotFound), without waiting, if there is no such session, or if the stream
    /// has ended and the messages after that one are not stored. If the number of the first returned message is not
    /// `after` plus one, the messages in between were not stored.
    ///
    /// Fails with [`BrokenPipe`](io::ErrorKind::BrokenPipe), without waiting, if nothing follows because the process
    /// that sends the stream has ended. A store that does not know that returns without a message.
    fn follow(&self, id: &str, stream: u64, after: u64, wait: bool) -> Deferred<io::Result<ReplayChunk>>;
}

/// The limits of the messages that are stored of a session, over all of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The number of messages. The end of a stream counts as one.
    pub max_messages: usize,
    /// The bytes of messages. The latest message is kept however large it is, if the store has room for it.
    pub bytes: usize,
    /// How long each message is kept.
    pub time: Duration,
}

/// The limits of the bytes that a store holds.
///
/// A session counts with its fields, its stored messages, and a fixed overhead. At a limit, the oldest data is evicted:
/// first stored messages, beginning with those of the session whose last message is the oldest. Only for a new session,
/// whole sessions are evicted: first those whose clients have not come back, then the least recently used. The client
/// of an evicted session gets a 404 and begins a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreLimits {
    /// Bytes of the fields of one session, most of which describe its client. Default 256 KiB. A session with more is
    /// refused with 413.
    pub field_bytes: usize,
    /// Bytes of all sessions of one client: of a principal, or of an address if the client has no principal. Default 64
    /// MiB. Beyond it, messages and sessions of this client are evicted. Clients with neither have no limit of their
    /// own.
    pub bytes_each: usize,
    /// Bytes of all sessions. Default 1 GiB. Beyond it, messages and sessions of the client with the most bytes are
    /// evicted. If that is not enough for a new session, the session is refused with 503.
    pub bytes: usize,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self { field_bytes: 256 << 10, bytes_each: 64 << 20, bytes: 1 << 30 }
    }
}

impl StoreLimits {
    /// The overhead of a session in bytes, in addition to its fields and messages: its entries, and the ids of its last
    /// ended streams.
    pub const SESSION: usize = 1024;

    /// The overhead of a message, or of the end of a stream, in bytes, in addition to its text.
    pub const MESSAGE: usize = 128;

    /// Returns the size of a new session with these fields.
    ///
    /// # Errors
    /// [`FileTooLarge`](io::ErrorKind::FileTooLarge) if the fields are too large.
    pub fn weigh(&self, fields: &SessionRecord) -> io::Result<usize> {
        let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        let fits = bytes <= self.field_bytes;
        fits.then_some(Self::SESSION + bytes).ok_or_else(|| io::ErrorKind::FileTooLarge.into())
    }
}

/// The usage of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// The number of sessions. Some of them may have expired.
    pub sessions: usize,
    /// The bytes, as [`StoreLimits`] counts them.
    pub bytes: usize,
}

/// The stores that processes share. It is cheap to clone.
#[derive(Clone)]
pub struct Store {
    pub(super) sessions: Arc<dyn SessionStore>,
    pub(super) events: Arc<dyn EventStore>,
}

impl Store {
    /// Creates a store from one type for both sessions and streams.
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
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

const PRINCIPAL: &str = "principal";
const VERSION: &str = "version";
const CLIENT: &str = "client";
const READY: &str = "ready";
const LEVEL: &str = "level";

/// Returns the record of a session.
pub(super) fn record(principal: Option<&str>, snapshot: &SessionSnapshot) -> SessionRecord {
    let SessionSnapshot { version, client, ready, log_level } = snapshot;
    let client = At(client, Some(*version)).to_json().map_or_else(|_| String::new(), |client| client.get().to_owned());
    let mut record = settings(*ready, *log_level);
    record.insert(VERSION.to_owned(), version.as_str().to_owned());
    record.insert(CLIENT.to_owned(), client);
    record.extend(principal.map(|principal| (PRINCIPAL.to_owned(), principal.to_owned())));
    record
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
pub(super) fn read(record: &SessionRecord) -> Option<(Option<&str>, SessionSnapshot)> {
    let snapshot = SessionSnapshot {
        version: ProtocolVersion::parse(record.get(VERSION)?)?,
        client: Json::parse(record.get(CLIENT)?.as_str()).ok()?.decode().ok()?,
        ready: record.contains_key(READY),
        log_level: record.get(LEVEL).and_then(|level| LoggingLevel::parse(level)),
    };
    Some((record.get(PRINCIPAL).map(String::as_str), snapshot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_of_fields_count() {
        let fields = [("a", "xyz"), ("bc", "")].map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let weigh = |field_bytes| StoreLimits { field_bytes, ..StoreLimits::default() }.weigh(&fields);
        assert_eq!(weigh(6).expect("they fit"), StoreLimits::SESSION + 6);
        assert_eq!(weigh(5).map_err(|error| error.kind()), Err(io::ErrorKind::FileTooLarge));
    }
}
