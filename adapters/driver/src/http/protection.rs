//! The authorization of the requests of an endpoint.

#[cfg(feature = "auth")]
use std::sync::{Arc, OnceLock};

use http::HeaderValue;
use mcp_proto::http::AuthRefusal;

#[cfg(feature = "auth")]
use crate::http::resource_server::ResourceServer;

/// The resource server that authorizes requests, once it is set. Without the feature `auth`, there is none.
#[derive(Clone, Default)]
pub(super) struct Protection {
    #[cfg(feature = "auth")]
    server: Arc<OnceLock<ResourceServer>>,
}

impl Protection {
    /// Sets what authorizes requests.
    ///
    /// # Panics
    /// If it was set before.
    #[cfg(feature = "auth")]
    pub(super) fn set(&self, server: ResourceServer) {
        assert!(self.server.set(server).is_ok(), "an endpoint is protected once");
    }

    #[cfg(feature = "auth")]
    pub(super) fn get(&self) -> Option<&ResourceServer> {
        self.server.get()
    }

    /// Returns the refusal of a request that needs more scopes than its sender has.
    pub(super) fn lacks_scopes(&self, scopes: &[String]) -> AuthRefusal {
        let message = format!("Insufficient scope: {}", scopes.join(" "));
        AuthRefusal::forbidden(self.scope_challenge(scopes)).message(message)
    }

    /// Returns the value of `WWW-Authenticate` for a request that needs more scopes than its sender has.
    #[cfg_attr(not(feature = "auth"), expect(clippy::unused_self, reason = "nothing authorizes requests"))]
    fn scope_challenge(&self, scopes: &[String]) -> Option<HeaderValue> {
        #[cfg(feature = "auth")]
        if let Some(server) = self.get() {
            return Some(server.needs_scopes(scopes));
        }
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{}\"", scopes.join(" "));
        HeaderValue::try_from(challenge).ok()
    }
}
