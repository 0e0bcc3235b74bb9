//! A store for endpoints of one process.

mod table;

use std::{
    fmt, io,
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_proto::http::server::ReplayChunk;

use self::table::Table;
use crate::http::store::{EventStore, Retention, SessionRecord, SessionStore, StoreLimits, StoreUsage};
use crate::sync::lock;
use mcp_service::driver_api::Holder;
use mcp_service::{
    Deferred,
    driver_api::{Instant, WaitQueue},
};

/// A store in the memory of this process: for endpoints that share sessions within it, and for tests. It is cheap to
/// clone, and all clones share one state.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<Table>>);

impl MemoryStore {
    /// Creates a store with these limits.
    #[must_use]
    pub fn new(limits: StoreLimits) -> Self {
        Self(Arc::new(Mutex::new(Table::new(limits))))
    }

    /// Returns the usage of the store.
    #[must_use]
    pub fn usage(&self) -> StoreUsage {
        lock(&self.0).usage()
    }

    /// Returns the number of sessions. Some of them may have expired.
    #[must_use]
    pub fn len(&self) -> usize {
        self.usage().sessions
    }

    /// Returns whether there are no sessions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn with<T>(&self, f: impl FnOnce(&mut Table, Instant) -> T) -> T {
        let now = Instant::now();
        let mut table = lock(&self.0);
        let result = f(&mut table, now);
        let woken = table.take_woken();
        drop(table);
        woken.iter().for_each(|queue| queue.notify_all());
        result
    }
}

/// The registration of a follower of a stream. Dropping it removes the follower.
struct Follower {
    store: MemoryStore,
    id: String,
    stream: u64,
    queue: Arc<WaitQueue>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        lock(&self.store.0).unfollow(&self.id, self.stream);
    }
}

impl SessionStore for MemoryStore {
    fn begin(&self, id: &str, holder: &Holder, record: SessionRecord, ttl: Duration) -> Deferred<io::Result<()>> {
        Deferred::ready(self.with(|table, now| table.begin(now, id, holder, record, ttl)))
    }

    fn find(&self, id: &str, ttl: Duration) -> Deferred<io::Result<Option<SessionRecord>>> {
        Deferred::ready(Ok(self.with(|table, now| table.find(now, id, ttl))))
    }

    fn change(&self, id: &str, fields: SessionRecord) -> Deferred<io::Result<()>> {
        Deferred::ready(self.with(|table, now| table.change(now, id, fields)))
    }

    fn enter(&self, id: &str) -> Deferred<io::Result<u32>> {
        let part = self.with(|table, now| table.enter(now, id));
        Deferred::ready(part.ok_or_else(|| io::ErrorKind::NotFound.into()))
    }

    fn end(&self, id: &str) -> Deferred<io::Result<()>> {
        self.with(|table, _| table.end(id));
        Deferred::ready(Ok(()))
    }
}

impl EventStore for MemoryStore {
    fn keep(&self, id: &str, stream: u64, seq: u64, message: Vec<u8>, within: Retention) -> Deferred<io::Result<()>> {
        Deferred::ready(self.with(|table, now| table.keep(now, id, (stream, seq), Some(message), within)))
    }

    fn done(&self, id: &str, stream: u64, last: u64, within: Retention) -> Deferred<io::Result<()>> {
        Deferred::ready(self.with(|table, now| table.keep(now, id, (stream, last), None, within)))
    }

    fn follow(&self, id: &str, stream: u64, after: u64, wait: bool) -> Deferred<io::Result<ReplayChunk>> {
        let (store, id) = (self.clone(), id.to_owned());
        Deferred::new(async move {
            let queue = lock(&store.0).follow(&id, stream);
            let follower = Follower { store, id, stream, queue };
            let find = || {
                let mut table = lock(&follower.store.0);
                let replay_chunk = table.replay_chunk(Instant::now(), &follower.id, stream, after);
                let is_something = replay_chunk.as_ref().map_or(true, |it| it.done || !it.messages.is_empty());
                (is_something || !wait).then_some(replay_chunk)
            };
            follower.queue.wait_for(find).await
        })
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("usage", &self.usage()).finish()
    }
}
