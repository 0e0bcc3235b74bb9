//! The data of errors.
//!
//! Spec: [errors](https://modelcontextprotocol.io/specification/2026-07-28/basic#errors)

use alloc::{string::String, vec::Vec};

use super::{At, ClientCapabilities, ElicitUrlParams};
use crate::{
    protocol::{CapabilitySet, ProtocolVersion},
    schema::base::macros::*,
    wire::{ErrorCode, ErrorObject},
};

object! {
    /// The data of the error -32022, and of the error -32602 in response to `initialize`: the supported revisions.
    pub struct UnsupportedProtocolVersion: data {
        /// The revisions that the server supports.
        "supported" => supported: required Vec<String>;
        /// The revision that the client requested.
        "requested" => requested: required String;
    }
}

object! {
    /// The data of the error -32021: the capabilities that a request needs. Since 2026-07-28.
    pub struct MissingRequiredClientCapability: data, since(V2026_07_28) {
        /// The missing capabilities.
        "requiredCapabilities" => required_capabilities: required ClientCapabilities;
    }
}

impl MissingRequiredClientCapability {
    /// Creates the error -32021 for a request that needs capabilities which the client has not declared.
    #[must_use]
    pub fn error(missing: CapabilitySet) -> ErrorObject {
        let names: Vec<_> = missing.iter().map(|missing| missing.path()).collect();
        let message = String::from("Missing required client capability: ") + &names.join(", ");
        let error = ErrorObject::new(ErrorCode::MISSING_CLIENT_CAPABILITY, message);
        let missing: ClientCapabilities = missing.iter().collect();
        match At(&Self::new(missing), Some(ProtocolVersion::LATEST)).to_json() {
            Ok(data) => error.with_data(data),
            Err(_) => error,
        }
    }
}

object! {
    /// The data of the error -32042: pages that the user has to open before the client sends the request again. Only
    /// 2025-11-25.
    pub struct UrlElicitationRequired: data, only(V2025_11_25) {
        /// The pages.
        "elicitations" => elicitations: required Vec<ElicitUrlParams>;
    }
}
