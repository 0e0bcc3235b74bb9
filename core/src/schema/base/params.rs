//! What params of requests and notifications have in common.

use serde_core::de::DeserializeOwned;

use super::{encode::Encode, logging_level::LoggingLevel};
use crate::protocol::{CapabilitySet, Method};

/// The params of a request.
pub trait Request: Encode + DeserializeOwned {
    /// The method that they are the params of.
    const METHOD: Method;
    /// What answers the request.
    type Result: Encode + DeserializeOwned;

    /// Whether there is nothing to say, so that the message can do without params.
    fn is_empty(&self) -> bool {
        false
    }

    /// The capabilities that its content needs beside the one of its method.
    fn needs(&self) -> CapabilitySet {
        CapabilitySet::EMPTY
    }

    /// Whether it asks for a task instead of a result (2025-11-25).
    fn is_task(&self) -> bool {
        false
    }
}

/// The params of a notification.
pub trait Notification: Encode + DeserializeOwned {
    /// The method that they are the params of.
    const METHOD: Method;

    /// Whether there is nothing to say, so that the message can do without params.
    fn is_empty(&self) -> bool {
        false
    }

    /// The severity, if it is a log message.
    fn level(&self) -> Option<LoggingLevel> {
        None
    }

    /// The URI of the resource that it is about, if it is about one.
    fn resource(&self) -> Option<&str> {
        None
    }

    /// The id of the task that it is about, if it is about one of the [extension](crate::schema::tasks_extension).
    fn task(&self) -> Option<&str> {
        None
    }
}
