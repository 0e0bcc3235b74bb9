//! Content blocks of tool results and prompts.

use alloc::{string::String, vec::Vec};

use super::{Annotations, Icon, Meta, ResourceContents, encode_base64, is_base64, is_media_type};
use crate::schema::base::macros::*;

union! {
    /// One content block of a tool result or a prompt.
    ///
    /// The kinds depend on the revision: [`AudioContent`] exists since 2025-03-26, [`ResourceLink`] since 2025-06-18.
    /// Encoding them for earlier revisions is an error.
    ///
    /// Spec: [tool results](https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result)
    pub enum ContentBlock by "type" {
        /// Text.
        Text(TextContent) = "text",
        /// A picture.
        Image(ImageContent) = "image",
        /// Sound. Since 2025-03-26.
        Audio(AudioContent) = "audio",
        /// A link to a resource. Since 2025-06-18.
        ResourceLink(ResourceLink) = "resource_link",
        /// A resource with its contents.
        Resource(EmbeddedResource) = "resource",
    }
}

impl ContentBlock {
    /// Creates a block of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        TextContent::new(text).into()
    }

    /// Creates a picture from its bytes in base64 and their media type.
    #[must_use]
    pub fn image(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        ImageContent::new(data, mime_type).into()
    }

    /// Creates sound from its bytes in base64 and their media type.
    #[must_use]
    pub fn audio(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        AudioContent::new(data, mime_type).into()
    }

    /// Creates a block with a resource and its contents.
    #[must_use]
    pub fn resource(contents: impl Into<ResourceContents>) -> Self {
        EmbeddedResource::new(contents).into()
    }

    /// Returns the text, if this is a block of text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(content) => Some(&content.text),
            _ => None,
        }
    }
}

impl From<&str> for ContentBlock {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for ContentBlock {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

object! {
    /// Text.
    pub struct TextContent: data("type" = "text") {
        /// The text.
        "text" => text: required String;
        /// Hints about use and display.
        "annotations" => annotations: optional Annotations;
        /// Metadata. Since 2025-06-18.
        "_meta" => meta: optional Meta, since(V2025_06_18);
    }
}

object! {
    /// A picture.
    pub struct ImageContent: data("type" = "image") {
        /// The bytes of the picture in base64, see [`decode_base64`](super::decode_base64).
        "data" => data: required String, has_to(|data, _| is_base64(data)), is(Base64);
        /// The media type of the bytes, for example `image/png`.
        "mimeType" => mime_type: required String, has_to(|kind, _| is_media_type(kind)), is(MediaType);
        /// Hints about use and display.
        "annotations" => annotations: optional Annotations;
        /// Metadata. Since 2025-06-18.
        "_meta" => meta: optional Meta, since(V2025_06_18);
    }
}

impl ImageContent {
    /// Creates a picture from its bytes, which are encoded in base64.
    #[must_use]
    pub fn from_bytes(bytes: &[u8], mime_type: impl Into<String>) -> Self {
        Self::new(encode_base64(bytes), mime_type)
    }
}

object! {
    /// Sound. Since 2025-03-26.
    pub struct AudioContent: data("type" = "audio"), since(V2025_03_26) {
        /// The bytes of the sound in base64, see [`decode_base64`](super::decode_base64).
        "data" => data: required String, has_to(|data, _| is_base64(data)), is(Base64);
        /// The media type of the bytes, for example `audio/wav`.
        "mimeType" => mime_type: required String, has_to(|kind, _| is_media_type(kind)), is(MediaType);
        /// Hints about use and display.
        "annotations" => annotations: optional Annotations;
        /// Metadata. Since 2025-06-18.
        "_meta" => meta: optional Meta, since(V2025_06_18);
    }
}

impl AudioContent {
    /// Creates sound from its bytes, which are encoded in base64.
    #[must_use]
    pub fn from_bytes(bytes: &[u8], mime_type: impl Into<String>) -> Self {
        Self::new(encode_base64(bytes), mime_type)
    }
}

object! {
    /// A resource that the server can read, whether or not it is in `resources/list`. Since 2025-06-18.
    ///
    /// A link has the members of a [`Resource`](super::Resource).
    pub struct ResourceLink: data("type" = "resource_link"), since(V2025_06_18) {
        /// The URI of the resource.
        "uri" => uri: required String, is(Uri);
        /// The name of the resource, for programs.
        "name" => name: required String;
        /// The name of the resource, for people.
        "title" => title: optional String;
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
        /// Metadata.
        "_meta" => meta: optional Meta;
    }
}

object! {
    /// A resource with its contents.
    pub struct EmbeddedResource: data("type" = "resource") {
        /// The contents of the resource.
        "resource" => resource: required ResourceContents;
        /// Hints about use and display.
        "annotations" => annotations: optional Annotations;
        /// Metadata. Since 2025-06-18.
        "_meta" => meta: optional Meta, since(V2025_06_18);
    }
}
