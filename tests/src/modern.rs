//! Configurations of clients of 2026-07-28, and messages of their servers.

use mcp_proto::protocol::{ProtocolVersion, VersionSet};
use serde_json::{Value, json};

use crate::harness::Harness;

/// Returns the set of 2026-07-28 only.
#[must_use]
pub fn modern_only() -> VersionSet {
    VersionSet::only(ProtocolVersion::V2026_07_28)
}

/// Returns the response to `server/discover` of a server with all capabilities and these revisions.
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

/// Returns the result response to a request.
#[must_use]
pub fn answer(request: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result})
}

/// Returns the error response to a request.
#[must_use]
pub fn refuse(request: &Value, code: i64, data: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "no", "data": data}})
}

impl<E> Harness<E> {
    /// Returns the only message since the last call.
    #[track_caller]
    pub fn sent_one(&mut self) -> Value {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "one message: {sent:?}");
        sent.remove(0)
    }
}
