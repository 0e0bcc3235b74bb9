//! Resources: data that models can read through a server.
//!
//! Spec: [resources](https://modelcontextprotocol.io/specification/2025-11-25/server/resources)

use alloc::{string::String, vec::Vec};

use super::{Annotations, CacheScope, EmptyResult, Icon, InputResponses, Meta, ResourceContents};
use crate::schema::base::macros::*;

object! {
    /// Params of `resources/list`.
    pub struct ListResourcesParams: params(ListResources => ListResourcesResult) {
        /// The `next_cursor` of the previous page; absent for the first page.
        "cursor" => cursor: optional String;
    }
}

object! {
    /// The result of `resources/list`: one page of resources.
    pub struct ListResourcesResult: result {
        /// The resources.
        "resources" => resources: required Vec<Resource>;
        /// The cursor of the next page; absent on the last page.
        "nextCursor" => next_cursor: optional String;
        /// The time for which the result may be cached, in milliseconds. Since 2026-07-28.
        "ttlMs" => ttl_ms: optional u64, since(V2026_07_28), or(|| 0);
        /// The users for whom the cached result may be used. Since 2026-07-28.
        "cacheScope" => cache_scope: optional CacheScope, since(V2026_07_28), fits(|scope, _| scope.is_known()),
            or(|| CacheScope::Private);
    }
}

object! {
    /// Params of `resources/templates/list`.
    pub struct ListResourceTemplatesParams: params(ListResourceTemplates => ListResourceTemplatesResult) {
        /// The `next_cursor` of the previous page; absent for the first page.
        "cursor" => cursor: optional String;
    }
}

object! {
    /// The result of `resources/templates/list`: one page of templates.
    pub struct ListResourceTemplatesResult: result {
        /// The templates.
        "resourceTemplates" => resource_templates: required Vec<ResourceTemplate>;
        /// The cursor of the next page; absent on the last page.
        "nextCursor" => next_cursor: optional String;
        /// The time for which the result may be cached, in milliseconds. Since 2026-07-28.
        "ttlMs" => ttl_ms: optional u64, since(V2026_07_28), or(|| 0);
        /// The users for whom the cached result may be used. Since 2026-07-28.
        "cacheScope" => cache_scope: optional CacheScope, since(V2026_07_28), fits(|scope, _| scope.is_known()),
            or(|| CacheScope::Private);
    }
}

object! {
    /// Params of `resources/read`.
    pub struct ReadResourceParams: params(ReadResource => ReadResourceResult) {
        /// The URI of the resource.
        "uri" => uri: required String, is(Uri);
        /// The responses to the input requests of the previous result. Since 2026-07-28.
        "inputResponses" => input_responses: optional InputResponses, since(V2026_07_28), or_refuse,
            is(Answer);
        /// The `request_state` of the previous result. Since 2026-07-28.
        "requestState" => request_state: optional String, since(V2026_07_28), or_refuse;
    }
}

object! {
    /// The result of `resources/read`.
    pub struct ReadResourceResult: result {
        /// The contents of the resource. A resource may have several, each with its own URI.
        "contents" => contents: required Vec<ResourceContents>;
        /// The time for which the result may be cached, in milliseconds. Since 2026-07-28.
        "ttlMs" => ttl_ms: optional u64, since(V2026_07_28), or(|| 0);
        /// The users for whom the cached result may be used. Since 2026-07-28.
        "cacheScope" => cache_scope: optional CacheScope, since(V2026_07_28), fits(|scope, _| scope.is_known()),
            or(|| CacheScope::Private);
    }
}

object! {
    /// Params of `resources/subscribe`, which begins notifications of changes. Up to 2025-11-25.
    pub struct SubscribeParams: params(Subscribe => EmptyResult) {
        /// The URI of the resource.
        "uri" => uri: required String, is(Uri);
    }
}

object! {
    /// Params of `resources/unsubscribe`, which ends notifications of changes. Up to 2025-11-25.
    pub struct UnsubscribeParams: params(Unsubscribe => EmptyResult) {
        /// The URI of the resource.
        "uri" => uri: required String, is(Uri);
    }
}

object! {
    /// Params of `notifications/resources/list_changed`.
    pub struct ResourcesListChangedParams: params(ResourcesListChanged) {}
}

object! {
    /// Params of `notifications/resources/updated`.
    pub struct ResourceUpdatedParams: params(ResourceUpdated) {
        /// The URI of the subscribed resource, or of one below it.
        "uri" => uri: required String, is(Uri);
    }
    gates {
        fn resource(&self) -> Option<&str> {
            Some(&self.uri)
        }
    }
}

object! {
    /// A resource that the server can read.
    pub struct Resource: data {
        /// The URI of the resource.
        "uri" => uri: required String, is(Uri);
        /// The name of the resource, for programs.
        "name" => name: required String;
        /// The name of the resource, for people. Since 2025-06-18.
        "title" => title: optional String, since(V2025_06_18);
        /// A description of the resource, for models.
        "description" => description: optional String;
        /// The media type of the content, if known.
        "mimeType" => mime_type: optional String;
        /// The number of bytes of the content, before any encoding, if known.
        "size" => size: optional u64;
        /// Pictures for user interfaces. Since 2025-11-25.
        "icons" => icons: optional Vec<Icon>, since(V2025_11_25), fits(|icons, _| Icon::all_valid(icons));
        /// Hints about use and display.
        "annotations" => annotations: optional Annotations;
        /// Metadata. Since 2025-06-18.
        "_meta" => meta: optional Meta, since(V2025_06_18);
    }
}

object! {
    /// A family of resources that the server can read.
    pub struct ResourceTemplate: data {
        /// The URI of the resources, with variables: a template of RFC 6570.
        "uriTemplate" => uri_template: required String, is(UriTemplate);
        /// The name of the family, for programs.
        "name" => name: required String;
        /// The name of the family, for people. Since 2025-06-18.
        "title" => title: optional String, since(V2025_06_18);
        /// A description of the resources, for models.
        "description" => description: optional String;
        /// The media type of the content, if it is the same for all resources.
        "mimeType" => mime_type: optional String;
        /// Pictures for user interfaces. Since 2025-11-25.
        "icons" => icons: optional Vec<Icon>, since(V2025_11_25), fits(|icons, _| Icon::all_valid(icons));
        /// Hints about use and display.
        "annotations" => annotations: optional Annotations;
        /// Metadata. Since 2025-06-18.
        "_meta" => meta: optional Meta, since(V2025_06_18);
    }
}
