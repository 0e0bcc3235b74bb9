//! Which sessions give way to new ones when an endpoint, or a principal, has as many as it may have.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::String,
    sync::Arc,
    vec::Vec,
};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::{
    connection::Principal,
    http::{Limits, SessionId},
    rpc::Timestamp,
};

/// How many sessions are found at once that may give way. Looking for one costs a look at each session.
const FOUND: usize = 64;

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

/// Who has how many sessions, and which of them can give way.
#[derive(Debug, Default)]
pub(super) struct Tenants {
    each: BTreeMap<String, Tenant>,
    /// Of whomever they are.
    all: Line,
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
    /// A principal has one more session. `known` says the activity of those that are there.
    pub(super) fn enter<'a>(
        &mut self,
        principal: Option<&Arc<Principal>>,
        id: &SessionId,
        known: impl Fn(&SessionId) -> Option<&'a Arc<Activity>>,
    ) {
        // Those in use may be idle again before their clients have come back.
        let is_fresh = |id: &SessionId| known(id).is_some_and(|it| it.rank().is_none_or(|(came_back, _)| !came_back));
        self.all.enter(id, is_fresh);
        if let Some(principal) = principal {
            let tenant = self.each.entry(principal.id.clone()).or_default();
            tenant.sessions.insert(id.clone());
            tenant.line.enter(id, is_fresh);
        }
    }

    /// A principal has one session less.
    pub(super) fn leave(&mut self, principal: Option<&Arc<Principal>>, id: &SessionId) {
        let Some(principal) = principal else { return };
        if let Some(tenant) = self.each.get_mut(&principal.id) {
            tenant.sessions.remove(id);
            if tenant.sessions.is_empty() {
                self.each.remove(&principal.id);
            }
        }
    }

    /// Whether a principal has as many sessions as it may have.
    pub(super) fn has_all(&self, principal: Option<&Arc<Principal>>, limits: &Limits) -> bool {
        let tenant = principal.and_then(|principal| self.each.get(&principal.id));
        tenant.is_some_and(|tenant| tenant.sessions.len() >= limits.sessions_each)
    }

    /// The session that gives way to a new one: of this principal, or one of all the `sessions`. Those of a principal are looked
    /// for among its own.
    pub(super) fn next<'a, S>(
        &mut self,
        of: Option<&Arc<Principal>>,
        known: impl Fn(&SessionId) -> Option<&'a Arc<Activity>>,
        sessions: impl FnOnce() -> S,
    ) -> Option<SessionId>
    where
        S: Iterator<Item = (&'a SessionId, &'a Arc<Activity>)>,
    {
        match of {
            Some(principal) => {
                let Tenant { sessions, line } = self.each.get_mut(&principal.id)?;
                line.next(&known, || sessions.iter().filter_map(|id| Some((id, known(id)?))))
            }
            None => self.all.next(known, sessions),
        }
    }
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

    /// As many sessions as there may be, all of them in use: of one principal, and of others.
    fn busy(own: u32, others: u32) -> (Tenants, BTreeMap<SessionId, Arc<Activity>>, Arc<Principal>) {
        let (mut tenants, mut sessions) = (Tenants::default(), BTreeMap::new());
        let principal = Arc::new(Principal::new("eve"));
        for number in 0..own + others {
            let other = (number >= own).then(|| Arc::new(Principal::new(format!("{number}"))));
            let whose = other.as_ref().unwrap_or(&principal);
            tenants.enter(Some(whose), &id(number), |id| sessions.get(id));
            sessions.insert(id(number), Activity::new());
        }
        (tenants, sessions, principal)
    }

    /// The session that gives way, and at how many was looked to find it.
    fn next(
        tenants: &mut Tenants,
        sessions: &BTreeMap<SessionId, Arc<Activity>>,
        of: Option<&Arc<Principal>>,
    ) -> (Option<SessionId>, usize) {
        let looks = Cell::new(0);
        let look = || looks.set(looks.get() + 1);
        let known = |id: &SessionId| {
            look();
            sessions.get(id)
        };
        let found = tenants.next(of, known, || sessions.iter().inspect(|_| look()));
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
}
