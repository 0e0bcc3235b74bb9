//! Shares sessions between processes: sessions and sent messages are written to a store, from which other processes
//! resume them.

use std::{
    collections::{BTreeMap, VecDeque, btree_map::Entry},
    io, mem,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use mcp_proto::{
    connection::{Principal, ServerRole, SessionSnapshot},
    http::{
        Limits, MemoryReplayBuffer, ReplayBuffer, SessionId,
        server::{ReplayChunk, ReplayRequest, Session},
    },
    rpc::Timestamp,
};

use crate::http::{
    session::{HttpSession, SharedSession, StoredSettings},
    store::{self, Retention, SessionRecord, Store, scoped_message},
};
use crate::{
    event_loop::run_loop::{Dispatcher, TransportIo},
    limits::quota::{Permit, Quota},
    sync::lock,
    watched::Watched,
};
use mcp_service::driver_api::Holder;
use mcp_service::{
    Deferred,
    driver_api::{ConnectionHandle, WaitQueue},
};

/// The quota of bytes that wait to be written to the event store, of which one client has at most seven eighths.
/// Messages beyond it are not written: a client that resumes the stream in another process gets a gap.
const MAX_UNWRITTEN: usize = 16 << 20;

/// How many times a session in use is renewed within its lifetime in the store.
const RENEWALS: u32 = 3;

/// The longest interval of these renewals.
const MAX_RENEWAL_INTERVAL: Duration = Duration::from_secs(60);

/// The longest lifetime of a session or message in a store: 100 years. Stores add lifetimes to the current time, which
/// has a limit.
const MAX_LIFETIME: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Replicates the sessions of an endpoint to a store.
pub(super) struct SessionReplication {
    pub(super) store: Store,
    /// The lifetime of idle sessions. `abandoned` is that of sessions whose clients have not come back.
    pub(super) ttl: Duration,
    abandoned: Duration,
    limits: Limits,
    writer: Arc<EventWriter>,
    /// The write locks of sessions whose records are being written.
    write_locks: Mutex<BTreeMap<SessionId, SessionLock>>,
}

impl SessionReplication {
    /// Creates the replication, and the future that writes messages to the event store.
    pub(super) fn new(store: Store, limits: &Limits) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let writer = Arc::new(EventWriter { queue: Watched::default(), quota: Quota::new(MAX_UNWRITTEN) });
        let [ttl, abandoned, time] =
            [limits.idle, limits.abandoned, limits.replay_time].map(|time| time.min(MAX_LIFETIME));
        let retention = Retention { max_messages: limits.replay, bytes: limits.replay_bytes, time };
        let writing = write(writer.clone(), store.clone(), retention);
        (Self { store, ttl, abandoned, limits: limits.clone(), writer, write_locks: Mutex::default() }, writing)
    }

    /// Makes a session write its messages to the event store as well.
    pub(super) fn store_messages(&self, session: &mut Session, holder: &Holder) {
        let Some(id) = session.id() else { return };
        let Limits { replay, replay_bytes, replay_time, .. } = self.limits;
        let memory = MemoryReplayBuffer::new(replay, replay_bytes, replay_time);
        let (writer, holder) = (self.writer.clone(), holder.clone());
        let record = ReplayRecord { id: id.as_str().into(), memory, writer, holder, latest: BTreeMap::new() };
        session.share();
        session.set_replay(Box::new(record));
    }

    /// Waits until all messages so far are written to the event store, or could not be written.
    pub(super) async fn written(&self) {
        let is_written = |queue: &WriteQueue| queue.waiting.is_empty() && !queue.is_writing;
        self.writer.queue.wait_for(|queue| is_written(queue).then_some(())).await;
    }

    /// Returns how often a session in use is renewed in the store.
    fn renewal_interval(&self) -> Duration {
        (self.ttl / RENEWALS).min(MAX_RENEWAL_INTERVAL)
    }

    /// Writes the changes of a session to the store. The response to the request that caused them is held until then.
    pub(super) async fn store_changes(&self, session: &SharedSession, principal: Option<&Principal>) -> io::Result<()> {
        let Some(id) = session.lock().binding.session.id().cloned() else { return Ok(()) };
        // Writes are serialized, since the last one wins.
        let _guard = self.lock_writes(&id).await;
        let Some((stored, change)) = session.lock().binding.change(principal) else { return Ok(()) };
        match change {
            Change::Begun(record) => {
                let holder = ConnectionHandle::holder(session);
                self.store.sessions.begin(id.as_str(), &holder, record, self.abandoned).await?;
            }
            Change::Settings(fields) => self.store.sessions.change(id.as_str(), fields).await?,
        }
        session.lock().binding.stored = Some(stored);
        Ok(())
    }

    /// Waits for the write lock of a session.
    async fn lock_writes<'a>(&'a self, id: &'a SessionId) -> WriteGuard<'a> {
        let queue = {
            let mut write_locks = lock(&self.write_locks);
            let session_lock = write_locks.entry(id.clone()).or_default();
            session_lock.users += 1;
            session_lock.queue.clone()
        };
        let mut guard = WriteGuard { write_locks: &self.write_locks, id, queue, is_taken: false };
        let take = || {
            lock(&self.write_locks)
                .get_mut(id)
                .is_some_and(|session_lock| !mem::replace(&mut session_lock.is_taken, true))
        };
        guard.queue.acquire(|| take().then_some(())).await;
        guard.is_taken = true;
        guard
    }
}

/// The write lock of a session.
#[derive(Default)]
struct SessionLock {
    /// The number of tasks that hold the lock or wait for it.
    users: usize,
    is_taken: bool,
    queue: Arc<WaitQueue>,
}

/// A task that waits for the write lock of a session or, with `is_taken`, holds it.
struct WriteGuard<'a> {
    write_locks: &'a Mutex<BTreeMap<SessionId, SessionLock>>,
    id: &'a SessionId,
    queue: Arc<WaitQueue>,
    is_taken: bool,
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        if let Entry::Occupied(mut session_lock) = lock(self.write_locks).entry(self.id.clone()) {
            session_lock.get_mut().users -= 1;
            session_lock.get_mut().is_taken &= !self.is_taken;
            if session_lock.get().users == 0 {
                session_lock.remove();
            }
        }
        if self.is_taken {
            self.queue.notify_one();
        }
    }
}

impl Drop for SessionReplication {
    fn drop(&mut self) {
        self.writer.queue.update(|queue| queue.closed = true);
    }
}

/// A change of a session that is to be written to the store.
enum Change {
    Begun(SessionRecord),
    Settings(SessionRecord),
}

impl HttpSession {
    /// Returns the changes since the last write, and the state after the next one.
    fn change(&self, principal: Option<&Principal>) -> Option<(StoredSettings, Change)> {
        let stored = self.session.mutable_state()?;
        let change = match self.stored {
            Some(before) if before == stored => return None,
            Some(_) => Change::Settings(store::settings(stored.0, stored.1)),
            None => Change::Begun(store::record(principal.map(|it| &*it.id), &self.session.snapshot()?)),
        };
        Some((stored, change))
    }

    /// Applies the state that another process has written, unless this process has changes that are not written yet.
    pub(super) fn apply_snapshot(&mut self, now: Timestamp, snapshot: &SessionSnapshot) {
        if self.stored == self.session.mutable_state() {
            self.session.apply_snapshot(now, snapshot);
            self.stored = self.session.mutable_state();
        }
    }
}

/// A queue of messages that are to be written to the event store.
#[derive(Debug)]
struct EventWriter {
    queue: Watched<WriteQueue>,
    quota: Arc<Quota>,
}

#[derive(Debug, Default)]
struct WriteQueue {
    waiting: VecDeque<QueuedEvent>,
    /// Whether messages that were taken from the queue are being written.
    is_writing: bool,
    closed: bool,
}

#[derive(Debug)]
struct QueuedEvent {
    id: Arc<str>,
    stream: u64,
    seq: u64,
    /// `None` for the end of the stream after the message `seq`.
    message: Option<Vec<u8>>,
    /// Its part of the quota of queued bytes.
    permit: Permit,
}

impl EventWriter {
    fn enqueue(&self, holder: &Holder, id: &Arc<str>, (stream, seq): (u64, u64), message: Option<&[u8]>) {
        let Some(permit) = self.quota.take(holder, size_of::<QueuedEvent>() + message.map_or(0, <[u8]>::len)) else {
            return;
        };
        let event = QueuedEvent { id: id.clone(), stream, seq, message: message.map(<[u8]>::to_vec), permit };
        self.queue.update(|queue| queue.waiting.push_back(event));
    }
}

/// Writes the queued messages to the event store, in order, until `SessionReplication` is dropped and the queue is
/// empty.
async fn write(writer: Arc<EventWriter>, store: Store, retention: Retention) {
    loop {
        writer.queue.wait_for(|queue| (queue.closed || !queue.waiting.is_empty()).then_some(())).await;
        let (waiting, closed) = writer.queue.update(|queue| {
            queue.is_writing = !queue.waiting.is_empty();
            (mem::take(&mut queue.waiting), queue.closed)
        });
        if closed && waiting.is_empty() {
            return;
        }
        for event in waiting {
            let QueuedEvent { id, stream, seq, message, permit } = event;
            // An error leaves a gap for a client that resumes the stream in another process.
            let _ = match message {
                Some(message) => store.events.keep(&id, stream, seq, message, retention).await,
                None => store.events.done(&id, stream, seq, retention).await,
            };
            drop(permit);
        }
        writer.queue.update(|queue| queue.is_writing = false);
    }
}

/// The messages that a session has sent: kept in memory, and queued for the event store.
#[derive(Debug)]
struct ReplayRecord {
    id: Arc<str>,
    memory: MemoryReplayBuffer,
    writer: Arc<EventWriter>,
    holder: Holder,
    /// The sequence number of the last message of each stream that is neither done nor removed.
    latest: BTreeMap<u64, u64>,
}

impl ReplayBuffer for ReplayRecord {
    fn keep(&mut self, now: Timestamp, stream: u64, seq: u64, message: &[u8]) {
        self.keep_scoped(now, stream, seq, message, &[]);
    }

    fn keep_scoped(&mut self, now: Timestamp, stream: u64, seq: u64, message: &[u8], scopes: &[String]) {
        self.memory.keep(now, stream, seq, message);
        self.latest.insert(stream, seq);
        let message = scoped_message::pack(message, scopes);
        self.writer.enqueue(&self.holder, &self.id, (stream, seq), Some(&message));
    }

    fn done(&mut self, stream: u64) {
        let last = self.latest.remove(&stream).unwrap_or(0);
        self.writer.enqueue(&self.holder, &self.id, (stream, last), None);
    }

    fn forget(&mut self, stream: u64) {
        self.latest.remove(&stream);
    }

    fn after(&self, stream: u64, seq: u64, each: &mut dyn FnMut(u64, &[u8])) {
        self.memory.after(stream, seq, each);
    }

    fn has(&self, stream: u64) -> bool {
        self.memory.has(stream)
    }

    fn received(&mut self, stream: u64, seq: u64) {
        self.memory.received(stream, seq);
    }

    fn expiry(&self) -> Option<Timestamp> {
        self.memory.expiry()
    }

    fn expire(&mut self, now: Timestamp) {
        self.memory.expire(now);
    }

    fn usage(&self) -> (usize, usize) {
        self.memory.usage()
    }
}

/// The transport I/O of a session in its event loop. The tasks of its requests move the messages. For a shared session,
/// this fetches messages from the event store and renews the session.
#[derive(Default)]
pub(super) struct ReplicationIo {
    shared: Option<Box<SessionReplicator>>,
}

struct SessionReplicator {
    replication: Arc<SessionReplication>,
    id: SessionId,
    fetches: Vec<(ReplayRequest, Deferred<io::Result<ReplayChunk>>)>,
    /// The pending renewal of the session in the store.
    renewal: Option<Deferred<io::Result<Option<SessionRecord>>>>,
    renew_at: Timestamp,
}

impl ReplicationIo {
    pub(super) fn new(replication: Option<&Arc<SessionReplication>>, id: Option<&SessionId>, now: Timestamp) -> Self {
        let shared = replication.zip(id).map(|(replication, id)| {
            let (replication, id, renew_at) = (replication.clone(), id.clone(), now + replication.renewal_interval());
            Box::new(SessionReplicator { replication, id, fetches: Vec::new(), renewal: None, renew_at })
        });
        Self { shared }
    }
}

impl TransportIo<ServerRole, HttpSession> for ReplicationIo {
    fn read(
        &mut self,
        dispatcher: &Dispatcher<ServerRole, HttpSession>,
        _now: Timestamp,
        cx: &mut Context<'_>,
    ) -> bool {
        self.shared.as_mut().is_some_and(|shared| {
            let fetched = shared.fetch(dispatcher, cx);
            shared.renew(dispatcher, cx) || fetched
        })
    }

    fn awaits_input(&mut self, _cx: &mut Context<'_>) -> bool {
        // What was fetched is polled again, so that it wakes the task.
        self.shared.is_none()
    }
}

impl SessionReplicator {
    /// Fetches messages that a resumed stream needs from the event store. Returns whether it made progress.
    fn fetch(&mut self, dispatcher: &Dispatcher<ServerRole, HttpSession>, cx: &mut Context<'_>) -> bool {
        let shared = &dispatcher.shared;
        let mut moved = false;
        loop {
            let fetch = shared.lock().binding.session.poll_replay_request();
            let Some(fetch) = fetch else { break };
            moved = true;
            let found = self.replication.store.events.follow(self.id.as_str(), fetch.stream, fetch.after, fetch.waits);
            self.fetches.push((fetch, found));
        }
        self.fetches.retain_mut(|(fetch, found)| {
            let exchange = fetch.exchange;
            let Poll::Ready(mut found) = Pin::new(found).poll(cx) else {
                return shared.lock().binding.session.follows(exchange);
            };
            moved = true;
            if fetch.listens && has_ended(&found) {
                found = Ok(ReplayChunk::default());
            }
            shared.update(|binding, now| binding.handle_replay(now, exchange, found));
            false
        });
        moved
    }

    /// Renews a session with open streams in the store, since it is in use even without requests. Returns whether a
    /// renewal has ended.
    fn renew(&mut self, dispatcher: &Dispatcher<ServerRole, HttpSession>, cx: &mut Context<'_>) -> bool {
        let shared = &dispatcher.shared;
        let now = shared.now();
        if self.renewal.is_none() && self.renew_at <= now && shared.lock().binding.session.usage().exchanges > 0 {
            self.renew_at = now + self.replication.renewal_interval();
            self.renewal = Some(self.replication.store.sessions.find(self.id.as_str(), self.replication.ttl));
        }
        let Some(Poll::Ready(found)) = self.renewal.as_mut().map(|renewal| Pin::new(renewal).poll(cx)) else {
            return false;
        };
        self.renewal = None;
        if matches!(found, Ok(None)) {
            // Another process has ended the session.
            shared.update(|binding, now| binding.session.close(now));
        }
        true
    }
}

/// Returns whether the process that sends a stream has ended.
fn has_ended(found: &io::Result<ReplayChunk>) -> bool {
    found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::atomic::{AtomicUsize, Ordering},
        task::{Wake, Waker},
    };

    use super::*;
    use crate::http::store::memory::MemoryStore;

    #[test]
    fn ended_streams_leave_no_replay_state() {
        let writer = Arc::new(EventWriter { queue: Watched::default(), quota: Quota::new(MAX_UNWRITTEN) });
        let memory = MemoryReplayBuffer::new(1, 1, Duration::ZERO);
        let (id, holder) = ("a".into(), Holder::Unknown);
        let mut record = ReplayRecord { id, memory, writer, holder, latest: BTreeMap::new() };
        for stream in 1..100 {
            record.keep(Timestamp::ZERO, stream, 1, b"x");
            if stream % 2 == 0 { record.done(stream) } else { record.forget(stream) }
        }
        assert_eq!(record.latest.len(), 0);
    }

    #[test]
    fn written_waits_for_queued_and_taken_messages() {
        let store = Store::new(MemoryStore::default());
        let (replication, writing) = SessionReplication::new(store, &Limits::default());
        let mut cx = Context::from_waker(Waker::noop());
        let is_written = || pin!(replication.written()).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(is_written(), "there is none");
        replication.writer.enqueue(&Holder::Unknown, &"a".into(), (1, 1), Some(b"{}"));
        assert!(!is_written(), "it is queued");
        let taken = replication.writer.queue.update(|queue| {
            queue.is_writing = true;
            mem::take(&mut queue.waiting)
        });
        assert!(!is_written(), "it is being written");
        replication.writer.queue.update(|queue| queue.waiting = taken);
        assert!(pin!(writing).poll(&mut cx).is_pending(), "there may be more");
        assert!(is_written());
    }

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn write_locks_of_sessions_are_independent() {
        let (replication, _writing) = SessionReplication::new(Store::new(MemoryStore::default()), &Limits::default());
        let [one, other] = [1, 2].map(|number| SessionId::new([number; 24]));
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(woken.clone());
        let mut cx = Context::from_waker(&waker);
        let Poll::Ready(first) = pin!(replication.lock_writes(&one)).poll(&mut cx) else { panic!("it is free") };
        let mut second = Box::pin(replication.lock_writes(&one));
        let mut third = Box::pin(replication.lock_writes(&one));
        assert!(second.as_mut().poll(&mut cx).is_pending() && third.as_mut().poll(&mut cx).is_pending());
        for _ in 0..100 {
            let Poll::Ready(guard) = pin!(replication.lock_writes(&other)).poll(&mut cx) else { panic!("it is free") };
            drop(guard);
        }
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        // The lock is granted in the order of arrival, and a dropped waiter does not delay the others.
        drop(first);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert!(third.as_mut().poll(&mut cx).is_pending());
        let Poll::Ready(guard) = second.as_mut().poll(&mut cx) else { panic!("it is its turn") };
        let mut fourth = Box::pin(replication.lock_writes(&one));
        assert!(fourth.as_mut().poll(&mut cx).is_pending());
        drop(third);
        drop(guard);
        let Poll::Ready(guard) = fourth.as_mut().poll(&mut cx) else { panic!("it is its turn") };
        drop(guard);
        assert!(lock(&replication.write_locks).is_empty());
    }
}
