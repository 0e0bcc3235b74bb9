//! `input_required` results, after which the client sends the request again with the responses. Since 2026-07-28.
//!
//! Spec: [multi round-trip requests](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr)

use alloc::string::String;

use super::{CreateMessageParams, ElicitParams, ListRootsParams, Map, Request, ResultType};
use crate::{schema::base::macros::*, wire::JsonObject};

object! {
    /// A result with input requests. It has at least one of its two members. Since 2026-07-28.
    pub struct InputRequiredResult: answer, since(V2026_07_28), has_to(|result, _| result.is_valid()) {
        /// The kind of the result; always written, as `input_required`.
        "resultType" => result_type: optional ResultType, has_to(|kind, _| *kind == ResultType::InputRequired),
            or(|| ResultType::InputRequired);
        /// The input requests, each under a key that the server chooses.
        "inputRequests" => input_requests: optional InputRequests;
        /// The state of the server, which the client returns unchanged.
        "requestState" => request_state: optional String;
    }
}

impl InputRequiredResult {
    /// Creates a result with these input requests and without state.
    #[must_use]
    pub fn new(input_requests: impl Into<InputRequests>) -> Self {
        Self {
            result_type: Some(ResultType::InputRequired),
            input_requests: Some(input_requests.into()),
            ..Self::default()
        }
    }

    /// Returns whether the result has input requests or a state.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        self.input_requests.is_some() || self.request_state.is_some()
    }
}

/// Input requests, by keys that the server chooses. Since 2026-07-28.
pub type InputRequests = Map<InputRequest>;

/// The responses, by the keys of their input requests. The type of a response depends on its request, see [`answer`].
/// Since 2026-07-28.
pub type InputResponses = Map<JsonObject>;

/// Decodes the response to the input request `key` of the kind `R`. Returns `None` if there is none.
///
/// # Errors
/// Returns an error if the response does not fit the type of the result.
pub fn answer<R: Request>(responses: &InputResponses, key: &str) -> Option<Result<R::Result, serde_json::Error>> {
    responses.get(key).map(JsonObject::decode)
}

union! {
    /// An input request to the user, the model or the client. Since 2026-07-28.
    pub enum InputRequest by "method" {
        /// A request to the model.
        CreateMessage(CreateMessageRequest) = "sampling/createMessage",
        /// A request to the user.
        Elicit(ElicitRequest) = "elicitation/create",
        /// A request to the client.
        ListRoots(ListRootsRequest) = "roots/list",
    }
}

object! {
    /// `sampling/createMessage` as an input request. Since 2026-07-28.
    pub struct CreateMessageRequest: data("method" = "sampling/createMessage"), since(V2026_07_28) {
        /// The params of the request.
        "params" => params: required CreateMessageParams;
    }
}

object! {
    /// `elicitation/create` as an input request. Since 2026-07-28.
    pub struct ElicitRequest: data("method" = "elicitation/create"), since(V2026_07_28) {
        /// The params of the request.
        "params" => params: required ElicitParams;
    }
}

object! {
    /// `roots/list` as an input request. Since 2026-07-28.
    pub struct ListRootsRequest: data("method" = "roots/list"), since(V2026_07_28) {
        /// The params of the request.
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

#[cfg(all(test, feature = "arbitrary"))]
mod tests {
    use alloc::{collections::BTreeSet, string::String, vec::Vec};

    use arbitrary::Unstructured;

    use super::*;
    use crate::{
        protocol::ProtocolVersion,
        schema::{ArbitraryAt as _, base::format::Format},
    };

    /// Returns the names of members that random objects of this format have.
    fn members(format: Format) -> Vec<BTreeSet<String>> {
        let object = |seed: u8| {
            let noise: Vec<u8> = (0..2048_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8 ^ seed).collect();
            let version = Some(ProtocolVersion::V2026_07_28);
            let object = JsonObject::arbitrary_as(&mut Unstructured::new(&noise), version, format).ok()?;
            let members: serde_json::Map<_, _> = serde_json::from_str(object.get()).expect("an object");
            Some(members.into_iter().map(|(name, _)| name).collect())
        };
        (0..=255).filter_map(object).collect()
    }

    #[test]
    fn random_objects_have_their_format() {
        let answers = members(Format::Answer);
        for name in ["action", "role", "roots"] {
            assert!(answers.iter().any(|answer| answer.contains(name)), "{name}");
        }
        let is_answer = |answer: &BTreeSet<_>| ["action", "role", "roots"].iter().any(|name| answer.contains(*name));
        assert!(answers.iter().all(|answer| answer.is_empty() || is_answer(answer)), "{answers:?}");
        let schemas = members(Format::ObjectSchema);
        assert!(schemas.len() > 100 && schemas.iter().all(|schema| schema.contains("type")));
    }
}
