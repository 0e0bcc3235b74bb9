//! Subscriptions of a client (2026-07-28), which outlast their connection.

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
        cancel::CancelCall,
        error::CallError,
        peer::Peer,
        pending::Pending,
        subscriptions::{ListenCall, SubscriptionState, Subscriptions},
    },
};

/// A subscription, for as long as this handle is held. Its notifications go to the [handlers of
/// the host](crate::HostBuilder::on).
///
/// It outlasts its connection: see [`Subscriptions`]. If the server ends it, it is requested again after a pause, up to
/// a [limit](mcp_proto::connection::Limits::resubscriptions).
#[must_use = "dropping it ends the subscription"]
pub struct Subscription {
    table: Subscriptions,
    id: u64,
    filter: SubscriptionFilter,
}

impl Subscription {
    /// Returns the requested filter.
    #[must_use]
    pub const fn filter(&self) -> &SubscriptionFilter {
        &self.filter
    }

    /// Returns the filter to which the server has agreed, or `None` while the subscription is not active.
    #[must_use]
    pub fn agreed(&self) -> Option<SubscriptionFilter> {
        self.table.with(self.id, |entry| match &entry.state {
            SubscriptionState::Active(_, agreed) => Some(agreed.clone()),
            _ => None,
        })?
    }

    /// Returns the part of the filter that is not active, because the server does not support it or is not connected.
    #[must_use]
    pub fn missing(&self) -> SubscriptionFilter {
        let agreed = self.agreed().unwrap_or_default();
        let flag = |requested: Option<bool>, agreed: Option<bool>| {
            requested.filter(|requested| *requested && agreed != Some(true))
        };
        let names = |requested: &Option<Vec<String>>, agreed: &Option<Vec<String>>| {
            let is_agreed = |name: &&String| agreed.as_ref().is_some_and(|agreed| agreed.contains(name));
            let missing: Vec<_> = requested.iter().flatten().filter(|name| !is_agreed(name)).cloned().collect();
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

    /// Returns whether the subscription has ended on every connection: the server has refused it, or has ended it too
    /// often.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.table.with(self.id, |entry| matches!(entry.state, SubscriptionState::Ended(_))).unwrap_or(true)
    }

    /// Returns the error with which the server has ended the subscription, if it was one.
    #[must_use]
    pub fn error(&self) -> Option<CallError> {
        self.table.with(self.id, |entry| match &entry.state {
            SubscriptionState::Ended(error) => error.clone(),
            _ => None,
        })?
    }

    /// Returns how often the server has acknowledged the subscription. Changes between an end and the next
    /// acknowledgement are not notified.
    pub(crate) fn acknowledgements(&self) -> u64 {
        self.table.with(self.id, |entry| entry.acknowledgements).unwrap_or_default()
    }

    /// Ends the subscription, as dropping it does.
    pub fn close(self) {}
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let listen_call = self.table.remove(self.id);
        if let Some((canceller, call)) =
            listen_call.and_then(|listen_call| Some((listen_call.canceller.upgrade()?, listen_call.call)))
        {
            canceller.cancel(call, None);
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
    /// Requests all detached subscriptions on a new connection.
    fn resume(&self, connection: &Arc<dyn ConnectionHandle<ClientRole>>, calls: &Arc<Calls<ClientRole>>) {
        for id in self.detached() {
            // A subscription that cannot be requested now waits for the next connection.
            let _ = self.request(id, connection, calls, |_| {});
        }
    }

    /// Requests a subscription, and stores the call before its response can arrive.
    fn request<R>(
        &self,
        id: u64,
        connection: &Arc<dyn ConnectionHandle<ClientRole>>,
        calls: &Arc<Calls<ClientRole>>,
        enter: impl FnOnce(CallId) -> R,
    ) -> Result<Option<(CallId, R)>, SendError> {
        connection.update(|conn, now| {
            let Some((params, options)) =
                self.with(id, |entry| (SubscriptionsListenParams::new(entry.filter.clone()), entry.options.clone()))
            else {
                return Ok(None);
            };
            let call = conn.request(now, &params, options)?;
            let canceller: Arc<dyn CancelCall> = calls.clone();
            let listen_call = ListenCall { connection: calls.number(), call, canceller: Arc::downgrade(&canceller) };
            if self.with(id, |entry| entry.state = SubscriptionState::Requested(listen_call)).is_none() {
                // The subscription was dropped in between.
                let _ = conn.cancel(call, None);
                return Ok(None);
            }
            Ok(Some((call, enter(call))))
        })
    }
}

impl Peer<ClientRole> {
    /// Subscribes to changes of lists, resources and tasks (2026-07-28). The result is available as soon as the server
    /// has acknowledged the subscription, within the timeouts of the request. The subscription itself lasts as long as
    /// it is held.
    ///
    /// In a session, changes of lists are notified without a subscription, and [`subscribe`](Self::subscribe) is for
    /// resources.
    ///
    /// # Errors
    /// If the request is not allowed now. It was not sent then.
    pub fn listen(&self, filter: SubscriptionFilter) -> Result<Pending<Subscription>, SendError> {
        let mut options =
            self.options().unwrap_or_else(|| self.connection().read(|conn| conn.settings().request.clone()));
        options.resubscribe = true;
        let table = self.subscriptions().clone();
        let subscription = Subscription { id: table.add(filter.clone(), options), table, filter };
        let (connection, calls) = (self.connection(), self.calls());
        let sent = subscription.table.request(subscription.id, connection, calls, |call| calls.insert(call, false))?;
        // It stays in the table as long as it is held here.
        let (call, slot) = sent.ok_or(SendError::Closed)?;
        Ok(Pending::new(call, slot, calls.clone(), move |_, _| Ok(subscription)))
    }

    /// Returns the subscriptions of this client, for the [session](crate::Host::session_with) of the next connection.
    #[must_use]
    pub fn subscriptions(&self) -> &Subscriptions {
        self.calls().subscriptions()
    }
}

/// Requests the subscriptions of an earlier connection again, when the connection is ready.
pub(super) fn ready(connection: &Arc<dyn ConnectionHandle<ClientRole>>, calls: &Arc<Calls<ClientRole>>) {
    let is_modern = connection.read(|conn| conn.version().is_some_and(|version| version.era() == Era::Modern));
    if is_modern {
        calls.subscriptions().resume(connection, calls);
    }
}
