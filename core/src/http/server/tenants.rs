//! Selection of the sessions that are closed for new ones, when an endpoint or a client has reached its limit.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};
use core::sync::atomic::{AtomicUsize, Ordering};

use super::clients::{Among, Holder, SHARE};
use crate::{
    http::{Limits, SessionId},
    rpc::Timestamp,
};

/// How many candidates one search returns. A search visits every session, so its candidates are kept for later calls.
const MAX_CANDIDATES: usize = 64;

/// The most sessions in a queue of fresh ones, so that their ids, of 32 bytes each in two queues, are a small part of
/// what idle sessions take.
const MAX_FRESH: usize = 1024;

/// At the limit of sessions, those of the largest client are closed first, if it has more than one part in this many of
/// the limit.
const LARGE: usize = 8;

/// The time since which a session is idle, for its endpoint. The session stores it under its own lock, and the endpoint
/// reads it without that lock.
#[derive(Debug)]
pub(super) struct Activity(AtomicUsize);

/// The state of a session that is in use.
const BUSY: usize = 0;

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(BUSY)))
    }

    /// Stores since when the session is idle, if it is, and whether its client has used it since the handshake.
    pub(super) fn set(&self, idle: Option<Timestamp>, used: bool) {
        // Whole seconds: even a `usize` of 32 bits has room for 34 years.
        let state = idle.map_or(BUSY, |since| {
            let seconds = usize::try_from(since.as_nanos() / 1_000_000_000).unwrap_or(usize::MAX).min(usize::MAX / 4);
            2 * seconds + 2 + usize::from(used)
        });
        self.0.store(state, Ordering::Relaxed);
    }

    /// Returns the order in which sessions are closed: first those that clients have not used since the handshake, and
    /// of these the one that has been idle longest. `None` while the session is in use.
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
    all: EvictionQueue,
}

/// The result of a check whether there is room for another session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SessionCapacity {
    Free,
    /// Only if a session of this client is closed.
    Of(Holder),
    /// Only if another session is closed: one of this client, if it has an idle one, or any.
    Full(Option<Holder>),
}

#[derive(Debug, Default)]
struct Tenant {
    sessions: BTreeSet<SessionId>,
    queue: EvictionQueue,
}

/// Candidates for giving way.
#[derive(Debug, Default)]
struct EvictionQueue {
    /// Sessions that clients may not have used since the handshake, in the order of their beginnings. At most
    /// [`MAX_FRESH`]: a search finds the others.
    fresh: VecDeque<SessionId>,
    /// The number of these sessions after the last cleanup.
    kept: usize,
    /// Some other sessions that have been idle longest, the next candidate last.
    candidates: Vec<Candidate>,
}

#[derive(Debug)]
struct Candidate {
    id: SessionId,
    rank: (bool, usize),
}

impl EvictionQueue {
    /// Adds a new session, if there is space. When there are many, removes sessions that are over or that were used.
    fn enter(&mut self, id: &SessionId, is_fresh: impl Fn(&SessionId) -> bool) {
        if self.fresh.len() >= 2 * self.kept + MAX_CANDIDATES {
            self.fresh.retain(is_fresh);
            self.kept = self.fresh.len();
        }
        if self.fresh.len() < MAX_FRESH {
            self.fresh.push_back(id.clone());
        }
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
        // the search below finds it.
        while let Some(id) = self.fresh.pop_front() {
            if let Some(Some((false, _))) = known(&id).map(|activity| activity.rank()) {
                return Some(id);
            }
        }
        // Skip sessions that were used since they were found.
        let pop = |found: &mut Vec<Candidate>| {
            while let Some(Candidate { id, rank }) = found.pop_if(|found| among == Among::All || !found.rank.0) {
                if known(&id).and_then(|activity| activity.rank()) == Some(rank) {
                    return Some(id);
                }
            }
            None
        };
        if let Some(id) = pop(&mut self.candidates) {
            return Some(id);
        }
        let mut ranked: Vec<_> =
            sessions().filter_map(|(id, activity)| activity.rank().map(|rank| (rank, id))).collect();
        if ranked.len() > MAX_CANDIDATES {
            ranked.select_nth_unstable(MAX_CANDIDATES);
            ranked.truncate(MAX_CANDIDATES);
        }
        ranked.sort_unstable();
        self.candidates.clear();
        self.candidates.extend(ranked.into_iter().rev().map(|(rank, id)| Candidate { id: id.clone(), rank }));
        pop(&mut self.candidates)
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
        tenant.queue.enter(id, |id| is_fresh(known(id)));
        self.resize(holder, size);
    }

    /// Removes a session of a client.
    pub(super) fn remove_session(&mut self, holder: Option<&Holder>, id: &SessionId) {
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
    /// principal may have at most `sessions_each`, and no client more than seven times the free sessions.
    pub(super) fn room(&self, holder: Option<&Holder>, all: usize, limits: &Limits) -> SessionCapacity {
        let (own, free) = (self.size(holder), limits.sessions.saturating_sub(all));
        let most = match holder {
            Some(Holder::Principal(_)) => limits.sessions_each,
            _ => usize::MAX,
        };
        if let Some(holder) = holder
            && own >= most.min(SHARE.saturating_mul(free.max(1)).saturating_add(usize::from(free == 0)))
        {
            return SessionCapacity::Of(holder.clone());
        }
        if free > 0 {
            return SessionCapacity::Free;
        }
        let large = self.by_size.last().filter(|(size, _)| *size > limits.sessions / LARGE);
        SessionCapacity::Full(large.map(|(_, holder)| holder.clone()))
    }

    /// Returns the session to close for a new one with this capacity. Sessions that clients have used since the
    /// handshake are closed only after all others.
    ///
    /// `has_idle` returns whether a session of this client is idle, or of any. It reads counters: without it, all
    /// sessions would be searched for each new one while all are in use.
    pub(super) fn evictable<'a, S>(
        &mut self,
        room: &SessionCapacity,
        has_idle: impl Fn(Option<&Holder>, Among) -> bool,
        known: impl Fn(&SessionId) -> Option<&'a Arc<Activity>>,
        sessions: impl Fn() -> S,
    ) -> Option<SessionId>
    where
        S: Iterator<Item = (&'a SessionId, &'a Arc<Activity>)>,
    {
        let clients = match room {
            SessionCapacity::Free => return None,
            SessionCapacity::Of(holder) => [Some(Some(holder)), None],
            SessionCapacity::Full(large) => [large.as_ref().map(Some), Some(None)],
        };
        [Among::Fresh, Among::All].into_iter().find_map(|among| {
            let idle = clients.into_iter().flatten().filter(|of| has_idle(*of, among));
            idle.into_iter().find_map(|of| self.next(of, among, &known, &sessions))
        })
    }

    /// Returns the next candidate of this client, or of all `sessions`. For a client, only its own sessions are
    /// searched.
    fn next<'a, S>(
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
                let Tenant { sessions, queue } = self.each.get_mut(holder)?;
                queue.next(among, &known, || sessions.iter().filter_map(|id| Some((id, known(id)?))))
            }
            None => self.all.next(among, known, sessions),
        }
    }
}

/// Returns whether a session may be one that its client has not used since the handshake. A session in use counts,
/// since its handshake may not be complete.
fn is_fresh(activity: Option<&Arc<Activity>>) -> bool {
    activity.is_some_and(|it| it.rank().is_none_or(|(used, _)| !used))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            Caller,
            clients::{Client, Clients, Load},
        },
        *,
    };
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

    /// At the limit, sessions are not searched if the counters show that none is idle.
    #[test]
    fn eviction_skips_clients_without_idle_sessions() {
        let (mut tenants, mut sessions, mut clients) = (Tenants::default(), BTreeMap::new(), Clients::new());
        let [large, other] = [1, 2].map(|last| clients.of(&Caller::Anonymous([10, 0, 0, last].into())));
        let mut add = |number: u32, client: &Arc<Client>, idle: Option<bool>| {
            let (activity, mut load) = (Activity::new(), Load::new(client.clone()));
            activity.set(idle.map(|_| Timestamp::ZERO), idle == Some(true));
            load.set_idle(idle.is_some(), idle == Some(true));
            tenants.enter(client.holder(), &id(number), |id| sessions.get(id));
            sessions.insert(id(number), activity);
            load
        };
        let mut loads: Vec<_> = (0..4000).map(|number| add(number, &large, None)).collect();
        loads.extend((4000..4100).map(|number| add(number, &other, Some(true))));
        let room = SessionCapacity::Full(large.holder().cloned());
        for round in 0..100 {
            let visits = Cell::new(0);
            let visit = || visits.set(visits.get() + 1);
            let known = |id: &SessionId| {
                visit();
                sessions.get(id)
            };
            let all = || sessions.iter().inspect(|_| visit());
            let found = tenants.evictable(&room, |of, among| clients.has_idle(of, among), known, all);
            let found = found.expect("sessions of the other client are idle");
            sessions.remove(&found);
            // The first search for used sessions visits all, and its candidates are kept.
            let most = if round % u32::try_from(MAX_CANDIDATES).expect("few") == 0 { 3 * 4100 } else { 10 };
            assert!(visits.get() <= most, "{} visits in round {round}", visits.get());
        }
    }

    /// Returns the session to remove, and how many sessions were visited to find it.
    fn next(
        tenants: &mut Tenants,
        sessions: &BTreeMap<SessionId, Arc<Activity>>,
        of: Option<&Holder>,
    ) -> (Option<SessionId>, usize) {
        let visits = Cell::new(0);
        let visit = || visits.set(visits.get() + 1);
        let known = |id: &SessionId| {
            visit();
            sessions.get(id)
        };
        let found = tenants.next(of, Among::All, known, || sessions.iter().inspect(|_| visit()));
        (found, visits.get())
    }

    #[test]
    fn eviction_does_not_rescan_sessions_in_use() {
        let (mut tenants, mut sessions, eve) = busy(100, 4000);
        let (found, _) = next(&mut tenants, &sessions, None);
        assert_eq!(found, None);
        for number in 10_000..10_100 {
            // The new session is idle, and is removed for the next one.
            let activity = Activity::new();
            activity.set(Some(Timestamp::ZERO), false);
            tenants.enter(None, &id(number), |id| sessions.get(id));
            sessions.insert(id(number), activity);
            let (found, visits) = next(&mut tenants, &sessions, None);
            assert!(found == Some(id(number)) && visits < 10, "{visits} visits");
            sessions.remove(&id(number));
        }
        // Sessions of a principal are searched among its own.
        let (found, _) = next(&mut tenants, &sessions, Some(&eve));
        assert_eq!(found, None);
        for number in 0..10 {
            sessions[&id(number)].set(Some(Timestamp::ZERO), true);
            let (found, visits) = next(&mut tenants, &sessions, Some(&eve));
            assert!(found == Some(id(number)) && visits <= 2 * 100 + 2, "{visits} visits");
            sessions.remove(&id(number));
            tenants.remove_session(Some(&eve), &id(number));
        }
        let idle = id(2000);
        sessions[&idle].set(Some(Timestamp::ZERO), false);
        assert_eq!(next(&mut tenants, &sessions, Some(&eve)).0, None, "it is not one of theirs");
        assert_eq!(next(&mut tenants, &sessions, None).0, Some(idle));
    }

    #[test]
    fn client_share_is_limited_by_free_sessions() {
        let limits = Limits { sessions: 64, sessions_each: 40, ..Limits::default() };
        let (mut tenants, mut all) = (Tenants::default(), 0);
        let mut fill = |holder: &Holder| {
            let before = all;
            while tenants.room(Some(holder), all, &limits) == SessionCapacity::Free {
                tenants.enter(Some(holder), &id(u32::try_from(all).expect("few")), |_| None);
                all += 1;
            }
            (all - before, tenants.room(Some(holder), all, &limits) == SessionCapacity::Of(holder.clone()))
        };
        let at = |number| Holder::Address([10, 0, 0, number].into());
        assert_eq!(fill(&principal("eve")), (40, true));
        assert_eq!([fill(&at(1)), fill(&at(2))], [(21, true), (3, false)]);
        assert_eq!(all, 64);
    }

    #[test]
    fn largest_client_is_evicted_at_the_limit() {
        let limits = Limits { sessions: 64, ..Limits::default() };
        let at = |number| Holder::Address([10, 0, 0, number].into());
        let mut tenants = Tenants::default();
        for number in 0..64_u8 {
            tenants.enter(Some(&at(number.saturating_sub(20))), &id(number.into()), |_| None);
        }
        assert_eq!(tenants.room(None, 64, &limits), SessionCapacity::Full(Some(at(0))));
        for number in 0..13 {
            tenants.remove_session(Some(&at(0)), &id(number));
        }
        assert_eq!(tenants.room(None, 64, &limits), SessionCapacity::Full(None), "it has no more than one eighth");
        assert_eq!(tenants.by_size.len(), tenants.each.len());
    }

    #[test]
    fn activity_ranks_sessions_by_use_and_time() {
        let activity = Activity::new();
        assert_eq!(activity.rank(), None);
        for (nanos, used, rank) in [
            (0, false, (false, 1)),
            (0, true, (true, 1)),
            (999_999_999, false, (false, 1)),
            (1_000_000_000, false, (false, 2)),
            (5_900_000_000, true, (true, 6)),
        ] {
            activity.set(Some(Timestamp::from_nanos(nanos)), used);
            assert_eq!(activity.rank(), Some(rank), "{nanos} {used}");
            assert_eq!(is_fresh(Some(&activity)), !used);
        }
        activity.set(None, true);
        assert_eq!((activity.rank(), is_fresh(Some(&activity)), is_fresh(None)), (None, true, false));
    }

    #[test]
    fn queues_of_fresh_sessions_are_bounded() {
        let mut queue = EvictionQueue::default();
        (0..64).for_each(|number| queue.enter(&id(number), |_| panic!("there are few")));
        queue.enter(&id(64), |known| *known == id(3) || *known == id(4));
        assert_eq!((queue.fresh.len(), queue.kept), (3, 2));
        // Twice those that remained, and 64.
        (0..65).for_each(|number| queue.enter(&id(number), |_| panic!("there are few")));
        assert_eq!(queue.fresh.len(), 68);
        queue.enter(&id(64), |_| false);
        assert_eq!((queue.fresh.len(), queue.kept), (1, 0));
        (0..5000).for_each(|number| queue.enter(&id(number), |_| true));
        assert_eq!(queue.fresh.len(), MAX_FRESH);
    }

    #[test]
    fn room_for_sessions_ends_at_exact_numbers() {
        let limits = Limits { sessions: 64, sessions_each: 5, ..Limits::default() };
        let (mut tenants, address) = (Tenants::default(), Holder::Address([10, 0, 0, 1].into()));
        let room = |tenants: &Tenants, holder: &Holder, all: usize| tenants.room(Some(holder), all, &limits);
        let (ada, of) = (principal("ada"), |holder: &Holder| SessionCapacity::Of(holder.clone()));
        (0..5).for_each(|number| {
            assert_eq!(room(&tenants, &ada, 5), SessionCapacity::Free);
            tenants.enter(Some(&ada), &id(number), |_| None);
        });
        assert_eq!(room(&tenants, &ada, 5), of(&ada), "a principal has at most five");
        tenants.remove_session(Some(&ada), &id(0));
        assert_eq!((room(&tenants, &ada, 5), tenants.size(Some(&ada))), (SessionCapacity::Free, 4));
        // An address has at most seven times what is free, and one more than seven if nothing is.
        for number in 100..107 {
            assert_eq!(room(&tenants, &address, 63), SessionCapacity::Free, "{number}");
            tenants.enter(Some(&address), &id(number), |_| None);
        }
        assert_eq!((room(&tenants, &address, 63), room(&tenants, &address, 62)), (of(&address), SessionCapacity::Free));
        assert_eq!(room(&tenants, &address, 64), SessionCapacity::Full(None), "seven are not many");
        tenants.enter(Some(&address), &id(107), |_| None);
        assert_eq!(room(&tenants, &address, 64), of(&address));
        // More than an eighth of all sessions are many.
        assert_eq!(tenants.room(None, 64, &limits), SessionCapacity::Full(None));
        tenants.enter(Some(&address), &id(108), |_| None);
        assert_eq!(tenants.room(None, 64, &limits), SessionCapacity::Full(Some(address.clone())));
        assert_eq!(
            (tenants.room(None, 63, &limits), tenants.room(None, 65, &limits)),
            (SessionCapacity::Free, SessionCapacity::Full(Some(address)))
        );
    }
}
