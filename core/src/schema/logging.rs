//! Log messages of the server.
//!
//! Spec: [logging](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging)

use alloc::string::String;

use super::{EmptyResult, LoggingLevel};
use crate::{schema::base::macros::*, wire::Json};

object! {
    /// Params of `logging/setLevel`: the client wants messages of this level and of more severe ones.
    /// Up to 2025-11-25; later each request carries the level in its `_meta`.
    pub struct SetLevelParams: params(SetLevel => EmptyResult) {
        /// The least severe level that is wanted.
        "level" => level: required LoggingLevel;
    }
}

object! {
    /// Params of `notifications/message`: one log message.
    pub struct LogMessageParams: params(LogMessage) {
        /// How severe it is.
        "level" => level: required LoggingLevel;
        /// The part of the server that it comes from.
        "logger" => logger: optional String;
        /// The message: a text, or anything else that JSON can hold.
        "data" => data: required Json;
    }
    gates {
        fn level(&self) -> Option<LoggingLevel> {
            Some(self.level)
        }
    }
}
