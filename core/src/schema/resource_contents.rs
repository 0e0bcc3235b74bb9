//! Contents of resources.

use alloc::string::String;

use serde_core::de::Error as _;
use serde_json::Error;

use super::{Meta, encode_base64, is_base64};
use crate::{
    protocol::ProtocolVersion,
    schema::base::{
        decode::{ExpectedType, Member, inside},
        encode::Output,
        macros::*,
    },
    wire::reader::Reader,
};

object! {
    /// The contents of a resource as text.
    pub struct TextResourceContents: data {
        /// The URI of the resource.
        "uri" => uri: required String, is(Uri);
        /// The media type of the content, if known.
        "mimeType" => mime_type: optional String;
        /// The content.
        "text" => text: required String;
        /// Metadata. Since 2025-06-18.
        "_meta" => meta: optional Meta, since(V2025_06_18);
    }
}

object! {
    /// The contents of a resource as bytes.
    pub struct BlobResourceContents: data {
        /// The URI of the resource.
        "uri" => uri: required String, is(Uri);
        /// The media type of the content, if known.
        "mimeType" => mime_type: optional String;
        /// The content in base64, see [`decode_base64`](super::decode_base64).
        "blob" => blob: required String, has_to(|blob, _| is_base64(blob)), is(Base64);
        /// Metadata. Since 2025-06-18.
        "_meta" => meta: optional Meta, since(V2025_06_18);
    }
}

impl BlobResourceContents {
    /// Creates contents from their bytes, which are encoded in base64.
    #[must_use]
    pub fn from_bytes(uri: impl Into<String>, bytes: &[u8]) -> Self {
        Self::new(uri, encode_base64(bytes))
    }
}

/// The contents of a resource: text or bytes, distinguished by the member `text` or `blob`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceContents {
    /// Text.
    Text(TextResourceContents),
    /// Bytes.
    Blob(BlobResourceContents),
}

impl ResourceContents {
    /// Returns the URI of the resource.
    #[must_use]
    pub fn uri(&self) -> &str {
        match self {
            Self::Text(contents) => &contents.uri,
            Self::Blob(contents) => &contents.uri,
        }
    }

    /// Returns the media type of the content, if known.
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

/// Reads contents by the one member, `text` or `blob`, that is present. `null` counts as absent.
fn contents(reader: &mut Reader<'_>) -> Result<ResourceContents, Error> {
    const NAME: &str = "ResourceContents";

    let is_text = reader.look_ahead(|reader| {
        let mut members = reader.members(&ExpectedType(NAME, "an object"))?;
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
