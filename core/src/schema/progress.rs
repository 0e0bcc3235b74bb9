//! Progress and cancellation: what is said about a request while it runs.
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
        /// How far the request has come. It grows with every notification.
        "progress" => progress: required Number;
        /// Where `progress` will end, if known.
        "total" => total: optional Number;
        /// What is being done, for people. Since 2025-03-26.
        "message" => message: optional String, since(V2025_03_26);
    }
}

object! {
    /// Params of `notifications/cancelled`: the sender does not wait for the answer any more.
    pub struct CancelledParams: params(Cancelled) {
        /// The id of the request. The schema of 2025-11-25 has it as optional, so it may be missing from the input;
        /// such a notification is ignored. It is always sent.
        "requestId" => request_id: optional RequestId, needed;
        /// Why, for logs and people.
        "reason" => reason: optional String;
    }
}

impl CancelledParams {
    /// The cancellation of the request with this id.
    #[must_use]
    pub fn of(request_id: impl Into<RequestId>) -> Self {
        Self { request_id: Some(request_id.into()), ..Self::default() }
    }
}
