//! What a client may be told without its server being asked (2026-07-28), held against what the server has said.

use std::collections::BTreeMap;

use mcp_proto::{
    protocol::{Method, MethodName},
    rpc::Timestamp,
    wire::RawJson,
};

use super::{caller::Made, desk::member};

/// A result that was said to be good for a while.
#[derive(Debug)]
struct Known {
    method: &'static str,
    until: Timestamp,
}

/// What a connection may know.
#[derive(Debug, Default)]
pub struct Memory {
    /// By the number of the request that was answered with it.
    known: BTreeMap<u64, Known>,
    /// When it was last heard that results of a method are stale.
    stale: BTreeMap<&'static str, Timestamp>,
}

impl Memory {
    /// The server has told of a change.
    pub fn hear(&mut self, now: Timestamp, method: &MethodName<'_>, params: Option<&RawJson<'_>>) {
        let changed = match method.known() {
            Some(Method::ToolsListChanged) => "tools/list",
            Some(Method::ResourceUpdated) if member(params, "uri") == Some("test://a".to_owned()) => "resources/read",
            _ => return,
        };
        self.known.retain(|_, known| known.method != changed);
        self.stale.insert(changed, now);
    }

    /// A request was answered.
    pub fn learn(&mut self, now: Timestamp, made: &Made, result: &RawJson<'_>) {
        let number = member(Some(result), "number");
        let good: u64 = member(Some(result), "ttlMs").unwrap_or(0);
        // What has changed since it was asked for may be older than the change.
        let is_stale = self.stale.get(made.method()).is_some_and(|stale| *stale >= made.at());
        if number == Some(made.number()) && good > 0 && !is_stale {
            let until = now + std::time::Duration::from_millis(good);
            self.known.insert(made.number(), Known { method: made.method(), until });
        }
    }

    /// Whether a request may be answered with what another one was answered with.
    #[must_use]
    pub fn has(&self, now: Timestamp, method: &str, number: u64) -> bool {
        self.known.get(&number).is_some_and(|known| known.method == method && now < known.until)
    }
}
