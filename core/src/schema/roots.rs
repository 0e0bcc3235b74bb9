//! Roots: the folders of a client that servers may work in.
//!
//! Spec: [roots](https://modelcontextprotocol.io/specification/2025-11-25/client/roots)

use alloc::{string::String, vec::Vec};

use super::Meta;
use crate::schema::base::macros::*;

object! {
    /// Params of `roots/list`. In 2026-07-28 they are part of an `input_required` result.
    pub struct ListRootsParams: params(ListRoots => ListRootsResult) {}
}

object! {
    /// The result of `roots/list`.
    pub struct ListRootsResult: answer {
        /// The roots.
        "roots" => roots: required Vec<Root>;
    }
}

object! {
    /// Params of `notifications/roots/list_changed`. Up to 2025-11-25.
    pub struct RootsListChangedParams: params(RootsListChanged) {}
}

object! {
    /// A folder or file that servers may work in.
    pub struct Root: data {
        /// The URI, which starts with `file://`.
        "uri" => uri: required String, has_to(|uri, _| uri.starts_with("file://")), is(FileUri);
        /// The name, for people.
        "name" => name: optional String;
        /// Metadata. Since 2025-06-18.
        "_meta" => meta: optional Meta, since(V2025_06_18);
    }
}

impl Root {
    /// Returns whether the URI starts with `file://` and has no segment `..`.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.uri.strip_prefix("file://").is_some_and(|path| !path.split(['/', '\\']).any(is_dots))
    }
}

/// Returns whether a segment of a path is `..`, with or without percent encoding.
fn is_dots(segment: &str) -> bool {
    let mut rest = segment;
    for _ in 0..2 {
        match rest.strip_prefix('.').or_else(|| rest.strip_prefix("%2e")).or_else(|| rest.strip_prefix("%2E")) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: ROOT-004
    #[test]
    fn roots_are_file_uris_without_dot_segments() {
        for good in ["file:///", "file:///home/me", "file:///a/..b/c..", "file:///a/...", "file://host/a"] {
            assert!(Root::new(good).is_valid(), "{good}");
        }
        for bad in
            ["", "/home/me", "https://a/b", "FILE", "file:/a", "file:///a/../b", "file:///a/%2e%2E", "file:///a\\..\\b"]
        {
            assert!(!Root::new(bad).is_valid(), "{bad}");
        }
    }
}
