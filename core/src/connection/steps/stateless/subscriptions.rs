//! `subscriptions/listen` (2026-07-28) on the server's side: changes are sent only on the subscriptions that request
//! them.

use alloc::vec::Vec;

use crate::{
    connection::{
        engine::Engine,
        json_splice,
        state::{
            subscriptions::{ActiveSubscription, PendingSubscription},
            tags::{Origin, RequestTag},
        },
        types::{CloseReason, Event, SendError, Violation},
    },
    protocol::{Capability, Method, Phase, ProtocolVersion},
    rpc::{EntryState, FrameOwner, Outbox, ReplyKey},
    schema::{
        Encode, JsonLine, MissingRequiredClientCapability, SubscriptionFilter, SubscriptionsListenParams,
        SubscriptionsListenResult, keys,
    },
    wire::{
        ErrorObject, RawJson, RequestId, decode_params,
        encode::{self, Encoder},
    },
};

/// Returns an estimate of the memory that a filter takes, in bytes.
fn filter_bytes(filter: &SubscriptionFilter) -> usize {
    /// The overhead of a name: its entry in the list, and that of the allocator.
    const NAME: usize = 64;
    let names = filter.resource_subscriptions.iter().chain(&filter.task_ids).flatten();
    names.map(|name| name.len() + NAME).sum()
}

/// Returns whether all members of a filter have the right type. Decoding moves a member of the wrong type to `extra`,
/// where the filter would ignore it.
fn is_well_formed(filter: &SubscriptionFilter) -> bool {
    const MEMBERS: [&str; 5] =
        ["toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions", "taskIds"];
    MEMBERS.iter().all(|member| filter.extra.get(member).is_none())
}

/// Returns the params of the notification that a resource has changed.
fn resource_params(uri: &str) -> Vec<u8> {
    let mut params = b"{\"uri\":".to_vec();
    encode::text(&mut params, uri);
    params.push(b'}');
    params
}

impl Engine {
    /// Handles `subscriptions/listen`: opens the subscription, or hands it to the application if it names tasks.
    pub(crate) fn receive_listen<'a>(
        &mut self,
        id: RequestId,
        params: Option<RawJson<'a>>,
        tag: RequestTag,
        (origin, described): (Origin, usize),
    ) -> Option<Event<'a>> {
        if params.as_ref().is_some_and(|params| params.weight() > self.limits().described_bytes()) {
            return self.refuse_oversized(origin, &id);
        }
        let requested = match decode_params::<SubscriptionsListenParams>(params.as_ref()) {
            Ok(params) if is_well_formed(&params.notifications) => params.notifications,
            _ => {
                let error = ErrorObject::invalid_params("Invalid params: notifications is not a filter");
                self.refuse(origin, Some(&id), &error);
                return self.violation(Violation::BadParams(Method::Listen));
            }
        };
        let requested = self.honoured(requested);
        let declared = tag.stateless.as_ref().map(|modern| modern.declared).unwrap_or_default();
        if requested.task_ids.is_some() && !declared.contains(Capability::TasksExtension) {
            let missing = [Capability::TasksExtension].into_iter().collect();
            self.refuse(origin, Some(&id), &MissingRequiredClientCapability::error(missing));
            return self.violation(Violation::Undeclared(Capability::TasksExtension));
        }
        if self.modern.subscriptions.len() >= self.limits().subscriptions {
            self.refuse(origin, Some(&id), &ErrorObject::internal("Too many subscriptions"));
            return self.violation(Violation::TooManyRequests);
        }
        let names_tasks = requested.task_ids.as_ref().is_some_and(|tasks| !tasks.is_empty());
        let names_resources = requested.resource_subscriptions.as_ref().is_some_and(|uris| !uris.is_empty());
        let is_for_application = names_tasks || names_resources && self.role_state.confirms_subscriptions();
        // If the application gets the request, its whole message counts, else only the retained parts.
        let message = if is_for_application { origin.bytes } else { described };
        let bytes = message.saturating_add(id.as_bytes().len()).saturating_add(filter_bytes(&requested));
        let (origin, tag) = (Origin { bytes, ..origin }, RequestTag { bytes, ..tag });
        let key = match self.admit(id.clone(), tag, origin) {
            Ok(key) => key,
            Err(violation) => return self.violation(violation),
        };
        if self.is_full() {
            self.release(key);
            self.end(CloseReason::PeerNotReading);
            return None;
        }
        if is_for_application {
            self.modern.subscriptions.pending.insert(key, PendingSubscription { id, filter: requested, described });
            return Some(Event::Request { key, method: Method::Listen.into(), params });
        }
        self.open_subscription(key, ActiveSubscription { id, filter: requested, is_of_application: false });
        None
    }

    /// Opens a pending subscription with the tasks for which `is_there`, and the resources for which `is_notified`
    /// returns `true`.
    pub(crate) fn accept_subscription(
        &mut self,
        key: ReplyKey,
        mut is_there: impl FnMut(&str) -> bool,
        mut is_notified: impl FnMut(&str) -> bool,
    ) -> Result<(), SendError> {
        match self.requests.get(key) {
            Some((_, EntryState::Open)) => {}
            Some((_, EntryState::Cancelled)) => {
                self.release(key);
                return Ok(());
            }
            None | Some((_, EntryState::Answered)) => return Err(SendError::Answered),
        }
        self.has_room()?;
        let pending = self.modern.subscriptions.pending.remove(&key).ok_or(SendError::WrongResult)?;
        let PendingSubscription { id, mut filter, described } = pending;
        if self.phase >= Phase::Draining {
            return self.respond(key, Err(&ErrorObject::internal("The connection is closing")));
        }
        filter.task_ids.iter_mut().for_each(|tasks| tasks.retain(|task| is_there(task)));
        filter.resource_subscriptions.iter_mut().for_each(|uris| uris.retain(|uri| is_notified(uri)));
        self.counts(key, described.saturating_add(id.as_bytes().len()).saturating_add(filter_bytes(&filter)));
        self.open_subscription(key, ActiveSubscription { id, filter, is_of_application: true });
        Ok(())
    }

    /// Sets the bytes of its message that a request counts, which must not be more than before.
    fn counts(&mut self, key: ReplyKey, bytes: usize) {
        if let Some((entry, _)) = self.requests.get_mut(key) {
            let bytes = bytes + entry.tag.arrival.as_ref().map_or(0, |arrival| arrival.weight());
            let before = core::mem::replace(&mut entry.tag.bytes, bytes);
            self.request_bytes = self.request_bytes - before + bytes;
        }
    }

    /// Queues the acknowledgement of a subscription and makes it active.
    fn open_subscription(&mut self, key: ReplyKey, active: ActiveSubscription) {
        // The request stays open until the client or the server ends the subscription.
        self.requests.set_deadline(key, None);
        let version = self.version_of(key);
        self.push_tagged(key, &active.id, Method::SubscriptionsAcknowledged, &|out| {
            out.extend_from_slice(b"{\"notifications\":");
            active.filter.append_at(version, &mut JsonLine::new(out))?;
            out.push(b'}');
            Ok(())
        });
        self.modern.subscriptions.active.insert(key, active);
    }

    /// Returns the part of a filter that is covered by the capabilities of this server.
    fn honoured(&self, requested: SubscriptionFilter) -> SubscriptionFilter {
        let keep = |requested: Option<bool>, capability| {
            requested.filter(|requested| *requested && self.local.contains(capability))
        };
        SubscriptionFilter {
            tools_list_changed: keep(requested.tools_list_changed, Capability::ToolsListChanged),
            prompts_list_changed: keep(requested.prompts_list_changed, Capability::PromptsListChanged),
            resources_list_changed: keep(requested.resources_list_changed, Capability::ResourcesListChanged),
            resource_subscriptions: requested
                .resource_subscriptions
                .filter(|_| self.local.contains(Capability::ResourcesSubscribe)),
            task_ids: requested.task_ids.filter(|_| self.local.contains(Capability::TasksExtension)),
            ..SubscriptionFilter::default()
        }
    }

    /// Returns whether this notification is sent to subscriptions. Fails if this server has not declared the capability
    /// for it.
    pub(crate) fn has_listeners(&self, method: Method) -> Result<bool, SendError> {
        // While the connection closes, all subscriptions have ended, but the session can still be notified.
        if !self.is_modern_server() || !Method::SUBSCRIBED.contains(&method) || self.phase >= Phase::Draining {
            return Ok(false);
        }
        match method.needs(ProtocolVersion::LATEST) {
            Some(needed) if !self.local.contains(needed) => Err(SendError::Undeclared(needed)),
            _ => Ok(true),
        }
    }

    /// Notifies those subscriptions to a resource for which `is_allowed` returns `true`.
    pub(crate) fn notify_subscribers(
        &mut self,
        uri: &str,
        mut is_allowed: impl FnMut(ReplyKey) -> bool,
    ) -> Result<(), SendError> {
        if !self.has_listeners(Method::ResourceUpdated)? || self.modern.subscriptions.len() == 0 {
            return Ok(());
        }
        let mut listeners = self.listeners(uri);
        listeners.retain(|(key, _)| is_allowed(*key));
        self.notify_listeners(Method::ResourceUpdated, listeners, &resource_params(uri), |_| Ok(()))
    }

    /// Notifies subscribers that a resource has changed, after `others` has run. If either fails, no notification is
    /// sent.
    pub(crate) fn notify_resource_updated(
        &mut self,
        uri: &str,
        others: impl FnOnce(&mut Self) -> Result<(), SendError>,
    ) -> Result<(), SendError> {
        if self.modern.subscriptions.len() == 0 {
            return others(self);
        }
        self.notify_listeners(Method::ResourceUpdated, self.listeners(uri), &resource_params(uri), others)
    }

    fn notify_listeners(
        &mut self,
        method: Method,
        listeners: Vec<(ReplyKey, RequestId)>,
        params: &[u8],
        others: impl FnOnce(&mut Self) -> Result<(), SendError>,
    ) -> Result<(), SendError> {
        self.has_room_for_all(method, &listeners, params)?;
        others(self)?;
        for (key, id) in listeners {
            self.push_tagged(key, &id, method, &|out| {
                out.extend_from_slice(params);
                Ok(())
            });
        }
        Ok(())
    }

    /// Returns whether the outbox has room for one copy of a notification for each subscription. As when they are sent
    /// one by one, the last copy may exceed the limit.
    fn has_room_for_all(
        &self,
        method: Method,
        listeners: &[(ReplyKey, RequestId)],
        params: &[u8],
    ) -> Result<(), SendError> {
        let id_len = |(_, id): &(ReplyKey, RequestId)| id.as_bytes().len();
        let Some((_, longest)) = listeners.iter().max_by_key(|listener| id_len(listener)) else { return Ok(()) };
        self.has_room()?;
        let limits = self.limits();
        // Avoids copying params that are too large anyway.
        if params.len() > limits.frame_bytes {
            return Err(SendError::TooLarge);
        }
        let mut out = Vec::new();
        encode::open_notification(&mut out, method.as_str());
        out.extend_from_slice(b",\"params\":");
        let start = out.len();
        out.extend_from_slice(params);
        json_splice::set_meta(&mut out, start, keys::SUBSCRIPTION_ID, longest.as_json());
        out.push(b'}');
        if out.len() > limits.frame_bytes {
            return Err(SendError::TooLarge);
        }
        let without_id = Outbox::weight_of(out.len()) - longest.as_bytes().len();
        let all = listeners.iter().fold(0usize, |sum, listener| sum.saturating_add(without_id + id_len(listener)));
        let all_but_one = all - (without_id + longest.as_bytes().len());
        if all_but_one >= limits.outbox_bytes {
            // Even an empty outbox has no room for all copies.
            return Err(SendError::TooLarge);
        }
        if self.leaving_bytes().saturating_add(self.streams.downstream.bytes).saturating_add(all_but_one)
            >= limits.outbox_bytes
        {
            return Err(SendError::Busy);
        }
        Ok(())
    }

    /// Notifies the subscriptions to a task of its status. Sessions are not notified: they do not have the extension.
    pub(crate) fn notify_task_status(&mut self, task: Option<&str>, params: Encoder<'_>) -> Result<(), SendError> {
        if self.phase >= Phase::Draining {
            return Err(SendError::Closed);
        }
        if !self.local.contains(Capability::TasksExtension) {
            return Err(SendError::Undeclared(Capability::TasksExtension));
        }
        let mut text = Vec::new();
        params(&mut text)?;
        let listeners = self.modern.subscriptions.listeners(Method::ExtTaskChanged, task);
        self.notify_listeners(Method::ExtTaskChanged, listeners, &text, |_| Ok(()))
    }

    /// Returns the subscriptions to this resource.
    pub(crate) fn listeners(&self, uri: &str) -> Vec<(ReplyKey, RequestId)> {
        self.modern.subscriptions.listeners(Method::ResourceUpdated, Some(uri))
    }

    /// Sends a notification that a list has changed to its subscribers.
    pub(crate) fn flush_change(&mut self, method: Method) {
        for (key, id) in self.modern.subscriptions.listeners(method, None) {
            self.push_tagged(key, &id, method, &|out| {
                out.extend_from_slice(b"{}");
                Ok(())
            });
        }
    }

    /// Removes a subscription, and returns it if it was active.
    pub(crate) fn end_subscription(&mut self, key: ReplyKey) -> Option<ActiveSubscription> {
        self.modern.allocated_mut()?.subscriptions.end(key)
    }

    /// Ends every active subscription with its result, followed by the cancellation that some clients wait for.
    pub(crate) fn end_subscriptions(&mut self) {
        let subscriptions = self.modern.allocated_mut().map(|modern| &mut modern.subscriptions);
        let Some(subscriptions) = subscriptions.filter(|subscriptions| !subscriptions.active.is_empty()) else {
            return;
        };
        for (key, ActiveSubscription { id, .. }) in core::mem::take(&mut subscriptions.active) {
            let version = self.version_of(key);
            let result = SubscriptionsListenResult::of(&id).map_err(SendError::from).and_then(|result| {
                self.queue_response(key, Ok(&|out| result.append_at(version, &mut JsonLine::new(out))))
            });
            // A client that does not read its input is not notified.
            if self.is_full() || result.is_err() {
                self.cancel_request(key);
                self.release(key);
                continue;
            }
            let _ = self.push_notification(FrameOwner::Behind(key), Method::Cancelled.as_str(), &|out| {
                out.extend_from_slice(b"{\"requestId\":");
                out.extend_from_slice(id.as_bytes());
                out.push(b'}');
                Ok(())
            });
            self.count_queued(key);
        }
    }

    fn push_tagged(&mut self, key: ReplyKey, id: &RequestId, method: Method, params: Encoder<'_>) {
        // The frame is expected to fit: `notify_listeners` checks the size, and the other notifications are small. The
        // room in the outbox is not checked: a peer that does not read is disconnected when it sends its next request.
        let queued = self.push_notification(FrameOwner::Reply { key, last: false }, method.as_str(), &|out| {
            let start = out.len();
            params(out)?;
            json_splice::set_meta(out, start, keys::SUBSCRIPTION_ID, id.as_json());
            Ok(())
        });
        if queued.is_ok() {
            self.count_queued(key);
        }
    }
}
