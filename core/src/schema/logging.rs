//! Log messages of the server.
//!
//! Spec: [logging](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging)

use alloc::string::String;

use super::{EmptyResult, LoggingLevel};
use crate::{schema::base::macros::*, wire::Json};

object! {
    /// Params of `logging/setLevel`: the least severe level of the messages that the server sends. Up to 2025-11-25;
    /// later each request has the level in its `_meta`.
    pub struct SetLevelParams: params(SetLevel => EmptyResult) {
        /// The least severe level.
        "level" => level: required LoggingLevel;
    }
}

object! {
    /// Params of `notifications/message`: one log message.
    pub struct LogMessageParams: params(LogMessage) {
        /// The severity of the message.
        "level" => level: required LoggingLevel;
        /// The part of the server that sends the message.
        "logger" => logger: optional String;
        /// The message: a text or any other JSON value.
        "data" => data: required Json;
    }
    gates {
        fn level(&self) -> Option<LoggingLevel> {
            Some(self.level)
        }
    }
}
