//! Files in the results of tools and as the contents of resources.

use std::{fs, io, path::Path};

use mcp_proto::schema::{
    AudioContent, BlobResourceContents, CallToolResult, ContentBlock, EmbeddedResource, ImageContent,
    ReadResourceResult, ResourceContents, TextResourceContents, encode_base64,
};

use super::{resource::IntoResource, tool_result::IntoToolResult};
use crate::{
    inbound::failure::Failure,
    util::{
        media_type::{is_text, media_type_of},
        uri::escape_segment,
    },
};

/// A file with its media type, as the result of a tool or the contents of a resource.
///
/// The media type is that of the extension of the name. A name without a known extension is `text/plain` if the bytes
/// are UTF-8, and `application/octet-stream` otherwise.
///
/// As the result of a tool, a file is
///
/// - a picture, if its type is `image/..`, except `image/svg+xml`
/// - sound, if its type is `audio/..`. Since 2025-03-26: for earlier revisions the call fails
/// - an embedded resource with text, if its type is a kind of text and the bytes are UTF-8
/// - an embedded resource with bytes otherwise
///
/// As the contents of a resource, it is text or bytes by the same rule.
///
/// ```
/// use mcp_service::{File, Resource, Service, Tool};
///
/// # fn draw() -> Vec<u8> {
/// #     b"GIF89a".to_vec()
/// # }
/// let service = Service::builder("charts", "1")
///     .tool(Tool::new("chart", || File::new("chart.gif", draw())))
///     .resource(Resource::new("docs://manual", "manual", || File::read("manual.pdf")))
///     .build();
/// # service.unwrap();
/// ```
///
/// The size is limited only by [`Limits::frame_bytes`](mcp_proto::connection::Limits::frame_bytes); bytes take a third
/// more in base64.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct File {
    name: String,
    bytes: Vec<u8>,
    mime_type: Option<String>,
    uri: Option<String>,
}

impl File {
    /// Creates a file of this name.
    pub fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), bytes: bytes.into(), mime_type: None, uri: None }
    }

    /// Reads a file. It blocks: an asynchronous handler reads with its runtime and calls [`new`](Self::new).
    ///
    /// # Errors
    /// Returns the error of the file system.
    pub fn read(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self::new(name, fs::read(path)?))
    }

    /// Sets the media type.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Sets the URI of the embedded resource in the result of a tool. Without it the URI is `file:///` with the name.
    /// The contents of a resource have the URI of the resource.
    pub fn uri(mut self, uri: impl Into<String>) -> Self {
        self.uri = Some(uri.into());
        self
    }

    /// Returns the media type.
    #[must_use]
    pub fn media_type(&self) -> &str {
        self.mime_type.as_deref().unwrap_or_else(|| media_type_of(&self.name, &self.bytes))
    }

    fn into_contents(self, uri: String) -> ResourceContents {
        let mime_type = Some(self.media_type().to_owned());
        let bytes = if is_text(self.media_type()) {
            match String::from_utf8(self.bytes) {
                Ok(text) => return TextResourceContents { mime_type, ..TextResourceContents::new(uri, text) }.into(),
                Err(error) => error.into_bytes(),
            }
        } else {
            self.bytes
        };
        BlobResourceContents { mime_type, ..BlobResourceContents::new(uri, encode_base64(&bytes)) }.into()
    }
}

impl From<File> for ContentBlock {
    fn from(mut file: File) -> Self {
        let mime_type = file.media_type();
        if mime_type.starts_with("image/") && mime_type != "image/svg+xml" {
            return ImageContent::from_bytes(&file.bytes, mime_type).into();
        }
        if mime_type.starts_with("audio/") {
            return AudioContent::from_bytes(&file.bytes, mime_type).into();
        }
        let uri = file.uri.take().unwrap_or_else(|| format!("file:///{}", escape_segment(&file.name)));
        EmbeddedResource::new(file.into_contents(uri)).into()
    }
}

impl IntoToolResult for File {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        Ok(CallToolResult::new([ContentBlock::from(self)]))
    }
}

impl IntoResource for File {
    /// Converts the file. The resource sets its URI.
    fn into_resource(self) -> Result<ReadResourceResult, Failure> {
        self.into_contents(String::new()).into_resource()
    }
}
