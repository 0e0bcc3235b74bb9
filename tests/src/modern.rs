//! What a client of 2026-07-28 is configured with, and what servers say to it.

use mcp_proto::{
    connection::ClientConfig,
    protocol::{ProtocolVersion, VersionSet},
};
use serde_json::{Value, json};

use crate::solo::{Solo, full_client};

/// A client's configuration that speaks these revisions, with everything declared.
#[must_use]
pub fn speaking(versions: VersionSet) -> ClientConfig {
    let mut config = full_client();
    config.settings.versions = versions;
    config
}

/// Only 2026-07-28.
#[must_use]
pub fn modern_only() -> VersionSet {
    VersionSet::only(ProtocolVersion::V2026_07_28)
}

/// A server's answer to `server/discover`: it speaks these revisions and has everything declared.
#[must_use]
pub fn discovered(id: &Value, versions: &[&str]) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {
        "resultType": "complete", "supportedVersions": versions, "ttlMs": 0, "cacheScope": "public",
        "capabilities": {
            "tools": {"listChanged": true}, "prompts": {"listChanged": true}, "logging": {}, "completions": {},
            "resources": {"listChanged": true, "subscribe": true}
        },
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "new", "version": "1"}}}})
}

/// The answer to a request that was sent.
#[must_use]
pub fn answer(request: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result})
}

/// The error that a request is refused with.
#[must_use]
pub fn refuse(request: &Value, code: i64, data: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "no", "data": data}})
}

impl<E> Solo<E> {
    /// The message since the last time, of which there is one.
    #[track_caller]
    pub fn sent_one(&mut self) -> Value {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "one message: {sent:?}");
        sent.remove(0)
    }
}
