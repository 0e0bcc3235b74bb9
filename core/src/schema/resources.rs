//! Resources: what models can read through a server.
//!
//! Spec: [resources](https://modelcontextprotocol.io/specification/2025-11-25/server/resources)

use alloc::{string::String, vec::Vec};

use super::{Annotations, CacheScope, EmptyResult, Icon, InputResponses, Meta, ResourceContents};
use crate::schema::base::macros::*;

object! {
    /// Params of `resources/list`.
    pub struct ListResourcesParams: params(ListResources => ListResourcesResult) {
        /// Where to go on: `next_cursor` of the page before.
        "cursor" => cursor: optional String;
    }
}

object! {
    /// The result of `resources/list`: one page of resources.
    pub struct ListResourcesResult: result {
        /// The resources.
        "resources" => resources: required Vec<Resource>;
        /// Where the next page starts. Without it this is the last page.
        "nextCursor" => next_cursor: optional String;
        /// For how many milliseconds the result can be reused. Since 2026-07-28.
        "ttlMs" => ttl_ms: optional u64, since(V2026_07_28), or(|| 0);
        /// Who may reuse the result. Since 2026-07-28.
        "cacheScope" => cache_scope: optional CacheScope, since(V2026_07_28), fits(|scope, _| scope.is_known()),
            or(|| CacheScope::Private);
    }
}

object! {
    /// Params of `resources/templates/list`.
    pub struct ListResourceTemplatesParams: params(ListResourceTemplates => ListResourceTemplatesResult) {
        /// Where to go on: `next_cursor` of the page before.
        "cursor" => cursor: optional String;
    }
}

object! {
    /// The result of `resources/templates/list`: one page of templates.
    pub struct ListResourceTemplatesResult: result {
        /// The templates.
        "resourceTemplates" => resource_templates: required Vec<ResourceTemplate>;
        /// Where the next page starts. Without it this is the last page.
        "nextCursor" => next_cursor: optional String;
        /// For how many milliseconds the result can be reused. Since 2026-07-28.
        "ttlMs" => ttl_ms: optional u64, since(V2026_07_28), or(|| 0);
        /// Who may reuse the result. Since 2026-07-28.
        "cacheScope" => cache_scope: optional CacheScope, since(V2026_07_28), fits(|scope, _| scope.is_known()),
            or(|| CacheScope::Private);
    }
}

object! {
    /// Params of `resources/read`.
    pub struct ReadResourceParams: params(ReadResource => ReadResourceResult) {
        /// The URI of the resource.
        "uri" => uri: required String, is(Uri);
        /// The answers to the questions of the result before. Since 2026-07-28.
        "inputResponses" => input_responses: optional InputResponses, since(V2026_07_28), or_refuse,
            is(Answer);
        /// The state from the result before. Since 2026-07-28.
        "requestState" => request_state: optional String, since(V2026_07_28), or_refuse;
    }
}

object! {
    /// The result of `resources/read`.
    pub struct ReadResourceResult: result {
        /// What is in the resource. A resource may consist of several, each with its own URI.
        "contents" => contents: required Vec<ResourceContents>;
        /// For how many milliseconds the result can be reused. Since 2026-07-28.
        "ttlMs" => ttl_ms: optional u64, since(V2026_07_28), or(|| 0);
        /// Who may reuse the result. Since 2026-07-28.
        "cacheScope" => cache_scope: optional CacheScope, since(V2026_07_28), fits(|scope, _| scope.is_known()),
            or(|| CacheScope::Private);
    }
}

object! {
    /// Params of `resources/subscribe`: the client wants to hear of changes. Up to 2025-11-25.
    pub struct SubscribeParams: params(Subscribe => EmptyResult) {
        /// The URI of the resource.
        "uri" => uri: required String, is(Uri);
    }
}

object! {
    /// Params of `resources/unsubscribe`: the client does not want to hear of changes any more. Up to 2025-11-25.
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
        /// The URI of the resource: the one that was subscribed to, or one below it.
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
        /// What the resource is, for models.
        "description" => description: optional String;
        /// The type of the content, if known.
        "mimeType" => mime_type: optional String;
        /// The number of bytes of the content, before any encoding, if known.
        "size" => size: optional u64;
        /// Pictures for user interfaces. Since 2025-11-25.
        "icons" => icons: optional Vec<Icon>, since(V2025_11_25), fits(|icons, _| Icon::all_valid(icons));
        /// Whom it is for and how important it is.
        "annotations" => annotations: optional Annotations;
        /// Metadata. Since 2025-06-18.
        "_meta" => meta: optional Meta, since(V2025_06_18);
    }
}

object! {
    /// A family of resources that the server can read.
    pub struct ResourceTemplate: data {
        /// The URI of the resources, with gaps to fill in: a template of RFC 6570.
        "uriTemplate" => uri_template: required String, is(UriTemplate);
        /// The name of the family, for programs.
        "name" => name: required String;
        /// The name of the family, for people. Since 2025-06-18.
        "title" => title: optional String, since(V2025_06_18);
        /// What the resources are, for models.
        "description" => description: optional String;
        /// The type of the content, if it is the same for all.
        "mimeType" => mime_type: optional String;
        /// Pictures for user interfaces. Since 2025-11-25.
        "icons" => icons: optional Vec<Icon>, since(V2025_11_25), fits(|icons, _| Icon::all_valid(icons));
        /// Whom they are for and how important they are.
        "annotations" => annotations: optional Annotations;
        /// Metadata. Since 2025-06-18.
        "_meta" => meta: optional Meta, since(V2025_06_18);
    }
}
