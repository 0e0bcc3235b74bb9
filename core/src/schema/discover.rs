//! Discovery of a server without a session. Since 2026-07-28.
//!
//! Spec: [discovery](https://modelcontextprotocol.io/specification/2026-07-28/server/discover)

use alloc::{string::String, vec::Vec};

use super::{CacheScope, ServerCapabilities};
use crate::schema::base::macros::*;

object! {
    /// Params of `server/discover`. Since 2026-07-28.
    pub struct DiscoverParams: params(Discover => DiscoverResult) {}
}

object! {
    /// The result of `server/discover`. The name and version of the server are in `_meta`. Since 2026-07-28.
    pub struct DiscoverResult: result, since(V2026_07_28) {
        /// The revisions that the server supports, with those that need `initialize`.
        "supportedVersions" => supported_versions: required Vec<String>;
        /// The capabilities of the server.
        "capabilities" => capabilities: required ServerCapabilities;
        /// How to use the server, for models.
        "instructions" => instructions: optional String;
        /// The time for which the result may be cached, in milliseconds.
        "ttlMs" => ttl_ms: optional u64, or(|| 0);
        /// The users for whom the cached result may be used.
        "cacheScope" => cache_scope: optional CacheScope, fits(|scope, _| scope.is_known()),
            or(|| CacheScope::Private);
    }
}
