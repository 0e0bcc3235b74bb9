//! Progress and cancellation of requests.
//!
//! Spec: [progress](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress),
//! [cancellation](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation)

use alloc::string::String;

use serde_json::Number;

use super::ProgressToken;
use crate::{schema::base::macros::*, wire::RequestId};

object! {
    /// Params of `notifications/progress`.
    pub struct ProgressParams: params(Progress) {
        /// The token from `_meta` of the request.
        "progressToken" => progress_token: required ProgressToken;
        /// The progress so far. It grows with every notification.
        "progress" => progress: required Number;
        /// The value of `progress` at the end, if known.
        "total" => total: optional Number;
        /// A description of the current step, for people. Since 2025-03-26.
        "message" => message: optional String, since(V2025_03_26);
    }
}

object! {
    /// Params of `notifications/cancelled`: the sender ignores the response from now on.
    pub struct CancelledParams: params(Cancelled) {
        /// The id of the request. Always sent, but optional in the schema of 2025-11-25: a received notification
        /// without it is ignored.
        "requestId" => request_id: optional RequestId, needed;
        /// The reason, for logs and people.
        "reason" => reason: optional String;
    }
}

impl CancelledParams {
    /// Creates the cancellation of the request with this id.
    #[must_use]
    pub fn of(request_id: impl Into<RequestId>) -> Self {
        Self { request_id: Some(request_id.into()), ..Self::default() }
    }
}
