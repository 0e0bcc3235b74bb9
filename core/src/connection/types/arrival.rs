//! What a binding knows of a frame besides its bytes.

use alloc::{string::String, sync::Arc, vec::Vec};

use crate::{protocol::MirroredHeaders, wire::Json};

/// How a frame came in, where there is more to say than over a pipe.
#[derive(Clone, Debug, Default)]
pub struct Arrival {
    /// A name for the stream on which answers to it are expected: it comes back as
    /// [`Transmit::stream`](crate::connection::Transmit::stream) with everything that belongs to it.
    pub stream: Option<u64>,
    /// Who sent it, as far as it was found out before it came here.
    pub principal: Option<Arc<Principal>>,
    /// What its headers say. The frame is one of 2026-07-28 then, and a request has to agree with them.
    pub headers: Option<Arc<MirroredHeaders>>,
}

/// Who a request comes from: whom the application, or something in front of it, has authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Principal {
    /// The identity. Principals with equal ids are the same, and only the principal of a session may use it.
    pub id: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// Whatever else is known, such as the claims of a token.
    pub claims: Option<Json>,
}

impl Principal {
    /// A principal of whom nothing but the id is known.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), scopes: Vec::new(), claims: None }
    }
}
