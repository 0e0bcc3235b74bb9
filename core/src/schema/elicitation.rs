//! Elicitation: requests of servers to the user of the client.
//!
//! Spec: [elicitation](https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation)

use alloc::{string::String, vec::Vec};

use serde_core::{Deserialize, Deserializer};
use serde_json::{Error, Number};

use super::{ElicitSchema, Map, Request, TaskMetadata};
use crate::{
    protocol::{Capability, CapabilitySet, Method, ProtocolVersion},
    schema::base::{
        decode::{Member, read_from},
        encode::{Output, absent, through_write},
        macros::*,
    },
    wire::{
        Json,
        reader::{Reader, read},
    },
};

union! {
    /// Params of `elicitation/create`: a form, or a page to open. Since 2025-06-18; in 2026-07-28 they are part of an
    /// `input_required` result.
    pub enum ElicitParams by "mode" or Form {
        /// A form. This is also the kind of params without a mode.
        Form(ElicitFormParams) = "form",
        /// A page to open. Since 2025-11-25.
        Url(ElicitUrlParams) = "url",
    }
}

impl Request for ElicitParams {
    const METHOD: Method = Method::Elicit;
    type Result = ElicitResult;

    fn needs(&self) -> CapabilitySet {
        let mode = match self {
            Self::Form(_) => Some(Capability::ElicitationForm),
            Self::Url(_) => Some(Capability::ElicitationUrl),
            Self::Other(_) => None,
        };
        mode.into_iter().collect::<CapabilitySet>().with_if(Capability::TasksElicitation, self.is_task())
    }

    fn is_task(&self) -> bool {
        match self {
            Self::Form(form) => form.task.is_some(),
            Self::Url(url) => url.task.is_some(),
            Self::Other(_) => false,
        }
    }
}

open_enum! {
    /// The mode of an elicitation. Since 2025-11-25.
    pub enum ElicitMode {
        /// The user fills in a form.
        Form = "form",
        /// The user opens a page.
        Url = "url",
    }
}

object! {
    /// A form for the user. Since 2025-06-18.
    pub struct ElicitFormParams: params, since(V2025_06_18) {
        /// The mode: `form`, also if it is missing. Since 2025-11-25.
        "mode" => mode: optional ElicitMode, since(V2025_11_25), has_to(|mode, _| *mode == ElicitMode::Form);
        /// The request and its reason, for the user.
        "message" => message: required String;
        /// The fields of the form.
        "requestedSchema" => requested_schema: required ElicitSchema;
        /// Requests a task instead of a result. Only 2025-11-25.
        "task" => task: optional TaskMetadata, only(V2025_11_25), or_refuse;
    }
}

object! {
    /// A page for the user to open. Since 2025-11-25.
    pub struct ElicitUrlParams: params("mode" = "url"), since(V2025_11_25) {
        /// The request and its reason, for the user.
        "message" => message: required String;
        /// The address of the page.
        "url" => url: required String, is(Uri);
        /// The id of this elicitation, for `notifications/elicitation/complete`. Only 2025-11-25.
        "elicitationId" => elicitation_id: optional String, only(V2025_11_25), needed;
        /// Requests a task instead of a result. Only 2025-11-25.
        "task" => task: optional TaskMetadata, only(V2025_11_25), or_refuse;
    }
}

object! {
    /// The result of `elicitation/create`: the action of the user.
    pub struct ElicitResult: answer, since(V2025_06_18) {
        /// The action of the user.
        "action" => action: required ElicitAction, has_to(|action, _| action.is_known());
        /// The values of the form; present only after `accept` of a form.
        "content" => content: optional Map<ElicitValue>;
    }
}

impl ElicitResult {
    /// Creates the result for a form that the user filled in.
    #[must_use]
    pub fn accept(content: impl Into<Map<ElicitValue>>) -> Self {
        Self { content: Some(content.into()), ..Self::new(ElicitAction::Accept) }
    }

    /// Creates the result for a request that the user declined.
    #[must_use]
    pub fn decline() -> Self {
        Self::new(ElicitAction::Decline)
    }

    /// Creates the result for a request that the user dismissed without a decision.
    #[must_use]
    pub fn cancel() -> Self {
        Self::new(ElicitAction::Cancel)
    }
}

open_enum! {
    /// The action of a user on an elicitation.
    pub enum ElicitAction {
        /// The user accepted. For a page this means consent to open it, and not that the interaction there is complete.
        Accept = "accept",
        /// The user declined.
        Decline = "decline",
        /// The user dismissed the request without a decision.
        Cancel = "cancel",
    }
}

/// The value of one field of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElicitValue {
    /// A text, a choice or a date.
    String(String),
    /// A number.
    Number(Number),
    /// Yes or no.
    Boolean(bool),
    /// Several choices. Since 2025-11-25.
    Strings(Vec<String>),
    /// A value that no field of a form can have.
    Other(Json),
}

impl From<&str> for ElicitValue {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<bool> for ElicitValue {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl Member for ElicitValue {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let text = reader.raw()?;
        let value = match text.as_bytes().first() {
            Some(b'"') => read(text).map(Self::String),
            Some(b't' | b'f') => read(text).map(Self::Boolean),
            Some(b'[') => read(text).map(Self::Strings),
            Some(b'-' | b'0'..=b'9') => read(text).map(Self::Number),
            _ => return Ok(Self::Other(Json::trusted(text))),
        };
        Ok(value.unwrap_or_else(|_| Self::Other(Json::trusted(text))))
    }
}

impl<'de> Deserialize<'de> for ElicitValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_from(deserializer, Self::read)
    }
}

impl ElicitValue {
    fn write<O: Output>(&self, version: Option<ProtocolVersion>, out: O) -> Result<O::Done, O::Error> {
        match (self, version) {
            (Self::String(text), _) => out.string(text),
            (Self::Number(number), _) => out.value(number, version),
            (Self::Boolean(value), _) => out.value(value, version),
            (Self::Strings(_), Some(early)) if early < ProtocolVersion::V2025_11_25 => {
                Err(absent("an array in the result of an elicitation", early))
            }
            (Self::Strings(texts), _) => out.value(texts, version),
            (Self::Other(_), Some(version)) => {
                Err(absent("this type of value in the result of an elicitation", version))
            }
            (Self::Other(json), None) => out.value(json, None),
        }
    }
}

through_write! { ElicitValue }

#[cfg(feature = "arbitrary")]
impl super::ArbitraryAt for ElicitValue {
    fn arbitrary_at(u: &mut arbitrary::Unstructured<'_>, version: Option<ProtocolVersion>) -> arbitrary::Result<Self> {
        let arrays = version.is_none_or(|version| version >= ProtocolVersion::V2025_11_25);
        Ok(match u.int_in_range(0..=if arrays { 3 } else { 2 })? {
            0 => Self::String(super::ArbitraryAt::arbitrary_at(u, version)?),
            1 => Self::Number(super::ArbitraryAt::arbitrary_at(u, version)?),
            2 => Self::Boolean(u.arbitrary()?),
            _ => Self::Strings(super::ArbitraryAt::arbitrary_at(u, version)?),
        })
    }
}

object! {
    /// Params of `notifications/elicitation/complete`: the interaction on the page is complete. Only 2025-11-25.
    pub struct ElicitationCompleteParams: params(ElicitationComplete) {
        /// The id of the elicitation.
        "elicitationId" => elicitation_id: required String;
    }
}
