//! Results as one line for terminals.

use mcp_proto::schema::{CallToolResult, ContentBlock, ResourceContents};

/// The width of names in columns.
const NAME: usize = 36;

/// The maximum number of characters of a text.
const WIDTH: usize = 90;

/// Formats a name and a text, without control characters that would move the cursor.
pub(crate) fn line(name: &str, text: &str) -> String {
    format!("  {:<NAME$} {}", plain(name, NAME), plain(text, WIDTH))
}

fn plain(text: &str, width: usize) -> String {
    let mut shown: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(width + 1).collect();
    if shown.chars().count() > width {
        shown = shown.chars().take(width - 1).chain(['…']).collect();
    }
    shown
}

pub(crate) fn result(result: &CallToolResult) -> String {
    let content: Vec<String> = result.content.iter().map(block).collect();
    let error = if result.is_error() { "the tool failed: " } else { "" };
    let structured = if result.structured_content.is_some() { " {…}" } else { "" };
    format!("{error}{}{structured}", content.join(" | "))
}

pub(crate) fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => blob(&image.mime_type, &image.data),
        ContentBlock::Audio(audio) => blob(&audio.mime_type, &audio.data),
        ContentBlock::Resource(embedded) => format!("<{}>", contents(&embedded.resource)),
        ContentBlock::ResourceLink(link) => format!("-> {}", link.uri),
        ContentBlock::Other(_) => "something new".to_owned(),
    }
}

pub(crate) fn contents(contents: &ResourceContents) -> String {
    match contents {
        ResourceContents::Text(text) => text.text.clone(),
        ResourceContents::Blob(bytes) => blob(bytes.mime_type.as_deref().unwrap_or("bytes"), &bytes.blob),
    }
}

fn blob(mime_type: &str, base64: &str) -> String {
    format!("({mime_type}, {} bytes)", base64.trim_end_matches('=').len() * 3 / 4)
}
