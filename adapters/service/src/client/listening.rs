//! What a client listens to (2026-07-28), from one connection to the next.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, Weak},
};

use mcp_proto::{
    connection::{ClientEnd, Outcome, RequestOptions, SendError},
    protocol::Era,
    rpc::CallId,
    schema::{SubscriptionFilter, SubscriptionsAcknowledgedParams, SubscriptionsListenParams},
    wire::RawJson,
};

use crate::{
    driver_api::connection_handle::Link,
    outbound::{
        calls::{Calls, Desk},
        error::CallError,
        peer::Peer,
        pending::Pending,
    },
    util::lock::lock,
};

/// What a client wants to hear of, whichever connection it has to its server.
///
/// Each session has one, and fills it by what it [listens](Peer::listen) to. Handed to the session on the next connection
/// ([`Host::session_with`](crate::Host::session_with)), it is asked for there as soon as that is ready. So whoever has
/// lost a server and found it again still hears of the same changes; of those in between nobody has told, so look anew.
///
/// Clones are one and the same.
#[derive(Clone, Default)]
pub struct Subscriptions(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    next: u64,
    wanted: BTreeMap<u64, Wanted>,
}

struct Wanted {
    filter: SubscriptionFilter,
    options: RequestOptions,
    state: State,
}

/// Where a subscription stands.
enum State {
    /// There is no connection for it, or one that does not have it.
    Resting,
    /// The server was asked.
    Asked(Place),
    /// The server tells of this.
    Heard(Place, SubscriptionFilter),
    /// The server will not, or not any more.
    Over(Option<CallError>),
}

/// A request on one of the connections.
#[derive(Clone)]
struct Place {
    /// The number of the connection's calls.
    connection: u64,
    call: CallId,
    desk: Weak<dyn Desk>,
}

impl State {
    fn place(&self) -> Option<&Place> {
        match self {
            Self::Asked(place) | Self::Heard(place, _) => Some(place),
            Self::Resting | Self::Over(_) => None,
        }
    }
}

impl Subscriptions {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many there are, in force or not.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.0).wanted.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn add(&self, filter: SubscriptionFilter, options: RequestOptions) -> Listening {
        let mut book = lock(&self.0);
        let id = book.next;
        book.next += 1;
        book.wanted.insert(id, Wanted { filter: filter.clone(), options, state: State::Resting });
        Listening { book: self.clone(), id, filter }
    }

    fn with<R>(&self, id: u64, f: impl FnOnce(&mut Wanted) -> R) -> Option<R> {
        lock(&self.0).wanted.get_mut(&id).map(f)
    }

    /// The subscription that was asked for with this call.
    fn find<R>(&self, connection: u64, call: CallId, f: impl FnOnce(&mut Wanted) -> R) -> Option<R> {
        let mut book = lock(&self.0);
        let mut all = book.wanted.values_mut();
        let is_it = |place: &Place| (place.connection, place.call) == (connection, call);
        all.find(|wanted| wanted.state.place().is_some_and(is_it)).map(f)
    }

    /// The server says what it tells.
    pub(crate) fn acknowledged(&self, connection: u64, call: CallId, params: &RawJson<'_>) -> bool {
        let params = params.decode::<SubscriptionsAcknowledgedParams>();
        let agreed = params.map(|params| params.notifications).unwrap_or_default();
        let heard = |wanted: &mut Wanted| {
            if let Some(place) = wanted.state.place().cloned() {
                wanted.state = State::Heard(place, agreed);
            }
        };
        self.find(connection, call, heard).is_some()
    }

    /// A call has ended, which may be one of these.
    pub(crate) fn ended(&self, connection: u64, call: CallId, outcome: &Outcome<'_>) {
        self.find(connection, call, |wanted| {
            wanted.state = match outcome {
                Outcome::Closed(_) => State::Resting,
                Outcome::Result(_) | Outcome::Cancelled => State::Over(None),
                outcome => State::Over(CallError::of(outcome.clone()).err()),
            };
        });
    }

    /// A connection has ended without saying so of each of its calls.
    pub(crate) fn lost(&self, connection: u64) {
        for wanted in lock(&self.0).wanted.values_mut() {
            if wanted.state.place().is_some_and(|place| place.connection == connection) {
                wanted.state = State::Resting;
            }
        }
    }

    /// There is a connection again: asks for everything that rests.
    pub(super) fn resume(&self, link: &Arc<dyn Link<ClientEnd>>, calls: &Arc<Calls<ClientEnd>>) {
        let resting: Vec<u64> = {
            let book = lock(&self.0);
            book.wanted.iter().filter(|(_, it)| matches!(it.state, State::Resting)).map(|(id, _)| *id).collect()
        };
        for id in resting {
            // What cannot be sent now waits for the next connection.
            let _ = self.ask(id, link, calls, |_| {});
        }
    }

    /// Asks the server, and notes that before anything can come of it.
    fn ask<R>(
        &self,
        id: u64,
        link: &Arc<dyn Link<ClientEnd>>,
        calls: &Arc<Calls<ClientEnd>>,
        enter: impl FnOnce(CallId) -> R,
    ) -> Result<Option<(CallId, R)>, SendError> {
        link.run(|conn, now| {
            let Some((params, options)) =
                self.with(id, |wanted| (SubscriptionsListenParams::new(wanted.filter.clone()), wanted.options.clone()))
            else {
                return Ok(None);
            };
            let call = conn.request(now, &params, options)?;
            let desk: Arc<dyn Desk> = calls.clone();
            let place = Place { connection: calls.number(), call, desk: Arc::downgrade(&desk) };
            if self.with(id, |wanted| wanted.state = State::Asked(place)).is_none() {
                // Nobody wants it any more.
                let _ = conn.cancel(call, None);
                return Ok(None);
            }
            Ok(Some((call, enter(call))))
        })
    }
}

impl fmt::Debug for Subscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subscriptions").field(&self.len()).finish()
    }
}

/// A subscription, for as long as it is held. What it hears goes to the handlers of the
/// [`Host`](crate::HostBuilder::on).
///
/// It outlasts its connection: see [`Subscriptions`]. A server that ends it is asked again, after a pause, and only so
/// [often](mcp_proto::connection::Limits::relistens).
#[must_use = "dropping it ends the subscription"]
pub struct Listening {
    book: Subscriptions,
    id: u64,
    filter: SubscriptionFilter,
}

impl Listening {
    /// What was asked for.
    #[must_use]
    pub const fn filter(&self) -> &SubscriptionFilter {
        &self.filter
    }

    /// What the server tells of; `None` while it does not.
    #[must_use]
    pub fn agreed(&self) -> Option<SubscriptionFilter> {
        self.book.with(self.id, |wanted| match &wanted.state {
            State::Heard(_, agreed) => Some(agreed.clone()),
            _ => None,
        })?
    }

    /// What was asked for and is not told of, because the server does not have it or is not there.
    #[must_use]
    pub fn missing(&self) -> SubscriptionFilter {
        let agreed = self.agreed().unwrap_or_default();
        let flag = |wanted: Option<bool>, agreed: Option<bool>| wanted.filter(|wanted| *wanted && agreed != Some(true));
        let names = |wanted: &Option<Vec<String>>, agreed: &Option<Vec<String>>| {
            let is_told = |name: &&String| agreed.as_ref().is_some_and(|agreed| agreed.contains(name));
            let missing: Vec<_> = wanted.iter().flatten().filter(|name| !is_told(name)).cloned().collect();
            (!missing.is_empty()).then_some(missing)
        };
        SubscriptionFilter {
            tools_list_changed: flag(self.filter.tools_list_changed, agreed.tools_list_changed),
            prompts_list_changed: flag(self.filter.prompts_list_changed, agreed.prompts_list_changed),
            resources_list_changed: flag(self.filter.resources_list_changed, agreed.resources_list_changed),
            resource_subscriptions: names(&self.filter.resource_subscriptions, &agreed.resource_subscriptions),
            task_ids: names(&self.filter.task_ids, &agreed.task_ids),
            ..SubscriptionFilter::default()
        }
    }

    /// Whether nothing comes any more, on this connection or on another one: the server has refused it, or has ended it
    /// too often.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.book.with(self.id, |wanted| matches!(wanted.state, State::Over(_))).unwrap_or(true)
    }

    /// The error that the server has ended it with, if it was one.
    #[must_use]
    pub fn error(&self) -> Option<CallError> {
        self.book.with(self.id, |wanted| match &wanted.state {
            State::Over(error) => error.clone(),
            _ => None,
        })?
    }

    /// Ends it. Dropping it does the same.
    pub fn close(self) {}
}

impl Drop for Listening {
    fn drop(&mut self) {
        let wanted = lock(&self.book.0).wanted.remove(&self.id);
        let place = wanted.and_then(|wanted| wanted.state.place().cloned());
        if let Some((desk, call)) = place.and_then(|place| Some((place.desk.upgrade()?, place.call))) {
            desk.hang_up(call, None);
        }
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").field("filter", &self.filter).finish_non_exhaustive()
    }
}

impl Peer<ClientEnd> {
    /// Wants to hear of changes (2026-07-28): of lists, of resources, of tasks. It comes back as soon as the server has
    /// said of which it tells, which has to be in time; the subscription itself lasts for as long as it is held.
    ///
    /// In a session the changes of lists are told anyway, and [`subscribe`](Self::subscribe) is for resources.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn listen(&self, filter: SubscriptionFilter) -> Result<Pending<Listening>, SendError> {
        let mut options = self.options().unwrap_or_else(|| self.link().look(|conn| conn.settings().request.clone()));
        options.relisten = true;
        let listening = self.subscriptions().add(filter, options);
        let (link, calls) = (self.link(), self.calls());
        let asked = self.subscriptions().ask(listening.id, link, calls, |call| calls.enter(call, false))?;
        // It is wanted for as long as it is held here.
        let (call, waiter) = asked.ok_or(SendError::Closed)?;
        Ok(Pending::new(call, waiter, calls.clone(), move |_, _| Ok(listening)))
    }

    /// What this client listens to, to be handed to the session on the next connection.
    #[must_use]
    pub fn subscriptions(&self) -> &Subscriptions {
        self.calls().subscriptions()
    }
}

/// The connection is ready: what was listened to on an earlier one is listened to again.
pub(super) fn ready(link: &Arc<dyn Link<ClientEnd>>, calls: &Arc<Calls<ClientEnd>>) {
    let is_modern = link.look(|conn| conn.version().is_some_and(|version| version.era() == Era::Modern));
    if is_modern {
        calls.subscriptions().resume(link, calls);
    }
}
