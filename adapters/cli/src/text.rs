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

/// Returns a whole text of a server as one line: line breaks, control characters, and those that change the direction
/// of what follows, are escaped as in JSON. Other characters stay, also a backslash: only JSON output is exact.
pub(crate) fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            letter if letter.is_control() || is_break_or_direction(letter) => {
                line.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            letter => line.push(letter),
        }
    }
    line
}

/// Returns the first lines of a text of a server, at most `most`, each as it can be written to a terminal: control
/// characters, and those that change the direction of what follows, are replaced, and tabs are four blanks.
pub(crate) fn rows(text: &str, most: usize) -> Vec<String> {
    let row = |line: &str| {
        let mut row = String::with_capacity(line.len());
        for letter in line.strip_suffix('\r').unwrap_or(line).chars() {
            match letter {
                '\t' => row.push_str("    "),
                letter if letter.is_control() || is_break_or_direction(letter) => row.push('\u{fffd}'),
                letter => row.push(letter),
            }
        }
        row
    };
    text.split('\n').take(most).map(row).collect()
}

/// Returns the beginning of a text, of at most `most` bytes.
pub(crate) fn beginning(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    &text[..end]
}

/// Returns whether a text can be written to a terminal within a line.
pub(crate) fn is_clean(text: &str) -> bool {
    !text.chars().any(|letter| letter.is_control() || is_break_or_direction(letter))
}

/// Returns whether a character breaks a line, or changes the direction of a text.
pub(crate) const fn is_break_or_direction(letter: char) -> bool {
    matches!(letter,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_no_control_characters() {
        let text = "a\u{1b}[2J\tb\r\nc\u{9b}\u{202e}d\n";
        assert_eq!(rows(text, 9), ["a\u{fffd}[2J    b", "c\u{fffd}\u{fffd}d", ""]);
        assert_eq!(rows(text, 1).len(), 1);
    }

    #[test]
    fn beginnings_end_between_characters() {
        assert_eq!((beginning("aä", 2), beginning("aä", 3), beginning("ä", 1)), ("a", "aä", ""));
    }

    #[test]
    fn names_are_escaped_and_not_cut() {
        let name = "a\nb\r\tc\u{2028}d\u{202e}e\u{1b}[2J\u{85}f\\";
        assert_eq!(escaped(name), "a\\nb\\r\\tc\\u2028d\\u202ee\\u001b[2J\\u0085f\\");
        let long = "ä".repeat(SHORT + 1);
        assert_eq!(escaped(&long), long);
    }

    #[test]
    fn texts_of_servers_stay_in_their_line() {
        let name = "a\nfailed b\r\tc\u{2028}d\u{202e}e\u{1b}[2J";
        assert_eq!(one_line(name), "a\u{fffd}failed b\u{fffd}\u{fffd}c\u{fffd}d\u{fffd}e\u{fffd}[2J");
        let long = one_line(&"ä".repeat(SHORT + 1));
        assert!(long.ends_with("ä [...]") && long.chars().count() == SHORT + 6);
        assert_eq!(one_line(&"ä".repeat(SHORT)), "ä".repeat(SHORT));
    }
}
