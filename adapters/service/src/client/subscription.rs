//! What a client listens to (2026-07-28), from one connection to the next.

use std::{fmt, sync::Arc};

use mcp_proto::{
    connection::{ClientRole, SendError},
    protocol::Era,
    rpc::CallId,
    schema::{SubscriptionFilter, SubscriptionsListenParams},
};

use crate::{
    driver_api::connection_handle::ConnectionHandle,
    outbound::{
        calls::Calls,
        cancel::Desk,
        error::CallError,
        peer::Peer,
        pending::Pending,
        subscriptions::{Place, State, Subscriptions},
    },
};

/// A subscription, for as long as it is held. What it hears goes to the handlers of the
/// [`Host`](crate::HostBuilder::on).
///
/// It outlasts its connection: see [`Subscriptions`]. A server that ends it is asked again, after a pause, and only so
/// [often](mcp_proto::connection::Limits::resubscriptions).
#[must_use = "dropping it ends the subscription"]
pub struct Subscription {
    table: Subscriptions,
    id: u64,
    filter: SubscriptionFilter,
}

impl Subscription {
    /// What was asked for.
    #[must_use]
    pub const fn filter(&self) -> &SubscriptionFilter {
        &self.filter
    }

    /// What the server tells of; `None` while it does not.
    #[must_use]
    pub fn agreed(&self) -> Option<SubscriptionFilter> {
        self.table.with(self.id, |wanted| match &wanted.state {
            State::Active(_, agreed) => Some(agreed.clone()),
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
        self.table.with(self.id, |wanted| matches!(wanted.state, State::Ended(_))).unwrap_or(true)
    }

    /// The error that the server has ended it with, if it was one.
    #[must_use]
    pub fn error(&self) -> Option<CallError> {
        self.table.with(self.id, |wanted| match &wanted.state {
            State::Ended(error) => error.clone(),
            _ => None,
        })?
    }

    /// Ends it. Dropping it does the same.
    pub fn close(self) {}
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let place = self.table.remove(self.id);
        if let Some((desk, call)) = place.and_then(|place| Some((place.desk.upgrade()?, place.call))) {
            desk.hang_up(call, None);
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("filter", &self.filter).finish_non_exhaustive()
    }
}

/// Requests of subscriptions.
impl Subscriptions {
    /// There is a connection again: asks for everything that rests.
    fn resume(&self, connection: &Arc<dyn ConnectionHandle<ClientRole>>, calls: &Arc<Calls<ClientRole>>) {
        for id in self.resting() {
            // What cannot be sent now waits for the next connection.
            let _ = self.ask(id, connection, calls, |_| {});
        }
    }

    /// Asks the server, and notes that before anything can come of it.
    fn ask<R>(
        &self,
        id: u64,
        connection: &Arc<dyn ConnectionHandle<ClientRole>>,
        calls: &Arc<Calls<ClientRole>>,
        enter: impl FnOnce(CallId) -> R,
    ) -> Result<Option<(CallId, R)>, SendError> {
        connection.update(|conn, now| {
            let Some((params, options)) =
                self.with(id, |wanted| (SubscriptionsListenParams::new(wanted.filter.clone()), wanted.options.clone()))
            else {
                return Ok(None);
            };
            let call = conn.request(now, &params, options)?;
            let desk: Arc<dyn Desk> = calls.clone();
            let place = Place { connection: calls.number(), call, desk: Arc::downgrade(&desk) };
            if self.with(id, |wanted| wanted.state = State::Asked(place)).is_none() {
                // The subscription was dropped in between.
                let _ = conn.cancel(call, None);
                return Ok(None);
            }
            Ok(Some((call, enter(call))))
        })
    }
}

impl Peer<ClientRole> {
    /// Wants to hear of changes (2026-07-28): of lists, of resources, of tasks. It comes back as soon as the server has
    /// said of which it tells, which has to be in time; the subscription itself lasts for as long as it is held.
    ///
    /// In a session the changes of lists are told anyway, and [`subscribe`](Self::subscribe) is for resources.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn listen(&self, filter: SubscriptionFilter) -> Result<Pending<Subscription>, SendError> {
        let mut options =
            self.options().unwrap_or_else(|| self.connection().read(|conn| conn.settings().request.clone()));
        options.resubscribe = true;
        let table = self.subscriptions().clone();
        let subscription = Subscription { id: table.add(filter.clone(), options), table, filter };
        let (connection, calls) = (self.connection(), self.calls());
        let asked = subscription.table.ask(subscription.id, connection, calls, |call| calls.enter(call, false))?;
        // It is wanted for as long as it is held here.
        let (call, slot) = asked.ok_or(SendError::Closed)?;
        Ok(Pending::new(call, slot, calls.clone(), move |_, _| Ok(subscription)))
    }

    /// What this client listens to, to be handed to the session on the next connection.
    #[must_use]
    pub fn subscriptions(&self) -> &Subscriptions {
        self.calls().subscriptions()
    }
}

/// The connection is ready: what was listened to on an earlier one is listened to again.
pub(super) fn ready(connection: &Arc<dyn ConnectionHandle<ClientRole>>, calls: &Arc<Calls<ClientRole>>) {
    let is_modern = connection.read(|conn| conn.version().is_some_and(|version| version.era() == Era::Modern));
    if is_modern {
        calls.subscriptions().resume(connection, calls);
    }
}
