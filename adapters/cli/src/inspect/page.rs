//! Texts of several lines: results, messages and help, wrapped for a pane.

use serde_json::Value;

use super::traffic::{Row, State, Text};
use crate::{record::Origin, text};

/// The most lines of a page.
const MAX_LINES: usize = 2_000;

/// The most bytes of a text on a page.
const MAX_BYTES: usize = 64 * 1024;

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) lines: Vec<PageLine>,
}

/// A line of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageLine {
    pub(crate) kind: LineKind,
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    Plain,
    Heading,
    Error,
}

impl Page {
    pub(crate) fn new(title: &str) -> Self {
        Self { title: text::one_line(title), lines: Vec::new() }
    }

    /// Adds the lines of a text, as far as there is room.
    pub(crate) fn add(&mut self, kind: LineKind, content: &str) {
        let end = (0..=content.len().min(MAX_BYTES)).rev().find(|at| content.is_char_boundary(*at)).unwrap_or_default();
        let room = MAX_LINES.saturating_sub(self.lines.len());
        let lines = text::rows(&content[..end], room);
        self.lines.extend(lines.into_iter().map(|text| PageLine { kind, text }));
        if end < content.len() && room > 0 {
            let text = format!("[... {} bytes in all]", content.len());
            self.lines.push(PageLine { kind: LineKind::Heading, text });
        }
    }

    /// Shows the outcome of a call: the texts of its content first, then all of it.
    pub(crate) fn of_outcome(title: &str, outcome: &Result<Value, String>) -> Self {
        let mut page = Self::new(title);
        let value = match outcome {
            Ok(value) => value,
            Err(error) => {
                page.add(LineKind::Error, error);
                return page;
            }
        };
        let is_error = value.get("isError") == Some(&Value::Bool(true));
        if is_error {
            page.add(LineKind::Error, "the tool has failed");
        }
        let kind = if is_error { LineKind::Error } else { LineKind::Plain };
        for name in ["content", "contents", "messages"] {
            for block in value.get(name).and_then(Value::as_array).into_iter().flatten() {
                page.add_block(kind, block);
            }
        }
        if let Some(structured) = value.get("structuredContent") {
            page.add(LineKind::Heading, "structured content");
            page.add(kind, &pretty(structured));
        }
        page.add(LineKind::Heading, "result");
        page.add(LineKind::Plain, &pretty(value));
        page
    }

    fn add_block(&mut self, kind: LineKind, block: &Value) {
        let member = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(str::to_owned);
        // Messages of prompts have a role and one block.
        let (role, block) = match (member(block, "role"), block.get("content")) {
            (Some(role), Some(content)) => (Some(role), content),
            _ => (None, block),
        };
        if let Some(role) = role {
            self.add(LineKind::Heading, &format!("{role}:"));
        }
        let inner = block.get("resource").unwrap_or(block);
        let data = member(inner, "data").or_else(|| member(inner, "blob"));
        match (member(inner, "text"), data, member(inner, "uri")) {
            (Some(text), ..) => self.add(kind, &text),
            (_, Some(data), _) => {
                let size = data.trim_end_matches('=').len() * 3 / 4;
                self.add(kind, &format!("({}, {size} bytes)", member(inner, "mimeType").unwrap_or_default()));
            }
            (_, _, Some(uri)) => self.add(kind, &uri),
            _ => self.add(kind, &block.to_string()),
        }
    }

    /// Shows a row of the traffic: what it broke, and its messages.
    pub(crate) fn of_row(row: &Row) -> Self {
        let id = row.id.as_ref().map(|id| format!(" id {id}")).unwrap_or_default();
        let mut page = Self::new(&format!("{}{id}", row.title));
        for finding in &row.findings {
            let rule = finding.rule.map(|rule| format!(" {rule}")).unwrap_or_default();
            page.add(LineKind::Error, &format!("broken by the {}:{rule} {}", finding.by.name(), finding.what));
            if !finding.text.is_empty() {
                page.add(LineKind::Plain, finding.text);
            }
        }
        if let State::Error(error) = &row.state {
            page.add(LineKind::Error, &format!("error {error}"));
        }
        if let Some(progress) = &row.progress {
            page.add(LineKind::Plain, &format!("progress {progress}"));
        }
        if matches!(row.state, State::Log | State::Event) {
            page.add(LineKind::Plain, &row.title);
        }
        for (text, from) in [(&row.request, row.from), (&row.response, row.from.other())] {
            if let Some(text) = text {
                let (from, to) = (from.name(), from.other().name());
                page.add(LineKind::Heading, &format!("{from} to {to}"));
                page.add_message(text);
            }
        }
        page
    }

    fn add_message(&mut self, Text { text, is_cut }: &Text) {
        match serde_json::from_str::<Value>(text) {
            Ok(value) if !is_cut => self.add(LineKind::Plain, &pretty(&value)),
            _ => self.add(LineKind::Plain, text),
        }
        if *is_cut {
            self.add(LineKind::Heading, "[only the beginning is kept]");
        }
    }

    /// Returns the lines, cut at a width. A character never takes two lines.
    pub(crate) fn wrapped(&self, width: usize) -> Vec<PageLine> {
        let wrap = |line: &PageLine| {
            let kind = line.kind;
            wrap(&line.text, width).into_iter().map(move |text| PageLine { kind, text })
        };
        self.lines.iter().flat_map(wrap).collect()
    }
}

/// Returns JSON on several lines.
fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Returns the columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    ratatui::text::Span::raw(text).width()
}

/// The most columns that are left empty to end a line after a blank.
const MAX_WORD: usize = 24;

/// Cuts a text into lines of at most `most` columns, after a blank where one is near.
pub(crate) fn wrap(text: &str, most: usize) -> Vec<String> {
    if text.len() <= most {
        return vec![text.to_owned()];
    }
    let (mut lines, mut line, mut taken) = (Vec::new(), String::new(), 0);
    for letter in text.chars() {
        let columns = if letter.is_ascii() { 1 } else { width(letter.encode_utf8(&mut [0; 4])) };
        if taken + columns > most.max(1) {
            let word = line.rfind(' ').map(|at| line.split_off(at + 1)).unwrap_or_default();
            let (whole, next) =
                if word.len() <= MAX_WORD.min(most / 2) { (line, word) } else { (line + &word, String::new()) };
            lines.push(whole);
            (taken, line) = (width(&next), next);
        }
        line.push(letter);
        taken += columns;
    }
    lines.push(line);
    lines
}

/// Returns a text of exactly `columns` columns: cut with `~`, or with blanks after it.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    let taken = width(text);
    if taken <= columns {
        return format!("{text}{}", " ".repeat(columns - taken));
    }
    let mut cut = String::new();
    for letter in text.chars() {
        cut.push(letter);
        if width(&cut) >= columns {
            cut.pop();
            break;
        }
    }
    cut.push_str(&"~".repeat(columns.saturating_sub(width(&cut))));
    cut
}

/// Returns the name of a direction: to the server, or to the client.
pub(crate) const fn arrow(from: Origin) -> &'static str {
    match from {
        Origin::Client => ">",
        Origin::Server => "<",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_wrapped_by_their_columns() {
        assert_eq!(wrap("abcde", 2), ["ab", "cd", "e"]);
        assert_eq!(wrap("a漢字b", 3), ["a漢", "字b"]);
        assert_eq!(wrap("", 3), [""]);
        assert_eq!(
            wrap("some words and averyveryverylongword", 12),
            ["some words ", "and averyver", "yverylongwor", "d"]
        );
        assert_eq!(
            (fit("ab", 4), fit("abcdef", 4), fit("漢字", 4), fit("漢字漢", 4)),
            ("ab  ".into(), "abc~".into(), "漢字".into(), "漢~~".into(),)
        );
    }

    #[test]
    fn results_show_their_texts_first() {
        let result = json!({"isError": true, "content": [{"type": "text", "text": "a\u{1b}[2J\nb"},
            {"type": "image", "mimeType": "image/png", "data": "AAAA"}]});
        let page = Page::of_outcome("tools/call x", &Ok(result));
        let lines: Vec<_> = page.lines.iter().take(5).map(|line| line.text.as_str()).collect();
        assert_eq!(lines, ["the tool has failed", "a\u{fffd}[2J", "b", "(image/png, 3 bytes)", "result"]);
        let page = Page::of_outcome("x", &Err("timed out".into()));
        assert_eq!(page.lines, [PageLine { kind: LineKind::Error, text: "timed out".into() }]);
        let prompt = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]});
        let page = Page::of_outcome("x", &Ok(prompt));
        assert_eq!((page.lines[0].text.as_str(), page.lines[1].text.as_str()), ("user:", "hi"));
    }

    #[test]
    fn pages_are_bounded() {
        let mut page = Page::new("x");
        page.add(LineKind::Plain, &"ä".repeat(MAX_BYTES));
        assert!(page.lines[0].text.len() <= MAX_BYTES && page.lines.len() == 2);
        for _ in 0..3 {
            page.add(LineKind::Plain, &"\n".repeat(MAX_BYTES));
        }
        assert!(page.lines.len() <= MAX_LINES + 1, "{}", page.lines.len());
    }
}
