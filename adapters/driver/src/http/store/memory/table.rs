//! The sessions of a memory store, and their eviction.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io, mem,
    sync::Arc,
    time::Duration,
};

use mcp_proto::http::server::ReplayChunk;

use crate::http::store::{Retention, SessionRecord, StoreLimits, StoreUsage};
use mcp_service::driver_api::Holder;
use mcp_service::driver_api::{Instant, WaitQueue};

/// The maximum number of evictions for one session or one message.
const STEPS: usize = 512;

/// The sequence number that marks the end of a stream in the log of its session.
const END: u64 = u64::MAX;

/// How many ended streams without stored messages a session keeps.
const ENDED: usize = 64;

/// Sessions, and the indexes by which they expire and are evicted.
#[derive(Debug, Default)]
pub(super) struct Table {
    limits: StoreLimits,
    sessions: BTreeMap<Arc<str>, Entry>,
    /// The sessions by their expiry.
    ends: BTreeSet<(Instant, Arc<str>)>,
    holders: BTreeMap<Holder, ClientSessions>,
    /// The holders by their bytes.
    heaviest: BTreeSet<(usize, Holder)>,
    bytes: usize,
    /// A sequence number that orders uses and messages.
    sequence: u64,
    /// The followed streams of each session.
    followed: BTreeMap<Arc<str>, BTreeMap<u64, Followed>>,
    /// The queues of followers that are woken after the lock is released.
    woken: Vec<Arc<WaitQueue>>,
}

#[derive(Debug, Default)]
struct Followed {
    followers: usize,
    queue: Arc<WaitQueue>,
}

/// The sessions of one client.
#[derive(Debug, Default)]
struct ClientSessions {
    bytes: usize,
    /// Sessions in the order of eviction: those whose clients have not come back, then the least recently used.
    used: BTreeSet<(bool, u64, Arc<str>)>,
    /// Sessions with stored messages, by the sequence number of the last message.
    kept: BTreeSet<(u64, Arc<str>)>,
}

#[derive(Debug)]
struct Entry {
    record: SessionRecord,
    holder: Holder,
    until: Instant,
    parts: u32,
    /// Whether its client has come back, and the sequence number of the last use.
    used: (bool, u64),
    /// The sequence number of the last message.
    kept: u64,
    streams: BTreeMap<u64, Stream>,
    /// The stream, sequence number and expiry of all messages and ends of streams, oldest first.
    log: VecDeque<(u64, u64, Instant)>,
    /// The last ended streams without stored messages.
    ended: VecDeque<u64>,
    /// The bytes of the record.
    record_bytes: usize,
    /// The bytes of the messages.
    message_bytes: usize,
}

#[derive(Debug, Default)]
struct Stream {
    messages: VecDeque<(u64, Vec<u8>)>,
    /// The number of the last message, if the stream has ended.
    done: Option<u64>,
}

impl Entry {
    fn weight(&self) -> usize {
        StoreLimits::SESSION + self.record_bytes + self.kept_weight()
    }

    fn kept_weight(&self) -> usize {
        self.message_bytes + self.log.len() * StoreLimits::MESSAGE
    }

    /// Removes expired messages.
    fn remove_expired_messages(&mut self, now: Instant) {
        while self.log.front().is_some_and(|(_, _, until)| *until <= now) {
            self.remove_first();
        }
    }

    /// Removes the oldest message, or the oldest end of a stream.
    fn remove_first(&mut self) {
        let Some((id, seq, _)) = self.log.pop_front() else { return };
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if seq == END {
            stream.done = None;
            self.ended.truncate(ENDED - 1);
            self.ended.push_front(id);
        } else if let Some((_, message)) = stream.messages.pop_front() {
            self.message_bytes -= message.len();
        }
        if stream.messages.is_empty() && stream.done.is_none() {
            self.streams.remove(&id);
        }
    }
}

impl Table {
    pub(super) fn new(limits: StoreLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    pub(super) fn usage(&self) -> StoreUsage {
        StoreUsage { sessions: self.sessions.len(), bytes: self.bytes }
    }

    /// Adds a follower of a stream. Returns the queue in which it waits.
    pub(super) fn follow(&mut self, id: &str, stream: u64) -> Arc<WaitQueue> {
        let followed = self.followed.entry(id.into()).or_default().entry(stream).or_default();
        followed.followers += 1;
        followed.queue.clone()
    }

    /// Removes a follower of a stream.
    pub(super) fn unfollow(&mut self, id: &str, stream: u64) {
        let Some(streams) = self.followed.get_mut(id) else { return };
        if let Some(followed) = streams.get_mut(&stream) {
            followed.followers -= 1;
            if followed.followers == 0 {
                streams.remove(&stream);
            }
        }
        if streams.is_empty() {
            self.followed.remove(id);
        }
    }

    pub(super) fn take_woken(&mut self) -> Vec<Arc<WaitQueue>> {
        mem::take(&mut self.woken)
    }

    /// Ends expired sessions.
    fn sweep(&mut self, now: Instant) {
        while let Some((until, id)) = self.ends.first().cloned()
            && until <= now
        {
            self.end(&id);
        }
    }

    pub(super) fn begin(
        &mut self,
        now: Instant,
        id: &str,
        holder: &Holder,
        record: SessionRecord,
        ttl: Duration,
    ) -> io::Result<()> {
        let weight = self.limits.weigh(&record)?;
        self.sweep(now);
        self.end(id);
        if !self.make_room(holder, weight, true) {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        self.sequence += 1;
        let (id, until, used): (Arc<str>, _, _) = (id.into(), now + ttl, (false, self.sequence));
        let entry = Entry {
            record_bytes: weight - StoreLimits::SESSION,
            record,
            holder: holder.clone(),
            until,
            parts: 0,
            used,
            kept: 0,
            streams: BTreeMap::new(),
            log: VecDeque::new(),
            ended: VecDeque::new(),
            message_bytes: 0,
        };
        self.ends.insert((until, id.clone()));
        self.holders.entry(holder.clone()).or_default().used.insert((used.0, used.1, id.clone()));
        self.sessions.insert(id, entry);
        self.recount(holder, 0, weight);
        Ok(())
    }

    /// Returns the record of a session and records its use.
    pub(super) fn find(&mut self, now: Instant, id: &str, ttl: Duration) -> Option<SessionRecord> {
        self.sweep(now);
        let (id, entry) = self.sessions.get_key_value(id).map(|(id, _)| id.clone()).zip(self.sessions.get_mut(id))?;
        self.sequence += 1;
        let before = mem::replace(&mut entry.used, (true, self.sequence));
        self.ends.remove(&(entry.until, id.clone()));
        entry.until = now + ttl;
        self.ends.insert((entry.until, id.clone()));
        if let Some(held) = self.holders.get_mut(&entry.holder) {
            held.used.remove(&(before.0, before.1, id.clone()));
            held.used.insert((true, self.sequence, id));
        }
        Some(entry.record.clone())
    }

    pub(super) fn change(&mut self, now: Instant, id: &str, fields: SessionRecord) -> io::Result<()> {
        self.sweep(now);
        let Some(entry) = self.sessions.get_mut(id) else { return Ok(()) };
        let mut changed = entry.record.clone();
        changed.extend(fields);
        let record_bytes = self.limits.weigh(&changed)? - StoreLimits::SESSION;
        let before = entry.weight();
        (entry.record, entry.record_bytes) = (changed, record_bytes);
        let (holder, after) = (entry.holder.clone(), entry.weight());
        self.recount(&holder, before, after);
        Ok(())
    }

    pub(super) fn enter(&mut self, now: Instant, id: &str) -> Option<u32> {
        self.sweep(now);
        let entry = self.sessions.get_mut(id)?;
        entry.parts += 1;
        Some(entry.parts)
    }

    /// Ends a session.
    pub(super) fn end(&mut self, id: &str) {
        let Some((id, entry)) = self.sessions.remove_entry(id) else { return };
        let followed = self.followed.get(&id).into_iter().flat_map(BTreeMap::values);
        self.woken.extend(followed.map(|followed| followed.queue.clone()));
        self.ends.remove(&(entry.until, id.clone()));
        if let Some(held) = self.holders.get_mut(&entry.holder) {
            held.used.remove(&(entry.used.0, entry.used.1, id.clone()));
            held.kept.remove(&(entry.kept, id));
        }
        self.recount(&entry.holder, entry.weight(), 0);
    }

    /// Stores a message of a session, or the end of a stream (`None`) after the message `seq`.
    pub(super) fn keep(
        &mut self,
        now: Instant,
        id: &str,
        (stream, seq): (u64, u64),
        message: Option<Vec<u8>>,
        within: Retention,
    ) -> io::Result<()> {
        self.sweep(now);
        let Some(entry) = self.sessions.get_mut(id) else { return Ok(()) };
        let more = message.as_ref().map_or(0, Vec::len);
        let (before, holder) = (entry.weight(), entry.holder.clone());
        // The bounds of the session are applied first: its oldest messages are removed.
        entry.remove_expired_messages(now);
        while entry.log.len() >= within.max_messages.max(1)
            || !entry.log.is_empty() && entry.message_bytes.saturating_add(more) > within.bytes
        {
            entry.remove_first();
        }
        let after = entry.weight();
        self.recount(&holder, before, after);
        if !self.make_room(&holder, more.saturating_add(StoreLimits::MESSAGE), false) {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let Some((id, entry)) =
            self.sessions.get_key_value(id).map(|(id, _)| id.clone()).zip(self.sessions.get_mut(id))
        else {
            return Ok(());
        };
        let before = entry.weight();
        let kept = entry.streams.entry(stream).or_default();
        let until = now + within.time;
        match message {
            Some(message) => {
                kept.messages.push_back((seq, message));
                entry.log.push_back((stream, seq, until));
            }
            None if kept.done.replace(seq).is_none() => entry.log.push_back((stream, END, until)),
            None => {}
        }
        entry.message_bytes += more;
        let followed = self.followed.get(&id).and_then(|streams| streams.get(&stream));
        self.woken.extend(followed.map(|followed| followed.queue.clone()));
        self.sequence += 1;
        let last = mem::replace(&mut entry.kept, self.sequence);
        if let Some(held) = self.holders.get_mut(&holder) {
            held.kept.remove(&(last, id.clone()));
            held.kept.insert((self.sequence, id));
        }
        let after = entry.weight();
        self.recount(&holder, before, after);
        Ok(())
    }

    /// Returns the stored messages of a stream after a message.
    pub(super) fn replay_chunk(&mut self, now: Instant, id: &str, stream: u64, after: u64) -> io::Result<ReplayChunk> {
        let Some(entry) = self.sessions.get_mut(id) else { return Err(io::ErrorKind::NotFound.into()) };
        let (holder, before) = (entry.holder.clone(), entry.weight());
        entry.remove_expired_messages(now);
        let weight = entry.weight();
        self.recount(&holder, before, weight);
        let Some(entry) = self.sessions.get(id) else { return Ok(ReplayChunk::default()) };
        let Some(kept) = entry.streams.get(&stream) else {
            // No message follows on a stream that has ended.
            let is_over = entry.ended.contains(&stream);
            return if is_over { Err(io::ErrorKind::NotFound.into()) } else { Ok(ReplayChunk::default()) };
        };
        let messages: Vec<_> = kept.messages.iter().filter(|(seq, _)| *seq > after).cloned().collect();
        if messages.is_empty() && kept.done.is_some_and(|last| last > after) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(ReplayChunk { messages, done: kept.done.is_some() })
    }

    /// Evicts the oldest data until there is room for `more` bytes of a client. Whole sessions are evicted only if
    /// `may_end`. Nothing is evicted for data that is larger than a limit. Returns whether there is room.
    fn make_room(&mut self, holder: &Holder, more: usize, may_end: bool) -> bool {
        let StoreLimits { bytes, bytes_each, .. } = self.limits;
        let is_known = *holder != Holder::Unknown;
        if more > bytes || is_known && more > bytes_each {
            return false;
        }
        for _ in 0..STEPS {
            let held = self.holders.get(holder).map_or(0, |held| held.bytes);
            let of = if is_known && held + more > bytes_each {
                holder.clone()
            } else if self.bytes + more > bytes
                && let Some((_, heaviest)) = self.heaviest.last()
            {
                heaviest.clone()
            } else {
                return true;
            };
            // If nothing of the client with the most bytes can be evicted, messages of this client are.
            if !self.evict(&of, may_end) && (of == *holder || !self.evict(holder, false)) {
                return false;
            }
        }
        false
    }

    /// Evicts the messages of one session of a client or, if there are none and `may_end` is set, a session. Returns
    /// whether it evicted anything.
    fn evict(&mut self, of: &Holder, may_end: bool) -> bool {
        let Some(held) = self.holders.get_mut(of) else { return false };
        if let Some((_, id)) = held.kept.pop_first() {
            let Some(entry) = self.sessions.get_mut(&id) else { return true };
            let before = entry.weight();
            while !entry.log.is_empty() {
                entry.remove_first();
            }
            let after = entry.weight();
            self.recount(of, before, after);
            return true;
        }
        let Some((_, _, id)) = held.used.first().filter(|_| may_end).cloned() else { return false };
        self.end(&id);
        true
    }

    /// Updates the totals after the weight of a client's session has changed.
    fn recount(&mut self, holder: &Holder, before: usize, after: usize) {
        self.bytes = self.bytes + after - before;
        let Some(held) = self.holders.get_mut(holder) else { return };
        self.heaviest.remove(&(held.bytes, holder.clone()));
        held.bytes = held.bytes + after - before;
        if held.bytes == 0 {
            self.holders.remove(holder);
        } else {
            self.heaviest.insert((held.bytes, holder.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recently_ended_streams_are_remembered() {
        let (now, minute) = (Instant::now(), Duration::from_secs(60));
        let mut table = Table::new(StoreLimits::default());
        table.begin(now, "a", &Holder::Unknown, SessionRecord::default(), 60 * minute).expect("there is room");
        let within = Retention { max_messages: 1_000, bytes: 1_000, time: minute };
        for stream in 1..=200 {
            table.keep(now, "a", (stream, 1), Some(b"{}".to_vec()), within).expect("there is room");
            table.keep(now, "a", (stream, 1), None, within).expect("there is room");
        }
        assert!(table.replay_chunk(now, "a", 200, 0).is_ok_and(|it| it.done && it.messages.len() == 1));
        let later = now + 2 * minute;
        let is_over = |table: &mut Table, stream| table.replay_chunk(later, "a", stream, 0).is_err();
        assert!(is_over(&mut table, 200) && is_over(&mut table, 201 - ENDED as u64));
        assert!(!is_over(&mut table, 201), "nothing was sent on it yet");
        let entry = table.sessions.get("a").expect("it is there");
        assert_eq!((entry.ended.len(), entry.streams.len(), entry.log.len()), (ENDED, 0, 0));
        assert_eq!(table.usage().bytes, entry.weight());
    }

    /// Begins a session without fields, which takes `StoreLimits::SESSION` bytes.
    fn begin(table: &mut Table, id: &str, holder: &Holder) -> bool {
        let begun = table.begin(Instant::now(), id, holder, SessionRecord::default(), Duration::from_secs(60));
        begun.map_err(|error| assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded)).is_ok()
    }

    fn ids(table: &Table) -> Vec<&str> {
        table.sessions.keys().map(|id| &**id).collect()
    }

    #[test]
    fn sessions_are_evicted_beyond_the_exact_limits() {
        const SESSION: usize = StoreLimits::SESSION;
        let (ada, roomy) = (Holder::Principal("ada".into()), StoreLimits::default());
        for (bytes_each, bytes, known, unknown) in [
            (SESSION - 1, roomy.bytes, &[][..], &["a", "b"][..]),
            (SESSION, roomy.bytes, &["b"], &["a", "b"]),
            (2 * SESSION - 1, roomy.bytes, &["b"], &["a", "b"]),
            (2 * SESSION, roomy.bytes, &["a", "b"], &["a", "b"]),
            (roomy.bytes_each, SESSION - 1, &[], &[]),
            (roomy.bytes_each, SESSION, &["b"], &["b"]),
            (roomy.bytes_each, 2 * SESSION - 1, &["b"], &["b"]),
            (roomy.bytes_each, 2 * SESSION, &["a", "b"], &["a", "b"]),
        ] {
            for (holder, left) in [(&ada, known), (&Holder::Unknown, unknown)] {
                let mut table = Table::new(StoreLimits { bytes_each, bytes, ..roomy });
                let begun = ["a", "b"].map(|id| begin(&mut table, id, holder));
                assert_eq!((begun, &*ids(&table)), ([!left.is_empty(); 2], left), "{bytes_each} {bytes} {holder:?}");
                assert_eq!(table.usage(), StoreUsage { sessions: left.len(), bytes: left.len() * SESSION });
            }
        }
    }

    #[test]
    fn the_session_used_longest_ago_is_evicted_first() {
        let ada = Holder::Principal("ada".into());
        let mut table = Table::new(StoreLimits { bytes_each: 4 * StoreLimits::SESSION, ..StoreLimits::default() });
        for id in ["a", "b", "c", "d"] {
            assert!(begin(&mut table, id, &ada));
        }
        // The client of `d` has not come back.
        for id in ["c", "b", "a"] {
            assert!(table.find(Instant::now(), id, Duration::from_secs(60)).is_some());
        }
        for (new, left) in [("e", ["a", "b", "c", "e"]), ("f", ["a", "b", "c", "f"])] {
            assert!(begin(&mut table, new, &ada));
            assert_eq!(ids(&table), left);
        }
        assert!(table.find(Instant::now(), "f", Duration::from_secs(60)).is_some());
        for (new, left) in [("g", ["a", "b", "f", "g"]), ("h", ["a", "b", "f", "h"])] {
            assert!(begin(&mut table, new, &ada));
            assert_eq!(ids(&table), left);
        }
    }
}
