//! The arguments of a call, until its handler runs.

use mcp_proto::{
    connection::ServerRole,
    wire::{JsonObject, OwnedRawJson, RawJson},
};

use crate::inbound::{context::Context, state::SessionState};

/// The arguments of a call.
pub(super) enum CallArguments {
    /// A copy of the arguments alone.
    Own(OwnedRawJson),
    /// The arguments in the params that were recorded for middleware, so that there is one copy.
    Received,
}

impl CallArguments {
    pub(super) fn of(shared: &SessionState<ServerRole>, arguments: RawJson<'_>) -> Self {
        if shared.has_layers() { Self::Received } else { Self::Own(arguments.into()) }
    }

    /// Returns the result of a function of the arguments.
    pub(super) fn with<R>(&self, context: &Context, f: impl FnOnce(&RawJson<'_>) -> R) -> R {
        match self {
            Self::Own(arguments) => f(&arguments.get()),
            Self::Received => match context.in_flight.received.get().and_then(|received| received.arguments()) {
                Some(arguments) => f(&arguments),
                None => f(&RawJson::from(&JsonObject::empty())),
            },
        }
    }
}
