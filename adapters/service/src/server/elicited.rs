//! The response of a user to a form that was made from a type.

use mcp_proto::{
    schema::{At, ElicitAction, ElicitResult},
    wire::Json,
};
use serde_core::de::DeserializeOwned;

use crate::outbound::error::CallError;

/// The response of a user to a form: see [`elicit_as`](crate::Context::elicit_as).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Elicited<T> {
    /// The user has accepted, with these values.
    Accepted(T),
    /// The user has declined.
    Declined,
    /// The user has dismissed the form without a decision.
    Cancelled,
}

impl<T> Elicited<T> {
    /// Returns the values, if the user has accepted.
    #[must_use]
    pub fn accepted(self) -> Option<T> {
        match self {
            Self::Accepted(values) => Some(values),
            Self::Declined | Self::Cancelled => None,
        }
    }
}

impl<T: DeserializeOwned> Elicited<T> {
    /// Reads the values of a response.
    pub(super) fn read(answer: &ElicitResult) -> Result<Self, CallError> {
        let unreadable = |error: serde_json::Error| CallError::Decode(error.to_string());
        match answer.action {
            ElicitAction::Accept => {
                let content = match &answer.content {
                    Some(content) => At(content, None).to_json().map_err(unreadable)?,
                    None => Json::from(mcp_proto::wire::JsonObject::empty()),
                };
                content.decode().map(Self::Accepted).map_err(unreadable)
            }
            ElicitAction::Decline => Ok(Self::Declined),
            _ => Ok(Self::Cancelled),
        }
    }
}
