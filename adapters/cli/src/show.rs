//! The output: results on the standard output, everything else on the error output.

use std::io::{self, IsTerminal, Write};

use mcp_proto::{
    connection::Progress,
    schema::{At, ContentBlock, Encode, LogMessageParams, ResourceContents},
};
use serde_json::Value;

use crate::{
    error::Failed,
    text::{escaped, is_break_or_direction, one_line},
};

/// Prints a line.
pub(crate) fn line(text: &str) -> Result<(), Failed> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Prints a value of the protocol as JSON on one line, as its latest revision has it.
pub(crate) fn json<T: Encode>(value: &T) -> Result<(), Failed> {
    line(&for_stdout_json(At(value, None).to_json()?.get()))
}

/// Prints a note for the user.
pub(crate) fn note(text: &str) {
    // There is nothing to do if it cannot be written.
    let _ = writeln!(io::stderr().lock(), "mcp: {}", indented(text));
}

/// Returns a text whose lines, and the texts of a server in them, cannot look like another note.
fn indented(text: &str) -> String {
    printable(text).replace('\n', "\n     ").replace(is_break_or_direction, "\u{fffd}")
}

/// Prints a log message of the server.
pub(crate) fn log(message: &LogMessageParams) {
    let data = serde_json::to_string(&message.data).unwrap_or_default();
    let logger = message.logger.as_deref().map(|logger| format!(" {logger}")).unwrap_or_default();
    let _ = writeln!(io::stderr().lock(), "[{}{}] {}", message.level, one_line(&logger), without_controls(&data));
}

/// Returns a text without control characters other than line breaks and tabs, so that a server cannot control the
/// terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control() || matches!(letter, '\n' | '\t')).collect()
}

/// Returns a text for the standard output: as it is if that is no terminal.
fn for_stdout(text: &str) -> String {
    if io::stdout().is_terminal() { printable(text) } else { text.to_owned() }
}

/// Returns JSON for the standard output: on a terminal without the control characters that JSON allows in texts.
pub(crate) fn for_stdout_json(text: &str) -> String {
    if io::stdout().is_terminal() { without_controls(text) } else { text.to_owned() }
}

/// Escapes the control characters that JSON allows in texts.
pub(crate) fn without_controls(json: &str) -> String {
    let escape = |letter: char| match letter {
        '\u{7f}'..='\u{9f}' => format!("\\u{:04x}", u32::from(letter)),
        letter if is_break_or_direction(letter) => format!("\\u{:04x}", u32::from(letter)),
        _ => letter.to_string(),
    };
    json.chars().map(escape).collect()
}

/// Prints the blocks of a result.
pub(crate) fn content(blocks: &[ContentBlock]) -> Result<(), Failed> {
    for block in blocks {
        match block {
            ContentBlock::Text(text) => line(&for_stdout(&text.text))?,
            ContentBlock::Image(image) => line(&bytes(&image.mime_type, &image.data))?,
            ContentBlock::Audio(audio) => line(&bytes(&audio.mime_type, &audio.data))?,
            ContentBlock::ResourceLink(link) => name(&format!("{} {}", link.uri, link.name))?,
            ContentBlock::Resource(resource) => contents(std::slice::from_ref(&resource.resource))?,
            other => json(other)?,
        }
    }
    Ok(())
}

/// Prints the contents of resources. Bytes are written as they are unless the output is a terminal.
pub(crate) fn contents(all: &[ResourceContents]) -> Result<(), Failed> {
    for one in all {
        match one {
            ResourceContents::Text(text) => line(&for_stdout(&text.text))?,
            ResourceContents::Blob(blob) => match mcp_proto::schema::decode_base64(&blob.blob) {
                Some(decoded) if !io::stdout().is_terminal() => {
                    let mut out = io::stdout().lock();
                    out.write_all(&decoded)?;
                    out.flush()?;
                }
                _ => line(&bytes(blob.mime_type.as_deref().unwrap_or("bytes"), &blob.blob))?,
            },
        }
    }
    Ok(())
}

fn bytes(mime_type: &str, base64: &str) -> String {
    let size = base64.trim_end_matches('=').len() * 3 / 4;
    format!("({}, {size} bytes; --json prints them)", one_line(mime_type))
}

/// Prints the progress of a request: a bar on a terminal, else a line.
pub(crate) fn progress(progress: &Progress<'_>) {
    const WIDTH: usize = 24;
    let message = one_line(progress.message.as_deref().unwrap_or_default());
    let mut out = io::stderr().lock();
    let share = progress.total.filter(|total| *total > 0.0).map(|total| (progress.progress / total).clamp(0.0, 1.0));
    let _ = match share {
        Some(share) if io::stderr().is_terminal() => {
            let filled = (0..WIDTH).take_while(|step| (*step as f64) < share * WIDTH as f64).count();
            let bar = "#".repeat(filled) + &".".repeat(WIDTH - filled);
            write!(out, "\r\x1b[K[{bar}] {:3.0} % {message}", share * 100.0)
                .and_then(|()| if share >= 1.0 { writeln!(out) } else { out.flush() })
        }
        Some(share) => writeln!(out, "{:.0} % {message}", share * 100.0),
        None => writeln!(out, "{} {message}", progress.progress),
    };
}

/// Prints a name of a server, which cannot look like another line: see [`escaped`].
pub(crate) fn name(text: &str) -> Result<(), Failed> {
    line(&escaped(text))
}

/// Prints the name and the first line of the description of an item, [`escaped`].
pub(crate) fn item(name: &str, description: Option<&str>) -> Result<(), Failed> {
    let description = description.unwrap_or_default().lines().next().unwrap_or_default();
    let separator = if description.is_empty() { "" } else { ": " };
    line(&format!("  {}{separator}{}", escaped(name), escaped(description)))
}

/// Prints a value as JSON on several lines.
pub(crate) fn pretty(value: &Value) -> Result<(), Failed> {
    line(&for_stdout(&serde_json::to_string_pretty(value)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_stay_notes() {
        assert_eq!(indented("a\nmcp: b\u{202e}c\u{2028}\u{1b}[2J"), "a\n     mcp: b\u{fffd}c\u{fffd}[2J");
    }

    #[test]
    fn servers_cannot_control_the_terminal() {
        assert_eq!(printable("a\u{1b}[2J\u{9b}1m\u{7}\n\tb"), "a[2J1m\n\tb");
        assert_eq!(without_controls("\"\u{9b}\u{7f}ä\""), "\"\\u009b\\u007fä\"");
        assert_eq!(without_controls("[\"\u{202e}\u{9b}\",\n1]"), "[\"\\u202e\\u009b\",\n1]");
    }
}
