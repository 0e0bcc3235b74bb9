//! Sessions that several processes share, in Redis.

use std::{collections::BTreeMap, fmt, future::Future, io, sync::Arc, time::Duration};

use mcp_service::{
    Later,
    drive::{
        Watch,
        http::{Bounds, Events, Fields, Passage, Sessions},
    },
};
use redis::{
    Client, Cmd, Pipeline, PushInfo, PushKind, RedisError, Value,
    aio::{ConnectionManager, ConnectionManagerConfig},
    cmd, pipe,
};
use tokio::time::timeout;

/// How long one waits at most for what comes on a stream before one looks again, whatever was said in between.
const WAIT: Duration = Duration::from_secs(20);

/// How long Redis may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The number of the entry that says that nothing follows.
const END: u64 = u64::MAX;

/// Changes a session, if it is there.
const CHANGE: &str =
    "if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end redis.call('HSET', KEYS[1], unpack(ARGV)) return 1";

/// Counts those who take part in a session, if it is there.
const ENTER: &str =
    "if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end return redis.call('HINCRBY', KEYS[1], 'parts', 1)";

/// Sessions and their streams in Redis (6 or newer, or what speaks its protocol), for processes that share them.
///
/// A session is a hash that expires when nobody has used it for long enough, and a stream of it a stream of Redis, which
/// expires as well. One connection serves all, and is made again when it was lost; what is asked in between fails, and
/// the request with it, with 503. Redis holds the ids of sessions, which are as good as keys to them, and all that is said on their
/// streams: it belongs where the servers are, and nobody else. It is cheap to clone.
#[derive(Clone)]
pub struct RedisStore {
    connection: ConnectionManager,
    prefix: Arc<str>,
    bells: Arc<Bells>,
}

/// The streams that somebody here follows, by their keys.
type Bells = Watch<BTreeMap<String, Bell>>;

#[derive(Debug, Default)]
struct Bell {
    followers: usize,
    /// How often somebody has said that there is something new.
    rings: u64,
}

impl RedisStore {
    /// Connects to Redis, at an address such as `redis://127.0.0.1:6379/0`.
    ///
    /// # Errors
    /// If that is no address, or nobody answers there.
    pub async fn connect(url: &str) -> io::Result<Self> {
        // What is new is said on the same connection, which takes the third version of the protocol.
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
        let connection = ConnectionManager::new_with_config(client, config).await.map_err(lost)?;
        Ok(Self { connection, prefix: "mcp".into(), bells })
    }

    /// What the names of keys begin with. Default `mcp`. Servers with the same prefix share their sessions, so they have to be
    /// the same server.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The braces keep what belongs together on one node of a cluster.
    fn session(&self, id: &str) -> String {
        format!("{}:{{{id}}}", self.prefix)
    }

    fn stream(&self, id: &str, stream: u64) -> String {
        format!("{}:{stream}", self.session(id))
    }

    /// Does several things in one go.
    fn all(&self, mut pipeline: Pipeline) -> Later<io::Result<()>> {
        let mut connection = self.connection.clone();
        pipeline.ignore();
        Later::new(async move { pipeline.query_async::<()>(&mut connection).await.map_err(lost) })
    }

    fn one<T: redis::FromRedisValue + Send + 'static>(
        &self,
        command: Cmd,
    ) -> impl Future<Output = io::Result<T>> + Send + 'static {
        let mut connection = self.connection.clone();
        async move { command.query_async(&mut connection).await.map_err(lost) }
    }

    /// Adds an entry to a stream, and tells those who follow it.
    fn add(&self, key: &str, entry: (u64, &str, &[u8]), within: Bounds) -> Later<io::Result<()>> {
        let (seq, name, value) = entry;
        let mut pipeline = pipe();
        // One more, for the entry that says that nothing follows.
        let most = within.most.max(1).saturating_add(usize::from(seq == END));
        pipeline.cmd("XADD").arg(key).arg("MAXLEN").arg(most).arg(format!("{seq}-0")).arg(name).arg(value);
        pipeline.cmd("PEXPIRE").arg(key).arg(millis(within.time));
        // Not in a transaction: what is said to its own connection is lost there.
        pipeline.cmd("PUBLISH").arg(key).arg("");
        self.all(pipeline)
    }
}

impl Sessions for RedisStore {
    fn begin(&self, id: &str, fields: Fields, life: Duration) -> Later<io::Result<()>> {
        let key = self.session(id);
        let mut pipeline = pipe();
        let add = pipeline.cmd("HSET").arg(&key);
        for (name, value) in &fields {
            add.arg(name).arg(value);
        }
        pipeline.atomic().cmd("PEXPIRE").arg(&key).arg(millis(life));
        self.all(pipeline)
    }

    fn find(&self, id: &str, life: Duration) -> Later<io::Result<Option<Fields>>> {
        let (key, mut connection) = (self.session(id), self.connection.clone());
        Later::new(async move {
            let mut pipeline = pipe();
            pipeline.atomic().cmd("PEXPIRE").arg(&key).arg(millis(life)).ignore();
            pipeline.cmd("HGETALL").arg(&key);
            let (fields,): (Fields,) = pipeline.query_async(&mut connection).await.map_err(lost)?;
            Ok(Some(fields).filter(|fields| !fields.is_empty()))
        })
    }

    fn change(&self, id: &str, fields: Fields) -> Later<io::Result<()>> {
        if fields.is_empty() {
            return Later::ready(Ok(()));
        }
        let mut command = cmd("EVAL");
        command.arg(CHANGE).arg(1).arg(self.session(id));
        for (name, value) in &fields {
            command.arg(name).arg(value);
        }
        Later::new(self.one(command))
    }

    fn enter(&self, id: &str) -> Later<io::Result<u32>> {
        let mut command = cmd("EVAL");
        command.arg(ENTER).arg(1).arg(self.session(id));
        let entered = self.one::<u32>(command);
        Later::new(async move {
            match entered.await? {
                0 => Err(io::ErrorKind::NotFound.into()),
                part => Ok(part),
            }
        })
    }

    fn end(&self, id: &str) -> Later<io::Result<()>> {
        let mut command = cmd("DEL");
        command.arg(self.session(id));
        // What was sent on its streams goes by itself: nobody finds it any more.
        Later::new(self.one(command))
    }
}

impl Events for RedisStore {
    fn keep(&self, id: &str, stream: u64, seq: u64, message: Vec<u8>, within: Bounds) -> Later<io::Result<()>> {
        self.add(&self.stream(id, stream), (seq, "message", &message), within)
    }

    fn done(&self, id: &str, stream: u64, within: Bounds) -> Later<io::Result<()>> {
        self.add(&self.stream(id, stream), (END, "done", b""), within)
    }

    fn follow(&self, id: &str, stream: u64, after: u64, wait: bool) -> Later<io::Result<Passage>> {
        let (store, key) = (self.clone(), self.stream(id, stream));
        Later::new(async move {
            let mut look = cmd("XRANGE");
            look.arg(&key).arg(format!("({after}-0")).arg("+");
            if !wait {
                return read(&store.one::<Vec<_>>(look).await?);
            }
            let follower = Follower::new(&store, key).await?;
            let looked = timeout(WAIT, async {
                loop {
                    let rings = follower.rings();
                    let passage = read(&store.one::<Vec<_>>(look.clone()).await?)?;
                    if passage.done || !passage.messages.is_empty() {
                        return Ok(passage);
                    }
                    follower.heard_more_than(rings).await;
                }
            });
            looked.await.unwrap_or_else(|_| Ok(Passage::default()))
        })
    }
}

/// Somebody who follows a stream, and is told when there is something new.
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
                // Somebody may have begun to follow it in between.
                if store.bells.look(|bells| bells.contains_key(&key)) {
                    let _ = connection.subscribe(&key).await;
                }
            });
        }
    }
}

/// Redis has said something by itself.
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

/// An entry of a stream: its id, names and values.
type Entry = (String, Vec<(String, Vec<u8>)>);

/// What entries of a stream say.
fn read(entries: &[Entry]) -> io::Result<Passage> {
    let mut passage = Passage::default();
    for (id, fields) in entries {
        let seq = id.split_once('-').and_then(|(seq, _)| seq.parse().ok());
        let message = fields.first().map(|(_, message)| message.clone());
        match (seq, message) {
            (Some(END), _) => passage.done = true,
            (Some(seq), Some(message)) => passage.messages.push((seq, message)),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    Ok(passage)
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
