//! Requests of the modern era (2026-07-28) on the server's side. Each is independent and carries its context in
//! `_meta`.

use alloc::{
    boxed::Box,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use crate::{
    connection::{
        engine::{Engine, RoleState},
        state::{
            stateless_request::{
                ClientDescription, ResultHead, ResultRules, SMALL_META, StatelessRequest, described_of,
            },
            tags::{Origin, RequestTag, Token},
        },
        types::{Event, SendError, Violation},
    },
    protocol::{
        Era, HeaderMismatch, Method, MethodKind, MethodName, MethodRefusal, MirroredHeaders, Phase, ProtocolVersion,
        Role, VersionSet, check,
    },
    rpc::FrameOwner,
    schema::{
        At, ClientCapabilities, DiscoverResult, Encode, JsonLine, MissingRequiredClientCapability, TraceContext,
        UnsupportedProtocolVersion, keys,
    },
    wire::{ErrorCode, ErrorObject, RawJson, Repetition, RequestId, encode, excerpt},
};

/// The error response to a rejected request, and the violation to report.
struct Rejection {
    error: ErrorObject,
    violation: Violation<'static>,
}

impl From<HeaderMismatch> for Rejection {
    fn from(mismatch: HeaderMismatch) -> Self {
        Self { error: header_mismatch(&mismatch), violation: Violation::HeaderMismatch }
    }
}

/// Returns the error -32020 for headers that contradict the body.
pub(crate) fn header_mismatch(mismatch: &HeaderMismatch) -> ErrorObject {
    ErrorObject::new(ErrorCode::HEADER_MISMATCH, mismatch.to_string())
}

impl Engine {
    /// Returns whether this server supports the modern era and the request is of it, by its `_meta` or by the headers
    /// of its frame.
    pub(crate) fn is_modern(&self, meta: Option<&RawJson<'_>>, repetition: Repetition) -> bool {
        let claims = || repetition.is_found || meta.is_some_and(|meta| meta.member(keys::PROTOCOL_VERSION).is_some());
        self.is_modern_server() && (self.headers().is_some() || claims())
    }

    /// Returns the headers of the frame that is being received.
    fn headers(&self) -> Option<&MirroredHeaders> {
        self.arrival.as_ref()?.headers.as_deref()
    }

    /// Drops the checked headers of the frame, unless the method is `tools/call`: the arguments that such a request
    /// repeats are checked once its tool is known.
    fn drop_headers(&mut self, method: Option<Method>) {
        if method != Some(Method::CallTool)
            && let Some(arrival) = self.arrival.as_mut().filter(|arrival| arrival.headers.is_some())
        {
            Arc::make_mut(arrival).headers = None;
        }
    }

    /// Returns whether this is a server that supports the modern era.
    pub(crate) fn is_modern_server(&self) -> bool {
        self.role() == Role::Server && self.serves_modern()
    }

    pub(crate) fn serves_modern(&self) -> bool {
        !self.settings().versions.intersection(VersionSet::MODERN).is_empty()
    }

    /// Returns whether there is a session or one can be opened.
    pub(crate) fn supports_legacy(&self) -> bool {
        self.version.is_some() || !self.settings().versions.intersection(VersionSet::LEGACY).is_empty()
    }

    /// Returns the revisions that this side supports, newest first.
    pub(crate) fn spoken(&self) -> Vec<String> {
        self.settings().versions.iter().rev().map(|version| version.as_str().to_string()).collect()
    }

    /// Returns the error for a request that fits neither era. Its message lists the supported revisions, to help
    /// debugging.
    pub(crate) fn names_versions(&self) -> ErrorObject {
        let versions = self.spoken().join(", ");
        ErrorObject::invalid_params(alloc::format!("Unsupported protocol version: this server supports {versions}"))
    }

    /// Handles a request of the modern era. If several checks fail, their order decides which error the client gets.
    pub(crate) fn receive_modern<'a>(
        &mut self,
        id: RequestId,
        method: MethodName<'a>,
        params: Option<RawJson<'a>>,
        meta: Option<&RawJson<'a>>,
        origin: Origin,
    ) -> Option<Event<'a>> {
        if self.phase >= Phase::Draining {
            self.refuse_while_closing(origin, &id);
            return None;
        }
        let method = method.in_era(Era::Modern);
        let token = meta.and_then(|meta| meta.deciding_member(keys::PROGRESS_TOKEN));
        let known = meta
            .filter(|_| origin.repetition.is_found)
            .and_then(|meta| self.modern.repeated.client(meta, token.as_ref()));
        let (known, known_weight) = known.unzip();
        let has_others = known.is_none() || origin.repetition.has_others;
        // Large parts of `_meta` are retained while the request is in flight.
        let weight = known_weight.filter(|_| !has_others).or_else(|| meta.map(RawJson::weight)).unwrap_or_default();
        if weight > self.limits().described_bytes() {
            return self.refuse_oversized(origin, &id);
        }
        let described = meta.map_or(0, |meta| described_of(meta, weight));
        let (modern, meta) = match self.read_modern(&method, params.as_ref(), meta, known, has_others) {
            Ok(read) => read,
            Err(Rejection { error, violation }) => {
                self.refuse(origin, Some(&id), &error);
                return self.violation(violation);
            }
        };
        if method.known() == Some(Method::Discover) {
            self.answer_discover(&id, modern.client.version, origin);
            return None;
        }
        let described = described.saturating_add(modern.client.icon_bytes());
        let origin = Origin { bytes: origin.bytes.saturating_add(described), ..origin };
        // A binding that has headers passes one request to each connection.
        if !origin.repetition.is_found && self.headers().is_none() && weight <= SMALL_META {
            self.modern.repeated.note_client(meta, &modern.client);
        }
        self.drop_headers(method.known());
        if self.modern.result_head.is_none() {
            self.modern.result_head = self.role_state.server_info().and_then(|server| ResultHead::new(server).ok());
        }
        let token = Token::of(token.as_ref().map(RawJson::get), &id);
        let trace = if has_others { TraceContext::of(meta).map(Box::new) } else { None };
        let StatelessRequest { client, log_level } = modern;
        let tag =
            RequestTag { stateless: Some(client), log_level, trace, ..RequestTag::new(method.known(), token, origin) };
        if method.known() == Some(Method::Listen) {
            return self.receive_listen(id, params, tag, (origin, described));
        }
        match self.admit(id, tag, origin) {
            Ok(key) => Some(Event::Request { key, method, params }),
            Err(violation) => self.violation(violation),
        }
    }

    /// Reads and checks `_meta` and the headers. Returns the rejection if a check fails. `known` is the description of
    /// the client if it was decoded before, and `has_others` whether `_meta` may have other members besides it and a
    /// progress token.
    fn read_modern<'m, 'a>(
        &self,
        method: &MethodName<'_>,
        params: Option<&RawJson<'_>>,
        meta: Option<&'m RawJson<'a>>,
        known_client: Option<Arc<ClientDescription>>,
        has_others: bool,
    ) -> Result<(StatelessRequest, &'m RawJson<'a>), Rejection> {
        let known = method.known();
        let bad =
            |message: String| Rejection { error: ErrorObject::invalid_params(message), violation: Violation::BadMeta };
        let field = |key: &str| bad(alloc::format!("Invalid params: _meta needs {key}"));
        let meta = meta.ok_or_else(|| field(keys::PROTOCOL_VERSION))?;
        let headers = self.headers();
        let client = match known_client {
            // Its revision was checked before.
            Some(client) => {
                if let Some(headers) = headers {
                    headers.version.repeats("MCP-Protocol-Version", client.version.as_str())?;
                }
                client
            }
            None => self.read_client(meta, field)?,
        };
        let version = client.version;
        if let Some(headers) = headers {
            headers.method.repeats("Mcp-Method", method.as_str())?;
        }
        if let Some(known) = known {
            if known.kind() == MethodKind::Notification {
                let error =
                    ErrorObject::new(ErrorCode::INVALID_REQUEST, "Invalid request: this method is a notification");
                return Err(Rejection { error, violation: Violation::WrongKind(known) });
            }
            let (local, remote) = (self.local, client.declared);
            let declared = move |role| if role == Role::Server { local } else { remote };
            match check(known, version, Role::Client, declared) {
                Ok(()) => {}
                Err(MethodRefusal::Unshared(extension)) => {
                    let error = MissingRequiredClientCapability::error([extension].into_iter().collect());
                    return Err(Rejection { error, violation: Violation::Undeclared(extension) });
                }
                Err(MethodRefusal::WrongDirection | MethodRefusal::NotInRevision | MethodRefusal::Undeclared(_)) => {
                    let error = ErrorObject::method_not_found(known.as_str());
                    return Err(Rejection { error, violation: Violation::NotSupported(known) });
                }
            }
        }
        if let (Some(headers), Some(param)) = (headers, known.and_then(Method::mirrored_param))
            && let Some(name) = params.and_then(|params| params.member(param)?.into_text())
        {
            headers.name.encodes("Mcp-Name", &name)?;
        }
        let log_level = match if has_others { meta.member(keys::LOG_LEVEL) } else { None } {
            None => None,
            Some(level) => {
                let level = level.decode().map_err(|_| bad(alloc::format!("Invalid params: {}", keys::LOG_LEVEL)))?;
                Some(level)
            }
        };
        Ok((StatelessRequest { client, log_level }, meta))
    }

    /// Reads the description of a client in `_meta`, and checks its revision, also against the header. `missing`
    /// returns the rejection for a member that is missing or malformed.
    fn read_client(
        &self,
        meta: &RawJson<'_>,
        missing: impl Fn(&str) -> Rejection,
    ) -> Result<Arc<ClientDescription>, Rejection> {
        let requested = meta.member(keys::PROTOCOL_VERSION);
        let requested = requested.as_ref().and_then(|version| RawJson::trusted(version.get()).into_text());
        let requested = requested.ok_or_else(|| missing(keys::PROTOCOL_VERSION))?;
        let capabilities: ClientCapabilities = meta
            .member(keys::CLIENT_CAPABILITIES)
            .and_then(|capabilities| capabilities.decode().ok())
            .ok_or_else(|| missing(keys::CLIENT_CAPABILITIES))?;
        if let Some(headers) = self.headers() {
            headers.version.repeats("MCP-Protocol-Version", &requested)?;
        }
        let served = self.settings().versions;
        let Some(version) = ProtocolVersion::parse(&requested)
            .filter(|version| served.intersection(VersionSet::MODERN).contains(*version))
        else {
            let error = self.unsupported_version(&requested);
            return Err(Rejection { error, violation: Violation::UnsupportedVersion });
        };
        Ok(Arc::new(ClientDescription::new(version, capabilities, meta)))
    }

    /// Returns the error -32022 with the supported revisions.
    fn unsupported_version(&self, requested: &str) -> ErrorObject {
        let error = ErrorObject::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version");
        match At(&UnsupportedProtocolVersion::new(self.spoken(), excerpt(requested).into_owned()), None).to_json() {
            Ok(data) => error.with_data(data),
            Err(_) => error,
        }
    }

    fn answer_discover(&mut self, id: &RequestId, version: ProtocolVersion, origin: Origin) {
        let RoleState::Server { config, .. } = &self.role_state else { return };
        let config = config.clone();
        let result = DiscoverResult {
            instructions: config.instructions.clone(),
            ..DiscoverResult::new(self.spoken(), config.capabilities.clone())
        };
        self.answer(origin.batch, FrameOwner::Answered(None), |out| {
            encode::open_response(out, id);
            // This cannot fail: all fields are typed values that this revision has.
            let _ = ResultHead::new(&config.info).map_err(SendError::from).and_then(|head| {
                let rules = ResultRules { method: Some(Method::Discover), has_tasks: false };
                rules.append(out, &head, &|out| result.append_at(Some(version), &mut JsonLine::new(out)))
            });
            out.push(b'}');
        });
    }
}
