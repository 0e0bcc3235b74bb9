//! A service behind an endpoint.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    sync::{Arc, Mutex, Weak},
    task::{Context, Waker},
    time::Instant,
};

use http::{HeaderValue, StatusCode, header, request::Parts};
use mcp_proto::{
    http::{
        Answer, SessionId,
        server::{Caller, Endpoint, Intake, Options as Endpoints, Request},
    },
    rpc::Timestamp,
};

use super::{
    Reply,
    visit::{Others, Room, Visit},
};
use crate::{
    Later, Service,
    drive::{Options, Runtime, Watch, carrier::Carrier, desk::Desk, hub::Hub},
    random::Random,
    sync::lock,
};

/// A service behind an endpoint of HTTP, and the sessions that it has there. It is cheap to clone; when the last clone is
/// dropped, it begins to [close](Self::begin_close).
///
/// An adapter, for each request: [`begin`](Self::begin) with its head, [`feed`](Intake::feed) it the body,
/// [`end`](Intake::end) it, and [`open`](Self::open) what comes of that. Each of these may refuse it with an answer, and
/// the rest of it need not be read then.
pub struct Web<R: Runtime>(Arc<Front<R>>);

/// Closes when it is dropped.
struct Front<R: Runtime> {
    house: Arc<House>,
    service: Service,
    options: Options,
    random: Random,
    runtime: R,
}

/// What there is, for those who work in it.
struct House {
    door: Mutex<Endpoint<Arc<Room>>>,
    rooms: Watch<Rooms>,
    epoch: Instant,
}

/// The sessions that are not over, and the requests that stand alone and were not done at once.
#[derive(Default)]
struct Rooms {
    closing: bool,
    next: u64,
    all: BTreeMap<u64, Weak<Room>>,
}

impl<R: Runtime> Web<R> {
    /// Puts a service behind an endpoint. `options` say how each of its sessions is run.
    #[must_use]
    pub fn new(service: &Service, endpoint: Endpoints, options: &Options, runtime: R) -> Self {
        let house = House {
            door: Mutex::new(Endpoint::new(service.config(), endpoint)),
            rooms: Watch::default(),
            epoch: Instant::now(),
        };
        Self(Arc::new(Front {
            house: Arc::new(house),
            service: service.clone(),
            options: options.clone(),
            random: Random::default(),
            runtime,
        }))
    }

    /// A request has come in: its head, and who sends it.
    ///
    /// # Errors
    /// The answer, if it is refused.
    pub fn begin(&self, head: &Parts, caller: Caller) -> Result<Intake, Box<Answer>> {
        let house = &self.0.house;
        if house.rooms.look(|rooms| rooms.closing) {
            return Err(unavailable());
        }
        lock(&house.door).begin(head, caller)
    }

    /// Brings a request to whom it is for.
    ///
    /// # Errors
    /// The answer, if it is refused.
    pub fn open(&self, request: &Request) -> Result<Reply, Box<Answer>> {
        let front = &*self.0;
        let house = &front.house;
        let random = front.random.bytes().map_err(|_| unavailable())?;
        let mut is_new = false;
        let room = lock(&house.door).route(house.now(), request, random, |session| {
            is_new = true;
            Hub::since(house.epoch, Visit::new(session), &front.options)
        })?;
        if is_new {
            return Ok(front.begin(room, request));
        }
        let mut state = lock(&room.state);
        let now = room.now();
        let (exchange, event) = state.carrier.session.open(now, request);
        let event = event.map(mcp_proto::connection::Event::into_owned);
        state.events.extend(event);
        room.settle(state, now);
        Ok(Reply::new(room, exchange))
    }

    /// Begins to end every session, and does not wait: nothing new is begun, and what was promised may still be answered
    /// for a while.
    pub fn begin_close(&self) {
        self.0.house.close();
    }

    /// Waits until it has been closed and all that belongs to it is gone, which takes a bounded time however clients behave.
    pub fn wait(&self) -> Later<()> {
        let house = self.0.house.clone();
        Later::new(async move {
            house.rooms.until(|rooms| (rooms.closing && rooms.all.is_empty()).then_some(())).await;
        })
    }

    /// How many sessions there are.
    #[must_use]
    pub fn sessions(&self) -> usize {
        lock(&self.0.house.door).len()
    }
}

impl<R: Runtime> Front<R> {
    /// Begins a session with its first request. Most requests that stand alone are done at once, and take no task.
    fn begin(&self, room: Arc<Room>, request: &Request) -> Reply {
        let desk = Desk::new(room.clone(), Arc::new(self.service.session()), self.runtime.clone());
        let mut state = lock(&room.state);
        let now = room.now();
        let (exchange, event) = state.carrier.session.open(now, request);
        let id = state.carrier.session.id().cloned();
        drop(state);
        let place = Place { house: self.house.clone(), id, number: None };
        if let Some(event) = event {
            desk.post.hand_out(event);
        }
        let mut stay = Box::pin(stay(desk));
        if stay.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            let place = place.taken(&room);
            let stay = async move {
                let _place = place;
                stay.await;
            };
            R::detach(self.runtime.spawn(stay));
        }
        Reply::new(room, exchange)
    }
}

/// Runs a session to its end.
async fn stay<R: Runtime>(mut desk: Desk<mcp_proto::connection::ServerEnd, Visit, R>) {
    desk.until_closed(&mut Others).await;
    // The core sees to it that this takes no longer than its limit says, and whoever writes takes the rest from there.
    desk.until(&mut Others, None, |desk, _, _| {
        let now = desk.post.hub.now();
        lock(&desk.post.hub.state).carrier.connection(now).is_drained()
    })
    .await;
    desk.end_jobs(&mut Others).await;
}

impl House {
    fn now(&self) -> Timestamp {
        Timestamp::after_zero(self.epoch.elapsed())
    }

    fn close(&self) {
        let all: Vec<_> = self.rooms.change(|rooms| {
            rooms.closing = true;
            rooms.all.values().filter_map(Weak::upgrade).collect()
        });
        for room in all {
            room.run(|visit, now| visit.session.close(now));
        }
    }
}

/// The place of a session in its house, which it gives up when it is over.
struct Place {
    house: Arc<House>,
    id: Option<SessionId>,
    number: Option<u64>,
}

impl Place {
    fn taken(mut self, room: &Arc<Room>) -> Self {
        let closing = self.house.rooms.change(|rooms| {
            rooms.next += 1;
            rooms.all.insert(rooms.next, Arc::downgrade(room));
            self.number = Some(rooms.next);
            rooms.closing
        });
        if closing {
            // It has come in while all others were closed.
            room.run(|visit, now| visit.session.close(now));
        }
        self
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let forgotten = self.id.as_ref().and_then(|id| lock(&self.house.door).forget(id));
        drop(forgotten);
        if let Some(number) = self.number {
            self.house.rooms.change(|rooms| rooms.all.remove(&number));
        }
    }
}

/// 503: the server is about to leave, or has nothing to make ids of.
fn unavailable() -> Box<Answer> {
    let mut answer = Answer::new(Vec::new());
    *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    Box::new(answer)
}

impl<R: Runtime> Drop for Front<R> {
    fn drop(&mut self) {
        self.house.close();
    }
}

impl<R: Runtime> Clone for Web<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R: Runtime> fmt::Debug for Web<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sessions, running) = (self.sessions(), self.0.house.rooms.look(|rooms| rooms.all.len()));
        f.debug_struct("Web").field("sessions", &sessions).field("running", &running).finish_non_exhaustive()
    }
}
