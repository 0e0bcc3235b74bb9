//! Results that are questions: the request is sent again with the answers. Since 2026-07-28.
//!
//! Spec: [multi round-trip requests](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr)

use alloc::string::String;

use super::{CreateMessageParams, ElicitParams, ListRootsParams, Map, Request, ResultType};
use crate::{schema::base::macros::*, wire::JsonObject};

object! {
    /// A result that asks instead of answering. It has at least one of its two members. Since 2026-07-28.
    pub struct InputRequiredResult: answer, since(V2026_07_28), has_to(|result, _| result.is_valid()) {
        /// What kind of result this is; always written, as `input_required`.
        "resultType" => result_type: optional ResultType, has_to(|kind, _| *kind == ResultType::InputRequired),
            or(|| ResultType::InputRequired);
        /// The questions, each under a key that is chosen by the server.
        "inputRequests" => input_requests: optional InputRequests;
        /// What the server wants to be reminded of; it comes back as it was.
        "requestState" => request_state: optional String;
    }
}

impl InputRequiredResult {
    /// These questions, and nothing to be reminded of.
    #[must_use]
    pub fn ask(questions: impl Into<InputRequests>) -> Self {
        Self { result_type: Some(ResultType::InputRequired), input_requests: Some(questions.into()), ..Self::default() }
    }

    /// Whether it asks for anything at all.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        self.input_requests.is_some() || self.request_state.is_some()
    }
}

/// Questions, by keys that are chosen by the server. Since 2026-07-28.
pub type InputRequests = Map<InputRequest>;

/// Answers, by the keys of their questions. Which result an answer is depends on its question, see
/// [`answer`]. Since 2026-07-28.
pub type InputResponses = Map<JsonObject>;

/// Reads the answer to a question of the kind `R`; `None` if there is none under this key.
///
/// # Errors
/// What the type of the result has against it.
pub fn answer<R: Request>(responses: &InputResponses, key: &str) -> Option<Result<R::Result, serde_json::Error>> {
    responses.get(key).map(JsonObject::decode)
}

union! {
    /// A question to the user, the model or the client. Since 2026-07-28.
    pub enum InputRequest by "method" {
        /// To the model.
        CreateMessage(CreateMessageRequest) = "sampling/createMessage",
        /// To the user.
        Elicit(ElicitRequest) = "elicitation/create",
        /// To the client.
        ListRoots(ListRootsRequest) = "roots/list",
    }
}

object! {
    /// `sampling/createMessage` as a question inside of a result. Since 2026-07-28.
    pub struct CreateMessageRequest: data("method" = "sampling/createMessage"), since(V2026_07_28) {
        /// What is asked.
        "params" => params: required CreateMessageParams;
    }
}

object! {
    /// `elicitation/create` as a question inside of a result. Since 2026-07-28.
    pub struct ElicitRequest: data("method" = "elicitation/create"), since(V2026_07_28) {
        /// What is asked.
        "params" => params: required ElicitParams;
    }
}

object! {
    /// `roots/list` as a question inside of a result. Since 2026-07-28.
    pub struct ListRootsRequest: data("method" = "roots/list"), since(V2026_07_28) {
        /// What is asked.
        "params" => params: optional ListRootsParams;
    }
}

impl From<CreateMessageParams> for InputRequest {
    fn from(params: CreateMessageParams) -> Self {
        Self::CreateMessage(CreateMessageRequest::new(params))
    }
}

impl From<ElicitParams> for InputRequest {
    fn from(params: ElicitParams) -> Self {
        Self::Elicit(ElicitRequest::new(params))
    }
}

impl From<ListRootsParams> for InputRequest {
    fn from(params: ListRootsParams) -> Self {
        Self::ListRoots(ListRootsRequest { params: Some(params), ..ListRootsRequest::default() })
    }
}

#[cfg(feature = "arbitrary")]
impl super::ArbitraryAt for JsonObject {
    fn arbitrary_at(
        u: &mut arbitrary::Unstructured<'_>,
        _version: Option<crate::protocol::ProtocolVersion>,
    ) -> arbitrary::Result<Self> {
        Ok(Self::parse(crate::schema::base::arbitrary::spell_object(u, 3)?).unwrap_or_else(|_| Self::empty()))
    }

    #[allow(private_interfaces, reason = "see the trait")]
    fn arbitrary_as(
        u: &mut arbitrary::Unstructured<'_>,
        version: Option<crate::protocol::ProtocolVersion>,
        format: crate::schema::base::format::Format,
    ) -> arbitrary::Result<Self> {
        const SCHEMAS: [&str; 4] = [
            r#"{"type":"object"}"#,
            r#"{ "type": "object", "additionalProperties": false }"#,
            r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"a":{"type":"integer","maximum":9223372036854775808}},"required":["a"]}"#,
            r##"{"$defs":{"b":{"oneOf":[{"const":1e-320},{"$ref":"#/$defs/b"}]}},"properties":{"b":{"$ref":"#/$defs/b"}},"type":"object"}"##,
        ];
        let object = match format {
            crate::schema::base::format::Format::ObjectSchema => Self::parse(*u.choose(&SCHEMAS)?),
            crate::schema::base::format::Format::Answer => match u.int_in_range(0..=2)? {
                0 => Self::new(&super::At(
                    &<super::ElicitResult as super::ArbitraryAt>::arbitrary_at(u, version)?,
                    version,
                )),
                1 => Self::new(&super::At(
                    &<super::CreateMessageResult as super::ArbitraryAt>::arbitrary_at(u, version)?,
                    version,
                )),
                _ => Self::new(&super::At(
                    &<super::ListRootsResult as super::ArbitraryAt>::arbitrary_at(u, version)?,
                    version,
                )),
            },
            _ => return super::ArbitraryAt::arbitrary_at(u, version),
        };
        Ok(object.unwrap_or_else(|_| Self::empty()))
    }
}
