//! Mounting: a service offers the items of another one of the same process.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, Weak},
};

use mcp_proto::{
    connection::ServerRole,
    schema::{CallToolResult, ContentBlock, GetPromptResult, LoggingLevel, ReadResourceResult, ResourceContents},
};

use super::{
    catalog::{Catalog, ItemKey, Kind, ResourceHandler},
    catalog_update::IntoRegistration,
    client_key::ClientKey,
    composition::Part,
    inner::Inner,
    offers::{Offer, Offers},
    prompt::Prompt,
    register_error::RegisterError,
    resource::{Begun, Origin, Resource},
    resource_template::ResourceTemplate,
    service::Service,
    tool::Tool,
};
use crate::{
    driver_api::deferred::Deferred,
    inbound::{context::Context, custom_methods::Dispatch, failure::Failure},
    util::{
        lock::{lock, read, write},
        prefix::Prefix,
    },
};

/// The kinds of items that are mounted.
const KINDS: [Kind; 4] = [Kind::Tool, Kind::Prompt, Kind::Resource, Kind::Template];

impl Service {
    /// Offers the tools, prompts, resources and templates of another service, now and as they change. Their names get a
    /// prefix, `prefix__name`, and their URIs, `prefix+uri`; an empty prefix changes nothing.
    ///
    /// ```
    /// use mcp_service::{Resource, Service, Tool};
    ///
    /// let weather = Service::builder("weather", "1.0.0")
    ///     .tool(Tool::new("now", || "sunny"))
    ///     .resource(Resource::new("map://today", "map", || "H"))
    ///     .build()?;
    /// let all = Service::builder("all", "1.0.0").mount("weather", &weather).build()?;
    /// // It offers the tool `weather__now` and the resource `weather+map://today`.
    /// # Ok::<(), mcp_service::RegisterError>(())
    /// ```
    ///
    /// Handlers are called directly, with the [context](Context) of the request: progress, log messages, cancellation
    /// and requests to the client are those of this service, and so are its middleware, visibility, task policy and
    /// limits. URIs in results get the prefix, too: those of resource links and of contents.
    ///
    /// Not mounted are skills, handlers of custom methods and notifications, instructions, and the hints for caching
    /// lists.
    ///
    /// # Errors
    /// If the prefix is [invalid](RegisterError::Prefix) or in use, a name is [taken](RegisterError::Taken), or the
    /// service cannot be [mounted](RegisterError::Mount): it has middleware or a visibility predicate, which would be
    /// bypassed, it [masks failures](crate::ServiceBuilder::mask_failures) and this service does not, or it contains
    /// this service. Nothing was changed then. Items that the mounted service adds later are left out if their names
    /// are taken.
    pub fn mount(&self, prefix: &str, service: &Service) -> Result<(), RegisterError> {
        let parsed = Prefix::parse(prefix).ok_or_else(|| RegisterError::Prefix(prefix.to_owned()))?;
        let refuse =
            |why: &str| Err(RegisterError::Mount(format!("{:?} cannot be mounted: {why}", service.info().name)));
        if ServerRole::custom(service).has_layers() || service.0.visible.is_some() {
            return refuse("its middleware and its visibility predicate would be bypassed");
        }
        if service.0.masks_failures && !self.0.masks_failures {
            return refuse("it masks failures, and the service that would offer its items does not");
        }
        if Arc::ptr_eq(&self.0, &service.0) || service.0.composition.contains(address(&self.0)) {
            return refuse("it contains the other service");
        }
        self.0.composition.claim(&parsed)?;
        let mounted = Arc::new_cyclic(|this| Mounted {
            this: this.clone(),
            service: service.clone(),
            whole: Arc::downgrade(&self.0),
            prefix: parsed,
            hasher: RandomState::new(),
            offers: Mutex::default(),
        });
        if let Err(error) = mounted.begin(self) {
            self.0.composition.release(&mounted.prefix);
            return Err(error);
        }
        let whole: Weak<dyn Part> = mounted.this.clone();
        service.0.composition.add_whole(whole);
        self.0.composition.add_part(mounted.clone());
        // For what was added in between.
        mounted.update();
        Ok(())
    }
}

/// A service whose items another one offers.
struct Mounted {
    this: Weak<Self>,
    service: Service,
    whole: Weak<Inner>,
    prefix: Prefix,
    hasher: RandomState,
    offers: Mutex<Offers>,
}

impl Mounted {
    /// Offers all items of the mounted service, or none.
    fn begin(&self, whole: &Service) -> Result<(), RegisterError> {
        let offered = {
            let mut offers = lock(&self.offers);
            let (items, unlisted) = {
                let catalog = read(&self.service.0.catalog);
                (self.items(&catalog), self.unlisted(&catalog))
            };
            let also = |catalog: &mut Catalog| catalog.set_unlisted(self.prefix.identity(), unlisted);
            offers.insert_all(whole, items, also)?
        };
        whole.list_changed(&offered.changed);
        Ok(())
    }

    /// Makes all items of the whole those of the mounted service. Items whose names are taken are left out.
    fn update(&self) {
        let Some(whole) = self.whole.upgrade().map(Service) else { return };
        let offered = {
            let mut offers = lock(&self.offers);
            let items = self.items(&read(&self.service.0.catalog));
            offers.replace(&whole, &KINDS, items)
        };
        whole.list_changed(&offered.changed);
        self.follow_unlisted();
    }

    fn items(&self, catalog: &Catalog) -> Vec<Offer> {
        let Some(this) = self.this.upgrade() else { return Vec::new() };
        let tools = catalog.tools.iter().map(|tool| self.tool_offer(tool));
        let prompts = catalog.prompts.iter().map(|prompt| self.prompt_offer(prompt));
        let resources = catalog.resources.iter().filter_map(|resource| self.resource_offer(resource, &this));
        let templates = catalog.templates.iter().map(|template| self.template_offer(template, &this));
        tools.chain(prompts).chain(resources).chain(templates).collect()
    }

    /// Returns the offer of an item of the mounted service, if there is such an item.
    fn item(&self, catalog: &Catalog, (kind, name): &ItemKey, this: &Arc<Self>) -> Option<Offer> {
        match kind {
            Kind::Tool => catalog.tools.get(name).map(|tool| self.tool_offer(tool)),
            Kind::Prompt => catalog.prompts.get(name).map(|prompt| self.prompt_offer(prompt)),
            Kind::Resource => catalog.resources.get(name).and_then(|resource| self.resource_offer(resource, this)),
            Kind::Template => catalog.templates.get(name).map(|template| self.template_offer(template, this)),
            #[cfg(feature = "skills")]
            Kind::Skill => None,
        }
    }

    /// Returns the key of an item in the whole.
    fn key(&self, (kind, name): &ItemKey) -> ItemKey {
        let name = match kind {
            Kind::Tool | Kind::Prompt => self.prefix.name(name),
            _ => self.prefix.uri(name),
        };
        (*kind, name)
    }

    fn tool_offer(&self, tool: &Arc<Tool>) -> Offer {
        let name = self.prefix.name(&tool.about.name);
        let about = mcp_proto::schema::Tool { name: name.clone(), ..tool.about.clone() };
        let prefix = self.prefix.clone();
        let mounted = Tool::mounted(tool, about, move |result| tool_result(&prefix, result));
        self.offer(Kind::Tool, name, tool, mounted)
    }

    fn prompt_offer(&self, prompt: &Arc<Prompt>) -> Offer {
        let name = self.prefix.name(&prompt.about.name);
        let about = mcp_proto::schema::Prompt { name: name.clone(), ..prompt.about.clone() };
        let prefix = self.prefix.clone();
        let mounted = Prompt::mounted(prompt, about, move |result| prompt_result(&prefix, result));
        self.offer(Kind::Prompt, name, prompt, mounted)
    }

    fn resource_offer(&self, resource: &Arc<Resource>, this: &Arc<Self>) -> Option<Offer> {
        #[cfg(feature = "skills")]
        if resource.skill.is_some() {
            return None;
        }
        let uri = self.prefix.uri(&resource.about.uri);
        let about = mcp_proto::schema::Resource { uri: uri.clone(), ..resource.about.clone() };
        let (origin, prefix) = (this.clone(), self.prefix.clone());
        let mounted = Resource::mounted(resource, about, origin, move |result| read_result(&prefix, result));
        Some(self.offer(Kind::Resource, uri, resource, mounted))
    }

    fn template_offer(&self, template: &Arc<ResourceTemplate>, this: &Arc<Self>) -> Offer {
        let uri_template = self.prefix.uri(&template.about.uri_template);
        self.offer(Kind::Template, uri_template, template, self.template(template, this))
    }

    fn template(&self, template: &Arc<ResourceTemplate>, this: &Arc<Self>) -> ResourceTemplate {
        let uri_template = self.prefix.uri(&template.about.uri_template);
        let about = mcp_proto::schema::ResourceTemplate { uri_template, ..template.about.clone() };
        let (origin, prefix) = (this.clone(), self.prefix.clone());
        ResourceTemplate::mounted(template, about, origin, move |result| read_result(&prefix, result))
    }

    /// Returns the templates for unlisted resources of backends of the mounted service, with their prefixes here.
    fn unlisted(&self, catalog: &Catalog) -> Vec<(String, Arc<ResourceTemplate>)> {
        let Some(this) = self.this.upgrade() else { return Vec::new() };
        let unlisted = catalog.unlisted.iter();
        unlisted.map(|(prefix, template)| (self.prefix.uri(prefix), Arc::new(self.template(template, &this)))).collect()
    }

    /// Creates an offer of an item, which is another one whenever it was registered again.
    fn offer<T>(&self, kind: Kind, name: String, item: &Arc<T>, mounted: impl IntoRegistration) -> Offer {
        // The item is kept by what is mounted, so no other one has its address.
        let identity = self.hasher.hash_one(Arc::as_ptr(item).addr());
        Offer { kind, name, identity, item: mounted.into_registration() }
    }
}

impl Part for Mounted {
    fn follow(&self, changed: &[ItemKey]) {
        let (Some(whole), Some(this)) = (self.whole.upgrade().map(Service), self.this.upgrade()) else { return };
        let offered = {
            let mut offers = lock(&self.offers);
            let items = {
                // They may have changed again since. Then this runs again.
                let catalog = read(&self.service.0.catalog);
                let named: BTreeSet<_> = changed.iter().collect();
                named.into_iter().filter_map(|key| self.item(&catalog, key, &this)).collect()
            };
            offers.update(&whole, changed.iter().map(|key| self.key(key)).collect(), items)
        };
        whole.list_changed(&offered.changed);
    }

    fn follow_unlisted(&self) {
        let Some(whole) = self.whole.upgrade().map(Service) else { return };
        {
            let _offers = lock(&self.offers);
            let unlisted = self.unlisted(&read(&self.service.0.catalog));
            write(&whole.0.catalog).set_unlisted(self.prefix.identity(), unlisted);
        }
        whole.0.composition.follow_unlisted();
    }

    fn resource_updated(&self, uri: &str) -> usize {
        self.whole.upgrade().map(Service).map_or(0, |whole| whole.resource_updated(&self.prefix.uri(uri)))
    }

    fn wants_log(&self, level: &LoggingLevel) {
        self.service.0.composition.wants_log(level);
    }

    fn contains(&self, service: usize) -> bool {
        address(&self.service.0) == service || self.service.0.composition.contains(service)
    }
}

fn address(service: &Arc<Inner>) -> usize {
    Arc::as_ptr(service).addr()
}

impl Origin for Mounted {
    fn read(&self, uri: String, context: &Context) -> Deferred<Result<ReadResourceResult, Failure>> {
        let own = self.prefix.strip_uri(&uri);
        let handler = own.and_then(|own| read(&self.service.0.catalog).find(own));
        let origin = match &handler {
            Some(ResourceHandler::Template(template, _)) => template.origin.as_ref(),
            _ => None,
        };
        let prefix = self.prefix.clone();
        match own.zip(origin) {
            Some((own, origin)) => {
                origin.read(own.to_owned(), context).map(move |read| Ok(read_result(&prefix, read?)))
            }
            None => Deferred::ready(Err(Failure::resource_not_found(uri))),
        }
    }

    fn subscribe(&self, uri: &str, client: &ClientKey) -> Deferred<Result<Begun, Failure>> {
        let own = self.prefix.strip_uri(uri);
        let origin = own.and_then(|own| Some((own, read(&self.service.0.catalog).find(own)?.origin()?)));
        // Changes of other resources are reported without a subscription.
        origin.map_or_else(|| Deferred::ready(Ok(None)), |(own, origin)| origin.subscribe(own, client))
    }
}

/// Adds the prefix to the URIs of resources in the result of a tool.
pub(crate) fn tool_result(prefix: &Prefix, mut result: CallToolResult) -> CallToolResult {
    if !prefix.is_none() {
        result.content.iter_mut().for_each(|content| with_prefix(prefix, content));
    }
    result
}

/// Adds the prefix to the URIs of resources in the result of a prompt.
pub(crate) fn prompt_result(prefix: &Prefix, mut result: GetPromptResult) -> GetPromptResult {
    if !prefix.is_none() {
        result.messages.iter_mut().for_each(|message| with_prefix(prefix, &mut message.content));
    }
    result
}

/// Adds the prefix to the URIs of contents.
pub(crate) fn read_result(prefix: &Prefix, mut result: ReadResourceResult) -> ReadResourceResult {
    if !prefix.is_none() {
        result.contents.iter_mut().for_each(|contents| contents_with_prefix(prefix, contents));
    }
    result
}

fn with_prefix(prefix: &Prefix, content: &mut ContentBlock) {
    match content {
        ContentBlock::ResourceLink(link) => link.uri = prefix.uri(&link.uri),
        ContentBlock::Resource(embedded) => contents_with_prefix(prefix, &mut embedded.resource),
        _ => {}
    }
}

fn contents_with_prefix(prefix: &Prefix, contents: &mut ResourceContents) {
    let uri = match contents {
        ResourceContents::Text(text) => &mut text.uri,
        ResourceContents::Blob(blob) => &mut blob.uri,
    };
    // Contents without a URI get that of the resource later.
    if !uri.is_empty() {
        *uri = prefix.uri(uri);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc::{Sender, channel},
        time::Duration,
    };

    use super::*;

    /// A service above the whole. When the whole changes, another thread changes the part.
    struct Above {
        part: Service,
        added: Mutex<Option<Sender<()>>>,
        outcome: Sender<bool>,
    }

    impl Part for Above {
        fn follow(&self, _: &[ItemKey]) {
            let Some(added) = lock(&self.added).take() else { return };
            let (part, (finished, done)) = (self.part.clone(), channel());
            std::thread::spawn(move || {
                part.add(Tool::new("second", || "text")).expect("it is new");
                let _ = finished.send(());
                drop(added);
            });
            let _ = self.outcome.send(done.recv_timeout(Duration::from_secs(10)).is_ok());
        }

        fn follow_unlisted(&self) {}

        fn resource_updated(&self, _: &str) -> usize {
            0
        }

        fn wants_log(&self, _: &LoggingLevel) {}

        fn contains(&self, _: usize) -> bool {
            false
        }
    }

    #[test]
    fn no_lock_of_items_is_held_while_others_are_notified() {
        let part = Service::builder("part", "1.0.0").enable_tools().build().expect("a service");
        let whole = Service::builder("whole", "1.0.0").enable_tools().mount("p", &part).build().expect("a service");
        let ((added, is_over), (outcome, outcomes)) = (channel(), channel());
        let above = Arc::new(Above { part: part.clone(), added: Mutex::new(Some(added)), outcome });
        let above: Arc<dyn Part> = above;
        whole.0.composition.add_whole(Arc::downgrade(&above));
        part.add(Tool::new("first", || "text")).expect("it is new");
        assert_eq!(outcomes.try_recv(), Ok(true));
        assert!(is_over.recv().is_err(), "the thread has ended");
        let catalog = read(&whole.0.catalog);
        assert_eq!(catalog.tools.iter().map(|tool| &*tool.about.name).collect::<Vec<_>>(), ["p__first", "p__second"]);
    }
}
