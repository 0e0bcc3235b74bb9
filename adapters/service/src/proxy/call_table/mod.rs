//! The requests of clients that are in flight at a backend.

mod call_entry;
mod turn;

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_proto::{
    connection::ClientRole,
    protocol::{Era, Method},
    rpc::{CallId, Timestamp},
};

pub(super) use self::call_entry::{Answer, CallEntry, Question};
use self::turn::{Turn, TurnGuard};
use super::late_calls::{CallKey, Client, End, LateCalls};
use crate::{
    driver_api::connection_handle::ConnectionHandle,
    outbound::peer::Peer,
    server::client_key::{ClientKey, has_share},
    util::{lock::lock, wait_queue::WaitQueue},
};

/// A call that waits for the next request of its client (2026-07-28).
pub(super) struct WaitingCall {
    pub(super) entry: Arc<CallEntry>,
    /// The pending request, of the type of its method.
    pub(super) pending: Box<dyn Any + Send>,
    pub(super) permit: Permit,
    pub(super) method: Method,
    pub(super) principal: Option<String>,
    pub(super) peer: Peer<ClientRole>,
    pub(super) until: Timestamp,
}

/// A call in the order of the table.
struct Row {
    /// The number of the connection.
    connection: u64,
    handle: Arc<dyn ConnectionHandle<ClientRole>>,
    call: CallId,
    /// The request for the result of the task that the call has become (2025-11-25).
    task_result: Option<CallId>,
    is_task: bool,
    entry: Arc<CallEntry>,
    /// The place in the order in which the table has found the calls to be sent. `None` while the request waits in the
    /// outbox: no message of the backend belongs to it.
    place: Option<u64>,
}

impl Row {
    /// Returns the request whose response ends the call, or else its own request.
    fn end(&self) -> (CallId, End) {
        match self.task_result {
            Some(result) => (result, End::Task { is_result: true }),
            None if self.is_task => (self.call, End::Task { is_result: false }),
            None => (self.call, End::Sent),
        }
    }

    /// Returns whether this response ends the work of the backend on the call.
    fn is_ended_by(&self, call: CallId) -> bool {
        !self.is_task || self.task_result == Some(call)
    }

    /// Returns whether a message of the backend may belong to the call.
    fn is_candidate(&self) -> bool {
        self.place.is_some() && self.entry.is_open()
    }
}

/// The requests of clients that are in flight at a backend.
#[derive(Default)]
pub(super) struct CallTable {
    /// Its lock is taken after that of a connection. No call and no peer is dropped under it.
    table: Mutex<Table>,
    /// Waits for calls that have ended without a response of the backend.
    ended: WaitQueue,
}

#[derive(Default)]
struct Table {
    /// The calls, in the order in which they began.
    rows: BTreeMap<u64, Row>,
    /// The numbers of their rows.
    by_call: HashMap<CallKey, u64>,
    next: u64,
    next_place: u64,
    waiting: BTreeMap<String, WaitingCall>,
    late: LateCalls,
    /// The number of permits, in total and of each client.
    taken: usize,
    taken_by: BTreeMap<ClientKey, usize>,
    /// The turns of the clients with permits.
    turns: BTreeMap<ClientKey, Arc<Turn>>,
    /// The number of waiting calls of each client.
    waiting_by: BTreeMap<ClientKey, usize>,
}

impl Table {
    fn row_of(&self, call: CallKey) -> Option<&Row> {
        self.rows.get(self.by_call.get(&call)?)
    }

    fn remove_row(&mut self, row: u64) -> Option<Row> {
        let removed = self.rows.remove(&row)?;
        for call in [Some(removed.call), removed.task_result].into_iter().flatten() {
            self.by_call.remove(&(removed.connection, call));
        }
        Some(removed)
    }

    fn remove_waiting(&mut self, id: &str) -> Option<WaitingCall> {
        let removed = self.waiting.remove(id)?;
        release(&mut self.waiting_by, &removed.permit.client);
        Some(removed)
    }
}

/// The calls to which a message of the backend may belong that names no call: those on the connection of the message.
pub(super) struct Callers {
    /// The calls in flight, the oldest first.
    pub(super) calls: Vec<Arc<CallEntry>>,
    /// The clients of calls that have ended without a response. `None` stands for all clients.
    late: Vec<Option<Arc<Client>>>,
    /// The calls so far have earlier places.
    next_place: u64,
}

impl Callers {
    /// Returns the latest call in flight, if all calls are those of one client.
    pub(super) fn sole(&self) -> Option<Arc<CallEntry>> {
        let last = self.calls.last()?;
        self.are_all_of(&Client::of(&last.context())).then(|| last.clone())
    }

    /// Returns whether all calls are of one client.
    fn are_all_of(&self, client: &Client) -> bool {
        self.calls.iter().all(|call| client.has_sent(&call.context()))
            && self.late.iter().all(|late| late.as_ref().is_some_and(|it| it.is(client)))
    }

    /// Returns whether no call is in flight, and all that have ended without a response are of one connection.
    pub(super) fn have_left(&self, connection: u64) -> bool {
        let is_it = |late: &Option<Arc<Client>>| late.as_ref().is_some_and(|it| it.connection == connection);
        self.calls.is_empty() && self.late.iter().all(is_it)
    }
}

/// The calls of one client to which a message may belong: those that were in flight when it arrived, and all others
/// were not.
pub(super) struct Candidates {
    connection: u64,
    /// They have earlier places.
    before: u64,
}

/// A permit for a request in flight.
pub(super) struct Permit {
    table: Arc<CallTable>,
    client: ClientKey,
    turn: Arc<Turn>,
}

impl Permit {
    /// Waits until no other request of the client waits to be sent.
    pub(super) async fn turn(&self) -> TurnGuard<'_> {
        self.turn.take().await
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let table = &mut *lock(&self.table.table);
        table.taken -= 1;
        release(&mut table.taken_by, &self.client);
        if !table.taken_by.contains_key(&self.client) {
            table.turns.remove(&self.client);
        }
    }
}

/// Decrements the count of a client.
fn release(held: &mut BTreeMap<ClientKey, usize>, client: &ClientKey) {
    if let Some(count) = held.get_mut(client) {
        *count -= 1;
        if *count == 0 {
            held.remove(client);
        }
    }
}

fn held_by(held: &BTreeMap<ClientKey, usize>, client: &ClientKey) -> usize {
    held.get(client).copied().unwrap_or(0)
}

/// A guard of a call. Dropping it removes the call.
pub(super) struct Registered {
    table: Arc<CallTable>,
    entry: Arc<CallEntry>,
    peer: Peer<ClientRole>,
    /// The time in which the backend may send messages about the call after it has ended without a response.
    late_time: Duration,
}

impl Registered {
    /// Records that the backend has responded.
    pub(super) fn responded(&self) {
        self.entry.set_open(false);
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let is_late = self.entry.is_open() && self.peer.close_reason().is_none();
        // The locks of the connections are taken without that of the table.
        let late = is_late.then(|| {
            let now = self.peer.connection().update(|_, now| now);
            (Client::of(&self.entry.context()), now + self.late_time)
        });
        let removed = {
            let mut table = lock(&self.table.table);
            let removed = self.entry.row.get().and_then(|row| table.remove_row(*row));
            let call = removed.as_ref().map(Row::end);
            // Under one lock, so that the call is always in flight or late. The response may have arrived in between.
            let late = late.filter(|_| self.entry.is_open());
            if let Some((client, until)) = late {
                table.late.add(client, call, &self.peer, until);
            }
            removed
        };
        drop(removed);
        // After the call is no longer in flight, so that its questions are not sent with it again.
        self.entry.end();
        self.table.ended.notify_all();
    }
}

impl CallTable {
    /// Returns a permit for a client, unless `max` are taken, or the client has its share of them.
    pub(super) fn admit(self: &Arc<Self>, client: ClientKey, max: usize) -> Option<Permit> {
        let table = &mut *lock(&self.table);
        if !has_share(max, table.taken, held_by(&table.taken_by, &client)) {
            return None;
        }
        table.taken += 1;
        *table.taken_by.entry(client.clone()).or_default() += 1;
        let turn = table.turns.entry(client.clone()).or_default().clone();
        Some(Permit { table: self.clone(), client, turn })
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.table).taken
    }

    /// Prepares a call that is about to be sent over this connection. It is in flight once it has
    /// [begun](Self::began). If it ends without a response, the backend may send messages about it for `late_time`.
    pub(super) fn register(
        self: &Arc<Self>,
        peer: &Peer<ClientRole>,
        entry: &Arc<CallEntry>,
        late_time: Duration,
    ) -> Registered {
        Registered { table: self.clone(), entry: entry.clone(), peer: peer.clone(), late_time }
    }

    /// Records that a request has begun: that of a call, or the one for the result of its task. The caller holds the
    /// lock of the connection, so no message about the request can have arrived.
    pub(super) fn began(&self, peer: &Peer<ClientRole>, entry: &Arc<CallEntry>, call: CallId, is_task: bool) {
        let connection = peer.calls().number();
        let table = &mut *lock(&self.table);
        let row = match entry.row.get() {
            Some(row) => {
                let Some(known) = table.rows.get_mut(row) else { return };
                known.task_result = Some(call);
                *row
            }
            None => {
                let row = table.next;
                table.next += 1;
                let (handle, entry_of_row) = (peer.connection().clone(), entry.clone());
                let (task_result, place) = (None, None);
                let new = Row { connection, handle, call, task_result, is_task, entry: entry_of_row, place };
                table.rows.insert(row, new);
                entry.set_open(true);
                *entry.row.get_or_init(|| row)
            }
        };
        table.by_call.insert((connection, call), row);
    }

    /// Returns the call with a request on whose stream a message has arrived.
    pub(super) fn get(&self, call: CallKey) -> Option<Arc<CallEntry>> {
        lock(&self.table).row_of(call).map(|row| row.entry.clone())
    }

    /// Returns all calls to which a message of the backend may belong that arrives on this connection and names no
    /// call.
    pub(super) fn callers(&self, connection: u64) -> Callers {
        self.expire();
        self.place_sent(connection);
        let table = lock(&self.table);
        let calls = table.rows.values().filter(|row| row.connection == connection && row.is_candidate());
        let calls = calls.map(|row| row.entry.clone()).collect();
        Callers { calls, late: table.late.clients(connection).collect(), next_place: table.next_place }
    }

    /// Gives places to the calls on a connection whose requests have left the outbox.
    fn place_sent(&self, connection: u64) {
        let is_unplaced = |row: &&mut Row| row.connection == connection && row.place.is_none();
        let handle = {
            let table = &mut *lock(&self.table);
            table.rows.values_mut().find(is_unplaced).map(|row| row.handle.clone())
        };
        let Some(handle) = handle else { return };
        // The lock of the connection is taken before that of the table.
        let (unsent, next): (BTreeSet<_>, _) = handle.read(|conn| {
            // A call without a session (2026-07-28) may wait between two requests.
            let has_session = conn.version().is_some_and(|version| version.era() == Era::Legacy);
            let unsent = conn.calls().filter(|call| has_session && !call.sent).map(|call| call.call).collect();
            // Calls that begin after this may wait in the outbox, too.
            (unsent, lock(&self.table).next)
        });
        let table = &mut *lock(&self.table);
        for row in table.rows.range_mut(..next).map(|(_, row)| row).filter(is_unplaced) {
            if !unsent.contains(&row.call) {
                row.place = Some(table.next_place);
                table.next_place += 1;
            }
        }
    }

    /// Returns the calls to which a request may belong that arrives on this connection now and names no call, if all
    /// calls are those of one client.
    pub(super) fn candidates(&self, connection: u64) -> Option<Candidates> {
        let callers = self.callers(connection);
        callers.sole().map(|_| Candidates { connection, before: callers.next_place })
    }

    /// Takes the latest of the calls that is still in flight.
    pub(super) fn next_candidate(&self, candidates: &mut Candidates) -> Option<Arc<CallEntry>> {
        let table = lock(&self.table);
        let on = table.rows.values().filter(|row| row.connection == candidates.connection && row.is_candidate());
        let earlier = on.filter(|row| row.place < Some(candidates.before));
        let latest = earlier.max_by_key(|row| row.place)?;
        candidates.before = latest.place?;
        Some(latest.entry.clone())
    }

    /// Records that the backend has responded to a request. It sends no more messages about the call, unless the call
    /// has become a task: then the result of the task ends it.
    pub(super) fn responded(&self, call: CallKey) {
        let table = lock(&self.table);
        if let Some(row) = table.row_of(call).filter(|row| row.is_ended_by(call.1)) {
            row.entry.set_open(false);
        }
    }

    /// Records that the backend has responded to a call that had ended before. It sends no more messages about the
    /// call.
    pub(super) fn responded_late(&self, call: CallKey) {
        let removed = {
            let table = &mut *lock(&self.table);
            if let Some(row) = table.row_of(call) {
                // The call was cancelled, and becomes a late call next.
                if row.is_ended_by(call.1) {
                    row.entry.set_open(false);
                }
                return;
            }
            table.late.responded(call)
        };
        drop(removed);
    }

    /// Waits for calls on this connection that have ended, and whose end the backend has not confirmed.
    pub(super) async fn unconfirmed(&self, connection: u64) {
        self.ended.wait_for(|| lock(&self.table).late.begin_confirmation(connection).then_some(())).await;
    }

    /// Records that the backend has confirmed the ends of the calls of the last [confirmation](Self::unconfirmed). They
    /// count until `until`, if the backend sends nothing that may belong to them.
    pub(super) fn confirmed(&self, connection: u64, until: Timestamp) {
        lock(&self.table).late.confirmed(connection, until);
        // The calls expire at another time.
        self.ended.notify_all();
    }

    /// Records that the backend has sent a request that may belong to a call which has ended.
    pub(super) fn may_continue(&self, connection: u64, until: Timestamp) {
        lock(&self.table).late.extend(connection, until);
    }

    /// Stores a call until its client sends its next request. Returns the call if `max` calls are stored, or the client
    /// has its share of them.
    pub(super) fn keep(&self, id: String, call: WaitingCall, max: usize) -> Option<WaitingCall> {
        let table = &mut *lock(&self.table);
        let client = &call.permit.client;
        if !has_share(max, table.waiting.len(), held_by(&table.waiting_by, client)) {
            return Some(call);
        }
        *table.waiting_by.entry(client.clone()).or_default() += 1;
        table.waiting.insert(id, call)
    }

    /// Takes a call out that waits for its client.
    pub(super) fn take(&self, id: &str, is_it: impl FnOnce(&WaitingCall) -> bool) -> Option<WaitingCall> {
        let table = &mut *lock(&self.table);
        table.waiting.get(id).filter(|call| is_it(call))?;
        table.remove_waiting(id)
    }

    /// Drops the calls on a connection that wait for their clients, which cancels them.
    pub(super) fn abandon(&self, connection: u64) {
        let abandoned: Vec<_> = {
            let table = &mut *lock(&self.table);
            let on = table.waiting.iter().filter(|(_, call)| call.peer.calls().number() == connection);
            let ids: Vec<_> = on.map(|(id, _)| id.clone()).collect();
            ids.iter().filter_map(|id| table.remove_waiting(id)).collect()
        };
        drop(abandoned);
    }

    /// Returns the time at which the next call on a connection [expires](Self::expire).
    pub(super) fn next_expiry(&self, connection: u64) -> Option<Timestamp> {
        let table = lock(&self.table);
        let calls = table.waiting.values().filter(|call| call.peer.calls().number() == connection);
        calls.map(|call| call.until).min()
    }

    /// Drops the calls whose clients have not sent their next requests in time, which cancels them. Removes late calls
    /// whose time has ended.
    pub(super) fn expire(&self) {
        let peers: BTreeMap<_, _> = {
            let table = lock(&self.table);
            let waiting = table.waiting.values().map(|call| &call.peer);
            let peers = waiting.chain(table.late.peers());
            let distinct: BTreeMap<_, _> = peers.map(|peer| (peer.calls().number(), peer)).collect();
            distinct.into_iter().map(|(number, peer)| (number, peer.clone())).collect()
        };
        if peers.is_empty() {
            return;
        }
        // The locks of the connections are taken without that of the table.
        let time =
            |peer: &Peer<ClientRole>| peer.close_reason().is_none().then(|| peer.connection().update(|_, now| now));
        let times: BTreeMap<_, _> = peers.iter().map(|(number, peer)| (*number, time(peer))).collect();
        let is_over = |peer: &Peer<ClientRole>, until: Timestamp| match times.get(&peer.calls().number()) {
            Some(Some(now)) => *now >= until,
            Some(None) => true,
            // The call was added after the times were read.
            None => false,
        };
        let (expired, forgotten): (Vec<_>, Vec<_>) = {
            let table = &mut *lock(&self.table);
            let expired = table.waiting.iter().filter(|(_, call)| is_over(&call.peer, call.until));
            let expired: Vec<_> = expired.map(|(id, _)| id.clone()).collect();
            let expired = expired.iter().filter_map(|id| table.remove_waiting(id)).collect();
            (expired, table.late.expire(is_over))
        };
        drop((expired, forgotten));
    }
}

#[cfg(test)]
mod tests;
