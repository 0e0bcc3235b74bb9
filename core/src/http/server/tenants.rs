//! Which sessions give way to new ones when an endpoint, or a client, has as many as it may have.

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

/// How many sessions are found at once that may give way. Looking for one costs a look at each session.
const FOUND: usize = 64;

/// At the limit of sessions, those of the client with most give way first if it has more than one part of so many.
const LARGE: usize = 8;

/// Since when a session is not used, as its endpoint sees it. The session writes it, under a lock of its own.
#[derive(Debug)]
pub(super) struct Activity(AtomicUsize);

/// The state of a session that is in use.
const BUSY: usize = 0;

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(BUSY)))
    }

    /// Takes note of since when a session is idle, and whether its client was heard of again after it had opened it.
    pub(super) fn set(&self, idle: Option<Timestamp>, came_back: bool) {
        // Whole seconds: half the range of numbers of 32 bits is 34 years.
        let state = idle.map_or(BUSY, |since| {
            let seconds = usize::try_from(since.as_nanos() / 1_000_000_000).unwrap_or(usize::MAX).min(usize::MAX / 4);
            2 * seconds + 2 + usize::from(came_back)
        });
        self.0.store(state, Ordering::Relaxed);
    }

    /// The order in which sessions give way: those whose clients have not come back first, of these the one that is idle
    /// longest. `None` while the session is in use.
    fn rank(&self) -> Option<(bool, usize)> {
        let state = self.0.load(Ordering::Relaxed);
        (state != BUSY).then_some((state % 2 == 1, state / 2))
    }
}

/// Which client has how many sessions, and which of them can give way.
#[derive(Debug, Default)]
pub(super) struct Tenants {
    each: BTreeMap<Holder, Tenant>,
    /// The same clients, the one with most sessions last.
    by_size: BTreeSet<(usize, Holder)>,
    /// Sessions of all clients.
    all: Line,
}

/// Whether there is room for another session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// Only in place of a session of this client.
    Of(Holder),
    /// Only in place of another session: of this client, if it has an idle one, or of any.
    Full(Option<Holder>),
}

/// Among which sessions one is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Among {
    /// Idle ones whose clients have not come back since they were begun.
    Fresh,
    /// All idle ones, those first.
    All,
}

#[derive(Debug, Default)]
struct Tenant {
    sessions: BTreeSet<SessionId>,
    line: Line,
}

/// Sessions that can give way.
#[derive(Debug, Default)]
struct Line {
    /// Those whose clients may not have come back, the oldest first.
    fresh: VecDeque<SessionId>,
    /// How many of them there were when the others were last taken out.
    kept: usize,
    /// Some others that are idle longest, the next one last.
    found: Vec<Found>,
}

#[derive(Debug)]
struct Found {
    id: SessionId,
    rank: (bool, usize),
}

impl Line {
    /// A session has begun. Those that are over, or whose clients have come back, are not kept here for long.
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
        // One that is in use is not kept in the line, so that it is not looked at again and again. If it is idle later it is
        // found among the others, before those whose clients have come back.
        while let Some(id) = self.fresh.pop_front() {
            if let Some(Some((false, _))) = known(&id).map(|activity| activity.rank()) {
                return Some(id);
            }
        }
        if among == Among::Fresh {
            return None;
        }
        // Those that were used since they were found are not the ones.
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
    /// A client has one more session. `known` says the activity of those that are there.
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

    /// A session that has entered turns out to be of this client.
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

    /// A client has one session less.
    pub(super) fn leave(&mut self, holder: Option<&Holder>, id: &SessionId) {
        let Some(holder) = holder else { return };
        let Some(tenant) = self.each.get_mut(holder) else { return };
        let size = tenant.sessions.len();
        tenant.sessions.remove(id);
        self.resize(holder, size);
    }

    /// Takes note of how many sessions a client has, where it had this many.
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

    /// Whether there is room for another session of this client, where there are `all` sessions. A principal has at most
    /// `sessions_each`, and no client more than seven times of what is free.
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

    /// The session that gives way to a new one: of this client, or one of all the `sessions`. Those of a client are looked
    /// for among its own.
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

/// Whether a client may not have come back to a session. One in use may be idle again before it has.
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

    /// As many sessions as there may be, all of them in use: of one principal, and of others.
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

    /// The session that gives way, and at how many was looked to find it.
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
            // A new one is idle, and is the one that gives way to the next.
            let activity = Activity::new();
            activity.set(Some(Timestamp::ZERO), false);
            tenants.enter(None, &id(number), |id| sessions.get(id));
            sessions.insert(id(number), activity);
            let (found, looks) = next(&mut tenants, &sessions, None);
            assert!(found == Some(id(number)) && looks < 10, "{looks} looks");
            sessions.remove(&id(number));
        }
        // Those of a principal are looked for among its own.
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
