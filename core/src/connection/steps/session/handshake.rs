//! The legacy handshake (`initialize`) of both roles (specification, lifecycle).

use alloc::{
    boxed::Box,
    string::{String, ToString},
};

use crate::{
    connection::{
        engine::{Engine, RoleState},
        state::{
            client_params::{SHORT, kept_bytes},
            tags::{CallTag, Origin},
        },
        types::{CloseReason, Event, RequestOptions, Violation},
    },
    protocol::{Method, Phase, ProtocolVersion, VersionSet, negotiate},
    rpc::{FrameOwner, Priority, Timestamp},
    schema::{At, Encode, InitializeParams, InitializeResult, JsonLine, UnsupportedProtocolVersion},
    wire::{ErrorCode, ErrorObject, RawJson, RequestId, decode_params, encode, excerpt},
};

impl Engine {
    /// Sends `initialize` with the newest legacy revision, or with the one that the server has named.
    pub(crate) fn shake_hands(&mut self, now: Timestamp, named: Option<ProtocolVersion>) {
        let RoleState::Client { config, .. } = &self.role_state else { return };
        let config = config.clone();
        let newest = config.settings.versions.intersection(VersionSet::LEGACY).newest();
        let offered = named.or(newest).unwrap_or(ProtocolVersion::LATEST_LEGACY);
        let params =
            InitializeParams::new(offered.as_str().to_string(), config.capabilities.clone(), config.info.clone());
        let options = RequestOptions::within(config.settings.handshake_timeout);
        // If a lost session is renewed, requests of the application may wait already.
        let priority = if self.phase == Phase::Ready { Priority::Control } else { Priority::Request };
        let queued = self.start(now, priority, &Method::Initialize.into(), CallTag::Handshake, &options, &|out| {
            params.append_at(Some(offered), &mut JsonLine::new(out))
        });
        if let Err(error) = queued {
            self.end(CloseReason::BadHandshake(error.to_string()));
        }
    }

    /// Handles the result of `initialize` (clients).
    pub(crate) fn accept_server(&mut self, _now: Timestamp, result: &RawJson<'_>) -> Option<Event<'static>> {
        if result.weight() > self.limits().described_bytes() {
            self.end(CloseReason::BadHandshake("it is larger than the limit".to_string()));
            return None;
        }
        let result: InitializeResult = match result.decode() {
            Ok(result) => result,
            Err(error) => {
                self.end(CloseReason::BadHandshake(error.to_string()));
                return None;
            }
        };
        let served = self.settings().versions.intersection(VersionSet::LEGACY);
        let Some(version) = ProtocolVersion::parse(&result.protocol_version).filter(|v| served.contains(*v)) else {
            self.end(CloseReason::UnsupportedVersion(excerpt(&result.protocol_version).into_owned()));
            return None;
        };
        let renewed = self.phase == Phase::Ready;
        if renewed && self.version != Some(version) {
            self.end(CloseReason::UnsupportedVersion(excerpt(&result.protocol_version).into_owned()));
            return None;
        }
        self.version = Some(version);
        self.peer = result.capabilities.set();
        if let RoleState::Client { server, .. } = &mut self.role_state {
            *server = Some(Box::new(result));
        }
        self.phase = Phase::Ready;
        // The outbox is not checked for room, so this fails only if the frame limit is smaller than this message.
        let _ = self.push_notification(FrameOwner::None, Method::Initialized.as_str(), &|_| Ok(()));
        if renewed { Some(Event::Renewed) } else { self.session_started() }
    }

    /// Handles `initialize` (servers).
    pub(crate) fn receive_initialize(
        &mut self,
        id: &RequestId,
        params: Option<RawJson<'_>>,
        origin: Origin,
    ) -> Option<Event<'static>> {
        if self.phase == Phase::Draining {
            self.refuse_while_closing(origin, id);
            return None;
        }
        if self.phase != Phase::Opening || origin.batch.is_some() {
            let message = "Invalid request: the connection is initialized";
            self.refuse(origin, Some(id), &ErrorObject::new(ErrorCode::INVALID_REQUEST, message));
            return self.violation(Violation::SecondInitialize);
        }
        let weight = params.as_ref().map_or(0, RawJson::weight);
        let written = params.as_ref().map_or(0, |params| params.get().len());
        if weight > self.limits().described_bytes() {
            return self.refuse_oversized(origin, id);
        }
        let params: InitializeParams = match decode_params(params.as_ref()) {
            Ok(params) => params,
            Err(error) => {
                let message = String::from("Invalid params: ") + &error.to_string();
                self.refuse(origin, Some(id), &ErrorObject::invalid_params(message));
                return self.violation(Violation::BadParams(Method::Initialize));
            }
        };
        let Some(version) = negotiate(&params.protocol_version, self.settings().versions) else {
            let error = self.names_versions();
            let data = UnsupportedProtocolVersion::new(self.spoken(), excerpt(&params.protocol_version).into_owned());
            let error = match At(&data, None).to_json() {
                Ok(data) => error.with_data(data),
                Err(_) => error,
            };
            self.refuse(origin, Some(id), &error);
            return self.violation(Violation::NotSupported(Method::Initialize));
        };
        let RoleState::Server { config, client } = &mut self.role_state else { return None };
        let config = config.clone();
        let result = InitializeResult {
            instructions: config.instructions.clone(),
            ..InitializeResult::new(version.as_str().to_string(), config.capabilities.clone(), config.info.clone())
        };
        let early = self.initialized_early;
        self.peer = params.capabilities.set();
        let kept = if weight <= SHORT { weight } else { kept_bytes(&params, written) };
        *client = Some(params);
        self.described = u32::try_from(kept).unwrap_or(u32::MAX);
        self.version = Some(version);
        self.phase = if early { Phase::Ready } else { Phase::Initializing };
        // The owner is `None` because `initialize` must not be cancelled.
        self.answer(None, FrameOwner::None, |out| {
            encode::open_response(out, id);
            // This cannot fail: all fields are typed values that this revision has.
            let _ = result.append_at(Some(version), &mut JsonLine::new(out));
            out.push(b'}');
        });
        early.then_some(Event::Ready)
    }
}
