//! Excerpts of texts of the peer, for errors and logs.

use alloc::{borrow::Cow, format};

/// The most bytes of a text that an excerpt has. In the debug format of Rust one byte becomes up to six.
const MAX_EXCERPT: usize = 96;

/// The maximum number of bytes of an error about a peer's message.
const MAX_ERROR_LEN: usize = 768;

/// Returns `text`, or at most its first 96 bytes and an ellipsis if it is longer.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    cut(text, MAX_EXCERPT)
}

/// Returns `text`, or at most its first 768 bytes and an ellipsis if it is longer. For errors, which may repeat more
/// than one text of a peer.
pub(crate) fn excerpt_of_error(text: &str) -> Cow<'_, str> {
    cut(text, MAX_ERROR_LEN)
}

fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    Cow::Owned(format!("{}...", &text[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(excerpt("short"), "short");
        assert_eq!(excerpt(&"x".repeat(MAX_EXCERPT)), "x".repeat(MAX_EXCERPT));
        for character in ["x", "\u{e9}", "\u{200b}", "\u{1f980}"] {
            let cut = excerpt(&character.repeat(MAX_EXCERPT)).replace(character, "");
            assert!(cut == "..." || character == "x" && cut.is_empty(), "{cut}");
            assert!(excerpt_of_error(&character.repeat(1 << 12)).len() <= MAX_ERROR_LEN + 3);
        }
    }
}
