//! A model of the client's cache (2026-07-28): the results that the client may reuse.

use std::collections::BTreeMap;

use mcp_proto::{
    protocol::{Method, MethodName},
    rpc::Timestamp,
    wire::RawJson,
};

use super::{application::member, outbound::OutgoingRequest};

/// A result with a time to live.
#[derive(Debug)]
struct CachedResult {
    method: &'static str,
    until: Timestamp,
}

/// The cached results of a connection.
#[derive(Debug, Default)]
pub struct CacheModel {
    /// By the number of the request that returned it.
    known: BTreeMap<u64, CachedResult>,
    /// The time at which the client last received a change, by method.
    stale: BTreeMap<&'static str, Timestamp>,
}

impl CacheModel {
    /// Handles a notification of a change.
    pub fn on_notification(&mut self, now: Timestamp, method: &MethodName<'_>, params: Option<&RawJson<'_>>) {
        let changed = match method.known() {
            Some(Method::ToolsListChanged) => "tools/list",
            Some(Method::ResourceUpdated) if member(params, "uri") == Some("test://a".to_owned()) => "resources/read",
            _ => return,
        };
        self.known.retain(|_, known| known.method != changed);
        self.stale.insert(changed, now);
    }

    /// Stores the result of a request.
    pub fn store(&mut self, now: Timestamp, request: &OutgoingRequest, result: &RawJson<'_>) {
        let number = member(Some(result), "number");
        let good: u64 = member(Some(result), "ttlMs").unwrap_or(0);
        // A result of a request that was sent before a change may be older than the change.
        let is_stale = self.stale.get(request.method()).is_some_and(|stale| *stale >= request.at());
        if number == Some(request.number()) && good > 0 && !is_stale {
            let until = now + std::time::Duration::from_millis(good);
            self.known.insert(request.number(), CachedResult { method: request.method(), until });
        }
    }

    /// Returns whether a request may be answered with the result of another request.
    #[must_use]
    pub fn contains(&self, now: Timestamp, method: &str, number: u64) -> bool {
        self.known.get(&number).is_some_and(|known| known.method == method && now < known.until)
    }
}
