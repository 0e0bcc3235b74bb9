//! The requests of clients that are in flight at a backend.

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_proto::{
    connection::ClientRole,
    protocol::Method,
    rpc::{CallId, Timestamp},
    schema::InputRequest,
    wire::{ErrorObject, JsonObject},
};

use super::{
    late_calls::{CallKey, Client, LateCalls},
    one_result::OneResult,
};
use crate::{
    inbound::context::Context,
    outbound::{error::CallError, peer::Peer},
    server::client_key::{ClientKey, has_share},
    util::{lock::lock, wait_queue::WaitQueue},
};

/// The most questions of one call that wait for the client at once.
const MAX_WAITING: usize = 64;

/// The most questions of one call.
const MAX_NAMES: usize = 1024;

/// The answer to a question, or `None` after the end of the call that the question was sent with.
pub(super) type Answer = OneResult<Option<Result<JsonObject, CallError>>>;

/// A question of a backend that waits for the client.
pub(super) struct Question {
    /// The name in the `input_required` result of this service.
    pub(super) name: String,
    pub(super) question: InputRequest,
    pub(super) answer: Arc<Answer>,
}

/// A request of a client at a backend.
pub(super) struct CallEntry {
    /// The current request of the client: it sends another one with its input (2026-07-28).
    context: Mutex<Context>,
    questions: Mutex<Questions>,
    /// Waits for questions.
    waiters: WaitQueue,
    /// The id under which the call waits for the client, once it is set.
    id: OnceLock<String>,
    /// The error with which an input request was refused (2026-07-28). It ends the call.
    refused: OnceLock<ErrorObject>,
    /// Whether the backend may send messages about the call: it has the request, and has not responded.
    is_open: AtomicBool,
}

#[derive(Default)]
struct Questions {
    waiting: Vec<Question>,
    /// The names of all questions so far.
    names: BTreeSet<String>,
    /// The number of questions of one round, which the client gets together.
    expected: usize,
    /// Whether the call has ended.
    is_over: bool,
}

impl CallEntry {
    pub(super) fn new(context: Context) -> Arc<Self> {
        Arc::new(Self {
            context: Mutex::new(context),
            questions: Mutex::default(),
            waiters: WaitQueue::default(),
            id: OnceLock::new(),
            refused: OnceLock::new(),
            is_open: AtomicBool::new(false),
        })
    }

    /// Records that an input request was refused. In 2026-07-28 there is no message for this.
    pub(super) fn refuse(&self, error: &ErrorObject) {
        self.refused.get_or_init(|| error.clone());
    }

    /// Returns whether this error is that of a refused input request.
    pub(super) fn is_refusal(&self, error: &ErrorObject) -> bool {
        self.refused.get() == Some(error)
    }

    /// Returns the id under which the call waits for the client. It is the same in every round.
    pub(super) fn id(&self, new: impl FnOnce() -> Option<String>) -> Option<String> {
        if let Some(id) = self.id.get() {
            return Some(id.clone());
        }
        let new = new()?;
        Some(self.id.get_or_init(|| new).clone())
    }

    /// Returns the context of the client's current request.
    pub(super) fn context(&self) -> Context {
        lock(&self.context).clone()
    }

    pub(super) fn set_context(&self, context: Context) {
        let before = std::mem::replace(&mut *lock(&self.context), context);
        drop(before);
    }

    /// Adds a question for the next round. `open` is the number of questions of the backend in this round.
    pub(super) fn ask(&self, name: Option<String>, open: usize, question: InputRequest) -> Option<Arc<Answer>> {
        let answer = Arc::new(Answer::default());
        {
            let mut questions = lock(&self.questions);
            if questions.is_over {
                answer.provide(None);
                return Some(answer);
            }
            if questions.waiting.len() >= MAX_WAITING || questions.names.len() >= MAX_NAMES {
                return None;
            }
            let wanted = name.unwrap_or_else(|| "question".into());
            // A backend may use a name again in a later round, with another meaning.
            let numbered = (2..).map(|number| format!("{wanted}-{number}"));
            let name = std::iter::once(wanted.clone()).chain(numbered).find(|name| !questions.names.contains(name));
            let name = name.unwrap_or(wanted);
            questions.names.insert(name.clone());
            questions.expected = open.max(1);
            questions.waiting.push(Question { name, question, answer: answer.clone() });
        }
        self.waiters.notify_all();
        Some(answer)
    }

    /// Waits until all questions of a round have arrived.
    pub(super) async fn questions(&self) -> Vec<Question> {
        let take = || {
            let mut questions = lock(&self.questions);
            questions.waiting.retain(|question| !question.answer.is_over());
            let is_complete = !questions.waiting.is_empty() && questions.waiting.len() >= questions.expected;
            is_complete.then(|| std::mem::take(&mut questions.waiting))
        };
        self.waiters.wait_for(take).await
    }

    /// Puts questions back that the client has not responded to yet.
    pub(super) fn put_back(&self, mut open: Vec<Question>) {
        let mut questions = lock(&self.questions);
        open.append(&mut questions.waiting);
        questions.expected = questions.expected.min(open.len()).max(1);
        questions.waiting = open;
    }

    /// Ends the call. Its questions get no answers.
    fn end(&self) {
        let left = {
            let mut questions = lock(&self.questions);
            questions.is_over = true;
            std::mem::take(&mut questions.waiting)
        };
        left.iter().for_each(|question| question.answer.provide(None));
    }

    /// Records that the backend has withdrawn a question.
    pub(super) fn withdrawn(&self) {
        let mut questions = lock(&self.questions);
        questions.expected = questions.expected.saturating_sub(1).max(1);
        drop(questions);
        self.waiters.notify_all();
    }
}

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
    /// The connection, and the call once it has begun.
    connection: u64,
    call: Option<CallId>,
    entry: Arc<CallEntry>,
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
    waiting: BTreeMap<String, WaitingCall>,
    late: LateCalls,
    /// The number of permits, in total and of each client.
    taken: usize,
    taken_by: BTreeMap<ClientKey, usize>,
    /// The number of waiting calls of each client.
    waiting_by: BTreeMap<ClientKey, usize>,
}

impl Table {
    fn remove_waiting(&mut self, id: &str) -> Option<WaitingCall> {
        let removed = self.waiting.remove(id)?;
        release(&mut self.waiting_by, &removed.permit.client);
        Some(removed)
    }
}

/// The calls to which a message of the backend may belong.
#[derive(Default)]
pub(super) struct Callers {
    /// The calls in flight, the oldest first.
    pub(super) calls: Vec<Arc<CallEntry>>,
    /// The clients of calls that have ended without a response. `None` stands for all clients.
    late: Vec<Option<Arc<Client>>>,
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

/// A permit for a request in flight.
pub(super) struct Permit {
    table: Arc<CallTable>,
    client: ClientKey,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let table = &mut *lock(&self.table.table);
        table.taken -= 1;
        release(&mut table.taken_by, &self.client);
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

/// A guard of the entry of a call. Dropping it removes the entry.
pub(super) struct Registered {
    table: Arc<CallTable>,
    row: u64,
    entry: Arc<CallEntry>,
    peer: Peer<ClientRole>,
    /// The time in which the backend may send messages about the call after it has ended without a response.
    late_time: Duration,
}

impl Registered {
    /// Records that the request was sent.
    pub(super) fn sent(&self) {
        self.entry.is_open.store(true, Ordering::Relaxed);
    }

    /// Records that the backend has responded.
    pub(super) fn responded(&self) {
        self.entry.is_open.store(false, Ordering::Relaxed);
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let is_late = self.entry.is_open.load(Ordering::Relaxed) && self.peer.close_reason().is_none();
        // The locks of the connections are taken without that of the table.
        let late = is_late.then(|| {
            let now = self.peer.connection().update(|_, now| now);
            (Client::of(&self.entry.context()), now + self.late_time)
        });
        let removed = {
            let mut table = lock(&self.table.table);
            let removed = table.rows.remove(&self.row);
            let call = removed.as_ref().and_then(|row| row.call);
            if let Some(Row { connection, call: Some(call), .. }) = &removed {
                table.by_call.remove(&(*connection, *call));
            }
            // Under one lock, so that the call is always in flight or late.
            let former = late.map(|(client, until)| table.late.add(client, call, &self.peer, until));
            (removed, former)
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
        Some(Permit { table: self.clone(), client })
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.table).taken
    }

    /// Adds a call that is about to be sent over this connection. If it ends without a response, the backend may send
    /// messages about it for `late_time`.
    pub(super) fn insert(
        self: &Arc<Self>,
        peer: &Peer<ClientRole>,
        entry: &Arc<CallEntry>,
        late_time: Duration,
    ) -> Registered {
        let connection = peer.calls().number();
        let mut table = lock(&self.table);
        let row = table.next;
        table.next += 1;
        table.rows.insert(row, Row { connection, call: None, entry: entry.clone() });
        let (table, entry, peer) = (self.clone(), entry.clone(), peer.clone());
        Registered { table, row, entry, peer, late_time }
    }

    /// Records the id of a call. The caller holds the lock of the connection, so no message about the call can have
    /// arrived.
    pub(super) fn began(&self, registered: &Registered, call: CallId) {
        let table = &mut *lock(&self.table);
        if let Some(row) = table.rows.get_mut(&registered.row) {
            row.call = Some(call);
            table.by_call.insert((row.connection, call), registered.row);
        }
    }

    pub(super) fn get(&self, call: CallKey) -> Option<Arc<CallEntry>> {
        let table = lock(&self.table);
        table.rows.get(table.by_call.get(&call)?).map(|row| row.entry.clone())
    }

    /// Returns all calls to which a message of the backend may belong.
    pub(super) fn callers(&self) -> Callers {
        self.expire();
        let table = lock(&self.table);
        let calls = table.rows.values().map(|row| row.entry.clone()).collect();
        Callers { calls, late: table.late.clients().collect() }
    }

    /// Records that the backend has responded to a call that had ended before. It sends no more messages about the
    /// call.
    pub(super) fn responded_late(&self, (connection, call): CallKey) {
        let removed = {
            let table = &mut *lock(&self.table);
            if let Some(row) = table.by_call.get(&(connection, call)).and_then(|row| table.rows.get(row)) {
                // The call was cancelled, and becomes a late call next.
                row.entry.is_open.store(false, Ordering::Relaxed);
                return;
            }
            table.late.responded((connection, call))
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

    /// Removes the calls that are no longer in flight. Calls that have begun in the meantime are not added.
    pub(super) fn retain_in_flight(&self, callers: &mut Callers) {
        let removed: Vec<_> = {
            let table = lock(&self.table);
            // A client may have thousands of calls in flight.
            let in_flight: BTreeSet<_> = table.rows.values().map(|row| Arc::as_ptr(&row.entry)).collect();
            callers.calls.extract_if(.., |call| !in_flight.contains(&Arc::as_ptr(call))).collect()
        };
        drop(removed);
    }

    /// Returns the call to which a message belongs: the call on whose stream it has arrived, or else the latest one, if
    /// all calls are those of one client.
    pub(super) fn of_message(&self, related: Option<CallKey>) -> Option<Arc<CallEntry>> {
        related.and_then(|related| self.get(related)).or_else(|| self.callers().sole())
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
