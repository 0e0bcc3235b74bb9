//! Types that many objects of the schema share.

use alloc::{string::String, vec::Vec};

use serde_json::Number;

use crate::wire::RawJson;

use super::{
    decode::peek,
    format::{has_scheme, is_fraction},
    macros::*,
};

open_enum! {
    /// The sender of a message in a conversation, or its audience.
    pub enum Role {
        /// The user.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

open_enum! {
    /// The kind of a result. Since 2026-07-28.
    pub enum ResultType {
        /// The final result.
        Complete = "complete",
        /// Input requests: the client sends the request again with the responses.
        InputRequired = "input_required",
        /// A task of the tasks extension, which the client polls.
        Task = "task",
    }
}

impl ResultType {
    /// Returns the kind of a result that is not decoded yet. A result without `resultType` is complete.
    ///
    /// Returns `None` if the result is not an object, or its `resultType` is not a string.
    #[must_use]
    pub fn of(result: &str) -> Option<Self> {
        match peek(result, "resultType").ok()? {
            Some(kind) => kind.decode().ok(),
            None => Some(Self::Complete),
        }
    }
}

open_enum! {
    /// The users for whom a cached result may be used. Since 2026-07-28; a missing scope means private.
    pub enum CacheScope {
        /// Only the user of the request.
        Private = "private",
        /// Every user.
        Public = "public",
    }
}

/// How long, and for whom, a result may be cached. Since 2026-07-28.
///
/// Spec: [caching](https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheHints {
    /// The time for which the result may be used, in milliseconds.
    pub ttl_ms: u64,
    /// The users for whom the result may be used.
    pub scope: CacheScope,
}

impl CacheHints {
    /// Reads the hints of a result that is not decoded yet. Hints that are missing or malformed are read as 0 ms and
    /// private.
    #[must_use]
    pub fn of(result: &RawJson<'_>) -> Self {
        Self {
            ttl_ms: result.member("ttlMs").and_then(|ttl| ttl.decode().ok()).unwrap_or(0),
            scope: result.member("cacheScope").and_then(|scope| scope.decode().ok()).unwrap_or(CacheScope::Private),
        }
    }
}

object! {
    /// Hints about the use and display of an object.
    ///
    /// Spec: [annotations](https://modelcontextprotocol.io/specification/2025-11-25/server/resources#annotations)
    pub struct Annotations: data {
        /// The audience of the object.
        "audience" => audience: optional Vec<Role>, fits(|roles, _| roles.iter().all(Role::is_known));
        /// The importance of the object, from 0 (optional) to 1 (required).
        "priority" => priority: optional Number, fits(|priority, _| is_fraction(priority)), is(Fraction);
        /// The time of the last change of the object, in ISO 8601. Since 2025-06-18.
        "lastModified" => last_modified: optional String, since(V2025_06_18), is(Timestamp);
    }
}

impl Annotations {
    /// Returns whether the priority, if present, is from 0 to 1.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.priority.as_ref().is_none_or(is_fraction)
    }
}

open_enum! {
    /// The background that an icon is designed for. Since 2025-11-25.
    pub enum IconTheme {
        /// A light background.
        Light = "light",
        /// A dark background.
        Dark = "dark",
    }
}

object! {
    /// A picture for user interfaces. Since 2025-11-25.
    ///
    /// Spec: [icons](https://modelcontextprotocol.io/specification/2025-11-25/basic#icons)
    pub struct Icon: data, since(V2025_11_25) {
        /// The address of the picture: an `https:` or `http:` URL, or a `data:` URI with the picture itself.
        "src" => src: required String, is(Uri);
        /// The media type of the picture, if the type that its server gives is missing or wrong.
        "mimeType" => mime_type: optional String;
        /// The sizes of the picture, each `48x48` or `any`.
        "sizes" => sizes: optional Vec<String>;
        /// The background that the picture is designed for; any, if missing.
        "theme" => theme: optional IconTheme, fits(|theme, _| theme.is_known());
    }
}

impl Icon {
    /// Returns whether all of these icons can be sent, see [`is_valid`](Self::is_valid).
    pub(crate) fn all_valid(icons: &[Self]) -> bool {
        icons.iter().all(Self::is_valid)
    }

    /// Returns whether a sender may use this `src`: `https:`, `http:` or `data:`. Icons with others are not sent in any
    /// revision.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.is_safe() || has_scheme(&self.src, "http")
    }

    /// Returns whether a client may load this `src`: only `https:` and `data:`.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        has_scheme(&self.src, "https") || has_scheme(&self.src, "data")
    }
}
