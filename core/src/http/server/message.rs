//! Parsing of the body of a request, and the choice of its era.

use alloc::{
    boxed::Box,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use http::StatusCode;

use super::{
    head::{HeaderClaims, missing_session, serves_sessions, supported},
    target::{BodyKind, Target},
};
use crate::{
    connection::{KnownClient, ServerConfig, request_weight},
    http::{HttpResponse, SessionId, response},
    protocol::{Era, Method, MirroredHeaders, MirroredValue},
    schema::{At, InitializeParams, UnsupportedProtocolVersion, keys},
    wire::{
        self, ErrorCode, ErrorObject, Malformed, MalformedKind, MalformedSubject, Message, MessageOffsets, Repetition,
        RequestId, decode_params,
    },
};

/// The parts of a parsed body that the HTTP binding needs.
pub(super) struct Parsed {
    pub(super) kind: BodyKind,
    /// The offsets of a request or a notification.
    pub(super) offsets: Option<MessageOffsets>,
    /// Whether the message is an `initialize` request, with any params.
    is_initialize: bool,
    /// Whether the message claims to be of the modern era.
    claims: bool,
    /// Whether the message is an `initialize` request whose params can be decoded.
    opens: bool,
    /// The parts of the known client's description that the message has.
    pub(super) repetition: Repetition,
    /// The bytes that the message takes besides its length while it is in flight, if it is of the modern era.
    pub(super) weight: usize,
}

impl Default for Parsed {
    fn default() -> Self {
        Self {
            kind: BodyKind::Request,
            offsets: None,
            is_initialize: false,
            claims: false,
            opens: false,
            repetition: Repetition::default(),
            weight: 0,
        }
    }
}

impl Parsed {
    /// Returns the value for a request without a body.
    pub(super) fn nothing() -> Self {
        Self { kind: BodyKind::Nothing, ..Self::default() }
    }

    /// Parses a body. `known` is the client whose description it probably has, and `declared` what the headers claim.
    pub(super) fn read(
        body: &[u8],
        config: &ServerConfig,
        known: Option<&KnownClient>,
        declared: &HeaderClaims,
    ) -> Result<Self, Box<HttpResponse>> {
        let fail = |kind: MalformedKind, id: Option<&RequestId>| {
            let error = ErrorObject::new(kind.code(), kind.message());
            Err(Box::new(response::error(StatusCode::BAD_REQUEST, id, &error)))
        };
        let text = match wire::text(body) {
            Ok(text) => text,
            Err(error) => return fail(MalformedKind::Syntax(error.valid_up_to()), None),
        };
        let (depth, mut repetition) = (config.settings.limits.json_depth, Repetition::default());
        let repeated = known.map(KnownClient::members).unwrap_or_default();
        match Message::parse_repeating(text, depth, repeated, &mut repetition) {
            Ok(message) => Ok(Self::of(text, message, repetition, declared)),
            Err(Malformed { kind: MalformedKind::Array, .. }) => Ok(Self { kind: BodyKind::Batch, ..Self::default() }),
            Err(Malformed { kind, subject: MalformedSubject::Request(id) }) => fail(kind, Some(&id)),
            Err(Malformed { kind, .. }) => fail(kind, None),
        }
    }

    fn of(text: &str, message: Message<'_>, repetition: Repetition, declared: &HeaderClaims) -> Self {
        let parsed = match &message {
            Message::Request { method, params, meta, .. } => {
                // The description of a client contains its revision.
                let claims = repetition.is_found
                    || meta.as_ref().is_some_and(|meta| meta.member(keys::PROTOCOL_VERSION).is_some());
                let is_initialize = Method::parse(method) == Some(Method::Initialize);
                let opens = is_initialize && decode_params::<InitializeParams>(params.as_ref()).is_ok();
                let weight = if claims || !declared.is_legacy() { request_weight(&message) } else { 0 };
                Self { is_initialize, claims, opens, weight, ..Self::default() }
            }
            Message::Notification { .. } => Self { kind: BodyKind::Notification, ..Self::default() },
            Message::Response { .. } | Message::Error { .. } => Self { kind: BodyKind::Response, ..Self::default() },
        };
        Self { offsets: MessageOffsets::of(text, message), repetition, ..parsed }
    }

    fn fail<T>(&self, status: StatusCode, error: &ErrorObject) -> Result<T, Box<HttpResponse>> {
        let id = self.offsets.as_ref().and_then(MessageOffsets::id);
        Err(Box::new(response::error(status, id, error)))
    }

    /// Determines the era of a message, and its target.
    pub(super) fn target(
        &self,
        session: Option<SessionId>,
        declared: HeaderClaims,
        headers: Option<Arc<MirroredHeaders>>,
        config: &ServerConfig,
    ) -> Result<Target, Box<HttpResponse>> {
        let served = config.settings.versions;
        let legacy = serves_sessions(config);
        let modern = served.iter().any(|version| version.era() == Era::Modern);
        let is_modern = match &declared {
            HeaderClaims::Unknown(_) => modern,
            HeaderClaims::Version(version) if version.era() == Era::Modern => modern,
            HeaderClaims::Version(_) => modern && self.claims,
            HeaderClaims::Nothing => modern && (self.claims || !legacy),
        };
        if is_modern {
            return self.modern(declared, headers, config);
        }
        supported(&declared, config)?;
        match session {
            Some(id) => Ok(Target::Message(id)),
            None if self.opens => Ok(Target::Initialize),
            None if self.is_initialize => {
                self.fail(StatusCode::OK, &ErrorObject::invalid_params("Invalid params: these do not open a session"))
            }
            None => Err(missing_session(self.offsets.as_ref().and_then(MessageOffsets::id))),
        }
    }

    fn modern(
        &self,
        declared: HeaderClaims,
        headers: Option<Arc<MirroredHeaders>>,
        config: &ServerConfig,
    ) -> Result<Target, Box<HttpResponse>> {
        let invalid = |message: &'static str| {
            self.fail(StatusCode::BAD_REQUEST, &ErrorObject::new(ErrorCode::INVALID_REQUEST, message))
        };
        let supported = || config.settings.versions.iter().rev().map(|version| version.as_str().to_string());
        match self.kind {
            BodyKind::Batch => return invalid("Invalid request: this revision does not support batches"),
            BodyKind::Response => return invalid("Invalid request: a client of this revision sends no responses"),
            BodyKind::Nothing | BodyKind::Request | BodyKind::Notification => {}
        }
        match declared {
            HeaderClaims::Nothing => {
                let supported = supported().collect::<Vec<_>>().join(", ");
                let message = alloc::format!(
                    "Header mismatch: MCP-Protocol-Version is missing; this server supports {supported}"
                );
                self.fail(StatusCode::BAD_REQUEST, &ErrorObject::new(ErrorCode::HEADER_MISMATCH, message))
            }
            // The header is the only place in which a notification declares its revision.
            HeaderClaims::Unknown(value) if self.kind == BodyKind::Notification => {
                let requested = match value {
                    MirroredValue::Text(text) => text.into_owned(),
                    MirroredValue::Absent | MirroredValue::Invalid => String::new(),
                };
                let data = UnsupportedProtocolVersion::new(supported().collect::<Vec<_>>(), requested);
                let error = ErrorObject::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version");
                let error = At(&data, None).to_json().map_or(error.clone(), |data| error.with_data(data));
                self.fail(StatusCode::BAD_REQUEST, &error)
            }
            HeaderClaims::Unknown(_) | HeaderClaims::Version(_) => {
                let mut headers = headers.unwrap_or_default();
                Arc::make_mut(&mut headers).version = declared.mirrored();
                Ok(Target::Modern(Some(headers)))
            }
        }
    }
}
