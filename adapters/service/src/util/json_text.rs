//! Changes of values in a JSON text.

use std::borrow::Cow;

/// A value in a JSON text.
pub(crate) struct Value<'a> {
    /// The name of the member whose value it is. `None` for an element of an array, and for the whole text.
    pub(crate) name: Option<&'a str>,
    /// The number of arrays and objects around it.
    pub(crate) depth: usize,
    /// The text, if it is one. A text that contains half of a surrogate pair is not readable.
    pub(crate) text: Option<Text<'a>>,
}

/// A text in JSON.
pub(crate) enum Text<'a> {
    Readable(Cow<'a, str>),
    /// It contains half of a surrogate pair.
    Unreadable,
}

/// Replaces values of a valid JSON text, in one pass: `f` gets each value, in the order of the text, and returns the
/// JSON to put in its place. Members of a replaced value are not visited.
pub(crate) fn replace_values(json: &str, mut f: impl FnMut(Value<'_>) -> Option<String>) -> String {
    let bytes = json.as_bytes();
    let mut out = String::with_capacity(json.len());
    // For each array and object around the position: whether it is an object.
    let mut around: Vec<bool> = Vec::new();
    let mut name: Option<Cow<'_, str>> = None;
    // The end of what was copied.
    let (mut copied, mut at) = (0, 0);
    // Whether a name is next, rather than a value.
    let mut expects_name = false;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | b':' => at += 1,
            b',' => {
                expects_name = around.last().copied().unwrap_or(false);
                name = None;
                at += 1;
            }
            b'}' | b']' => {
                around.pop();
                expects_name = false;
                at += 1;
            }
            b'"' if expects_name => {
                let end = end_of_text(bytes, at);
                name = Some(match text(&json[at..end]) {
                    Text::Readable(name) => name,
                    Text::Unreadable => Cow::Borrowed(""),
                });
                expects_name = false;
                at = end;
            }
            opening => {
                let is_text = *opening == b'"';
                let end = if is_text { Some(end_of_text(bytes, at)) } else { None };
                let value =
                    Value { name: name.as_deref(), depth: around.len(), text: end.map(|end| text(&json[at..end])) };
                if let Some(replacement) = f(value) {
                    out.push_str(&json[copied..at]);
                    out.push_str(&replacement);
                    at = end.unwrap_or_else(|| end_of_value(bytes, at));
                    copied = at;
                } else if matches!(opening, b'{' | b'[') {
                    around.push(*opening == b'{');
                    expects_name = *opening == b'{';
                    at += 1;
                } else {
                    at = end.unwrap_or_else(|| end_of_value(bytes, at));
                }
                name = None;
            }
        }
    }
    out.push_str(&json[copied..]);
    out
}

/// Decodes a text in quotes.
fn text(quoted: &str) -> Text<'_> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    if !inner.contains('\\') {
        return Text::Readable(Cow::Borrowed(inner));
    }
    serde_json::from_str(quoted).map_or(Text::Unreadable, |text: String| Text::Readable(Cow::Owned(text)))
}

/// Returns the position after the text that begins at `at`.
fn end_of_text(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the position after the value that begins at `at`.
fn end_of_value(bytes: &[u8], at: usize) -> usize {
    let (mut at, mut depth) = (at, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = end_of_text(bytes, at);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => match depth {
                0 => return at,
                1 => return at + 1,
                _ => depth -= 1,
            },
            b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upper(json: &str) -> String {
        replace_values(json, |value| match value.text? {
            Text::Readable(text) => serde_json::to_string(&text.to_uppercase()).ok(),
            Text::Unreadable => Some("0".into()),
        })
    }

    #[test]
    fn texts_are_replaced_and_all_else_stays() {
        for (json, expected) in [
            (r#""a""#, r#""A""#),
            (r#" "a\"b\\" "#, r#" "A\"B\\" "#),
            (r#"{"a":"b","c":["d",{"e":"f"}, [ "g" ]]}"#, r#"{"a":"B","c":["D",{"e":"F"}, [ "G" ]]}"#),
            (
                r#"{"a" : 1.50 , "b":[18446744073709551616,true,null,{},[]]}"#,
                r#"{"a" : 1.50 , "b":[18446744073709551616,true,null,{},[]]}"#,
            ),
            (r#"["\ud800","\u00e4"]"#, r#"[0,"Ä"]"#),
            (r#"{"":""}"#, r#"{"":""}"#),
        ] {
            assert_eq!(upper(json), expected);
        }
    }

    #[test]
    fn whole_values_are_replaced_by_name() {
        let json = r#"{"x":{"a":"}","b":[1,{"c":"\"]"}]},"y":[1,2] ,"z":-1e5,"x":"t","l":[{"x":null}]}"#;
        let replaced = replace_values(json, |value| (value.name == Some("x")).then(|| "0".into()));
        assert_eq!(replaced, r#"{"x":0,"y":[1,2] ,"z":-1e5,"x":0,"l":[{"x":0}]}"#);
        let replaced = replace_values(json, |value| matches!(value.name, Some("y" | "z" | "l")).then(|| "[]".into()));
        assert_eq!(replaced, r#"{"x":{"a":"}","b":[1,{"c":"\"]"}]},"y":[] ,"z":[],"x":"t","l":[]}"#);
    }

    #[test]
    fn values_have_their_names_and_depths() {
        let mut seen = Vec::new();
        replace_values(r#"{"a":[1,"b"],"c\u0064":{"e":{}}}"#, |value| {
            seen.push((value.name.map(str::to_owned), value.depth));
            None
        });
        let expected = [(None, 0), (Some("a"), 1), (None, 2), (None, 2), (Some("cd"), 1), (Some("e"), 2)];
        assert_eq!(seen, expected.map(|(name, depth)| (name.map(str::to_owned), depth)));
    }
}
