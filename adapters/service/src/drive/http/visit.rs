//! One session of a server, or one request that stands alone.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, MutexGuard, Weak},
    task::Waker,
};

use mcp_proto::{
    connection::{Connection, Event, ServerEnd},
    http::server::{ExchangeId, Session},
    rpc::Timestamp,
};

use super::share::Settled;
use crate::{
    Application,
    drive::{
        Holder, Permit, Quota,
        carrier::Carrier,
        hub::{Hub, State},
    },
    sync::lock,
};

/// A session, and those who write what it says.
pub(super) struct Visit {
    pub(super) session: Session,
    readers: BTreeMap<ExchangeId, Waker>,
    /// What runs on it, while it is run.
    pub(super) application: Option<Weak<dyn Application<ServerEnd>>>,
    /// What of it was written down last, where others have to know.
    pub(super) settled: Option<Settled>,
    /// What waits to be written or to be sent again, as part of what all sessions may hold.
    unwritten: Option<Unwritten>,
}

/// What a session holds for its client.
struct Unwritten {
    permit: Permit,
    /// It would be more than the client may hold.
    is_too_much: bool,
}

/// Less than this is not counted one by one: most sessions hold nothing most of the time.
const COUNTED: usize = 4 << 10;

/// A session and its lock.
pub(super) type Room = Hub<ServerEnd, Visit>;

impl Visit {
    pub(super) const fn new(session: Session) -> Self {
        Self { session, readers: BTreeMap::new(), application: None, settled: None, unwritten: None }
    }

    /// Has what waits to be written counted, as part of what a client may hold.
    pub(super) fn count(&mut self, quota: &Arc<Quota>, holder: &Holder) {
        self.unwritten = quota.take(holder, 0).map(|permit| Unwritten { permit, is_too_much: false });
    }

    /// Counts what waits to be written. What is too much for its client ends, as soon as its driver looks.
    fn recount(&mut self) {
        let Some(unwritten) = &mut self.unwritten else { return };
        let usage = self.session.usage();
        let bytes = (usage.queued_bytes + usage.replay_bytes) / COUNTED * COUNTED;
        if !unwritten.permit.set(bytes) {
            unwritten.is_too_much = true;
        }
    }

    /// Whoever writes an exchange waits for something to write. Hands back who waited before.
    #[must_use = "it may hold the last of a task"]
    pub(super) fn wait(&mut self, exchange: ExchangeId, waker: &Waker) -> Option<Waker> {
        self.readers.insert(exchange, waker.clone())
    }

    /// Nobody writes an exchange any more.
    #[must_use = "it may hold the last of a task"]
    pub(super) fn leave(&mut self, exchange: ExchangeId) -> Option<Waker> {
        let before = self.readers.remove(&exchange);
        self.shrink();
        before
    }

    /// Gives back the room of an empty table.
    fn shrink(&mut self) {
        if self.readers.is_empty() {
            self.readers = BTreeMap::new();
        }
    }
}

impl Room {
    /// What is under the lock, to be [settled](Self::settle). A visitor has left with this.
    pub(super) fn enter(&self, visits: &mut bool) -> MutexGuard<'_, State<Visit>> {
        let mut state = lock(&self.state);
        state.visitors -= u32::from(mem::take(visits));
        state
    }
}

impl Carrier<ServerEnd> for Visit {
    fn connection(&mut self, now: Timestamp) -> &mut Connection<ServerEnd> {
        self.session.connection(now)
    }

    fn view(&self) -> &Connection<ServerEnd> {
        self.session.view()
    }

    fn poll_event(&mut self) -> Option<Event<'static>> {
        self.session.poll_event()
    }

    fn due(&self) -> Option<Timestamp> {
        if self.unwritten.as_ref().is_some_and(|it| it.is_too_much) {
            return Some(Timestamp::ZERO);
        }
        self.session.poll_timeout().map(|deadline| deadline.at)
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        if self.unwritten.take_if(|it| it.is_too_much).is_some() {
            self.session.connection(now).handle_lost("more waits to be written than this client may hold");
        }
        self.session.handle_timeout(now);
    }

    fn has_output(&self) -> bool {
        self.session.has_fetch()
    }

    fn woken(&mut self) -> Vec<Waker> {
        self.recount();
        let mut woken = Vec::new();
        while let Some(exchange) = self.session.poll_ready() {
            woken.extend(self.readers.remove(&exchange));
        }
        if !woken.is_empty() {
            self.shrink();
        }
        woken
    }
}
