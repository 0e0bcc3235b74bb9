//! Requests of this side.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
};
use core::time::Duration;

use super::{Deadlines, StartTime, Timestamp, pausable_clock::PausableClock};
use crate::collections::WindowMap;

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
    /// The clock that sets the deadlines.
    clock: CallClock,
}

/// The clock by which the deadlines of a call are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallClock {
    /// The clock of the connection.
    Running,
    /// A clock that stands still at the origin of time: the deadlines are paused.
    Paused,
    /// The clock of the outbox, which is paused for all calls in it at once.
    Outbox,
}

impl<T> Call<T> {
    /// Returns when the call was made.
    pub(crate) const fn since(&self) -> Timestamp {
        self.since.0
    }

    /// Returns when the call ends without a response, as its clock shows it.
    fn due(&self) -> Option<Timestamp> {
        match (self.idle_at, self.total_at) {
            (Some(idle), Some(total)) => Some(idle.min(total)),
            (idle, total) => idle.or(total),
        }
    }

    /// Returns the deadline if it is set by this clock.
    fn due_by(&self, clock: CallClock) -> Option<Timestamp> {
        self.due().filter(|_| self.clock == clock)
    }
}

/// The deadlines that are set by one clock.
#[derive(Clone, Debug)]
struct Timers {
    deadlines: Deadlines<u64>,
    /// The number of calls with a deadline.
    alive: usize,
}

impl Timers {
    const fn new() -> Self {
        Self { deadlines: Deadlines::new(), alive: 0 }
    }

    fn replace(&mut self, id: u64, had: Option<Timestamp>, has: Option<Timestamp>) {
        self.alive = self.alive - usize::from(had.is_some()) + usize::from(has.is_some());
        if had.is_some() {
            self.deadlines.moved();
        }
        // An entry that is early is found at the top and moved.
        if let Some(at) = has
            && had.is_none_or(|had| at < had)
        {
            self.deadlines.set(at, id);
        }
    }

    fn settle(&mut self, truth: impl Fn(u64) -> Option<Timestamp>) {
        self.deadlines.settle(self.alive, truth);
    }
}

/// The deadlines of the calls in the outbox, which are paused together.
#[derive(Clone, Debug)]
struct OutboxTimers {
    clock: PausableClock,
    timers: Timers,
}

impl OutboxTimers {
    fn next(&self) -> Option<(Timestamp, u64)> {
        let (at, id) = self.timers.deadlines.next()?;
        Some((self.clock.when(at)?, id))
    }
}

/// The table of the requests of this side. The key is the id on the wire, which only grows.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing<T> {
    calls: WindowMap<Call<T>>,
    /// Calls that were sent again, by their latest id on the wire.
    aliases: BTreeMap<u64, u64>,
    running: Timers,
    /// The timers of calls in the outbox. `None` before the first pause.
    outbox: Option<Box<OutboxTimers>>,
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
            calls: WindowMap::new(),
            aliases: BTreeMap::new(),
            running: Timers::new(),
            outbox: None,
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
        self.running.deadlines.len() + self.outbox.as_ref().map_or(0, |outbox| outbox.timers.deadlines.len())
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
        let clock = self.clock_of_unsent();
        let begin = self.time(clock, now);
        let call = Call {
            tag,
            sent: false,
            is_suspended: false,
            progress,
            wire: id,
            since: StartTime(now),
            idle,
            idle_at: idle.map(|idle| begin + idle),
            total_at: total.map(|total| begin + total),
            clock,
        };
        self.replace(clock, id, None, call.due());
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
        self.calls.get(id).filter(|call| call.wire == wire).map(|call| (CallId(id), call))
    }

    /// Returns the call that was last sent under this id, and its entry, mutably.
    fn find_mut(&mut self, wire: u64) -> Option<(CallId, &mut Call<T>)> {
        let id = self.aliases.get(&wire).copied().unwrap_or(wire);
        self.calls.get_mut(id).filter(|call| call.wire == wire).map(|call| (CallId(id), call))
    }

    /// Returns the id under which a call was last sent.
    pub(crate) fn wire(&self, id: CallId) -> CallId {
        self.calls.get(id.0).map_or(id, |call| CallId(call.wire))
    }

    /// Records that the frame of the call under this id has left the outbox. Its deadlines stay paused if they are.
    /// Returns its data.
    pub(crate) fn mark_sent(&mut self, now: Timestamp, wire: u64) -> Option<(CallId, T)>
    where
        T: Copy,
    {
        let (id, call) = self.find_mut(wire)?;
        call.sent = true;
        let (tag, clock) = (call.tag, call.clock);
        if clock == CallClock::Outbox {
            let is_paused = self.outbox.as_ref().is_some_and(|outbox| outbox.clock.is_paused());
            self.set_clock(now, id, if is_paused { CallClock::Paused } else { CallClock::Running });
        }
        Some((id, tag))
    }

    /// Records that the call has got a response and waits for this side to send it again. It has no idle deadline until
    /// then.
    pub(crate) fn suspend(&mut self, now: Timestamp, id: CallId) {
        self.set_clock(now, id, CallClock::Running);
        self.change(id, |call| (call.sent, call.is_suspended, call.idle_at) = (false, true, None));
    }

    /// Removes the deadlines of the call. Its idle deadline returns when it is sent again.
    pub(crate) fn unlimit(&mut self, id: CallId) {
        self.change(id, |call| (call.idle_at, call.total_at) = (None, None));
    }

    /// Pauses the deadlines of the call that was last sent under this id.
    #[cfg(feature = "http")]
    pub(crate) fn pause(&mut self, now: Timestamp, wire: u64) {
        if let Some(call) = self.by_wire(wire) {
            self.set_clock(now, call, CallClock::Paused);
        }
    }

    /// Resumes the deadlines of the call that was last sent under this id, with the time that was left.
    #[cfg(feature = "http")]
    pub(crate) fn resume(&mut self, now: Timestamp, wire: u64) {
        if let Some((id, call)) = self.find(wire)
            && call.clock == CallClock::Paused
        {
            self.set_clock(now, id, CallClock::Running);
        }
    }

    /// Pauses the deadlines of all calls in the outbox, and of those that are made from now on; or resumes those of the
    /// calls that are still there.
    ///
    /// The first pause of a connection visits all calls. All others have constant cost: a peer can cause many.
    #[cfg(feature = "http")]
    pub(crate) fn pause_unsent(&mut self, now: Timestamp, pauses: bool) {
        if self.outbox.is_none() && pauses {
            self.outbox = Some(Box::new(OutboxTimers { clock: PausableClock::default(), timers: Timers::new() }));
            for id in self.ids() {
                if self.get(id).is_some_and(|call| !call.sent && !call.is_suspended && call.clock == CallClock::Running)
                {
                    self.set_clock(now, id, CallClock::Outbox);
                }
            }
        }
        match &mut self.outbox {
            Some(outbox) if pauses => outbox.clock.pause(now),
            Some(outbox) => outbox.clock.resume(now),
            None => {}
        }
    }

    /// Returns the clock of calls that enter the outbox.
    const fn clock_of_unsent(&self) -> CallClock {
        if self.outbox.is_some() { CallClock::Outbox } else { CallClock::Running }
    }

    /// Returns the time of a clock.
    fn time(&self, clock: CallClock, now: Timestamp) -> Timestamp {
        match (clock, &self.outbox) {
            (CallClock::Paused, _) => Timestamp::ZERO,
            (CallClock::Outbox, Some(outbox)) => outbox.clock.time(now),
            (CallClock::Running | CallClock::Outbox, _) => now,
        }
    }

    /// Sets the deadlines of a call by another clock, with the time that is left.
    fn set_clock(&mut self, now: Timestamp, id: CallId, clock: CallClock) {
        let Some(call) = self.calls.get(id.0).filter(|call| call.clock != clock) else { return };
        let (from, to) = (self.time(call.clock, now), self.time(clock, now));
        self.change(id, |call| {
            let moved = |at: Timestamp| to + at.saturating_since(from);
            (call.idle_at, call.total_at) = (call.idle_at.map(moved), call.total_at.map(moved));
            call.clock = clock;
        });
    }

    /// Changes a call, and updates the timers.
    fn change(&mut self, id: CallId, change: impl FnOnce(&mut Call<T>)) {
        #[cfg(test)]
        super::outbox::steps::count();
        let Some(call) = self.calls.get_mut(id.0) else { return };
        let before = (call.clock, call.due());
        change(call);
        let after = (call.clock, call.due());
        if before == after {
            return;
        }
        if before.0 == after.0 {
            self.replace(after.0, id.0, before.1, after.1);
        } else {
            self.replace(before.0, id.0, before.1, None);
            self.replace(after.0, id.0, None, after.1);
        }
        self.settle();
    }

    /// Replaces the deadline of a call in the timers of this clock.
    fn replace(&mut self, clock: CallClock, id: u64, had: Option<Timestamp>, has: Option<Timestamp>) {
        if let Some(timers) = self.timers(clock) {
            timers.replace(id, had, has);
        }
    }

    /// Returns the timers of this clock. Deadlines that are paused have none.
    fn timers(&mut self, clock: CallClock) -> Option<&mut Timers> {
        match clock {
            CallClock::Running => Some(&mut self.running),
            CallClock::Outbox => self.outbox.as_mut().map(|outbox| &mut outbox.timers),
            CallClock::Paused => None,
        }
    }

    /// Records that the call is sent again, under [`next_id`](Self::next_id).
    pub(crate) fn reissue(&mut self, now: Timestamp, id: CallId) {
        let wire = self.next_id;
        let Some(call) = self.calls.get(id.0) else { return };
        self.next_id += 1;
        self.own.note(wire);
        self.aliases.remove(&call.wire);
        self.aliases.insert(wire, id.0);
        let clock = self.clock_of_unsent();
        self.set_clock(now, id, clock);
        let begin = self.time(clock, now);
        self.change(id, |call| {
            let idle_at = call.idle.map(|idle| begin + idle);
            (call.wire, call.sent, call.is_suspended, call.idle_at) = (wire, false, false, idle_at);
        });
    }

    pub(crate) fn get(&self, id: CallId) -> Option<&Call<T>> {
        self.calls.get(id.0)
    }

    pub(crate) fn get_mut(&mut self, id: CallId) -> Option<&mut Call<T>> {
        self.calls.get_mut(id.0)
    }

    /// Restarts the idle deadline of a call, if it has one now.
    pub(crate) fn touch(&mut self, now: Timestamp, id: CallId) {
        let Some(call) = self.calls.get(id.0) else { return };
        let begin = self.time(call.clock, now);
        self.change(id, |call| {
            if let (Some(idle), Some(at)) = (call.idle, call.idle_at) {
                call.idle_at = Some(at.max(begin + idle));
            }
        });
    }

    /// Restarts the idle deadline as [`touch`](Self::touch) does; returns whether it is then in the future.
    pub(crate) fn excuse(&mut self, now: Timestamp, id: CallId) -> bool {
        self.touch(now, id);
        self.calls.get(id.0).is_some_and(|call| call.idle_at.is_some_and(|at| at > self.time(call.clock, now)))
    }

    /// Removes a call and returns its data. No other function removes one.
    pub(crate) fn retire(&mut self, id: CallId) -> Option<T> {
        let call = self.calls.remove(id.0)?;
        self.aliases.remove(&call.wire);
        if call.due().is_some()
            && let Some(timers) = self.timers(call.clock)
        {
            timers.alive -= 1;
            timers.deadlines.ended(id.0);
        }
        self.settle();
        Some(call.tag)
    }

    fn settle(&mut self) {
        let calls = &self.calls;
        let due = |clock| move |id| calls.get(id).and_then(|call: &Call<T>| call.due_by(clock));
        self.running.settle(due(CallClock::Running));
        if let Some(outbox) = &mut self.outbox {
            outbox.timers.settle(due(CallClock::Outbox));
        }
    }

    /// Returns the earliest deadline, and its call.
    fn next(&self) -> Option<(Timestamp, u64)> {
        let running = self.running.deadlines.next();
        let Some(outbox) = &self.outbox else { return running };
        running.into_iter().chain(outbox.next()).min()
    }

    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.next().map(|(at, _)| at)
    }

    /// Returns when the call ends without a response. `None` while its deadlines are paused.
    pub(crate) fn deadline(&self, id: CallId) -> Option<Timestamp> {
        let call = self.calls.get(id.0)?;
        match (call.clock, &self.outbox) {
            (CallClock::Outbox, Some(outbox)) => outbox.clock.when(call.due()?),
            _ => call.due_by(CallClock::Running),
        }
    }

    /// Returns a call whose deadline has passed, and whether that is its total deadline.
    pub(crate) fn expired(&self, now: Timestamp) -> Option<(CallId, bool)> {
        let (at, id) = self.next()?;
        let call = self.calls.get(id)?;
        let total = call.total_at.is_some() && call.total_at == call.due();
        (at <= now).then_some((CallId(id), total))
    }

    /// Returns every call in flight, oldest first.
    pub(crate) fn ids(&self) -> alloc::vec::Vec<CallId> {
        let mut ids: alloc::vec::Vec<_> = self.calls.iter().map(|(id, _)| CallId(id)).collect();
        ids.sort_unstable();
        ids
    }
}

#[cfg(test)]
mod tests;
