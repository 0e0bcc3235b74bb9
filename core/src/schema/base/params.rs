//! Traits of the params of requests and notifications.

use serde_core::de::DeserializeOwned;

use super::{encode::Encode, logging_level::LoggingLevel};
use crate::protocol::{CapabilitySet, Method};

/// The params of a request.
pub trait Request: Encode + DeserializeOwned {
    /// The method of the message.
    const METHOD: Method;
    /// The result of the request.
    type Result: Encode + DeserializeOwned;

    /// Returns whether the params have no members, so that the message can omit them.
    fn is_empty(&self) -> bool {
        false
    }

    /// Returns the capabilities that the content of the params needs, in addition to that of the method.
    fn needs(&self) -> CapabilitySet {
        CapabilitySet::EMPTY
    }

    /// Returns whether the params request a task instead of a result (2025-11-25).
    fn is_task(&self) -> bool {
        false
    }
}

/// The params of a notification.
pub trait Notification: Encode + DeserializeOwned {
    /// The method of the message.
    const METHOD: Method;

    /// Returns whether the params have no members, so that the message can omit them.
    fn is_empty(&self) -> bool {
        false
    }

    /// Returns the severity, if the notification is a log message.
    fn level(&self) -> Option<LoggingLevel> {
        None
    }

    /// Returns the URI of the resource that the notification is about, if any.
    fn resource(&self) -> Option<&str> {
        None
    }

    /// Returns the id of the task of the [extension](crate::schema::tasks_extension) that the notification is about, if
    /// any.
    fn task(&self) -> Option<&str> {
        None
    }
}
