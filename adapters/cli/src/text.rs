//! Texts of servers within lines of this program.

/// The most characters of a text of a server within a line of a report.
const SHORT: usize = 500;

/// Returns a text of a server for a place within a line: line breaks, control characters, and those that change the
/// direction of what follows, are replaced, so that it cannot look like another line. A long text is cut.
pub(crate) fn one_line(text: &str) -> String {
    let replace = |letter: char| if letter.is_control() || is_break_or_direction(letter) { '\u{fffd}' } else { letter };
    let mut letters = text.chars();
    let mut line: String = letters.by_ref().take(SHORT).map(replace).collect();
    if letters.next().is_some() {
        line.push_str(" [...]");
    }
    line
}

/// Whether a character breaks a line, or changes the direction of a text.
pub(crate) const fn is_break_or_direction(letter: char) -> bool {
    matches!(letter,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_servers_stay_in_their_line() {
        let name = "a\nfailed b\r\tc\u{2028}d\u{202e}e\u{1b}[2J";
        assert_eq!(one_line(name), "a\u{fffd}failed b\u{fffd}\u{fffd}c\u{fffd}d\u{fffd}e\u{fffd}[2J");
        let long = one_line(&"ä".repeat(SHORT + 1));
        assert!(long.ends_with("ä [...]") && long.chars().count() == SHORT + 6);
        assert_eq!(one_line(&"ä".repeat(SHORT)), "ä".repeat(SHORT));
    }
}
