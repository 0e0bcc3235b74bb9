//! The items of a service that the sender of a request may see.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use mcp_proto::{
    connection::{Principal, ServerRole},
    rpc::ReplyKey,
    schema::{CacheHints, CacheScope, Map, ReadResourceResult},
};

#[cfg(feature = "skills")]
use super::skill::SkillEntry;
use super::{
    catalog::{Catalog, FoundResource, ResourceHandler},
    inner::Inner,
    resource_template::ResourceTemplate,
    routes::SentRequest,
    scopes::has_scopes,
    visibility::{Audience, CatalogItem, Registered},
};
use crate::{
    driver_api::connection_handle::ConnectionHandle,
    inbound::{
        request::{InboundRequest, RequestInfo},
        rpc_result::RpcResult,
        state::Role,
    },
    util::{lock::read, paged_list::PagedList},
};

/// The registered items that the sender of a request may see.
///
/// Shared, since few services hide anything.
pub(super) struct VisibleItems(Option<Arc<Audience>>);

/// The registered items that are in the lists of a sender.
pub(super) struct ListedItems {
    visible: VisibleItems,
    /// The sender, if lists leave out items whose scopes it lacks.
    scopes: Option<SenderScopes>,
}

/// The scopes of the sender of a request.
struct SenderScopes {
    connection: Arc<dyn ConnectionHandle<ServerRole>>,
    sender: Option<Principal>,
}

impl VisibleItems {
    /// Returns what the sender of a request may see that was not passed to the connection yet.
    pub(super) fn of(sent: &SentRequest<'_>) -> Self {
        Self((sent.audience)())
    }

    pub(super) fn audience(self) -> Option<Arc<Audience>> {
        self.0
    }

    pub(super) fn allows<T: Registered>(&self, item: &T) -> bool {
        self.sees(item.as_item()) && item.parent().is_none_or(|parent| self.sees(parent))
    }

    fn sees(&self, item: CatalogItem<'_>) -> bool {
        let Some((predicate, info)) = self.0.as_deref() else { return true };
        // A predicate that panics hides the item.
        catch_unwind(AssertUnwindSafe(|| (predicate.0)(item, info))).unwrap_or(false)
    }

    /// Returns whether a resource that is in no list may be requested from the server to which it belongs: the template
    /// of all its resources is visible, and so would be a resource with this URI. Nothing else is known of it.
    fn allows_unlisted(&self, template: &ResourceTemplate, uri: &str) -> bool {
        self.allows(template) && self.sees(CatalogItem::Resource(&mcp_proto::schema::Resource::new(uri, uri)))
    }

    /// Returns the visible item with this name.
    pub(super) fn get<T: Registered>(
        &self,
        inner: &Inner,
        list: fn(&Catalog) -> &PagedList<T>,
        name: &str,
    ) -> Option<Arc<T>> {
        let found = list(&read(&inner.catalog)).get(name).cloned();
        found.filter(|item| self.allows(&**item))
    }

    /// Returns the visible handler of a URI: a resource, or else the first template that matches it. It needs the
    /// scopes of hidden items as well.
    pub(super) fn find(&self, inner: &Inner, uri: &str) -> Option<FoundResource> {
        let handler = self.find_handler(inner, uri)?;
        let scopes = read(&inner.catalog).required_scopes(uri, handler.scopes());
        Some(FoundResource { handler, scopes })
    }

    fn find_handler(&self, inner: &Inner, uri: &str) -> Option<ResourceHandler> {
        if self.0.is_none() {
            return read(&inner.catalog).find(uri);
        }
        if let Some(resource) = self.get(inner, |catalog| &catalog.resources, uri) {
            return Some(ResourceHandler::Resource(resource));
        }
        let templates: Vec<_> = read(&inner.catalog).templates.iter().cloned().collect();
        let listed = templates.into_iter().find_map(|template| {
            let variables = template.matches(uri)?;
            self.allows(&*template).then(|| ResourceHandler::Template(template.clone(), variables))
        });
        listed.or_else(|| {
            let template = {
                let catalog = read(&inner.catalog);
                // What is listed and hidden is not reached as if it were not listed.
                let is_hidden = catalog.resources.get(uri).is_some()
                    || catalog.templates.iter().any(|template| template.matches(uri).is_some());
                if is_hidden {
                    return None;
                }
                catalog.find_unlisted(uri).cloned()?
            };
            self.allows_unlisted(&template, uri).then(|| ResourceHandler::Template(template, Map::new()))
        })
    }
}

impl ListedItems {
    /// Returns a page of a list. Hidden items do not shorten it.
    pub(super) fn page<T: Registered>(
        &self,
        inner: &Inner,
        list: fn(&Catalog) -> &PagedList<T>,
        cursor: Option<&str>,
    ) -> RpcResult<(Vec<Arc<T>>, Option<String>)> {
        if self.visible.0.is_none() && self.scopes.is_none() {
            return list(&read(&inner.catalog)).page(cursor, inner.page_size);
        }
        // The predicate is not called under the lock of the catalog, which it may use.
        let rest = list(&read(&inner.catalog)).rest(cursor)?;
        let mut rest = rest.into_iter().filter(|(_, item)| self.contains(inner, &**item));
        let page: Vec<_> = rest.by_ref().take(inner.page_size.max(1)).collect();
        let next = rest.next().and_then(|_| Some(list(&read(&inner.catalog)).cursor_after(page.last()?.0)));
        Ok((page.into_iter().map(|(_, item)| item).collect(), next))
    }

    pub(super) fn contains<T: Registered>(&self, inner: &Inner, item: &T) -> bool {
        self.has_scopes_of(inner, item) && self.visible.allows(item)
    }

    fn has_scopes_of<T: Registered>(&self, inner: &Inner, item: &T) -> bool {
        let Some(SenderScopes { connection, sender }) = &self.scopes else { return true };
        let has = |required: &[String]| has_scopes(connection, sender.as_ref(), required);
        // A request for a resource needs the scopes of all items that match its URI.
        let has_all = |uri: &str| has(&read(&inner.catalog).required_scopes(uri, &[]));
        has(item.scopes())
            && match item.as_item() {
                CatalogItem::Resource(resource) => has_all(&resource.uri),
                _ => true,
            }
    }
}

impl Inner {
    /// Returns the items that are in the lists of the sender of this request.
    pub(super) fn listed_for(&self, inbound: &InboundRequest<'_, ServerRole>) -> ListedItems {
        let scopes = self.hides_without_scopes.then(|| SenderScopes {
            connection: inbound.connection.clone(),
            sender: inbound.connection.read(|conn| ServerRole::info(conn, Some(inbound.key))).principal,
        });
        ListedItems { visible: self.visible_to(inbound), scopes }
    }

    /// Returns the items that the sender of this request may see.
    pub(super) fn visible_to(&self, inbound: &InboundRequest<'_, ServerRole>) -> VisibleItems {
        self.visible_to_request(inbound.connection, inbound.key)
    }

    /// Returns the items that the sender of a request in these circumstances may see.
    pub(super) fn visible_to_sender(&self, info: impl FnOnce() -> RequestInfo) -> VisibleItems {
        VisibleItems(self.visible.clone().map(|predicate| Arc::new((predicate, info()))))
    }

    fn visible_to_request(&self, connection: &Arc<dyn ConnectionHandle<ServerRole>>, key: ReplyKey) -> VisibleItems {
        let predicate = self.visible.clone();
        VisibleItems(
            predicate.map(|predicate| Arc::new((predicate, connection.read(|conn| ServerRole::info(conn, Some(key)))))),
        )
    }

    /// Returns whether a subscriber may be notified of a resource: it is visible to the sender of the request, who has
    /// its scopes, or is not registered.
    pub(super) fn may_notify(
        &self,
        connection: &Arc<dyn ConnectionHandle<ServerRole>>,
        key: ReplyKey,
        uri: &str,
    ) -> bool {
        match self.visible_to_request(connection, key).find(self, uri) {
            Some(found) if found.scopes.is_empty() => true,
            Some(found) => {
                let sender = connection.read(|conn| ServerRole::info(conn, Some(key))).principal;
                has_scopes(connection, sender.as_ref(), &found.scopes)
            }
            None => self.visible.is_none() || read(&self.catalog).find(uri).is_none(),
        }
    }

    /// Returns the cache hints of lists.
    pub(super) fn list_hints(&self) -> CacheHints {
        let CacheHints { ttl_ms, scope } = self.list_hints.clone();
        CacheHints { ttl_ms, scope: self.scope(scope) }
    }

    /// Returns the cache hints of a skill.
    #[cfg(feature = "skills")]
    pub(super) fn skill_hints(&self, skill: &SkillEntry) -> CacheHints {
        let nothing = CacheHints { ttl_ms: 0, scope: CacheScope::Private };
        let CacheHints { ttl_ms, scope } = skill.hints.clone().unwrap_or(nothing);
        CacheHints { ttl_ms, scope: self.scope(scope) }
    }

    /// Restricts a result to private caches if visibility depends on the client, or if the resource `is_private`.
    pub(super) fn restrict_cache(&self, mut result: ReadResourceResult, is_private: bool) -> ReadResourceResult {
        let restrict = |scope| if is_private { CacheScope::Private } else { self.scope(scope) };
        result.cache_scope = result.cache_scope.map(restrict);
        result
    }

    /// Returns the private scope if visibility depends on the client.
    fn scope(&self, scope: CacheScope) -> CacheScope {
        if self.visible.is_some() || self.hides_without_scopes { CacheScope::Private } else { scope }
    }
}
