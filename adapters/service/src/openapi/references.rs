//! A document, and the references in it.

use serde_json::Value;

use super::error::{Refusal, excerpt};

/// The most references that lead from one to the next.
const MAX_HOPS: usize = 16;
/// The longest reference, in bytes.
const MAX_REFERENCE: usize = 1 << 10;

/// A parsed document.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) root: Value,
    /// Whether it is of version 3.0, in which schemas are not quite JSON Schema.
    pub(super) is_3_0: bool,
}

impl Document {
    /// Returns the place that a reference names. It may be a reference itself.
    pub(super) fn target(&self, reference: &str) -> Result<&Value, Refusal> {
        let unresolved = || Refusal::Reference(excerpt(reference));
        if reference.len() > MAX_REFERENCE {
            return Err(unresolved());
        }
        let pointer = reference.strip_prefix('#').and_then(decoded).ok_or_else(unresolved)?;
        self.root.pointer(&pointer).ok_or_else(unresolved)
    }

    /// Follows references until there is something else.
    pub(super) fn resolve<'a>(&'a self, mut value: &'a Value) -> Result<&'a Value, Refusal> {
        for _ in 0..MAX_HOPS {
            match reference(value) {
                None => return Ok(value),
                Some(reference) => value = self.target(reference)?,
            }
        }
        Err(Refusal::Reference(excerpt(reference(value).unwrap_or_default())))
    }
}

/// Returns the text of a value that is a reference.
pub(super) fn reference(value: &Value) -> Option<&str> {
    value.get("$ref")?.as_str()
}

/// Returns a text without percent-encoding.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let value = digit()? * 16 + digit()?;
        bytes.push(u8::try_from(value).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_are_pointers_in_the_document() {
        let root =
            json!({"a b": {"c/d": 1, "~": 2}, "x": {"$ref": "#/y"}, "y": {"$ref": "#/a%20b"}, "z": {"$ref": "#/z"}});
        let document = Document { root, is_3_0: false };
        assert_eq!(document.target("#/a%20b/c~1d"), Ok(&json!(1)));
        assert_eq!(document.target("#/a b/~0"), Ok(&json!(2)));
        assert_eq!(document.resolve(&document.root["x"]), Ok(&document.root["a b"]));
        for reference in ["#/none", "other.json#/x", "https://example.com/", "#x", "#/a%2", "#/%ff", ""] {
            assert_eq!(document.target(reference), Err(Refusal::Reference(reference.into())));
        }
        assert_eq!(document.resolve(&document.root["z"]), Err(Refusal::Reference("#/z".into())));
    }

    #[test]
    fn the_length_of_references_is_bounded() {
        let [fits, too_long] = [MAX_REFERENCE - 2, MAX_REFERENCE - 1].map(|length| "x".repeat(length));
        let root = [&fits, &too_long].map(|name| (name.clone(), json!(1))).into_iter().collect();
        let document = Document { root: Value::Object(root), is_3_0: false };
        assert_eq!(document.target(&format!("#/{fits}")), Ok(&json!(1)));
        assert!(document.target(&format!("#/{too_long}")).is_err());
        let escaped = json!({"aZ~": 1});
        assert_eq!(Document { root: escaped, is_3_0: false }.target("#/%61%5A%7e0"), Ok(&json!(1)));
    }
}
