//! Sessions that several processes share, in Redis.

use std::{collections::BTreeMap, fmt, future::Future, io, sync::Arc, time::Duration};

use mcp_driver::{
    Holder, Watch,
    http::{EventStore, ReplayChunk, Retention, SessionRecord, SessionStore, StoreLimits, StoreUsage},
};
use mcp_service::Later;
use redis::{
    Client, PushInfo, PushKind, RedisError, Value,
    aio::{ConnectionManager, ConnectionManagerConfig},
    cmd,
};
use tokio::time::timeout;

/// How long one waits at most for what comes on a stream before one looks again, whatever was said in between.
const WAIT: Duration = Duration::from_secs(20);

/// How long Redis may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The number that the end of a stream has.
const END: u64 = u64::MAX;

/// Sessions or messages that give way at most for one step.
const STEPS: usize = 512;

/// What is done in Redis in one step. Its sessions are bounded there, whichever process they are used by.
const SCRIPT: &str = include_str!("store.lua");

/// Sessions and their streams in Redis (6 or newer, or what speaks its protocol), for processes that share them.
///
/// Everything expires when it has not been used for long enough, and is bounded in bytes before that
/// ([`limits`](Self::limits)). All keys of a store have one hash tag, so that they lie on one node of a cluster. One connection serves all, and is made again when it was lost; what is asked in between fails, and
/// the request with it, with 503. Redis holds the ids of sessions, which are as good as keys to them, and all that is said on their
/// streams: only the servers may reach it. It is cheap to clone.
#[derive(Clone)]
pub struct RedisStore {
    connection: ConnectionManager,
    prefix: Arc<str>,
    limits: StoreLimits,
    /// By which name Redis knows the script.
    script: Arc<str>,
    bells: Arc<Bells>,
}

/// The streams that this process follows, by their keys.
type Bells = Watch<BTreeMap<String, Bell>>;

#[derive(Debug, Default)]
struct Bell {
    followers: usize,
    /// How often something new was announced.
    rings: u64,
}

impl RedisStore {
    /// Connects to Redis, at an address such as `redis://127.0.0.1:6379/0`.
    ///
    /// # Errors
    /// If the address is not one, or no server responds there.
    pub async fn connect(url: &str) -> io::Result<Self> {
        // New messages are announced on the same connection, which takes the third version of the protocol.
        let mark = if url.contains('?') { '&' } else { '?' };
        let client = Client::open(format!("{url}{mark}protocol=resp3")).map_err(lost)?;
        let bells = Arc::<Bells>::default();
        let heard = bells.clone();
        let config = ConnectionManagerConfig::new()
            .set_push_sender(move |push| {
                hear(&heard, &push);
                Ok::<_, RedisError>(())
            })
            .set_automatic_resubscription()
            .set_response_timeout(Some(PATIENCE));
        let mut connection = ConnectionManager::new_with_config(client, config).await.map_err(lost)?;
        let script: String = cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut connection).await.map_err(lost)?;
        Ok(Self { connection, prefix: "mcp".into(), limits: StoreLimits::default(), script: script.into(), bells })
    }

    /// Sets how much it holds. Servers with the same prefix should have the same limits: each goes by its own.
    #[must_use]
    pub const fn limits(mut self, limits: StoreLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns how much it holds.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn usage(&self) -> io::Result<StoreUsage> {
        let (sessions, bytes) = self.run(self.step("usage", "")).await?;
        Ok(StoreUsage { sessions, bytes })
    }

    /// What the names of keys begin with. Default `mcp`. Servers with the same prefix share their sessions, so they have to be
    /// the same server.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The braces keep what belongs together on one node of a cluster.
    fn tag(&self) -> String {
        format!("{{{}}}", self.prefix)
    }

    /// Where it is said that there is something new on a stream.
    fn channel(&self, id: &str, stream: u64) -> String {
        format!("{}:{id}:{stream}", self.tag())
    }

    /// A step of the script, to be completed with arguments of its own.
    fn step(&self, name: &str, id: &str) -> Step {
        let StoreLimits { bytes_each, bytes, .. } = self.limits;
        let mut arguments = Step(vec![self.script.as_bytes().into(), b"1".to_vec(), self.tag().into_bytes()]);
        arguments.add(name).add(id).add(bytes_each).add(bytes).add(STEPS);
        arguments
    }

    /// Runs a step. Where Redis has begun anew and does not know the script, it is sent again.
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

    /// Keeps a message, or the end of a stream, and tells those who follow it.
    fn add(
        &self,
        (id, stream): (&str, u64),
        seq: u64,
        message: &[u8],
        last: u64,
        within: Retention,
    ) -> Later<io::Result<()>> {
        let mut step = self.step("keep", id);
        step.add(stream).add(seq).bytes(message).add(last);
        step.add(within.most.max(1)).add(within.bytes).add(millis(within.time));
        let (kept, mut connection) = (self.run::<i64>(step), self.connection.clone());
        // Not in the script: what is said to its own connection is lost there.
        let mut tell = cmd("PUBLISH");
        tell.arg(self.channel(id, stream)).arg("");
        Later::new(async move {
            let kept = kept.await?;
            tell.query_async::<()>(&mut connection).await.map_err(lost)?;
            if kept == 0 { Err(io::ErrorKind::QuotaExceeded.into()) } else { Ok(()) }
        })
    }

    /// What was kept of a stream behind a message.
    fn look(
        &self,
        id: &str,
        stream: u64,
        after: u64,
    ) -> impl Future<Output = io::Result<ReplayChunk>> + Send + 'static {
        let mut step = self.step("follow", id);
        step.add(stream).add(after);
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

/// How a client is named in Redis. Clients that cannot be told apart have no name.
fn name(holder: &Holder) -> String {
    match holder {
        Holder::Unknown => String::new(),
        Holder::Address(address) => format!("a:{address}"),
        Holder::Principal(id) => format!("p:{id}"),
    }
}

impl SessionStore for RedisStore {
    fn begin(&self, id: &str, holder: &Holder, fields: SessionRecord, life: Duration) -> Later<io::Result<()>> {
        let weight = match self.limits.weigh(&fields) {
            Ok(weight) => weight - StoreLimits::SESSION,
            Err(error) => return Later::ready(Err(error)),
        };
        let mut step = self.step("begin", id);
        step.add(millis(life)).add(name(holder)).add(weight).fields(&fields);
        let begun = self.run::<i64>(step);
        Later::new(async move { if begun.await? == 0 { Err(io::ErrorKind::QuotaExceeded.into()) } else { Ok(()) } })
    }

    fn find(&self, id: &str, life: Duration) -> Later<io::Result<Option<SessionRecord>>> {
        let mut step = self.step("find", id);
        step.add(millis(life));
        let found = self.run::<SessionRecord>(step);
        Later::new(async move { Ok(Some(found.await?).filter(|fields| !fields.is_empty())) })
    }

    fn change(&self, id: &str, fields: SessionRecord) -> Later<io::Result<()>> {
        if fields.is_empty() {
            return Later::ready(Ok(()));
        }
        let mut step = self.step("change", id);
        step.add(self.limits.field_bytes).fields(&fields);
        let changed = self.run::<i64>(step);
        Later::new(async move { if changed.await? < 0 { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(()) } })
    }

    fn enter(&self, id: &str) -> Later<io::Result<u32>> {
        let entered = self.run::<u32>(self.step("enter", id));
        Later::new(async move {
            match entered.await? {
                0 => Err(io::ErrorKind::NotFound.into()),
                part => Ok(part),
            }
        })
    }

    fn end(&self, id: &str) -> Later<io::Result<()>> {
        let ended = self.run::<i64>(self.step("stop", id));
        Later::new(async move { ended.await.map(drop) })
    }
}

impl EventStore for RedisStore {
    fn keep(&self, id: &str, stream: u64, seq: u64, message: Vec<u8>, within: Retention) -> Later<io::Result<()>> {
        self.add((id, stream), seq, &message, 0, within)
    }

    fn done(&self, id: &str, stream: u64, last: u64, within: Retention) -> Later<io::Result<()>> {
        self.add((id, stream), END, b"", last, within)
    }

    fn follow(&self, id: &str, stream: u64, after: u64, wait: bool) -> Later<io::Result<ReplayChunk>> {
        let (store, key, id) = (self.clone(), self.channel(id, stream), id.to_owned());
        Later::new(async move {
            if !wait {
                return store.look(&id, stream, after).await;
            }
            let follower = Follower::new(&store, key).await?;
            let looked = timeout(WAIT, async {
                loop {
                    let rings = follower.rings();
                    let passage = store.look(&id, stream, after).await?;
                    if passage.done || !passage.messages.is_empty() {
                        return Ok(passage);
                    }
                    follower.heard_more_than(rings).await;
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
}

impl Follower {
    async fn new(store: &RedisStore, key: String) -> io::Result<Self> {
        store.bells.change(|bells| bells.entry(key.clone()).or_default().followers += 1);
        let follower = Self { store: store.clone(), key };
        follower.store.connection.clone().subscribe(&follower.key).await.map_err(lost)?;
        Ok(follower)
    }

    fn rings(&self) -> u64 {
        self.store.bells.look(|bells| bells.get(&self.key).map_or(0, |bell| bell.rings))
    }

    async fn heard_more_than(&self, rings: u64) {
        self.store.bells.until(|bells| bells.get(&self.key).filter(|bell| bell.rings > rings).map(|_| ())).await;
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let is_last = self.store.bells.change(|bells| {
            let Some(bell) = bells.get_mut(&self.key) else { return false };
            bell.followers -= 1;
            let is_last = bell.followers == 0;
            if is_last {
                bells.remove(&self.key);
            }
            is_last
        });
        if let (true, Ok(runtime)) = (is_last, tokio::runtime::Handle::try_current()) {
            let (store, key) = (self.store.clone(), std::mem::take(&mut self.key));
            runtime.spawn(async move {
                let mut connection = store.connection.clone();
                let _ = connection.unsubscribe(&key).await;
                // Another follower of the stream may have started in between.
                if store.bells.look(|bells| bells.contains_key(&key)) {
                    let _ = connection.subscribe(&key).await;
                }
            });
        }
    }
}

/// Counts an announcement of Redis.
fn hear(bells: &Bells, push: &PushInfo) {
    match (&push.kind, push.data.first()) {
        (PushKind::Message, Some(Value::BulkString(channel))) => bells.change(|bells| {
            let bell = std::str::from_utf8(channel).ok().and_then(|channel| bells.get_mut(channel));
            bell.into_iter().for_each(|bell| bell.rings += 1);
        }),
        // Something may have been missed.
        (PushKind::Disconnection | PushKind::Subscribe, _) => {
            bells.change(|bells| bells.values_mut().for_each(|bell| bell.rings += 1));
        }
        _ => {}
    }
}

/// Reads what was found of a stream: the number of its last message, if nothing follows on it, and messages with their numbers.
fn read(found: Vec<Vec<u8>>, after: u64) -> io::Result<ReplayChunk> {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut found = found.into_iter();
    let last = found.next().ok_or(io::ErrorKind::NotFound)?;
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

/// So many milliseconds, and at least one.
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
