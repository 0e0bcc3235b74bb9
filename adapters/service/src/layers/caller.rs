//! The caller of a request, as far as a service can distinguish callers.

use hmac_sha256::Hash;
use mcp_proto::protocol::Era;

use crate::{driver_api::holder::Holder, inbound::context::Context};

/// A caller: its principal, or else its address, or else its connection. It has the same size for every caller, so a
/// table of callers is bounded by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CallerKey([u8; 32]);

impl CallerKey {
    /// Returns the caller of a request.
    ///
    /// Callers over HTTP without a principal and an address are one caller: each request can have a connection of its
    /// own there, and a client can open as many as it likes.
    pub(super) fn of(context: &Context) -> Self {
        let info = context.info();
        if let Some(principal) = &info.principal {
            return Self::named(&principal.id);
        }
        match context.connection.holder() {
            Holder::Principal(id) => Self::named(&id),
            Holder::Address(address) => Self::hashed(b'A', address.to_string().as_bytes()),
            Holder::Unknown if info.has_stream => Self::hashed(b'U', b""),
            Holder::Unknown => Self::hashed(b'C', &context.shared.calls.number().to_be_bytes()),
        }
    }

    /// Returns a key for results that no other caller may get: of the principal with its OAuth client and its scopes,
    /// or else of the connection. Several users can have one address, so the address is no part of it.
    ///
    /// Returns `None` if the caller cannot be recognized: over HTTP without a session, each request has its own
    /// connection.
    pub(super) fn exclusive(context: &Context) -> Option<Self> {
        let info = context.info();
        let Some(principal) = &info.principal else {
            let is_lasting = !info.has_stream || info.version.era() == Era::Legacy;
            return is_lasting.then(|| Self::hashed(b'C', &context.shared.calls.number().to_be_bytes()));
        };
        let mut scopes: Vec<_> = principal.scopes.iter().collect();
        scopes.sort_unstable();
        let mut hash = Hash::new();
        hash.update(b"E");
        for part in [Some(&principal.id), principal.client_id.as_ref()].into_iter().chain(scopes.into_iter().map(Some))
        {
            // The lengths separate the parts.
            let length = part.map_or(u64::MAX, |part| part.len() as u64);
            hash.update(length.to_be_bytes());
            hash.update(part.map_or("", |part| part));
        }
        Some(Self(hash.finalize()))
    }

    /// Returns the key of the principal with this id.
    pub(super) fn named(id: &str) -> Self {
        Self::hashed(b'P', id.as_bytes())
    }

    /// Returns the key of all callers together.
    pub(super) fn all() -> Self {
        Self::hashed(b'*', b"")
    }

    fn hashed(kind: u8, what: &[u8]) -> Self {
        let mut hash = Hash::new();
        hash.update([kind]);
        hash.update(what);
        Self(hash.finalize())
    }

    pub(super) const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mcp_proto::{
        connection::{Arrival, Principal},
        protocol::ProtocolVersion::{self, V2025_11_25, V2026_07_28},
    };
    use serde_json::json;

    use super::*;
    use crate::{Host, Service, Tool, tests::pair::Pair};

    /// Returns the two keys of a caller as texts: the usual one, and the exclusive one.
    fn keys(version: ProtocolVersion, stream: Option<u64>, principal: Option<&str>, has_address: bool) -> [String; 2] {
        let keys = |context: Context| {
            let [usual, exclusive] = [Some(CallerKey::of(&context)), CallerKey::exclusive(&context)];
            format!("{usual:?}/{exclusive:?}")
        };
        let service = Service::builder("test", "1").tool(Tool::new("keys", keys)).build().expect("a good service");
        let pair = Pair::new(&Host::builder("client", "1").build(), &service, version);
        if has_address {
            let _ = pair.server.holder.set(Holder::Address([192, 0, 2, 1].into()));
        }
        let mut params = json!({"name": "keys", "arguments": {}});
        if version.era() == Era::Modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let line = json!({"jsonrpc": "2.0", "id": "by hand", "method": "tools/call", "params": params}).to_string();
        let principal = principal.map(|id| Arc::new(Principal::new(id)));
        pair.server.input_with(Arrival { stream, principal, ..Arrival::default() }, line.as_bytes());
        let answer = pair.await_answer("by hand");
        let text = answer["result"]["content"][0]["text"].as_str().expect("a text");
        let (usual, exclusive) = text.split_once('/').expect("two keys");
        [usual.to_owned(), exclusive.to_owned()]
    }

    #[test]
    fn callers_are_principals_or_addresses_or_connections() {
        // Whether two connections are one caller, and whether a result is only for one of them.
        for (version, stream, principal, has_address, is_one, is_exclusive) in [
            (V2026_07_28, None, None, false, false, true),
            (V2026_07_28, Some(1), None, false, true, false),
            (V2025_11_25, None, None, false, false, true),
            (V2025_11_25, Some(1), None, false, true, true),
            (V2026_07_28, Some(1), None, true, true, false),
            (V2026_07_28, None, None, true, true, true),
            (V2026_07_28, Some(1), Some("ada"), true, true, true),
        ] {
            let [one, other] = [(); 2].map(|()| keys(version, stream, principal, has_address));
            let what = format!("{version} {stream:?} {principal:?} {has_address}");
            assert_eq!(one[0] == other[0], is_one, "{what}");
            assert_eq!(one[1] != "None", is_exclusive, "{what}");
            assert_eq!(one[1] == other[1], principal.is_some() || !is_exclusive, "{what}");
        }
        let of = |principal: &str| keys(V2026_07_28, None, Some(principal), false);
        let (ada, bob) = (of("ada"), of("bob"));
        assert!(ada[0] != bob[0] && ada[1] != bob[1] && ada[0] != ada[1]);
    }
}
