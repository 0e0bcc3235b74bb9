//! Sessions that several processes share.

use std::{collections::BTreeMap, fmt, io, sync::Arc, time::Duration};

use mcp_proto::{
    connection::Standing,
    http::server::Passage,
    protocol::ProtocolVersion,
    schema::{At, LoggingLevel},
    wire::Json,
};

use crate::Later;

/// What is known of a session: names and values, both of them text.
pub type Fields = BTreeMap<String, String>;

/// Where processes keep what they know of the sessions that they share.
///
/// Who knows the id of a session can use it, so it is a secret here as elsewhere.
pub trait Sessions: Send + Sync + 'static {
    /// A session was begun. It is to be forgotten when nobody has [asked](Self::find) for it for this long.
    fn begin(&self, id: &str, fields: Fields, life: Duration) -> Later<io::Result<()>>;

    /// What is known of a session, if there is one. From now on it lives for this long.
    fn find(&self, id: &str, life: Duration) -> Later<io::Result<Option<Fields>>>;

    /// These fields have changed; others stay. A session that is not there stays away.
    fn change(&self, id: &str, fields: Fields) -> Later<io::Result<()>>;

    /// Another process takes part: a number that none has had in this session before, from 1.
    fn enter(&self, id: &str) -> Later<io::Result<u32>>;

    /// The session is over, everywhere, and what was sent in it with it.
    fn end(&self, id: &str) -> Later<io::Result<()>>;
}

/// Where processes keep what they have sent on the streams of sessions, for clients that come back to another process.
pub trait Events: Send + Sync + 'static {
    /// A message was sent on a stream: its number there, which grows by one, and what it says. Kept for this long after the
    /// last one, and no more than `most` of a stream.
    fn keep(&self, id: &str, stream: u64, seq: u64, message: Vec<u8>, within: Bounds) -> Later<io::Result<()>>;

    /// Nothing follows on a stream.
    fn done(&self, id: &str, stream: u64, within: Bounds) -> Later<io::Result<()>>;

    /// What was sent on a stream behind a message. If that is nothing, and the stream is not done, and it is to `wait`, then
    /// only when there is something, or after a while.
    fn follow(&self, id: &str, stream: u64, after: u64, wait: bool) -> Later<io::Result<Passage>>;
}

/// How much of a stream is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Messages.
    pub most: usize,
    /// For how long after the last of them.
    pub time: Duration,
}

/// What processes share. It is cheap to clone.
#[derive(Clone)]
pub struct Shared {
    pub(super) sessions: Arc<dyn Sessions>,
    pub(super) events: Arc<dyn Events>,
}

impl Shared {
    /// Sessions and streams in one place.
    #[must_use]
    pub fn new<T: Sessions + Events>(store: T) -> Self {
        let store = Arc::new(store);
        Self { sessions: store.clone(), events: store }
    }

    /// Sessions in one place, and streams in another.
    #[must_use]
    pub fn apart(sessions: impl Sessions, events: impl Events) -> Self {
        Self { sessions: Arc::new(sessions), events: Arc::new(events) }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

const PRINCIPAL: &str = "principal";
const VERSION: &str = "version";
const CLIENT: &str = "client";
const READY: &str = "ready";
const LEVEL: &str = "level";

/// What is known of a session, as fields.
pub(super) fn fields(principal: Option<&str>, standing: &Standing) -> Fields {
    let Standing { version, client, ready, log_level } = standing;
    let client = At(client, Some(*version)).to_json().map_or_else(|_| String::new(), |client| client.get().to_owned());
    let mut fields = settings(*ready, *log_level);
    fields.insert(VERSION.to_owned(), version.as_str().to_owned());
    fields.insert(CLIENT.to_owned(), client);
    fields.extend(principal.map(|principal| (PRINCIPAL.to_owned(), principal.to_owned())));
    fields
}

/// What of it can change.
pub(super) fn settings(ready: bool, level: Option<LoggingLevel>) -> Fields {
    let mut fields = Fields::new();
    if ready {
        fields.insert(READY.to_owned(), "1".to_owned());
    }
    fields.extend(level.map(|level| (LEVEL.to_owned(), level.as_str().to_owned())));
    fields
}

/// Who began a session, and how it stands. `None` if the fields do not say.
pub(super) fn read(fields: &Fields) -> Option<(Option<&str>, Standing)> {
    let standing = Standing {
        version: ProtocolVersion::parse(fields.get(VERSION)?)?,
        client: Json::parse(fields.get(CLIENT)?.as_str()).ok()?.decode().ok()?,
        ready: fields.contains_key(READY),
        log_level: fields.get(LEVEL).and_then(|level| LoggingLevel::parse(level)),
    };
    Some((fields.get(PRINCIPAL).map(String::as_str), standing))
}
