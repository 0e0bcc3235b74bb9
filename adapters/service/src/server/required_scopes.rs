//! Scopes that requests need.

use std::{borrow::Cow, cell::OnceCell, sync::Arc};

use mcp_proto::{
    connection::{Principal, ServerRole},
    protocol::Method,
    rpc::ReplyKey,
    wire::{ErrorCode, ErrorObject, RawJson},
};

use super::{
    routes::{Request, SentRequest},
    scopes::has_scopes,
};
use crate::{
    driver_api::connection_handle::{ConnectionHandle, SentRequests},
    inbound::{
        request::{RequestInfo, RequestSummary, summary},
        rpc_result::{ResponseKind, RpcResult},
        span::Span,
        state::{Role, SessionState},
    },
};

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
        let audience = OnceCell::new();
        let audience = || audience.get_or_init(|| self.app.0.visible_to_sender(info).audience()).clone();
        let mut summaries = Vec::new();
        let scopes = |(name, params): (Cow<'_, str>, Option<RawJson<'_>>)| {
            let sent =
                Method::parse(&name).map(|method| SentRequest { audience: &audience, method, params: params.as_ref() });
            if Span::is_enabled() {
                let subject = sent.as_ref().and_then(SentRequest::subject);
                summaries.push(RequestSummary { id: None, method: name.into_owned(), name: subject });
            }
            sent.map(|sent| self.app.0.routes.scopes(self, &sent)).filter(|scopes| !scopes.is_empty())
        };
        let required: Vec<_> = requests.filter_map(scopes).collect();
        // The driver refuses all of them then, and the connection does not get them.
        if let Some(lacking) = required.iter().find(|scopes| !has_scopes(connection, sender, scopes)) {
            for summary in summaries {
                Span::new(info(), summary).end(false, || ResponseKind::Error(insufficient(lacking)));
            }
        }
        required
    }
}

/// Returns the error of a request that lacks these scopes.
fn insufficient(required: &[String]) -> ErrorObject {
    ErrorObject::new(ErrorCode::INVALID_REQUEST, format!("Insufficient scope: {}", required.join(" ")))
}

/// Checks that the sender of a request has all of these scopes. On failure the transport may have responded already,
/// and then the error is not sent.
pub(super) fn check_scopes(
    connection: &Arc<dyn ConnectionHandle<ServerRole>>,
    key: ReplyKey,
    required: &[String],
) -> RpcResult<()> {
    if required.is_empty() {
        return Ok(());
    }
    let info = connection.read(|conn| ServerRole::info(conn, Some(key)));
    if has_scopes(connection, info.principal.as_ref(), required) {
        connection.require_scopes(key, required);
        return Ok(());
    }
    connection.needs_scopes(key, required);
    Err(insufficient(required))
}

/// Refuses a request whose sender does not have all of these scopes. Returns `None` if it has them, or where the
/// transport does not authenticate requests. The error is the response, unless the transport has responded.
pub(super) fn lacks_scopes(inbound: &Request<'_>, required: &[String]) -> Option<RpcResult<()>> {
    if required.is_empty() {
        return None;
    }
    let info = inbound.connection.read(|conn| ServerRole::info(conn, Some(inbound.key)));
    if has_scopes(inbound.connection, info.principal.as_ref(), required) {
        inbound.connection.require_scopes(inbound.key, required);
        return None;
    }
    let error = insufficient(required);
    // The connection does not know a request that has a response.
    let summary = Span::is_enabled().then(|| summary(inbound));
    if !inbound.connection.needs_scopes(inbound.key, required) {
        return Some(Err(error));
    }
    if let Some(summary) = summary {
        let trace = info.trace.clone().or_else(|| inbound.trace());
        Span::new(RequestInfo { trace, ..info }, summary).end(false, || ResponseKind::Error(error));
    }
    Some(Ok(()))
}
