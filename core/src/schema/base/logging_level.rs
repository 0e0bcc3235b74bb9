//! The severities of log messages.

use core::fmt;

use serde_core::{Deserialize, Deserializer, de::Error as _};
use serde_json::Error;

use super::{
    decode::{Member, read_from},
    encode::{Output, through_write},
};
use crate::{
    protocol::ProtocolVersion,
    wire::{excerpt, reader::Reader},
};

/// The severity of a log message, as in RFC 5424. The set is closed, and ordered from the least to the most severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoggingLevel {
    /// Details for debugging.
    Debug,
    /// Normal operation.
    Info,
    /// Normal, but significant events.
    Notice,
    /// Conditions that may lead to an error.
    Warning,
    /// Errors.
    Error,
    /// Failures of a component.
    Critical,
    /// Conditions that need action at once.
    Alert,
    /// Failure of the whole system.
    Emergency,
}

impl LoggingLevel {
    /// Every level, the least severe first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// Returns the word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// Returns the level with this word, or `None` if there is none. Upper and lower case differ.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }
}

impl fmt::Display for LoggingLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl LoggingLevel {
    fn write<O: Output>(&self, _version: Option<ProtocolVersion>, out: O) -> Result<O::Done, O::Error> {
        out.string(self.as_str())
    }
}

through_write! { LoggingLevel }

impl<'de> Deserialize<'de> for LoggingLevel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_from(deserializer, Self::read)
    }
}

impl Member for LoggingLevel {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let word = reader.string()?;
        Self::parse(&word).ok_or_else(|| Error::custom(format_args!("`{}` is not a logging level", excerpt(&word))))
    }
}

#[cfg(feature = "arbitrary")]
impl crate::schema::ArbitraryAt for LoggingLevel {
    fn arbitrary_at(u: &mut arbitrary::Unstructured<'_>, _version: Option<ProtocolVersion>) -> arbitrary::Result<Self> {
        u.choose(&Self::ALL).copied()
    }
}
