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
