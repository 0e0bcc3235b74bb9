//! Texts of several lines: results, messages and help, wrapped for a pane.

use std::io;

use serde_json::Value;

use super::traffic::{Row, State, Text};
use crate::{record::Origin, text};

/// The most lines of a page.
const MAX_LINES: usize = 2_000;

/// The most bytes of a text on a page.
const MAX_BYTES: usize = 64 * 1024;

/// The most bytes of a page.
const MAX_PAGE: usize = 256 * 1024;

/// The most characters for each column: some characters have no width.
const MAX_LETTERS: usize = 8;

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) lines: Vec<PageLine>,
    /// The bytes of the lines.
    bytes: usize,
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
        Self { title: text::one_line(title), ..Self::default() }
    }

    /// Adds the lines of a text, as far as there is room.
    pub(crate) fn add(&mut self, kind: LineKind, content: &str) {
        let cut = text::beginning(content, MAX_BYTES);
        self.add_lines(kind, cut);
        if cut.len() < content.len() {
            self.add_lines(LineKind::Heading, &format!("[... {} bytes in all]", content.len()));
        }
    }

    /// Adds JSON.
    fn add_json(&mut self, kind: LineKind, value: &Value) {
        let (text, is_cut) = pretty(value);
        self.add_lines(kind, &text);
        if is_cut {
            self.add_lines(LineKind::Heading, "[... only the beginning is shown]");
        }
    }

    /// Adds lines. If there is no room for all of them, a line says so, and the page is full.
    fn add_lines(&mut self, kind: LineKind, content: &str) {
        if self.is_full() {
            return;
        }
        let lines = text::rows(content, MAX_LINES - self.lines.len());
        self.bytes += lines.iter().map(String::len).sum::<usize>();
        self.lines.extend(lines.into_iter().map(|text| PageLine { kind, text }));
        if self.is_full() {
            let text = "[... the rest is not shown]".to_owned();
            self.lines.push(PageLine { kind: LineKind::Heading, text });
        }
    }

    const fn is_full(&self) -> bool {
        self.lines.len() >= MAX_LINES || self.bytes >= MAX_PAGE - MAX_BYTES
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
                if page.is_full() {
                    break;
                }
                page.add_block(kind, block);
            }
        }
        if let Some(structured) = value.get("structuredContent") {
            page.add(LineKind::Heading, "structured content");
            page.add_json(kind, structured);
        }
        page.add(LineKind::Heading, "result");
        page.add_json(LineKind::Plain, value);
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
            Ok(value) if !is_cut => self.add_json(LineKind::Plain, &value),
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

/// The beginning of what is written.
struct Beginning(Vec<u8>);

impl io::Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(MAX_BYTES - self.0.len());
        self.0.extend_from_slice(&bytes[..len]);
        // Without room, 0 ends the writing.
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the beginning of JSON on several lines, and whether it is cut. Blanks of deep JSON may be many times its
/// size, so that it is not written whole.
fn pretty(value: &Value) -> (String, bool) {
    let mut beginning = Beginning(Vec::new());
    let is_cut = serde_json::to_writer_pretty(&mut beginning, value).is_err();
    let text = String::from_utf8_lossy(&beginning.0);
    // A character that was cut in two is left out.
    (if is_cut { text.trim_end_matches('\u{fffd}') } else { &text }.to_owned(), is_cut)
}

/// Returns the columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    ratatui::text::Span::raw(text).width()
}

/// Returns the columns that a character takes at most.
fn columns_of(letter: char) -> usize {
    match letter {
        // It lets the character before it take two.
        '\u{fe0f}' => 1,
        letter if letter.is_ascii() => 1,
        letter => width(letter.encode_utf8(&mut [0; 4])),
    }
}

/// The most columns that are left empty to end a line after a blank.
const MAX_WORD: usize = 24;

/// Cuts a text into lines of at most `most` columns, after a blank where one is near.
pub(crate) fn wrap(text: &str, most: usize) -> Vec<String> {
    if text.len() <= most {
        return vec![text.to_owned()];
    }
    let (mut lines, mut line, mut taken, mut letters) = (Vec::new(), String::new(), 0, 0);
    for letter in text.chars() {
        let columns = columns_of(letter);
        if taken + columns > most.max(1) || letters == most.max(1) * MAX_LETTERS {
            let word = line.rfind(' ').map(|at| line.split_off(at + 1)).unwrap_or_default();
            let (whole, next) =
                if word.len() <= MAX_WORD.min(most / 2) { (line, word) } else { (line + &word, String::new()) };
            lines.push(whole);
            (taken, letters, line) = (width(&next), 0, next);
        }
        line.push(letter);
        taken += columns;
        letters += 1;
    }
    lines.push(line);
    lines
}

/// Returns a text of exactly `columns` columns: cut with `~`, or with blanks after it.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    let (mut cut, mut taken, mut is_cut) = (String::new(), 0, false);
    for (index, letter) in text.chars().enumerate() {
        is_cut = taken + columns_of(letter) > columns || index == columns * MAX_LETTERS;
        if is_cut {
            break;
        }
        taken += columns_of(letter);
        cut.push(letter);
    }
    // One column is for the mark.
    while is_cut && taken >= columns {
        let Some(letter) = cut.pop() else { break };
        taken -= columns_of(letter);
    }
    // A sequence of characters may take fewer columns than its characters.
    let rest = columns.saturating_sub(width(&cut));
    cut.push_str(&if is_cut { "~" } else { " " }.repeat(rest));
    cut
}

/// Returns the end of a text, of at most `columns` columns.
pub(crate) fn tail(text: &str, columns: usize) -> &str {
    let (mut taken, mut start) = (0, text.len());
    for (at, letter) in text.char_indices().rev().take(columns * MAX_LETTERS) {
        taken += columns_of(letter);
        if taken > columns {
            break;
        }
        start = at;
    }
    &text[start..]
}

/// Returns the beginning of a text: as many characters as may be shown in some columns.
pub(crate) fn head(text: &str, columns: usize) -> String {
    text.chars().take(columns * MAX_LETTERS).collect()
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

    #[test]
    fn characters_without_a_width_are_bounded_too() {
        let bad = "\u{200b}".repeat(3_000) + &"a".repeat(300) + &"\u{301}".repeat(3_000);
        let cut = fit(&bad, 20);
        assert!(cut.chars().count() <= 20 * MAX_LETTERS + 20, "{}", cut.chars().count());
        assert_eq!(width(&cut), 20);
        assert_eq!(fit("e\u{301}e\u{301}e\u{301}", 2), "e\u{301}~");
        assert_eq!(width(&fit(&"\u{2601}\u{fe0f}".repeat(9), 7)), 7);
        for line in wrap(&bad, 20) {
            assert!(line.chars().count() <= 20 * MAX_LETTERS + MAX_WORD, "{}", line.chars().count());
        }
        assert_eq!(wrap(&bad, 20).concat(), bad);
    }

    #[test]
    fn ends_and_beginnings_are_cut_by_columns() {
        assert_eq!((tail("a漢字", 3), tail("a漢字", 5), tail("", 3)), ("字", "a漢字", ""));
        let bad = "\u{301}".repeat(1_000);
        assert_eq!((tail(&bad, 3).chars().count(), head(&bad, 3).chars().count()), (24, 24));
    }

    #[test]
    fn deep_json_is_not_written_whole() {
        let deep = (0..100).fold(json!(vec![1; 10_000]), |value, _| json!([value]));
        let (text, is_cut) = pretty(&deep);
        assert!(is_cut && text.len() <= MAX_BYTES, "{}", text.len());
        assert_eq!(pretty(&json!({"a": "ä"})), ("{\n  \"a\": \"ä\"\n}".to_owned(), false));
        let (text, is_cut) = pretty(&json!("ä".repeat(MAX_BYTES)));
        assert!(is_cut && text.ends_with('ä') && text.len() < MAX_BYTES, "{}", text.len());
        let page = Page::of_outcome("x", &Ok(deep));
        assert_eq!(page.lines.last().map(|line| line.text.as_str()), Some("[... only the beginning is shown]"));
    }

    #[test]
    fn pages_are_bounded_in_all() {
        let block = json!({"type": "text", "text": "x".repeat(MAX_BYTES)});
        let result = json!({"content": vec![block; 50], "structuredContent": {"a": 1}});
        let page = Page::of_outcome("x", &Ok(result));
        let bytes: usize = page.lines.iter().map(|line| line.text.len()).sum();
        assert!(bytes <= MAX_PAGE + 1_000, "{bytes}");
        assert_eq!(page.lines.last().map(|line| line.text.as_str()), Some("[... the rest is not shown]"));
    }
}
