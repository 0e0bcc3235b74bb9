//! What many objects have in common.

use alloc::{string::String, vec::Vec};

use serde_json::Number;

use crate::wire::RawJson;

use super::{
    decode::peek,
    format::{has_scheme, is_fraction},
    macros::*,
};

open_enum! {
    /// Who speaks, or who is meant.
    pub enum Role {
        /// The human side of the conversation.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

open_enum! {
    /// What kind of result a result is. Since 2026-07-28.
    pub enum ResultType {
        /// The final one.
        Complete = "complete",
        /// A question: the request is repeated with the answers.
        InputRequired = "input_required",
        /// A task of the tasks extension, to be polled.
        Task = "task",
    }
}

impl ResultType {
    /// The kind of a result that is not read yet. A result that does not say is complete.
    ///
    /// `None` if the result is not an object, or says it in an unexpected form.
    #[must_use]
    pub fn of(result: &str) -> Option<Self> {
        match peek(result, "resultType").ok()? {
            Some(kind) => kind.decode().ok(),
            None => Some(Self::Complete),
        }
    }
}

open_enum! {
    /// Who may reuse a result. Since 2026-07-28; a missing one means private.
    pub enum CacheScope {
        /// Only for the user who asked.
        Private = "private",
        /// For every user.
        Public = "public",
    }
}

/// What a result says of its being used again. Since 2026-07-28.
///
/// Spec: [caching](https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheHints {
    /// For how many milliseconds it is good.
    pub ttl_ms: u64,
    /// For whom.
    pub scope: CacheScope,
}

impl CacheHints {
    /// Reads the hints of a result that is not decoded yet. A result without hints, or with malformed ones, may be kept
    /// for no time and is private.
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
        /// Whom the object is meant for.
        "audience" => audience: optional Vec<Role>, fits(|roles, _| roles.iter().all(Role::is_known));
        /// How important the object is, from 0 (can be left out) to 1 (needed).
        "priority" => priority: optional Number, fits(|priority, _| is_fraction(priority)), is(Fraction);
        /// When the object was last changed, in ISO 8601. Since 2025-06-18.
        "lastModified" => last_modified: optional String, since(V2025_06_18), is(Timestamp);
    }
}

impl Annotations {
    /// Whether the priority, if there is one, is from 0 to 1.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.priority.as_ref().is_none_or(is_fraction)
    }
}

open_enum! {
    /// The background that an icon was drawn for. Since 2025-11-25.
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
        /// Where the picture is: an `https:` or `http:` URL, or a `data:` URI with the picture itself.
        "src" => src: required String, is(Uri);
        /// The type of the picture, if the server of the picture says nothing or something wrong.
        "mimeType" => mime_type: optional String;
        /// The sizes it can be shown in, each `48x48` or `any`.
        "sizes" => sizes: optional Vec<String>;
        /// The background it was drawn for; any, if missing.
        "theme" => theme: optional IconTheme, fits(|theme, _| theme.is_known());
    }
}

impl Icon {
    /// Whether all of these can be sent, see [`is_valid`](Self::is_valid).
    pub(crate) fn all_valid(icons: &[Self]) -> bool {
        icons.iter().all(Self::is_valid)
    }

    /// Whether a sender may use this `src`: `https:`, `http:` or `data:`. Others are not written for any revision.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.is_safe() || has_scheme(&self.src, "http")
    }

    /// Whether a client may load this `src`: only `https:` and `data:`.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        has_scheme(&self.src, "https") || has_scheme(&self.src, "data")
    }
}
