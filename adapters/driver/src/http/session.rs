//! A session of a server, or a single request without a session.

use std::{
    collections::VecDeque,
    io, mem,
    sync::{Arc, Weak},
    task::Waker,
};

use mcp_proto::{
    connection::{Connection, Event, ServerRole},
    http::{
        HttpResponse,
        server::{ExchangeId, ReplayChunk, Request, Session},
    },
    rpc::{ReplyKey, Timestamp},
    schema::LoggingLevel,
};

use crate::http::{
    client_shares::{COUNTED, ClientUsage},
    protection::Protection,
    response_slot::ResponseSlot,
    store::scoped_message,
};
use crate::{
    event_loop::{binding::Binding, shared::SharedConnection},
    limits::functions::Functions,
};
use mcp_service::driver_api::Application;
use mcp_service::driver_api::Holder;

/// The state of a session that was last written to the store.
pub(super) type StoredSettings = (bool, Option<LoggingLevel>);

/// The capacity of the queue of readers, as a multiple of their number, at which it shrinks.
const MAX_SPARE: usize = 16;

/// A session, and the slots of its responses.
pub(super) struct HttpSession {
    pub(super) session: Session,
    readers: Readers<ExchangeId>,
    /// The application of the session, while its event loop runs.
    pub(super) application: Option<Weak<dyn Application<ServerRole>>>,
    /// The state that was last written to the store, if there is one.
    pub(super) stored: Option<StoredSettings>,
    /// Its part of the quotas of its client.
    held: ClientUsage,
    protection: Protection,
}

/// The readers of responses. An idle session has none, and must hold little memory.
enum Readers<K> {
    None,
    /// Most sessions have one at a time, which takes no allocation.
    One(Reader<K>),
    /// Several at a time, or those that are left of them, in the order of their exchanges.
    Many(VecDeque<Reader<K>>),
}

/// The slot of a response that a task writes.
struct Reader<K> {
    exchange: K,
    slot: Arc<ResponseSlot>,
    /// Whether a small response may be left there in one piece.
    at_once: bool,
}

/// A session that its event loop and the tasks of its requests share.
pub(super) type SharedSession = SharedConnection<ServerRole, HttpSession>;

impl<K: Copy + Ord> Readers<K> {
    /// Adds a reader. The ids of exchanges rise.
    fn push(&mut self, reader: Reader<K>) {
        *self = match mem::replace(self, Self::None) {
            Self::None => Self::One(reader),
            Self::One(first) => Self::Many([first, reader].into()),
            Self::Many(mut all) => {
                all.push_back(reader);
                Self::Many(all)
            }
        };
    }

    /// Returns the reader of an exchange.
    fn get(&self, exchange: K) -> Option<&Reader<K>> {
        match self {
            Self::None => None,
            Self::One(reader) => Some(reader).filter(|reader| reader.exchange == exchange),
            Self::Many(all) => match all.back() {
                Some(last) if last.exchange == exchange => Some(last),
                _ => all.get(all.binary_search_by_key(&exchange, |reader| reader.exchange).ok()?),
            },
        }
    }

    fn remove(&mut self, exchange: K) {
        match self {
            Self::One(reader) if reader.exchange == exchange => *self = Self::None,
            Self::None | Self::One(_) => {}
            Self::Many(all) => {
                if let Ok(at) = all.binary_search_by_key(&exchange, |reader| reader.exchange) {
                    all.remove(at);
                }
                if all.is_empty() {
                    *self = Self::None;
                } else if all.capacity() > MAX_SPARE * all.len() {
                    all.shrink_to(2 * all.len());
                }
            }
        }
    }
}

impl HttpSession {
    pub(super) const fn new(session: Session, held: ClientUsage, protection: Protection) -> Self {
        Self { session, readers: Readers::None, application: None, stored: None, held, protection }
    }

    /// Refuses a request that resumes a stream without the scopes that the stream needs.
    pub(super) fn check_resumption(&self, request: &Request) -> Result<(), Box<HttpResponse>> {
        let refusal = self.session.missing_scopes(request).map(|scopes| self.protection.lacks_scopes(&scopes));
        refusal.map_or(Ok(()), |refusal| Err(Box::new(refusal.response(None))))
    }

    /// Passes on stored messages of a stream that another process has sent, if the principal of the exchange has the
    /// scopes for them.
    pub(super) fn handle_replay(&mut self, now: Timestamp, id: ExchangeId, found: io::Result<ReplayChunk>) {
        if found
            .as_ref()
            .is_err_and(|error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::BrokenPipe))
        {
            return self.session.end_replay(now, id);
        }
        match found.ok().and_then(scoped_message::unpack) {
            Some((_, scopes)) if !self.session.has_replay_scopes(id, &scopes) => {
                self.session.refuse_replay(now, id, &self.protection.lacks_scopes(&scopes));
            }
            found => self.session.handle_replay(now, id, found.as_ref().map(|(chunk, _)| chunk)),
        }
    }

    /// Creates the slot of the response of an exchange. With `at_once`, the response may be left there in one piece if
    /// it is small.
    pub(super) fn slot(&mut self, exchange: ExchangeId, at_once: bool) -> Arc<ResponseSlot> {
        let slot = Arc::new(ResponseSlot::new());
        self.readers.push(Reader { exchange, slot: slot.clone(), at_once });
        slot
    }

    /// Removes the slot of an exchange whose response is no longer written. Its task has a reference, too.
    pub(super) fn remove_slot(&mut self, exchange: ExchangeId) {
        self.readers.remove(exchange);
    }

    /// Notifies the tasks of exchanges with new output, or leaves small responses in their slots. Adds wakers of the
    /// tasks that wait. Returns whether a response was left in its slot, which the session does not hold any more.
    fn notify_readers(&mut self, woken: &mut Vec<Waker>) -> bool {
        let mut has_moved = false;
        while let Some(exchange) = self.session.poll_ready() {
            let Some(reader) = self.readers.get(exchange) else { continue };
            // Larger responses count for the quota of the client until they are written.
            let response = reader.at_once.then(|| self.session.poll_response(exchange, COUNTED - 1)).flatten();
            match response {
                Some(response) => {
                    woken.extend(reader.slot.fill(response));
                    self.readers.remove(exchange);
                    has_moved = true;
                }
                None => woken.extend(reader.slot.notify()),
            }
        }
        has_moved
    }
}

impl Binding<ServerRole> for HttpSession {
    fn connection(&mut self, now: Timestamp) -> &mut Connection<ServerRole> {
        self.session.connection(now)
    }

    fn view(&self) -> &Connection<ServerRole> {
        self.session.view()
    }

    fn poll_event(&mut self) -> Option<Event<'static>> {
        self.session.poll_event()
    }

    fn due(&self) -> Option<Timestamp> {
        if self.held.is_too_much() {
            return Some(Timestamp::ZERO);
        }
        self.session.poll_timeout().map(|deadline| deadline.at)
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.held.mark_reported();
        self.session.handle_timeout(now);
    }

    fn has_output(&self) -> bool {
        self.session.has_replay_request()
    }

    fn authenticates(&self) -> bool {
        true
    }

    fn needs_scopes(&mut self, now: Timestamp, key: ReplyKey, scopes: &[String]) -> bool {
        let challenge = self.protection.lacks_scopes(scopes);
        self.session.challenge(now, key, challenge).is_ok()
    }

    fn require_scopes(&mut self, now: Timestamp, key: ReplyKey, scopes: &[String]) {
        self.session.require_scopes(now, key, scopes);
    }

    fn functions(&self) -> Option<(&Arc<Functions>, &Holder)> {
        Some(self.held.functions())
    }

    fn woken(&mut self) -> Vec<Waker> {
        // A session that holds too much ends here, before a response says that its request has succeeded.
        self.held.recount(&mut self.session);
        let mut woken = Vec::new();
        if self.notify_readers(&mut woken) && self.held.counts_unread() {
            self.held.recount(&mut self.session);
        }
        woken
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn capacity(readers: &Readers<u64>) -> usize {
        if let Readers::Many(all) = readers { all.capacity() } else { 0 }
    }

    #[test]
    fn calls_beside_a_stream_keep_their_place() {
        let reader = |exchange| Reader { exchange, slot: Arc::new(ResponseSlot::new()), at_once: false };
        let mut readers = Readers::None;
        readers.push(reader(0));
        assert_eq!(capacity(&readers), 0, "one takes no allocation");
        for call in 1..10 {
            readers.push(reader(call));
            readers.remove(call);
            assert!(capacity(&readers) > 0, "it keeps a place for the next call");
        }
        readers.remove(0);
        assert_eq!(capacity(&readers), 0, "it is idle");
    }

    #[test]
    fn readers_are_found_by_their_exchanges() {
        let (mut readers, mut expected) = (Readers::None, BTreeSet::new());
        let mut random = 1_u64;
        for n in 0..5000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            readers.push(Reader { exchange: n, slot: Arc::new(ResponseSlot::new()), at_once: false });
            expected.insert(n);
            // First all end before the next one begins; then many are there at once, and end in any order; then few.
            let most = [1, 100, 4][n as usize / 100 % 3];
            while expected.len() >= most {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (random >> 33) as usize % expected.len();
                let ended = *expected.iter().nth(at).expect("one");
                readers.remove(ended);
                readers.remove(ended);
                expected.remove(&ended);
            }
            for other in n.saturating_sub(150)..=n + 1 {
                let found = readers.get(other).map(|reader| reader.exchange);
                assert_eq!(found, expected.contains(&other).then_some(other));
            }
            assert!(capacity(&readers) <= MAX_SPARE * expected.len(), "{} for {}", capacity(&readers), expected.len());
        }
    }
}
