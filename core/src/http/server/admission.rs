//! Requests that wait until there is room for them in their session, and what all requests of an endpoint take.

use alloc::{boxed::Box, collections::VecDeque, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicUsize, Ordering};

use super::{
    ExchangeId, Request, Session,
    exchange::Form,
    intake::{Kind, Work},
    session::Way,
};
use crate::{
    connection::Event,
    http::{
        Answer, Deadline, Wake,
        answer::{self, busy},
    },
    protocol::{Method, Phase},
    rpc::{Empty, Timestamp},
    wire::{Message, RequestId},
};

/// What a request that waits takes beside its body.
const ENTRY: usize = 1 << 10;

/// For each exchange that a session may have, so many requests may wait.
const WAITING: usize = 16;

/// What a session takes of what the requests of all sessions may take.
#[derive(Debug)]
pub(super) struct Load {
    of: Arc<AtomicUsize>,
    taken: usize,
}

impl Load {
    pub(super) fn new(of: &Arc<AtomicUsize>) -> Self {
        Self { of: of.clone(), taken: 0 }
    }

    fn set(&mut self, bytes: usize) {
        if bytes > self.taken {
            self.of.fetch_add(bytes - self.taken, Ordering::Relaxed);
        } else if bytes < self.taken {
            self.of.fetch_sub(self.taken - bytes, Ordering::Relaxed);
        }
        self.taken = bytes;
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Requests that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Queue {
    all: VecDeque<Queued>,
    /// How many of them still wait.
    len: usize,
    bytes: usize,
}

impl Empty for Queue {
    const EMPTY: &'static Self = &Self { all: VecDeque::new(), len: 0, bytes: 0 };
}

#[derive(Debug)]
struct Queued {
    id: ExchangeId,
    /// `None` once it does not wait any more.
    request: Option<Request>,
    until: Timestamp,
}

impl Request {
    fn weight(&self) -> usize {
        self.body.len() + ENTRY
    }
}

impl Queue {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// When the first of them has waited for long enough.
    pub(super) fn next(&self) -> Option<Deadline> {
        self.all.front().map(|first| Deadline { at: first.until, wake: Wake::Admission })
    }

    fn push(&mut self, id: ExchangeId, request: Request, until: Timestamp) {
        self.len += 1;
        self.bytes += request.weight();
        self.all.push_back(Queued { id, request: Some(request), until });
    }

    /// A request does not wait any more.
    pub(super) fn remove(&mut self, id: ExchangeId) -> Option<Request> {
        let at = self.all.partition_point(|queued| queued.id < id);
        let request = self.all.get_mut(at).filter(|queued| queued.id == id)?.request.take()?;
        self.len -= 1;
        self.bytes -= request.weight();
        self.tidy();
        Some(request)
    }

    fn tidy(&mut self) {
        while self.all.front().is_some_and(|first| first.request.is_none()) {
            self.all.pop_front();
        }
        if self.all.is_empty() {
            self.all = VecDeque::new();
        }
    }

    fn first(&self) -> Option<(ExchangeId, &Request)> {
        let first = self.all.front()?;
        Some((first.id, first.request.as_ref()?))
    }

    fn find(&self, id: &RequestId) -> Option<ExchangeId> {
        let is_it = |queued: &&Queued| queued.request.as_ref().and_then(Request::id) == Some(id);
        self.all.iter().find(is_it).map(|queued| queued.id)
    }
}

impl Session {
    /// Whether a request has to wait until it is brought to the connection.
    pub(super) fn has_to_wait(&self, request: &Request) -> Result<bool, Box<Answer>> {
        let limits = &self.options.limits;
        let open = self.exchanges.len();
        let fits = |open: usize, most: usize| {
            if open < most { Ok(false) } else { Err(Box::new(busy("There are too many requests in this session"))) }
        };
        if !matches!(self.kind, Way::Streams { .. }) {
            return fits(open, limits.exchanges);
        }
        let open = open - self.queue.len();
        match (request.kind, &request.work) {
            // They may be what requests in flight wait for, and are answered at once.
            (Kind::Notification | Kind::Response, _) => fits(open, limits.exchanges.saturating_mul(2)),
            // The endpoint has forgotten a session that is to end: it ends however many requests there are.
            (_, Work::End(_)) => Ok(false),
            (Kind::Nothing | Kind::Batch, _) | (_, Work::Initialize) => fits(open, limits.exchanges),
            (Kind::Request, _) if self.queue.len() == 0 && self.has_room_for(request) => Ok(false),
            (Kind::Request, _) => {
                let bytes = self.queue.bytes.saturating_add(request.weight());
                let is_full = bytes > limits.request_bytes / 2 || self.queue.len() >= WAITING * limits.exchanges;
                if is_full { Err(Box::new(busy("Too many requests wait in this session"))) } else { Ok(true) }
            }
        }
    }

    fn has_room_for(&self, request: &Request) -> bool {
        self.exchanges.len() - self.queue.len() < self.options.limits.exchanges
            && self.conn.has_room_for_inbound(request.body.len())
    }

    /// Has a request wait until there is room for it.
    pub(super) fn wait_for_room(&mut self, id: ExchangeId, request: &mut Request) {
        let until = self.clock + self.options.limits.admission;
        self.queue.push(id, request.take(), until);
    }

    /// Brings requests that have waited to the connection, as far as there is room.
    pub(super) fn admit_waiting(&mut self) {
        if self.queue.len() == 0 || self.admitting {
            return;
        }
        self.admitting = true;
        while let Some((id, first)) = self.queue.first() {
            // Those that come too late are refused one by one.
            let is_closing = self.conn.phase() >= Phase::Draining;
            if !is_closing && !self.has_room_for(first) {
                break;
            }
            let Some(request) = self.queue.remove(id) else { break };
            let until = self.clock + self.options.limits.patience;
            let Some(exchange) = self.exchanges.get_mut(id.0) else { continue };
            exchange.form = Form::Open { until };
            self.look_at(Deadline { at: until, wake: Wake::Patience });
            let event = self.begin(id, &request).map(Event::into_owned);
            self.events.extend(event);
        }
        self.admitting = false;
    }

    /// Refuses requests that have waited for long enough.
    pub(super) fn refuse_late(&mut self, now: Timestamp) {
        while self.queue.next().is_some_and(|next| next.at <= now)
            && let Some((id, _)) = self.queue.first()
        {
            let request = self.queue.remove(id);
            let id_of = request.as_ref().and_then(Request::id);
            self.answer(id, answer::busy_with(id_of, "There was no room for the request in time"));
        }
    }

    /// A notification may cancel a request that waits.
    pub(super) fn cancel_waiting(&mut self, request: &Request) {
        if self.queue.len() == 0 || request.method() != Some(Method::Cancelled.as_str()) {
            return;
        }
        let Some(Message::Notification { params: Some(params), .. }) = request.message() else { return };
        let id = params.member("requestId").and_then(|id| RequestId::from_token(id.get()));
        let Some(id) = id.and_then(|id| self.queue.find(&id)) else { return };
        self.queue.remove(id);
        self.cut(id);
    }

    /// Takes note of what the requests of this session take.
    pub(super) fn weigh_requests(&mut self) {
        let bytes = self.conn.request_bytes() + self.queue.bytes;
        if bytes != self.load.taken {
            self.load.set(bytes);
        }
    }
}

impl Request {
    /// Everything in it. What stays says what it is for.
    fn take(&mut self) -> Self {
        Self {
            work: self.work.clone(),
            kind: self.kind,
            principal: self.principal.clone(),
            body: core::mem::take::<Vec<u8>>(&mut self.body),
            outline: self.outline.take(),
        }
    }
}
