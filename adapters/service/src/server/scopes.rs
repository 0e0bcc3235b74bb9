//! The scopes of items, and those of the senders of requests.

use std::sync::Arc;

use mcp_proto::connection::{Principal, ServerRole};

use super::register_error::RegisterError;
use crate::driver_api::connection_handle::ConnectionHandle;

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
