//! The keys that `_meta` may have.
//!
//! A key is `[prefix/]name`. The prefix is a series of labels joined by dots. The specification reserves some prefixes,
//! by a rule that differs between revisions. Keys of an application avoid the prefixes of every revision.

use core::fmt;

use super::ProtocolVersion;

/// The reason why a key cannot be used in `_meta`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidMetaKey {
    /// A label of the prefix does not start with a letter or does not end with a letter or digit, or has other
    /// characters than letters, digits and hyphens.
    Prefix,
    /// The name does not start and end with a letter or digit, or has other characters than letters, digits and `-_.`.
    Name,
    /// The specification reserves the key.
    Reserved,
}

impl fmt::Display for InvalidMetaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prefix => "the prefix is not a series of labels",
            Self::Name => "the name has characters that are not allowed, or not there",
            Self::Reserved => "the key is reserved by the specification",
        })
    }
}

impl core::error::Error for InvalidMetaKey {}

/// Checks a key that an application uses for its own metadata, in any revision.
///
/// # Errors
/// Returns an error if the key breaks the grammar or is reserved in some revision.
pub fn check_meta_key(key: &str) -> Result<(), InvalidMetaKey> {
    let (prefix, name) = split(key);
    if prefix.is_some_and(|prefix| !prefix.split('.').all(is_label)) {
        return Err(InvalidMetaKey::Prefix);
    }
    if !name.is_empty() && !is_enclosed(name, u8::is_ascii_alphanumeric, b"-_.") {
        return Err(InvalidMetaKey::Name);
    }
    if key == "progressToken" || ProtocolVersion::ALL.into_iter().any(|version| is_reserved_meta_key(key, version)) {
        return Err(InvalidMetaKey::Reserved);
    }
    Ok(())
}

/// Checks the name of an extension (2026-07-28): a key with a prefix, which the specification may reserve.
///
/// # Errors
/// Returns an error if the name breaks the grammar of keys or has no prefix.
pub fn check_extension_name(name: &str) -> Result<(), InvalidMetaKey> {
    match check_meta_key(name) {
        _ if !name.contains('/') => Err(InvalidMetaKey::Prefix),
        Err(InvalidMetaKey::Reserved) => Ok(()),
        checked => checked,
    }
}

/// Returns whether `version` reserves the prefix of `key`.
///
/// Revisions up to 2025-03-26 reserve no prefix. 2025-06-18 reserves prefixes in which one label follows `mcp` or
/// `modelcontextprotocol`. Later revisions reserve prefixes with one of these words as the second label.
#[must_use]
pub fn is_reserved_meta_key(key: &str, version: ProtocolVersion) -> bool {
    let Some(prefix) = split(key).0 else { return false };
    let decisive = match version {
        ProtocolVersion::V2024_11_05 | ProtocolVersion::V2025_03_26 => None,
        ProtocolVersion::V2025_06_18 => prefix.rsplit('.').nth(1),
        ProtocolVersion::V2025_11_25 | ProtocolVersion::V2026_07_28 => prefix.split('.').nth(1),
    };
    matches!(decisive, Some("mcp" | "modelcontextprotocol"))
}

fn split(key: &str) -> (Option<&str>, &str) {
    key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name))
}

fn is_label(label: &str) -> bool {
    label.starts_with(|first: char| first.is_ascii_alphabetic()) && is_enclosed(label, u8::is_ascii_alphanumeric, b"-")
}

/// Returns whether `text` starts and ends with bytes of one kind and has only these and `inner` bytes in between.
fn is_enclosed(text: &str, is_outer: fn(&u8) -> bool, inner: &[u8]) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(is_outer)
        && bytes.last().is_some_and(is_outer)
        && bytes.iter().all(|byte| is_outer(byte) || inner.contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use InvalidMetaKey::{Name, Prefix, Reserved};

    // req: META-005 META-006 META-007 M-META-020 M-META-021
    #[test]
    fn meta_keys_follow_the_grammar() {
        let table = [
            ("", Ok(())),
            ("a", Ok(())),
            ("traceparent", Ok(())),
            ("9lives", Ok(())),
            ("a-b_c.d", Ok(())),
            ("com.example/", Ok(())),
            ("com.example/a", Ok(())),
            ("com.example/a.b-c_d", Ok(())),
            ("a1-2b.c/x", Ok(())),
            ("ui/resourceUri", Ok(())),
            ("/a", Err(Prefix)),
            (".com/a", Err(Prefix)),
            ("com./a", Err(Prefix)),
            ("com..example/a", Err(Prefix)),
            ("9com/a", Err(Prefix)),
            ("com-/a", Err(Prefix)),
            ("-com/a", Err(Prefix)),
            ("com_example/a", Err(Prefix)),
            ("com example/a", Err(Prefix)),
            ("cöm/a", Err(Prefix)),
            ("com.example/-a", Err(Name)),
            ("com.example/a_", Err(Name)),
            ("com.example/.", Err(Name)),
            ("com.example/a/b", Err(Name)),
            ("a b", Err(Name)),
            ("ä", Err(Name)),
            ("_", Err(Name)),
            ("progressToken", Err(Reserved)),
        ];
        for (key, expected) in table {
            assert_eq!(check_meta_key(key), expected, "{key:?}");
        }
    }

    // req: M-VERS-009
    #[test]
    fn extension_names_require_a_prefix() {
        for good in ["io.modelcontextprotocol/tasks", "com.example/barn", "x/y", "com.mcp.tools/a", "com.example/"] {
            assert_eq!(check_extension_name(good), Ok(()), "{good}");
        }
        for bad in ["", "tasks", "progressToken", "com.example", "/tasks", "9a/b", "com..example/a"] {
            assert_eq!(check_extension_name(bad), Err(Prefix), "{bad}");
        }
        assert_eq!(check_extension_name("com.example/a b"), Err(Name));
    }

    // req: META-008 META-009 M-META-023
    #[test]
    fn revisions_reserve_meta_key_prefixes() {
        use ProtocolVersion::{V2024_11_05, V2025_06_18, V2025_11_25, V2026_07_28};
        // key, reserved in 2025-06-18, reserved later
        let table = [
            ("modelcontextprotocol.io/a", true, false),
            ("mcp.dev/", true, false),
            ("tools.mcp.com/a", true, true),
            ("api.modelcontextprotocol.org/a", true, true),
            ("io.modelcontextprotocol/related-task", false, true),
            ("dev.mcp/a", false, true),
            ("com.mcp.tools/a", true, true),
            ("com.mcp.tools.x/a", false, true),
            ("com.example.mcp/a", false, false),
            ("com.example.mcp.tools/a", true, false),
            ("mcp/a", false, false),
            ("com.example/mcp", false, false),
            ("com.mcpx/a", false, false),
            ("mcp", false, false),
            ("dev.mcp", false, false),
        ];
        for (key, june, later) in table {
            assert!(!is_reserved_meta_key(key, V2024_11_05), "{key:?}");
            assert_eq!(is_reserved_meta_key(key, V2025_06_18), june, "{key:?}");
            assert_eq!(is_reserved_meta_key(key, V2025_11_25), later, "{key:?}");
            assert_eq!(is_reserved_meta_key(key, V2026_07_28), later, "{key:?}");
            assert_eq!(check_meta_key(key), if june || later { Err(Reserved) } else { Ok(()) }, "{key:?}");
        }
    }
}
