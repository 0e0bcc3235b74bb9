//! Requests that wait until their session has room for them, within limits and in order of arrival.

use alloc::{
    boxed::Box,
    collections::{BTreeSet, VecDeque},
    vec::Vec,
};

use http::StatusCode;

use super::{
    ExchangeId, Request, Session,
    exchange::Form,
    session::SessionKind,
    target::{BodyKind, Target},
};
use crate::{
    collections::StaticDefault,
    connection::Event,
    http::{
        Deadline, HttpResponse, Wake,
        response::{self, busy},
    },
    protocol::{Method, Phase, ProtocolVersion},
    rpc::Timestamp,
    wire::{self, ArrayIter, Message, RequestId},
};

/// The maximum number of bytes that a request takes besides its body, while it waits or is in flight.
const ENTRY: usize = 1 << 10;

/// How many entries of removed requests the queue tolerates before it is compacted.
const MIN_STALE: usize = 64;

/// How many requests may wait for each exchange that a session may have.
const WAITING: usize = 16;

/// The waiting requests, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Queue {
    all: VecDeque<Queued>,
    /// The requests that still wait, by the hashes of their ids.
    by_id: BTreeSet<(u64, ExchangeId)>,
    /// The number of requests that still wait.
    len: usize,
    bytes: usize,
}

impl StaticDefault for Queue {
    const EMPTY: &'static Self = &Self { all: VecDeque::new(), by_id: BTreeSet::new(), len: 0, bytes: 0 };
}

#[derive(Debug)]
struct Queued {
    id: ExchangeId,
    /// The hash of the id of the request.
    hash: u64,
    /// `None` once the request does not wait any more.
    request: Option<Request>,
    until: Timestamp,
}

impl Request {
    /// Returns the number of bytes that the request takes while it waits.
    fn waiting_weight(&self) -> usize {
        self.weight + ENTRY
    }
}

impl Queue {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Returns when the first request has waited for too long.
    pub(super) fn next(&self) -> Option<Deadline> {
        self.all.front().map(|first| Deadline { at: first.until, wake: Wake::Admission })
    }

    fn push(&mut self, id: ExchangeId, (request, hash): (Request, u64), until: Timestamp) {
        self.len += 1;
        self.bytes += request.waiting_weight();
        self.by_id.insert((hash, id));
        self.all.push_back(Queued { id, hash, request: Some(request), until });
    }

    /// Removes a request from the queue, if it still waits.
    pub(super) fn remove(&mut self, id: ExchangeId) -> Option<Request> {
        let at = self.all.partition_point(|queued| queued.id < id);
        let queued = self.all.get_mut(at).filter(|queued| queued.id == id)?;
        let request = queued.request.take()?;
        self.by_id.remove(&(queued.hash, id));
        self.len -= 1;
        self.bytes -= request.waiting_weight();
        self.tidy();
        Some(request)
    }

    fn tidy(&mut self) {
        while self.all.front().is_some_and(|first| first.request.is_none()) {
            self.all.pop_front();
        }
        if self.all.is_empty() {
            self.all = VecDeque::new();
        } else if self.all.len() > 2 * self.len + MIN_STALE {
            self.all.retain(|queued| queued.request.is_some());
        }
    }

    fn first(&self) -> Option<(ExchangeId, &Request)> {
        let first = self.all.front()?;
        Some((first.id, first.request.as_ref()?))
    }

    fn get(&self, id: ExchangeId) -> Option<&Request> {
        let at = self.all.partition_point(|queued| queued.id < id);
        self.all.get(at).filter(|queued| queued.id == id)?.request.as_ref()
    }

    /// Returns the first waiting request with this id, whose hash is `hash`.
    fn find(&self, id: &RequestId, hash: u64) -> Option<ExchangeId> {
        let mut alike = self.by_id.range((hash, ExchangeId(0))..=(hash, ExchangeId(u64::MAX))).map(|(_, waits)| *waits);
        alike.find(|waits| self.get(*waits).and_then(Request::id) == Some(id))
    }
}

impl Session {
    /// Returns whether a request has to wait before it is passed to the connection, or the response if it is refused.
    pub(super) fn has_to_wait(&self, request: &Request) -> Result<bool, Box<HttpResponse>> {
        let limits = &self.options.limits;
        let open = self.exchanges.len();
        let fits = |open: usize, most: usize| {
            if open < most { Ok(false) } else { Err(Box::new(busy("There are too many requests in this session"))) }
        };
        let is_old = match self.kind {
            SessionKind::Modern { .. } => return fits(open, limits.exchanges),
            SessionKind::Old { .. } => true,
            SessionKind::Streams { .. } => false,
        };
        let open = open - self.queue.len();
        match (request.kind, &request.target) {
            // Requests in flight may wait for these messages, and they get their HTTP responses at once. A batch may
            // contain some of them.
            (BodyKind::Notification | BodyKind::Response, _) => fits(open, limits.exchanges.saturating_mul(2)),
            // Over the transport of 2024-11-05 its requests wait all the same if their responses have no room: the
            // client only has to read, and has to send nothing.
            (BodyKind::Batch, _) if !is_old || self.conn.has_room() || request.count() == 0 => {
                fits(open, limits.exchanges.saturating_mul(2))
            }
            // The endpoint has already removed the session, so it ends regardless of how many requests there are.
            (_, Target::End(_)) => Ok(false),
            (BodyKind::Nothing, _) | (_, Target::Initialize) => fits(open, limits.exchanges),
            _ if self.queue.len() == 0 && self.has_room_for(request) => Ok(false),
            (BodyKind::Request | BodyKind::Batch, _) => {
                let bytes = self.queue.bytes.saturating_add(request.waiting_weight());
                let is_full = bytes > limits.request_bytes / 2 || self.queue.len() >= WAITING * limits.exchanges;
                if is_full { Err(Box::new(busy("Too many requests wait in this session"))) } else { Ok(true) }
            }
        }
    }

    fn has_room_for(&self, request: &Request) -> bool {
        // Over the transport of 2024-11-05 the exchange of a request ends at once, so the number of exchanges does not
        // bound the results that handlers have returned and that wait for room.
        let has_room = !matches!(self.kind, SessionKind::Old { .. }) || self.conn.has_room();
        // The connection refuses requests of a batch one by one.
        let is_batch = request.kind == BodyKind::Batch;
        has_room
            && self.exchanges.len() - self.queue.len() < self.options.limits.exchanges
            && (is_batch || self.conn.has_room_for_inbound(request.weight))
    }

    /// Queues a request until there is room for it.
    pub(super) fn wait_for_room(&mut self, id: ExchangeId, request: &mut Request) {
        let until = self.clock + self.options.limits.admission;
        let hash = request.id().map_or(0, |id| self.conn.hash_of(id));
        self.queue.push(id, (request.take(), hash), until);
    }

    /// Passes waiting requests to the connection, as far as there is room.
    pub(super) fn admit_waiting(&mut self) {
        if self.queue.len() == 0 || self.admitting {
            return;
        }
        self.admitting = true;
        while let Some((id, first)) = self.queue.first() {
            // A connection that is closing refuses each request itself, until it is closed.
            let phase = self.conn.phase();
            if phase < Phase::Draining && !self.has_room_for(first) {
                break;
            }
            let Some(request) = self.queue.remove(id) else { break };
            if phase == Phase::Closed {
                self.answer(id, response::no_session());
                continue;
            }
            let until = self.clock + self.options.limits.stream_after;
            let Some(exchange) = self.exchanges.get_mut(id.0) else { continue };
            exchange.form = Form::Open { until };
            self.add_deadline(Deadline { at: until, wake: Wake::StreamAfter });
            let event = self.begin(id, &request).map(Event::into_owned);
            self.events.extend(event);
        }
        self.admitting = false;
    }

    /// Refuses requests that have waited for too long.
    pub(super) fn refuse_late(&mut self, now: Timestamp) {
        while self.queue.next().is_some_and(|next| next.at <= now)
            && let Some((id, _)) = self.queue.first()
        {
            let request = self.queue.remove(id);
            let id_of = request.as_ref().and_then(Request::id);
            self.answer(id, response::busy_with(id_of, "The server is too busy for the request"));
        }
    }

    /// Cancels the waiting requests that a notification, or a batch with notifications, cancels.
    pub(super) fn cancel_waiting(&mut self, request: &Request) {
        if self.queue.len() == 0 {
            return;
        }
        match request.kind {
            BodyKind::Notification if request.method() == Some(Method::Cancelled.as_str()) => {
                request.message().into_iter().for_each(|message| self.cancel_waiting_by(&message));
            }
            BodyKind::Batch if self.conn.version().is_some_and(ProtocolVersion::has_batches) => {
                let limits = self.conn.limits();
                let (depth, most) = (limits.json_depth, limits.batch_members);
                let Ok(text) = wire::text(&request.body) else { return };
                // A batch that is refused as too large cancels nothing.
                if ArrayIter::new(text, depth).take(most.saturating_add(1)).count() > most {
                    return;
                }
                for member in ArrayIter::new(text, depth) {
                    Message::parse(member, depth).iter().for_each(|message| self.cancel_waiting_by(message));
                }
            }
            _ => {}
        }
    }

    fn cancel_waiting_by(&mut self, message: &Message<'_>) {
        let Message::Notification { method, params: Some(params), .. } = message else { return };
        if method != Method::Cancelled.as_str() {
            return;
        }
        let Some(id) = params.member("requestId").and_then(|id| RequestId::from_token(id.get())) else { return };
        let find = |id: &RequestId| self.queue.find(id, self.conn.hash_of(id));
        // A request in flight with exactly this id has precedence over a waiting one whose id is of the other type.
        let retyped = || id.retyped().filter(|_| !self.conn.has_request(&id)).and_then(|id| find(&id));
        let Some(waits) = find(&id).or_else(retyped) else { return };
        self.queue.remove(waits);
        if matches!(self.kind, SessionKind::Old { .. }) {
            return self.answer(waits, response::empty(StatusCode::ACCEPTED));
        }
        self.cut(waits);
    }

    /// Updates how many bytes the requests of this session take.
    pub(super) fn weigh_requests(&mut self) {
        self.load.set(self.conn.request_bytes() + ENTRY * self.conn.request_count() + self.queue.bytes);
    }
}

impl Request {
    /// Returns the request with its body, and keeps a copy without the body.
    fn take(&mut self) -> Self {
        Self {
            target: self.target.clone(),
            kind: self.kind,
            config: self.config.clone(),
            principal: self.principal.clone(),
            client: self.client.clone(),
            is_known_here: self.is_known_here,
            weight: self.weight,
            body: core::mem::take::<Vec<u8>>(&mut self.body),
            offsets: self.offsets.take(),
            known_client: self.known_client.take(),
            extension: self.extension.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        connection::ServerConfig,
        http::{
            SessionId,
            server::{Caller, clients::Clients},
        },
        schema::Implementation,
        wire::MessageOffsets,
    };

    fn request(id: u64) -> Request {
        let body = alloc::format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#).into_bytes();
        let text = wire::text(&body).expect("text");
        let offsets = MessageOffsets::of(text, Message::parse(text, 10).expect("a message"));
        Request {
            target: Target::Message(SessionId::new([0; 24])),
            kind: BodyKind::Request,
            config: ServerConfig::new(Implementation::new("s", "1"), 0).into(),
            principal: None,
            client: Clients::new().of(&Caller::Anybody),
            is_known_here: true,
            weight: body.len(),
            body,
            offsets,
            known_client: None,
            extension: None,
        }
    }

    #[test]
    fn removed_requests_leave_no_entries() {
        let mut queue = Queue::default();
        queue.push(ExchangeId(1), (request(1), 1), Timestamp::ZERO);
        for number in 2..10_000 {
            queue.push(ExchangeId(number), (request(number), number % 7), Timestamp::ZERO);
            assert!(queue.remove(ExchangeId(number)).is_some());
            assert!(queue.remove(ExchangeId(number)).is_none());
            assert!(queue.all.len() <= 2 + MIN_STALE, "{} entries for one that waits", queue.all.len());
        }
        assert_eq!((queue.len(), queue.by_id.len(), queue.bytes), (1, 1, request(1).waiting_weight()));
    }

    #[test]
    fn finds_queued_requests_by_id() {
        let mut queue = Queue::default();
        let hash = |id: u64| id % 3;
        for number in 1..=100 {
            queue.push(ExchangeId(number), (request(number / 2), hash(number / 2)), Timestamp::ZERO);
        }
        let find = |queue: &Queue, id: u64| queue.find(&RequestId::from(id), hash(id));
        // Of several requests with one id, the first is found.
        assert_eq!(find(&queue, 20), Some(ExchangeId(40)));
        assert!(queue.remove(ExchangeId(40)).is_some());
        assert_eq!(find(&queue, 20), Some(ExchangeId(41)));
        assert!(queue.remove(ExchangeId(41)).is_some());
        assert_eq!(find(&queue, 20), None);
        assert_eq!(queue.find(&RequestId::from(21), hash(20)), None, "that is not its hash");
        assert_eq!(queue.first().map(|(id, _)| id), Some(ExchangeId(1)));
    }

    #[test]
    fn queue_counts_what_waits() {
        let mut queue = Queue::default();
        assert_eq!((queue.len(), queue.next()), (0, None));
        let at = |nanos| Timestamp::from_nanos(nanos);
        let weight = request(1).weight + 1024;
        for number in 1..=3 {
            queue.push(ExchangeId(number), (request(number), number), at(10 * number));
        }
        assert_eq!((queue.len(), queue.bytes), (3, 3 * weight));
        let deadline = |nanos| Some(Deadline { at: at(nanos), wake: Wake::Admission });
        assert_eq!(queue.next(), deadline(10));
        assert!(queue.get(ExchangeId(2)).is_some() && queue.get(ExchangeId(4)).is_none());
        queue.remove(ExchangeId(2));
        assert!(queue.get(ExchangeId(2)).is_none());
        assert_eq!((queue.next(), queue.all.len()), (deadline(10), 3));
        queue.remove(ExchangeId(1));
        assert_eq!((queue.next(), queue.all.len(), queue.bytes), (deadline(30), 1, weight));
    }

    #[test]
    fn queue_is_compacted_above_64_removed_requests() {
        let mut queue = Queue::default();
        queue.push(ExchangeId(1), (request(1), 1), Timestamp::ZERO);
        for number in 2..=66 {
            queue.push(ExchangeId(number), (request(number), 1), Timestamp::ZERO);
            queue.remove(ExchangeId(number));
            assert_eq!(queue.all.len(), usize::try_from(number).expect("few"));
        }
        queue.push(ExchangeId(67), (request(67), 1), Timestamp::ZERO);
        queue.remove(ExchangeId(67));
        assert_eq!(queue.all.len(), 1);
    }
}
