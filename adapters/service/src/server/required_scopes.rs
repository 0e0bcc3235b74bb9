//! Scopes that requests need.

use std::{cell::OnceCell, sync::Arc};

use mcp_proto::{
    connection::{Principal, ServerRole},
    protocol::Method,
    wire::{ErrorCode, ErrorObject, RawJson},
};

use super::{
    register_error::RegisterError,
    routes::{Request, SentRequest},
    tool::Tool,
};
use crate::{
    driver_api::connection_handle::{ConnectionHandle, SentRequests},
    inbound::{
        request::RequestInfo,
        rpc_result::{ResponseKind, RpcResult},
        span::Span,
        state::{Role, SessionState},
    },
};

/// Checks the scopes that an item requires: they are sent in challenges.
pub(super) fn check_scopes(item: &str, scopes: &[String]) -> Result<(), RegisterError> {
    // RFC 6749, section 3.3.
    let is_scope = |scope: &String| {
        !scope.is_empty() && scope.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
    };
    match scopes.iter().find(|scope| !is_scope(scope)) {
        Some(scope) => Err(RegisterError::Scope { item: item.to_owned(), scope: scope.clone() }),
        None => Ok(()),
    }
}

/// Returns whether the sender of a request has all of these scopes, or the transport does not authenticate requests.
pub(super) fn has_scopes(
    connection: &Arc<dyn ConnectionHandle<ServerRole>>,
    sender: Option<&Principal>,
    required: &[String],
) -> bool {
    required.is_empty()
        || match sender {
            Some(principal) => required.iter().all(|scope| principal.has_scope(scope)),
            None => !connection.authenticates(),
        }
}

impl SessionState<ServerRole> {
    /// Returns the scopes that each of these requests requires, without those that require none.
    pub(crate) fn required_scopes(
        &self,
        connection: &Arc<dyn ConnectionHandle<ServerRole>>,
        sender: Option<&Principal>,
        requests: &mut SentRequests<'_>,
    ) -> Vec<Vec<String>> {
        let info = || connection.read(|conn| ServerRole::info(conn, None));
        let info = || RequestInfo { principal: sender.cloned(), ..info() };
        // With a copy of the client information, which can be large: one for all requests.
        let visible = OnceCell::new();
        let is_visible = |tool: &Tool| visible.get_or_init(|| self.app.0.visible_to_sender(info)).allows(tool);
        let scopes = |method: &str, params: Option<&RawJson<'_>>| {
            let method = Method::parse(method)?;
            Some(self.app.0.routes.scopes(self, &SentRequest { is_visible: &is_visible, method, params }))
        };
        let required = requests.filter_map(|(method, params)| scopes(&method, params.as_ref()));
        required.filter(|scopes| !scopes.is_empty()).collect()
    }
}

/// Refuses a request whose sender does not have all of these scopes. Returns `None` if it has them, or where the
/// transport does not authenticate requests. The error is the response, unless the transport has responded.
pub(super) fn lacks_scopes(inbound: &Request<'_>, required: &[String]) -> Option<RpcResult<()>> {
    if required.is_empty() {
        return None;
    }
    let info = inbound.connection.read(|conn| ServerRole::info(conn, Some(inbound.key)));
    if has_scopes(inbound.connection, info.principal.as_ref(), required) {
        return None;
    }
    let why = format!("Insufficient scope: {}", required.join(" "));
    let error = ErrorObject::new(ErrorCode::INVALID_REQUEST, why);
    if !inbound.connection.needs_scopes(inbound.key, required) {
        return Some(Err(error));
    }
    // This request gets no other response, which would have a span.
    Span::with_info(inbound, || info).end(false, || ResponseKind::Error(error));
    Some(Ok(()))
}
