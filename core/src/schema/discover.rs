//! What a server is, without a session. Since 2026-07-28.
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
    /// The result of `server/discover`. Who the server is stands in `_meta`. Since 2026-07-28.
    pub struct DiscoverResult: result, since(V2026_07_28) {
        /// The revisions that the server speaks, also those that are reached by `initialize`.
        "supportedVersions" => supported_versions: required Vec<String>;
        /// What the server can do.
        "capabilities" => capabilities: required ServerCapabilities;
        /// How to use the server, for models.
        "instructions" => instructions: optional String;
        /// For how many milliseconds the result can be reused.
        "ttlMs" => ttl_ms: optional u64, or(|| 0);
        /// Who may reuse the result.
        "cacheScope" => cache_scope: optional CacheScope, fits(|scope, _| scope.is_known()),
            or(|| CacheScope::Private);
    }
}
