//! JSON with line breaks, in the order of its members. It may be only the beginning of a document, or no JSON.

/// The deepest indentation.
const MAX_DEPTH: usize = 40;

/// Returns the text with a line for each member and element. Strings stay as they are. A text that does not begin like
/// an object or an array is returned as it is.
pub(crate) fn pretty(text: &str) -> String {
    if !text.trim_start().starts_with(['{', '[']) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        (0..depth.min(MAX_DEPTH)).for_each(|_| out.push_str("  "));
    };
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if in_text {
            out.push(letter);
            in_text = is_escaped || letter != '"';
            is_escaped = letter == '\\' && !is_escaped;
            continue;
        }
        match letter {
            '"' => {
                in_text = true;
                out.push(letter);
            }
            '{' | '[' => {
                out.push(letter);
                while letters.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                match letters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(letter);
            }
            ',' => {
                out.push(letter);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            letter if letter.is_ascii_whitespace() => {}
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_lines() {
        for (text, expected) in [
            (
                r#"{"b":1,"a":[{},[ ],"x,{\"y\\"]}"#,
                "{\n  \"b\": 1,\n  \"a\": [\n    {},\n    [],\n    \"x,{\\\"y\\\\\"\n  ]\n}",
            ),
            (r#" [1, 2"#, "[\n  1,\n  2"),
            ("no JSON: {", "no JSON: {"),
            (r#"{"a":"b"#, "{\n  \"a\": \"b"),
        ] {
            assert_eq!(pretty(text), expected);
        }
        let deep = pretty(&"[".repeat(10_000));
        assert!(deep.len() < 10_000 * (2 * MAX_DEPTH + 2));
    }
}
