//! Stores that fail or are slow.

use std::{
    fmt, io,
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_driver::{
    Holder,
    http::{EventStore, ReplayChunk, Retention, SessionRecord, SessionStore},
};
use mcp_service::Deferred;
use mcp_tokio::http::MemoryStore;
use tokio::sync::Semaphore;

/// A store whose next change waits for a future, and fails if that fails.
#[derive(Clone, Default)]
pub(super) struct FaultyStore {
    pub(super) store: MemoryStore,
    /// The future that the next change waits for.
    before: Arc<Mutex<Option<Deferred<io::Result<()>>>>>,
}

impl FaultyStore {
    pub(super) fn wait_for(&self, before: Deferred<io::Result<()>>) {
        *self.before.lock().expect("no panic") = Some(before);
    }
}

impl SessionStore for FaultyStore {
    fn begin(&self, id: &str, holder: &Holder, fields: SessionRecord, life: Duration) -> Deferred<io::Result<()>> {
        self.store.begin(id, holder, fields, life)
    }

    fn find(&self, id: &str, life: Duration) -> Deferred<io::Result<Option<SessionRecord>>> {
        self.store.find(id, life)
    }

    fn change(&self, id: &str, fields: SessionRecord) -> Deferred<io::Result<()>> {
        let (store, id, before) = (self.store.clone(), id.to_owned(), self.before.lock().expect("no panic").take());
        Deferred::new(async move {
            if let Some(before) = before {
                before.await?;
            }
            store.change(&id, fields).await
        })
    }

    fn enter(&self, id: &str) -> Deferred<io::Result<u32>> {
        self.store.enter(id)
    }

    fn end(&self, id: &str) -> Deferred<io::Result<()>> {
        self.store.end(id)
    }
}

/// A store whose sessions end between the look-up and the registration of another process.
pub(super) struct Ending(pub(super) MemoryStore);

impl SessionStore for Ending {
    fn begin(&self, id: &str, holder: &Holder, fields: SessionRecord, life: Duration) -> Deferred<io::Result<()>> {
        self.0.begin(id, holder, fields, life)
    }

    fn find(&self, id: &str, life: Duration) -> Deferred<io::Result<Option<SessionRecord>>> {
        self.0.find(id, life)
    }

    fn change(&self, id: &str, fields: SessionRecord) -> Deferred<io::Result<()>> {
        self.0.change(id, fields)
    }

    fn enter(&self, id: &str) -> Deferred<io::Result<u32>> {
        let (store, id) = (self.0.clone(), id.to_owned());
        Deferred::new(async move {
            store.end(&id).await?;
            store.enter(&id).await
        })
    }

    fn end(&self, id: &str) -> Deferred<io::Result<()>> {
        self.0.end(id)
    }
}

/// A store that takes a permit for each message.
pub(super) struct SlowEvents(pub(super) MemoryStore, pub(super) Arc<Semaphore>);

impl SlowEvents {
    fn after_permit(&self, kept: Deferred<io::Result<()>>) -> Deferred<io::Result<()>> {
        let permits = self.1.clone();
        Deferred::new(async move {
            permits.acquire().await.map_err(io::Error::other)?.forget();
            kept.await
        })
    }
}

impl EventStore for SlowEvents {
    fn keep(&self, id: &str, stream: u64, seq: u64, message: Vec<u8>, within: Retention) -> Deferred<io::Result<()>> {
        let (store, id) = (self.0.clone(), id.to_owned());
        self.after_permit(Deferred::new(async move { store.keep(&id, stream, seq, message, within).await }))
    }

    fn done(&self, id: &str, stream: u64, last: u64, within: Retention) -> Deferred<io::Result<()>> {
        let (store, id) = (self.0.clone(), id.to_owned());
        self.after_permit(Deferred::new(async move { store.done(&id, stream, last, within).await }))
    }

    fn follow(&self, id: &str, stream: u64, after: u64, wait: bool) -> Deferred<io::Result<ReplayChunk>> {
        self.0.follow(id, stream, after, wait)
    }
}

/// A store whose operations all fail.
pub(super) struct Broken;

pub(super) fn broken<T>() -> Deferred<io::Result<T>> {
    Deferred::ready(Err(io::ErrorKind::ConnectionRefused.into()))
}

impl SessionStore for Broken {
    fn begin(&self, _: &str, _: &Holder, _: SessionRecord, _: Duration) -> Deferred<io::Result<()>> {
        broken()
    }

    fn find(&self, _: &str, _: Duration) -> Deferred<io::Result<Option<SessionRecord>>> {
        broken()
    }

    fn change(&self, _: &str, _: SessionRecord) -> Deferred<io::Result<()>> {
        broken()
    }

    fn enter(&self, _: &str) -> Deferred<io::Result<u32>> {
        broken()
    }

    fn end(&self, _: &str) -> Deferred<io::Result<()>> {
        broken()
    }
}

impl EventStore for Broken {
    fn keep(&self, _: &str, _: u64, _: u64, _: Vec<u8>, _: Retention) -> Deferred<io::Result<()>> {
        broken()
    }

    fn done(&self, _: &str, _: u64, _: u64, _: Retention) -> Deferred<io::Result<()>> {
        broken()
    }

    fn follow(&self, _: &str, _: u64, _: u64, _: bool) -> Deferred<io::Result<ReplayChunk>> {
        broken()
    }
}

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Broken")
    }
}
