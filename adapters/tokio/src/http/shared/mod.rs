//! A store in Redis for sessions that several processes share.

mod channels;
mod process;
mod tasks;

use std::{fmt, future::Future, io, sync::Arc, time::Duration};

use mcp_driver::{
    Holder,
    http::{EventStore, ReplayChunk, Retention, SessionRecord, SessionStore, StoreLimits, StoreUsage},
};
use mcp_service::Deferred;
use redis::{
    Client, RedisError,
    aio::{ConnectionManager, ConnectionManagerConfig},
    cmd,
};
use tokio::{runtime::Handle, time::timeout};

use self::{
    channels::{Channels, Notifications, wait_for_more_than},
    process::{LEASE, Process},
    tasks::ChangedTasks,
};

/// The longest time that `follow` waits for new messages. After that it returns none, and is called again, so that the
/// end of the process that sends the stream is noticed.
const WAIT: Duration = Duration::from_secs(5);

/// The timeout of a request to Redis.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The sequence number that marks the end of a stream.
const END: u64 = u64::MAX;

/// The most sessions or messages that one step of the script evicts.
const STEPS: usize = 512;

/// The Lua script that runs each step atomically in Redis. Its limits hold for all processes together.
const SCRIPT: &str = include_str!("store.lua");

/// A store of sessions, their streams, and tasks in Redis (6.0.6 or newer, or a compatible server), for processes that
/// share them.
///
/// Entries expire when they have not been used for long enough, and the [limits](Self::limits) bound them in bytes
/// before that. All keys of a store have one hash tag, so that they are on one node of a cluster.
///
/// Each process renews an entry of its own every 5 seconds. The streams of a process whose entry has not been renewed
/// for 30 seconds are lost: a client that resumes one of them gets the status 400, after the messages that are kept of
/// it. That is known of the last 32 processes that a session has entered.
///
/// One connection serves all requests, and is made again after it was lost. A store operation in between fails, and its
/// HTTP request gets the status 503. Redis holds the ids of sessions, which are as good as keys to them, and all
/// messages of their streams: only the servers may have access to it. It is cheap to clone.
#[derive(Clone)]
pub struct RedisStore {
    connection: ConnectionManager,
    prefix: Arc<str>,
    limits: StoreLimits,
    /// The hash by which Redis identifies the script.
    script: Arc<str>,
    channels: Arc<Channels>,
    process: Arc<Process>,
    changed: Arc<ChangedTasks>,
    /// The runtime of the tasks in the background.
    runtime: Handle,
}

impl RedisStore {
    /// Connects to Redis, at an address such as `redis://127.0.0.1:6379/0`.
    ///
    /// # Errors
    /// If the address is invalid, or no server responds there.
    pub async fn connect(url: &str) -> io::Result<Self> {
        // New messages are announced on the same connection, which takes the third version of the protocol.
        let mark = if url.contains('?') { '&' } else { '?' };
        let client = Client::open(format!("{url}{mark}protocol=resp3")).map_err(lost)?;
        let channels = Arc::<Channels>::default();
        let pushed = channels.clone();
        let config = ConnectionManagerConfig::new()
            .set_push_sender(move |push| {
                pushed.handle_push(&push);
                Ok::<_, RedisError>(())
            })
            .set_automatic_resubscription()
            .set_response_timeout(Some(REQUEST_TIMEOUT));
        let mut connection = ConnectionManager::new_with_config(client, config).await.map_err(lost)?;
        let script: String = cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut connection).await.map_err(lost)?;
        let process = Arc::new(Process::new());
        let (prefix, script) = ("mcp".into(), script.into());
        let (changed, runtime) = (Arc::default(), Handle::current());
        Ok(Self { connection, prefix, limits: StoreLimits::default(), script, channels, process, changed, runtime })
    }

    /// Sets the limits of the store. Servers with the same prefix should have the same limits: each process applies its
    /// own.
    #[must_use]
    pub const fn limits(mut self, limits: StoreLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns how many sessions and bytes the store holds.
    ///
    /// # Errors
    /// If Redis does not respond.
    pub async fn usage(&self) -> io::Result<StoreUsage> {
        let (sessions, bytes) = self.run(self.step("usage", "")).await?;
        Ok(StoreUsage { sessions, bytes })
    }

    /// Sets the prefix of all keys. Default `mcp`. Servers with the same prefix share their sessions, so they have to
    /// be the same application.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.into();
        // The entry has the prefix, too, and so have the tasks.
        self.process = Arc::new(Process::new());
        self.changed = Arc::default();
        self
    }

    /// Returns the store without the entry of its process, which then does not own itself.
    fn without_process(&self) -> Self {
        Self { process: Arc::default(), ..self.clone() }
    }

    /// Returns the hash tag of the keys. The braces keep keys that belong together on one node of a cluster.
    fn tag(&self) -> String {
        format!("{{{}}}", self.prefix)
    }

    /// Returns the channel on which new messages of a stream are announced.
    fn channel(&self, id: &str, stream: u64) -> String {
        format!("{}:{id}:{stream}", self.tag())
    }

    /// Creates a step of the script. The caller adds the arguments of the step.
    fn step(&self, name: &str, id: &str) -> Step {
        let StoreLimits { bytes_each, bytes, .. } = self.limits;
        let mut arguments = Step(vec![self.script.as_bytes().into(), b"1".to_vec(), self.tag().into_bytes()]);
        arguments.add(name).add(id).add(bytes_each).add(bytes).add(STEPS);
        arguments
    }

    /// Runs a step. If Redis was restarted and does not have the script, the script is sent again.
    fn run<T: redis::FromRedisValue + Send + 'static>(
        &self,
        Step(arguments): Step,
    ) -> impl Future<Output = io::Result<T>> + Send + 'static {
        let mut connection = self.connection.clone();
        async move {
            let mut known = cmd("EVALSHA");
            known.arg(&arguments);
            match known.query_async(&mut connection).await {
                Err(error) if error.code() == Some("NOSCRIPT") => {
                    let mut sent = cmd("EVAL");
                    sent.arg(SCRIPT).arg(&arguments[1..]);
                    sent.query_async(&mut connection).await.map_err(lost)
                }
                result => result.map_err(lost),
            }
        }
    }

    /// Keeps a message, or the end of a stream, and announces it to the followers.
    fn add(
        &self,
        (id, stream): (&str, u64),
        seq: u64,
        message: &[u8],
        last: u64,
        within: Retention,
    ) -> Deferred<io::Result<()>> {
        let mut step = self.step("keep", id);
        step.add(stream).add(seq).bytes(message).add(last);
        step.add(within.max_messages.max(1)).add(within.bytes).add(millis(within.time));
        let (kept, mut connection) = (self.run::<i64>(step), self.connection.clone());
        // Not in the script: an announcement to the script's own connection is lost there.
        let mut publish = cmd("PUBLISH");
        publish.arg(self.channel(id, stream)).arg("");
        Deferred::new(async move {
            let kept = kept.await?;
            publish.query_async::<()>(&mut connection).await.map_err(lost)?;
            if kept == 0 { Err(io::ErrorKind::QuotaExceeded.into()) } else { Ok(()) }
        })
    }

    /// Reads the messages of a stream after a sequence number.
    fn look(
        &self,
        id: &str,
        stream: u64,
        after: u64,
    ) -> impl Future<Output = io::Result<ReplayChunk>> + Send + 'static {
        let mut step = self.step("follow", id);
        step.add(stream).add(after).add(stream >> 32);
        let found = self.run::<Vec<Vec<u8>>>(step);
        async move { read(found.await?, after) }
    }
}

/// A step of the script and its arguments.
struct Step(Vec<Vec<u8>>);

impl Step {
    fn add(&mut self, argument: impl ToString) -> &mut Self {
        self.bytes(argument.to_string().as_bytes())
    }

    fn bytes(&mut self, argument: &[u8]) -> &mut Self {
        self.0.push(argument.to_vec());
        self
    }

    fn fields(&mut self, fields: &SessionRecord) -> &mut Self {
        for (name, value) in fields {
            self.bytes(name.as_bytes()).bytes(value.as_bytes());
        }
        self
    }
}

/// Returns the name of a client in Redis. Clients that cannot be distinguished have an empty name.
fn name(holder: &Holder) -> String {
    match holder {
        Holder::Unknown => String::new(),
        Holder::Address(address) => format!("a:{address}"),
        Holder::Principal(id) => format!("p:{id}"),
    }
}

impl SessionStore for RedisStore {
    fn begin(&self, id: &str, holder: &Holder, record: SessionRecord, ttl: Duration) -> Deferred<io::Result<()>> {
        let weight = match self.limits.weigh(&record) {
            Ok(weight) => weight - StoreLimits::SESSION,
            Err(error) => return Deferred::ready(Err(error)),
        };
        let mut step = self.step("begin", id);
        step.add(millis(ttl)).add(name(holder)).add(weight).add(self.process.name()).add(millis(LEASE)).fields(&record);
        let (begun, store) = (self.run::<i64>(step), self.clone());
        Deferred::new(async move {
            store.process.keep(&store);
            if begun.await? == 0 { Err(io::ErrorKind::QuotaExceeded.into()) } else { Ok(()) }
        })
    }

    fn find(&self, id: &str, ttl: Duration) -> Deferred<io::Result<Option<SessionRecord>>> {
        let mut step = self.step("find", id);
        step.add(millis(ttl));
        let found = self.run::<SessionRecord>(step);
        Deferred::new(async move { Ok(Some(found.await?).filter(|record| !record.is_empty())) })
    }

    fn change(&self, id: &str, fields: SessionRecord) -> Deferred<io::Result<()>> {
        if fields.is_empty() {
            return Deferred::ready(Ok(()));
        }
        let mut step = self.step("change", id);
        step.add(self.limits.field_bytes).fields(&fields);
        let changed = self.run::<i64>(step);
        Deferred::new(async move { if changed.await? < 0 { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(()) } })
    }

    fn enter(&self, id: &str) -> Deferred<io::Result<u32>> {
        let mut step = self.step("enter", id);
        step.add(self.process.name()).add(millis(LEASE));
        let (entered, store) = (self.run::<u32>(step), self.clone());
        Deferred::new(async move {
            store.process.keep(&store);
            match entered.await? {
                0 => Err(io::ErrorKind::NotFound.into()),
                part => Ok(part),
            }
        })
    }

    fn end(&self, id: &str) -> Deferred<io::Result<()>> {
        let ended = self.run::<i64>(self.step("stop", id));
        Deferred::new(async move { ended.await.map(drop) })
    }
}

impl EventStore for RedisStore {
    fn keep(&self, id: &str, stream: u64, seq: u64, message: Vec<u8>, within: Retention) -> Deferred<io::Result<()>> {
        self.add((id, stream), seq, &message, 0, within)
    }

    fn done(&self, id: &str, stream: u64, last: u64, within: Retention) -> Deferred<io::Result<()>> {
        self.add((id, stream), END, b"", last, within)
    }

    fn follow(&self, id: &str, stream: u64, after: u64, wait: bool) -> Deferred<io::Result<ReplayChunk>> {
        let (store, key, id) = (self.clone(), self.channel(id, stream), id.to_owned());
        Deferred::new(async move {
            if !wait {
                return store.look(&id, stream, after).await;
            }
            let follower = Follower::new(&store, key).await?;
            let looked = timeout(WAIT, async {
                loop {
                    let notifications = follower.notifications();
                    let passage = store.look(&id, stream, after).await?;
                    if passage.done || !passage.messages.is_empty() {
                        return Ok(passage);
                    }
                    follower.wait_for_more_than(notifications).await;
                }
            });
            looked.await.unwrap_or_else(|_| Ok(ReplayChunk::default()))
        })
    }
}

/// Follows a stream, and is notified of new messages.
struct Follower {
    store: RedisStore,
    key: String,
    notifications: Notifications,
}

impl Follower {
    async fn new(store: &RedisStore, key: String) -> io::Result<Self> {
        let notifications = store.channels.follow(&key);
        let follower = Self { store: store.clone(), key, notifications };
        follower.store.connection.clone().subscribe(&follower.key).await.map_err(lost)?;
        Ok(follower)
    }

    fn notifications(&self) -> u64 {
        self.notifications.read(|notifications| *notifications)
    }

    async fn wait_for_more_than(&self, notifications: u64) {
        wait_for_more_than(&self.notifications, notifications).await;
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let is_last = self.store.channels.leave(&self.key);
        if is_last {
            let (store, key) = (self.store.clone(), std::mem::take(&mut self.key));
            // The response may be dropped by a thread without a runtime.
            self.store.runtime.spawn(async move {
                let mut connection = store.connection.clone();
                let _ = connection.unsubscribe(&key).await;
                // Another follower of the stream may have started in between.
                if store.channels.is_followed(&key) {
                    let _ = connection.subscribe(&key).await;
                }
            });
        }
    }
}

/// Parses the reply of `follow`: the sequence number of the last message, if the stream has ended, then pairs of
/// sequence number and message.
fn read(found: Vec<Vec<u8>>, after: u64) -> io::Result<ReplayChunk> {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut found = found.into_iter();
    let last = found.next().ok_or(io::ErrorKind::NotFound)?;
    if last == b"ended" {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    let last = if last.is_empty() { None } else { Some(number(&last).ok_or_else(invalid)?) };
    let mut messages = Vec::new();
    while let Some(seq) = found.next() {
        messages.push(number(&seq).zip(found.next()).ok_or_else(invalid)?);
    }
    if messages.is_empty() && last.is_some_and(|last| last > after) {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(ReplayChunk { messages, done: last.is_some() })
}

/// Returns the time in milliseconds, at least one.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX >> 1).max(1)
}

fn lost(error: RedisError) -> io::Error {
    io::Error::other(error)
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
