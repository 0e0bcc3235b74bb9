//! Resources: what models can read through a server.
//!
//! Spec: [resources](https://modelcontextprotocol.io/specification/2025-11-25/server/resources)

use alloc::{string::String, vec::Vec};

use serde_core::de::Error as _;
use serde_json::Error;

use super::{
    Annotations, CacheScope, EmptyResult, Icon, InputResponses, Meta,
    decode::{Member, Wanted, inside},
    encode::Output,
    encode_base64, is_base64,
    macros::*,
};
use crate::{protocol::ProtocolVersion, wire::reader::Reader};

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

object! {
    /// What is in a resource, as text.
    pub struct TextResourceContents: data {
        /// The URI of the resource.
        "uri" => uri: required String, is(Uri);
        /// The type of the content, if known.
        "mimeType" => mime_type: optional String;
        /// The content.
        "text" => text: required String;
        /// Metadata. Since 2025-06-18.
        "_meta" => meta: optional Meta, since(V2025_06_18);
    }
}

object! {
    /// What is in a resource, as bytes.
    pub struct BlobResourceContents: data {
        /// The URI of the resource.
        "uri" => uri: required String, is(Uri);
        /// The type of the content, if known.
        "mimeType" => mime_type: optional String;
        /// The content in base64, see [`decode_base64`](super::decode_base64).
        "blob" => blob: required String, has_to(|blob, _| is_base64(blob)), is(Base64);
        /// Metadata. Since 2025-06-18.
        "_meta" => meta: optional Meta, since(V2025_06_18);
    }
}

impl BlobResourceContents {
    /// Contents, from their bytes.
    #[must_use]
    pub fn from_bytes(uri: impl Into<String>, bytes: &[u8]) -> Self {
        Self::new(uri, encode_base64(bytes))
    }
}

/// What is in a resource: text or bytes, known by the member `text` or `blob`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceContents {
    /// Text.
    Text(TextResourceContents),
    /// Bytes.
    Blob(BlobResourceContents),
}

impl ResourceContents {
    /// The URI of the resource.
    #[must_use]
    pub fn uri(&self) -> &str {
        match self {
            Self::Text(contents) => &contents.uri,
            Self::Blob(contents) => &contents.uri,
        }
    }

    /// The type of the content, if known.
    #[must_use]
    pub fn mime_type(&self) -> Option<&str> {
        match self {
            Self::Text(contents) => contents.mime_type.as_deref(),
            Self::Blob(contents) => contents.mime_type.as_deref(),
        }
    }
}

impl From<TextResourceContents> for ResourceContents {
    fn from(contents: TextResourceContents) -> Self {
        Self::Text(contents)
    }
}

impl From<BlobResourceContents> for ResourceContents {
    fn from(contents: BlobResourceContents) -> Self {
        Self::Blob(contents)
    }
}

impl ResourceContents {
    fn write<O: Output>(&self, version: Option<ProtocolVersion>, out: O) -> Result<O::Done, O::Error> {
        match self {
            Self::Text(contents) => out.value(contents, version),
            Self::Blob(contents) => out.value(contents, version),
        }
    }
}

through_write! { ResourceContents }

/// Reads contents as what the one member of the two, `text` or `blob`, makes of them. `null` is none.
fn contents(reader: &mut Reader<'_>) -> Result<ResourceContents, Error> {
    const NAME: &str = "ResourceContents";

    let is_text = reader.look_ahead(|reader| {
        let mut members = reader.members(&Wanted(NAME, "an object"))?;
        while let Some(name) = members.next()? {
            let value = members.value();
            match (&*name, value.peek()) {
                ("text", Some(b'"')) => return Ok(true),
                ("blob", Some(b'"')) => return Ok(false),
                ("text" | "blob", _) if !value.null()? => {
                    return Err(inside(NAME, &name, &value.unexpected(&"a string")));
                }
                ("text" | "blob", _) => {}
                _ => _ = value.raw()?,
            }
        }
        Err(Error::custom(format_args!("{NAME}: missing member `text` or `blob`")))
    })?;
    let contents = if is_text {
        ResourceContents::Text(Member::read(reader)?)
    } else {
        ResourceContents::Blob(Member::read(reader)?)
    };
    let other = match &contents {
        ResourceContents::Text(contents) => contents.extra.get("blob"),
        ResourceContents::Blob(contents) => contents.extra.get("text"),
    };
    match other {
        Some(other) if !other.is_null() => Err(Error::custom(format_args!("{NAME}: both `text` and `blob`"))),
        _ => Ok(contents),
    }
}

#[cfg(feature = "arbitrary")]
impl super::ArbitraryAt for ResourceContents {
    fn arbitrary_at(u: &mut arbitrary::Unstructured<'_>, version: Option<ProtocolVersion>) -> arbitrary::Result<Self> {
        if u.arbitrary()? {
            super::ArbitraryAt::arbitrary_at(u, version).map(Self::Text)
        } else {
            super::ArbitraryAt::arbitrary_at(u, version).map(Self::Blob)
        }
    }
}

through_decode_and_encode! { ResourceContents, contents }
