//! Which sessions give way to new ones when an endpoint, or a principal, has as many as it may have.

use alloc::{
    collections::{BTreeMap, VecDeque},
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
    sessions: usize,
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

    fn next<'a, S>(
        &mut self,
        known: impl Fn(&SessionId) -> Option<&'a Arc<Activity>>,
        sessions: impl FnOnce() -> S,
    ) -> Option<SessionId>
    where
        S: Iterator<Item = (&'a SessionId, &'a Arc<Activity>)>,
    {
        for _ in 0..self.fresh.len() {
            let id = self.fresh.pop_front()?;
            match known(&id).map(|activity| activity.rank()) {
                Some(Some((false, _))) => return Some(id),
                // It is in use.
                Some(None) => self.fresh.push_back(id),
                Some(Some((true, _))) | None => {}
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
            tenant.sessions += 1;
            tenant.line.enter(id, is_fresh);
        }
    }

    /// A principal has one session less.
    pub(super) fn leave(&mut self, principal: Option<&Arc<Principal>>) {
        let Some(principal) = principal else { return };
        if let Some(tenant) = self.each.get_mut(&principal.id) {
            tenant.sessions -= 1;
            if tenant.sessions == 0 {
                self.each.remove(&principal.id);
            }
        }
    }

    /// Whether a principal has as many sessions as it may have.
    pub(super) fn has_all(&self, principal: Option<&Arc<Principal>>, limits: &Limits) -> bool {
        let tenant = principal.and_then(|principal| self.each.get(&principal.id));
        tenant.is_some_and(|tenant| tenant.sessions >= limits.sessions_each)
    }

    /// The session that gives way to a new one: of this principal, or of whomever.
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
            Some(principal) => self.each.get_mut(&principal.id)?.line.next(known, sessions),
            None => self.all.next(known, sessions),
        }
    }
}
