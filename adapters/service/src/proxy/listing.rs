//! The lists of a backend, and the items that the service offers for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    hash::BuildHasher,
    sync::Arc,
};

use mcp_proto::{
    connection::ClientRole,
    protocol::Capability,
    schema::{At, Encode, Prompt, Resource, ResourceTemplate, SubscriptionFilter, Tool},
    wire::ErrorCode,
};

use super::{
    calls::{prompt_reference, template_reference},
    error::BackendError,
    retry::Retry,
    shared::Shared,
};
use crate::{
    client::{
        pages::{PageLimits, Pages},
        subscription::Subscription,
    },
    driver_api::{deferred::select_biased, job::HandlerKind},
    inbound::handler::{Arguments, BadArguments, Call},
    outbound::{error::CallError, peer::Peer},
    server::{
        catalog::Kind,
        catalog_update::IntoRegistration,
        offers::{Offer, Offered},
        prompt, resource, resource_template, tool,
    },
    util::lock::{lock, write},
};

/// All lists.
pub(super) const KINDS: [Kind; 4] = [Kind::Tool, Kind::Prompt, Kind::Resource, Kind::Template];

/// The lists of a connection.
struct Lists {
    /// The lists that were not read yet. When one is read, the clients are notified of it if it has items, because any
    /// item may have changed since the connection before.
    unread: BTreeSet<Kind>,
    /// The reasons why lists could not be read.
    errors: BTreeMap<Kind, BackendError>,
}

/// Returns whether a server does not have the method of a request.
pub(super) fn is_unknown(error: &CallError) -> bool {
    error.rpc().is_some_and(|error| error.code == ErrorCode::METHOD_NOT_FOUND)
}

impl Shared {
    /// Keeps the lists up to date, until the connection ends.
    pub(super) async fn keep_lists(self: &Arc<Self>, peer: &Peer<ClientRole>, is_modern: bool) {
        let has = |capability| peer.capabilities().contains(capability).then_some(true);
        let filter = SubscriptionFilter {
            tools_list_changed: has(Capability::ToolsListChanged),
            prompts_list_changed: has(Capability::PromptsListChanged),
            resources_list_changed: has(Capability::ResourcesListChanged),
            ..SubscriptionFilter::default()
        };
        if !is_modern || filter == SubscriptionFilter::default() {
            return self.read_lists(peer).await;
        }
        // Before the lists are read, so that no change is missed.
        let first = self.listen(peer, &filter).await;
        let _ = select_biased(Box::pin(self.read_lists(peer)), self.follow_lists(peer, &filter, first)).await;
    }

    /// Subscribes to changes of lists (2026-07-28).
    async fn listen(&self, peer: &Peer<ClientRole>, filter: &SubscriptionFilter) -> Result<Subscription, CallError> {
        peer.within(self.limits.list_time).listen(filter.clone())?.await
    }

    /// Keeps the subscription to changes of lists (2026-07-28). It is requested again after the server has refused or
    /// ended it. Changes may be missed in between, so the lists are read again then.
    async fn follow_lists(
        &self,
        peer: &Peer<ClientRole>,
        filter: &SubscriptionFilter,
        mut listened: Result<Subscription, CallError>,
    ) {
        let mut retry = Retry::new();
        loop {
            match &listened {
                Ok(subscription) => {
                    retry.plan(false, peer, self.limits.list_time);
                    self.while_active(peer, subscription).await;
                }
                // The server has no subscriptions.
                Err(error) if is_unknown(error) => return pending().await,
                Err(_) => {}
            }
            retry.plan(true, peer, self.limits.list_time);
            retry.wait(peer).await;
            listened = self.listen(peer, filter).await;
            if listened.is_ok() {
                self.list(&KINDS);
            }
        }
    }

    /// Waits until a subscription to changes of lists has ended. Reads the lists when the server has acknowledged it
    /// again.
    async fn while_active(&self, peer: &Peer<ClientRole>, subscription: &Subscription) {
        let mut seen = subscription.acknowledgements();
        while !subscription.is_over() {
            let is_changed = || subscription.is_over() || subscription.acknowledgements() != seen;
            peer.subscriptions().wait_for(|| is_changed().then_some(())).await;
            if subscription.acknowledgements() != seen {
                seen = subscription.acknowledgements();
                self.list(&KINDS);
            }
        }
    }

    /// Reads the lists, those that have changed again, and those that could not be read, after a pause.
    async fn read_lists(self: &Arc<Self>, peer: &Peer<ClientRole>) {
        let mut lists = Lists { unread: BTreeSet::from(KINDS), errors: BTreeMap::new() };
        let mut retry = Retry::new();
        loop {
            let next = || {
                let mut work = lock(&self.work);
                work.reading = std::mem::take(&mut work.lists);
                (!work.reading.is_empty()).then(|| work.reading.iter().copied().collect::<Vec<_>>())
            };
            let Ok(kinds) = select_biased(self.wake.wait_for(next), retry.wait(peer)).await else {
                let failed = lists.errors.iter().filter(|(_, error)| error.is_transient()).map(|(kind, _)| *kind);
                lock(&self.work).lists.extend(failed);
                continue;
            };
            self.take_over(peer, &kinds, &mut lists).await;
            {
                let mut link = lock(&self.link);
                (link.is_listed, link.error) = (true, lists.errors.values().next().cloned());
            }
            lock(&self.work).reading.clear();
            self.changed.notify_all();
            retry.plan(lists.errors.values().any(BackendError::is_transient), peer, self.limits.list_time);
            let _ = peer.sleep(self.limits.list_pause).await;
        }
    }

    /// Reads lists of the backend, and offers their items.
    async fn take_over(self: &Arc<Self>, peer: &Peer<ClientRole>, kinds: &[Kind], lists: &mut Lists) {
        for kind in kinds {
            match self.read(peer, *kind).await {
                Ok(offers) => {
                    lists.errors.remove(kind);
                    let is_new = lists.unread.remove(kind);
                    let Some(service) = self.service() else { return };
                    let (changed, has_items) = {
                        let mut known = lock(&self.offers);
                        // A removed backend offers nothing any more.
                        if lock(&self.link).is_removed {
                            continue;
                        }
                        let Offered { changed, refused } = known.replace(&service, &[*kind], offers);
                        lock(&self.link).refused.insert(*kind, refused);
                        (changed, known.has(*kind))
                    };
                    if is_new && has_items && changed.is_empty() {
                        service.notify_list_changed(&[*kind]);
                    }
                    service.list_changed(&changed);
                }
                Err(error) => _ = lists.errors.insert(*kind, BackendError::of_list(&self.name, &error)),
            }
        }
    }

    async fn read(self: &Arc<Self>, peer: &Peer<ClientRole>, kind: Kind) -> Result<Vec<Offer>, CallError> {
        let needed = match kind {
            Kind::Tool => Capability::Tools,
            Kind::Prompt => Capability::Prompts,
            _ => Capability::Resources,
        };
        if !peer.capabilities().contains(needed) {
            return Ok(Vec::new());
        }
        let peer = peer.bypass_cache();
        let read = match kind {
            Kind::Tool => self.offers(peer.all_tools(), |tool| self.tool(tool)).await,
            Kind::Prompt => self.offers(peer.all_prompts(), |prompt| self.prompt(prompt)).await,
            Kind::Resource => self.offers(peer.all_resources(), |resource| self.resource(resource)).await,
            _ => self.offers(peer.all_resource_templates(), |template| self.template(template)).await,
        };
        match read {
            // Servers that have resources may lack templates and their method.
            Err(error) if is_unknown(&error) => Ok(Vec::new()),
            read => read,
        }
    }

    /// Reads a list within its limits.
    async fn offers<T: Encode>(&self, pages: Pages<T>, offer: impl Fn(T) -> Offer) -> Result<Vec<Offer>, CallError> {
        let mut limits = PageLimits::default();
        (limits.items, limits.time) = (self.limits.items, self.limits.list_time);
        // White space and cursors count there, and not below.
        limits.bytes = self.limits.list_bytes.saturating_mul(2);
        let (mut pages, mut offers, mut bytes) = (pages.limits(limits), Vec::new(), 0_usize);
        while let Some(item) = pages.try_next().await? {
            let written = At(&item, None).to_json().map_err(|error| CallError::Decode(error.to_string()))?;
            bytes = bytes.saturating_add(written.get().len());
            if bytes > self.limits.list_bytes {
                return Err(CallError::Invalid("the list is too large".into()));
            }
            let identity = self.hasher.hash_one(written.get());
            offers.push(Offer { identity, ..offer(item) });
        }
        Ok(offers)
    }

    fn tool(self: &Arc<Self>, about: Tool) -> Offer {
        let name = self.prefix.name(&about.name);
        let own = Tool { name: name.clone(), ..about.clone() };
        let shared = self.clone();
        let run = move |(): &(), arguments: Arguments<'_>, context: &crate::inbound::context::Context| match arguments {
            Arguments::Json(arguments) => Ok(shared.call_tool(&about, arguments, context)),
            _ => Err(BadArguments("the arguments are no object".into())),
        };
        let call = Call { kind: HandlerKind::Async, run: Box::new(run) };
        offer(Kind::Tool, name, tool::Tool::forwarded(own, call))
    }

    fn prompt(self: &Arc<Self>, about: Prompt) -> Offer {
        let name = self.prefix.name(&about.name);
        let own = Prompt { name: name.clone(), ..about.clone() };
        let (shared, its_name) = (self.clone(), about.name.clone());
        let run = move |(): &(), arguments: Arguments<'_>, context: &crate::inbound::context::Context| match arguments {
            Arguments::Texts(texts) => Ok(shared.get_prompt(&its_name, texts, context)),
            _ => Err(BadArguments("the arguments are no texts".into())),
        };
        let fill = Call { kind: HandlerKind::Async, run: Box::new(run) };
        let shared = self.clone();
        let complete = Arc::new(move |argument: &str, request: &_| {
            shared.complete(prompt_reference(&about.name), argument, request)
        });
        offer(Kind::Prompt, name, prompt::Prompt::forwarded(own, fill, complete))
    }

    fn resource(self: &Arc<Self>, about: Resource) -> Offer {
        let uri = self.prefix.uri(&about.uri);
        let own = Resource { uri: uri.clone(), ..about };
        offer(Kind::Resource, uri, resource::Resource::forwarded(own, self.clone()))
    }

    fn template(self: &Arc<Self>, about: ResourceTemplate) -> Offer {
        let uri_template = self.prefix.uri(&about.uri_template);
        let forwarded = self.forwarded_template(about);
        offer(Kind::Template, uri_template, forwarded)
    }

    fn forwarded_template(self: &Arc<Self>, about: ResourceTemplate) -> resource_template::ResourceTemplate {
        let (shared, its_template) = (self.clone(), about.uri_template.clone());
        let complete = Arc::new(move |argument: &str, request: &_| {
            shared.complete(template_reference(&its_template), argument, request)
        });
        let own = ResourceTemplate { uri_template: self.prefix.uri(&about.uri_template), ..about };
        resource_template::ResourceTemplate::forwarded(own, self.clone(), complete)
    }

    /// Adds a route for requests for resources of the backend that are in no list.
    pub(super) fn offer_unlisted(self: &Arc<Self>) {
        let Some(service) = self.service() else { return };
        let template = self.forwarded_template(ResourceTemplate::new("{+uri}", &*self.name));
        write(&service.0.catalog).add_unlisted(self.prefix.identity(), template);
        service.0.composition.follow_unlisted();
    }
}

fn offer(kind: Kind, name: String, item: impl IntoRegistration) -> Offer {
    Offer { kind, name, identity: 0, item: item.into_registration() }
}
