//! The lists of a backend, and the items that the service offers for it.

use std::{hash::BuildHasher, sync::Arc};

use mcp_proto::{
    connection::ClientRole,
    protocol::Capability,
    schema::{At, Encode, Prompt, Resource, ResourceTemplate, Tool},
};

use super::{
    calls::{prompt_reference, template_reference},
    error::BackendError,
    shared::Shared,
};
use crate::{
    client::pages::{PageLimits, Pages},
    driver_api::job::HandlerKind,
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

impl Shared {
    /// Reads lists of the backend, and offers their items. `is_new` is set on a new connection. The clients are then
    /// notified of all lists with items, because any item may have changed.
    pub(super) async fn take_over(
        self: &Arc<Self>,
        peer: &Peer<ClientRole>,
        kinds: &[Kind],
        is_new: bool,
    ) -> Result<(), BackendError> {
        let mut first = Ok(());
        for kind in kinds {
            match self.read(peer, *kind).await {
                Ok(offers) => {
                    let Some(service) = self.service() else { return Ok(()) };
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
                Err(error) => {
                    let error = BackendError::of(&self.name, &error);
                    first = first.and(error.map_or(Ok(()), Err));
                }
            }
        }
        first
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
        match kind {
            Kind::Tool => self.offers(peer.all_tools(), |tool| self.tool(tool)).await,
            Kind::Prompt => self.offers(peer.all_prompts(), |prompt| self.prompt(prompt)).await,
            Kind::Resource => self.offers(peer.all_resources(), |resource| self.resource(resource)).await,
            _ => self.offers(peer.all_resource_templates(), |template| self.template(template)).await,
        }
    }

    /// Reads a list within its limits.
    async fn offers<T: Encode>(&self, pages: Pages<T>, offer: impl Fn(T) -> Offer) -> Result<Vec<Offer>, CallError> {
        let mut limits = PageLimits::default();
        (limits.items, limits.time) = (self.limits.items, self.limits.list_time);
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
