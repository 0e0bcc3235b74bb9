//! What it takes to share sessions: what was sent is written down, and who comes from elsewhere is recognised.

use std::{
    collections::{BTreeSet, VecDeque},
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use mcp_proto::{
    connection::{Principal, ServerEnd, Standing},
    http::{
        Limits, MemoryReplay, Replay, SessionId,
        server::{ExchangeId, Passage, Session},
    },
    rpc::Timestamp,
    schema::LoggingLevel,
};

use super::{
    store::{self, Bounds, Fields, Shared},
    visit::{Room, Visit},
};
use crate::{
    Later,
    drive::{
        Watch,
        desk::{Mover, Post},
    },
    sync::lock,
};

/// Bytes that wait to be written down. What is sent beyond that is not: whoever comes back for it elsewhere does not find it.
const UNWRITTEN: usize = 16 << 20;

/// How many times a session that is in use is asked for while it would live without that.
const TOUCHES: u32 = 3;

/// Sessions that are shared.
pub(super) struct Share {
    pub(super) store: Shared,
    /// How long sessions live that nobody uses, and how long those whose clients have not come back.
    pub(super) life: Duration,
    abandoned: Duration,
    limits: Limits,
    scribe: Arc<Scribe>,
    /// The sessions of which something is being written down.
    noting: Watch<BTreeSet<SessionId>>,
}

impl Share {
    /// And what has to run for it.
    pub(super) fn new(store: Shared, limits: &Limits) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let scribe = Arc::new(Scribe::default());
        let bounds = Bounds { most: limits.replay, time: limits.replay_time };
        let writing = write(scribe.clone(), store.clone(), bounds);
        let (life, abandoned) = (limits.idle, limits.abandoned);
        (Self { store, life, abandoned, limits: limits.clone(), scribe, noting: Watch::default() }, writing)
    }

    /// Has a session that begins, or goes on here, write down what it sends.
    pub(super) fn watch(&self, session: &mut Session) {
        let Some(id) = session.id() else { return };
        let Limits { replay, replay_bytes, replay_time, .. } = self.limits;
        let here = MemoryReplay::new(replay, replay_bytes, replay_time);
        let kept = Kept { id: id.as_str().into(), here, scribe: self.scribe.clone() };
        session.share();
        session.set_replay(Box::new(kept));
    }

    /// Writes down what has changed of a session, before the answer leaves that has changed it.
    pub(super) async fn note(&self, room: &Room, principal: Option<&Principal>) -> io::Result<()> {
        let Some(id) = lock(&room.state).carrier.session.id().cloned() else { return Ok(()) };
        // One after the other: what is written last holds.
        let _turn = self.turn(&id).await;
        let Some((settled, change)) = lock(&room.state).carrier.change(principal) else { return Ok(()) };
        match change {
            Change::Begun(fields) => self.store.sessions.begin(id.as_str(), fields, self.abandoned).await?,
            Change::Settings(fields) => self.store.sessions.change(id.as_str(), fields).await?,
        }
        lock(&room.state).carrier.settled = Some(settled);
        Ok(())
    }

    /// Waits until nobody else writes down anything of a session.
    async fn turn<'a>(&'a self, id: &'a SessionId) -> Turn<'a> {
        while !self.noting.change(|noting| noting.insert(id.clone())) {
            self.noting.until(|noting| (!noting.contains(id)).then_some(())).await;
        }
        Turn { noting: &self.noting, id }
    }
}

/// Nobody else writes down anything of a session, until this is dropped.
struct Turn<'a> {
    noting: &'a Watch<BTreeSet<SessionId>>,
    id: &'a SessionId,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.noting.change(|noting| noting.remove(self.id));
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.scribe.lines.change(|lines| lines.closed = true);
    }
}

/// What has changed of a session.
enum Change {
    Begun(Fields),
    Settings(Fields),
}

/// What of a session was written down last.
pub(super) type Settled = (bool, Option<LoggingLevel>);

impl Visit {
    /// What is to be written down, and what will have been then.
    fn change(&self, principal: Option<&Principal>) -> Option<(Settled, Change)> {
        let settled = self.session.settled()?;
        let change = match self.settled {
            Some(before) if before == settled => return None,
            Some(_) => Change::Settings(store::settings(settled.0, settled.1)),
            None => Change::Begun(store::fields(principal.map(|it| &*it.id), &self.session.standing()?)),
        };
        Some((settled, change))
    }

    /// Goes on as it stands elsewhere; unless something has changed here that is not written down yet.
    pub(super) fn catch_up(&mut self, now: Timestamp, standing: &Standing) {
        if self.settled == self.session.settled() {
            self.session.catch_up(now, standing);
            self.settled = self.session.settled();
        }
    }
}

/// What was sent and is not written down yet.
#[derive(Debug, Default)]
struct Scribe {
    lines: Watch<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: VecDeque<Line>,
    bytes: usize,
    closed: bool,
}

#[derive(Debug)]
struct Line {
    id: Arc<str>,
    stream: u64,
    /// `None`: nothing follows.
    message: Option<(u64, Vec<u8>)>,
}

impl Line {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.message.as_ref().map_or(0, |(_, message)| message.len())
    }
}

impl Scribe {
    fn note(&self, line: Line) {
        self.lines.change(|lines| {
            let weight = line.weight();
            if lines.bytes + weight <= UNWRITTEN {
                lines.bytes += weight;
                lines.waiting.push_back(line);
            }
        });
    }
}

/// Writes down what was sent, in order, until nobody sends any more.
async fn write(scribe: Arc<Scribe>, store: Shared, bounds: Bounds) {
    loop {
        scribe.lines.until(|lines| (lines.closed || !lines.waiting.is_empty()).then_some(())).await;
        let (waiting, closed) = scribe.lines.change(|lines| (std::mem::take(&mut lines.waiting), lines.closed));
        if closed && waiting.is_empty() {
            return;
        }
        for line in waiting {
            let weight = line.weight();
            let Line { id, stream, message } = line;
            // What could not be written down is missed by who comes back for it elsewhere, and noticed there.
            let _ = match message {
                Some((seq, message)) => store.events.keep(&id, stream, seq, message, bounds).await,
                None => store.events.done(&id, stream, bounds).await,
            };
            scribe.lines.change(|lines| lines.bytes -= weight);
        }
    }
}

/// What a session has sent: kept here, and written down for others.
#[derive(Debug)]
struct Kept {
    id: Arc<str>,
    here: MemoryReplay,
    scribe: Arc<Scribe>,
}

impl Replay for Kept {
    fn keep(&mut self, now: Timestamp, stream: u64, seq: u64, message: &[u8]) {
        self.here.keep(now, stream, seq, message);
        self.scribe.note(Line { id: self.id.clone(), stream, message: Some((seq, message.to_vec())) });
    }

    fn done(&mut self, stream: u64) {
        self.scribe.note(Line { id: self.id.clone(), stream, message: None });
    }

    fn after(&self, stream: u64, seq: u64, each: &mut dyn FnMut(u64, &[u8])) {
        self.here.after(stream, seq, each);
    }

    fn has(&self, stream: u64) -> bool {
        self.here.has(stream)
    }

    fn received(&mut self, stream: u64, seq: u64) {
        self.here.received(stream, seq);
    }

    fn expiry(&self) -> Option<Timestamp> {
        self.here.expiry()
    }

    fn expire(&mut self, now: Timestamp) {
        self.here.expire(now);
    }

    fn usage(&self) -> (usize, usize) {
        self.here.usage()
    }
}

/// Others move the messages. Of a session that is shared, what it wants of those who share it is brought here.
#[derive(Default)]
pub(super) struct Others {
    shared: Option<Box<Sharer>>,
}

struct Sharer {
    share: Arc<Share>,
    id: SessionId,
    following: Vec<(ExchangeId, Later<io::Result<Passage>>)>,
    /// Says that the session is in use, at times.
    touching: Option<Later<io::Result<Option<Fields>>>>,
    touch_at: Timestamp,
}

impl Others {
    pub(super) fn new(share: Option<&Arc<Share>>, id: Option<&SessionId>, now: Timestamp) -> Self {
        let shared = share.zip(id).map(|(share, id)| {
            let (share, id, touch_at) = (share.clone(), id.clone(), now + share.life / TOUCHES);
            Box::new(Sharer { share, id, following: Vec::new(), touching: None, touch_at })
        });
        Self { shared }
    }
}

impl Mover<ServerEnd, Visit> for Others {
    fn read(&mut self, post: &Post<ServerEnd, Visit>, _now: Timestamp, cx: &mut Context<'_>) -> bool {
        self.shared.as_mut().is_some_and(|shared| {
            let fetched = shared.fetch(post, cx);
            shared.touch(post, cx) || fetched
        })
    }
}

impl Sharer {
    /// Looks for what was sent elsewhere.
    fn fetch(&mut self, post: &Post<ServerEnd, Visit>, cx: &mut Context<'_>) -> bool {
        let hub = &post.hub;
        let mut moved = false;
        loop {
            let fetch = lock(&hub.state).carrier.session.poll_fetch();
            let Some(fetch) = fetch else { break };
            moved = true;
            let found = self.share.store.events.follow(self.id.as_str(), fetch.stream, fetch.after, fetch.waits);
            self.following.push((fetch.exchange, found));
        }
        self.following.retain_mut(|(exchange, found)| {
            let Poll::Ready(found) = Pin::new(found).poll(cx) else {
                return lock(&hub.state).carrier.session.follows(*exchange);
            };
            moved = true;
            hub.run(|visit, now| visit.session.handle_fetched(now, *exchange, found.as_ref().ok()));
            false
        });
        moved
    }

    /// A session with open streams is in use, though nobody asks for anything.
    fn touch(&mut self, post: &Post<ServerEnd, Visit>, cx: &mut Context<'_>) -> bool {
        let hub = &post.hub;
        let now = hub.now();
        if self.touching.is_none() && self.touch_at <= now && lock(&hub.state).carrier.session.usage().exchanges > 0 {
            self.touch_at = now + self.share.life / TOUCHES;
            self.touching = Some(self.share.store.sessions.find(self.id.as_str(), self.share.life));
        }
        let Some(Poll::Ready(found)) = self.touching.as_mut().map(|touching| Pin::new(touching).poll(cx)) else {
            return false;
        };
        self.touching = None;
        if matches!(found, Ok(None)) {
            // It was ended elsewhere.
            hub.run(|visit, now| visit.session.close(now));
        }
        true
    }
}
