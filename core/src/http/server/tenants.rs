//! Selection of the sessions that give way to new ones, when an endpoint or a client has reached its limit.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};
use core::sync::atomic::{AtomicUsize, Ordering};

use super::clients::{Holder, SHARE};
use crate::{
    http::{Limits, SessionId},
    rpc::Timestamp,
};

/// How many candidates one search returns. A search visits every session, so its candidates are kept for later calls.
const FOUND: usize = 64;

/// At the limit of sessions, those of the largest client give way first, if it has more than one part in this many of
/// the limit.
const LARGE: usize = 8;

/// The time since which a session is idle, as its endpoint sees it. The session stores it under its own lock, and the
/// endpoint reads it without that lock.
#[derive(Debug)]
pub(super) struct Activity(AtomicUsize);

/// The state of a session that is in use.
const BUSY: usize = 0;

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(BUSY)))
    }

    /// Stores since when the session is idle, if it is, and whether its client has sent another request after the one
    /// that opened it.
    pub(super) fn set(&self, idle: Option<Timestamp>, came_back: bool) {
        // Whole seconds: even a `usize` of 32 bits has room for 34 years.
        let state = idle.map_or(BUSY, |since| {
            let seconds = usize::try_from(since.as_nanos() / 1_000_000_000).unwrap_or(usize::MAX).min(usize::MAX / 4);
            2 * seconds + 2 + usize::from(came_back)
        });
        self.0.store(state, Ordering::Relaxed);
    }

    /// Returns the order in which sessions give way: first those whose clients have not come back, and of these the one
    /// that has been idle longest. `None` while the session is in use.
    fn rank(&self) -> Option<(bool, usize)> {
        let state = self.0.load(Ordering::Relaxed);
        (state != BUSY).then_some((state % 2 == 1, state / 2))
    }
}

/// The sessions of each client, and the candidates for giving way.
#[derive(Debug, Default)]
pub(super) struct Tenants {
    each: BTreeMap<Holder, Tenant>,
    /// The same clients, ordered by the number of their sessions.
    by_size: BTreeSet<(usize, Holder)>,
    /// Candidates among the sessions of all clients.
    all: Line,
}

/// The result of a check whether there is room for another session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// Only if a session of this client gives way.
    Of(Holder),
    /// Only if another session gives way: one of this client, if it has an idle one, or any.
    Full(Option<Holder>),
}

/// The sessions that are searched for a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Among {
    /// Idle sessions whose clients have not come back since they opened them.
    Fresh,
    /// All idle sessions, those first.
    All,
}

#[derive(Debug, Default)]
struct Tenant {
    sessions: BTreeSet<SessionId>,
    line: Line,
}

/// Candidates for giving way.
#[derive(Debug, Default)]
struct Line {
    /// Sessions whose clients may not have come back yet, the oldest first.
    fresh: VecDeque<SessionId>,
    /// The number of these sessions after the last cleanup.
    kept: usize,
    /// Some other sessions that have been idle longest, the next candidate last.
    found: Vec<Found>,
}

#[derive(Debug)]
struct Found {
    id: SessionId,
    rank: (bool, usize),
}

impl Line {
    /// Adds a new session. When there are many, removes sessions that are over or whose clients have come back.
    fn enter(&mut self, id: &SessionId, is_fresh: impl Fn(&SessionId) -> bool) {
        if self.fresh.len() >= 2 * self.kept + FOUND {
            self.fresh.retain(is_fresh);
            self.kept = self.fresh.len();
        }
        self.fresh.push_back(id.clone());
    }

    fn next<'a, 'b, S>(
        &mut self,
        among: Among,
        known: impl Fn(&SessionId) -> Option<&'a Arc<Activity>>,
        sessions: impl FnOnce() -> S,
    ) -> Option<SessionId>
    where
        S: Iterator<Item = (&'b SessionId, &'a Arc<Activity>)>,
    {
        // A session in use is dropped from the queue, so that it is not checked again and again. If it is idle later,
        // the search below finds it, before sessions whose clients have come back.
        while let Some(id) = self.fresh.pop_front() {
            if let Some(Some((false, _))) = known(&id).map(|activity| activity.rank()) {
                return Some(id);
            }
        }
        if among == Among::Fresh {
            return None;
        }
        // Skip sessions that were used since they were found.
        let pop = |found: &mut Vec<Found>| {
            while let Some(Found { id, rank }) = found.pop() {
                if known(&id).and_then(|activity| activity.rank()) == Some(rank) {
                    return Some(id);
                }
            }
            None
        };
        if let Some(id) = pop(&mut self.found) {
            return Some(id);
        }
        let mut ranked: Vec<_> =
            sessions().filter_map(|(id, activity)| activity.rank().map(|rank| (rank, id))).collect();
        if ranked.len() > FOUND {
            ranked.select_nth_unstable(FOUND);
            ranked.truncate(FOUND);
        }
        ranked.sort_unstable();
        self.found.extend(ranked.into_iter().rev().map(|(rank, id)| Found { id: id.clone(), rank }));
        pop(&mut self.found)
    }
}

impl Tenants {
    /// Adds a session of a client. `known` returns the activity of sessions that exist.
    pub(super) fn enter<'a>(
        &mut self,
        holder: Option<&Holder>,
        id: &SessionId,
        known: impl Fn(&SessionId) -> Option<&'a Arc<Activity>>,
    ) {
        self.all.enter(id, |id| is_fresh(known(id)));
        if let Some(holder) = holder {
            self.assign(holder, id, known);
        }
    }

    /// Assigns an added session to a client.
    pub(super) fn assign<'a>(
        &mut self,
        holder: &Holder,
        id: &SessionId,
        known: impl Fn(&SessionId) -> Option<&'a Arc<Activity>>,
    ) {
        let tenant = self.each.entry(holder.clone()).or_default();
        let size = tenant.sessions.len();
        tenant.sessions.insert(id.clone());
        tenant.line.enter(id, |id| is_fresh(known(id)));
        self.resize(holder, size);
    }

    /// Removes a session of a client.
    pub(super) fn leave(&mut self, holder: Option<&Holder>, id: &SessionId) {
        let Some(holder) = holder else { return };
        let Some(tenant) = self.each.get_mut(holder) else { return };
        let size = tenant.sessions.len();
        tenant.sessions.remove(id);
        self.resize(holder, size);
    }

    /// Updates the order of clients after the number of sessions of one has changed from `before`.
    fn resize(&mut self, holder: &Holder, before: usize) {
        let size = self.size(Some(holder));
        self.by_size.remove(&(before, holder.clone()));
        if size == 0 {
            self.each.remove(holder);
        } else {
            self.by_size.insert((size, holder.clone()));
        }
    }

    fn size(&self, holder: Option<&Holder>) -> usize {
        holder.and_then(|holder| self.each.get(holder)).map_or(0, |tenant| tenant.sessions.len())
    }

    /// Returns whether there is room for another session of this client, where the endpoint has `all` sessions. A
    /// principal may have at most `sessions_each`, and no client more than seven times of what is free.
    pub(super) fn room(&self, holder: Option<&Holder>, all: usize, limits: &Limits) -> Room {
        let (own, free) = (self.size(holder), limits.sessions.saturating_sub(all));
        let most = match holder {
            Some(Holder::Principal(_)) => limits.sessions_each,
            _ => usize::MAX,
        };
        if let Some(holder) = holder
            && own >= most.min(SHARE.saturating_mul(free.max(1)).saturating_add(usize::from(free == 0)))
        {
            return Room::Of(holder.clone());
        }
        if free > 0 {
            return Room::Free;
        }
        let large = self.by_size.last().filter(|(size, _)| *size > limits.sessions / LARGE);
        Room::Full(large.map(|(_, holder)| holder.clone()))
    }

    /// Returns the session that gives way to a new one: one of this client, or one of all `sessions`. For a client,
    /// only its own sessions are searched.
    pub(super) fn next<'a, S>(
        &mut self,
        of: Option<&Holder>,
        among: Among,
        known: impl Fn(&SessionId) -> Option<&'a Arc<Activity>>,
        sessions: impl FnOnce() -> S,
    ) -> Option<SessionId>
    where
        S: Iterator<Item = (&'a SessionId, &'a Arc<Activity>)>,
    {
        match of {
            Some(holder) => {
                let Tenant { sessions, line } = self.each.get_mut(holder)?;
                line.next(among, &known, || sessions.iter().filter_map(|id| Some((id, known(id)?))))
            }
            None => self.all.next(among, known, sessions),
        }
    }
}

/// Returns whether the client of a session may not have come back yet. A session in use counts, since it may be idle
/// again before its client comes back.
fn is_fresh(activity: Option<&Arc<Activity>>) -> bool {
    activity.is_some_and(|it| it.rank().is_none_or(|(came_back, _)| !came_back))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use core::cell::Cell;

    fn id(number: u32) -> SessionId {
        let mut random = [0; 24];
        random[..4].copy_from_slice(&number.to_be_bytes());
        SessionId::new(random)
    }

    fn principal(name: &str) -> Holder {
        Holder::Principal(name.into())
    }

    /// Adds sessions of one principal and of others, all of them in use.
    fn busy(own: u32, others: u32) -> (Tenants, BTreeMap<SessionId, Arc<Activity>>, Holder) {
        let (mut tenants, mut sessions) = (Tenants::default(), BTreeMap::new());
        let eve = principal("eve");
        for number in 0..own + others {
            let other = (number >= own).then(|| principal(&format!("{number}")));
            let whose = other.as_ref().unwrap_or(&eve);
            tenants.enter(Some(whose), &id(number), |id| sessions.get(id));
            sessions.insert(id(number), Activity::new());
        }
        (tenants, sessions, eve)
    }

    /// Returns the session that gives way, and how many sessions were visited to find it.
    fn next(
        tenants: &mut Tenants,
        sessions: &BTreeMap<SessionId, Arc<Activity>>,
        of: Option<&Holder>,
    ) -> (Option<SessionId>, usize) {
        let looks = Cell::new(0);
        let look = || looks.set(looks.get() + 1);
        let known = |id: &SessionId| {
            look();
            sessions.get(id)
        };
        let found = tenants.next(of, Among::All, known, || sessions.iter().inspect(|_| look()));
        (found, looks.get())
    }

    #[test]
    fn sessions_in_use_are_not_looked_at_again_and_again() {
        let (mut tenants, mut sessions, eve) = busy(100, 4000);
        let (found, _) = next(&mut tenants, &sessions, None);
        assert_eq!(found, None);
        for number in 10_000..10_100 {
            // The new session is idle, and gives way to the next one.
            let activity = Activity::new();
            activity.set(Some(Timestamp::ZERO), false);
            tenants.enter(None, &id(number), |id| sessions.get(id));
            sessions.insert(id(number), activity);
            let (found, looks) = next(&mut tenants, &sessions, None);
            assert!(found == Some(id(number)) && looks < 10, "{looks} looks");
            sessions.remove(&id(number));
        }
        // Sessions of a principal are searched among its own.
        let (found, _) = next(&mut tenants, &sessions, Some(&eve));
        assert_eq!(found, None);
        for number in 0..10 {
            sessions[&id(number)].set(Some(Timestamp::ZERO), true);
            let (found, looks) = next(&mut tenants, &sessions, Some(&eve));
            assert!(found == Some(id(number)) && looks <= 2 * 100 + 2, "{looks} looks");
            sessions.remove(&id(number));
            tenants.leave(Some(&eve), &id(number));
        }
        let idle = id(2000);
        sessions[&idle].set(Some(Timestamp::ZERO), false);
        assert_eq!(next(&mut tenants, &sessions, Some(&eve)).0, None, "it is not one of theirs");
        assert_eq!(next(&mut tenants, &sessions, None).0, Some(idle));
    }

    #[test]
    fn a_client_has_at_most_seven_times_of_what_is_free() {
        let limits = Limits { sessions: 64, sessions_each: 40, ..Limits::default() };
        let (mut tenants, mut all) = (Tenants::default(), 0);
        let mut fill = |holder: &Holder| {
            let before = all;
            while tenants.room(Some(holder), all, &limits) == Room::Free {
                tenants.enter(Some(holder), &id(u32::try_from(all).expect("few")), |_| None);
                all += 1;
            }
            (all - before, tenants.room(Some(holder), all, &limits) == Room::Of(holder.clone()))
        };
        let at = |number| Holder::Address([10, 0, 0, number].into());
        assert_eq!(fill(&principal("eve")), (40, true));
        assert_eq!([fill(&at(1)), fill(&at(2))], [(21, true), (3, false)]);
        assert_eq!(all, 64);
    }

    #[test]
    fn sessions_of_the_client_with_most_give_way_at_the_limit() {
        let limits = Limits { sessions: 64, ..Limits::default() };
        let at = |number| Holder::Address([10, 0, 0, number].into());
        let mut tenants = Tenants::default();
        for number in 0..64_u8 {
            tenants.enter(Some(&at(number.saturating_sub(20))), &id(number.into()), |_| None);
        }
        assert_eq!(tenants.room(None, 64, &limits), Room::Full(Some(at(0))));
        for number in 0..13 {
            tenants.leave(Some(&at(0)), &id(number));
        }
        assert_eq!(tenants.room(None, 64, &limits), Room::Full(None), "it has no more than one eighth");
        assert_eq!(tenants.by_size.len(), tenants.each.len());
    }
}
