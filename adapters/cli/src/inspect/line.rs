//! A line of text that is edited.

use crossterm::event::KeyCode;

/// The most bytes of a line.
const MAX_LINE: usize = 64 * 1024;

/// A text with a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    text: String,
    /// The place of the cursor in bytes, between characters.
    cursor: usize,
}

impl Line {
    /// Creates a line, as much of it as there is room for.
    pub(crate) fn new(text: &str) -> Self {
        let mut line = Self::default();
        line.insert(text);
        line
    }

    /// Creates a line of a text without control characters, unless it is too long: half a value is none.
    pub(crate) fn whole(text: &str) -> Option<Self> {
        let line = Self::new(text);
        let len: usize = text.chars().filter(|letter| !letter.is_control()).map(char::len_utf8).sum();
        (len == line.text.len()).then_some(line)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text before the cursor.
    pub(crate) fn before(&self) -> &str {
        &self.text[..self.cursor]
    }

    /// Returns the text from the cursor on.
    pub(crate) fn after(&self) -> &str {
        &self.text[self.cursor..]
    }

    /// Inserts text without control characters, as much as there is room for.
    pub(crate) fn insert(&mut self, text: &str) {
        let mut added = String::new();
        for letter in text.chars().filter(|letter| !letter.is_control()) {
            if self.text.len() + added.len() + letter.len_utf8() > MAX_LINE {
                break;
            }
            added.push(letter);
        }
        self.text.insert_str(self.cursor, &added);
        self.cursor += added.len();
    }

    /// Takes a key. Returns whether it is one that edits.
    pub(crate) fn take(&mut self, key: KeyCode) -> bool {
        match key {
            KeyCode::Char(letter) => self.insert(letter.encode_utf8(&mut [0; 4])),
            KeyCode::Backspace => {
                if self.step_back() {
                    self.text.remove(self.cursor);
                }
            }
            KeyCode::Delete if self.cursor < self.text.len() => drop(self.text.remove(self.cursor)),
            KeyCode::Delete => {}
            KeyCode::Left => drop(self.step_back()),
            KeyCode::Right => self.cursor += self.text[self.cursor..].chars().next().map_or(0, char::len_utf8),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.text.len(),
            _ => return false,
        }
        true
    }

    fn step_back(&mut self) -> bool {
        let last = self.text[..self.cursor].chars().next_back().map_or(0, char::len_utf8);
        self.cursor -= last;
        last > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_edit_between_characters() {
        let mut line = Line::new("aä");
        for key in [KeyCode::Left, KeyCode::Char('€'), KeyCode::Home, KeyCode::Delete, KeyCode::Right] {
            assert!(line.take(key));
        }
        assert_eq!((line.text(), line.before()), ("€ä", "€"));
        line.take(KeyCode::Backspace);
        line.take(KeyCode::Backspace);
        assert_eq!((line.text(), line.before()), ("ä", ""));
        assert!(!line.take(KeyCode::Enter));
    }

    #[test]
    fn pasted_texts_have_no_control_characters_and_a_bound() {
        let mut line = Line::default();
        line.insert("a\u{1b}[2J\n");
        assert_eq!(line.text(), "a[2J");
        line.insert(&"ä".repeat(MAX_LINE));
        assert!(line.text().len() <= MAX_LINE && line.text().len() > MAX_LINE - 2);
    }
}
