//! Parsing and checks of the head of a request.

use alloc::{boxed::Box, string::ToString, sync::Arc, vec::Vec};

use http::{HeaderMap, HeaderName, HeaderValue, Method as Verb, StatusCode, header, request::Parts};

use super::{
    options::EndpointOptions,
    target::{Target, TransportKind},
};
use crate::{
    connection::ServerConfig,
    http::{
        HttpResponse, SessionId,
        fields::{Field, Fields, param},
        media,
        names::{EVENTS, JSON},
        response::{self, refusal},
        session_id::{PARAMETER, parameter},
    },
    protocol::{Era, Method, MirroredHeaders, MirroredValue, ProtocolVersion, VersionSet},
    wire::{ErrorCode, ErrorObject, RequestId},
};

/// The revision that the header of a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HeaderClaims {
    Nothing,
    Version(ProtocolVersion),
    /// An unknown revision, with the value of the header.
    Unknown(MirroredValue),
}

impl HeaderClaims {
    fn by(field: Field<'_>) -> Self {
        let value = match field {
            Field::Absent => return Self::Nothing,
            Field::Once(value) => value.to_str().ok(),
            Field::DuplicateHeader => None,
        };
        let version = value.and_then(|value| ProtocolVersion::parse(value.trim_matches([' ', '\t'])));
        version.map_or_else(|| Self::Unknown(field.mirrored()), Self::Version)
    }

    /// Returns whether the header names a legacy revision.
    pub(super) fn is_legacy(&self) -> bool {
        matches!(self, Self::Version(version) if version.era() == Era::Legacy)
    }

    /// Returns the value of the header.
    pub(super) fn mirrored(self) -> MirroredValue {
        match self {
            Self::Nothing => MirroredValue::Absent,
            Self::Version(version) => MirroredValue::Text(version.as_str().into()),
            Self::Unknown(value) => value,
        }
    }
}

/// The kind of a request, as far as its head determines it.
#[derive(Clone, Debug)]
pub(super) enum RequestKind {
    /// A message of either era.
    Post {
        session: Option<SessionId>,
        declared: HeaderClaims,
        /// The headers that repeat parts of the body, if there are any. The revision is added later.
        headers: Option<Arc<MirroredHeaders>>,
    },
    /// A request without a body.
    Bare(Target),
    /// A message over the transport of 2024-11-05.
    OldPost(SessionId),
}

impl RequestKind {
    /// Determines the kind of a request, and checks its headers.
    pub(super) fn of(
        transport: TransportKind,
        head: &Parts,
        fields: &Fields<'_>,
        config: &ServerConfig,
    ) -> Result<Self, Box<HttpResponse>> {
        let legacy = serves_sessions(config);
        Ok(match (transport, &head.method) {
            (TransportKind::Mcp, &Verb::POST) => post(head, fields, config)?,
            (TransportKind::Mcp, &Verb::GET) if legacy => Self::Bare(listen(head, fields, config)?),
            (TransportKind::Mcp, &Verb::DELETE) if legacy => {
                let id = session(fields.session)?.ok_or_else(|| missing_session(None))?;
                supported(&HeaderClaims::by(fields.version), config)?;
                Self::Bare(Target::End(id))
            }
            (TransportKind::Mcp, _) => {
                return Err(Box::new(response::not_allowed(if legacy { "GET, POST, DELETE" } else { "POST" })));
            }
            (TransportKind::OldStream, &Verb::GET) => {
                let is_cross_site = head.headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
                if is_cross_site && !head.headers.contains_key(header::ORIGIN) {
                    // A page of another site can make a browser send this GET without an `Origin`, and the request
                    // begins a session.
                    return Err(Box::new(refusal(
                        StatusCode::FORBIDDEN,
                        "this is a request of a page of another site",
                    )));
                }
                accepts(&head.headers, [EVENTS])?;
                Self::Bare(Target::OldStream)
            }
            (TransportKind::OldStream, _) => return Err(Box::new(response::not_allowed("GET"))),
            (TransportKind::OldMessages, &Verb::POST) => {
                json_body(&head.headers, fields, config)?;
                let id = parameter(head.uri.query(), PARAMETER).ok_or_else(|| missing_session(None))?;
                Self::OldPost(SessionId::parse(id).ok_or_else(|| Box::new(response::no_session()))?)
            }
            (TransportKind::OldMessages, _) => return Err(Box::new(response::not_allowed("POST"))),
        })
    }

    /// Returns whether the head declares a revision of the modern era.
    pub(super) const fn is_modern(&self) -> bool {
        matches!(self, Self::Post { declared: HeaderClaims::Version(version), .. } if matches!(version.era(), Era::Modern))
    }

    /// Returns the session that must exist for the request. If the head declares no revision, only the body shows
    /// whether the message belongs to the session.
    pub(super) fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Bare(target) => target.session(),
            Self::OldPost(id) => Some(id),
            Self::Post { session, declared: HeaderClaims::Nothing, .. } => session.as_ref(),
            Self::Post { session, declared: HeaderClaims::Version(version), .. } if version.era() == Era::Legacy => {
                session.as_ref()
            }
            Self::Post { .. } => None,
        }
    }
}

/// Checks the size, the policy and the framing of a request, and returns the part of the endpoint that its path names.
pub(super) fn transport(
    options: &EndpointOptions,
    config: &ServerConfig,
    head: &Parts,
    fields: &Fields<'_>,
) -> Result<TransportKind, Box<HttpResponse>> {
    let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
    if target > options.limits.head_bytes {
        return refuse(StatusCode::URI_TOO_LONG, "The target is larger than the limit");
    }
    if fields.weight.saturating_add(target) > options.limits.head_bytes {
        return refuse(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "The headers are larger than the limit");
    }
    if let Err((status, why)) = options.policy.check(&head.uri, fields) {
        return refuse(status, why);
    }
    if fields.transfer_encoding.is_there() && fields.content_length.is_there() {
        // A proxy may have used the other header, and would treat the rest as another request (request smuggling).
        return refuse(StatusCode::BAD_REQUEST, "Content-Length and Transfer-Encoding are both present");
    }
    let transport = options.paths.transport(head.uri.path());
    match transport.filter(|transport| serves_sessions(config) || *transport == TransportKind::Mcp) {
        Some(transport) => Ok(transport),
        None => refuse(StatusCode::NOT_FOUND, "Not found"),
    }
}

pub(super) fn serves_sessions(config: &ServerConfig) -> bool {
    !config.settings.versions.intersection(VersionSet::LEGACY).is_empty()
}

pub(super) fn refuse<T>(status: StatusCode, why: &'static str) -> Result<T, Box<HttpResponse>> {
    Err(Box::new(refusal(status, why)))
}

pub(super) fn too_large<T>() -> Result<T, Box<HttpResponse>> {
    refuse(StatusCode::PAYLOAD_TOO_LARGE, "The body is larger than the limit")
}

/// Returns a 400 response, with the id of the request if the body was read and has one.
pub(super) fn missing_session(id: Option<&RequestId>) -> Box<HttpResponse> {
    let why = "Mcp-Session-Id is missing: a session begins with initialize";
    Box::new(response::error(StatusCode::BAD_REQUEST, id, &ErrorObject::new(ErrorCode::INVALID_REQUEST, why)))
}

fn session(field: Field<'_>) -> Result<Option<SessionId>, Box<HttpResponse>> {
    let Ok(id) = field.single() else {
        return refuse(StatusCode::BAD_REQUEST, "Mcp-Session-Id occurs twice");
    };
    let Some(id) = id else { return Ok(None) };
    match SessionId::from_bytes(id.as_bytes()) {
        Some(id) => Ok(Some(id)),
        // The server creates no ids of this form, so there is no such session.
        None => Err(Box::new(response::no_session())),
    }
}

/// Checks that a request of a session declares a legacy revision that is served, or none.
pub(super) fn supported(declared: &HeaderClaims, config: &ServerConfig) -> Result<(), Box<HttpResponse>> {
    match declared {
        HeaderClaims::Nothing => Ok(()),
        HeaderClaims::Version(version)
            if version.era() == Era::Legacy && config.settings.versions.contains(*version) =>
        {
            Ok(())
        }
        HeaderClaims::Version(_) | HeaderClaims::Unknown(_) => {
            refuse(StatusCode::BAD_REQUEST, "Unsupported protocol version in MCP-Protocol-Version")
        }
    }
}

fn accepts<const N: usize>(headers: &HeaderMap, types: [&str; N]) -> Result<(), Box<HttpResponse>> {
    if media::accepts(headers, types) {
        return Ok(());
    }
    let why = alloc::format!("The client has to accept {}", types.join(" and "));
    Err(Box::new(refusal(StatusCode::NOT_ACCEPTABLE, why)))
}

/// Checks the headers that describe the body, before it is read.
fn json_body(headers: &HeaderMap, fields: &Fields<'_>, config: &ServerConfig) -> Result<(), Box<HttpResponse>> {
    let is_json = fields.content_type.single().ok().flatten().is_some_and(|value| media::names(value, JSON));
    let is_plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    let is_encoded =
        fields.content_encoding.is_there() && !headers.get_all(header::CONTENT_ENCODING).iter().all(is_plain);
    if !is_json || is_encoded {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "The body has to be application/json");
    }
    match fields.content_length.single() {
        Ok(None) => Ok(()),
        Ok(Some(length)) => match length.to_str().ok().and_then(|digits| digits.parse::<u64>().ok()) {
            Some(length) if length > config.settings.limits.frame_bytes as u64 => too_large(),
            Some(_) => Ok(()),
            None => refuse(StatusCode::BAD_REQUEST, "Content-Length is malformed"),
        },
        Err(_) => refuse(StatusCode::BAD_REQUEST, "Content-Length occurs twice"),
    }
}

/// The `Accept` header of nearly all clients, since the specification requires both types.
const USUAL_ACCEPT: &str = "application/json, text/event-stream";

fn post(head: &Parts, fields: &Fields<'_>, config: &ServerConfig) -> Result<RequestKind, Box<HttpResponse>> {
    let headers = &head.headers;
    json_body(headers, fields, config)?;
    if !matches!(fields.accept, Field::Once(value) if value == USUAL_ACCEPT) {
        accepts(headers, [JSON, EVENTS])?;
    }
    let declared = HeaderClaims::by(fields.version);
    // The modern era has no sessions, so the header is ignored.
    let session = match declared {
        HeaderClaims::Unknown(_) => None,
        HeaderClaims::Version(version) if version.era() == Era::Modern => None,
        HeaderClaims::Nothing | HeaderClaims::Version(_) => session(fields.session)?,
    };
    let is_repeating = fields.has_params || fields.method.is_there() || fields.name.is_there();
    let headers = is_repeating.then(|| {
        let param = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((param(name.as_str())?.to_string(), MirroredValue::from(Some(value.as_bytes()))))
        };
        let params = if fields.has_params { headers.iter().filter_map(param).collect() } else { Vec::new() };
        let (method, name) = (method(fields.method), fields.name.mirrored());
        Arc::new(MirroredHeaders { version: MirroredValue::Absent, method, name, params })
    });
    Ok(RequestKind::Post { session, declared, headers })
}

/// Returns the value of `Mcp-Method`, without a copy if the specification defines the method.
fn method(field: Field<'_>) -> MirroredValue {
    let known = field.single().ok().flatten().and_then(|value| Method::parse(value.to_str().ok()?));
    known.map_or_else(|| field.mirrored(), |known| MirroredValue::Text(known.as_str().into()))
}

fn listen(head: &Parts, fields: &Fields<'_>, config: &ServerConfig) -> Result<Target, Box<HttpResponse>> {
    accepts(&head.headers, [EVENTS])?;
    let id = session(fields.session)?.ok_or_else(|| missing_session(None))?;
    supported(&HeaderClaims::by(fields.version), config)?;
    let Ok(last) = fields.last_event.single() else {
        return refuse(StatusCode::BAD_REQUEST, "Last-Event-ID occurs twice");
    };
    // A value that is not text is not an event id of the server either.
    let last = last.map(|last| last.to_str().unwrap_or_default().to_string());
    Ok(Target::Listen(id, last))
}
