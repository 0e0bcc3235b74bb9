//! Requests of this side.

use alloc::collections::{BTreeMap, VecDeque};
use core::{mem, time::Duration};

use hashbrown::HashMap;

use super::{Deadlines, StartTime, Timestamp};
use crate::collections::SequentialHasher;

/// The key of a request of this side. It is never reused within a connection.
///
/// Calls that were [completed from the cache](Self::is_cached) are in none of the connection's tables, and sort after
/// all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

impl CallId {
    pub(crate) const fn from_raw(id: u64) -> Self {
        Self(id)
    }

    /// Returns the number that is the request's id, and its progress token, on the wire. A request that the connection
    /// sends again has further ids on the wire. A [cached](Self::is_cached) call has no id on the wire; its number is
    /// larger than those of all requests.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Returns whether the request was completed from the client's cache (2026-07-28). Such a request is not sent. Its
    /// [`Event::Response`](crate::connection::Event::Response) can be polled at once, and it cannot be cancelled.
    #[must_use]
    pub const fn is_cached(self) -> bool {
        self.0 & CACHED != 0
    }
}

/// The bit that marks the number of a call that was completed from the cache.
const CACHED: u64 = 1 << 63;

/// One request of this side in flight. `T` is data of the owner.
#[derive(Clone, Debug)]
pub(crate) struct Call<T> {
    pub(crate) tag: T,
    /// Whether the frame was written and the response has not arrived.
    pub(crate) sent: bool,
    /// Whether a response has arrived after which this side sends the request again.
    pub(crate) is_suspended: bool,
    /// Whether progress extends the idle deadline.
    pub(crate) progress: bool,
    /// The id under which the request was last sent: its own, or a later one.
    wire: u64,
    since: StartTime,
    idle: Option<Duration>,
    idle_at: Option<Timestamp>,
    total_at: Option<Timestamp>,
    /// Whether the deadlines are paused. They are the time that is left then, as seen from the origin of time.
    is_paused: bool,
}

impl<T> Call<T> {
    /// Returns when the call was made.
    pub(crate) const fn since(&self) -> Timestamp {
        self.since.0
    }

    /// Returns when the call ends without a response. `None` while its deadlines are paused.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        if self.is_paused {
            return None;
        }
        match (self.idle_at, self.total_at) {
            (Some(idle), Some(total)) => Some(idle.min(total)),
            (idle, total) => idle.or(total),
        }
    }

    /// Pauses the deadlines.
    fn pause(&mut self, now: Timestamp) {
        if !mem::replace(&mut self.is_paused, true) {
            let left = |at: Timestamp| Timestamp::after_zero(at.saturating_since(now));
            (self.idle_at, self.total_at) = (self.idle_at.map(left), self.total_at.map(left));
        }
    }

    /// Resumes paused deadlines, with the time that was left.
    fn resume(&mut self, now: Timestamp) {
        if mem::take(&mut self.is_paused) {
            let at = |left: Timestamp| now + left.saturating_since(Timestamp::ZERO);
            (self.idle_at, self.total_at) = (self.idle_at.map(at), self.total_at.map(at));
        }
    }
}

/// The table of the requests of this side. The key is the id on the wire, which only grows.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing<T> {
    calls: HashMap<u64, Call<T>, SequentialHasher>,
    /// Calls that were sent again, by their latest id on the wire.
    aliases: BTreeMap<u64, u64>,
    deadlines: Deadlines<u64>,
    with_deadline: usize,
    /// Whether the deadlines of calls in the outbox are paused.
    pauses_unsent: bool,
    next_id: u64,
    /// The number of calls that were completed from the cache.
    cached: u64,
    own: OwnIds,
}

/// The recent ids that were not given to the application.
#[derive(Clone, Debug)]
struct OwnIds {
    /// The end of the first range: all ids before this one.
    before: u64,
    /// Further inclusive ranges of ids.
    ranges: VecDeque<(u64, u64)>,
    /// The first id that is not too old to be known.
    known_from: u64,
}

impl OwnIds {
    /// The most ranges that are stored. Older ids are irrelevant, since no message about them can still be on its way.
    const MAX_RANGES: usize = 64;

    fn note(&mut self, id: u64) {
        if id == self.before {
            self.before += 1;
            return;
        }
        match self.ranges.back_mut() {
            Some((_, last)) if *last + 1 == id => *last = id,
            _ => self.ranges.push_back((id, id)),
        }
        if self.ranges.len() > Self::MAX_RANGES
            && let Some((_, last)) = self.ranges.pop_front()
        {
            self.known_from = last + 1;
        }
    }

    fn is_foreign(&self, id: u64) -> bool {
        let at = self.ranges.partition_point(|(_, last)| *last < id);
        id >= self.before.max(self.known_from) && self.ranges.get(at).is_none_or(|(first, _)| id < *first)
    }
}

impl<T> Outgoing<T> {
    pub(crate) const fn new(first_id: u64) -> Self {
        Self {
            calls: HashMap::with_hasher(SequentialHasher),
            aliases: BTreeMap::new(),
            deadlines: Deadlines::new(),
            with_deadline: 0,
            pauses_unsent: false,
            next_id: first_id,
            cached: 0,
            own: OwnIds { before: first_id, ranges: VecDeque::new(), known_from: 0 },
        }
    }

    /// Records that this call was not made by the application.
    pub(crate) fn note_own(&mut self, id: CallId) {
        self.own.note(id.0);
    }

    /// Returns whether a call was made by the application. Returns `false` for ids that are too old.
    pub(crate) fn is_of_the_application(&self, id: CallId) -> bool {
        id.0 < self.next_id && self.own.is_foreign(id.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(crate) fn deadlines(&self) -> usize {
        self.deadlines.len()
    }

    /// Returns the id of the next call.
    pub(crate) const fn next_id(&self) -> CallId {
        CallId(self.next_id)
    }

    /// Returns the id of a call that is completed from the cache.
    pub(crate) const fn next_cached(&mut self) -> CallId {
        self.cached += 1;
        CallId(CACHED | self.cached)
    }

    /// Returns whether this id was issued, in flight or not.
    pub(crate) const fn was_issued(&self, id: u64, first_id: u64) -> bool {
        id >= first_id && id < self.next_id
    }

    /// Adds a call under [`next_id`](Self::next_id).
    pub(crate) fn insert(
        &mut self,
        now: Timestamp,
        tag: T,
        progress: bool,
        idle: Option<Duration>,
        total: Option<Duration>,
    ) -> CallId {
        let id = self.next_id;
        self.next_id += 1;
        let idle_at = idle.map(|idle| now + idle);
        let mut call = Call {
            tag,
            sent: false,
            is_suspended: false,
            progress,
            wire: id,
            since: StartTime(now),
            idle,
            idle_at,
            total_at: total.map(|total| now + total),
            is_paused: false,
        };
        if self.pauses_unsent {
            call.pause(now);
        }
        if let Some(at) = call.deadline() {
            self.deadlines.set(at, id);
            self.with_deadline += 1;
        }
        self.calls.insert(id, call);
        CallId(id)
    }

    /// Returns the call that was last sent under this id.
    pub(crate) fn by_wire(&self, wire: u64) -> Option<CallId> {
        self.find(wire).map(|(id, _)| id)
    }

    /// Returns the call that was last sent under this id, and its entry.
    pub(crate) fn find(&self, wire: u64) -> Option<(CallId, &Call<T>)> {
        let id = self.aliases.get(&wire).copied().unwrap_or(wire);
        self.calls.get(&id).filter(|call| call.wire == wire).map(|call| (CallId(id), call))
    }

    /// Returns the call that was last sent under this id, and its entry, mutably.
    pub(crate) fn find_mut(&mut self, wire: u64) -> Option<(CallId, &mut Call<T>)> {
        let id = self.aliases.get(&wire).copied().unwrap_or(wire);
        self.calls.get_mut(&id).filter(|call| call.wire == wire).map(|call| (CallId(id), call))
    }

    /// Returns the id under which a call was last sent.
    pub(crate) fn wire(&self, id: CallId) -> CallId {
        self.calls.get(&id.0).map_or(id, |call| CallId(call.wire))
    }

    /// Records that the call has got a response and waits for this side to send it again. It has no idle deadline until
    /// then.
    pub(crate) fn suspend(&mut self, now: Timestamp, id: CallId) {
        self.change(id, |call| {
            call.resume(now);
            (call.sent, call.is_suspended, call.idle_at) = (false, true, None);
        });
    }

    /// Removes the deadlines of the call. Its idle deadline returns when it is sent again.
    pub(crate) fn unlimit(&mut self, id: CallId) {
        self.change(id, |call| (call.idle_at, call.total_at) = (None, None));
    }

    /// Pauses the deadlines of the call that was last sent under this id.
    #[cfg(feature = "http")]
    pub(crate) fn pause(&mut self, now: Timestamp, wire: u64) {
        if let Some(call) = self.by_wire(wire) {
            self.change(call, |call| call.pause(now));
        }
    }

    /// Resumes the deadlines of the call that was last sent under this id, with the time that was left.
    #[cfg(feature = "http")]
    pub(crate) fn resume(&mut self, now: Timestamp, wire: u64) {
        if let Some(call) = self.by_wire(wire) {
            self.change(call, |call| call.resume(now));
        }
    }

    /// Pauses the deadlines of all calls in the outbox, and of those that are made from now on; or resumes those of the
    /// calls that are still there.
    #[cfg(feature = "http")]
    pub(crate) fn pause_unsent(&mut self, now: Timestamp, pauses: bool) {
        self.pauses_unsent = pauses;
        let is_unsent = |call: &Call<T>| !call.sent && !call.is_suspended;
        let unsent = self.calls.iter().filter(|(_, call)| is_unsent(call)).map(|(id, _)| CallId(*id));
        let mut unsent: alloc::vec::Vec<_> = unsent.collect();
        unsent.sort_unstable();
        for id in unsent {
            self.change(id, |call| {
                if pauses {
                    call.pause(now);
                } else {
                    call.resume(now);
                }
            });
        }
    }

    /// Changes a call, and updates the table of deadlines.
    fn change(&mut self, id: CallId, change: impl FnOnce(&mut Call<T>)) {
        let Some(call) = self.calls.get_mut(&id.0) else { return };
        let had = call.deadline();
        change(call);
        let has = call.deadline();
        if had == has {
            return;
        }
        self.with_deadline = self.with_deadline - usize::from(had.is_some()) + usize::from(has.is_some());
        if had.is_some() {
            self.deadlines.moved();
        }
        // An entry that is early is found at the top and moved.
        if let Some(at) = has
            && had.is_none_or(|had| at < had)
        {
            self.deadlines.set(at, id.0);
        }
        self.settle();
    }

    /// Records that the call is sent again, under [`next_id`](Self::next_id).
    pub(crate) fn reissue(&mut self, now: Timestamp, id: CallId) {
        let (wire, pauses) = (self.next_id, self.pauses_unsent);
        let Some(call) = self.calls.get(&id.0) else { return };
        self.next_id += 1;
        self.own.note(wire);
        self.aliases.remove(&call.wire);
        self.aliases.insert(wire, id.0);
        self.change(id, |call| {
            call.resume(now);
            (call.wire, call.sent, call.is_suspended, call.idle_at) =
                (wire, false, false, call.idle.map(|idle| now + idle));
            if pauses {
                call.pause(now);
            }
        });
    }

    pub(crate) fn get(&self, id: CallId) -> Option<&Call<T>> {
        self.calls.get(&id.0)
    }

    pub(crate) fn get_mut(&mut self, id: CallId) -> Option<&mut Call<T>> {
        self.calls.get_mut(&id.0)
    }

    /// Restarts the idle deadline of a call, if it has one now.
    pub(crate) fn touch(&mut self, now: Timestamp, id: CallId) {
        self.change(id, |call| {
            if let (Some(idle), Some(at)) = (call.idle, call.idle_at) {
                let from = if call.is_paused { Timestamp::ZERO } else { now };
                call.idle_at = Some(at.max(from + idle));
            }
        });
    }

    /// Restarts the idle deadline as [`touch`](Self::touch) does; returns whether it is then in the future.
    pub(crate) fn excuse(&mut self, now: Timestamp, id: CallId) -> bool {
        self.touch(now, id);
        self.calls.get(&id.0).is_some_and(|call| call.idle_at.is_some_and(|at| at > now))
    }

    /// Removes a call and returns its entry. No other function removes one.
    pub(crate) fn retire(&mut self, id: CallId) -> Option<Call<T>> {
        let call = self.calls.remove(&id.0)?;
        self.aliases.remove(&call.wire);
        if call.deadline().is_some() {
            self.with_deadline -= 1;
            self.deadlines.ended(id.0);
        }
        self.settle();
        Some(call)
    }

    fn settle(&mut self) {
        let calls = &self.calls;
        self.deadlines.settle(self.with_deadline, |id| calls.get(&id).and_then(Call::deadline));
    }

    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.next().map(|(at, _)| at)
    }

    /// Returns a call whose deadline has passed, and whether that is its total deadline.
    pub(crate) fn expired(&self, now: Timestamp) -> Option<(CallId, bool)> {
        let (at, id) = self.deadlines.next()?;
        let total = self.calls.get(&id)?.total_at.is_some_and(|total| total <= at);
        (at <= now).then_some((CallId(id), total))
    }

    /// Returns every call in flight, oldest first.
    pub(crate) fn ids(&self) -> alloc::vec::Vec<CallId> {
        let mut ids: alloc::vec::Vec<_> = self.calls.keys().copied().map(CallId).collect();
        ids.sort_unstable();
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn internal_call_ids_are_not_application_ids() {
        for (share, seed) in [(1, 1_u64), (2, 2), (10, 3), (1000, 4)] {
            let (mut table, mut model, mut state) = (Outgoing::<()>::new(1), BTreeSet::new(), seed);
            for _ in 0..2_000 {
                crate::test_rng::roll(&mut state);
                let call = table.insert(Timestamp::ZERO, (), false, None, None);
                if (state >> 40).is_multiple_of(share) {
                    table.note_own(call);
                } else {
                    model.insert(call);
                }
            }
            let known: BTreeSet<_> = (0..3_000).map(CallId).filter(|id| table.is_of_the_application(*id)).collect();
            assert!(known.is_subset(&model));
            let latest = 2_000 - 60;
            assert!(model.range(CallId(latest)..).all(|call| known.contains(call)), "{share}");
        }
    }

    #[cfg(feature = "http")]
    #[test]
    fn next_deadline_is_the_earliest_that_is_not_paused() {
        let (mut table, mut state) = (Outgoing::<()>::new(1), 5);
        let mut live = alloc::vec::Vec::new();
        for step in 0..20_000_u64 {
            crate::test_rng::roll(&mut state);
            let now = Timestamp::from_nanos(step * 10);
            let id = live.get((state >> 30) as usize % (live.len() + 1)).copied();
            match (state >> 60, id) {
                (0..3, _) => {
                    let limit = |bits: u64| (!bits.is_multiple_of(4)).then(|| Duration::from_nanos(bits % 5000));
                    live.push(table.insert(now, (), false, limit(state >> 40), limit(state >> 20)));
                }
                (3, _) => table.pause_unsent(now, state >> 50 & 1 == 0),
                (4..6, Some(id)) => table.pause(now, table.wire(id).0),
                (6..9, Some(id)) => table.resume(now, table.wire(id).0),
                (9, Some(id)) => table.suspend(now, id),
                (10, Some(id)) => table.reissue(now, id),
                (11, Some(id)) => table.touch(now, id),
                (12, Some(id)) if state >> 50 & 1 == 0 => table.unlimit(id),
                (12, Some(id)) => table.get_mut(id).expect("it is live").sent = true,
                (_, Some(id)) => {
                    table.retire(id);
                    live.retain(|other| *other != id);
                }
                _ => {}
            }
            let deadlines = live.iter().filter_map(|id| table.get(*id)?.deadline());
            assert_eq!((table.next_deadline(), table.with_deadline), (deadlines.clone().min(), deadlines.count()));
            assert!(table.deadlines() <= 2 * table.with_deadline + 64);
        }
    }
}
